//! The diagnosis of a pool that a program names.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{join, join_all};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{Fleet, InquiryError, target};
use crate::chatops::command::span;
use diagnose::health::{Health, HealthState, Triage, places, triage};
use diagnose::{Diagnosis, ExtraSources, Request, Scope, diagnose_with, known_names};
use knowledge::alert::Labels;
use knowledge::clock::{self, TimeArgument};
use knowledge::playbook::suggestion;
use sources::prom::Prometheus;

/// The number of query deadlines that an answer may take: the pools, the diagnosis, its past, and the health.
const PHASES: u32 = 4;
/// The time beyond these deadlines.
const SLACK: Duration = Duration::from_secs(10);
/// A question for a diagnosis: a pool by `target` or by `labels`, or a playbook for everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiagnosisQuestion {
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[schemars(with = "String")]
    pub target: Option<String>,
    /// The pool's labels as an alert has them: cluster, namespace, model_name, job, pod.
    pub labels: BTreeMap<String, String>,
    /// The id of the playbook to enter; without it, the symptom is searched among all.
    #[schemars(with = "String")]
    pub playbook: Option<String>,
    /// The moment to judge: RFC 3339, 14:05 (the most recent one, UTC), 10m ago or unix seconds; now without it.
    #[schemars(with = "String")]
    pub at: Option<String>,
    /// The period up to then, judged as a whole and compared with the time before it: 30m.
    #[schemars(with = "String")]
    pub last: Option<String>,
}

/// The answer to a question for a diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DiagnosisAnswer {
    /// The result in a sentence.
    pub headline: String,
    /// The diagnosis; `null` if no symptom was found.
    pub diagnosis: Option<Diagnosis>,
    /// The pool's health where no symptom was found; its checks are those at warning or critical.
    pub health: Option<Health>,
}

impl DiagnosisQuestion {
    /// Returns the moment to judge, and true if it is now.
    ///
    /// # Errors
    /// When it cannot be read or is in the future.
    pub(super) fn moment(&self, now: Timestamp) -> Result<(Timestamp, bool), InquiryError> {
        let Some(text) = self.at.as_deref() else { return Ok((now, true)) };
        let at = TimeArgument::parse(text).map_err(|why| wrong("at", why))?.resolve(now);
        if at > now {
            return Err(wrong("at", format!("{at} is in the future")));
        }
        Ok((at, false))
    }
}

/// Returns the headline where no symptom was found. Missing data is no sign of health.
fn quiet(health: &Health) -> String {
    match health.state {
        HealthState::Healthy => "no alert threshold is exceeded: name a `playbook` to look deeper".to_owned(),
        HealthState::Warning | HealthState::Critical => {
            "no symptom explains the checks above their thresholds: name a `playbook` to look deeper".to_owned()
        }
        HealthState::Unknown => {
            let why = health.problems.first().or(health.notes.first());
            format!("cannot tell: {}", why.map_or("there is not enough data", String::as_str))
        }
    }
}

fn wrong(name: &str, why: String) -> InquiryError {
    InquiryError::Question(format!("{name}: {why}"))
}

