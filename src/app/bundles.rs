//! The bundles of the service: built from its sources, removed when they are old or the store needs their room.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use bundle::{Builds, BundleDirectory, BundleService, Links, SourceRegistry, TIDY};
use service::{Service, Signer};
use telemetry::supervise::Supervisor;

/// Builds the bundle service from the components of the main service, and starts its loop.
pub(crate) fn start(
    service: &Service,
    directory: BundleDirectory,
    signer: Arc<Signer>,
    supervisor: &Supervisor,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<BundleService> {
    let config = &service.config;
    let (library, words) = (Arc::clone(&service.library), Arc::clone(&service.words));
    let (prometheus, reader, logs) = (service.prometheus.clone(), service.reader.clone(), service.logs.clone());
    let redactor = service.notifier.redactor.clone();
    let bundles = Arc::new(BundleService {
        notifier: Arc::clone(&service.notifier),
        registry: SourceRegistry::new(config, library, words, prometheus, reader, logs, redactor),
        directory,
        links: Links { signer, public_url: config.public_url.clone(), good_for: config.bundle.link_expires },
        tasks: tasks.clone(),
        stop: stop.clone(),
        builds: Builds::default(),
    });
    // Weak, because the bundle service itself holds the store.
    let gives_way = Arc::downgrade(&bundles);
    service.store.when_full(move || gives_way.upgrade().is_some_and(|bundles| bundles.give_way()));
    let tidied = Arc::clone(&bundles);
    tasks.spawn(supervisor.keep("tidy", TIDY, move || Arc::clone(&tidied).tidy_loop()));
    bundles
}
