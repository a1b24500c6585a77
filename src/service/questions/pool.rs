//! A pool at one moment: all of its health checks, or the values of one signal.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diagnosis::moment;
use super::place::QuestionLabels;
use super::{Fleet, QuestionError, ShortText};
use diagnose::health::pool_health;
use diagnose::observe_signals;
use findings::health::Health;
use findings::{Observation, Scope};
use knowledge::alert::Labels;
use knowledge::playbook::suggestion;
use knowledge::signal::{Unit, WorseDirection};
use prom::Prometheus;

/// A pool by `target` or by `labels`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PoolQuestion {
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[schemars(with = "ShortText")]
    pub target: Option<ShortText>,
    /// The pool's labels as an alert has them: cluster, namespace, model_name, pod.
    pub labels: QuestionLabels,
    /// The moment to judge: RFC 3339, 14:05 (the most recent one, UTC), 10m ago or unix seconds; now without it.
    #[schemars(with = "ShortText")]
    pub at: Option<ShortText>,
}

/// A signal of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalQuestion {
    /// The name of the signal: ttft_p99, kv_cache_usage, requests_waiting.
    pub signal: ShortText,
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[serde(default)]
    #[schemars(with = "ShortText")]
    pub target: Option<ShortText>,
    /// The pool's labels as an alert has them: cluster, namespace, model_name, pod.
    #[serde(default)]
    pub labels: QuestionLabels,
    /// The moment: RFC 3339, 14:05 (the most recent one, UTC), 10m ago or unix seconds; now without it.
    #[serde(default)]
    #[schemars(with = "ShortText")]
    pub at: Option<ShortText>,
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
    /// The direction in which it gets worse; the replicas are sorted by it, the worst first.
    pub bad: WorseDirection,
    /// The pool: dimension to value.
    pub pool: Labels,
    /// The moment.
    pub at: Timestamp,
    /// The values, or the reason why there are none.
    pub observed: Observation,
    /// Errors on the way, as sentences.
    pub problems: Vec<String>,
}

impl Fleet<'_> {
    /// Evaluates all health checks of a pool.
    ///
    /// # Errors
    /// When the question is wrong, Prometheus cannot be asked for its pools, too many questions are asked at once, or the
    /// answer is late or cannot be cleaned.
    pub async fn screen(&self, question: PoolQuestion, now: Timestamp) -> Result<Health, QuestionError> {
        self.answered(async {
            let (source, scope, at) = self.one_pool(&question, now).await?;
            let (window, deadline) = (self.diagnosing.window, self.diagnosing.deadline);
            Ok(pool_health(self.library, source, &scope, at, window, deadline).await)
        })
        .await
    }

    /// Queries a signal of a pool.
    ///
    /// # Errors
    /// As [`Self::screen`].
    pub async fn signal(&self, question: SignalQuestion, now: Timestamp) -> Result<SignalAnswer, QuestionError> {
        let SignalQuestion { signal, target, labels, at } = question;
        self.answered(async {
            let Some((name, definition)) = self.library.signals.get_key_value(&*signal) else {
                let hint = suggestion(&signal, self.library.signals.keys().map(String::as_str)).unwrap_or_default();
                return Err(QuestionError::Wrong(
                    format!("there is no signal `{}` {hint}", &*signal).trim_end().to_owned(),
                ));
            };
            let pool = PoolQuestion { target, labels, at };
            let ((prometheus, _), scope, at) = self.one_pool(&pool, now).await?;
            let (window, deadline) = (self.diagnosing.window, self.diagnosing.deadline);
            let mut answer = observe_signals(self.library, prometheus, &scope, &[name], at, window, deadline).await;
            let mut observed = answer.observations.signals.remove(name).unwrap_or_default();
            observed.replicas.sort_by(|a, b| definition.bad.worst_first(a.value, b.value));
            Ok(SignalAnswer {
                signal: name.clone(),
                title: definition.title.clone(),
                unit: definition.unit,
                bad: definition.bad,
                pool: scope.dimensions,
                at,
                observed,
                problems: answer.problems,
            })
        })
        .await
    }

    /// Returns the pool in question with its Prometheus, and the moment.
    async fn one_pool(
        &self,
        question: &PoolQuestion,
        now: Timestamp,
    ) -> Result<((&Prometheus, &Labels), Scope, Timestamp), QuestionError> {
        let PoolQuestion { target, labels, at } = question;
        let (at, _) = moment(at.as_ref(), now)?;
        let (source, scope) = self.place(target.as_ref(), labels, at, false).await?;
        let (prometheus, own) = self.prometheus.get(source).ok_or_else(QuestionError::no_prometheus)?;
        Ok(((prometheus, own), scope, at))
    }
}
