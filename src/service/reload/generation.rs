//! The service with one configuration, in a runtime of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Host, Settings};
use crate::app;
use crate::prepare::Prepared;

/// Time in which work on blocking threads may end after the service has ended.
const THREADS_WITHIN: Duration = Duration::from_millis(500);

/// The service with one configuration. Its tasks end with its runtime.
pub(super) struct Generation {
    /// `None` after the shutdown.
    runtime: Option<Runtime>,
    task: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
}

impl Generation {
    /// Starts the service and returns when it answers webhooks.
    ///
    /// # Errors
    /// When the configuration cannot be used, or the store cannot be opened.
    pub(super) async fn start(host: &Host, settings: &Settings) -> anyhow::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).enable_all().build().context("cannot start the runtime")?;
        let listener = host.listener.try_clone().context("cannot share the listening socket")?;
        let stop = CancellationToken::new();
        let (ready, is_ready) = oneshot::channel();
        let Settings { config, library, .. } = settings.clone();
        let (address, metrics, reloads) = (host.address, Arc::clone(&host.metrics), Arc::clone(&host.reloads));
        let run = {
            let stop = stop.clone();
            async move {
                let prepared = Prepared::new(config, library, address, &metrics).await?;
                let listener =
                    tokio::net::TcpListener::from_std(listener).context("cannot use the listening socket")?;
                app::run(prepared, listener, metrics, reloads, ready, stop).await
            }
        };
        let mut this = Self { task: runtime.spawn(run), runtime: Some(runtime), stop };
        // The sender is dropped when the start fails.
        if is_ready.await.is_ok() {
            return Ok(this);
        }
        let end = this.ended().await;
        this.shut_down(end).await?;
        Err(anyhow!("the service ended before it was ready"))
    }

    /// Waits until the service ends; it does so by itself only when its HTTP server breaks.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.task).await.context("the service panicked")?
    }

    /// Stops the service and waits until its work is finished or left in the store.
    ///
    /// # Errors
    /// When its HTTP server broke.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        let end = self.ended().await;
        self.shut_down(end).await
    }

    /// Ends what still runs after the service has ended, and returns its result.
    pub(super) async fn shut_down(mut self, end: anyhow::Result<()>) -> anyhow::Result<()> {
        if let Some(runtime) = self.runtime.take() {
            // It may only be waited for where a thread may block.
            let waited = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(THREADS_WITHIN)).await;
            waited.context("cannot end the runtime")?;
        }
        end
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        // A runtime may not be dropped inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
