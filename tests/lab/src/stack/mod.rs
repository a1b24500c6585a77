//! Real programs on loopback: Prometheus, VictoriaMetrics, Alertmanager, PostgreSQL, nginx, and the product itself.
//!
//! Each runs in a directory of its own with its output in files, is ready when its start returns, and is killed when
//! dropped. Nothing here is a mock; [`backfill`] writes the history that Prometheus answers from.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use llm_diagnose_lab::stack::{Alertmanager, Prometheus, backfill::{Series, openmetrics}};
//! let history = openmetrics([Series::new("up", &[("job", "vllm")]).steady(1_700_000_000, 1_700_000_600, 15, 1.0)]);
//! let alertmanager = Alertmanager::builder().webhook("http://127.0.0.1:8080/alerts", serde_json::json!({})).start().await?;
//! let prometheus = Prometheus::builder().backfill_text(&history)?.alertmanager(&alertmanager.address).start().await?;
//! assert_eq!(prometheus.value("up", 1_700_000_300).await?, Some(1.0));
//! # Ok(()) }
//! ```

mod alertmanager;
pub mod backfill;
mod exposition;
mod nginx;
mod postgres;
mod process;
mod prometheus;
mod service;
#[cfg(test)]
mod tests;
mod victoria_metrics;
mod wire;

use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use anyhow::Context;

pub use alertmanager::{Alertmanager, AlertmanagerBuilder};
pub use exposition::stamp_exposition;
pub use nginx::Nginx;
pub use postgres::Postgres;
pub use prometheus::{Prometheus, PrometheusBuilder};
pub use service::{Service, ServiceBuilder};
pub use victoria_metrics::VictoriaMetrics;
pub use wire::Wire;

/// How long a program may take to become ready, or to answer a helper's call.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first of these programs that PATH holds; the error says what to install.
pub fn find_binary(names: &[&str]) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<_> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        // Debian keeps servers out of the PATH of users.
        .chain(names.iter().map(|name| PathBuf::from("/usr/sbin").join(name)))
        .find(|candidate| candidate.is_file())
        .with_context(|| {
            let names = names.join(" or ");
            format!("{names} is not in PATH: sh tests/lab/scripts/ensure-packages.sh installs it")
        })
}

/// A client for plain http on loopback, past any proxy.
pub(crate) fn http() -> anyhow::Result<reqwest::Client> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // It fails only if the program under test was first, which is as good.
        rustls::crypto::ring::default_provider().install_default().ok();
    });
    // No idle connections: a program that was killed and started again must not meet an old one.
    reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .pool_max_idle_per_host(0)
        .build()
        .context("no http client for the stack")
}
