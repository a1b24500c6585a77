//! The diagnosis of a pool that a program names.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::place::QuestionLabels;
use super::text::given;
use super::{Fleet, QuestionError, ShortText};
use diagnose::ExtraSources;
use diagnose::health::{Triage, answer};
use findings::Diagnosis;
use findings::health::{Health, HealthState};
use knowledge::clock::{TimeArgument, span};

/// A question for a diagnosis: a pool by `target` or by `labels`, or a playbook for everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiagnosisQuestion {
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[schemars(with = "ShortText")]
    pub target: Option<ShortText>,
    /// The pool's labels as an alert has them: cluster, namespace, model_name, job, pod.
    pub labels: QuestionLabels,
    /// The id of the playbook to enter; without it, the symptom is searched among all.
    #[schemars(with = "ShortText")]
    pub playbook: Option<ShortText>,
    /// The moment to judge: RFC 3339, 14:05 (the most recent one, UTC), 10m ago or unix seconds; now without it.
    #[schemars(with = "ShortText")]
    pub at: Option<ShortText>,
    /// The period up to then, judged as a whole and compared with the time before it: 30m.
    #[schemars(with = "ShortText")]
    pub last: Option<ShortText>,
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

/// Reads the moment to judge; also returns true if it is now.
///
/// # Errors
/// When it cannot be read or is in the future.
pub(super) fn moment(at: Option<&ShortText>, now: Timestamp) -> Result<(Timestamp, bool), QuestionError> {
    let Some(text) = given(at) else { return Ok((now, true)) };
    let at = TimeArgument::parse(text).map_err(|why| wrong("at", why))?.resolve(now);
    if at > now {
        return Err(wrong("at", format!("{at} is in the future")));
    }
    Ok((at, false))
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

fn wrong(name: &str, why: String) -> QuestionError {
    QuestionError::Wrong(format!("{name}: {why}"))
}

impl Fleet<'_> {
    /// Diagnoses the pool that a question names.
    ///
    /// # Errors
    /// When the question is wrong, Prometheus cannot be asked for its pools, too many questions are asked at once, or the
    /// answer is late or cannot be cleaned.
    pub async fn diagnose(
        &self,
        question: &DiagnosisQuestion,
        now: Timestamp,
    ) -> Result<DiagnosisAnswer, QuestionError> {
        let answer = async {
            Ok(match self.triage(question, now).await? {
                Triage::Found(diagnosis) => (Some(*diagnosis), None),
                Triage::Quiet(health) => (None, Some(*health)),
            })
        };
        // Said of what is cleaned: a medium's escaping would hide secrets.
        let (diagnosis, health): (Option<Diagnosis>, Option<Health>) = self.answered(answer).await?;
        let headline = match (&diagnosis, &health) {
            (Some(diagnosis), _) => render::diagnosis_message(diagnosis, None, self.words).headline,
            (None, health) => health.as_ref().map(quiet).unwrap_or_default(),
        };
        Ok(DiagnosisAnswer { headline, diagnosis, health: health.as_ref().map(Health::summary) })
    }

    async fn triage(&self, question: &DiagnosisQuestion, now: Timestamp) -> Result<Triage, QuestionError> {
        let DiagnosisQuestion { target, labels, playbook, at, last } = question;
        let (at, is_now) = moment(at.as_ref(), now)?;
        let last = given(last.as_ref()).map(span).transpose().map_err(|why| wrong("last", why))?;
        let playbook = given(playbook.as_ref()).map(|name| self.library.playbook_id(name)).transpose();
        let playbook = playbook.map_err(QuestionError::Wrong)?;
        if playbook.is_none() && target.is_none() && labels.is_empty() {
            let why = "name a pool by `target` or `labels`, or a `playbook` to judge each pool by it";
            return Err(QuestionError::Wrong(why.to_owned()));
        }
        // Each pool can be judged by a named playbook; screening needs a pool.
        let (source, scope) = self.place(target.as_ref(), labels, at, playbook.is_some()).await?;
        let (prometheus, own) = self.prometheus.get(source).ok_or_else(QuestionError::no_prometheus)?;
        let request = self.diagnosing.asked(playbook, scope, at, last);
        let exporters = self.exporters(prometheus).await;
        // Exporters' pages hold current values only.
        let extra = ExtraSources { exporters: Some(&exporters).filter(|_| is_now), logs: Some(self.logs) };
        Ok(answer(self.library, (prometheus, own), &request, extra).await)
    }
}
