//! The desk: everything that the handlers of requests share.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::people::People;
use bundle::BundleService;
use prom::{Prometheus, choose};
use service::Service;
use service::readiness::Examination;
use slack::Slack;
use sources::alertmanager::Alertmanager;
use store::Incident;

/// Maximum number of requests handled concurrently.
const AT_ONCE: usize = 64;

/// Everything that a handler may need. The fields of the service can be read as fields of the desk.
#[derive(Debug)]
pub struct Desk {
    /// The parts that the loops and the HTTP server use as well.
    pub service: Arc<Service>,
    /// The Alertmanagers in which silences are created.
    pub alertmanagers: Vec<Alertmanager>,
    /// The Slack Web API client.
    pub slack: Slack,
    /// The builder of bundles.
    pub bundles: Arc<BundleService>,
    /// The running tasks; joined at shutdown.
    pub tasks: TaskTracker,
    /// The slots for concurrent work; a request without one gets a busy notice.
    pub slots: Arc<Semaphore>,
    /// Cached facts about users, and their rate limits.
    pub people: People,
    /// The checks of the `doctor` command.
    pub examination: Examination,
}

impl Deref for Desk {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Desk {
    /// Creates a desk; the configuration of the service names the Alertmanagers and the users' rights.
    ///
    /// # Errors
    /// If an Alertmanager of the configuration cannot be used.
    pub fn new(
        service: Arc<Service>,
        slack: Slack,
        bundles: Arc<BundleService>,
        tasks: TaskTracker,
        examination: Examination,
    ) -> anyhow::Result<Self> {
        let alertmanagers = service.config.alertmanagers.iter().map(Alertmanager::new).collect::<Result<_, _>>()?;
        let people = People::new(&service.config.slack);
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        Ok(Self { service, alertmanagers, slack, bundles, tasks, slots, people, examination })
    }

    /// Returns the Prometheus that an incident's diagnosis queries.
    pub(super) fn prometheus_of(&self, incident: &Incident) -> Option<&Prometheus> {
        choose(&self.prometheus, &incident.alerts)
    }
}
