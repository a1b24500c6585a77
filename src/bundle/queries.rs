//! The list of all queries of the diagnosis and the report's numbers, with their results. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use findings::facts::Measured;
use findings::{Diagnosis, EvidenceResult, Outcome, ValueSource};
use knowledge::signal::Unit;
use report::SourceFindings;

/// One query and its result.
#[derive(Debug, Serialize)]
pub(super) struct BundleQuery<'a> {
    signal: &'a str,
    title: &'a str,
    /// The PromQL; `None` if there was no Prometheus to query.
    query: Option<&'a str>,
    /// The source of the value.
    source: &'a ValueSource,
    value: Option<f64>,
    /// The value for comparison: of the past or the peers; for the report's numbers, before the incident began.
    baseline: Option<f64>,
    /// For the report's numbers, the value after the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<f64>,
    unit: Unit,
    /// The condition; `None` if nothing is evaluated.
    when: Option<&'a str>,
    outcome: Option<Outcome>,
    /// The reason why there is no value.
    why: Option<&'a str>,
    /// Playbooks and causes that use the query; `report` for the report's numbers.
    by: Vec<&'a str>,
}

/// Lists the queries in the order of the diagnosis; a query used several times is listed once.
pub(super) fn queries<'a>(diagnosis: Option<&'a Diagnosis>, findings: &'a SourceFindings) -> Vec<BundleQuery<'a>> {
    let mut all: Vec<BundleQuery<'a>> = Vec::new();
    let mut places: BTreeMap<(&str, &str, Option<&str>), usize> = BTreeMap::new();
    for (by, e) in diagnosis.into_iter().flat_map(judged) {
        let key = (e.signal.as_str(), e.when.as_str(), e.query.as_deref());
        match places.get(&key).and_then(|place| all.get_mut(*place)) {
            Some(query) if query.by.contains(&by) => {}
            Some(query) => query.by.push(by),
            None => {
                places.insert(key, all.len());
                all.push(of_evidence(by, e));
            }
        }
    }
    let numbers = findings.facts.iter().flat_map(|facts| facts.measured.iter().chain(&facts.load));
    all.extend(numbers.map(of_number));
    all
}

/// Returns every check with the id of its playbook or cause.
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

fn of_evidence<'a>(by: &'a str, e: &'a EvidenceResult) -> BundleQuery<'a> {
    BundleQuery {
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

fn of_number(number: &Measured) -> BundleQuery<'_> {
    BundleQuery {
        signal: &number.signal,
        title: &number.title,
        query: number.query.as_deref(),
        source: &ValueSource::Prometheus,
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
