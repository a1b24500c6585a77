//! Wiring: from a configuration to a running service, and its orderly stop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::alertmanager::Alertmanager;
use crate::bundle::{self, Configured, Links, Reach, Shelf, Workshop};
use crate::chatops::{Desk, People, Recent};
use crate::cli::doctor;
use crate::clock;
use crate::config::{Config, Inlet, bot_token, inlet, secret};
use crate::diagnose::LogSources;
use crate::exporter::Reader;
use crate::notify::{Notifier, PagerClient, Parts};
use crate::pipeline::Pipeline;
use crate::playbook::Library;
use crate::prom::Prometheus;
use crate::readiness::Examination;
use crate::redact::Redactor;
use crate::render::Words;
use crate::server::{Access, Credentials, Door, Pages, Shared, router};
use crate::slack::socket::{self, Socket, Timing};
use crate::slack::{Signing, Slack, SocketState};
use crate::store::Store;
use crate::telemetry::Metrics;

/// How long the whole stop may take.
const STOP_WITHIN: Duration = Duration::from_secs(9);
/// Of the stop, how long open HTTP requests may take.
const REQUESTS_WITHIN: Duration = Duration::from_secs(4);

/// Runs the service on `listener` until `stop` is done; then finishes or parks what is in flight.
///
/// # Errors
/// When something in the configuration cannot be used, or the store cannot be opened.
pub async fn run(
    config: Config,
    library: Library,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::default());
    let store = store(&config).await?;
    store.release(clock::now()).await?;
    let prometheus = config
        .prometheus
        .iter()
        .map(|p| Ok((Prometheus::new(p)?.timed(metrics.query_seconds.clone()), p.labels.clone())))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(given) = config.exporters.targets.iter().find(|given| !library.engines.contains_key(&given.engine)) {
        bail!("`exporters.targets`: there is no signal file for engine `{}`", given.engine);
    }
    let reader = Reader::new(&config.exporters.allow).context("cannot prepare the HTTP client for exporters")?;
    let slack = slack(&config)?;
    let inlet = match &slack {
        Some(_) => inlet(&config.slack)?,
        None => Inlet::Off("set `slack.channel`"),
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
    let words =
        Arc::new(Words::load(&config.language, config.playbooks.dir.as_deref()).context("cannot read the phrases")?);
    let library = Arc::new(library);
    let notifier = Arc::new(Notifier::new(Parts {
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
        interactive: !matches!(inlet, Inlet::Off(_)),
    }));
    let (inbox, groups) = mpsc::channel(config.webhook.queue);
    let logs = LogSources::connect(&config.kubernetes, &config.loki).await.context("in `loki:`")?;
    let pipeline = Pipeline::new(config, library, store.clone(), prometheus, reader, notifier, metrics).with_logs(logs);
    let pipeline = Arc::new(pipeline);

    let halt = CancellationToken::new();
    let closing = CancellationToken::new();
    let tasks = TaskTracker::new();
    let workshop = Arc::new(workshop(&pipeline, Arc::clone(&words), tasks.clone(), closing.clone())?);
    tasks.spawn(Arc::clone(&workshop).tidy_loop());
    let desk = match slack.clone() {
        Some(slack) => Some(Arc::new(desk(&pipeline, slack, words, Arc::clone(&workshop), tasks.clone())?)),
        None => None,
    };
    if let Some(desk) = &desk {
        tasks.spawn(Arc::clone(desk).followups_loop(halt.clone()));
    }
    let (door, socket) = inward(inlet, desk, &pipeline, &closing, &tasks);
    let admitting = tokio::spawn(Arc::clone(&pipeline).admit_loop(groups));
    tasks.spawn(Arc::clone(&pipeline).diagnose_loop(halt.clone(), tasks.clone()));
    tasks.spawn(Arc::clone(&pipeline).deliver_loop(halt.clone(), tasks.clone()));
    tasks.spawn(Arc::clone(&pipeline).housekeeping_loop(halt.clone()));
    tasks.spawn(Arc::clone(&pipeline).learn_loop(halt.clone()));
    tasks.spawn(Arc::clone(&pipeline.notifier).channels_loop(halt.clone()));

    let app = router(Shared { pipeline, inbox, credentials, slack, door, socket, workshop, pages });
    // Whose connection it is decides whether a proxy's word counts.
    let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
    let serving = {
        let closing = closing.clone();
        tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(closing.cancelled_owned()).await })
    };
    info!(%address, store = store.named(), "ready");
    stop.await;
    info!("stopping");
    let finish = async {
        closing.cancel();
        // Open requests end first, because they wait for the store; then the senders are gone and admission ends.
        if tokio::time::timeout(REQUESTS_WITHIN, serving).await.is_err() {
            warn!("some requests were cut off");
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
    Ok(())
}

/// What answers people in Slack: the same parts that the pipeline works with.
fn desk(
    pipeline: &Arc<Pipeline>,
    slack: Slack,
    words: Arc<Words>,
    workshop: Arc<Workshop>,
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
        seen: Recent::default(),
        people: People::new(&config.slack),
        examination: {
            let config = Arc::new(config.clone());
            Examination::new(move || doctor::examine(Arc::clone(&config)))
        },
    })
}

