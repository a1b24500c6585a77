//! Wiring of the service: builds all parts from the configuration, runs them, and shuts them down in order.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::bundle::{self, BundleDirectory, BundleService, Links, SourceRegistry, SourceSettings};
use crate::chatops::Desk;
use crate::config::{Config, SlackInlet, bot_token, inlet, secret};
use crate::doctor;
use crate::loops::{self, LoopParts};
use crate::notify::{Notifier, NotifierParts, PagerClient};
use crate::readiness::{self, Examination, SlackProbe};
use crate::server::{Access, Budget, Credentials, Pages, Shared, SlackState, listen, router};
use crate::service::Service;
use diagnose::LogSources;
use knowledge::playbook::Library;
use render::Phrases;
use slack::socket::{self, Socket, SocketTiming};
use slack::{Signing, Slack, SocketState};
use sources::exporter::ExporterReader;
use sources::prom::Prometheus;
use sources::redact::Redactor;
use store::{STORE_FILE, StateLock, Store};
use telemetry::Metrics;
use telemetry::supervise::{self, Supervisor, Systemd};

/// Deadline of the whole shutdown.
const STOP_WITHIN: Duration = Duration::from_secs(9);
/// Part of the shutdown deadline that open HTTP requests may use.
const REQUESTS_WITHIN: Duration = Duration::from_secs(4);

/// Runs the service on `listener` until `stop` completes; then finishes the work in progress, or leaves it in the store
/// for the next start.
///
/// # Errors
/// When a value of the configuration cannot be used, or the store cannot be opened.
pub async fn run(
    config: Config,
    library: Library,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::default());
    let (store, _lock) = store(&config).await?;
    store.release(store.now()).await?;
    let prometheus = config
        .prometheus
        .iter()
        .map(|p| Ok((Prometheus::new(p)?.timed(metrics.query_seconds.clone()), p.labels.clone())))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(target) = config.exporters.targets.iter().find(|target| !library.engines.contains_key(&target.engine)) {
        bail!("`exporters.targets`: there is no signal file for engine `{}`", target.engine);
    }
    let reader =
        ExporterReader::new(&config.exporters.allow).context("cannot prepare the HTTP client for exporters")?;
    let slack = slack(&config)?;
    let inlet = match &slack {
        Some(_) => inlet(&config.slack)?,
        None => SlackInlet::Off("set `slack.channel`"),
    };
    let credentials = Arc::new(Credentials::new(&config.webhook)?);
    let address = listener.local_addr().context("cannot tell the own address")?;
    let loopback = address.ip().is_loopback();
    let access = Access::new(&config.pages, &config.webhook, address, &config.public_url)?;
    let redactor = Redactor::new(&report::redaction(&library), false).context("cannot read the rules of redaction")?;
    let pages = Arc::new(Pages::new(access));
    if !loopback && !credentials.are_set() {
        warn!("the webhook takes calls from everywhere without credentials: set webhook.bearer_token_file");
    }
    if config.language.is_some() {
        warn!("the key `language` has no effect any more, messages are in English: remove it");
    }
    let words = Arc::new(Phrases::load(config.playbooks.dir.as_deref()).context("cannot read the phrases")?);
    let library = Arc::new(library);
    let store = store.with_aliases(library.aliases.clone());
    let notifier = Notifier::new(NotifierParts {
        store: store.clone(),
        slack: slack.clone(),
        config: config.slack.clone(),
        words,
        metrics: Arc::clone(&metrics),
        public_url: config.public_url.clone(),
        dashboard_url: config.dashboard_url.clone(),
        prometheus: prometheus.clone(),
        library: Arc::clone(&library),
        diagnosing: config.diagnose.clone(),
        pagers: pagers(&config)?,
        interactive: !matches!(inlet, SlackInlet::Off(_)),
        redactor,
    });
    let notifier = match config.alertmanagers.is_empty() {
        true => Arc::new(notifier.without_silences()),
        false => Arc::new(notifier),
    };
    let (inbox, groups) = mpsc::channel(config.webhook.queue);
    let logs = LogSources::connect(&config.kubernetes, &config.loki).await.context("in `loki:`")?;
    let service = Service::new(config, library, store.clone(), prometheus, reader, notifier, metrics).with_logs(logs);
    let service = Arc::new(service);

    let halt = CancellationToken::new();
    let closing = CancellationToken::new();
    let tasks = TaskTracker::new();
    let supervisor = Supervisor::new(Arc::clone(&service.metrics), supervise::Timing::default(), closing.clone());
    let bundles = Arc::new(bundle_service(&service, tasks.clone(), closing.clone())?);
    // Weak, because the bundle service itself holds the store.
    let gives_way = Arc::downgrade(&bundles);
    store.when_full(move || gives_way.upgrade().is_some_and(|bundles| bundles.give_way()));
    let desk = match slack.clone() {
        Some(slack) => {
            let config = Arc::new(service.config.clone());
            let examination = Examination::new(move || doctor::examine(Arc::clone(&config)));
            let desk = Desk::new(Arc::clone(&service), slack, Arc::clone(&bundles), tasks.clone(), examination)?;
            Some(Arc::new(desk))
        }
        None => None,
    };
    let work = LoopParts { service: &service, bundles: &bundles, desk: desk.as_ref(), inbox: groups };
    let admitting = loops::start(&supervisor, &tasks, &halt, work);
    let (slack_state, socket) = inward(inlet, desk, &service, &closing, &tasks, &supervisor);

    let metrics = Arc::clone(&service.metrics);
    let limits = service.config.http;
    let app = router(Shared {
        service,
        inbox,
        budget: Budget::default(),
        supervisor: supervisor.clone(),
        credentials,
        slack: slack.map(|slack| Arc::new(SlackProbe::new(slack))),
        slack_state,
        socket,
        bundles,
        pages,
    });
    let mut serving = tokio::spawn(listen(listener, app, limits, metrics, closing.clone()));
    let systemd = Systemd::from_env().map(Arc::new);
    if let Some(systemd) = systemd.clone() {
        systemd.tell("READY=1");
        let stop = closing.clone();
        let (store, supervisor) = (store.clone(), supervisor.clone());
        let trouble = move || readiness::dead(&readiness::liveness(&store, &supervisor));
        tasks.spawn(async move { systemd.watchdog(trouble, stop).await });
    }
    info!(%address, store = store.named(), "ready");
    let broken = tokio::select! {
        () = stop => false,
        _ = &mut serving => true,
    };
    if broken {
        error!("the HTTP server broke: stopping, so that whoever started the service starts it again");
    }
    info!("stopping");
    if let Some(systemd) = &systemd {
        systemd.tell("STOPPING=1");
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
        warn!("what is still in flight is parked in the store and resumed by the next start");
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), store.close()).await;
    info!("stopped");
    if broken {
        bail!("the HTTP server broke");
    }
    Ok(())
}

