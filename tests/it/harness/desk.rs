//! The desk of Slack's users in this process, with its store in a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chat::Desk;
use llm_diagnose_lab::slack::FakeSlack;
use notify::{HistoryCache, Notifier, Rates};
use prom::Prometheus;
use render::Phrases;
use service::Service;
use service::config::Config;
use slack::Slack;
use sources::alertmanager::Alertmanager;
use sources::exporter::ExporterReader;
use store::Store;
use telemetry::Metrics;
use tokio_util::task::TaskTracker;

use super::library;

/// Builds a desk from this configuration, as the service does.
pub(crate) async fn desk(config: Config, slack: &FakeSlack, prometheus: Prometheus, state: &Path) -> Arc<Desk> {
    let store = Store::open(&state.join("llm-diagnose.db")).await.unwrap();
    desk_with(store, config, slack, prometheus, state)
}

/// As [`desk`], with this store.
pub(crate) fn desk_with(
    store: Store,
    config: Config,
    slack: &FakeSlack,
    prometheus: Prometheus,
    state: &Path,
) -> Arc<Desk> {
    let client = Slack::new(&slack.base_url, &slack.token).unwrap();
    let metrics = Arc::new(Metrics::default());
    let prometheus = vec![(prometheus, BTreeMap::new())];
    let library = Arc::new(library().clone());
    let notifier = Arc::new(Notifier {
        store: store.clone(),
        slack: Some(client.clone()),
        config: config.slack.clone(),
        words: Arc::new(Phrases::english()),
        metrics: Arc::clone(&metrics),
        public_url: config.public_url.clone(),
        dashboard_url: String::new(),
        prometheus: prometheus.clone(),
        library: Arc::clone(&library),
        diagnosing: config.diagnose.clone(),
        pagers: Vec::new(),
        interactive: true,
        can_silence: true,
        redactor: super::redactor(false),
        rates: Rates::new(&config.slack),
        maintenance: notify::Maintenance::default(),
        history: HistoryCache::default(),
    });
    let reader = ExporterReader::new(&config.exporters.allow).unwrap();
    let bundles = crate::bundles::bundle_service(state, &notifier);
    let service = Arc::new(Service::new(config, library, store, prometheus, reader, notifier, metrics));
    let alertmanagers = service.config.alertmanagers.iter().map(|one| Alertmanager::new(one).unwrap()).collect();
    Arc::new(Desk::new(service, client, alertmanagers, bundles, TaskTracker::new(), |_| Box::pin(async { Vec::new() })))
}
