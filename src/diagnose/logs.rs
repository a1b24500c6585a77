//! Logs of replicas as evidence: fetched within limits, and converted to observations.
//!
//! A log without findings changes nothing: only a first root error makes the other errors a "no", since it was the
//! actual one. The text of a log stays here; only the meaning of its lines is passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::baseline_windows::MARGIN;
use super::gather::merge;
use super::log_cache::{LogCacheKey, LogFindingsCache};
use super::observation::{Observation, Replica, ValueSource, reduce};
use super::observe::ObserveResult;
use super::plan::needs;
use super::{Judged, Outcome, Request};
use crate::alert::{Alert, Labels, active, common_labels};
use crate::clock;
use crate::gap::Gap;
use crate::kubernetes::{self, Kubernetes};
use crate::logs::{Log, LogAnalysis, LogMatch, LogReader, Patterns};
use crate::loki::{self, Loki, LokiError};
use crate::playbook::{Library, LogRank};

/// Maximum number of replicas whose logs are fetched; those that the alerts or the evidence name come first.
const REPLICAS_MOST: usize = 8;
/// Maximum bytes of all logs of one diagnosis.
const BYTES: u64 = 8 << 20;
/// Maximum number of logs that are read in one diagnosis.
const LOGS_MOST: usize = 64;
/// Maximum wait for logs; the first message is posted already.
const PATIENCE: Duration = Duration::from_secs(4);
/// Maximum clock difference between nodes.
const SKEW: Duration = Duration::from_secs(60);
/// Time within which a root error follows from the one before it in the same log: a collective operation notices a
/// dead peer after its timeout, which is ten minutes by default.
const FOLLOWS: Duration = Duration::from_secs(900);

/// The sources of logs.
#[derive(Debug, Clone, Default)]
pub struct LogSources {
    /// The cluster's API, and the alert labels that select it.
    pub kubernetes: Option<(Kubernetes, Labels)>,
    /// The reason why there is no cluster, if one was expected.
    pub no_cluster: Option<NoCluster>,
    /// The Loki servers, each with the alert labels that select it.
    pub loki: Vec<(Loki, Labels)>,
    /// Logs from local files.
    pub files: Vec<Log>,
    /// The cache of findings.
    pub kept: LogFindingsCache,
}

/// The reason why a cluster cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoCluster {
    /// A sentence.
    pub why: String,
    /// True if the configuration requires it; false if only the environment looks like a pod.
    pub wanted: bool,
}

impl LogSources {
    /// Prepares the configured sources. A cluster that cannot be used is left out with a warning: diagnoses go on.
    ///
    /// # Errors
    /// If an entry of `loki:` cannot be used.
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
            kept: LogFindingsCache::default(),
        })
    }

    /// Returns the same sources with request slots of their own, so that neither waits for the other's requests.
    #[must_use]
    pub fn with_own_slots(self) -> Self {
        let kubernetes = self.kubernetes.map(|(client, labels)| (client.with_own_slots(), labels));
        Self { kubernetes, ..self }
    }

    /// Returns the sources for these alerts; of several Lokis the first whose labels all alerts carry.
    #[must_use]
    pub fn of(&self, alerts: &[Alert]) -> Self {
        let common = common_labels(&active(alerts));
        // Without alerts nothing contradicts the labels.
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

/// The logs that were read, and those that could not be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogsRead {
    /// The logs, those with a root error first.
    pub logs: Vec<LogRead>,
    /// Logs that could not be read: name and reason, a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Gap>,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogRead {
    /// The name, `llama-0/vllm (previous)`.
    pub name: String,
    /// The engine that wrote it; `None` if no engine is recognised.
    pub engine: Option<String>,
    /// The number of lines.
    pub lines: u64,
    /// The first timestamp, as it is written.
    pub from: Option<String>,
    /// The last timestamp, as it is written.
    pub to: Option<String>,
    /// The first root error within the incident.
    pub root: Option<LogError>,
}

