//! The checks of `health`, derived from the playbooks' alert rules, and their evaluation.

use std::collections::BTreeSet;

use crate::evaluate;
use findings::health::{ExtraCondition, HealthCheck, HealthState, Threshold};
use findings::{EvidenceResult, Observation, Observations, Outcome, ReplicaValue};
use knowledge::gap::missing_part;
use knowledge::playbook::{AlertRule, AlertScope, Evidence, Library, Playbook, Severity};
use knowledge::signal::{EngineKind, Signal, Unit};

/// The heading for signals of alert rules that have no heading of their own.
const OTHER_HEADING: &str = "other";

/// A check before its evaluation.
#[derive(Debug)]
pub(super) struct CheckRow<'a> {
    heading: &'a str,
    pub(super) signal: &'a str,
    playbook: Option<&'a Playbook>,
    rules: Vec<Rule<'a>>,
}

/// A condition that makes a check a warning or critical.
#[derive(Debug)]
struct Rule<'a> {
    severity: Severity,
    each: AlertScope,
    when: Vec<&'a Evidence>,
    source: String,
}

/// Returns the checks in display order; a signal has one for each playbook that alerts on it.
pub(super) fn rows(library: &Library) -> Vec<CheckRow<'_>> {
    let mut rows = Vec::new();
    let mut placed = BTreeSet::new();
    for heading in &library.health.headings {
        for check in &heading.checks {
            placed.insert(check.signal.as_str());
            let own = check.playbook.as_deref().and_then(|id| library.playbooks.get(id));
            rows.extend(rows_of(library, &heading.heading, &check.signal, own));
        }
    }
    let others: BTreeSet<&str> =
        library.playbooks.values().flat_map(|p| &p.alerts).filter_map(first).filter(|s| !placed.contains(s)).collect();
    rows.extend(others.into_iter().flat_map(|signal| rows_of(library, OTHER_HEADING, signal, None)));
    rows
}

/// Returns the main signal of an alert rule.
fn first(rule: &AlertRule) -> Option<&str> {
    rule.when.first()?.checks().first().map(|(signal, _)| *signal)
}

fn rows_of<'a>(
    library: &'a Library,
    heading: &'a str,
    signal: &'a str,
    own: Option<&'a Playbook>,
) -> Vec<CheckRow<'a>> {
    let alerting = library.playbooks.values().filter_map(|playbook| {
        let alerts = playbook.alerts.iter().filter(|rule| first(rule) == Some(signal));
        let mut rules: Vec<Rule<'a>> = alerts
            .map(|rule| Rule {
                severity: rule.severity,
                each: rule.each,
                when: rule.when.iter().collect(),
                source: format!("alert {}", rule.alert),
            })
            .collect();
        rules.sort_by_key(|rule| rule.severity == Severity::Critical);
        (!rules.is_empty()).then_some(CheckRow { heading, signal, playbook: Some(playbook), rules })
    });
    let rows: Vec<CheckRow<'a>> = alerting.collect();
    if !rows.is_empty() {
        return rows;
    }
    let rule = own.and_then(|playbook| {
        playbook.threshold(signal)?;
        let when = playbook.symptom.iter().find_map(|evidence| leaf(evidence, signal))?;
        let source = format!("symptom of {}", playbook.playbook);
        Some(Rule { severity: Severity::Warning, each: AlertScope::Pool, when: vec![when], source })
    });
    vec![CheckRow { heading, signal, playbook: own, rules: rule.into_iter().collect() }]
}

/// Finds the numeric check of a signal in an entry or its alternatives.
fn leaf<'a>(evidence: &'a Evidence, signal: &str) -> Option<&'a Evidence> {
    match &evidence.when {
        Some(when) => {
            let numbers = !when.needs_baseline() && !when.needs_peers() && !when.comparisons().is_empty();
            (evidence.signal.as_deref() == Some(signal) && numbers).then_some(evidence)
        }
        None => evidence.any.iter().find_map(|inner| leaf(inner, signal)),
    }
}

