//! bundle: everything about an incident in one file, for whoever takes over.
//!
//! Sources are asked at once, each within its own deadline; what fails is a part that says so. Everything crosses one
//! border on its way into the archive, where secrets are taken out ([`crate::redact`]).

mod archive;
mod config;
mod files;
mod gather;
mod incident;
mod link;
mod make;
pub mod open;
mod progress;
mod queries;
mod reach;
pub mod series;
pub mod shelf;
mod subject;
mod workshop;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::alert::Alert;
use crate::diagnose::{self, Baseline, Diagnosis, NoCluster, Request};
use crate::exporter::{Reader, Target};
use crate::playbook::Library;
use crate::prom::Prometheus;
use crate::render::Words;
use crate::report::{self, About, Asked, Happened, Report, Window};
use crate::store::Incident;
pub use config::Config;
pub use files::clean;
pub use incident::incident_json;
pub use link::{Links, Refused, own_key};
pub use make::make;
pub use progress::{Board, Progress};
pub use reach::{Configured, Reach};
pub use shelf::{Draft, Kept, Name, Shelf};
pub use subject::around;
pub use workshop::{Bundle, Job, NoBundle, Parts, TIDY, Workshop};

/// Where a bundle's parts come from; what is none is skipped.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The knowledge.
    pub library: Arc<Library>,
    /// What is said.
    pub words: Arc<Words>,
    /// Where series are asked.
    pub prometheus: Option<Prometheus>,
    /// How engines are read, and the ones that are known without Prometheus.
    pub reader: Option<(Reader, Vec<Target>)>,
    /// The cluster's API.
    pub kubernetes: Option<crate::kubernetes::Kubernetes>,
    /// Why the cluster cannot be asked, where there should be one.
    pub no_cluster: Option<NoCluster>,
    /// Where logs are kept.
    pub loki: Option<crate::loki::Loki>,
    /// Logs that somebody names.
    pub files: Vec<PathBuf>,
    /// How diagnoses are made.
    pub diagnosing: diagnose::Config,
}

/// What a bundle is about.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The incident, as the store has it; none when a pool is looked at without one.
    pub incident: Option<Incident>,
    /// The first sentence of its message.
    pub headline: String,
    /// What to ask: pool, moment, playbook.
    pub request: Request,
    /// The diagnosis that stands; made anew when there is none.
    pub diagnosis: Option<Diagnosis>,
    /// The time that the bundle is about.
    pub window: Window,
    /// What the store knows to have happened.
    pub happened: Vec<Happened>,
    /// The incident's alerts, or those that somebody passed.
    pub alerts: Vec<Alert>,
    /// The notification as somebody passed it, with what we do not read.
    pub payload: Option<serde_json::Value>,
}

impl Subject {
    /// The same for the report.
    pub fn about(&self) -> About<'_> {
        let incident = self.incident.as_ref().map(|incident| report::Incident {
            id: incident.id.clone(),
            group_key: incident.group_key.clone(),
            open: incident.open,
            playbook: incident.playbook.clone(),
            because: incident.because.clone(),
            started_at: incident.started_at,
            opened_at: incident.opened_at,
            resolved_at: incident.resolved_at,
            refired: incident.refired,
            truncated: incident.truncated,
            seen_before: incident.seen_before,
            external_url: incident.external_url.clone(),
            acknowledged: incident.acknowledged.clone(),
            impact: incident.impact,
        });
        About {
            headline: &self.headline,
            incident,
            alerts: &self.alerts,
            diagnosis: self.diagnosis.as_ref(),
            asked: Asked {
                since: self.request.since,
                baseline_seconds: match self.request.baseline {
                    Baseline::Earlier(by) => Some(by.as_secs()),
                    Baseline::Off => None,
                },
            },
            window: self.window,
            happened: &self.happened,
        }
    }
}

/// How a bundle is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Take secrets out.
    pub redact: bool,
    /// Replace the names of pods, nodes, namespaces and hosts.
    pub anonymize: bool,
    /// When all sources must have answered.
    pub deadline: Duration,
    /// Bytes of series, uncompressed.
    pub series_bytes: u64,
    /// Bytes of logs, uncompressed.
    pub log_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Receivers whose tickets are wanted, whatever the cause.
    pub tickets: Vec<String>,
}

impl Options {
    /// As configured: with secrets taken out.
    pub fn of(config: &Config) -> Self {
        Self {
            redact: true,
            anonymize: false,
            deadline: config.deadline,
            series_bytes: config.series_bytes,
            log_bytes: config.log_bytes,
            file_bytes: config.keep_bytes,
            tickets: Vec::new(),
        }
    }
}

/// A bundle that was made.
#[derive(Debug, Clone)]
pub struct Made {
    /// What is in it, as `summary.json` has it.
    pub report: Box<Report>,
    /// Its size.
    pub bytes: u64,
}

/// Why there is no bundle at all; what fails of one is told in it.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be made or written.
    #[error("cannot write the bundle {0}: {1}")]
    Disk(String, #[source] std::io::Error),
    /// There is not enough room; the text says how much is free and how much must stay so.
    #[error("{0}")]
    NoRoom(String),
    /// Secrets could not be taken out of the report.
    #[error("the report could not be cleaned of secrets, so it was not written: {0}")]
    Unclean(String),
    /// The program ends.
    #[error("the bundle was not finished: the program stops")]
    Stopped,
}
