//! Wiring of the service: runs all parts that a configuration asks for, and shuts them down in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::doctor;
use crate::prepare::Prepared;
use chat::Desk;
use notify::Maintenance;
use notify::{HistoryCache, Notifier, Rates};
use service::config::SlackInlet;
use service::questions::Turns;
use service::readiness::{Examine, SlackProbe};
use service::{Reloads, Service, readiness};
use slack::socket::{self, Socket, SocketTiming};
use slack::{Signing, SocketState};
use sources::alertmanager::Alertmanager;
use store::{STORE_FILE, Store, StoreClock};
use telemetry::Metrics;
use telemetry::supervise::{self, Supervisor, Systemd};
use web::{Budget, Pages, Shared, SlackState, listen, router};

/// Deadline of the whole shutdown.
const STOP_WITHIN: Duration = Duration::from_secs(8);
/// Part of the shutdown deadline that open HTTP requests may use.
const REQUESTS_WITHIN: Duration = Duration::from_secs(4);

/// Problems of the playbooks that are logged at a start; `check` prints all.
const LOGGED_PROBLEMS: usize = 20;

/// Runs the service on `listener` until `stop`; then finishes the work in progress, or leaves it in the store for the
/// next start. Completes `ready` when webhooks are answered. The store continues `clock`; returns it for the next start.
///
/// # Errors
/// When the store cannot be opened, or the HTTP server breaks.
pub(crate) async fn run(
    prepared: Prepared,
    listener: TcpListener,
    metrics: Arc<Metrics>,
    reloads: Arc<Reloads>,
    clock: Option<StoreClock>,
    ready: oneshot::Sender<()>,
    stop: CancellationToken,
) -> anyhow::Result<StoreClock> {
    let store = open_store(&prepared).await?;
    clock.into_iter().for_each(|earlier| store.continue_clock(earlier));
    store.release(store.now()).await?;
    let address = listener.local_addr().context("cannot tell the own address")?;
    warn_of_choices(&prepared, address);
    tell_unused(&prepared, &reloads, &metrics);
    metrics.forget_circuits();
    let Prepared { config, library, prometheus, slack, inlet, .. } = prepared;
    let notifier = Arc::new(Notifier {
        store: store.clone(),
        slack: slack.clone(),
        config: config.slack.clone(),
        words: Arc::new(prepared.words),
        metrics: Arc::clone(&metrics),
        public_url: config.public_url.clone(),
        dashboard_url: config.dashboard_url.clone(),
        prometheus: prometheus.clone(),
        library: Arc::clone(&library),
        diagnosing: config.diagnose.clone(),
        pagers: prepared.pagers,
        interactive: !matches!(inlet, SlackInlet::Off(_)),
        can_silence: !config.alertmanagers.is_empty(),
        redactor: prepared.redactor,
        rates: Rates::new(&config.slack),
        maintenance: Maintenance::new(config.maintenance.clone()),
        history: HistoryCache::default(),
    });
    let (inbox, groups) = mpsc::channel(config.webhook.queue);
    let service = Service::new(config, library, store.clone(), prometheus, prepared.reader, notifier, metrics);
    let service = Arc::new(Service { logs: prepared.logs, reloads, ..service });

    let halt = CancellationToken::new();
    let closing = CancellationToken::new();
    let tasks = TaskTracker::new();
    let supervisor = Supervisor::new(Arc::clone(&service.metrics), supervise::Timing::default(), closing.clone());
    let signer = Arc::new(prepared.signer);
    let bundles = crate::bundles::start(&service, prepared.bundles, Arc::clone(&signer), &supervisor, &tasks, &closing);
    let alertmanagers: Vec<_> = service.config.alertmanagers.iter().map(Alertmanager::new).collect::<Result<_, _>>()?;
    let desk = slack.clone().map(|slack| {
        let examine: Examine = |config| Box::pin(doctor::examine(config));
        Arc::new(Desk::new(
            Arc::clone(&service),
            slack,
            alertmanagers.clone(),
            Arc::clone(&bundles),
            tasks.clone(),
            examine,
        ))
    });
    // Before anything is delivered: a window that lasts keeps people quiet also after a restart.
    if let Err(error) = service.notifier.renew_maintenance(service.store.now()).await {
        warn!(%error, "cannot read the maintenance windows: those of the store hold within seconds");
    }
    let admitting = loops::start(&supervisor, &tasks, &halt, &service, desk.as_ref(), groups);
    let (slack_state, socket) = inward(inlet, desk, &service, &closing, &tasks, &supervisor);

    let metrics = Arc::clone(&service.metrics);
    let limits = service.config.http;
    let per_minute = service.config.slack.commands_per_minute;
    let app = router(Shared {
        service,
        inbox,
        budget: Budget::default(),
        supervisor: supervisor.clone(),
        credentials: Arc::new(prepared.credentials),
        slack: slack.map(|slack| Arc::new(SlackProbe::new(slack))),
        slack_state,
        socket,
        bundles,
        signer,
        tasks: tasks.clone(),
        login: prepared.login.map(Arc::new),
        pages: Arc::new(Pages::new(prepared.access, alertmanagers, per_minute)),
        turns: Turns::default(),
    });
    let mut serving = tokio::spawn(listen(listener, app, limits, metrics, closing.clone()));
    if let Some(systemd) = Systemd::from_env() {
        systemd.tell("READY=1");
        let stop = closing.clone();
        let (store, supervisor) = (store.clone(), supervisor.clone());
        let trouble = move || readiness::dead(&store, &supervisor);
        tasks.spawn(async move { systemd.watchdog(trouble, stop).await });
    }
    info!(%address, store = store.named(), "ready");
    let _ = ready.send(());
    let broken = tokio::select! {
        () = stop.cancelled() => false,
        _ = &mut serving => true,
    };
    if broken {
        error!("the HTTP server broke: stopping, so that whoever started the service starts it again");
    }
    let finish = async {
        closing.cancel();
        // Open requests finish first, because they wait for the store. Then all senders are dropped and the admit loop
        // ends.
        if !broken && tokio::time::timeout(REQUESTS_WITHIN, &mut serving).await.is_err() {
            warn!("some requests were cut off");
            // Closing the connections drops the last senders, so that the admit loop can end.
            serving.abort();
        }
        let _ = tokio::time::timeout(Duration::from_secs(2), admitting).await;
        halt.cancel();
        tasks.close();
        tasks.wait().await;
    };
    if tokio::time::timeout(STOP_WITHIN, finish).await.is_err() {
        warn!("interrupted work stays in the store; the next start resumes it");
    }
    let clock = store.clock();
    let _ = tokio::time::timeout(Duration::from_secs(1), store.close()).await;
    if broken {
        bail!("the HTTP server broke");
    }
    Ok(clock)
}