/// Returns every signal that the checks and the idle condition need, each once.
pub(super) fn signals<'a>(library: &'a Library, rows: &[CheckRow<'a>]) -> Vec<&'a str> {
    let ruled = rows.iter().flat_map(|row| &row.rules).flat_map(|rule| rule.when.iter().copied());
    let checked = ruled.chain(&library.health.idle).flat_map(Evidence::checks).map(|(signal, _)| signal);
    let all: BTreeSet<&str> = rows.iter().map(|row| row.signal).chain(checked).collect();
    all.into_iter().collect()
}

/// Returns true if the pool gets no requests.
pub(super) fn is_idle(library: &Library, observations: &Observations) -> bool {
    let idle = &library.health.idle;
    !idle.is_empty() && idle.iter().all(|evidence| evaluate(library, evidence, observations).outcome == Outcome::Met)
}

/// Evaluates a check.
pub(super) fn check(library: &Library, row: &CheckRow<'_>, observations: &Observations) -> HealthCheck {
    let judged: Vec<(&Rule<'_>, Outcome, Vec<ReplicaValue>)> = row
        .rules
        .iter()
        .map(|rule| {
            let (outcome, replicas) = judge(library, rule, row.signal, observations);
            (rule, outcome, replicas)
        })
        .collect();
    let state = HealthState::worst(judged.iter().map(|(rule, outcome, _)| match (outcome, rule.severity) {
        (Outcome::Met, Severity::Critical) => HealthState::Critical,
        (Outcome::Met, Severity::Warning) => HealthState::Warning,
        (Outcome::NotMet, _) => HealthState::Healthy,
        (Outcome::NoData, _) => HealthState::Unknown,
    }));
    // The replicas are those of the most severe rule that is met.
    let met = judged.iter().rev().find(|(_, outcome, _)| *outcome == Outcome::Met);
    let mut replicas = met.map(|(_, _, replicas)| replicas.clone()).unwrap_or_default();
    let thresholds = judged
        .iter()
        .map(|(rule, outcome, _)| {
            let (when, with) = conditions(library, rule, row.signal);
            Threshold { severity: rule.severity, when, with, source: rule.source.clone(), outcome: *outcome }
        })
        .collect();
    let definition = library.signals.get(row.signal);
    if let Some(signal) = definition {
        replicas.sort_by(|a, b| signal.bad.worst_first(a.value, b.value));
    }
    let observation = observations.signals.get(row.signal);
    let value = observation.and_then(|o| o.value);
    let without = |pick: fn(&Observation) -> Option<String>| observation.filter(|_| value.is_none()).and_then(pick);
    // A value of a part of the data may decide nothing.
    let open = observation.filter(|_| state == Some(HealthState::Unknown)).and_then(|o| o.incomplete.as_deref());
    HealthCheck {
        heading: row.heading.to_owned(),
        signal: row.signal.to_owned(),
        title: definition.map_or_else(|| row.signal.to_owned(), |signal| signal.title.clone()),
        state,
        value,
        unit: definition.map_or(Unit::Count, |signal| signal.unit),
        thresholds,
        playbook: row.playbook.map(|playbook| playbook.playbook.clone()),
        replicas,
        why: without(|o| o.why.clone()).or(open.map(missing_part)),
        // Where a store is away, no setting helps.
        enable: without(|o| o.enable.clone().filter(|_| o.incomplete.is_none())),
        query: observation.and_then(|o| o.query.clone()),
    }
}

/// Evaluates a rule as Prometheus would: all of its entries, for the pool or for any one replica.
fn judge(
    library: &Library,
    rule: &Rule<'_>,
    signal: &str,
    observations: &Observations,
) -> (Outcome, Vec<ReplicaValue>) {
    let evaluate_all = |observations: &Observations| {
        let results: Vec<EvidenceResult> =
            rule.when.iter().map(|evidence| evaluate(library, evidence, observations)).collect();
        let any = |outcome: Outcome| results.iter().any(|r| r.outcome == outcome);
        let outcome = match (any(Outcome::NotMet), any(Outcome::NoData)) {
            (true, _) => Outcome::NotMet,
            (false, true) => Outcome::NoData,
            (false, false) => Outcome::Met,
        };
        (outcome, results.into_iter().find(|r| r.signal == signal).map(|r| r.replicas).unwrap_or_default())
    };
    let each = match rule.each {
        AlertScope::Pool => return evaluate_all(observations),
        AlertScope::Replica => observations.signals.get(signal).map(|o| o.replicas.as_slice()).unwrap_or_default(),
    };
    if each.is_empty() {
        return evaluate_all(observations);
    }
    let mut outcomes = Vec::new();
    let mut met_replicas = Vec::new();
    for replica in each {
        let (outcome, _) = evaluate_all(&of_one(observations, &replica.name));
        if outcome == Outcome::Met {
            met_replicas.push(replica.clone());
        }
        outcomes.push(outcome);
    }
    let first = |outcome: Outcome| outcomes.contains(&outcome).then_some(outcome);
    (first(Outcome::Met).or_else(|| first(Outcome::NoData)).unwrap_or(Outcome::NotMet), met_replicas)
}

/// Returns the observations as if one replica were the pool.
fn of_one(observations: &Observations, name: &str) -> Observations {
    let signals = observations.signals.iter().map(|(signal, o)| {
        let own: Vec<_> = o.replicas.iter().filter(|r| r.name == name).cloned().collect();
        (signal.clone(), Observation { value: own.first().map(|r| r.value), replicas: own, ..o.clone() })
    });
    Observations { signals: signals.collect(), ..Observations::default() }
}

/// Returns the condition on the check's own signal, and those on other signals.
fn conditions(library: &Library, rule: &Rule<'_>, signal: &str) -> (String, Vec<ExtraCondition>) {
    let mut own = String::new();
    let mut with = Vec::new();
    for (group, evidence) in rule.when.iter().enumerate() {
        for (name, when) in evidence.checks() {
            if name == signal && own.is_empty() {
                own = when.to_string();
                continue;
            }
            let definition = library.signals.get(name);
            with.push(ExtraCondition {
                group,
                signal: name.to_owned(),
                title: definition.map_or(name, |s| s.title.as_str()).to_owned(),
                unit: definition.map_or(Unit::Count, |s| s.unit),
                when: when.to_string(),
            });
        }
    }
    (own, with)
}

/// Returns true if a serving engine, and not only an exporter, exposes a signal.
pub(super) fn is_served(library: &Library, signal: &str) -> bool {
    let mut serving = library.engines.values().filter(|engine| engine.kind == EngineKind::Serving);
    serving.any(|engine| engine.signals.get(signal).is_some_and(|entry| entry.query.is_some()))
}

/// Returns true if only gateways expose a signal.
pub(super) fn is_gateways(library: &Library, signal: &str) -> bool {
    library.signals.get(signal).is_some_and(Signal::is_of_gateways)
}

/// Returns true if a signal belongs to an optional feature.
pub(super) fn is_feature(library: &Library, signal: &str) -> bool {
    let entries = library.engines.values().filter_map(|engine| engine.signals.get(signal));
    entries.into_iter().any(|entry| entry.feature.is_some())
}
