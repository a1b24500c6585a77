//! Runs the service, and takes over a changed configuration at SIGHUP or when its files change.
//!
//! Each configuration runs in a runtime of its own, a [`Generation`], which ends with all its tasks before the next one
//! starts. Before that a [`Candidate`] is made of the new one, so a configuration that cannot be used changes nothing.
//! The listening socket and the lock of the state directory stay: callers wait in the socket's backlog.

mod generation;
mod watch;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::error::Elapsed;
use tracing::{error, info};

use crate::stop_signals::StopSignals;
use generation::{Candidate, Generation};
use knowledge::clip::format_error;
use knowledge::clock::Backoff;
use knowledge::playbook::Library;
use service::Reloads;
use service::config::Config;
use store::{StateLock, StoreClock, StoreError};
use telemetry::Metrics;
use telemetry::supervise::Systemd;

/// The pauses before the start is tried again.
const AGAIN: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };

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

/// Reads everything anew for a reload; called on a thread that may block.
pub type Load = Arc<dyn Fn() -> anyhow::Result<Settings> + Send + Sync>;

/// Runs the service until SIGTERM or SIGINT.
///
/// # Errors
/// When the service cannot start, or its HTTP server breaks.
pub async fn serve(settings: Settings, load: Load) -> anyhow::Result<()> {
    let mut stop = StopSignals::new()?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let mut kept = Kept::bind(&settings.config).await?;
    let _lock = lock(&settings.config)?;
    // The configuration read last, in force or not: a file that it misses may come later.
    let mut watched = settings.clone();
    let mut seen = watch::digest(&watched).await;
    let mut running = tokio::select! {
        () = stop.recv() => return Ok(()),
        started = start(&kept, settings) => started?,
    };
    kept.reloads.succeeded(&kept.metrics);
    loop {
        let interval = running.settings.config.reload_interval;
        let cause = tokio::select! {
            () = stop.recv() => break,
            _ = hangup.recv() => "SIGHUP",
            () = watch::changed(interval, &watched, &seen) => "changed files",
            end = running.ended() => return running.shut_down(end).await.map(drop),
        };
        info!(cause, "reading the configuration again");
        let reading = async {
            // One that cannot be read is told below. The digest comes before the reading that counts, so that a change
            // between them is seen as one.
            watched = read(&load).await.unwrap_or_else(|_| watched.clone());
            seen = watch::digest(&watched).await;
            candidate(&kept, &running.settings, &load).await
        };
        let next = tokio::select! {
            () = stop.recv() => break,
            next = reading => next,
        };
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                if is_of_database(&error) {
                    seen = watch::ContentDigest::new();
                }
                let error = kept.reloads.failed(&error, &running.settings.library, &kept.metrics);
                error!(cause, error, "the new configuration cannot be used: the old one goes on");
                continue;
            }
        };
        tell_systemd("RELOADING=1");
        let (old, library) = (running.settings.clone(), Arc::clone(&running.settings.library));
        match running.stop().await {
            Ok(clock) => kept.clock = Some(clock),
            Err(error) => {
                let error = format_error(&error);
                error!(error, "the service ended with an error before it starts with the new configuration");
            }
        }
        let starting = async {
            match next.start(&kept).await {
                Ok(running) => {
                    kept.reloads.succeeded(&kept.metrics);
                    info!(cause, "the new configuration is in force");
                    running
                }
                Err(error) => {
                    if is_of_database(&error) {
                        seen = watch::ContentDigest::new();
                    }
                    let error = kept.reloads.failed(&error, &library, &kept.metrics);
                    error!(cause, error, "cannot start with the new configuration: back to the old one");
                    start_again(&kept, old, &load).await
                }
            }
        };
        running = tokio::select! {
            biased;
            () = stop.recv() => {
                info!("stopped");
                return Ok(());
            }
            started = starting => started,
        };
    }
    info!("stopping");
    tell_systemd("STOPPING=1");
    let end = running.stop().await;
    info!("stopped");
    end.map(drop)
}

/// Reads the configuration on a thread that may block, because a file system may hang.
async fn read(load: &Load) -> anyhow::Result<Settings> {
    let load = Arc::clone(load);
    tokio::task::spawn_blocking(move || load()).await.context("reading the configuration panicked")?
}

/// Reads the configuration anew and checks all of it.
///
/// # Errors
/// When it cannot be used, or changes what only a restart can change.
async fn candidate(kept: &Kept, current: &Settings, load: &Load) -> anyhow::Result<Candidate> {
    let next = read(load).await?;
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
    let candidate = Candidate::new(kept, next).await?;
    candidate.examine_database().await?;
    Ok(candidate)
}

/// Returns true if the configuration may be usable once the database is back, so that the next look tries it again.
fn is_of_database(error: &anyhow::Error) -> bool {
    error.is::<Elapsed>() || matches!(error.downcast_ref(), Some(StoreError::Database(_)))
}

async fn start(kept: &Kept, settings: Settings) -> anyhow::Result<Generation> {
    Candidate::new(kept, settings).await?.start(kept).await
}

/// Starts the configuration that was in force, or else the one that the files hold now, again and again until one works:
/// the database may be away for a while, and a file that the old one names may be gone.
async fn start_again(kept: &Kept, old: Settings, load: &Load) -> Generation {
    let mut earlier = 0_u32;
    loop {
        let pause = AGAIN.pause(earlier);
        match start(kept, old.clone()).await {
            Ok(running) => return running,
            Err(error) => error!(error = format_error(&error), ?pause, "cannot start with the old configuration again"),
        }
        let files = async { candidate(kept, &old, load).await?.start(kept).await };
        match files.await {
            Ok(running) => {
                kept.reloads.succeeded(&kept.metrics);
                info!("the configuration that the files hold now is in force");
                return running;
            }
            Err(error) => {
                let error = kept.reloads.failed(&error, &old.library, &kept.metrics);
                error!(error, "nor can it start with the one that the files hold now");
            }
        }
        tokio::time::sleep(pause).await;
        earlier = earlier.saturating_add(1);
    }
}

/// The parts that stay while configurations change.
struct Kept {
    listener: TcpListener,
    address: SocketAddr,
    metrics: Arc<Metrics>,
    reloads: Arc<Reloads>,
    /// The clock of the store that was closed last. Without it, what needs an hour without a clock step would not be
    /// done where files change every hour.
    clock: Option<StoreClock>,
}

impl Kept {
    async fn bind(config: &Config) -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind(&config.listen)
            .await
            .with_context(|| format!("cannot listen on {}: set `listen` to a free address", config.listen))?;
        let address = listener.local_addr().context("cannot tell the own address")?;
        let listener = listener.into_std().context("cannot prepare the listening socket")?;
        Ok(Self { listener, address, metrics: Arc::new(Metrics::default()), reloads: Arc::default(), clock: None })
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

fn tell_systemd(state: &str) {
    if let Some(systemd) = Systemd::from_env() {
        systemd.tell(state);
    }
}
