//! Named checks: readiness (`/readyz`) says whether alerts can be taken; liveness (`/healthz`, systemd) whether a restart is
//! needed.

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
use crate::supervise::Supervisor;

/// How long one check may take: less than the second after which Kubernetes gives up on a probe.
const CHECK: Duration = Duration::from_millis(700);
/// A store that worked within this time and answers late is busy, not broken.
const BUSY: Duration = Duration::from_secs(2);

/// How long the store may fail before liveness fails.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `store`, `store rows`, `prometheus/<name>`, `slack`, `slack channel <name>`, `slack socket`, `kubernetes`; of
    /// liveness `store`, `loop/<name>`.
    pub name: String,
    /// It works.
    pub ok: bool,
    /// Alerts are refused while it fails. Other checks only make answers later or less complete.
    pub required: bool,
    /// What is wrong and what it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The checks of liveness. What a restart cannot mend is not among them: it belongs to readiness.
pub fn liveness(store: &Store, supervisor: &Supervisor) -> Vec<Check> {
    let broken = store.dead(DEAD_AFTER);
    let store = Check { name: "store".to_owned(), ok: broken.is_none(), required: true, detail: broken };
    let of_loop = |(name, detail): (&str, Option<String>)| Check {
        name: format!("loop/{name}"),
        ok: detail.is_none(),
        required: true,
        detail,
    };
    std::iter::once(store).chain(supervisor.loops().into_iter().map(of_loop)).collect()
}

/// The checks that fail, each with its detail, in one line; none when all is well.
pub fn dead(checks: &[Check]) -> Option<String> {
    let failed = checks.iter().filter(|check| !check.ok);
    let lines: Vec<String> =
        failed.map(|check| format!("{}: {}", check.name, check.detail.as_deref().unwrap_or("dead"))).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
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

/// Runs the checks of `doctor`; the caller does not see the configuration.
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
    let rows = rows(store);
    let channels = async {
        match slack {
            Some(_) => channels(store, configured).await,
            None => Vec::new(),
        }
    };
    let store = async {
        // A task, because a ping that is cut short costs a connection; it ends by the store's own limits.
        let ping = tokio::spawn({
            let store = store.clone();
            async move { store.ping().await.map_err(|error| error.to_string()) }
        });
        let result = tokio::time::timeout(CHECK, ping).await;
        let result = result.map(|joined| joined.unwrap_or_else(|error| Err(error.to_string())));
        // One who is busy with webhooks answers late and is fit.
        check("store".into(), true, if result.is_err() && store.worked(BUSY) { Ok(Ok(())) } else { result })
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
    let first = std::iter::once(store).chain(rows).chain(prometheus).chain(slack);
    first.chain(channels).chain(socket.map(connected)).chain(cluster).collect()
}

/// Rows that cannot be read; none while all can.
fn rows(store: &Store) -> Option<Check> {
    let rows = store.unreadable();
    let first = rows.first()?;
    let detail = format!(
        "{} cannot be read, and everything else goes on without: {first}; the log names each one. Another version of \
         llm-diagnose or a program beside it wrote it: use that version, or delete it",
        rows.len()
    );
    Some(Check { name: "store rows".to_owned(), ok: false, required: false, detail: Some(detail) })
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

/// Socket Mode: one connection is enough; the others serve while Slack renews one.
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
