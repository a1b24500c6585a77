//! The state that all handlers share.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::auth::Credentials;
use super::body::Budget;
use super::login::Login;
use super::pages_state::Pages;
use bundle::BundleService;
use chat::Desk;
use loops::Received;
use service::questions::Turns;
use service::readiness::SlackProbe;
use service::{Service, Signer};
use slack::{Signing, SocketState};
use telemetry::supervise::Supervisor;

/// The state of the Slack routes.
#[derive(Debug, Clone)]
pub struct SlackState {
    /// The app's signing secret.
    pub signing: Arc<Signing>,
    /// The handler of requests.
    pub desk: Arc<Desk>,
}

/// The state that all handlers share.
#[derive(Clone)]
pub struct Shared {
    /// The parts that the loops share.
    pub service: Arc<Service>,
    /// The queue of received groups to the store.
    pub inbox: mpsc::Sender<Received>,
    /// The memory budget for webhook bodies.
    pub budget: Budget,
    /// The liveness of the loops.
    pub supervisor: Supervisor,
    /// The credentials of the webhook.
    pub credentials: Arc<Credentials>,
    /// The readiness check of Slack.
    pub slack: Option<Arc<SlackProbe>>,
    /// The state of the Slack routes; `None` with another transport.
    pub slack_state: Option<SlackState>,
    /// The state of Socket Mode; `None` with another transport.
    pub socket: Option<SocketState>,
    /// The stored bundles, and the builds of new ones.
    pub bundles: Arc<BundleService>,
    /// Signs download links, and the forms of the pages.
    pub signer: Arc<Signer>,
    /// The tasks that are joined at shutdown.
    pub tasks: TaskTracker,
    /// The access to the pages, and their caches.
    pub pages: Arc<Pages>,
    /// The login of people by a provider of identities, if there is one.
    pub login: Option<Arc<Login>>,
    /// The turns of programs' questions to Prometheus.
    pub turns: Turns,
}
