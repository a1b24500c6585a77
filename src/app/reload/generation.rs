//! The service with one configuration, in a runtime of its own: a candidate that is checked, then a generation that runs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use secrecy::ExposeSecret;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Kept, Settings};
use crate::prepare::Prepared;
use crate::run;
use store::{Store, StoreClock};

/// Time within which a PostgreSQL must answer before a reload.
const DATABASE_WITHIN: Duration = Duration::from_secs(5);
/// Time in which work on blocking threads may end after the service has ended.
const THREADS_WITHIN: Duration = Duration::from_millis(500);

/// A runtime that may be dropped inside another one, with all its tasks.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn new() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Ok(Self(Some(runtime.context("cannot start the runtime")?)))
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> anyhow::Result<JoinHandle<anyhow::Result<T>>> {
        Ok(self.0.as_ref().context("the runtime has ended")?.spawn(work))
    }

    /// Ends what still runs, and waits for it.
    async fn shut_down(mut self) -> anyhow::Result<()> {
        if let Some(runtime) = self.0.take() {
            // It may only be waited for where a thread may block.
            let waited = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(THREADS_WITHIN)).await;
            waited.context("cannot end the runtime")?;
        }
        Ok(())
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A configuration that can be used, with everything that is made of it.
pub(super) struct Candidate {
    settings: Settings,
    prepared: Prepared,
    runtime: OwnRuntime,
}

impl Candidate {
    /// Makes everything that the configuration asks for; to make it is its check.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub(super) async fn new(kept: &Kept, settings: Settings) -> anyhow::Result<Self> {
        let runtime = OwnRuntime::new()?;
        let (address, metrics) = (kept.address, Arc::clone(&kept.metrics));
        let Settings { config, library, .. } = settings.clone();
        let prepare = runtime.spawn(async move { Prepared::new(config, library, address, &metrics).await })?;
        let prepared = prepare.await.context("the check of the configuration panicked")??;
        Ok(Self { settings, prepared, runtime })
    }

    /// Asks a PostgreSQL whether it can be used.
    ///
    /// # Errors
    /// When it cannot be reached or used.
    pub(super) async fn examine_database(&self) -> anyhow::Result<()> {
        let Some(url) = &self.prepared.database else { return Ok(()) };
        tokio::time::timeout(DATABASE_WITHIN, Store::examine(url.expose_secret()))
            .await
            .with_context(|| format!("the database does not answer within {} s", DATABASE_WITHIN.as_secs()))?
            .context("cannot use the database that `database.url_file` names")?;
        Ok(())
    }

    /// Starts the service and returns when it answers webhooks.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub(super) async fn start(self, kept: &Kept) -> anyhow::Result<Generation> {
        let Self { settings, prepared, runtime } = self;
        let listener = kept.listener.try_clone().context("cannot share the listening socket")?;
        let stop = CancellationToken::new();
        let (ready, is_ready) = oneshot::channel();
        let (metrics, reloads, clock) = (Arc::clone(&kept.metrics), Arc::clone(&kept.reloads), kept.clock);
        let run = {
            let stop = stop.clone();
            async move {
                let listener =
                    tokio::net::TcpListener::from_std(listener).context("cannot use the listening socket")?;
                run::run(prepared, listener, metrics, reloads, clock, ready, stop).await
            }
        };
        let task = runtime.spawn(run)?;
        let mut this = Generation { settings, runtime, task, stop };
        // The sender is dropped when the start fails.
        if is_ready.await.is_ok() {
            return Ok(this);
        }
        let end = this.ended().await;
        this.shut_down(end).await?;
        Err(anyhow!("the service ended before it was ready"))
    }
}

/// The service with one configuration. Its tasks end with its runtime.
pub(super) struct Generation {
    pub(super) settings: Settings,
    runtime: OwnRuntime,
    task: JoinHandle<anyhow::Result<StoreClock>>,
    stop: CancellationToken,
}

impl Generation {
    /// Waits until the service ends; it does so by itself only when its HTTP server breaks.
    pub(super) async fn ended(&mut self) -> anyhow::Result<StoreClock> {
        (&mut self.task).await.context("the service panicked")?
    }

    /// Stops the service and waits until its work is finished or left in the store. Returns the store's clock.
    ///
    /// # Errors
    /// When its HTTP server broke.
    pub(super) async fn stop(mut self) -> anyhow::Result<StoreClock> {
        self.stop.cancel();
        let end = self.ended().await;
        self.shut_down(end).await
    }

    /// Ends what still runs after the service has ended, and returns its result.
    pub(super) async fn shut_down(self, end: anyhow::Result<StoreClock>) -> anyhow::Result<StoreClock> {
        self.runtime.shut_down().await?;
        end
    }
}