impl Fleet<'_> {
    /// Diagnoses the pool that a question names.
    ///
    /// # Errors
    /// When the question is wrong, Prometheus cannot be asked for its pools, or the answer is late or cannot be cleaned.
    pub async fn diagnose(
        &self,
        question: &DiagnosisQuestion,
        now: Timestamp,
    ) -> Result<DiagnosisAnswer, InquiryError> {
        let limit = self.diagnosing.deadline.saturating_mul(PHASES).saturating_add(SLACK);
        // The futures of queries are large.
        let answer = timeout(limit, Box::pin(self.diagnose_in_time(question, now)));
        match answer.await.unwrap_or(Err(InquiryError::Late(limit)))? {
            Triage::Found(diagnosis) => {
                let diagnosis = self.cleaned(&*diagnosis)?;
                let headline = render::diagnosis_message(&diagnosis, None, self.words).headline;
                Ok(DiagnosisAnswer { headline, diagnosis: Some(diagnosis), health: None })
            }
            Triage::Quiet(health) => {
                let health = self.cleaned(&*health)?.summary();
                Ok(DiagnosisAnswer { headline: quiet(&health), diagnosis: None, health: Some(health) })
            }
        }
    }

    async fn diagnose_in_time(&self, question: &DiagnosisQuestion, now: Timestamp) -> Result<Triage, InquiryError> {
        let (at, is_now) = question.moment(now)?;
        let last = question.last.as_deref().map(span).transpose().map_err(|why| wrong("last", why))?;
        let playbook = question.playbook.as_deref().map(|name| self.playbook(name)).transpose()?;
        if playbook.is_none() && question.target.is_none() && question.labels.is_empty() {
            let why = "name a pool by `target` or `labels`, or a `playbook` to judge everything as one";
            return Err(InquiryError::Question(why.to_owned()));
        }
        let (source, scope) = self.place(question, at).await?;
        let (prometheus, labels) = self.prometheus.get(source).ok_or_else(InquiryError::no_prometheus)?;
        let request = Request {
            playbook: playbook.clone().unwrap_or_default(),
            // A named playbook is never replaced by another.
            screen: playbook.is_none(),
            rules: Vec::new(),
            scope,
            at,
            since: last.map(|last| clock::before(at, last)),
            window: last.unwrap_or(self.diagnosing.window),
            baseline: self.diagnosing.baseline,
            deadline: self.diagnosing.deadline,
        };
        let exporters = self.exporters(prometheus).await;
        // Exporters' pages hold current values only.
        let extra = ExtraSources { exporters: Some(&exporters).filter(|_| is_now), logs: Some(self.logs) };
        let source = (prometheus, labels);
        let known = target::known_values(self.library, source, &question.labels, at, self.diagnosing.deadline);
        let answer = async {
            match playbook {
                None => Box::pin(triage(self.library, source, &request, extra)).await,
                Some(_) => {
                    let diagnosis = diagnose_with(self.library, prometheus, &request, extra);
                    Triage::Found(Box::new(Box::pin(diagnosis).await))
                }
            }
        };
        // Concurrent, so that an unresponsive Prometheus costs its deadline only once.
        let (known, answer) = join(known, answer).await;
        known.map_err(|error| InquiryError::of_target(&error))?;
        Ok(answer)
    }

    /// Returns the id of a named playbook.
    fn playbook(&self, name: &str) -> Result<String, InquiryError> {
        let id = self.library.aliases.id(name);
        if self.library.playbooks.contains_key(id) {
            return Ok(id.to_owned());
        }
        let hint = suggestion(id, self.library.playbooks.keys().map(String::as_str)).unwrap_or_default();
        Err(InquiryError::Question(format!("there is no playbook `{id}` {hint}").trim_end().to_owned()))
    }

    /// Returns the Prometheus of the pool in question, by its index, and the pool.
    pub(super) async fn place(
        &self,
        question: &DiagnosisQuestion,
        at: Timestamp,
    ) -> Result<(usize, Scope), InquiryError> {
        let configured = self.prometheus.iter().flat_map(|(_, labels)| labels.keys()).map(String::as_str);
        known_names(question.labels.keys().map(String::as_str), configured).map_err(InquiryError::Question)?;
        let given = Scope::of_labels(&question.labels);
        let Some(typed) = question.target.as_deref() else {
            return Ok((self.source_of(&question.labels, &given, at).await?, given));
        };
        let found = target::find(self.library, &self.sources(), typed, at, self.diagnosing.deadline).await;
        let (source, place, pod) =
            found.and_then(|matches| target::only(matches, typed)).map_err(|error| InquiryError::of_target(&error))?;
        let mut scope = place.scope(pod.as_deref());
        scope.dimensions.extend(given.dimensions);
        scope.replicas.extend(given.replicas);
        Ok((source, scope))
    }

    /// Returns the index of the Prometheus that these labels mean: by its own labels, else by the pools that it has.
    async fn source_of(&self, labels: &Labels, scope: &Scope, at: Timestamp) -> Result<usize, InquiryError> {
        if labels.is_empty() || self.prometheus.len() < 2 {
            return Ok(0);
        }
        let is_own = |(_, own): &(Prometheus, Labels)| {
            !own.is_empty() && own.iter().all(|(name, value)| labels.get(name) == Some(value))
        };
        if let Some(source) = self.prometheus.iter().position(is_own) {
            return Ok(source);
        }
        let until = std::time::Instant::now() + self.diagnosing.deadline;
        let asked = self.prometheus.iter().map(|(prometheus, _)| places(self.library, prometheus, at, until));
        let has = join_all(asked).await.into_iter().map(|pools| {
            pools.is_ok_and(|pools| {
                pools.iter().any(|pool| scope.dimensions.iter().all(|(d, v)| pool.dimensions.get(d) == Some(v)))
            })
        });
        let found: Vec<usize> = has.enumerate().filter_map(|(source, has)| has.then_some(source)).collect();
        match found.as_slice() {
            [] => Ok(0),
            [one] => Ok(*one),
            several => {
                let names: Vec<&str> =
                    several.iter().filter_map(|i| Some(self.prometheus.get(*i)?.0.name.as_str())).collect();
                let why = format!(
                    "the labels select pools of several Prometheus servers ({}): add a label that tells them apart, \
                     such as cluster",
                    names.join(", ")
                );
                Err(InquiryError::Question(why))
            }
        }
    }
}
