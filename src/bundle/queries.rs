//! Every query that was asked for the diagnosis and the numbers, with what came back, as one list. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::diagnose::{Diagnosis, EvidenceResult, Outcome, Source};
use crate::report::{Measured, Seen};
use crate::signal::Unit;

/// One query and its result.
#[derive(Debug, Serialize)]
pub(super) struct Query<'a> {
    signal: &'a str,
    title: &'a str,
    /// The PromQL; none when nobody could be asked.
    query: Option<&'a str>,
    /// Where the value comes from.
    source: &'a Source,
    value: Option<f64>,
    /// What it is compared with: the past or the peers; for numbers of the report, the time before it began.
    baseline: Option<f64>,
    /// For numbers of the report, the time after it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<f64>,
    unit: Unit,
    /// The condition; none where nothing is judged.
    when: Option<&'a str>,
    outcome: Option<Outcome>,
    /// Why there is no value.
    why: Option<&'a str>,
    /// Playbooks and causes that asked; `report` for its numbers.
    by: Vec<&'a str>,
}

/// The list, in the order in which a diagnosis is read; what several asked stands once.
pub(super) fn queries<'a>(diagnosis: Option<&'a Diagnosis>, seen: &'a Seen) -> Vec<Query<'a>> {
    let mut all: Vec<Query<'a>> = Vec::new();
    let mut places: BTreeMap<(&str, &str, Option<&str>), usize> = BTreeMap::new();
    for (by, e) in diagnosis.into_iter().flat_map(judged) {
        let key = (e.signal.as_str(), e.when.as_str(), e.query.as_deref());
        match places.get(&key).and_then(|place| all.get_mut(*place)) {
            Some(known) if known.by.contains(&by) => {}
            Some(known) => known.by.push(by),
            None => {
                places.insert(key, all.len());
                all.push(of_evidence(by, e));
            }
        }
    }
    let numbers = seen.facts.iter().flat_map(|facts| facts.measured.iter().chain(&facts.load));
    all.extend(numbers.map(of_number));
    all
}

/// Every check with the id of what asked for it.
fn judged(diagnosis: &Diagnosis) -> impl Iterator<Item = (&str, &EvidenceResult)> {
    let symptom = &diagnosis.symptom;
    let causes = diagnosis.causes.iter().flat_map(|cause| {
        let via = cause.via.iter().map(|link| (link.id.as_str(), link.evidence.as_slice()));
        via.chain([(cause.id.as_str(), cause.evidence.as_slice())])
    });
    let all = [(symptom.playbook.as_str(), symptom.evidence.as_slice())].into_iter().chain(causes);
    let all = all.flat_map(|(id, evidence)| evidence.iter().map(move |e| (id, e)));
    all.chain(diagnosis.ruled_out.iter().filter_map(|out| Some((out.id.as_str(), out.because.as_ref()?))))
}

fn of_evidence<'a>(by: &'a str, e: &'a EvidenceResult) -> Query<'a> {
    Query {
        signal: &e.signal,
        title: &e.title,
        query: e.query.as_deref(),
        source: &e.source,
        value: e.value,
        baseline: e.baseline,
        after: None,
        unit: e.unit,
        when: Some(&e.when),
        outcome: Some(e.outcome),
        why: e.why.as_deref(),
        by: vec![by],
    }
}

fn of_number(number: &Measured) -> Query<'_> {
    Query {
        signal: &number.signal,
        title: &number.title,
        query: number.query.as_deref(),
        source: &Source::Prometheus,
        value: number.during,
        baseline: number.before,
        after: number.after,
        unit: number.unit,
        when: None,
        outcome: None,
        why: number.why.as_deref(),
        by: vec!["report"],
    }
}
