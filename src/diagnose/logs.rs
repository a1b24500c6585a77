//! What replicas' logs say, as evidence: fetched within a bound, and turned into observations.
//!
//! A log that says nothing changes nothing: only a first root error makes the other errors a "no", since it tells what
//! it was. A log's text stays here; what goes on is what its lines mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gather::merge;
use super::kept::{Kept, Whose};
use super::observation::{Observation, Replica, Source, reduce};
use super::observe::Observed;
use super::past::MARGIN;
use super::plan::needs;
use super::{Judged, Outcome, Request};
use crate::alert::{Alert, Labels, active, common_labels};
use crate::clock;
use crate::kubernetes::{self, Kubernetes};
use crate::logs::{Found, Log, Patterns, Reader, Report};
use crate::loki::{self, Loki, LokiError};
use crate::playbook::{Library, LogRank};

/// Replicas whose logs are fetched at most; those that the alerts or the evidence name come first.
const REPLICAS_MOST: usize = 8;
/// Bytes of all logs of one diagnosis.
const BYTES: u64 = 8 << 20;
/// Logs of one diagnosis that are read at most.
const LOGS_MOST: usize = 64;
/// How long the answer may wait for logs: the first message is posted already.
const PATIENCE: Duration = Duration::from_secs(4);
/// Clocks of nodes differ by so much.
const SKEW: Duration = Duration::from_secs(60);
/// A root error so soon after another one in the same log follows from it: a collective notices a dead peer after its
/// time-out, which is ten minutes unless told otherwise.
const FOLLOWS: Duration = Duration::from_secs(900);

/// Where logs come from.
#[derive(Debug, Clone, Default)]
pub struct LogSources {
    /// The cluster's API, and the labels of alerts that it is for.
    pub kubernetes: Option<(Kubernetes, Labels)>,
    /// Why that is none, where there should be one.
    pub no_cluster: Option<NoCluster>,
    /// Where logs are kept, with the same.
    pub loki: Vec<(Loki, Labels)>,
    /// What somebody has at hand.
    pub files: Vec<Log>,
    /// What they told lately.
    pub kept: Kept,
}

/// Why a cluster cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCluster {
    /// A sentence.
    pub why: String,
    /// The configuration asks for it, rather than that this happens to be a pod.
    pub wanted: bool,
}

impl LogSources {
    /// Prepares the sources that are configured. A cluster that cannot be used is none, with a warning: diagnoses go on.
    ///
    /// # Errors
    /// When an entry of `loki:` cannot be used.
    pub async fn connect(cluster: &kubernetes::Config, loki: &[loki::Config]) -> Result<Self, LokiError> {
        let connected = Kubernetes::connect(cluster).await.map_err(|error| {
            tracing::warn!(%error, "the cluster's API cannot be used: diagnoses and bundles go without it");
            NoCluster { why: error.to_string(), wanted: cluster.enabled == Some(true) }
        });
        let (kubernetes, no_cluster) = connected.map_or_else(|why| (None, Some(why)), |client| (client, None));
        let several = loki.iter().map(|one| Ok((Loki::new(one)?, one.labels.clone())));
        Ok(Self {
            kubernetes: kubernetes.map(|client| (client, cluster.labels.clone())),
            no_cluster,
            loki: several.collect::<Result<_, LokiError>>()?,
            files: Vec::new(),
            kept: Kept::default(),
        })
    }

    /// The same with slots of their own: neither waits for what the other asks.
    #[must_use]
    pub fn apart(self) -> Self {
        let kubernetes = self.kubernetes.map(|(client, labels)| (client.apart(), labels));
        Self { kubernetes, ..self }
    }

    /// Those for these alerts: of several Lokis the first whose labels they all carry.
    #[must_use]
    pub fn of(&self, alerts: &[Alert]) -> Self {
        let common = common_labels(&active(alerts));
        // Without alerts nobody says otherwise.
        let fits = |labels: &Labels| alerts.is_empty() || labels.iter().all(|(k, v)| common.get(k) == Some(v));
        Self {
            kubernetes: self.kubernetes.clone().filter(|(_, labels)| fits(labels)),
            no_cluster: self.no_cluster.clone(),
            loki: self.loki.iter().find(|(_, labels)| fits(labels)).cloned().into_iter().collect(),
            files: self.files.clone(),
            kept: self.kept.clone(),
        }
    }
}

/// What was read, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogsRead {
    /// The logs, those with a root error first.
    pub logs: Vec<LogRead>,
    /// What could not be read: what, and why, in a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<(String, String)>,
}

/// One log that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogRead {
    /// `llama-0/vllm (previous)`.
    pub name: String,
    /// Whose log it is; none when no engine is known by it.
    pub engine: Option<String>,
    /// Its lines.
    pub lines: u64,
    /// The first time in it, as it is written.
    pub from: Option<String>,
    /// The last.
    pub to: Option<String>,
    /// The first root error within the incident.
    pub root: Option<LogError>,
}

