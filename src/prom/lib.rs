//! A client of Prometheus, or of any server with its HTTP API: Thanos, Mimir, VictoriaMetrics.
//!
//! It is read-only; every query has a deadline and needs a slot of its server, and is not sent while the server does not
//! work. Identical concurrent queries are sent once, so that a storm of alerts does not become a storm of queries.

mod answer;
mod api;
mod choose;
mod chunks;
mod config;
mod error;
mod formula;
mod gate;
mod matrix;
mod memory;
mod metric_names;
mod partial;
mod progress;
mod quantile;
mod recorded;
mod rules;
mod sharing;
mod stream;
mod targets;

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use moka::future::Cache;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_http_query::InstantQueryBuilder;
use reqwest::header::{ACCEPT_ENCODING, HeaderValue};

use chunks::Limits;
use gate::{CircuitLimits, Gate, QuerySlots, Slot};
use knowledge::clock::Range;
use memory::AnswerMemory;
use sharing::server_of;

pub use answer::{Row, Series};
pub use api::BuildInfo;
pub use choose::{assigned, choose, unassigned};
pub use config::{Config, headers};
pub use error::PromError;
pub use formula::{Formula, PartAnswer, QueryPart};
pub use matrix::{MatrixEnvelope, Raw, read_matrix};
pub use memory::Answer;
pub use metric_names::MetricNames;
pub use partial::{MissingPart, PartialAnswers};
pub use progress::QueryProgress;
pub use recorded::{Points, Recorded};
pub use rules::{AlertingRule, FiringAlert};
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
/// The time after which a check looks again whether a probe has been answered.
const PROBED_WITHIN: Duration = Duration::from_millis(100);
/// Timeout of a connection.
const CONNECT: Duration = Duration::from_secs(3);

/// The cache key of an instant query: PromQL and evaluation time in unix milliseconds.
type Key = (String, i64);

/// A client of one Prometheus.
#[derive(Clone)]
pub struct Prometheus {
    /// The configured name.
    pub name: String,
    /// The configured address, for links.
    pub url: String,
    /// The key of what is stored about it: its address, with its name if other entries have the same one.
    pub key: String,
    client: prometheus_http_query::Client,
    /// The client beneath, with its headers.
    http: reqwest::Client,
    /// The address that requests are sent to, including a password.
    base: String,
    /// The gate of the server, which clients of one address share.
    gate: Arc<Gate>,
    slots: QuerySlots,
    /// As many slots of those who must not keep the others waiting.
    second_slots: QuerySlots,
    shared: Cache<Key, Arc<Answer<Row>>>,
    ranges: Cache<(String, Range), Arc<Answer<Series>>>,
    seconds: Option<Histogram>,
    progress: Option<Arc<QueryProgress>>,
    memory: AnswerMemory,
    partial: PartialAnswers,
    /// The error of every query, if there is no Prometheus to ask.
    unasked: Option<PromError>,
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
    /// Creates a client that shares its server with no other; nothing is sent.
    ///
    /// # Errors
    /// If the address or a header is malformed, or a token file cannot be read.
    pub fn new(config: &Config) -> Result<Self, PromError> {
        let gate = Gate::new(server_of(&config.url).1, config.concurrency, 1, CircuitLimits::default());
        Self::behind(Arc::new(gate), config)
    }

    fn behind(gate: Arc<Gate>, config: &Config) -> Result<Self, PromError> {
        let url = config.url.trim_end_matches('/').to_owned();
        let mut headers = config.headers()?;
        // Compression costs Prometheus more time than it saves on the network.
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let http = http_client::builder(CONNECT)
            .default_headers(headers)
            .build()
            .map_err(|e| PromError::Configuration(format!("cannot prepare the HTTP client: {e}")))?;
        let client = prometheus_http_query::Client::from(http.clone(), &url)
            .map_err(|e| PromError::Configuration(format!("`{}` is no Prometheus address: {e}", config.shown_url())))?;
        let [slots, second_slots] = gate.add(http.clone(), url.clone());
        Ok(Self {
            name: config.name.clone(),
            url: config.shown_url(),
            key: config.shown_url(),
            client,
            http,
            base: url,
            gate,
            slots,
            second_slots,
            shared: cache(),
            ranges: cache(),
            seconds: None,
            progress: None,
            memory: config.answer_bytes.map_or_else(AnswerMemory::of_process, AnswerMemory::with),
            partial: config.partial,
            unasked: None,
        })
    }

    /// Creates the client of a diagnosis without Prometheus: every query fails at once with [`PromError::NotAsked`].
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn absent() -> Result<Self, PromError> {
        Ok(Self { unasked: Some(PromError::NotAsked), ..Self::new(&Config::default())? })
    }

    /// Returns a client for alerts that no entry of the configuration is for: every query fails at once with
    /// [`PromError::Unassigned`] and this reason.
    #[must_use]
    pub fn unassigned(&self, reason: String) -> Self {
        let unasked = Some(PromError::Unassigned(reason));
        Self { name: String::new(), url: String::new(), key: String::new(), unasked, ..self.with_own_slots() }
    }

    /// Returns true for [`Prometheus::absent`].
    pub fn is_absent(&self) -> bool {
        matches!(self.unasked, Some(PromError::NotAsked))
    }

