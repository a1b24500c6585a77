//! Runs the service, and takes over a changed configuration at SIGHUP or when its files change.
//!
//! Each configuration runs in a runtime of its own, a [`Generation`], which ends with all its tasks before the next one
//! starts. The listening socket and the lock of the state directory stay: callers wait in the socket's backlog. A
//! configuration that cannot be used changes nothing.

mod generation;
mod outcome;
mod watch;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::FutureExt;
use secrecy::ExposeSecret;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use crate::config::Config;
use crate::prepare::Prepared;
use generation::Generation;
use knowledge::clip::format_error;
use knowledge::playbook::Library;
pub use outcome::Reloads;
use store::{StateLock, Store};
use telemetry::Metrics;
use telemetry::supervise::Systemd;

/// Time within which a PostgreSQL must answer before a reload.
const DATABASE_WITHIN: Duration = Duration::from_secs(5);

/// The configuration of a service with what it was read from.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration, with what flags replace.
    pub config: Config,
    /// The playbooks and signals.
    pub library: Arc<Library>,
    /// The configuration file; `None` if flags and environment suffice.
    pub file: Option<PathBuf>,
}

/// Runs the service until SIGTERM or SIGINT; `load` reads everything anew for a reload.
///
/// # Errors
/// When the service cannot start, or its HTTP server breaks.
pub async fn serve(settings: Settings, load: impl Fn() -> anyhow::Result<Settings>) -> anyhow::Result<()> {
    let mut stop = StopSignals::new()?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let host = Host::bind(&settings.config).await?;
    let _lock = lock(&settings.config)?;
    let mut current = settings;
    // The configuration read last, in force or not: a file that it misses may come later.
    let mut watched = current.clone();
    let mut seen = watch::digest(&watched).await;
    let mut running = Generation::start(&host, &current).await?;
    host.reloads.succeeded(&host.metrics);
    loop {
        let cause = tokio::select! {
            () = stop.recv() => break,
            _ = hangup.recv() => "SIGHUP",
            () = watch::changed(current.config.reload_interval, &watched, &seen) => "a changed file",
            end = running.ended() => return running.shut_down(end).await,
        };
        info!(cause, "reading the configuration again");
        // One that cannot be read is told below. The digest comes before the reading that counts, so that a change between
        // them is seen as one.
        watched = load().unwrap_or(watched);
        seen = watch::digest(&watched).await;
        let next = tokio::select! {
            () = stop.recv() => break,
            next = candidate(&host, &current, &load) => next,
        };
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                let error = host.reloads.failed(&error, &current.library, &host.metrics);
                error!(cause, error, "the new configuration cannot be used: the old one goes on");
                continue;
            }
        };
        tell_systemd("RELOADING=1");
        if let Err(error) = running.stop().await {
            error!(error = format_error(&error), "the old configuration did not end well");
        }
        if stop.recv().now_or_never().is_some() {
            info!("stopped");
            return Ok(());
        }
        running = match Generation::start(&host, &next).await {
            Ok(running) => {
                current = next;
                host.reloads.succeeded(&host.metrics);
                info!(cause, "the new configuration is in force");
                running
            }
            Err(error) => {
                let error = host.reloads.failed(&error, &current.library, &host.metrics);
                error!(cause, error, "cannot start with the new configuration: back to the old one");
                Generation::start(&host, &current).await.context("cannot start with the old configuration again")?
            }
        };
    }
    info!("stopping");
    tell_systemd("STOPPING=1");
    let end = running.stop().await;
    info!("stopped");
    end
}

/// Reads the configuration anew and checks all of it.
///
/// # Errors
/// When it cannot be used, or changes what only a restart can change.
async fn candidate(
    host: &Host,
    current: &Settings,
    load: &impl Fn() -> anyhow::Result<Settings>,
) -> anyhow::Result<Settings> {
    let next = load()?;
    for (key, changed) in [
        ("listen", current.config.listen != next.config.listen),
        ("state_dir", current.config.state_dir != next.config.state_dir),
        ("database", current.config.database != next.config.database),
        ("log", current.config.log != next.config.log),
    ] {
        if changed {
            bail!("`{key}` was changed, which needs a restart: restart the service, or take this change back");
        }
    }
    let library = Arc::clone(&next.library);
    let prepared = Prepared::new(next.config.clone(), library, host.address, &host.metrics).await?;
    if let Some(url) = &prepared.database {
        tokio::time::timeout(DATABASE_WITHIN, Store::examine(url.expose_secret()))
            .await
            .with_context(|| format!("the database does not answer within {} s", DATABASE_WITHIN.as_secs()))?
            .context("cannot use the database that `database.url_file` names")?;
    }
    Ok(next)
}

/// The parts that stay while configurations change.
struct Host {
    listener: TcpListener,
    address: SocketAddr,
    metrics: Arc<Metrics>,
    reloads: Arc<Reloads>,
}

impl Host {
    async fn bind(config: &Config) -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind(&config.listen)
            .await
            .with_context(|| format!("cannot listen on {}: set `listen` to a free address", config.listen))?;
        let address = listener.local_addr().context("cannot tell the own address")?;
        let listener = listener.into_std().context("cannot prepare the listening socket")?;
        Ok(Self { listener, address, metrics: Arc::new(Metrics::default()), reloads: Arc::default() })
    }
}

/// Takes the lock of the state directory, which is made if it does not exist; `None` with a PostgreSQL.
fn lock(config: &Config) -> anyhow::Result<Option<StateLock>> {
    if config.database.url_file.is_some() {
        return Ok(None);
    }
    std::fs::create_dir_all(&config.state_dir)
        .with_context(|| format!("cannot make the state directory {}", config.state_dir.display()))?;
    Ok(Some(StateLock::take(&config.state_dir)?))
}

/// The signals that end the service.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn tell_systemd(state: &str) {
    if let Some(systemd) = Systemd::from_env() {
        systemd.tell(state);
    }
}
