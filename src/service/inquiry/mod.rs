//! Questions of programs about the fleet: the HTTP API and MCP ask them. Read-only, bounded in time, and each answer is
//! redacted.

mod diagnosis;
mod health;
mod incidents;
mod pool;
pub mod target;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Service;
use diagnose::health::HealthSource;
use diagnose::{Exporters, LogSources};
use knowledge::playbook::Library;
use render::Phrases;
use sources::exporter::{self, ExporterReader};
use sources::prom::{PromError, Prometheus};
use sources::redact::Redactor;
use store::Store;

pub use diagnosis::{DiagnosisAnswer, DiagnosisQuestion};
pub use incidents::{IncidentDetail, IncidentPage, IncidentSummary, cursor_after, read_cursor, read_since, search};
pub use pool::{PoolQuestion, SignalAnswer, SignalQuestion};

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum InquiryError {
    /// The question is wrong, with how to ask.
    #[error("{0}")]
    Question(String),
    /// A Prometheus could not be asked.
    #[error("{0}")]
    Unanswered(String),
    /// There was no answer in this time.
    #[error("there was no answer within {}", knowledge::clock::human_duration(*.0))]
    Late(Duration),
    /// The answer cannot be cleaned of secrets.
    #[error("the answer cannot be cleaned of secrets: {0}")]
    Unclean(String),
}

impl InquiryError {
    /// Returns the error without any Prometheus.
    fn no_prometheus() -> Self {
        Self::Unanswered("no Prometheus is configured".to_owned())
    }

    /// Returns the error of a target or of labels: wrong, unless Prometheus is to blame.
    fn of_target(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<Arc<PromError>>() {
            Some(error) => Self::Unanswered(error.to_string()),
            None => Self::Question(format!("{error:#}")),
        }
    }
}

/// The sources of the answers.
#[derive(Debug, Clone, Copy)]
pub struct Fleet<'a> {
    /// The playbooks and signals.
    pub library: &'a Library,
    /// The Prometheus servers, each with its labels.
    pub prometheus: &'a [(Prometheus, BTreeMap<String, String>)],
    /// The window, the baseline and the deadline.
    pub diagnosing: &'a diagnose::Config,
    /// The exporters that are read when Prometheus has no data.
    pub exporters: &'a exporter::Config,
    /// The client that reads them.
    pub reader: &'a ExporterReader,
    /// The logs of replicas.
    pub logs: &'a LogSources,
    /// The store with the learnt exporters; without it they are learnt for each question.
    pub store: Option<&'a Store>,
    /// The rules of redaction.
    pub redactor: &'a Redactor,
    /// The phrases of answers for people.
    pub words: &'a Phrases,
}

impl<'a> Fleet<'a> {
    /// Returns the sources of a running service.
    pub fn of(service: &'a Service) -> Self {
        Self {
            library: &service.library,
            prometheus: &service.prometheus,
            diagnosing: &service.config.diagnose,
            exporters: &service.config.exporters,
            reader: &service.reader,
            logs: &service.logs,
            store: Some(&service.store),
            redactor: &service.notifier.redactor,
            words: &service.words,
        }
    }

    /// Returns the Prometheus servers as sources of health.
    fn sources(&self) -> Vec<HealthSource<'a>> {
        self.prometheus.iter().map(|(prometheus, labels)| (prometheus, labels)).collect()
    }

    /// Returns the exporters that are configured, and those known of this Prometheus.
    async fn exporters(&self, prometheus: &Prometheus) -> Exporters {
        let mut targets: Vec<_> = self.exporters.given().collect();
        if let Some(store) = self.store.filter(|_| self.exporters.learn) {
            targets.extend(store.exporters(&prometheus.url).await.unwrap_or_default());
        }
        let learn = self.exporters.learn && self.store.is_none();
        Exporters { reader: self.reader.clone(), targets, learn, fresh: false, saved: Vec::new() }
    }

    /// Returns a value without secrets.
    ///
    /// # Errors
    /// When it cannot be cleaned.
    pub fn cleaned<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<T, InquiryError> {
        let redactor = self.redactor.another(&self.library.redaction, false);
        redactor.learn_from(value);
        redactor.cleaned("answer", value).map_err(unclean)
    }
}

fn unclean(error: impl Display) -> InquiryError {
    InquiryError::Unclean(error.to_string())
}