/// An error in a log, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogError {
    /// The finding's id in `logs/<engine>.yaml`.
    pub id: String,
    /// A clause.
    pub title: String,
    /// The number of its line in what was read.
    pub line: u64,
    /// When, as the log writes it.
    pub when: Option<String>,
    /// What to do.
    #[serde(rename = "do")]
    pub action: Option<String>,
}

/// What logs tell of signals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Signal ─▶ replica ─▶ how many lines; zero where a first root error says that it was something else.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// Signal ─▶ when its first line was written.
    pub since: BTreeMap<String, Timestamp>,
    /// Signal ─▶ replica ─▶ the middle value that its statistics lines tell.
    pub values: BTreeMap<String, BTreeMap<String, f64>>,
    /// Whose logs were read.
    pub replicas: BTreeSet<String>,
    /// The logs.
    pub read: Vec<LogRead>,
}

/// What logs say of the time between `since` and `at`.
///
/// Statistics are of the last `window` before `at`, as the values of Prometheus are.
pub fn told(library: &Library, logs: &[Log], since: Timestamp, at: Timestamp, window: Duration) -> Told {
    let mut told = Told::default();
    let until = clock::after(at, SKEW);
    let patterns = Patterns::new(library.logs.values());
    let reader = || Reader::new(&patterns);
    for log in logs.iter().take(LOGS_MOST) {
        let report = reader().within(since, until).text(&log.text);
        let replica = replica(log);
        told.errors(library, &replica, &report);
        // A container that has ended tells no current values.
        if !log.previous && report.engine.is_some() {
            let lately = reader().within(clock::before(at, window), until).text(&log.text);
            for numbers in lately.statistics.iter().chain(&lately.startup) {
                if library.signals.contains_key(&numbers.name) {
                    let of = told.values.entry(numbers.name.clone()).or_default();
                    of.insert(replica.clone(), numbers.median);
                }
            }
        }
        let root = roots(&report).first().map(|found| LogError {
            id: found.id.clone(),
            title: found.title.clone(),
            line: found.line,
            when: found.first.clone(),
            action: found.action.clone(),
        });
        let Report { engine, lines, from, to, .. } = report;
        told.read.push(LogRead { name: log.name(), engine, lines, from, to, root });
        told.replicas.insert(replica);
    }
    told.read.sort_by_key(|read| read.root.is_none());
    told
}

/// The replica of a log, else the file's name without its ending.
fn replica(log: &Log) -> String {
    log.pod.clone().unwrap_or_else(|| {
        let file = log.source.rsplit(['/', '\\']).next().unwrap_or(&log.source);
        file.strip_suffix(".log").or_else(|| file.strip_suffix(".txt")).unwrap_or(file).to_owned()
    })
}

/// Root errors that do not follow from one before them.
fn roots(report: &Report) -> Vec<&Found> {
    let mut roots: Vec<&Found> = Vec::new();
    for found in report.findings.iter().filter(|found| found.rank == LogRank::Root) {
        let apart = roots.last().is_none_or(|last| {
            last.at.zip(found.at).is_some_and(|(last, at)| at > last && clock::between(last, at) > FOLLOWS)
        });
        if apart {
            roots.push(found);
        }
    }
    roots
}

impl Told {
    fn errors(&mut self, library: &Library, replica: &str, report: &Report) {
        let roots = roots(report);
        let signs = report.findings.iter().filter(|found| found.rank == LogRank::Sign);
        let telling: Vec<(&str, &Found)> =
            roots.iter().copied().chain(signs).filter_map(|found| Some((found.tells.as_deref()?, found))).collect();
        // What ended it is known, so it was none of the others. A root that tells no signal is one of them too.
        if !roots.is_empty() {
            let ends = library.logs.values().flat_map(|file| &file.findings).filter(|f| f.rank == LogRank::Root);
            for signal in ends.filter_map(|finding| finding.tells.as_deref()) {
                self.counts.entry(signal.to_owned()).or_default().entry(replica.to_owned()).or_default();
            }
        }
        for (signal, found) in telling {
            *self.counts.entry(signal.to_owned()).or_default().entry(replica.to_owned()).or_default() += found.count;
            if let Some(at) = found.at {
                let since = self.since.entry(signal.to_owned()).or_insert(at);
                *since = (*since).min(at);
            }
        }
    }

