//! The fix steps of the best chain: those that hold for what was seen, with the names and values that the diagnosis knows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::blame::affected;
use super::evidence::holds;
use super::scope::{Found, workload_of};
use super::{CauseFound, EvidenceResult, Fix, FixCheck, Fixes, Observations, Outcome, Request};
use crate::playbook::{Comparison, Condition, Library, NoVerify, Node, Op, Step, Verify};
use crate::signal::{Bad, VersionReq};

/// How many fix steps of a kind are shown.
const STEPS: usize = 6;
/// The signal that tells how many replicas there were to be.
const WANTED: &str = "replicas_wanted";

/// What the steps are about.
pub(super) struct About<'a> {
    pub(super) request: &'a Request,
    /// The best chain.
    pub(super) cause: &'a CauseFound,
    /// The checks of the symptom.
    pub(super) symptom: &'a [EvidenceResult],
    pub(super) seen: &'a Observations,
    /// The node of each pod.
    pub(super) nodes: &'a BTreeMap<String, String>,
}

/// The steps of the chain, the root's first, that hold for the engine and version seen.
pub(super) fn fixes(library: &Library, nodes: &BTreeMap<&str, Node<'_>>, found: &Found, about: &About<'_>) -> Fixes {
    let applies = |step: &Step| match step.engine.as_deref().map(str::parse::<VersionReq>) {
        None => true,
        Some(Err(_)) => false,
        Some(Ok(req)) => found.engines.iter().any(|e| req.allows(&e.engine, e.version.as_ref())),
    };
    let mut out = Fixes::default();
    let mut said = BTreeSet::new();
    for node in about.cause.chain.iter().rev().filter_map(|id| nodes.get(id.as_str())) {
        let known = known(about, node.id);
        for (steps, into) in [(node.now, &mut out.now), (node.lasting, &mut out.lasting)] {
            for step in steps.iter().filter(|s| applies(s)) {
                if into.len() < STEPS && said.insert(step.action.clone()) {
                    into.push(Fix {
                        action: filled(step.action.trim(), &known),
                        cause: node.id.to_owned(),
                        verify: shows(library, step, about),
                        source: step.source.clone(),
                    });
                }
            }
        }
    }
    out
}

/// What shows that a step worked. What holds already, before anything was done, or has no data, shows nothing: the symptom
/// tells then.
fn shows(library: &Library, step: &Step, about: &About<'_>) -> Option<FixCheck> {
    match (&step.verify, step.no_verify) {
        (Some(own), _) if holds(library, &own.signal, &own.when, about.seen) == Outcome::NotMet => {
            Some(check(library, own, about.seen))
        }
        (Some(_), _) | (None, Some(NoVerify::Symptom)) => eased(library, about.symptom),
        (None, _) => None,
    }
}

fn check(library: &Library, verify: &Verify, seen: &Observations) -> FixCheck {
    FixCheck {
        signal: verify.signal.clone(),
        title: library.signals.get(&verify.signal).map_or_else(|| verify.signal.clone(), |s| s.title.clone()),
        when: verify.when.to_string(),
        query: seen.signals.get(&verify.signal).and_then(|o| o.query.clone()),
    }
}

/// The symptom's first check that holds for the worse, turned round: it does not hold now, and will when the symptom is over.
pub(crate) fn eased(library: &Library, symptom: &[EvidenceResult]) -> Option<FixCheck> {
    let worse = |e: &&EvidenceResult| e.outcome == Outcome::Met;
    symptom.iter().filter(worse).find_map(|e| {
        let Comparison { op, to } = e.when.parse::<Condition>().ok()?.single()?;
        let hurts = match library.signals.get(&e.signal)?.bad {
            Bad::High => matches!(op, Op::Above | Op::AtLeast),
            Bad::Low => matches!(op, Op::Below | Op::AtMost),
            Bad::Neither => false,
        };
        let when = Comparison { op: op.opposite(), to }.to_string();
        hurts.then(|| FixCheck { signal: e.signal.clone(), title: e.title.clone(), when, query: e.query.clone() })
    })
}

