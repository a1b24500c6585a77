//! A pool at one moment: all of its health checks, or the values of one signal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DiagnosisQuestion, Fleet, InquiryError};
use diagnose::health::{DIMENSIONS, Health, HealthQuery, evaluate_fleet};
use diagnose::{Observation, Scope, observe_signals};
use knowledge::alert::Labels;
use knowledge::playbook::suggestion;
use knowledge::signal::Unit;
use sources::prom::Prometheus;

/// A pool by `target` or by `labels`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PoolQuestion {
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[schemars(with = "String")]
    pub target: Option<String>,
    /// The pool's labels as an alert has them: cluster, namespace, model_name, job, pod.
    pub labels: BTreeMap<String, String>,
    /// The moment to judge: RFC 3339, 14:05 (the most recent one, UTC), 10m ago or unix seconds; now without it.
    #[schemars(with = "String")]
    pub at: Option<String>,
}

/// A signal of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalQuestion {
    /// The name of the signal: ttft_p99, kv_cache_usage, waiting_requests.
    pub signal: String,
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[serde(default)]
    #[schemars(with = "String")]
    pub target: Option<String>,
    /// The pool's labels as an alert has them: cluster, namespace, model_name, job, pod.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The moment: RFC 3339, 14:05 (the most recent one, UTC), 10m ago or unix seconds; now without it.
    #[serde(default)]
    #[schemars(with = "String")]
    pub at: Option<String>,
}

/// The values of a signal of a pool at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalAnswer {
    /// The name of the signal.
    pub signal: String,
    /// Its title.
    pub title: String,
    /// Its unit; ratios are 0..1.
    pub unit: Unit,
    /// The pool: dimension to value.
    pub pool: Labels,
    /// The moment.
    pub at: Timestamp,
    /// The values, or the reason why there are none.
    pub observed: Observation,
    /// Errors on the way, as sentences.
    pub problems: Vec<String>,
}

impl PoolQuestion {
    /// Returns the place that is asked about, as a question for a diagnosis names it.
    fn place(self) -> DiagnosisQuestion {
        let Self { target, labels, at } = self;
        DiagnosisQuestion { target, labels, at, ..DiagnosisQuestion::default() }
    }
}

impl Fleet<'_> {
    /// Evaluates all health checks of a pool.
    ///
    /// # Errors
    /// When the question is wrong, Prometheus cannot be asked for its pools, or the answer cannot be cleaned.
    pub async fn screen(&self, question: PoolQuestion, now: Timestamp) -> Result<Health, InquiryError> {
        let ((prometheus, labels), Scope { dimensions, .. }, at) = self.one_pool(&question.place(), now).await?;
        let scope = dimensions.iter().filter(|(dimension, _)| DIMENSIONS.contains(&dimension.as_str()));
        let scope = scope.map(|(dimension, value)| (dimension.clone(), value.clone())).collect();
        let query = HealthQuery { scope, at, window: self.diagnosing.window, deadline: self.diagnosing.deadline };
        let mut health = Box::pin(evaluate_fleet(self.library, &[(prometheus, labels)], &query)).await;
        // A dimension without a label in the pool's series cannot be used as a filter.
        health.pools.retain(|pool| dimensions.iter().all(|(d, v)| pool.labels.get(d).is_none_or(|own| own == v)));
        self.cleaned(&health)
    }

    /// Queries a signal of a pool.
    ///
    /// # Errors
    /// As [`Self::screen`].
    pub async fn signal(&self, question: SignalQuestion, now: Timestamp) -> Result<SignalAnswer, InquiryError> {
        let SignalQuestion { signal, target, labels, at } = question;
        let Some(definition) = self.library.signals.get(&signal) else {
            let hint = suggestion(&signal, self.library.signals.keys().map(String::as_str)).unwrap_or_default();
            return Err(InquiryError::Question(format!("there is no signal `{signal}` {hint}").trim_end().to_owned()));
        };
        let ((prometheus, _), scope, at) = self.one_pool(&PoolQuestion { target, labels, at }.place(), now).await?;
        let (window, deadline) = (self.diagnosing.window, self.diagnosing.deadline);
        let names = [signal.as_str()];
        let asked = observe_signals(self.library, prometheus, &scope, &names, at, window, deadline);
        let mut observed = Box::pin(asked).await;
        let answer = SignalAnswer {
            title: definition.title.clone(),
            unit: definition.unit,
            pool: scope.dimensions,
            at,
            observed: observed.observations.signals.remove(&signal).unwrap_or_default(),
            problems: observed.problems,
            signal,
        };
        self.cleaned(&answer)
    }

    /// Returns the pool in question with its Prometheus, and the moment.
    async fn one_pool(
        &self,
        question: &DiagnosisQuestion,
        now: Timestamp,
    ) -> Result<((&Prometheus, &Labels), Scope, Timestamp), InquiryError> {
        if question.target.is_none() && question.labels.is_empty() {
            return Err(InquiryError::Question("name a pool by `target` or `labels`".to_owned()));
        }
        let (at, _) = question.moment(now)?;
        let (source, scope) = self.place(question, at).await?;
        let source = self.prometheus.get(source).map(|(prometheus, labels)| (prometheus, labels));
        Ok((source.ok_or_else(InquiryError::no_prometheus)?, scope, at))
    }
}