    /// Puts what logs tell where nothing else does.
    pub(super) fn fill(
        self,
        library: &Library,
        request: &Request,
        missing: Vec<(String, String)>,
        into: &mut Observed,
    ) {
        let needs = needs(library, &request.playbook);
        for (signal, counts) in self.counts.iter().filter(|(signal, _)| needs.contains_key(signal.as_str())) {
            let replicas: Vec<Replica> =
                counts.iter().map(|(name, n)| Replica { name: name.clone(), value: *n as f64 }).collect();
            let value = Some(replicas.iter().map(|r| r.value).sum());
            let since = self.since.get(signal).copied();
            let seen =
                Observation { value, replicas, since, answered: true, source: Source::Log, ..Default::default() };
            into.seen.signals.insert(signal.clone(), seen);
        }
        // Of a part of the pool no number of the pool follows.
        let whole = into.seen.pool.iter().all(|replica| self.replicas.contains(replica));
        for (signal, values) in self.values.into_iter().filter(|_| whole) {
            let Some(definition) = library.signals.get(&signal).filter(|_| needs.contains_key(signal.as_str())) else {
                continue;
            };
            let o = into.seen.signals.entry(signal).or_default();
            if o.value.is_some() || !o.replicas.is_empty() {
                continue;
            }
            let mut replicas = Vec::new();
            merge(&mut replicas, values.into_iter(), definition.fleet);
            let only = replicas.first().filter(|_| replicas.len() == 1).map(|r| r.value);
            if let Some(value) = reduce(definition.fleet, replicas.iter().map(|r| r.value)).or(only) {
                (o.value, o.replicas, o.source) = (Some(value), replicas, Source::Log);
                (o.answered, o.why) = (true, None);
            }
        }
        into.logs = Some(LogsRead { logs: self.read, missing });
    }
}

impl LogSources {
    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.kubernetes.is_none() && self.loki.is_empty() && self.files.is_empty()
    }

    /// Fetches the logs of the pool, those of the replicas that the alerts or the evidence name first, and puts what they
    /// say into `observed`; false when there was nothing to read.
    pub(super) async fn look(
        &self,
        library: &Library,
        request: &Request,
        judged: Option<&Judged>,
        observed: &mut Observed,
        deadline: Instant,
    ) -> bool {
        let asks = needs(library, &request.playbook)
            .into_keys()
            .any(|signal| library.signals.get(signal).is_some_and(|signal| signal.is_of_log()));
        if self.is_empty() || !asks {
            return false;
        }
        let since = clock::before(request.since.unwrap_or(request.at).min(request.at), MARGIN.max(request.window));
        let pods = first(request, judged, &observed.seen.pool);
        let namespace = request.scope.dimensions.get("namespace").cloned();
        let mut whose = Whose { namespace, pods: pods.clone(), since, window: request.window };
        whose.pods.sort();
        if let Some(told) = self.kept.get(&whose, request.at) {
            told.fill(library, request, Vec::new(), observed);
            return true;
        }
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let (logs, missing) = self.fetch(request, &pods, since, deadline).await;
        if logs.is_empty() && missing.is_empty() {
            return false;
        }
        let told = told(library, &logs, since, request.at, request.window);
        // What could not be read is tried again at the next look.
        if missing.is_empty() {
            self.kept.put(whose, request.at, &told);
        }
        told.fill(library, request, missing, observed);
        true
    }

    async fn fetch(
        &self,
        request: &Request,
        pods: &[String],
        since: Timestamp,
        deadline: Instant,
    ) -> (Vec<Log>, Vec<(String, String)>) {
        let namespace = request.scope.dimensions.get("namespace").map(String::as_str);
        let (mut logs, mut missing) = (self.files.clone(), Vec::new());
        if pods.is_empty() {
            return (logs, missing);
        }
        let from_cluster = async {
            match &self.kubernetes {
                Some((cluster, _)) => cluster.logs(namespace, pods, since, BYTES, deadline).await,
                None => (Vec::new(), Vec::new()),
            }
        };
        let from_loki = async {
            let Some((loki, _)) = self.loki.first() else { return (Vec::new(), None) };
            match loki.logs(namespace, pods, since, request.at, BYTES, deadline).await {
                Ok(logs) => (logs, None),
                Err(error) => {
                    let why = ("Loki".to_owned(), error.to_string());
                    (error.into_logs(), Some(why))
                }
            }
        };
        let ((cluster, failed), (kept, late)) = tokio::join!(from_cluster, from_loki);
        // What both have is counted once: the cluster's own word is newer.
        let known: BTreeSet<Option<String>> = cluster.iter().map(|log| log.pod.clone()).collect();
        logs.extend(kept.into_iter().filter(|log| log.pod.is_none() || !known.contains(&log.pod)));
        logs.extend(cluster);
        missing.extend(failed);
        missing.extend(late);
        (logs, missing)
    }
}

/// The replicas whose logs are worth most: named by the alerts, then by what holds, then the rest of the pool.
fn first(request: &Request, judged: Option<&Judged>, pool: &[String]) -> Vec<String> {
    let named = request.scope.replicas.iter().map(String::as_str);
    let lists = judged.into_iter().flat_map(|judged| {
        std::iter::once(&judged.evidence).chain(judged.causes.values().map(|judgement| &judgement.evidence))
    });
    let affected = lists.flatten().filter(|e| e.outcome == Outcome::Met).flat_map(|e| &e.replicas);
    let mut seen = BTreeSet::new();
    let all = named.chain(affected.map(|r| r.name.as_str())).chain(pool.iter().map(String::as_str));
    // Host and port are no pod.
    all.filter(|name| !name.contains(':') && seen.insert(*name)).take(REPLICAS_MOST).map(str::to_owned).collect()
}
