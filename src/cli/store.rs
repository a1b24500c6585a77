//! The service's store, for commands.

use anyhow::Context;

use service::config::{Config, visit_store};
use store::{Store, StoreAccess};

/// Does a command's work with the store, while the service may be running.
pub(super) fn with_store<T>(config: &Config, work: impl AsyncFnOnce(&Store) -> anyhow::Result<T>) -> anyhow::Result<T> {
    block_on(async {
        let store = visit_store(config, StoreAccess::ReadOnly).await?;
        let result = work(&store).await?;
        store.close().await;
        Ok(result)
    })
}

/// Runs a command's work on a runtime of its own.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?.block_on(work)
}
