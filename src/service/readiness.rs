//! Named health checks: readiness (`/readyz`) reports whether alerts can be accepted; liveness (`/healthz`, systemd)
//! whether a restart is needed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, join, join_all};

use crate::check::ServiceCheck;
use crate::config::Config;
use crate::watchdog;
use crate::{Reloads, Service};
use diagnose::{LogSources, NoCluster};
use knowledge::clock;
use notify::todo;
use prom::{PromError, Prometheus};
use slack::{self, Slack, SocketState};
use store::{Store, StoreError};
use telemetry::supervise::Supervisor;

/// Timeout of one check: less than the second after which Kubernetes gives up on a probe.
const CHECK: Duration = Duration::from_millis(700);
/// The most entries with one address that are checked each time.
const PINGED: usize = 8;
/// Time for which the answer of Slack counts.
const SLACK_EVERY: Duration = Duration::from_secs(5);
/// A store that completed work within this time and answers after the timeout is busy, not broken.
const BUSY: Duration = Duration::from_secs(2);
/// Time that the store may keep failing before liveness fails.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// The results of the readiness checks.
#[derive(Debug)]
pub struct Readiness {
    /// The store: alerts are refused while it fails.
    pub store: ServiceCheck,
    /// The other checks: `store rows`, `configuration`, `playbooks`, `prometheus/<name>`, `slack`, `slack channel <name>`,
    /// `slack socket`, `kubernetes`, `alertmanager/<source>`. They only make answers slower or less complete.
    pub others: Vec<ServiceCheck>,
}

/// Runs the liveness checks, of the store and each loop. Returns those that fail, with their reasons, in one line; `None`
/// if none does. Failures that a restart cannot fix are reported by readiness instead.
pub fn dead(store: &Store, supervisor: &Supervisor) -> Option<String> {
    let loops = supervisor.loops().into_iter().map(|(name, why)| (format!("loop/{name}"), why));
    let all = std::iter::once(("store".to_owned(), store.dead(DEAD_AFTER))).chain(loops);
    let failed: Vec<String> = all.filter_map(|(name, why)| Some(format!("{name}: {}", why?))).collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

/// Runs the checks of `doctor` on a configuration.
pub type Examine = fn(Arc<Config>) -> BoxFuture<'static, Vec<ServiceCheck>>;

/// The check of Slack with its last result: probes come every few seconds from several callers, and Slack counts calls.
#[derive(Debug)]
pub struct SlackProbe {
    slack: Slack,
    last: Arc<tokio::sync::Mutex<Option<(Instant, ServiceCheck)>>>,
}

impl SlackProbe {
    /// Creates a probe without a result.
    pub fn new(slack: Slack) -> Self {
        Self { slack, last: Arc::default() }
    }

    /// Returns a result of at most [`SLACK_EVERY`] ago; concurrent callers wait for one call.
    async fn check(&self) -> ServiceCheck {
        let (slack, last) = (self.slack.clone(), Arc::clone(&self.last));
        // A separate task, because a caller that hangs up must not end the call without a result.
        let asked = tokio::spawn(async move {
            let mut last = last.lock().await;
            if let Some((at, known)) = last.as_ref()
                && at.elapsed() < SLACK_EVERY
            {
                return known.clone();
            }
            let answer = tokio::time::timeout(CHECK, slack.identity()).await;
            let answer =
                answer.map(|answer| answer.map(drop).map_err(|error| format!("{error}; messages wait for it")));
            let fresh = ServiceCheck::probed("slack", failure(answer));
            *last = Some((Instant::now(), fresh.clone()));
            fresh
        });
        asked.await.unwrap_or_else(|error| ServiceCheck::probed("slack", Some(error.to_string())))
    }
}

/// Runs all readiness checks concurrently.
pub async fn checks(service: &Service, slack: Option<&SlackProbe>, socket: Option<&SocketState>) -> Readiness {
    let Service { store, config, prometheus, logs, reloads, .. } = service;
    let addresses = Prometheus::by_address(prometheus.iter().map(|(client, _)| client));
    let prometheus = join_all(addresses.iter().map(|sharing| address(sharing)));
    let slack = async {
        let Some(slack) = slack else { return Vec::new() };
        let (itself, channels) = join(slack.check(), of_store(channels(store, &config.slack))).await;
        std::iter::once(itself).chain(channels).collect()
    };
    let probes: Vec<BoxFuture<'_, Vec<ServiceCheck>>> = vec![
        async { told(store, reloads) }.boxed(),
        prometheus.map(|checks| checks.concat()).boxed(),
        slack.boxed(),
        async { socket.map(connected).into_iter().collect() }.boxed(),
        cluster(logs).map(|check| check.into_iter().collect()).boxed(),
        of_store(watchdog::checks(store, &config.watchdog)).boxed(),
    ];
    let (store, others) = join(store_check(store), join_all(probes)).await;
    Readiness { store, others: others.concat() }
}

/// Checks whether the store answers.
async fn store_check(store: &Store) -> ServiceCheck {
    // A separate task, because a cancelled ping costs a connection; the ping ends by the store's own timeouts.
    let ping = tokio::spawn({
        let store = store.clone();
        async move { store.ping().await.map_err(|error| error.to_string()) }
    });
    let result = tokio::time::timeout(CHECK, ping).await;
    let result = result.map(|joined| joined.unwrap_or_else(|error| Err(error.to_string())));
    // A store that is busy with webhooks may answer after the timeout and still be healthy.
    let is_busy = result.is_err() && store.worked(BUSY);
    ServiceCheck::probed("store", failure(result).filter(|_| !is_busy))
}

