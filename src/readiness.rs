//! Named checks: whether the service can take alerts, for `/readyz`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;

use crate::clock;
use crate::diagnose::{LogSources, NoCluster};
use crate::notify::todo;
use crate::prom::Prometheus;
use crate::slack::{self, Slack, SocketState};
use crate::store::Store;

/// How long one check may take: less than the second after which Kubernetes gives up on a probe.
const CHECK: Duration = Duration::from_millis(700);

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `store`, `prometheus/<name>`, `slack`, `slack channel <name>`, `slack socket`, `kubernetes`.
    pub name: String,
    /// It works.
    pub ok: bool,
    /// Alerts are lost or refused without it; the others only make answers poorer or later.
    pub required: bool,
    /// What is wrong and what it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a finding of `doctor` stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Fit.
    Ok,
    /// Something is poorer without it.
    Warn,
    /// It does not work.
    Fail,
}

/// What `doctor` found of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: String,
    /// How it stands.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do.
    pub todo: Option<String>,
}

/// The examination of `doctor`, for those who may not know what the configuration holds.
#[derive(Clone)]
pub struct Examination(Arc<dyn Fn() -> BoxFuture<'static, Vec<Finding>> + Send + Sync>);

impl Examination {
    /// Runs what is given, each time that it is asked.
    pub fn new<F>(examine: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<Finding>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(examine())))
    }

    /// What `doctor` finds now.
    pub async fn findings(&self) -> Vec<Finding> {
        (self.0)().await
    }
}

impl Default for Examination {
    /// Looks at nothing.
    fn default() -> Self {
        Self::new(|| async { Vec::new() })
    }
}

impl std::fmt::Debug for Examination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Examination").finish_non_exhaustive()
    }
}

/// Runs all checks at once.
pub async fn checks(
    store: &Store,
    prometheus: &[&Prometheus],
    slack: Option<&Slack>,
    configured: &slack::Config,
    socket: Option<&SocketState>,
    logs: &LogSources,
) -> Vec<Check> {
    let channels = async {
        match slack {
            Some(_) => channels(store, configured).await,
            None => Vec::new(),
        }
    };
    let store = async {
        let result = tokio::time::timeout(CHECK, store.ping()).await;
        check("store".into(), true, result.map(|r| r.map(drop).map_err(|e| e.to_string())))
    };
    let prometheus = futures::future::join_all(prometheus.iter().map(|p| async {
        let result = p.ping(clock::now(), CHECK).await.map_err(|e| format!("{e}; diagnoses wait for it"));
        check(format!("prometheus/{}", p.name), false, Ok(result))
    }));
    let slack = async {
        let slack = slack?;
        let result = tokio::time::timeout(CHECK, slack.identity()).await;
        Some(check(
            "slack".into(),
            false,
            result.map(|r| r.map(drop).map_err(|e| format!("{e}; messages wait for it"))),
        ))
    };
    let (store, prometheus, slack, channels, cluster) =
        futures::future::join5(store, prometheus, slack, channels, cluster(logs)).await;
    let first = std::iter::once(store).chain(prometheus).chain(slack);
    first.chain(channels).chain(socket.map(connected)).chain(cluster).collect()
}

/// The configured channels, and others that messages wait for: whether Slack refused the last one. All replicas know it.
async fn channels(store: &Store, config: &slack::Config) -> Vec<Check> {
    // A store that does not answer is named as such.
    let Ok(Ok(refusals)) = tokio::time::timeout(CHECK, store.refusals()).await else { return Vec::new() };
    let refused = refusals.iter().map(|refusal| refusal.channel.as_str());
    let names: BTreeSet<&str> = config.channels().chain(refused).collect();
    let named = names.into_iter().map(|name| {
        let detail = refusals.iter().find(|refusal| refusal.channel == name).map(|refusal| {
            let since = refusal.since.strftime("%Y-%m-%d %H:%M UTC");
            let (code, waiting, todo) = (&refusal.code, refusal.waiting, todo(&refusal.code));
            format!("Slack refuses messages since {since}: {code}; {waiting} wait for it: {todo}")
        });
        Check { name: format!("slack channel {name}"), ok: detail.is_none(), required: false, detail }
    });
    named.collect()
}

/// The cluster's API; none where there is to be none.
async fn cluster(logs: &LogSources) -> Option<Check> {
    let result = match (&logs.kubernetes, &logs.no_cluster) {
        (Some((client, _)), _) => client.ping(CHECK).await.map(drop),
        (None, Some(NoCluster { why, wanted: true })) => Err(why.clone()),
        // A pod without a token is no trouble where nobody asks for the cluster.
        (None, _) => return None,
    };
    let result = result.map_err(|error| format!("{error}; diagnoses and bundles go without its logs and events"));
    Some(check("kubernetes".to_owned(), false, Ok(result)))
}

/// Socket Mode: one connection is enough, the others are for the moments in which one is renewed.
fn connected(socket: &SocketState) -> Check {
    let status = socket.status();
    let detail = (status.connected == 0).then(|| {
        let why = status.error.map(|error| format!(": {error}")).unwrap_or_default();
        format!("0 of {} connections{why}; buttons and commands do nothing meanwhile", status.wanted)
    });
    Check { name: "slack socket".to_owned(), ok: detail.is_none(), required: false, detail }
}

fn check(name: String, required: bool, result: Result<Result<(), String>, tokio::time::error::Elapsed>) -> Check {
    let detail = match result {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error),
        Err(_) => Some(format!("no answer within {} ms", CHECK.as_millis())),
    };
    Check { name, ok: detail.is_none(), required, detail }
}
