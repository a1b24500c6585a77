//! Incident bundles: everything about an incident in one file, for the person who takes over.
//!
//! All sources are queried concurrently, each with its own deadline; a failed source is reported in its part of the
//! bundle. Everything is redacted ([`redact`]) before it enters the archive.

mod archive;
mod builds;
pub mod directory;
mod files;
mod gather;
mod link;
mod make;
pub mod open;
mod pictures;
mod progress;
mod queries;
mod registry;
mod seal;
pub mod series;
mod text;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use builds::{Builds, Bundle, BundleService, Job, NoBundle, TIDY};
use diagnose::NoCluster;
pub use directory::{BundleDirectory, Draft, Name, StoredBundle};
use findings::ExporterTarget;
use knowledge::playbook::Library;
pub use link::{Links, Refused};
pub use make::make;
pub use progress::{Board, BundleProgress};
use prom::Prometheus;
use redact::Redactor;
pub use registry::SourceRegistry;
use render::Phrases;
use report::Report;
pub use seal::{Manifest, Signature, public_key};
use service::Signer;
use service::config::BundleConfig;
use sources::exporter::ExporterReader;
pub use text::{BundleLocation, bundle_message, bundle_progress};

/// The data sources of a bundle; a source that is `None` is skipped.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The playbook library.
    pub library: Arc<Library>,
    /// The phrases for rendered texts.
    pub words: Arc<Phrases>,
    /// The Prometheus client.
    pub prometheus: Option<Prometheus>,
    /// The reader of engine endpoints, and the targets that are known without Prometheus.
    pub reader: Option<(ExporterReader, Vec<ExporterTarget>)>,
    /// The client of the cluster's API.
    pub kubernetes: Option<sources::kubernetes::Kubernetes>,
    /// The reason why there is no client of the cluster's API, if known.
    pub no_cluster: Option<NoCluster>,
    /// The Loki client.
    pub loki: Option<sources::loki::Loki>,
    /// Log files given by the user.
    pub files: Vec<PathBuf>,
    /// The settings of diagnoses.
    pub diagnosing: diagnose::Config,
    /// The compiled redaction rules, from which each bundle gets its own redactor.
    pub redactor: Redactor,
}

/// The options for building a bundle.
#[derive(Debug, Clone)]
pub struct Options {
    /// True if secrets are redacted.
    pub redact: bool,
    /// True if the names of pods, nodes, namespaces and hosts are replaced.
    pub anonymize: bool,
    /// The time within which all sources must have answered.
    pub deadline: Duration,
    /// Maximum size of the series in bytes, uncompressed.
    pub series_bytes: u64,
    /// Maximum size of the logs in bytes, uncompressed.
    pub log_bytes: u64,
    /// Maximum size of the bundle file in bytes.
    pub file_bytes: u64,
    /// Receivers whose ticket is added whatever the root cause is.
    pub tickets: Vec<String>,
    /// The notification as given by the user, including unparsed fields.
    pub payload: Option<serde_json::Value>,
    /// Signs the manifest; `None` leaves the bundle unsigned.
    pub signer: Option<Arc<Signer>>,
}

impl Options {
    /// Returns the configured options, with redaction.
    pub fn of(config: &BundleConfig) -> Self {
        Self {
            redact: true,
            anonymize: false,
            deadline: config.deadline,
            series_bytes: config.series_bytes,
            log_bytes: config.log_bytes,
            file_bytes: config.keep_bytes,
            tickets: Vec::new(),
            payload: None,
            signer: None,
        }
    }
}

/// A bundle that was built.
#[derive(Debug, Clone)]
pub struct BuiltBundle {
    /// The report, as in `summary.json`.
    pub report: Box<Report>,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// The reason why no bundle was built; failed sources are reported inside a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be created or written.
    #[error("cannot write the bundle {0}: {1}")]
    Disk(String, #[source] std::io::Error),
    /// Too little disk space is free; the text says how much is free and how much must stay free.
    #[error("{0}")]
    NoRoom(String),
    /// Secrets could not be redacted from the report.
    #[error("the report could not be cleaned of secrets, so it was not written: {0}")]
    Unclean(String),
    /// The process is shutting down.
    #[error("the bundle was not finished: the program stops")]
    Stopped,
}