/// What placeholders of a node's steps stand for, as far as it is known. A pod is put in only where the node's own checks
/// name it: another link's replicas may be the healthy ones. What a shell would read as more than a word is left out:
/// labels are untrusted, and a step is there to be copied.
fn known(about: &About<'_>, node: &str) -> BTreeMap<&'static str, String> {
    let About { request, cause, symptom, seen, nodes } = about;
    let via = || cause.via.iter().find(|link| link.id == node).map(|link| link.evidence.as_slice());
    let own = if cause.id == node { &cause.evidence } else { via().unwrap_or(symptom) };
    let named = affected(own, seen);
    let pod = only(named.iter().map(String::as_str)).filter(|pod| is_pod(pod));
    let dimension = |name: &str| request.scope.dimensions.get(name).map(String::as_str);
    let all: [(&'static str, Option<String>); 6] = [
        ("<pod>", pod.map(str::to_owned)),
        ("<node>", pod.and_then(|pod| nodes.get(pod)).cloned()),
        ("<namespace>", dimension("namespace").map(str::to_owned)),
        ("<model>", dimension("model").map(str::to_owned)),
        ("<deployment>", deployment(&seen.pool).map(str::to_owned)),
        ("<replicas>", replicas_before(seen).map(|n| n.to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| is_word(value))?))).collect()
}

fn filled(action: &str, known: &BTreeMap<&'static str, String>) -> String {
    // In one pass, so that nothing is looked for in what was put in.
    let mut out = String::with_capacity(action.len());
    let mut rest = action;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match known.iter().find_map(|(name, value)| Some((value, from.strip_prefix(name)?))) {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push('<');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The value that all have in common; none where there are several, or none.
fn only<'a>(mut values: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// Whether a shell reads it as one word that is no option, and no markup is in it.
fn is_word(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '+');
    value.len() <= 253 && value.starts_with(|c: char| c.is_ascii_alphanumeric()) && value.chars().all(plain)
}

/// A name that Kubernetes would take for a pod, and no address.
fn is_pod(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    name.chars().all(plain) && name.parse::<IpAddr>().is_err()
}

/// The Deployment of the pods, where all of them are of one.
fn deployment(pool: &[String]) -> Option<&str> {
    let first = deployment_of(pool.first()?)?;
    pool.iter().all(|pod| deployment_of(pod) == Some(first)).then_some(first)
}

/// The name of its Deployment: the pod's without a ReplicaSet's hash and five characters.
fn deployment_of(pod: &str) -> Option<&str> {
    let workload = workload_of(pod);
    let (hash, _) = pod.strip_prefix(workload)?.strip_prefix('-')?.split_once('-')?;
    (is_pod(pod) && !hash.is_empty()).then_some(workload)
}

/// How many replicas were wanted before, where that were more.
fn replicas_before(seen: &Observations) -> Option<u64> {
    let wanted = seen.signals.get(WANTED)?;
    let (now, before) = (wanted.value?, wanted.baseline?);
    (before.fract() == 0.0 && before > now && before < 1e6).then_some(before as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::{Baseline, Diagnosis, Judgement, Observation, ReplicaValue, Scope, Verdict};

    #[test]
    fn placeholders_that_are_known_are_filled_and_the_others_stay() {
        let known = [("<pod>", "vllm-7f9c4d6b8-x2x9p".to_owned()), ("<namespace>", "prod".to_owned())].into();
        assert_eq!(
            filled("`kubectl -n <namespace> logs <pod>` on <node>, 1 < 2", &known),
            "`kubectl -n prod logs vllm-7f9c4d6b8-x2x9p` on <node>, 1 < 2"
        );
    }

    #[test]
    fn what_a_shell_or_markup_would_read_is_no_word() {
        for word in ["vllm-0", "meta-llama/Llama-3.1-8B", "10.0.0.1:8000", "a_b@c+d"] {
            assert!(is_word(word), "{word}");
        }
        for hostile in ["", "-rf", "a b", "$(reboot)", "a;b", "a`b`", "**a**", "a'b", "a\nb", "<pod>", "ä"] {
            assert!(!is_word(hostile), "{hostile}");
        }
    }

    #[test]
    fn a_deployment_is_known_by_its_pods_names_and_a_stateful_set_is_none() {
        let of = |pods: &[&str]| {
            let pods: Vec<String> = pods.iter().map(|&pod| pod.to_owned()).collect();
            deployment(&pods).map(str::to_owned)
        };
        assert_eq!(of(&["vllm-7f9c4d6b8-x2x9p", "vllm-7f9c4d6b8-aaaaa"]).as_deref(), Some("vllm"));
        assert_eq!(of(&["vllm-7f9c4d6b8-x2x9p", "other-7f9c4d6b8-x2x9p"]), None);
        for pods in [&["vllm-0", "vllm-1"][..], &["10.0.0.1:8000"], &["vllm-x2x9p"], &[]] {
            assert_eq!(of(pods), None, "{pods:?}");
        }
    }

    #[test]
    fn an_address_is_no_pod() {
        assert!(is_pod("vllm-0") && !is_pod("10.0.0.1") && !is_pod("10.0.0.1:8000") && !is_pod("VLLM"));
    }

    fn about<'a>(
        diagnosis: &'a Diagnosis,
        request: &'a Request,
        seen: &'a Observations,
        nodes: &'a BTreeMap<String, String>,
    ) -> About<'a> {
        About { request, cause: &diagnosis.causes[0], symptom: &diagnosis.symptom.evidence, seen, nodes }
    }

    fn request(dimensions: &[(&str, &str)]) -> Request {
        let dimensions = dimensions.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Request {
            playbook: "high-itl".to_owned(),
            screen: false,
            rules: Vec::new(),
            scope: Scope { dimensions, replicas: BTreeSet::new() },
            at: "2026-01-01T00:00:00Z".parse().unwrap(),
            since: None,
            window: std::time::Duration::from_secs(300),
            baseline: Baseline::Off,
            deadline: std::time::Duration::from_secs(1),
        }
    }

    /// One of four replicas is much worse than its peers.
    fn bad_replica() -> Diagnosis {
        serde_json::from_str(include_str!("../../tests/fixtures/diagnoses/bad-replica.high-itl.json")).unwrap()
    }

    #[test]
    fn steps_name_the_pod_its_node_and_what_the_alert_names_but_nothing_hostile() {
        let diagnosis = bad_replica();
        let nodes = [("vllm-llama-8b-1".to_owned(), "gpu-node-0".to_owned())].into();
        let wanted = Observation { value: Some(2.0), baseline: Some(4.0), ..Observation::default() };
        let seen = Observations { signals: [(WANTED.to_owned(), wanted)].into(), ..Observations::default() };
        let request = request(&[("namespace", "prod"), ("model", "$(reboot)")]);
        let known = known(&about(&diagnosis, &request, &seen, &nodes), "bad-replica");
        let told: Vec<_> = known.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let expected =
            [("<namespace>", "prod"), ("<node>", "gpu-node-0"), ("<pod>", "vllm-llama-8b-1"), ("<replicas>", "4")];
        assert_eq!(told, expected);
    }

    /// A check that holds on these replicas.
    fn names(replicas: &[&str]) -> EvidenceResult {
        let mut check = bad_replica().causes.swap_remove(0).evidence.swap_remove(0);
        let value = |name: &&str| ReplicaValue { name: (*name).to_owned(), value: 1.0 };
        (check.outcome, check.replicas) = (Outcome::Met, replicas.iter().map(value).collect());
        check
    }

    #[test]
    fn of_several_affected_replicas_none_is_put_into_a_command() {
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].evidence = vec![names(&["vllm-0", "vllm-1"])];
        let (seen, nodes, request) = (Observations::default(), BTreeMap::new(), request(&[]));
        assert_eq!(known(&about(&diagnosis, &request, &seen, &nodes), "bad-replica"), BTreeMap::new());
    }

    #[test]
    fn a_step_names_the_replica_of_its_own_checks_and_never_another_links_or_the_alerts() {
        let mut diagnosis = bad_replica();
        let cause = &mut diagnosis.causes[0];
        let link = |id: &str, replica: &str| Judgement {
            id: id.to_owned(),
            title: String::new(),
            verdict: Verdict::Likely,
            score: 1.0,
            explained: None,
            evidence: vec![names(&[replica])],
        };
        cause.chain = ["high-itl", "slot-limit", "idle-replica"].map(str::to_owned).to_vec();
        (cause.id, cause.via) = ("idle-replica".to_owned(), vec![link("slot-limit", "vllm-busy")]);
        cause.evidence = vec![names(&[])];
        cause.replicas.affected = vec!["vllm-busy".to_owned()];
        let mut request = request(&[]);
        request.scope.replicas.insert("vllm-busy".to_owned());
        let (seen, nodes) = (Observations::default(), BTreeMap::new());
        let pod = |diagnosis: &Diagnosis, node: &str| {
            known(&about(diagnosis, &request, &seen, &nodes), node).get("<pod>").cloned()
        };
        assert_eq!(pod(&diagnosis, "idle-replica"), None);
        assert_eq!(pod(&diagnosis, "slot-limit").as_deref(), Some("vllm-busy"));
        diagnosis.causes[0].evidence = vec![names(&["vllm-idle"])];
        assert_eq!(pod(&diagnosis, "idle-replica").as_deref(), Some("vllm-idle"));
    }

    #[test]
    fn what_holds_before_anything_was_done_shows_nothing_and_the_symptoms_own_check_does() {
        let library = crate::playbook::load(None).unwrap();
        let diagnosis = bad_replica();
        let (nodes, request) = (BTreeMap::new(), request(&[]));
        let verify = Verify { signal: "waiting_per_replica".to_owned(), when: "< 0.25".parse().unwrap() };
        let step = Step { action: String::new(), engine: None, verify: Some(verify), no_verify: None, source: None };
        let shown = |waiting: Option<f64>, step: &Step| {
            let o = Observation { value: waiting, answered: true, ..Observation::default() };
            let signals = [("waiting_per_replica".to_owned(), o)].into();
            let seen = Observations { signals, ..Observations::default() };
            let check = shows(&library, step, &about(&diagnosis, &request, &seen, &nodes));
            check.map(|check| format!("{} {}", check.signal, check.when))
        };
        assert_eq!(shown(Some(3.0), &step).as_deref(), Some("waiting_per_replica < 0.25"));
        assert_eq!(shown(Some(0.0), &step).as_deref(), Some("itl_p99 <= 0.1"));
        assert_eq!(shown(None, &step).as_deref(), Some("itl_p99 <= 0.1"), "a check without data would never tell");
        let step = Step { verify: None, no_verify: Some(NoVerify::Symptom), ..step };
        assert_eq!(shown(Some(0.0), &step).as_deref(), Some("itl_p99 <= 0.1"));
        let step = Step { no_verify: Some(NoVerify::Looks), ..step };
        assert_eq!(shown(Some(0.0), &step), None);
    }
}
