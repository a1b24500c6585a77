//! Bundles of incidents on request: one at a time per incident, a few concurrently, in tasks that end at shutdown.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, error, info, info_span, warn};

use super::directory::{AT_ONCE, BundleDirectory, Name};
use super::{BundleError, BundleProgress, Links, Options, SourceRegistry, make};
use knowledge::clock;
use notify::Notifier;
use report::Report;
use service::Subject;
use store::StoreError;

/// Maximum bundles in progress or queued; further requests are refused.
const AHEAD: usize = 8;
/// Maximum events of an incident in a bundle.
const EVENTS: u32 = 10_000;
/// Interval between two removals of old bundles.
pub const TIDY: Duration = Duration::from_secs(600);
/// Time for writing and for querying the store, beyond the sources' deadline.
const BESIDE: Duration = Duration::from_secs(60);

/// The reason why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum NoBundle {
    /// Too many bundles are in progress.
    #[error("{AHEAD} bundles are being made already")]
    Busy,
    /// The incident does not exist any more.
    #[error("there is no such incident")]
    Gone,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle could not be written, or the process is shutting down.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// A bundle that was stored.
#[derive(Debug)]
pub struct Bundle {
    /// Its name.
    pub name: Name,
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its report.
    pub report: Report,
}

/// The result; `None` while in progress.
type Ended = Option<Result<Arc<Bundle>, Arc<NoBundle>>>;

/// A bundle in progress, possibly with several waiting callers.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its progress.
    pub progress: BundleProgress,
    ended: watch::Receiver<Ended>,
}

impl Job {
    /// Waits for the result.
    ///
    /// # Errors
    /// The reason why there is no bundle.
    pub async fn done(mut self) -> Result<Arc<Bundle>, Arc<NoBundle>> {
        match self.ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(|| Err(Arc::new(BundleError::Stopped.into()))),
            // The task ended without a result.
            Err(_) => Err(Arc::new(BundleError::Stopped.into())),
        }
    }
}

/// Builds bundles.
#[derive(Debug)]
pub struct BundleService {
    /// Renders the incident's message, and has the store.
    pub notifier: Arc<Notifier>,
    /// All configured data sources.
    pub registry: SourceRegistry,
    /// The bundle directory, with the configuration.
    pub directory: BundleDirectory,
    /// Creates download links.
    pub links: Links,
    /// Joined at shutdown.
    pub tasks: TaskTracker,
    /// Cancelled when the shutdown begins.
    pub stop: CancellationToken,
    /// The bundles in progress.
    pub builds: Builds,
}

/// The bundles in progress, and the slots of those that are built at once.
#[derive(Debug)]
pub struct Builds {
    slots: Semaphore,
    running: Mutex<BTreeMap<String, Job>>,
}

impl Default for Builds {
    fn default() -> Self {
        Self { slots: Semaphore::new(AT_ONCE), running: Mutex::default() }
    }
}

