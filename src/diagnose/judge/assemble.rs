//! Assembles the diagnosis from the verdicts: root causes with chains, replicas, fixes, and what stays undetermined.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::judge::affected_replicas::affected_replicas;
use crate::judge::excluded::{nearest, not_looked_at, ruled_out, unchecked};
use crate::judge::parts::parts;
use crate::judge::placeholders::FixContext;
use crate::judge::steps::fixes;
use crate::judge::{as_link, onset, probability};
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::TRAFFIC;
use detect::compared_with;
use findings::{
    BlastRadius, CauseFound, Diagnosis, EngineFound, ErrorBudget, EvidenceResult, Judged, Judgement, Observations,
    Onset, Request, SCHEMA, ScopeFound, Screening, SymptomFound, SymptomVerdict, Verdict,
};
use knowledge::clock;
use knowledge::gap::missing_part;
use knowledge::playbook::{Library, Node};
use knowledge::signal::matchers;

/// Nodes, GPUs and share of the traffic are given for at most this number of affected replicas, for none of more.
const MAX_DETAILED_REPLICAS: usize = 4;
/// Maximum number of nodes of affected replicas that are listed; none of more.
const MAX_NODES: usize = 32;
/// Maximum number of nodes of a whole pool that are listed; none of more, because many pools share these.
const MAX_POOL_NODES: usize = 8;

pub(crate) fn assemble(
    library: &Library,
    request: &Request,
    observed: ObserveResult,
    judged: Option<Judged>,
    screening: Option<Screening>,
    took: Duration,
) -> Diagnosis {
    let incomplete = observed.incomplete().map(str::to_owned);
    let ObserveResult {
        detection,
        kinds,
        members,
        observations,
        mut problems,
        degraded,
        queries,
        direct,
        logs,
        elsewhere,
        error_budget,
        ..
    } = observed;
    // Later queries may lack a part although the first ones did not.
    let missing = incomplete.as_deref().map(missing_part).filter(|missing| !problems.contains(missing));
    missing.into_iter().for_each(|missing| problems.insert(0, missing));
    if judged.is_none() && screening.is_none() && !request.playbook.is_empty() {
        problems.push(format!("there is no playbook `{}`", request.playbook));
    }
    let judged = judged.unwrap_or_else(|| without_symptom(screening.as_ref(), degraded || incomplete.is_some()));
    let nodes: BTreeMap<&str, Node<'_>> =
        library.reachable(&request.playbook).into_iter().map(|node| (node.id, node)).collect();
    let serving = detection.pool(library).next().map(|(_, engine_seen)| engine_seen);
    let causes = roots(library, request, &nodes, &judged, &observations);
    let about = |cause| {
        let (nodes, runs_on) = (members.nodes(), members.run_on(request));
        FixContext {
            request,
            cause,
            symptom: &judged.evidence,
            observations: &observations,
            detection: &detection,
            nodes,
            runs_on,
        }
    };
    let fix = causes.first().map(|cause| fixes(library, &nodes, &about(cause))).unwrap_or_default();
    let mut diagnosis = Diagnosis {
        schema: SCHEMA.to_owned(),
        at: request.at,
        window_seconds: request.window.as_secs(),
        scope: ScopeFound {
            labels: request.scope.dimensions.clone(),
            matchers: serving.map(|engine_seen| matchers(&engine_seen.matchers)).unwrap_or_default(),
            named: request.scope.replicas.iter().cloned().collect(),
            notes: detection.notes.clone(),
            // A value with data at another time is not unknown, nor is one that the missing part may have.
            unknown: detection.unknown.clone().filter(|_| elsewhere.is_none() && incomplete.is_none()),
            data: elsewhere,
        },
        engines: detection
            .engines
            .iter()
            .map(|e| EngineFound { engine: e.engine.clone(), at_least: e.version.as_ref().map(ToString::to_string) })
            .collect(),
        kinds,
        compared_with: Some(compared_with(detection.past, observations.pool.len())),
        pools: Vec::new(),
        condition: None,
        replicas: radius(std::iter::once(judged.evidence.as_slice()), &observations),
        parts: match judged.symptom {
            SymptomVerdict::Confirmed => parts(library, &request.playbook, &observations),
            SymptomVerdict::Absent | SymptomVerdict::NoData => None,
        },
        timeline: timeline(causes.first(), &request.playbook, &judged, observations.held_step_seconds),
        unknown: 1.0,
        nearest: Vec::new(),
        ruled_out: ruled_out(library, request, &judged),
        unchecked: unchecked(library, &judged, &observations),
        not_looked_at: not_looked_at(library, &nodes, &judged, &observations),
        symptom: symptom_found(library, request, &judged, screening.as_ref(), error_budget),
        causes,
        screening,
        fix,
        problems,
        degraded,
        incomplete,
        direct,
        logs,
        rollout: None,
        queries,
        took_seconds: took.as_secs_f64(),
    };
    probability::weigh(&mut diagnosis);
    if diagnosis.symptom.verdict == SymptomVerdict::Confirmed {
        diagnosis.replicas.nodes = nodes_of(&diagnosis.replicas, &observations.nodes);
        if let Some(root) = diagnosis.causes.first_mut() {
            root.replicas.nodes = nodes_of(&root.replicas, &observations.nodes);
        }
    }
    if diagnosis.root().is_none_or(|root| root.verdict != Verdict::Likely) {
        diagnosis.nearest = nearest(library, &request.playbook, &judged);
    }
    diagnosis
}

