//! All configured data sources, built once at the start; the sources of a bundle are selected by its alerts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Sources;
use diagnose::{Exporters, LogSources};
use findings::ExporterTarget;
use knowledge::alert::Alert;
use knowledge::playbook::Library;
use prom::{Prometheus, assigned, choose};
use redact::Redactor;
use render::Phrases;
use service::config::Config;
use sources::exporter;
use sources::exporter::ExporterReader;

/// The data sources that can be reached.
#[derive(Debug)]
pub struct SourceRegistry {
    library: Arc<Library>,
    words: Arc<Phrases>,
    prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    reader: ExporterReader,
    exporters: exporter::Config,
    logs: LogSources,
    diagnosing: diagnose::Config,
    redactor: Redactor,
}

impl SourceRegistry {
    /// Builds the sources; both the service and the command line use this constructor.
    ///
    /// Bundles get their own concurrency limits at every source, so that no diagnosis waits for a bundle.
    pub fn new(
        config: &Config,
        library: Arc<Library>,
        words: Arc<Phrases>,
        prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
        reader: ExporterReader,
        logs: LogSources,
        redactor: Redactor,
    ) -> Self {
        Self {
            library,
            words,
            prometheus: prometheus.into_iter().map(|(client, labels)| (client.with_own_slots(), labels)).collect(),
            reader: reader.with_own_slots(),
            exporters: config.exporters.clone(),
            logs: logs.with_own_slots(),
            diagnosing: config.diagnose.clone(),
            redactor,
        }
    }

    /// Returns the Prometheus for these alerts.
    pub fn prometheus(&self, alerts: &[Alert]) -> Option<&Prometheus> {
        choose(&self.prometheus, alerts)
    }

    /// Returns the settings of diagnoses.
    pub fn diagnosing(&self) -> &diagnose::Config {
        &self.diagnosing
    }

    /// Returns the sources for these alerts. `remembered` are exporters that Prometheus listed before, `files` are
    /// log files given by the user.
    pub fn sources(&self, alerts: &[Alert], remembered: Vec<ExporterTarget>, files: Vec<PathBuf>) -> Sources {
        let logs = self.logs.of(alerts);
        let prometheus = assigned(&self.prometheus, alerts);
        let targets = match &prometheus {
            Some(prometheus) => Exporters::known(&self.exporters, &self.reader, prometheus, Some(remembered)).targets,
            None => self.exporters.given().collect(),
        };
        Sources {
            library: Arc::clone(&self.library),
            words: Arc::clone(&self.words),
            prometheus,
            reader: Some((self.reader.clone(), targets)),
            kubernetes: logs.kubernetes.map(|(client, _)| client),
            no_cluster: logs.no_cluster,
            loki: logs.loki.into_iter().next().map(|(loki, _)| loki),
            files,
            diagnosing: self.diagnosing.clone(),
            redactor: self.redactor.clone(),
        }
    }
}
