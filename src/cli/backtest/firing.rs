//! The diagnosis of one firing, as the service would have made it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::Setting;
use ::backtest::{DiagnosedFiring, Firing, names_pool};
use diagnose::diagnose;
use findings::{Diagnosis, Request, Scope};
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::playbook::{of_expression, select};
use prom::AlertingRule;
use render::{IncidentView, incident_message};
use report::{FiringOutcome, missing, named_cause, outcome};

/// The diagnoses of a firing after its start: the service's first one, and one of those that follow each minute. The
/// second is made where the first names no cause: rates need some minutes to show a change.
const LOOKS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(300)];

/// Returns the playbook that a firing selects, by its rule's expression too; empty if none does.
pub(super) fn playbook(setting: &Setting<'_>, rules: &[AlertingRule], firing: &Firing) -> String {
    let by_rule = || {
        let rule = rules.iter().find(|rule| rule.name == firing.rule())?;
        of_expression(setting.library, &rule.query)
    };
    let selection = select(setting.library, &[firing.alert()]).or_else(by_rule);
    selection.map(|selection| selection.playbook).unwrap_or_default()
}

/// Returns the pools that a firing may be about, by its labels.
pub(super) fn pools_of<'a>(
    firing: &Firing,
    pools: &'a BTreeSet<BTreeMap<String, String>>,
) -> Vec<&'a BTreeMap<String, String>> {
    let scope = Scope::of_labels(&firing.labels);
    pools.iter().filter(|pool| names_pool(&scope, pool)).collect()
}

/// The result of the attempt to diagnose a firing.
pub(super) enum FiringAttempt {
    /// The diagnosis, without secrets.
    Diagnosed(Box<DiagnosedFiring>),
    /// Some answers did not come in time, so that nothing can be said; with the reason.
    Late(String),
    /// Prometheus answered nothing, with the reason.
    Unanswered(String),
}

/// Diagnoses a firing.
pub(super) async fn diagnosed(setting: &Setting<'_>, due: &DueFiring) -> anyhow::Result<FiringAttempt> {
    let (firing, to) = (&due.firing, setting.range.1);
    let mut best: Option<(FiringOutcome, Diagnosis)> = None;
    let mut missed = FiringAttempt::Unanswered("nothing was asked".to_owned());
    let mut looked_at = None;
    for look in LOOKS {
        let at = clock::after(firing.starts_at, look).min(firing.ends_at.unwrap_or(to).min(to).max(firing.starts_at));
        if looked_at.replace(at) == Some(at) {
            break;
        }
        let diagnosis = diagnose(setting.library, setting.prometheus, &request(setting, due, at)).await;
        let outcome = outcome(&diagnosis);
        // What is confirmed stays so with more answers; "does not hold" may only mean that its answer was late.
        if diagnosis.degraded && !matches!(outcome, FiringOutcome::Confirmed | FiringOutcome::NoCause) {
            let why = diagnosis.problems.first().cloned();
            let why = why.unwrap_or_else(|| "Prometheus did not answer in time".to_owned());
            let is_answered = !diagnosis.engines.is_empty();
            missed = if is_answered { FiringAttempt::Late(why) } else { FiringAttempt::Unanswered(why) };
            break;
        }
        if best.as_ref().is_none_or(|(best, _)| outcome < *best) {
            best = Some((outcome, diagnosis));
        }
        if outcome == FiringOutcome::Confirmed {
            break;
        }
    }
    match best {
        Some((outcome, diagnosis)) => Ok(FiringAttempt::Diagnosed(Box::new(kept(setting, due, outcome, &diagnosis)?))),
        None => Ok(missed),
    }
}

fn request(setting: &Setting<'_>, due: &DueFiring, at: Timestamp) -> Request {
    let request = setting.config.request(&due.playbook, &[due.firing.alert()], due.firing.starts_at, at);
    // The rules are known already, and their expressions have held.
    Request { rules: Vec::new(), conditions: Vec::new(), ..request }
}

/// Returns what is kept of a diagnosis, without secrets.
fn kept(
    setting: &Setting<'_>,
    due: &DueFiring,
    outcome: FiringOutcome,
    diagnosis: &Diagnosis,
) -> anyhow::Result<DiagnosedFiring> {
    let firing = &due.firing;
    let redactor = setting.redactor.with_same_numbers();
    redactor.learn_from(&firing.labels);
    redactor.learn_from(diagnosis);
    let diagnosis = redactor.cleaned("output", diagnosis)?;
    let labels: Labels = redactor.cleaned("output", &firing.labels)?;
    let named = named_cause(&diagnosis);
    let alerts = [Firing { labels: labels.clone(), ..firing.clone() }.alert()];
    let view = IncidentView {
        alerts: &alerts,
        started_at: firing.starts_at,
        diagnosis: Some(&diagnosis),
        ..IncidentView::default()
    };
    let kept = DiagnosedFiring {
        id: due.id.clone(),
        rule: firing.rule().to_owned(),
        pool: due.pool.clone(),
        condition_since: firing.condition_since,
        starts_at: firing.starts_at,
        ends_at: firing.ends_at,
        diagnosed_at: diagnosis.at,
        after_seconds: clock::between(firing.condition_since, diagnosis.at).as_secs(),
        outcome,
        headline: incident_message(&view, setting.words).headline,
        playbook: diagnosis.symptom.playbook.clone(),
        cause: named.as_ref().map(|named| named.title.to_owned()),
        chain: named.as_ref().map(|named| named.chain.to_vec()).unwrap_or_default(),
        probability: named.as_ref().and_then(|named| named.probability),
        missing: match outcome {
            FiringOutcome::Confirmed | FiringOutcome::OtherSymptom => Vec::new(),
            _ => missing(&diagnosis),
        },
        truth: None,
        labels,
    };
    Ok(redactor.cleaned("output", &kept)?)
}

/// A firing that is diagnosed.
#[derive(Debug)]
pub(super) struct DueFiring {
    pub(super) id: String,
    pub(super) firing: Firing,
    /// The playbook that it selects; empty if none.
    pub(super) playbook: String,
    /// The name of its pool.
    pub(super) pool: String,
}