/// Returns the verdict without a playbook: nothing is abnormal if everything was measured.
fn without_symptom(screening: Option<&Screening>, is_partial: bool) -> Judged {
    // What was not measured may be the symptom.
    let is_whole =
        screening.is_some_and(|screening| !screening.looked_at.is_empty() && screening.unmeasured.is_empty());
    let symptom = if is_whole && !is_partial { SymptomVerdict::Absent } else { SymptomVerdict::NoData };
    Judged { symptom, evidence: Vec::new(), causes: BTreeMap::new(), chains: Vec::new() }
}

fn symptom_found(
    library: &Library,
    request: &Request,
    judged: &Judged,
    screening: Option<&Screening>,
    error_budget: Option<ErrorBudget>,
) -> SymptomFound {
    let entry = library.playbooks.get(&request.playbook);
    let has_gaps = screening.is_some_and(|s| !s.unmeasured.is_empty() && !s.looked_at.is_empty());
    let title = match (entry, judged.symptom) {
        (Some(playbook), _) => playbook.title.as_str(),
        (None, SymptomVerdict::Absent) => "nothing is abnormal",
        (None, _) if has_gaps => "nothing is abnormal in the measured signals",
        (None, _) => "no symptom is known",
    };
    SymptomFound {
        playbook: request.playbook.clone(),
        title: title.to_owned(),
        impact: entry.map(|p| p.impact.clone()).unwrap_or_default(),
        verdict: judged.symptom,
        promise: library.promise_of(&request.playbook),
        error_budget,
        evidence: judged.evidence.clone(),
    }
}

/// Returns one entry per root, with its best chain.
fn roots(
    library: &Library,
    request: &Request,
    nodes: &BTreeMap<&str, Node<'_>>,
    judged: &Judged,
    observations: &Observations,
) -> Vec<CauseFound> {
    // The alert comes after its `for`, so that a traced onset counts first.
    let began = onset(&judged.evidence).map(|(at, _)| at).or(request.since);
    let so_far = began.is_some_and(|began| clock::after(began, request.window) > request.at);
    let mut done = BTreeSet::new();
    let mut out = Vec::new();
    for chain in &judged.chains {
        let Some(root) = chain.last().filter(|root| done.insert((*root).clone())) else { continue };
        let along: Vec<&Judgement> = chain.iter().filter_map(|id| judged.causes.get(id)).collect();
        let (Some(node), Some((judgement, via))) = (nodes.get(root.as_str()), along.split_last()) else { continue };
        let links = || along.iter().enumerate().map(|(i, link)| as_link(link, i == 0));
        let as_shown = |(link, (verdict, score)): (&&Judgement, _)| Judgement { verdict, score, ..(*link).clone() };
        out.push(CauseFound {
            id: root.clone(),
            title: judgement.title.clone(),
            meaning: node.meaning.trim().to_owned(),
            chain: chain.clone(),
            verdict: links().map(|(verdict, _)| verdict).min().unwrap_or(Verdict::Undetermined),
            score: links().map(|(_, score)| score).fold(1.0, f64::min),
            probability: 0.0,
            so_far,
            explained: along.first().and_then(|link| link.explained),
            evidence: judgement.evidence.clone(),
            // The nearest link that names replicas says which are affected.
            replicas: radius(along.iter().rev().map(|j| j.evidence.as_slice()), observations),
            fallback: library.ends_in_fallback(chain),
            via: via.iter().zip(links()).map(as_shown).collect(),
            escalate: chain.iter().rev().find_map(|id| nodes.get(id.as_str())?.escalate).map(str::to_owned),
        });
    }
    out
}