/// An error in a log, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogError {
    /// The finding's id in `logs/<engine>.yaml`.
    pub id: String,
    /// The title, a clause.
    pub title: String,
    /// The line number within the part that was read.
    pub line: u64,
    /// The time, as the log writes it.
    pub when: Option<String>,
    /// The recommended action.
    #[serde(rename = "do")]
    pub action: Option<String>,
}

/// Signals derived from logs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogFindings {
    /// Signal ─▶ replica ─▶ number of lines; zero if a first root error shows that it was another error.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// Signal ─▶ time of its first line.
    pub since: BTreeMap<String, Timestamp>,
    /// Signal ─▶ replica ─▶ median of the values in its statistics lines.
    pub values: BTreeMap<String, BTreeMap<String, f64>>,
    /// The replicas whose logs were read.
    pub replicas: BTreeSet<String>,
    /// The logs.
    pub read: Vec<LogRead>,
}

/// Derives signals from the log lines between `since` and `at`.
///
/// Statistics are of the last `window` before `at`, like the values of Prometheus.
pub fn log_findings(library: &Library, logs: &[Log], since: Timestamp, at: Timestamp, window: Duration) -> LogFindings {
    let mut findings = LogFindings::default();
    let until = clock::after(at, SKEW);
    let patterns = Patterns::new(library.logs.values());
    let reader = || LogReader::new(&patterns);
    for log in logs.iter().take(LOGS_MOST) {
        let report = reader().within(since, until).text(&log.text);
        let replica = replica(log);
        findings.errors(library, &replica, &report);
        // A container that has ended has no current values.
        if !log.previous && report.engine.is_some() {
            let lately = reader().within(clock::before(at, window), until).text(&log.text);
            for numbers in lately.statistics.iter().chain(&lately.startup) {
                if library.signals.contains_key(&numbers.name) {
                    let of = findings.values.entry(numbers.name.clone()).or_default();
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
        let LogAnalysis { engine, lines, from, to, .. } = report;
        findings.read.push(LogRead { name: log.name(), engine, lines, from, to, root });
        findings.replicas.insert(replica);
    }
    findings.read.sort_by_key(|read| read.root.is_none());
    findings
}

/// Returns the replica of a log; else the file's name without its extension.
fn replica(log: &Log) -> String {
    log.pod.clone().unwrap_or_else(|| {
        let file = log.source.rsplit(['/', '\\']).next().unwrap_or(&log.source);
        file.strip_suffix(".log").or_else(|| file.strip_suffix(".txt")).unwrap_or(file).to_owned()
    })
}

/// Returns the root errors that do not follow from an earlier one.
fn roots(report: &LogAnalysis) -> Vec<&LogMatch> {
    let mut roots: Vec<&LogMatch> = Vec::new();
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

impl LogFindings {
    fn errors(&mut self, library: &Library, replica: &str, report: &LogAnalysis) {
        let roots = roots(report);
        let signs = report.findings.iter().filter(|found| found.rank == LogRank::Sign);
        let telling: Vec<(&str, &LogMatch)> =
            roots.iter().copied().chain(signs).filter_map(|found| Some((found.tells.as_deref()?, found))).collect();
        // The actual error is known, so it was none of the others. A root error without a signal counts too.
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

    /// Adds the values from logs where no other source has one.
    pub(super) fn fill(self, library: &Library, request: &Request, missing: Vec<Gap>, into: &mut ObserveResult) {
        let needs = needs(library, &request.playbook);
        for (signal, counts) in self.counts.iter().filter(|(signal, _)| needs.contains_key(signal.as_str())) {
            let replicas: Vec<Replica> =
                counts.iter().map(|(name, n)| Replica { name: name.clone(), value: *n as f64 }).collect();
            let value = Some(replicas.iter().map(|r| r.value).sum());
            let since = self.since.get(signal).copied();
            let seen =
                Observation { value, replicas, since, answered: true, source: ValueSource::Log, ..Default::default() };
            into.observations.signals.insert(signal.clone(), seen);
        }
        // Logs of a part of the pool give no value for the pool.
        let whole = into.observations.pool.iter().all(|replica| self.replicas.contains(replica));
        for (signal, values) in self.values.into_iter().filter(|_| whole) {
            let Some(definition) = library.signals.get(&signal).filter(|_| needs.contains_key(signal.as_str())) else {
                continue;
            };
            let o = into.observations.signals.entry(signal).or_default();
            if o.value.is_some() || !o.replicas.is_empty() {
                continue;
            }
            let mut replicas = Vec::new();
            merge(&mut replicas, values.into_iter(), definition.fleet);
            let only = replicas.first().filter(|_| replicas.len() == 1).map(|r| r.value);
            if let Some(value) = reduce(definition.fleet, replicas.iter().map(|r| r.value)).or(only) {
                (o.value, o.replicas, o.source) = (Some(value), replicas, ValueSource::Log);
                (o.answered, o.why) = (true, None);
            }
        }
        into.logs = Some(LogsRead { logs: self.read, missing });
    }
}

impl LogSources {
    /// Returns true if there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.kubernetes.is_none() && self.loki.is_empty() && self.files.is_empty()
    }

    /// Fetches the logs of the pool, those of the replicas that the alerts or the evidence name first, and adds their
    /// findings to `observed`; returns false if there was nothing to read.
    pub(super) async fn fetch_logs(
        &self,
        library: &Library,
        request: &Request,
        judged: Option<&Judged>,
        observed: &mut ObserveResult,
        deadline: Instant,
    ) -> bool {
        let asks = needs(library, &request.playbook)
            .into_keys()
            .any(|signal| library.signals.get(signal).is_some_and(|signal| signal.is_of_log()));
        if self.is_empty() || !asks {
            return false;
        }
        let since = clock::before(request.since.unwrap_or(request.at).min(request.at), MARGIN.max(request.window));
        let pods = first(request, judged, &observed.observations.pool);
        let namespace = request.scope.dimensions.get("namespace").cloned();
        let mut whose = LogCacheKey { namespace, pods: pods.clone(), since, window: request.window };
        whose.pods.sort();
        if let Some(findings) = self.kept.get(&whose, request.at) {
            findings.fill(library, request, Vec::new(), observed);
            return true;
        }
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let (logs, missing) = self.fetch(request, &pods, since, deadline).await;
        if logs.is_empty() && missing.is_empty() {
            return false;
        }
        let findings = log_findings(library, &logs, since, request.at, request.window);
        // Logs that could not be read are tried again at the next diagnosis.
        if missing.is_empty() {
            self.kept.put(whose, request.at, &findings);
        }
        findings.fill(library, request, missing, observed);
        true
    }

    async fn fetch(
        &self,
        request: &Request,
        pods: &[String],
        since: Timestamp,
        deadline: Instant,
    ) -> (Vec<Log>, Vec<Gap>) {
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
                    let gap = Gap::failed("Loki", &error);
                    (error.into_logs(), Some(gap))
                }
            }
        };
        let ((cluster, failed), (kept, late)) = tokio::join!(from_cluster, from_loki);
        // Logs in both sources are counted once; the cluster's copy is newer.
        let known: BTreeSet<Option<String>> = cluster.iter().map(|log| log.pod.clone()).collect();
        logs.extend(kept.into_iter().filter(|log| log.pod.is_none() || !known.contains(&log.pod)));
        logs.extend(cluster);
        missing.extend(failed);
        missing.extend(late);
        (logs, missing)
    }
}

/// Returns the replicas whose logs matter most: named by the alerts, then by met evidence, then the rest of the pool.
fn first(request: &Request, judged: Option<&Judged>, pool: &[String]) -> Vec<String> {
    let named = request.scope.replicas.iter().map(String::as_str);
    let lists = judged.into_iter().flat_map(|judged| {
        std::iter::once(&judged.evidence).chain(judged.causes.values().map(|judgement| &judgement.evidence))
    });
    let affected = lists.flatten().filter(|e| e.outcome == Outcome::Met).flat_map(|e| &e.replicas);
    let mut seen = BTreeSet::new();
    let all = named.chain(affected.map(|r| r.name.as_str())).chain(pool.iter().map(String::as_str));
    // `host:port` is no pod.
    all.filter(|name| !name.contains(':') && seen.insert(*name)).take(REPLICAS_MOST).map(str::to_owned).collect()
}
