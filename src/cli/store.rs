//! The service's store, for commands.

use anyhow::Context;

use super::args::StateArgs;
use service::config::visit_store;
use store::{Store, StoreAccess};

/// Opens the store while the service may be running.
pub(super) async fn open(args: &StateArgs) -> anyhow::Result<Store> {
    visit_store(&args.config()?, StoreAccess::ReadOnly).await
}

/// Runs a command's work on a runtime of its own.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?.block_on(work)
}
