//! The parts of the running service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::Reloads;
use crate::config::Config;
use diagnose::LogSources;
use knowledge::alert::Alert;
use knowledge::playbook::Library;
use notify::Notifier;
use prom::{Prometheus, assigned};
use render::Phrases;
use sources::exporter::ExporterReader;
use store::Store;
use telemetry::Metrics;

/// The time at which webhooks were stored last.
#[derive(Debug, Default)]
pub struct LastIntake(Mutex<Option<Instant>>);

impl LastIntake {
    /// Records that webhooks are being stored; until [`Self::record`], but no longer than this.
    pub fn begin(&self, most: Duration) {
        self.set(Instant::now() + most);
    }

    /// Records that webhooks are stored now.
    pub fn record(&self) {
        self.set(Instant::now());
    }

    fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// Returns true if webhooks were stored within this time, or are being stored.
    pub fn is_within(&self, time: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() < time)
    }
}

/// The parts that the loops and the HTTP server share.
#[derive(Debug)]
pub struct Service {
    /// The configuration.
    pub config: Config,
    /// The playbooks and signals.
    pub library: Arc<Library>,
    /// The store.
    pub store: Store,
    /// The Prometheus servers, each with its labels.
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    /// The client that reads exporters directly when Prometheus has no data.
    pub reader: ExporterReader,
    /// The sources of the replicas' logs.
    pub logs: LogSources,
    /// Delivers messages.
    pub notifier: Arc<Notifier>,
    /// The phrases of all messages.
    pub words: Arc<Phrases>,
    /// The service's own metrics.
    pub metrics: Arc<Metrics>,
    /// The outcome of the last reload.
    pub reloads: Arc<Reloads>,
    /// The last storing of webhooks.
    pub last_intake: LastIntake,
    /// Wakes the diagnose loop when a diagnosis is due.
    pub diagnoses: Arc<Notify>,
    /// Wakes the deliver loop when a delivery is due.
    pub deliveries: Arc<Notify>,
}

impl Service {
    /// Builds the service without log sources.
    pub fn new(
        config: Config,
        library: Arc<Library>,
        store: Store,
        prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
        reader: ExporterReader,
        notifier: Arc<Notifier>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            config,
            library,
            store,
            prometheus,
            reader,
            logs: LogSources::default(),
            words: Arc::clone(&notifier.words),
            notifier,
            metrics,
            reloads: Arc::default(),
            last_intake: LastIntake::default(),
            diagnoses: Arc::new(Notify::new()),
            deliveries: Arc::new(Notify::new()),
        }
    }

    /// Returns the Prometheus for these alerts; if there is none, a client whose errors say so. `None` without any
    /// Prometheus.
    pub fn prometheus_of(&self, alerts: &[Alert]) -> Option<Prometheus> {
        assigned(&self.prometheus, alerts)
    }
}
