//! A client of Prometheus, or of any server with its HTTP API: Thanos, Mimir, VictoriaMetrics.
//!
//! It is read-only; every query has a deadline and needs a slot of a semaphore. Identical concurrent queries are sent
//! once, so that a storm of alerts does not become a storm of queries.

mod answer;
mod api;
mod chunks;
mod config;
mod error;
mod formula;
mod matrix;
mod memory;
mod metric_names;
mod partial;
mod progress;
mod quantile;
mod rules;
mod status;
mod stream;
mod targets;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use moka::future::Cache;
use prometheus_client::metrics::histogram::Histogram;
use reqwest::header::{ACCEPT_ENCODING, HeaderValue};
use tokio::sync::{Semaphore, SemaphorePermit};

use knowledge::alert::{Alert, active, common_labels};

use chunks::Limits;
use memory::AnswerMemory;

pub use answer::{Row, Series};
pub use config::Config;
pub use config::headers;
pub use error::PromError;
pub use formula::{Formula, PartAnswer, QueryPart};
pub use matrix::{MatrixEnvelope, Raw, read_matrix};
pub use memory::Answer;
pub use metric_names::MetricNames;
pub use partial::{MissingPart, PartialAnswers, missing_part, store_named};
pub use progress::QueryProgress;
pub use rules::{AlertingRule, FiringAlert};
pub use status::BuildInfo;
pub use stream::Stream;
pub use targets::ActiveTarget;

/// The time for which a cached answer is shared with other diagnoses of the same moment.
const SHARED_FOR: Duration = Duration::from_secs(5);
/// The memory of cached instant answers, and that of cached range answers, in KiB.
const SHARED_KIB: u64 = 8 << 10;
/// Size from which an answer is not cached, in KiB: it is shared only with queries that wait for it.
const LARGE_KIB: u32 = 1 << 10;
/// Bytes of JSON that are read for each byte of memory that one answer may take. A sample has at most twice its memory as
/// JSON, so that the memory ends an answer first, unless it has much that is left out.
const JSON_BYTES: usize = 4;
/// The memory of the answer to a check, in bytes: a check does not fail because diagnoses use the memory of all answers.
const CHECK_BYTES: usize = 1 << 20;

/// Returns the first entry whose labels all firing alerts carry, else the first entry.
pub fn choose<'a, T>(several: &'a [(T, BTreeMap<String, String>)], alerts: &[Alert]) -> Option<&'a T> {
    let common = common_labels(&active(alerts));
    several
        .iter()
        .find(|(_, labels)| labels.iter().all(|(name, value)| common.get(name) == Some(value)))
        .or_else(|| several.first())
        .map(|(one, _)| one)
}

/// The cache key of an instant query: PromQL and evaluation time in unix milliseconds.
type Key = (String, i64);

/// The time range and the step of a range query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    /// The start, included.
    pub from: Timestamp,
    /// The end, included.
    pub to: Timestamp,
    /// Seconds between two samples, at least 1.
    pub step_seconds: i64,
}

/// A client of one Prometheus.
#[derive(Clone)]
pub struct Prometheus {
    /// The configured name.
    pub name: String,
    /// The configured address, for links.
    pub url: String,
    /// The address that requests are sent to, including a password.
    base: String,
    http: reqwest::Client,
    client: prometheus_http_query::Client,
    running: Arc<Semaphore>,
    concurrency: usize,
    shared: Cache<Key, Arc<Answer<Row>>>,
    ranges: Cache<(String, Range), Arc<Answer<Series>>>,
    seconds: Option<Histogram>,
    progress: Option<Arc<QueryProgress>>,
    memory: AnswerMemory,
    partial: PartialAnswers,
    /// True if there is none: every query fails at once with [`PromError::NotAsked`].
    is_absent: bool,
}