/// Builds the bundle service from the components of the main service.
fn bundle_service(service: &Service, tasks: TaskTracker, stop: CancellationToken) -> anyhow::Result<BundleService> {
    let config = &service.config;
    let settings = SourceSettings {
        exporters: &config.exporters,
        diagnosing: &config.diagnose,
        redactor: &service.notifier.redactor,
    };
    let (prometheus, reader) = (service.prometheus.clone(), service.reader.clone());
    let (logs, words) = (service.logs.clone(), Arc::clone(&service.words));
    let registry = SourceRegistry::new(Arc::clone(&service.library), words, prometheus, reader, logs, settings);
    if config.database.url_file.is_some() && config.bundle.link_key_file.is_none() && !config.public_url.is_empty() {
        warn!("download links open at the replica that signed them alone: give all of them one `bundle.link_key_file`");
    }
    let key = match &config.bundle.link_key_file {
        Some(file) => secret(file)?.expose_secret().as_bytes().to_vec(),
        None => bundle::own_key(&config.state_dir).context("cannot make the key of download links")?,
    };
    let links = Links::new(&key, &config.public_url, config.bundle.link_expires).map_err(anyhow::Error::msg)?;
    Ok(BundleService::new(bundle::BundleServiceParts {
        store: service.store.clone(),
        notifier: Arc::clone(&service.notifier),
        registry,
        config: config.bundle.clone(),
        directory: BundleDirectory::open(&config.bundle, &config.state_dir)
            .context("cannot keep bundles (`bundle.dir`)")?,
        links,
        tasks,
        stop,
    }))
}

fn pagers(config: &Config) -> anyhow::Result<Vec<PagerClient>> {
    let client = |pager| PagerClient::new(pager, secret(&pager.key_file)?);
    config.pagers.iter().map(client).collect()
}

/// Opens the configured store: PostgreSQL, which replicas share, or else SQLite in the state directory, which is
/// locked.
async fn store(config: &Config) -> anyhow::Result<(Store, Option<StateLock>)> {
    if let Some(file) = &config.database.url_file {
        let url = secret(file)?;
        let store = Store::connect(url.expose_secret())
            .await
            .with_context(|| format!("cannot use the database that {} names (`database.url_file`)", file.display()))?;
        return Ok((store, None));
    }
    std::fs::create_dir_all(&config.state_dir)
        .with_context(|| format!("cannot make the state directory {}", config.state_dir.display()))?;
    let lock = StateLock::take(&config.state_dir)?;
    let database = config.state_dir.join(STORE_FILE);
    let store = Store::open(&database).await.with_context(|| format!("cannot open {}", database.display()))?;
    Ok((store, Some(lock)))
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

fn slack(config: &Config) -> anyhow::Result<Option<Slack>> {
    if config.slack.channel.is_empty() && config.slack.routes.is_empty() {
        return Ok(None);
    }
    let token = bot_token(&config.slack)?;
    Slack::new(&config.slack.api_url, token.expose_secret()).map(Some).context("cannot prepare the Slack client")
}
