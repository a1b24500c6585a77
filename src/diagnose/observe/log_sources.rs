//! The sources of logs, and the logs of a pool's replicas, fetched within limits.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::observe::log_cache::{LogCacheKey, LogFindingsCache};
use crate::observe::log_findings::log_findings;
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::needs;
use detect::MARGIN;
use findings::{Judged, Outcome, Request};
use knowledge::alert::{Alert, Labels, active, common_labels};
use knowledge::clock;
use knowledge::gap::Gap;
use knowledge::playbook::Library;
use logs::Log;
use sources::kubernetes::{self, Kubernetes};
use sources::loki::{self, Loki, LokiError};

/// Maximum number of replicas whose logs are fetched; those that the alerts or the evidence name come first.
const MAX_REPLICAS: usize = 8;
/// Maximum bytes of all logs of one diagnosis.
const BYTES: u64 = 8 << 20;
/// Maximum wait for logs; the first message is posted already.
const PATIENCE: Duration = Duration::from_secs(4);

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

impl LogSources {
    /// Returns true if there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.kubernetes.is_none() && self.loki.is_empty() && self.files.is_empty()
    }

    /// Fetches the logs of the pool, those of the replicas that the alerts or the evidence name first, and adds their
    /// findings to `observed`; returns false if there was nothing to read.
    pub(crate) async fn fetch_logs(
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
        let ((cluster, failed), (stored, late)) = tokio::join!(from_cluster, from_loki);
        // Logs in both sources are counted once; the cluster's copy is newer.
        let pods_with_logs: BTreeSet<Option<String>> = cluster.iter().map(|log| log.pod.clone()).collect();
        logs.extend(stored.into_iter().filter(|log| log.pod.is_none() || !pods_with_logs.contains(&log.pod)));
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
    let mut names = BTreeSet::new();
    let all = named.chain(affected.map(|r| r.name.as_str())).chain(pool.iter().map(String::as_str));
    // `host:port` is no pod.
    all.filter(|name| !name.contains(':') && names.insert(*name)).take(MAX_REPLICAS).map(str::to_owned).collect()
}
