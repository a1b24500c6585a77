//! Questions of programs: the HTTP API and MCP ask them. Read-only, bounded in number and time; no answer and no error
//! holds secrets.

mod diagnosis;
mod health;
mod incident_question;
mod incidents;
mod place;
mod pool;
pub mod pools;
pub mod target;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Service;
use diagnose::health::HealthSource;
use diagnose::{Exporters, LogSources};
use knowledge::clock::human_duration;
use knowledge::playbook::Library;
use prom::{PromError, Prometheus};
use redact::Redactor;
use render::Phrases;
use sources::exporter::{self, ExporterReader};
use store::{Store, StoreError};

use crate::known_exporters;
pub use diagnosis::{DiagnosisAnswer, DiagnosisQuestion};
pub use health::{HealthDetail, HealthQuestion};
pub use incident_question::{IncidentQuestion, IncidentSearch};
pub use incidents::{IncidentDetail, IncidentPage, IncidentSummaries, IncidentSummary, search};
pub use pool::{PoolQuestion, SignalAnswer, SignalQuestion};
pub use text::ShortText;

/// The number of query deadlines that an answer may take: the pools, the diagnosis, its past, and the health.
const PHASES: u32 = 4;
/// Maximum number of questions to Prometheus that run at one time, so that programs cannot overload it or this process.
const TURNS: usize = 4;
/// The time beyond these deadlines.
const SLACK: Duration = Duration::from_secs(10);

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// The question is wrong, with how to ask.
    #[error("{0}")]
    Wrong(String),
    /// A Prometheus could not be asked.
    #[error("{0}")]
    Unanswered(String),
    /// There was no answer in this time.
    #[error("there was no answer within {}", human_duration(*.0))]
    Late(Duration),
    /// Too many questions are asked at once.
    #[error("too many questions at once: ask again in some seconds")]
    Busy,
    /// The answer cannot be cleaned of secrets; the log has the reason, which may hold one.
    #[error("the answer cannot be cleaned of secrets: see the log of llm-diagnose")]
    Unclean,
    /// The store cannot be read; the log has the reason.
    #[error("the store cannot be read: see the log of llm-diagnose")]
    StoreFailed,
}

impl QuestionError {
    /// Returns the error without any Prometheus.
    fn no_prometheus() -> Self {
        Self::Unanswered("no Prometheus is configured".to_owned())
    }

    /// Returns the error of a target or of labels: wrong, unless Prometheus is to blame.
    fn of_target(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<Arc<PromError>>() {
            Some(error) => Self::Unanswered(error.to_string()),
            None => Self::Wrong(format!("{error:#}")),
        }
    }

    /// Logs why an answer cannot be cleaned, and returns the error.
    pub fn unclean(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "cannot clean an answer of secrets");
        Self::Unclean
    }

    /// Returns the error without secrets: it may name pools, or repeat what a server said.
    fn cleaned(self, redactor: &Redactor) -> Self {
        let clean = |text: &str| redactor.text("answer", text).into_owned();
        match self {
            Self::Wrong(why) => Self::Wrong(clean(&why)),
            Self::Unanswered(why) => Self::Unanswered(clean(&why)),
            other @ (Self::Late(_) | Self::Busy | Self::Unclean | Self::StoreFailed) => other,
        }
    }
}

impl From<StoreError> for QuestionError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "cannot read incidents");
        Self::StoreFailed
    }
}

/// The turns that questions to Prometheus take; clones share them.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(TURNS)))
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
    /// The turns that questions to Prometheus take; without them, the caller bounds their number.
    pub turns: Option<&'a Turns>,
}

impl<'a> Fleet<'a> {
    /// Returns the sources of a running service.
    pub fn of(service: &'a Service, turns: Option<&'a Turns>) -> Self {
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
            turns,
        }
    }

    /// Returns the Prometheus servers as sources of health.
    fn sources(&self) -> Vec<HealthSource<'a>> {
        self.prometheus.iter().map(|(prometheus, labels)| (prometheus, labels)).collect()
    }

    /// Returns the exporters that are configured, and those known of this Prometheus.
    pub async fn exporters(&self, prometheus: &Prometheus) -> Exporters {
        match self.store {
            Some(store) => known_exporters(store, self.exporters, self.reader, prometheus).await,
            None => Exporters::known(self.exporters, self.reader, prometheus, None),
        }
    }

    /// Creates a redactor for one answer.
    fn redactor(&self) -> Redactor {
        self.redactor.another(&self.library.redaction, false)
    }

    /// Answers a question to Prometheus. It takes a turn and has a deadline; its answer or error is cleaned of secrets.
    ///
    /// # Errors
    /// That of the answer; when there is no turn or no time left, or the answer cannot be cleaned.
    async fn answered<T: Serialize + DeserializeOwned>(
        &self,
        answer: impl Future<Output = Result<T, QuestionError>>,
    ) -> Result<T, QuestionError> {
        let turn = self.turns.map(|Turns(slots)| slots.try_acquire()).transpose();
        let _turn = turn.map_err(|_| QuestionError::Busy)?;
        let limit = self.diagnosing.deadline.saturating_mul(PHASES).saturating_add(SLACK);
        // The futures of queries are large.
        let answer = timeout(limit, Box::pin(answer)).await.unwrap_or(Err(QuestionError::Late(limit)));
        let redactor = self.redactor();
        let answer = answer.map_err(|error| error.cleaned(&redactor))?;
        redactor.learn_from(&answer);
        redactor.cleaned("answer", &answer).map_err(|error| QuestionError::unclean(&error))
    }
}