impl BundleService {
    /// Returns the longest time that a caller waits for a bundle, including those queued before it.
    pub fn max_wait(&self) -> Duration {
        let turns = AHEAD.div_ceil(AT_ONCE);
        (self.directory.config.deadline + BESIDE).saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX))
    }

    /// Returns the incident's bundle in progress, else starts a new one.
    ///
    /// # Errors
    /// If too many bundles are in progress.
    pub fn get_or_start(self: &Arc<Self>, incident: &str) -> Result<Job, NoBundle> {
        let mut running = self.builds.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = running.get(incident) {
            return Ok(job.clone());
        }
        if running.len() >= AHEAD {
            self.notifier.metrics.no_bundle("busy");
            return Err(NoBundle::Busy);
        }
        if self.stop.is_cancelled() {
            return Err(BundleError::Stopped.into());
        }
        let (tell, ended) = watch::channel(None);
        let job = Job { progress: BundleProgress::default(), ended };
        running.insert(incident.to_owned(), job.clone());
        let entry = Entry { service: Arc::clone(self), incident: incident.to_owned() };
        let began = Instant::now();
        let (progress, span) = (job.progress.clone(), info_span!("bundle", incident.id = incident));
        self.tasks.spawn(
            async move {
                let service = &entry.service;
                let result = tokio::select! {
                    result = Box::pin(service.build_bundle(&entry.incident, &progress)) => result,
                    () = service.stop.cancelled() => Err(BundleError::Stopped.into()),
                };
                service.record_result(&result, began.elapsed());
                // From here on a request starts a new bundle.
                drop(entry);
                let _ = tell.send(Some(result.map(Arc::new).map_err(Arc::new)));
            }
            .instrument(span),
        );
        Ok(job)
    }

    /// Logs and counts the result.
    fn record_result(&self, result: &Result<Bundle, NoBundle>, took: Duration) {
        let metrics = &self.notifier.metrics;
        match result {
            Ok(Bundle { bytes, report, .. }) => {
                metrics.bundle(report.complete, *bytes, took);
                let duration_ms = took.as_millis() as u64;
                info!(bytes, complete = report.complete, duration_ms, "made a bundle");
            }
            Err(error) => {
                let stopped = matches!(error, NoBundle::Bundle(BundleError::Stopped));
                metrics.no_bundle(if stopped { "stopped" } else { "failed" });
                warn!(%error, "made no bundle");
            }
        }
    }

    async fn build_bundle(&self, id: &str, progress: &BundleProgress) -> Result<Bundle, NoBundle> {
        let _slot = self.builds.slots.acquire().await.map_err(|_| BundleError::Stopped)?;
        let store = &self.notifier.store;
        let incident = store.incident_with_related(id).await?.ok_or(NoBundle::Gone)?;
        let events = store.events(id, EVENTS).await?;
        let now = clock::now();
        let remembered = match self.registry.prometheus(&incident.alerts) {
            Some(prometheus) => store.exporters(&prometheus.key).await?,
            None => Vec::new(),
        };
        let sources = self.registry.sources(&incident.alerts, remembered, Vec::new());
        let headline = self.notifier.message(&incident).await.headline;
        let diagnosing = self.registry.diagnosing();
        let margin = self.directory.config.margin;
        let subject = Subject::of_incident(&sources.library, incident, headline, &events, diagnosing, margin, now);
        let draft = self.directory.begin(id, now)?;
        let signer = Some(Arc::clone(&self.links.signer));
        let options = Options { file_bytes: draft.most, signer, ..Options::of(&self.directory.config) };
        let built = make(&sources, &subject, &options, &draft.part, progress).await.map_err(|e| draft.explain(e))?;
        let path = draft.publish(true)?;
        self.tidy();
        Ok(Bundle { name: self.directory.new_name(id, now), path, bytes: built.bytes, report: *built.report })
    }

    /// Removes old bundles at an interval until stopped.
    pub async fn tidy_loop(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TIDY);
        loop {
            tokio::select! {
                _ = tick.tick() => self.tidy(),
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Removes the oldest bundles because the store's disk is full; returns true if any was removed.
    pub fn give_way(&self) -> bool {
        match self.directory.give_way() {
            Ok(0) => false,
            Ok(removed) => {
                warn!(removed, "the disk is full: removed the oldest bundles, so that alerts can be stored");
                true
            }
            Err(error) => {
                let dir = self.directory.dir.display();
                error!(%error, %dir, "the disk is full, and bundles cannot be removed");
                false
            }
        }
    }

    fn tidy(&self) {
        if let Err(error) = self.directory.tidy(clock::now()) {
            error!(%error, dir = %self.directory.dir.display(), "cannot remove old bundles");
        }
    }
}

/// An incident's entry among the bundles in progress; removed on drop.
struct Entry {
    service: Arc<BundleService>,
    incident: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.service.builds.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.incident);
    }
}