    /// Returns true for [`Prometheus::unassigned`].
    pub fn is_unassigned(&self) -> bool {
        matches!(self.unasked, Some(PromError::Unassigned(_)))
    }

    /// Returns the same client with its own cache and the second slots of its server, so that neither waits for the
    /// other's queries. What one learns of the server's silence holds for both.
    #[must_use]
    pub fn with_own_slots(&self) -> Self {
        Self { slots: self.second_slots.clone(), shared: cache(), ranges: cache(), ..self.clone() }
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
    pub async fn query_range(
        &self,
        query: &str,
        range: Range,
        deadline: Instant,
    ) -> Result<Arc<Answer<Series>>, Arc<PromError>> {
        self.drop_expired().await;
        let key = (query.to_owned(), range);
        let ask = Box::pin(self.ranges.try_get_with(key.clone(), async {
            let (_slot, time_left) = self.turn(deadline).await?;
            let seconds = |at: Timestamp| at.as_millisecond().div_euclid(1_000);
            let request =
                self.client.query_range(query, seconds(range.from), seconds(range.to), range.step_seconds as f64);
            self.measured(deadline, async {
                let response = request.timeout(millis(time_left)).post_raw().await.map_err(PromError::from_client)?;
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
        let (_slot, time_left) = self.turn(deadline).await?;
        let request = at_time(self.client.query(query), at);
        self.measured(deadline, async {
            let response = request.timeout(millis(time_left)).post_raw().await.map_err(PromError::from_client)?;
            let answer: Answer<Row> = answer::read(response, limits(deadline, memory), memory).await?;
            Ok(Arc::new(answer.under(self.partial)))
        })
        .await
    }

    /// Awaits an answer until the deadline and counts it in `progress`.
    async fn waited<T, E: From<PromError>>(
        &self,
        deadline: Instant,
        ask: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.progress.iter().for_each(|progress| progress.ask());
        let answer = tokio::time::timeout_at(deadline.into(), ask).await;
        self.progress.iter().for_each(|progress| progress.answer());
        answer.unwrap_or_else(|_| Err(PromError::Late.into()))
    }

    /// Waits for a free slot and returns it with the time that is left until the deadline; callers drop it then.
    async fn turn(&self, deadline: Instant) -> Result<(Slot, Duration), PromError> {
        if let Some(error) = &self.unasked {
            return Err(error.clone());
        }
        let slot = self.gate.enter(&self.slots).await?;
        let time_left = deadline.saturating_duration_since(Instant::now());
        if time_left.is_zero() { Err(PromError::Late) } else { Ok((slot, time_left)) }
    }

    /// Awaits the answer to a query that is sent now; observes its duration, and its evidence about the server.
    async fn measured<T>(
        &self,
        deadline: Instant,
        asking: impl Future<Output = Result<T, PromError>>,
    ) -> Result<T, PromError> {
        let sent = self.gate.sent(deadline, self.seconds.clone());
        let answer = asking.await;
        sent.ended(&answer);
        answer
    }

    /// Returns the server's clock, in unix seconds.
    pub async fn clock(&self, timeout: Duration) -> Result<f64, PromError> {
        if let Some(error) = &self.unasked {
            return Err(error.clone());
        }
        // Without a `time` parameter Prometheus takes its own clock.
        let rows = self.check(self.client.query("time()"), Instant::now() + timeout).await?;
        rows.first().map(|row| row.value).ok_or_else(|| PromError::unexpected("`time()` has no value"))
    }

    /// Sends a trivial query to check that Prometheus answers.
    pub async fn ping(&self, at: Timestamp, timeout: Duration) -> Result<(), PromError> {
        if let Some(error) = &self.unasked {
            return Err(error.clone());
        }
        self.check(at_time(self.client.query("vector(1)"), at), Instant::now() + timeout).await.map(drop)
    }

    /// Sends a trivial query, which waits neither for the slots nor for the memory of others, but for the end of a pause
    /// that ends before the deadline.
    async fn check(&self, request: InstantQueryBuilder, deadline: Instant) -> Result<Answer<Row>, PromError> {
        let memory = AnswerMemory::with(CHECK_BYTES);
        let ask = async {
            while let Err(shut) = self.gate.pass() {
                let pause = self.gate.pause_left().unwrap_or_default().max(PROBED_WITHIN);
                if Instant::now() + pause >= deadline {
                    return Err(shut);
                }
                tokio::time::sleep(pause).await;
            }
            let time_left = deadline.saturating_duration_since(Instant::now());
            self.measured(deadline, async {
                let response = request.timeout(millis(time_left)).post_raw().await.map_err(PromError::from_client)?;
                answer::read(response, limits(deadline, &memory), &memory).await
            })
            .await
        };
        tokio::time::timeout_at(deadline.into(), ask).await.unwrap_or(Err(PromError::Late))
    }
}

fn at_time(request: InstantQueryBuilder, at: Timestamp) -> InstantQueryBuilder {
    request.query("time", format!("{:.3}", at.as_millisecond() as f64 / 1e3))
}

/// Returns Prometheus' `timeout` parameter.
fn millis(time_left: Duration) -> i64 {
    i64::try_from(time_left.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn limits(deadline: Instant, memory: &AnswerMemory) -> Limits {
    Limits { deadline, bytes: memory.most_of_one().saturating_mul(JSON_BYTES) }
}