/// Runs checks that read the store. A store that does not answer is reported by its own check.
async fn of_store(checks: impl Future<Output = Result<Vec<ServiceCheck>, StoreError>>) -> Vec<ServiceCheck> {
    tokio::time::timeout(CHECK, checks).await.ok().and_then(Result::ok).unwrap_or_default()
}

/// Reports rows that cannot be read, a changed configuration that cannot be used, and what of the user's playbooks is not
/// used.
fn told(store: &Store, reloads: &Reloads) -> Vec<ServiceCheck> {
    let all = [("store rows", rows(store)), ("configuration", reloads.failure()), ("playbooks", reloads.unused())];
    let told = all.into_iter().filter(|(_, detail)| detail.is_some());
    told.map(|(name, detail)| ServiceCheck::probed(name, detail)).collect()
}

/// Checks the first [`PINGED`] of the entries that share an address, as each may be refused. If there is no connection for any
/// of them, or none is asked, that is said once for all.
async fn address(sharing: &[&Prometheus]) -> Vec<ServiceCheck> {
    let of_one = |client: &Prometheus, problem: Option<String>| {
        ServiceCheck::probed(format!("prometheus/{}", client.name), problem)
    };
    let ping = async |client: &Prometheus| client.ping(clock::now(), CHECK).await;
    let pinged = sharing.iter().take(PINGED);
    let results = join_all(pinged.map(async |client| (*client, ping(client).await))).await;
    let is_away = |(_, result): &(&Prometheus, Result<(), PromError>)| {
        matches!(result, Err(PromError::Unreachable(_) | PromError::Shut { .. }))
    };
    if let Some((first, Err(error))) = results.first()
        && results.iter().all(is_away)
    {
        let others = match sharing.len() - 1 {
            0 => String::new(),
            1 => ", and those of another entry with this address".to_owned(),
            n => format!(", and those of {n} other entries with this address"),
        };
        return vec![of_one(first, Some(format!("{}{others}", waiting(error))))];
    }
    results.into_iter().map(|(client, result)| of_one(client, result.err().as_ref().map(waiting))).collect()
}

/// Says why diagnoses wait for a Prometheus.
fn waiting(error: &PromError) -> String {
    let why = match error {
        PromError::Shut { why, times, again_in } => {
            format!("{why}, {times} times in a row: it is asked again in {} s", again_in.as_secs() + 1)
        }
        _ => error.to_string(),
    };
    format!("{why}; diagnoses wait for it")
}

/// Names rows of the store that cannot be read; `None` if all can be read.
fn rows(store: &Store) -> Option<String> {
    let rows = store.unreadable();
    let first = rows.first()?;
    Some(format!(
        "{} cannot be read, and everything else goes on without: {first}; the log names each one. Another version of \
         llm-diagnose or a program beside it wrote it: use that version, or delete it",
        rows.len()
    ))
}

/// Checks the configured channels, and other channels with waiting messages: a channel fails if Slack refused its last
/// message. All replicas share this result.
async fn channels(store: &Store, config: &slack::Config) -> Result<Vec<ServiceCheck>, StoreError> {
    let refusals = store.refusals().await?;
    let refused = refusals.iter().map(|refusal| refusal.channel.as_str());
    let names: BTreeSet<&str> = config.channels().chain(refused).collect();
    let named = names.into_iter().map(|name| {
        let detail = refusals.iter().find(|refusal| refusal.channel == name).map(|refusal| {
            let since = refusal.since.strftime("%Y-%m-%d %H:%M UTC");
            let (code, waiting, todo) = (&refusal.code, refusal.waiting, todo(&refusal.code));
            format!("Slack refuses messages since {since}: {code}; {waiting} wait for it: {todo}")
        });
        ServiceCheck::probed(format!("slack channel {name}"), detail)
    });
    Ok(named.collect())
}

/// Checks the Kubernetes API; `None` if the service is not meant to use it.
async fn cluster(logs: &LogSources) -> Option<ServiceCheck> {
    let problem = match (&logs.kubernetes, &logs.no_cluster) {
        (Some((client, _)), _) => client.ping(CHECK).await.err(),
        (None, Some(NoCluster { why, wanted: true })) => Some(why.clone()),
        // A pod without a token is no problem if the configuration does not require the cluster.
        (None, _) => return None,
    };
    let problem = problem.map(|error| format!("{error}; diagnoses and bundles go without its logs and events"));
    Some(ServiceCheck::probed("kubernetes", problem))
}

/// Checks Socket Mode. One open connection is enough; the others serve while Slack renews a connection.
fn connected(socket: &SocketState) -> ServiceCheck {
    let status = socket.status();
    let detail = (status.connected == 0).then(|| {
        let why = status.error.map(|error| format!(": {error}")).unwrap_or_default();
        format!("0 of {} connections{why}; buttons and commands do nothing meanwhile", status.wanted)
    });
    ServiceCheck::probed("slack socket", detail)
}

/// Returns why a check fails; `None` if it passes.
fn failure(result: Result<Result<(), String>, tokio::time::error::Elapsed>) -> Option<String> {
    match result {
        Ok(answered) => answered.err(),
        Err(_) => Some(format!("no answer within {} ms", CHECK.as_millis())),
    }
}
