//! The service's state directory and its store.

use std::path::PathBuf;

use anyhow::{Context, bail};
use secrecy::ExposeSecret;

use super::{Config, secret};
use store::{STORE_FILE, Store, StoreAccess};

/// Returns the state directory: the configured one, else systemd's, else the one in the user's home.
pub fn state_directory(settings: &Config) -> PathBuf {
    if !settings.state_dir.as_os_str().is_empty() {
        return settings.state_dir.clone();
    }
    let env = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    env("STATE_DIRECTORY")
        .or_else(|| env("XDG_STATE_HOME").map(|d| d.join("llm-diagnose")))
        .or_else(|| env("HOME").map(|d| d.join(".local/state/llm-diagnose")))
        .unwrap_or_else(|| "llm-diagnose-state".into())
}

/// Opens the existing store of the service, which may be running meanwhile. Creates none, because a new store would be
/// an empty answer.
///
/// # Errors
/// When there is no store, or it cannot be used.
pub async fn visit_store(config: &Config, access: StoreAccess) -> anyhow::Result<Store> {
    if let Some(file) = &config.database.url_file {
        let url = secret(file)?;
        return Store::visit_postgres(url.expose_secret(), access)
            .await
            .with_context(|| format!("cannot use the database that {} names (`database.url_file`)", file.display()));
    }
    let database = state_directory(config).join(STORE_FILE);
    if !database.exists() {
        bail!("there is no store at {}: pass --config as `serve` has it", database.display());
    }
    Store::visit(&database, access).await.with_context(|| format!("cannot use the store at {}", database.display()))
}