/// Returns the onsets along the best chain, the root first; links that held all along are left out.
fn timeline(best: Option<&CauseFound>, entry: &str, judged: &Judged, step_seconds: i64) -> Vec<Onset> {
    let Some(best) = best else { return Vec::new() };
    let links = best.chain.iter().rev().filter(|id| *id != entry).filter_map(|id| judged.causes.get(id));
    let links = links.map(|j| (j.id.as_str(), j.evidence.as_slice()));
    let mut out: Vec<Onset> = Vec::new();
    for (id, evidence) in links.chain([(entry, judged.evidence.as_slice())]) {
        if let Some((at, evidence)) = onset(evidence)
            // Two links that rest on the same signal are one event.
            && !out.iter().any(|other| other.evidence.signal == evidence.signal)
        {
            out.push(Onset { id: id.to_owned(), evidence: evidence.clone(), at, step_seconds });
        }
    }
    out
}

fn radius<'a>(mut evidence: impl Iterator<Item = &'a [EvidenceResult]>, observations: &Observations) -> BlastRadius {
    let named =
        |list: &'a [EvidenceResult]| Some(affected_replicas(list, observations)).filter(|names| !names.is_empty());
    let affected = evidence.find_map(named).unwrap_or_default();
    let (places, traffic) = if affected.len() <= MAX_DETAILED_REPLICAS {
        (places(&affected, observations), traffic(&affected, observations))
    } else {
        Default::default()
    };
    BlastRadius { affected, total: observations.pool.len(), places, nodes: Vec::new(), traffic }
}

/// Returns the nodes of the affected replicas, of the whole pool if the evidence is about it; none if they are many.
fn nodes_of(replicas: &BlastRadius, nodes: &BTreeMap<String, String>) -> Vec<String> {
    let (of, most): (BTreeSet<&String>, usize) = match replicas.affected.is_empty() {
        true => (nodes.values().collect(), MAX_POOL_NODES),
        false => (replicas.affected.iter().filter_map(|replica| nodes.get(replica)).collect(), MAX_NODES),
    };
    if of.len() > most { Vec::new() } else { of.into_iter().cloned().collect() }
}

/// Returns the nodes and GPUs of replicas.
fn places(affected: &[String], observations: &Observations) -> BTreeMap<String, Vec<String>> {
    let of = |name: &String| Some((name.clone(), observations.places.get(name)?.iter().cloned().collect()));
    affected.iter().filter_map(of).collect()
}

/// Returns the replicas' share of the arrivals; `None` if arrivals are not known by replica.
fn traffic(affected: &[String], observations: &Observations) -> Option<f64> {
    let rates = &observations.signals.get(TRAFFIC)?.replicas;
    let all: f64 = rates.iter().map(|r| r.value.max(0.0)).sum();
    let of_affected: f64 = rates.iter().filter(|r| affected.contains(&r.name)).map(|r| r.value.max(0.0)).sum();
    (!affected.is_empty() && all > 0.0).then_some(of_affected / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_those_of_the_affected_replicas_or_of_a_small_pool() {
        let on = |n: usize, per_node: usize| -> BTreeMap<String, String> {
            (0..n).map(|i| (format!("r{i}"), format!("node-{:02}", i / per_node))).collect()
        };
        let of = |affected: usize| BlastRadius {
            affected: (0..affected).map(|i| format!("r{i}")).collect(),
            ..BlastRadius::default()
        };
        assert_eq!(nodes_of(&of(8), &on(16, 8)), ["node-00"], "a broken node with eight replicas");
        assert_eq!(nodes_of(&of(32), &on(40, 1)).len(), 32);
        assert_eq!(nodes_of(&of(33), &on(40, 1)), [""; 0], "they are many");
        assert_eq!(nodes_of(&of(0), &on(16, 2)).len(), 8, "the whole pool");
        assert_eq!(nodes_of(&of(0), &on(18, 2)), [""; 0]);
    }
}
