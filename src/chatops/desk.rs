//! The desk: everything that the handlers of requests share.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::people::People;
use super::recent::RequestDedup;
use crate::alertmanager::Alertmanager;
use crate::bundle::BundleService;
use crate::diagnose;
use crate::exporter::{self, ExporterReader};
use crate::notify::Notifier;
use crate::playbook::Library;
use crate::prom::{Prometheus, choose};
use crate::readiness::Examination;
use crate::render::Phrases;
use crate::slack::{self, Slack};
use crate::store::{Incident, Store};
use crate::telemetry::Metrics;

/// Everything that a handler may need.
#[derive(Debug)]
pub struct Desk {
    /// The playbooks and signals.
    pub library: Arc<Library>,
    /// The store.
    pub store: Store,
    /// The Prometheus servers, each with the alert labels that select it.
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    /// Scrapes exporters for signals that Prometheus lacks.
    pub reader: ExporterReader,
    /// The configured exporters.
    pub exporters: exporter::Config,
    /// The sources of the replicas' logs.
    pub logs: diagnose::LogSources,
    /// Window, baseline and deadline of a diagnosis.
    pub diagnosing: diagnose::Config,
    /// The Alertmanagers in which silences are created.
    pub alertmanagers: Vec<Alertmanager>,
    /// The Slack Web API client.
    pub slack: Slack,
    /// Permissions, rate limits and channels.
    pub config: slack::Config,
    /// The delivery of incident messages.
    pub notifier: Arc<Notifier>,
    /// The phrases of all messages.
    pub words: Arc<Phrases>,
    /// The service's own metrics.
    pub metrics: Arc<Metrics>,
    /// Wakes the diagnose loop because a diagnosis is due.
    pub wake: Arc<tokio::sync::Notify>,
    /// Wakes the deliver loop because a message has changed.
    pub deliveries: Arc<tokio::sync::Notify>,
    /// The builder of bundles.
    pub bundles: Arc<BundleService>,
    /// The running tasks; joined at shutdown.
    pub tasks: TaskTracker,
    /// The ids of recent requests: Slack retries those without an acknowledgement.
    pub seen: RequestDedup,
    /// Cached facts about users, and their rate limits.
    pub people: People,
    /// The checks of the `doctor` command.
    pub examination: Examination,
}

impl Desk {
    /// Returns the Prometheus that an incident's diagnosis queries.
    pub(super) fn prometheus_of(&self, incident: &Incident) -> Option<&Prometheus> {
        choose(&self.prometheus, &incident.alerts)
    }
}
