//! Everything that bundles can be made from, as configured: chosen once at the start, for each bundle by its alerts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Sources;
use crate::alert::Alert;
use crate::diagnose::LogSources;
use crate::exporter::{Reader, Target};
use crate::playbook::Library;
use crate::prom::{Prometheus, choose};
use crate::render::Words;
use crate::{diagnose, exporter};

/// What a configuration says of sources.
#[derive(Debug, Clone, Copy)]
pub struct Configured<'a> {
    /// The key `exporters:`.
    pub exporters: &'a exporter::Config,
    /// The key `diagnose:`.
    pub diagnosing: &'a diagnose::Config,
}

/// The sources that can be reached.
#[derive(Debug)]
pub struct Reach {
    library: Arc<Library>,
    words: Arc<Words>,
    prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    reader: Reader,
    targets: Vec<Target>,
    logs: LogSources,
    diagnosing: diagnose::Config,
}

impl Reach {
    /// Puts the sources together. The service and the command line build theirs here alone.
    ///
    /// Alerts come first: bundles get slots of their own everywhere, so that no diagnosis waits for one.
    pub fn new(
        library: Arc<Library>,
        words: Arc<Words>,
        prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
        reader: Reader,
        logs: LogSources,
        configured: Configured<'_>,
    ) -> Self {
        let Configured { exporters, diagnosing } = configured;
        Self {
            library,
            words,
            prometheus: prometheus.into_iter().map(|(one, labels)| (one.apart(), labels)).collect(),
            reader: reader.apart(),
            targets: exporters.given().collect(),
            logs: logs.apart(),
            diagnosing: diagnosing.clone(),
        }
    }

    /// The Prometheus that these alerts are asked of.
    pub fn prometheus(&self, alerts: &[Alert]) -> Option<&Prometheus> {
        choose(&self.prometheus, alerts)
    }

    /// How diagnoses are made.
    pub fn diagnosing(&self) -> &diagnose::Config {
        &self.diagnosing
    }

    /// The sources for these alerts. `remembered` are exporters that Prometheus listed before, `files` logs that
    /// somebody names.
    pub fn sources(&self, alerts: &[Alert], remembered: Vec<Target>, files: Vec<PathBuf>) -> Sources {
        let logs = self.logs.of(alerts);
        let targets = self.targets.iter().cloned().chain(remembered).collect();
        Sources {
            library: Arc::clone(&self.library),
            words: Arc::clone(&self.words),
            prometheus: self.prometheus(alerts).cloned(),
            reader: Some((self.reader.clone(), targets)),
            kubernetes: logs.kubernetes.map(|(client, _)| client),
            no_cluster: logs.no_cluster,
            loki: logs.loki.into_iter().next().map(|(loki, _)| loki),
            files,
            diagnosing: self.diagnosing.clone(),
        }
    }
}
