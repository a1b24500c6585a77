//! Everything that bundles can be made from, as configured: chosen once at the start, for each bundle by its alerts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::warn;

use super::Sources;
use crate::alert::{Alert, active, common_labels};
use crate::exporter::{Reader, Target};
use crate::kubernetes::Kubernetes;
use crate::loki::{Loki, LokiError};
use crate::playbook::Library;
use crate::prom::{Prometheus, choose};
use crate::render::Words;
use crate::{diagnose, exporter, kubernetes, loki};

/// What a configuration says of sources.
#[derive(Debug, Clone, Copy)]
pub struct Configured<'a> {
    /// The key `exporters:`.
    pub exporters: &'a exporter::Config,
    /// The key `kubernetes:`.
    pub kubernetes: &'a kubernetes::Config,
    /// The key `loki:`.
    pub loki: &'a [loki::Config],
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
    cluster: Option<Kubernetes>,
    cluster_labels: BTreeMap<String, String>,
    loki: Vec<(Loki, BTreeMap<String, String>)>,
    diagnosing: diagnose::Config,
}

impl Reach {
    /// Prepares every source; nothing is asked yet. The service and the command line build theirs here alone.
    ///
    /// # Errors
    /// When something that is configured cannot be used at all.
    pub async fn new(
        library: Arc<Library>,
        words: Arc<Words>,
        prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
        reader: Reader,
        configured: Configured<'_>,
    ) -> anyhow::Result<Self> {
        let Configured { exporters, kubernetes, loki, diagnosing } = configured;
        // Diagnoses go on without the cluster, and bundles say that it is missing.
        let cluster = match Kubernetes::connect(kubernetes).await {
            Ok(cluster) => cluster,
            Err(error) => {
                warn!(%error, "the cluster's API cannot be used");
                None
            }
        };
        let several = loki.iter().map(|one| Ok((Loki::new(one)?, one.labels.clone())));
        Ok(Self {
            library,
            words,
            prometheus,
            reader,
            targets: exporters.given().collect(),
            cluster,
            cluster_labels: kubernetes.labels.clone(),
            loki: several.collect::<Result<_, LokiError>>()?,
            diagnosing: diagnosing.clone(),
        })
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
        let targets = self.targets.iter().cloned().chain(remembered).collect();
        Sources {
            library: Arc::clone(&self.library),
            words: Arc::clone(&self.words),
            prometheus: self.prometheus(alerts).cloned(),
            reader: Some((self.reader.clone(), targets)),
            kubernetes: self.cluster.clone().filter(|_| fits(&self.cluster_labels, alerts)),
            // Unlike a Prometheus, a Loki of other labels holds logs of other pods.
            loki: self.loki.iter().find(|(_, labels)| fits(labels, alerts)).map(|(loki, _)| loki.clone()),
            files,
            diagnosing: self.diagnosing.clone(),
        }
    }
}

/// Whether firing alerts carry all these labels; without alerts nobody says otherwise.
fn fits(labels: &BTreeMap<String, String>, alerts: &[Alert]) -> bool {
    let common = common_labels(&active(alerts));
    alerts.is_empty() || labels.iter().all(|(name, value)| common.get(name) == Some(value))
}
