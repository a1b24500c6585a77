//! Named checks: whether the service can take alerts, for `/readyz`; whether it lives, for `/healthz` and systemd.

use std::time::Duration;

use serde::Serialize;

use crate::clock;
use crate::diagnose::{LogSources, NoCluster};
use crate::prom::Prometheus;
use crate::slack::{Slack, SocketState};
use crate::store::Store;
use crate::supervise::Supervisor;

/// How long one check may take: less than the second after which Kubernetes gives up on a probe.
const CHECK: Duration = Duration::from_millis(700);

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `store`, `prometheus/<name>`, `slack`, `slack socket`, `kubernetes`; of liveness `loop/<name>`.
    pub name: String,
    /// It works.
    pub ok: bool,
    /// Alerts are lost or refused without it; the others only make answers poorer or later.
    pub required: bool,
    /// What is wrong and what it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether the process lives. What a restart cannot help has no check here.
pub fn liveness(supervisor: &Supervisor) -> Vec<Check> {
    let of_loop = |(name, detail): (&str, Option<String>)| Check {
        name: format!("loop/{name}"),
        ok: detail.is_none(),
        required: true,
        detail,
    };
    supervisor.loops().into_iter().map(of_loop).collect()
}

/// The checks that fail, each with its detail, in one line; none when all is well.
pub fn dead(checks: &[Check]) -> Option<String> {
    let failed = checks.iter().filter(|check| !check.ok);
    let lines: Vec<String> =
        failed.map(|check| format!("{}: {}", check.name, check.detail.as_deref().unwrap_or("dead"))).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Runs all checks at once.
pub async fn checks(
    store: &Store,
    prometheus: &[&Prometheus],
    slack: Option<&Slack>,
    socket: Option<&SocketState>,
    logs: &LogSources,
) -> Vec<Check> {
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
    let (store, prometheus, slack, cluster) = futures::future::join4(store, prometheus, slack, cluster(logs)).await;
    std::iter::once(store).chain(prometheus).chain(slack).chain(socket.map(connected)).chain(cluster).collect()
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
