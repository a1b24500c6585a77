//! Coverage weighted by published studies: which of their incidents a fleet with these signals could name. Pure.

use std::collections::{BTreeMap, BTreeSet};

use findings::health::{Coverage, SignalAvailability};
use findings::incident_studies::{ClassCoverage, StudiesCoverage, StudyCoverage};
use knowledge::playbook::{Evidence, IncidentClass, Library};

/// Says how many incidents of each study this coverage could name, and how many more with each signal that is turned on.
pub fn studies_coverage(library: &Library, coverage: &Coverage) -> StudiesCoverage {
    let mut studies: Vec<StudyCoverage> = Vec::new();
    for row in &library.tables.incident_studies.rows {
        let position = studies.iter().position(|study| study.study == row.study).unwrap_or_else(|| {
            studies.push(StudyCoverage {
                study: row.study.clone(),
                incidents: 0,
                named: 0,
                additions: BTreeMap::new(),
                classes: Vec::new(),
            });
            studies.len() - 1
        });
        count(&mut studies[position], library, coverage, row);
    }
    StudiesCoverage { prometheus: coverage.prometheus.clone(), studies }
}

fn count(study: &mut StudyCoverage, library: &Library, coverage: &Coverage, row: &IncidentClass) {
    let lines: Vec<_> = row.causes.iter().map(|cause| (cause, lacking(library, coverage, cause, row))).collect();
    let named_by = lines.iter().find(|(_, lines)| lines.as_ref().is_some_and(BTreeSet::is_empty));
    study.incidents += row.count;
    if named_by.is_some() {
        study.named += row.count;
    } else {
        // One line may serve several causes of the class, which counts once.
        let alone = |lines: &BTreeSet<&str>| lines.first().filter(|_| lines.len() == 1).map(|line| (*line).to_owned());
        let alone: BTreeSet<String> = lines.iter().filter_map(|(_, lines)| alone(lines.as_ref()?)).collect();
        alone.into_iter().for_each(|line| *study.additions.entry(line).or_default() += row.count);
    }
    study.classes.push(ClassCoverage {
        class: row.class.clone(),
        incidents: row.count,
        causes: row.causes.clone(),
        named_by: named_by.map(|(cause, _)| (*cause).clone()),
        note: row.note.clone(),
        source: row.source.clone(),
    });
}

/// Returns the lines that turn on what a cause needs, none if it has it; `None` if no metric tells the cause. A cause
/// needs data for each required check and, if it is a leaf, for each required check of one playbook above it.
fn lacking<'a>(
    library: &Library,
    coverage: &'a Coverage,
    cause: &str,
    row: &IncidentClass,
) -> Option<BTreeSet<&'a str>> {
    let (node, _) = library.node_by_id(cause)?;
    let own = lines(library, coverage, node.evidence, &row.signals)?;
    if library.playbooks.contains_key(cause) {
        return Some(own);
    }
    let above = library.playbooks.values().filter(|p| p.causes.iter().any(|entry| entry.target() == cause));
    let above = above.filter_map(|playbook| lines(library, coverage, &playbook.symptom, &[]));
    above.min_by_key(|lines| lines.difference(&own).count()).map(|lines| own.union(&lines).copied().collect())
}

/// Returns a line for each required check of which no signal has data; of checks that are about `only` if they name one.
fn lines<'a>(
    library: &Library,
    coverage: &'a Coverage,
    evidence: &[Evidence],
    only: &[String],
) -> Option<BTreeSet<&'a str>> {
    let required = evidence.iter().any(|check| check.required);
    let (mut out, mut is_told) = (BTreeSet::new(), false);
    for check in evidence.iter().filter(|check| check.required || !required) {
        let is_metric = |signal: &&str| library.signals.get(*signal).is_some_and(|signal| !signal.is_extra());
        let named: Vec<&str> = check.checks().into_iter().map(|(signal, _)| signal).filter(is_metric).collect();
        let about: Vec<&str> = named.iter().copied().filter(|signal| only.iter().any(|only| only == signal)).collect();
        let asked = if about.is_empty() { named } else { about };
        // Logs may tell a check that no metric tells; the diagnosis has them at hand or not, and Prometheus cannot say.
        let found = || coverage.signals.iter().filter(|signal| asked.contains(&signal.signal.as_str()));
        if found().any(|signal| signal.answer == SignalAvailability::Answers) {
            is_told = true;
        } else if let Some(line) = found().find_map(|signal| signal.enable.as_deref()) {
            is_told = true;
            // What follows names the series by which its absence was noticed.
            out.insert(line.split(": its series ").next().unwrap_or(line));
        } else if !asked.is_empty() {
            return None;
        }
    }
    is_told.then_some(out)
}
