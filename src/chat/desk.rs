//! The desk: everything that the handlers of requests share.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::people::People;
use super::replies::Caller;
use crate::acts::AuditLog;
use crate::acts::silence::Silencer;
use bundle::BundleService;
use service::Service;
use service::questions::Fleet;
use service::readiness::Examine;
use slack::{Slack, SlackRequest};
use sources::alertmanager::Alertmanager;

/// Maximum number of requests handled concurrently.
const AT_ONCE: usize = 64;

/// The parts that handle requests; each handler gets those that it uses.
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
    pub examine: Examine,
}

impl Desk {
    /// Creates a desk; the configuration of the service names the users' rights.
    pub fn new(
        service: Arc<Service>,
        slack: Slack,
        alertmanagers: Vec<Alertmanager>,
        bundles: Arc<BundleService>,
        tasks: TaskTracker,
        examine: Examine,
    ) -> Self {
        Self {
            people: People::new(&service.config.slack),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            service,
            alertmanagers,
            slack,
            bundles,
            tasks,
            examine,
        }
    }

    /// Returns the user of a request.
    pub(super) fn caller<'a>(&'a self, request: &'a SlackRequest) -> Caller<'a> {
        Caller {
            request,
            slack: &self.slack,
            notifier: &self.service.notifier,
            people: &self.people,
            powers: &self.service.config.slack.act,
            log: AuditLog::of(&self.service),
        }
    }

    /// Returns what silences are made with.
    pub(super) fn silencer(&self) -> Silencer<'_> {
        Silencer::of(&self.service, &self.alertmanagers)
    }

    /// Returns the sources of answers.
    pub(super) fn fleet(&self) -> Fleet<'_> {
        Fleet::of(&self.service, None)
    }
}