fn cache<K: Hash + Eq + Send + Sync + 'static, T: Send + Sync + 'static>() -> Cache<K, Arc<Answer<T>>> {
    let weight = |_: &K, answer: &Arc<Answer<T>>| answer.units().max(1);
    Cache::builder().max_capacity(SHARED_KIB).weigher(weight).time_to_live(SHARED_FOR).build()
}

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Prometheus {
    /// Creates a client; nothing is sent.
    ///
    /// # Errors
    /// If the address or a header is malformed, or a token file cannot be read.
    pub fn new(config: &Config) -> Result<Self, PromError> {
        let url = config.url.trim_end_matches('/').to_owned();
        let mut headers = config.headers()?;
        // Compression costs Prometheus more time than it saves on the network.
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(Duration::from_secs(3))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("llm-diagnose/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| PromError::Configuration(format!("cannot prepare the HTTP client: {e}")))?;
        let client = prometheus_http_query::Client::from(http.clone(), &url)
            .map_err(|e| PromError::Configuration(format!("`{}` is no Prometheus address: {e}", config.shown_url())))?;
        Ok(Self {
            name: config.name.clone(),
            url: config.shown_url(),
            base: url,
            http,
            client,
            running: Arc::new(Semaphore::new(config.concurrency)),
            concurrency: config.concurrency,
            shared: cache(),
            ranges: cache(),
            seconds: None,
            progress: None,
            memory: config.answer_bytes.map_or_else(AnswerMemory::of_process, AnswerMemory::with),
            partial: config.partial,
            is_absent: false,
        })
    }

    /// Creates the client of a diagnosis without Prometheus: every query fails at once with [`PromError::NotAsked`].
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn absent() -> Result<Self, PromError> {
        Ok(Self { is_absent: true, ..Self::new(&Config::default())? })
    }

    /// Returns true for [`Prometheus::absent`].
    pub fn is_absent(&self) -> bool {
        self.is_absent
    }

    /// Returns the same client with its own slots and cache, so that neither waits for the other's queries.
    #[must_use]
    pub fn with_own_slots(&self) -> Self {
        let running = Arc::new(Semaphore::new(self.concurrency));
        Self { running, shared: cache(), ranges: cache(), ..self.clone() }
    }

    /// Observes the duration of each query in seconds, whether it succeeds or fails.
    #[must_use]
    pub fn timed(mut self, seconds: Histogram) -> Self {
        self.seconds = Some(seconds);
        self
    }

    /// Returns the same client, whose queries are counted in `progress`.
    #[must_use]
    pub fn watched(mut self, progress: Arc<QueryProgress>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Evaluates `query` at `at`; waits for a free slot and for the answer until `deadline`.
    ///
    /// # Errors
    /// If Prometheus refuses, cannot be reached, misses the deadline, or answers in an unknown shape.
    pub async fn query(
        &self,
        query: &str,
        at: Timestamp,
        deadline: Instant,
    ) -> Result<Arc<Answer<Row>>, Arc<PromError>> {
        self.drop_expired().await;
        let key = (query.to_owned(), at.as_millisecond());
        // A diagnosis holds dozens of these futures at once, on the stack of a worker.
        let ask = Box::pin(self.shared.try_get_with(key.clone(), self.ask(query, at, deadline, &self.memory)));
        let answer = self.waited(deadline, ask).await?;
        if answer.units() > LARGE_KIB {
            self.shared.invalidate(&key).await;
        }
        Ok(answer)
    }

    /// Evaluates `query` over a range; waits for a free slot and for the answer until `deadline`.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub async fn query_range(
        &self,
        query: &str,
        range: Range,
        deadline: Instant,
    ) -> Result<Arc<Answer<Series>>, Arc<PromError>> {
        self.drop_expired().await;
        let key = (query.to_owned(), range);
        let ask = Box::pin(self.ranges.try_get_with(key.clone(), async {
            let time_left = self.acquire_slot(deadline).await?;
            let seconds = |at: Timestamp| at.as_millisecond().div_euclid(1_000);
            let request =
                self.client.query_range(query, seconds(range.from), seconds(range.to), range.step_seconds as f64);
            self.measured(async {
                let response = request.timeout(time_left.millis()).post_raw().await.map_err(PromError::from_client)?;
                let answer: Answer<Series> =
                    answer::read(response, limits(deadline, &self.memory), &self.memory).await?;
                Ok(Arc::new(answer.under(self.partial)))
            })
            .await
        }));
        let answer = self.waited(deadline, ask).await?;
        if answer.units() > LARGE_KIB {
            self.ranges.invalidate(&key).await;
        }
        Ok(answer)
    }

    /// Drops cached answers that have expired: a cache does so only when it is used, and they hold memory of others.
    async fn drop_expired(&self) {
        self.shared.run_pending_tasks().await;
        self.ranges.run_pending_tasks().await;
    }

    async fn ask(
        &self,
        query: &str,
        at: Timestamp,
        deadline: Instant,
        memory: &AnswerMemory,
    ) -> Result<Arc<Answer<Row>>, PromError> {
        let time_left = self.acquire_slot(deadline).await?;
        let request = self.client.query(query).query("time", format!("{:.3}", at.as_millisecond() as f64 / 1e3));
        self.measured(async {
            let response = request.timeout(time_left.millis()).post_raw().await.map_err(PromError::from_client)?;
            let answer: Answer<Row> = answer::read(response, limits(deadline, memory), memory).await?;
            Ok(Arc::new(answer.under(self.partial)))
        })
        .await
    }

    /// Awaits an answer until the deadline and counts it in `progress`.
    async fn waited<T>(
        &self,
        deadline: Instant,
        ask: impl Future<Output = Result<T, Arc<PromError>>>,
    ) -> Result<T, Arc<PromError>> {
        self.progress.iter().for_each(|progress| progress.ask());
        let answer = tokio::time::timeout_at(deadline.into(), ask).await;
        self.progress.iter().for_each(|progress| progress.answer());
        answer.unwrap_or_else(|_| Err(Arc::new(PromError::Late)))
    }

    /// Waits for a free slot and returns it with the time that is left until the deadline.
    async fn acquire_slot(&self, deadline: Instant) -> Result<QuerySlot<'_>, PromError> {
        if self.is_absent {
            return Err(PromError::NotAsked);
        }
        let slot = self.running.acquire().await.map_err(|_| PromError::Late)?;
        let time_left = deadline.saturating_duration_since(Instant::now());
        if time_left.is_zero() { Err(PromError::Late) } else { Ok(QuerySlot { _slot: slot, time_left }) }
    }

    async fn measured<T>(&self, asking: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let answer = asking.await;
        if let Some(seconds) = &self.seconds {
            seconds.observe(started.elapsed().as_secs_f64());
        }
        answer
    }

    /// Returns the server's clock, in unix seconds.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub async fn clock(&self, timeout: Duration) -> Result<f64, PromError> {
        if self.is_absent {
            return Err(PromError::NotAsked);
        }
        let millis = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX).max(1);
        let ask = async {
            // Without a `time` parameter Prometheus takes its own clock.
            let sent = self.client.query("time()").timeout(millis).post_raw().await;
            let sent = sent.map_err(PromError::from_client)?;
            let memory = AnswerMemory::with(CHECK_BYTES);
            let rows: Answer<Row> = answer::read(sent, limits(Instant::now() + timeout, &memory), &memory).await?;
            let none = || PromError::NotPrometheus("`time()` has no value".to_owned());
            rows.first().map(|row| row.value).ok_or_else(none)
        };
        tokio::time::timeout(timeout, ask).await.unwrap_or(Err(PromError::Late))
    }

    /// Sends a trivial query to check that Prometheus answers.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub async fn ping(&self, at: Timestamp, timeout: Duration) -> Result<(), Arc<PromError>> {
        let memory = AnswerMemory::with(CHECK_BYTES);
        let ask = self.ask("vector(1)", at, Instant::now() + timeout, &memory);
        match tokio::time::timeout(timeout, ask).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Arc::new(error)),
            Err(_) => Err(Arc::new(PromError::Late)),
        }
    }
}

fn limits(deadline: Instant, memory: &AnswerMemory) -> Limits {
    Limits { deadline, bytes: memory.most_of_one().saturating_mul(JSON_BYTES) }
}

/// A slot for one of the concurrent queries.
struct QuerySlot<'a> {
    _slot: SemaphorePermit<'a>,
    time_left: Duration,
}

impl QuerySlot<'_> {
    /// Returns the remaining milliseconds for Prometheus' `timeout` parameter.
    fn millis(&self) -> i64 {
        i64::try_from(self.time_left.as_millis()).unwrap_or(i64::MAX).max(1)
    }
}
