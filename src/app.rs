//! Wiring of the service: builds all parts from the configuration, runs them, and shuts them down in order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::alertmanager::Alertmanager;
use crate::bundle::{self, BundleDirectory, BundleService, Configured, Links, SourceRegistry};
use crate::chatops::{Desk, People, RequestDedup};
use crate::cli::doctor;
use crate::config::{Config, SlackInlet, bot_token, inlet, secret};
use crate::diagnose::LogSources;
use crate::exporter::ExporterReader;
use crate::housekeeping;
use crate::notify::{Notifier, NotifierParts, PagerClient};
use crate::pipeline::{Pipeline, Received};
use crate::playbook::Library;
use crate::prom::Prometheus;
use crate::readiness::{self, Examination};
use crate::redact::Redactor;
use crate::render::Phrases;
use crate::server::{Access, Budget, Credentials, Door, Pages, Shared, listen, router};
use crate::slack::socket::{self, Socket, SocketTiming};
use crate::slack::{Signing, Slack, SocketState};
use crate::store::{STORE_FILE, StateLock, Store};
use crate::supervise::{self, Supervisor, Systemd};
use crate::telemetry::Metrics;

/// The running future of one pipeline loop.
type LoopFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    if let Some(given) = config.exporters.targets.iter().find(|given| !library.engines.contains_key(&given.engine)) {
        bail!("`exporters.targets`: there is no signal file for engine `{}`", given.engine);
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
    let redactor = Redactor::new(&library.redaction, false).context("cannot read the rules of redaction")?;
    let pages = Arc::new(Pages::new(access, redactor));
    if !loopback && !credentials.are_set() {
        warn!("the webhook takes calls from everywhere without credentials: set webhook.bearer_token_file");
    }
    if config.language.is_some() {
        warn!("the key `language` has no effect any more, messages are in English: remove it");
    }
    let words = Arc::new(Phrases::load(config.playbooks.dir.as_deref()).context("cannot read the phrases")?);
    let library = Arc::new(library);
    let notifier = Notifier::new(NotifierParts {
        store: store.clone(),
        slack: slack.clone(),
        config: config.slack.clone(),
        words: Arc::clone(&words),
        metrics: Arc::clone(&metrics),
        public_url: config.public_url.clone(),
        dashboard_url: config.dashboard_url.clone(),
        prometheus: prometheus.clone(),
        library: Arc::clone(&library),
        diagnosing: config.diagnose.clone(),
        pagers: pagers(&config)?,
        interactive: !matches!(inlet, SlackInlet::Off(_)),
    });
    let notifier = match config.alertmanagers.is_empty() {
        true => Arc::new(notifier.without_silences()),
        false => Arc::new(notifier),
    };
    let (inbox, groups) = mpsc::channel(config.webhook.queue);
    let logs = LogSources::connect(&config.kubernetes, &config.loki).await.context("in `loki:`")?;
    let pipeline = Pipeline::new(config, library, store.clone(), prometheus, reader, notifier, metrics).with_logs(logs);
    let pipeline = Arc::new(pipeline);

    let halt = CancellationToken::new();
    let closing = CancellationToken::new();
    let tasks = TaskTracker::new();
    let supervisor = Supervisor::new(Arc::clone(&pipeline.metrics), supervise::Timing::default(), closing.clone());
    let workshop = Arc::new(workshop(&pipeline, Arc::clone(&words), tasks.clone(), closing.clone())?);
    // A weak reference, because the workshop itself holds the store.
    let gives_way = Arc::downgrade(&workshop);
    store.when_full(move || gives_way.upgrade().is_some_and(|workshop| workshop.give_way()));
    let desk = match slack.clone() {
        Some(slack) => Some(Arc::new(desk(&pipeline, slack, words, Arc::clone(&workshop), tasks.clone())?)),
        None => None,
    };
    let work = LoopParts { pipeline: &pipeline, workshop: &workshop, desk: desk.as_ref(), groups };
    let admitting = loops(&supervisor, &tasks, &halt, work);
    let (door, socket) = inward(inlet, desk, &pipeline, &closing, &tasks, &supervisor);

    let metrics = Arc::clone(&pipeline.metrics);
    let limits = pipeline.config.http;
    let app = router(Shared {
        pipeline,
        inbox,
        budget: Budget::default(),
        supervisor: supervisor.clone(),
        credentials,
        slack,
        door,
        socket,
        workshop,
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

struct LoopParts<'a> {
    pipeline: &'a Arc<Pipeline>,
    workshop: &'a Arc<BundleService>,
    desk: Option<&'a Arc<Desk>>,
    groups: mpsc::Receiver<Received>,
}

/// Starts the loops, each supervised with the longest allowed time between two of its wake-ups; returns the handle of
/// the admit loop.
fn loops(
    supervisor: &Supervisor,
    tasks: &TaskTracker,
    halt: &CancellationToken,
    work: LoopParts<'_>,
) -> JoinHandle<()> {
    const OFTEN: Duration = Duration::from_secs(5);
    const SOMETIMES: Duration = Duration::from_secs(60);
    let LoopParts { pipeline, workshop, desk, groups } = work;
    let workshop = Arc::clone(workshop);
    tasks.spawn(supervisor.keep("tidy", bundle::TIDY, move || Arc::clone(&workshop).tidy_loop()));
    if let Some(desk) = desk {
        let (desk, halt) = (Arc::clone(desk), halt.clone());
        let followups = move || Arc::clone(&desk).followups_loop(halt.clone());
        tasks.spawn(supervisor.keep("followups", SOMETIMES, followups));
    }
    let with = |run: fn(Arc<Pipeline>, CancellationToken, TaskTracker) -> LoopFuture| {
        let (pipeline, halt, tasks) = (Arc::clone(pipeline), halt.clone(), tasks.clone());
        move || run(Arc::clone(&pipeline), halt.clone(), tasks.clone())
    };
    tasks.spawn(supervisor.keep("diagnose", OFTEN, with(|p, halt, tasks| Box::pin(p.diagnose_loop(halt, tasks)))));
    tasks.spawn(supervisor.keep("deliver", OFTEN, with(|p, halt, tasks| Box::pin(p.deliver_loop(halt, tasks)))));
    tasks.spawn(supervisor.keep("housekeeping", SOMETIMES, with(|p, halt, _| Box::pin(housekeeping::run(p, halt)))));
    if pipeline.config.exporters.learn {
        tasks.spawn(supervisor.keep("learn", SOMETIMES, with(|p, halt, _| Box::pin(p.learn_loop(halt)))));
    }
    let (notifier, stop) = (Arc::clone(&pipeline.notifier), halt.clone());
    tasks.spawn(supervisor.keep("channels", SOMETIMES, move || Arc::clone(&notifier).channels_loop(stop.clone())));
    let (store, stop) = (pipeline.store.clone(), halt.clone());
    tasks.spawn(supervisor.keep("store", SOMETIMES, move || store.clone().watch(stop.clone())));
    let (pipeline, groups) = (Arc::clone(pipeline), Arc::new(Mutex::new(groups)));
    let admit = move || Arc::clone(&pipeline).admit_loop(Arc::clone(&groups));
    tokio::spawn(supervisor.keep("admit", OFTEN, admit))
}

/// Builds the desk that answers users in Slack, from the parts of the pipeline.
fn desk(
    pipeline: &Arc<Pipeline>,
    slack: Slack,
    words: Arc<Phrases>,
    workshop: Arc<BundleService>,
    tasks: TaskTracker,
) -> anyhow::Result<Desk> {
    let config = &pipeline.config;
    Ok(Desk {
        library: Arc::clone(&pipeline.library),
        store: pipeline.store.clone(),
        prometheus: pipeline.prometheus.clone(),
        reader: pipeline.reader.clone(),
        exporters: config.exporters.clone(),
        logs: pipeline.logs.clone(),
        diagnosing: config.diagnose.clone(),
        alertmanagers: config.alertmanagers.iter().map(Alertmanager::new).collect::<Result<_, _>>()?,
        slack,
        config: config.slack.clone(),
        notifier: Arc::clone(&pipeline.notifier),
        words,
        metrics: Arc::clone(&pipeline.metrics),
        wake: Arc::clone(&pipeline.diagnoses),
        deliveries: Arc::clone(&pipeline.deliveries),
        workshop,
        tasks,
        seen: RequestDedup::default(),
        people: People::new(&config.slack),
        examination: {
            let config = Arc::new(config.clone());
            Examination::new(move || doctor::examine(Arc::clone(&config)))
        },
    })
}

/// Builds the workshop that creates bundles, from the parts of the pipeline.
fn workshop(
    pipeline: &Pipeline,
    words: Arc<Phrases>,
    tasks: TaskTracker,
    stop: CancellationToken,
) -> anyhow::Result<BundleService> {
    let config = &pipeline.config;
    let configured = Configured { exporters: &config.exporters, diagnosing: &config.diagnose };
    let (prometheus, reader) = (pipeline.prometheus.clone(), pipeline.reader.clone());
    let logs = pipeline.logs.clone();
    let reach = SourceRegistry::new(Arc::clone(&pipeline.library), words, prometheus, reader, logs, configured);
    if config.database.url_file.is_some() && config.bundle.link_key_file.is_none() && !config.public_url.is_empty() {
        warn!("download links open at the replica that signed them alone: give all of them one `bundle.link_key_file`");
    }
    let key = match &config.bundle.link_key_file {
        Some(file) => secret(file)?.expose_secret().as_bytes().to_vec(),
        None => bundle::own_key(&config.state_dir).context("cannot make the key of download links")?,
    };
    let links = Links::new(&key, &config.public_url, config.bundle.link_expires).map_err(anyhow::Error::msg)?;
    Ok(BundleService::new(bundle::BundleServiceParts {
        store: pipeline.store.clone(),
        notifier: Arc::clone(&pipeline.notifier),
        reach,
        config: config.bundle.clone(),
        shelf: BundleDirectory::open(&config.bundle, &config.state_dir)
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
    pipeline: &Pipeline,
    closing: &CancellationToken,
    tasks: &TaskTracker,
    supervisor: &Supervisor,
) -> (Option<Door>, Option<SocketState>) {
    let Some(desk) = desk else { return (None, None) };
    match inlet {
        SlackInlet::Off(hint) => {
            info!(hint, "Slack shows messages only: nothing listens to buttons and commands, /slack/* answers 404");
            (None, None)
        }
        SlackInlet::Http(secret) => {
            info!("Slack reaches us by HTTP, at /slack/commands, /slack/interactions and /slack/events");
            (Some(Door { signing: Arc::new(Signing::new(&secret)), desk }), None)
        }
        SlackInlet::Socket(app_token) => {
            info!("Slack reaches us by Socket Mode: /slack/* answers 404");
            let metrics = Arc::clone(&pipeline.metrics);
            let state = SocketState::new(pipeline.config.slack.connections, Arc::clone(&metrics));
            let (slack, timing) = (desk.slack.clone(), SocketTiming::default());
            let (shown, stop) = (state.clone(), closing.clone());
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
            (None, Some(shown))
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