/// What makes bundles, from the parts that the pipeline works with.
fn workshop(
    pipeline: &Pipeline,
    words: Arc<Words>,
    tasks: TaskTracker,
    stop: CancellationToken,
) -> anyhow::Result<Workshop> {
    let config = &pipeline.config;
    let configured = Configured { exporters: &config.exporters, diagnosing: &config.diagnose };
    let (prometheus, reader) = (pipeline.prometheus.clone(), pipeline.reader.clone());
    let logs = pipeline.logs.clone();
    let reach = Reach::new(Arc::clone(&pipeline.library), words, prometheus, reader, logs, configured);
    if config.database.url_file.is_some() && config.bundle.link_key_file.is_none() && !config.public_url.is_empty() {
        warn!("download links open at the replica that signed them alone: give all of them one `bundle.link_key_file`");
    }
    let key = match &config.bundle.link_key_file {
        Some(file) => secret(file)?.expose_secret().as_bytes().to_vec(),
        None => bundle::own_key(&config.state_dir).context("cannot make the key of download links")?,
    };
    let links = Links::new(&key, &config.public_url, config.bundle.link_expires).map_err(anyhow::Error::msg)?;
    Ok(Workshop::new(bundle::Parts {
        store: pipeline.store.clone(),
        notifier: Arc::clone(&pipeline.notifier),
        reach,
        config: config.bundle.clone(),
        shelf: Shelf::open(&config.bundle, &config.state_dir).context("cannot keep bundles (`bundle.dir`)")?,
        links,
        tasks,
        stop,
    }))
}

fn pagers(config: &Config) -> anyhow::Result<Vec<PagerClient>> {
    let client = |pager| PagerClient::new(pager, secret(&pager.key_file)?);
    config.pagers.iter().map(client).collect()
}

/// The configured store: PostgreSQL, else SQLite in the state directory.
pub(crate) async fn store(config: &Config) -> anyhow::Result<Store> {
    if let Some(file) = &config.database.url_file {
        let url = secret(file)?;
        return Store::connect(url.expose_secret())
            .await
            .with_context(|| format!("cannot use the database that {} names (`database.url_file`)", file.display()));
    }
    std::fs::create_dir_all(&config.state_dir)
        .with_context(|| format!("cannot make the state directory {}", config.state_dir.display()))?;
    let database = config.state_dir.join("llm-diagnose.db");
    Store::open(&database).await.with_context(|| format!("cannot open {}", database.display()))
}

/// Opens Slack's way in: the door for requests, or the connections of Socket Mode.
fn inward(
    inlet: Inlet,
    desk: Option<Arc<Desk>>,
    pipeline: &Pipeline,
    closing: &CancellationToken,
    tasks: &TaskTracker,
) -> (Option<Door>, Option<SocketState>) {
    let Some(desk) = desk else { return (None, None) };
    match inlet {
        Inlet::Off(hint) => {
            info!(hint, "Slack shows messages only: nothing listens to buttons and commands, /slack/* answers 404");
            (None, None)
        }
        Inlet::Http(secret) => {
            info!("Slack reaches us by HTTP, at /slack/commands, /slack/interactions and /slack/events");
            (Some(Door { signing: Arc::new(Signing::new(&secret)), desk }), None)
        }
        Inlet::Socket(app_token) => {
            info!("Slack reaches us by Socket Mode: /slack/* answers 404");
            let metrics = Arc::clone(&pipeline.metrics);
            let state = SocketState::new(pipeline.config.slack.connections, Arc::clone(&metrics));
            let (slack, timing) = (desk.slack.clone(), Timing::default());
            let handle = move |inbound| {
                let desk = Arc::clone(&desk);
                async move { desk.receive(inbound).await }
            };
            let socket = Socket { slack, app_token, state: state.clone(), metrics, timing, handle };
            tasks.spawn(socket::run(socket, closing.clone()));
            (None, Some(state))
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