/// Opens the configured store: PostgreSQL, which replicas share, or else SQLite in the state directory.
async fn open_store(prepared: &Prepared) -> anyhow::Result<Store> {
    let Prepared { config, database, .. } = prepared;
    if let (Some(url), Some(file)) = (database, &config.database.url_file) {
        return Store::connect(url.expose_secret())
            .await
            .with_context(|| format!("cannot use the database that {} names (`database.url_file`)", file.display()));
    }
    let path = config.state_dir.join(STORE_FILE);
    Store::open(&path).await.with_context(|| format!("cannot open {}", path.display()))
}

/// Logs what works and is probably not meant.
fn warn_of_choices(prepared: &Prepared, address: SocketAddr) {
    let Prepared { config, credentials, .. } = prepared;
    if !address.ip().is_loopback() && !credentials.are_set() {
        warn!(
            "webhook.authentication is none and `listen` is not on loopback: everybody who reaches it can send alerts; set webhook.bearer_token_file"
        );
    }
    if config.database.url_file.is_some() && config.bundle.link_key_file.is_none() && !config.public_url.is_empty() {
        warn!(
            "download links, forms of the pages and logins are good at the replica that signed them alone: give all of them one `bundle.link_key_file`"
        );
    }
}

/// Logs what of the user's playbooks is not used, and tells `/readyz` and the metrics.
fn tell_unused(prepared: &Prepared, reloads: &Reloads, metrics: &Metrics) {
    let Prepared { unused, redactor, .. } = prepared;
    for problem in unused.iter().take(LOGGED_PROBLEMS) {
        let problem = format!("{}:{}: {}", problem.file, problem.line, problem.message);
        let problem = redactor.text("playbooks", &problem).into_owned();
        error!(problem, "a part of the playbooks' directory is not used");
    }
    metrics.playbook_problems.set(i64::try_from(unused.len()).unwrap_or(i64::MAX));
    reloads.set_unused(unused, prepared.config.playbooks.dir.as_deref());
}

/// Starts the configured Slack transport: the HTTP endpoints for Slack's requests, or the Socket Mode connections.
fn inward(
    inlet: SlackInlet,
    desk: Option<Arc<Desk>>,
    service: &Service,
    closing: &CancellationToken,
    tasks: &TaskTracker,
    supervisor: &Supervisor,
) -> (Option<SlackState>, Option<SocketState>) {
    let Some(desk) = desk else { return (None, None) };
    match inlet {
        SlackInlet::Off(hint) => {
            info!(hint, "Slack shows messages only: nothing listens to buttons and commands, /slack/* answers 404");
            (None, None)
        }
        SlackInlet::Http(secret) => {
            info!("Slack reaches us by HTTP, at /slack/commands, /slack/interactions and /slack/events");
            (Some(SlackState { signing: Arc::new(Signing::new(&secret)), desk }), None)
        }
        SlackInlet::Socket(app_token) => {
            info!("Slack reaches us by Socket Mode: /slack/* answers 404");
            let metrics = Arc::clone(&service.metrics);
            let state = SocketState::new(service.config.slack.connections, Arc::clone(&metrics));
            let (slack, timing) = (desk.slack.clone(), SocketTiming::default());
            let (reported_state, stop) = (state.clone(), closing.clone());
            let run = move || {
                let desk = Arc::clone(&desk);
                let handle = move |inbound| {
                    let desk = Arc::clone(&desk);
                    async move { desk.receive(inbound).await }
                };
                let (slack, app_token) = (slack.clone(), app_token.clone());
                let (state, metrics) = (state.clone(), Arc::clone(&metrics));
                socket::run(Socket { slack, app_token, state, metrics, timing, handle }, stop.clone())
            };
            // The connections have timers of their own, and /readyz reports their state.
            tasks.spawn(supervisor.keep("slack socket", Duration::MAX, run));
            (None, Some(reported_state))
        }
    }
}
