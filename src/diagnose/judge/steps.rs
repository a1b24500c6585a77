//! The fix steps of the best chain: those that apply to the pool, each with the check that shows that it worked.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::evidence::holds;
use crate::judge::placeholders::{FixContext, filled, placeholder_values};
use crate::judge::restart_cost::restart_cost;
use findings::{EvidenceResult, Fix, FixCheck, Fixes, Observations, Outcome};
use knowledge::playbook::{Comparison, Condition, Library, NoVerify, Node, Op, RunsOn, Step, Verify};
use knowledge::signal::{GpuVendor, Unit, VersionReq, WorseDirection};

/// Maximum number of fix steps of a kind.
const STEPS: usize = 6;

/// Returns the steps of the chain, the root's first, that apply to the detected engines and versions, the platform
/// and the GPU vendor, and that serve the chain. A step whose commands change something and are all shown already is left
/// out; the first step of a kind of change says how it is done.
pub(crate) fn fixes(library: &Library, nodes: &BTreeMap<&str, Node<'_>>, about: &FixContext<'_>) -> Fixes {
    let required = |step: &Step| step.engine.as_deref().map(str::parse::<VersionReq>);
    let seen_engines = || about.detection.engines.iter().map(|e| (e.engine.as_str(), e.version.as_ref()));
    let engine_matches = |step: &Step| match required(step) {
        None => true,
        Some(Err(_)) => false,
        Some(Ok(req)) => seen_engines().any(|(engine, version)| req.allows(engine, version)),
    };
    let needs = |step: &Step| {
        let req = required(step)?.ok()?;
        let least = seen_engines().find_map(|(engine, version)| req.needs(engine, version))?;
        Some(format!("With {} {least} or newer: ", req.engine))
    };
    let on = |step: &Step| step.runs_on.is_none_or(|on| about.runs_on.is_none_or(|platform| platform == on));
    let vendors =
        about.detection.engines.iter().filter_map(|engine_seen| library.engines.get(&engine_seen.engine)?.gpu);
    let vendors: BTreeSet<GpuVendor> = vendors.collect();
    let gpu = |step: &Step| step.gpu.is_none_or(|gpu| vendors.is_empty() || vendors.contains(&gpu));
    let serves =
        |step: &Step| step.only_for.is_empty() || step.only_for.iter().any(|id| about.cause.chain.contains(id));
    let is_met = |check: &Verify| holds(library, &check.signal, &check.when, about.observations) == Outcome::Met;
    let seen = |step: &Step| step.only_if.as_ref().is_none_or(|check| check.checks().into_iter().any(is_met));
    let fits = |step: &Step| on(step) && gpu(step) && serves(step) && seen(step);
    let mut out = Fixes::default();
    let (mut actions, mut commands, mut changes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for node in about.cause.chain.iter().rev().filter_map(|id| nodes.get(id.as_str())) {
        let values = placeholder_values(library, about, node.id);
        for (steps, into) in [(node.now, &mut out.now), (node.lasting, &mut out.lasting)] {
            let (sure, open): (Vec<&Step>, Vec<&Step>) =
                steps.iter().filter(|step| fits(step)).partition(|step| engine_matches(step));
            // Metrics tell only the lowest version that it can be. Without another step, those of newer ones are shown.
            let steps: Vec<(&Step, String)> = match sure.is_empty() {
                true => open.into_iter().filter_map(|step| Some((step, needs(step)?))).collect(),
                false => sure.into_iter().map(|step| (step, String::new())).collect(),
            };
            for (step, condition) in steps {
                let mut action = condition + &filled(step.action.trim(), &values);
                let own: Vec<String> = Step::commands(&action).map(str::to_owned).collect();
                let again = own.iter().any(|command| Step::changes_something(command))
                    && own.iter().all(|command| commands.contains(command));
                if into.len() < STEPS && !again && actions.insert(step.action.clone()) {
                    commands.extend(own);
                    let replica = ["<pod>", "<address>", "<node>"].iter().find_map(|name| values.get(name));
                    let cost = restart_cost(library, step, &action, replica.map(String::as_str), about);
                    if let Some(change) = step.changes.filter(|change| changes.insert(*change)) {
                        let hosts = about.runs_on == Some(RunsOn::Hosts);
                        // Negative where a lost GPU leaves more asked for than there is.
                        let counted = |signal: &str| {
                            let whole = about.observations.signals.get(signal).filter(|seen| seen.incomplete.is_none());
                            Some(whole?.value?.max(0.0) as u64)
                        };
                        let (free, unready) = (counted("gpus_free"), counted("replicas_unready"));
                        let note = change.note(hosts, about.observations.pool.len(), free, unready);
                        action = format!("{action}. {}", filled(&note, &values));
                    }
                    into.push(Fix {
                        action,
                        cause: node.id.to_owned(),
                        cost,
                        verify: shows(library, step, about),
                        source: step.source.clone(),
                    });
                }
            }
        }
    }
    out
}

/// Returns the check that shows that a step worked. A check that already holds before the step, or has no data, shows
/// nothing: the symptom's check is used instead.
fn shows(library: &Library, step: &Step, about: &FixContext<'_>) -> Option<FixCheck> {
    let open = |check: &&Verify| holds(library, &check.signal, &check.when, about.observations) == Outcome::NotMet;
    match (&step.verify, step.no_verify) {
        (Some(own), _) => match own.checks().into_iter().find(open) {
            Some(own) => Some(check(library, own, about.observations)),
            None => inverted_symptom_check(library, about.symptom),
        },
        (None, Some(NoVerify::Symptom)) => inverted_symptom_check(library, about.symptom),
        (None, _) => None,
    }
}

fn check(library: &Library, verify: &Verify, observations: &Observations) -> FixCheck {
    let signal = library.signals.get(&verify.signal);
    FixCheck {
        signal: verify.signal.clone(),
        title: signal.map_or_else(|| verify.signal.clone(), |s| s.title.clone()),
        when: verify.when.to_string(),
        unit: signal.map_or(Unit::Count, |s| s.unit),
        query: observations.signals.get(&verify.signal).and_then(|o| o.query.clone()),
    }
}

/// Returns the symptom's first met check that can be inverted: it is false now, and true once the symptom is over.
pub fn inverted_symptom_check(library: &Library, symptom: &[EvidenceResult]) -> Option<FixCheck> {
    let worse = |e: &&EvidenceResult| e.outcome == Outcome::Met;
    symptom.iter().filter(worse).find_map(|e| {
        let when = invert_condition(library, &e.signal, &e.when.parse().ok()?)?.to_string();
        let (signal, title, query) = (e.signal.clone(), e.title.clone(), e.query.clone());
        Some(FixCheck { signal, title, when, unit: e.unit, query })
    })
}

/// Returns the inverse of a condition that points in the harmful direction; `None` for any other condition.
pub fn invert_condition(library: &Library, signal: &str, when: &Condition) -> Option<Comparison> {
    let Comparison { op, to } = when.single()?;
    let hurts = match library.signals.get(signal)?.bad {
        WorseDirection::High => matches!(op, Op::Above | Op::AtLeast),
        WorseDirection::Low => matches!(op, Op::Below | Op::AtMost),
        WorseDirection::Neither => false,
    };
    hurts.then(|| Comparison { op: op.opposite(), to })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use detect::{DetectionResult, EngineSeen};
    use findings::{Diagnosis, Observation, Request, Scope};

    /// Builds the input of the steps for the first cause of a diagnosis, in a pool of pods.
    pub(crate) fn about<'a>(
        diagnosis: &'a Diagnosis,
        request: &'a Request,
        observations: &'a Observations,
        detection: &'a DetectionResult,
        nodes: &'a BTreeMap<String, String>,
    ) -> FixContext<'a> {
        let symptom = &diagnosis.symptom.evidence;
        FixContext {
            request,
            cause: &diagnosis.causes[0],
            symptom,
            observations,
            detection,
            nodes,
            runs_on: Some(RunsOn::Pods),
        }
    }

    pub(crate) fn request(dimensions: &[(&str, &str)]) -> Request {
        let dimensions = dimensions.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (scope, at) = (Scope { dimensions, ..Scope::default() }, "2026-01-01T00:00:00Z".parse().unwrap());
        let [window, deadline] = [300, 1].map(std::time::Duration::from_secs);
        Request { playbook: "high-itl".to_owned(), ..Request::without_past(scope, at, window, deadline) }
    }

    /// Loads a diagnosis in which one of four replicas is much worse than its peers.
    pub(crate) fn bad_replica() -> Diagnosis {
        serde_json::from_str(include_str!("../../../tests/fixtures/diagnoses/bad-replica.high-itl.json")).unwrap()
    }

    #[test]
    fn what_holds_before_anything_was_done_shows_nothing_and_the_symptoms_own_check_does() {
        let library = knowledge::playbook::load(None).unwrap();
        let diagnosis = bad_replica();
        let (detection, nodes, request) = (DetectionResult::default(), BTreeMap::new(), request(&[]));
        let check =
            |signal: &str, when: &str, or| Verify { signal: signal.to_owned(), when: when.parse().unwrap(), or };
        let verify = Some(check("waiting_per_replica", "< 0.25", vec![]));
        let step = Step {
            action: String::new(),
            engine: None,
            runs_on: None,
            gpu: None,
            only_for: Vec::new(),
            only_if: None,
            changes: None,
            verify,
            no_verify: None,
            source: None,
            origin: None,
        };
        let verify_shown = |waiting: Option<f64>, step: &Step| {
            let observed = |value| Observation { value, answered: true, ..Observation::default() };
            let signals = [("waiting_per_replica", waiting), ("preemption_rate", Some(0.5))];
            let signals = signals.map(|(name, value)| (name.to_owned(), observed(value))).into();
            let observations = Observations { signals, ..Observations::default() };
            let check = shows(&library, step, &about(&diagnosis, &request, &observations, &detection, &nodes));
            check.map(|check| format!("{} {}", check.signal, check.when))
        };
        assert_eq!(verify_shown(Some(3.0), &step).as_deref(), Some("waiting_per_replica < 0.25"));
        assert_eq!(verify_shown(Some(0.0), &step).as_deref(), Some("itl_p99 <= 0.1"));
        assert_eq!(
            verify_shown(None, &step).as_deref(),
            Some("itl_p99 <= 0.1"),
            "a check without data would never tell"
        );
        let others = vec![check("preemption_rate", "< 0.05", vec![])];
        let step = Step { verify: Some(check("waiting_per_replica", "< 0.25", others)), ..step };
        assert_eq!(verify_shown(Some(3.0), &step).as_deref(), Some("waiting_per_replica < 0.25"));
        for waiting in [Some(0.0), None] {
            assert_eq!(verify_shown(waiting, &step).as_deref(), Some("preemption_rate < 0.05"), "the next one tells");
        }
        let step = Step { verify: None, no_verify: Some(NoVerify::Symptom), ..step };
        assert_eq!(verify_shown(Some(0.0), &step).as_deref(), Some("itl_p99 <= 0.1"));
        let step = Step { no_verify: Some(NoVerify::Looks), ..step };
        assert_eq!(verify_shown(Some(0.0), &step), None);
    }

    #[test]
    fn a_replica_that_ended_is_looked_at_by_kubectl_where_it_is_a_pod_and_on_its_host_elsewhere() {
        let library = knowledge::playbook::load(None).unwrap();
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].chain = ["replica-down", "ended-alone"].map(str::to_owned).to_vec();
        let reachable: BTreeMap<&str, Node<'_>> =
            library.reachable("replica-down").into_iter().map(|node| (node.id, node)).collect();
        let (detection, observations, places, request) =
            (DetectionResult::default(), Observations::default(), BTreeMap::new(), request(&[("namespace", "prod")]));
        let now = |runs_on| {
            let about = FixContext { runs_on, ..about(&diagnosis, &request, &observations, &detection, &places) };
            let now = fixes(&library, &reachable, &about).now;
            now.into_iter().filter(|fix| fix.cause == "ended-alone").map(|fix| fix.action).collect::<Vec<_>>()
        };
        let (pods, hosts) = (now(Some(RunsOn::Pods)), now(Some(RunsOn::Hosts)));
        assert!(pods[0].contains("`kubectl -n prod ") && !pods[0].contains("systemctl"), "{pods:?}");
        assert!(hosts[0].contains("`systemctl status") && !hosts[0].contains("kubectl"), "{hosts:?}");
        let both = now(None);
        assert_eq!(both.len(), pods.len() + hosts.len(), "the platform is unknown, so both are shown: {both:?}");
        assert!(both.iter().any(|step| step.contains("kubectl")) && both.iter().any(|step| step.contains("systemctl")));
    }

    #[test]
    fn gpus_that_are_known_to_be_amds_get_amds_commands_and_both_are_said_of_unknown_ones() {
        let library = knowledge::playbook::load(None).unwrap();
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].chain = ["gpu-clock-bound", "power-limited"].map(str::to_owned).to_vec();
        let reachable: BTreeMap<&str, Node<'_>> =
            library.reachable("gpu-clock-bound").into_iter().map(|node| (node.id, node)).collect();
        let (observations, places, request) = (Observations::default(), BTreeMap::new(), request(&[]));
        let tools = |exporters: &[&str]| {
            let detection = detected(exporters, None);
            let fixes = fixes(&library, &reachable, &about(&diagnosis, &request, &observations, &detection, &places));
            ["amd-smi", "nvidia-smi"].map(|tool| fixes.now.iter().any(|fix| fix.action.contains(tool)))
        };
        assert_eq!(tools(&["rocm"]), [true, false]);
        assert_eq!(tools(&["dcgm"]), [false, true]);
        assert_eq!(tools(&["dcgm", "rocm"]), [true, true]);
        assert_eq!(tools(&["generic-gpu", "vllm"]), [true, true], "nobody tells whose GPUs they are");
    }

    #[test]
    fn a_step_is_shown_for_the_causes_that_it_serves_and_a_command_once() {
        let library = knowledge::playbook::load(None).unwrap();
        let reachable: BTreeMap<&str, Node<'_>> =
            library.reachable("high-itl").into_iter().map(|node| (node.id, node)).collect();
        let (detection, places, request) = (DetectionResult::default(), BTreeMap::new(), request(&[]));
        let observations = Observations { pool: vec!["vllm-0".to_owned(), "vllm-1".to_owned()], ..Default::default() };
        let now = |chain: &[&str]| {
            let mut diagnosis = bad_replica();
            diagnosis.causes[0].chain = chain.iter().map(|id| (*id).to_owned()).collect();
            let fixes = fixes(&library, &reachable, &about(&diagnosis, &request, &observations, &detection, &places));
            fixes.now.into_iter().map(|fix| fix.action).collect::<Vec<_>>()
        };
        let with = |steps: &[String], text: &str| steps.iter().filter(|step| step.contains(text)).count();
        let full = now(&["high-itl", "kv-cache-full", "traffic-surge"]);
        assert_eq!(with(&now(&["high-itl", "prefill-bound"]), "sends the longest prompts"), 1);
        assert_eq!(with(&full, "sends the longest prompts"), 0, "nothing says that prompts are long: {full:?}");
        assert_eq!(with(&full, "scale deployment"), 1, "{full:?}");
        assert_eq!(with(&full, "minReplicas"), 1, "{full:?}");
    }

    /// The steps at once for a full queue behind the slot limit, where one signal was observed.
    fn for_a_full_queue(signal: &str, observed: Observation) -> Vec<String> {
        let library = knowledge::playbook::load(None).unwrap();
        let reachable: BTreeMap<&str, Node<'_>> =
            library.reachable("queue-buildup").into_iter().map(|node| (node.id, node)).collect();
        let (detection, places, request) = (DetectionResult::default(), BTreeMap::new(), request(&[]));
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].chain = ["queue-buildup", "slot-limit"].map(str::to_owned).to_vec();
        let signals = [(signal.to_owned(), observed)].into();
        let observations = Observations { signals, ..Observations::default() };
        let fixes = fixes(&library, &reachable, &about(&diagnosis, &request, &observations, &detection, &places));
        fixes.now.into_iter().map(|fix| fix.action).collect()
    }

    #[test]
    fn a_step_that_adds_replicas_says_how_many_gpus_are_free_where_all_of_the_data_is_known() {
        let note = |value: Option<f64>, incomplete: Option<String>| {
            let observed = Observation { value, incomplete, answered: true, ..Observation::default() };
            let steps = for_a_full_queue("gpus_free", observed);
            let step = steps.iter().find_map(|step| step.split_once("needs free GPUs")).unwrap();
            step.1.split_once(", and").unwrap().0.to_owned()
        };
        assert_eq!(note(None, None), "");
        assert_eq!(note(Some(0.0), Some("a store is away".to_owned())), "");
        assert!(note(Some(0.0), None).contains("no GPU of this cluster is free"));
        assert!(note(Some(-1.0), None).contains("no GPU of this cluster is free"));
        assert_eq!(note(Some(1.0), None), " (1 of this cluster is free)");
        assert_eq!(note(Some(4.0), None), " (4 of this cluster are free)");
    }

    #[test]
    fn a_step_that_adds_replicas_says_that_some_are_wanted_already_and_do_not_come() {
        let said = |value: f64| {
            let observed = Observation { value: Some(value), answered: true, ..Observation::default() };
            for_a_full_queue("replicas_unready", observed).iter().any(|step| step.contains("are wanted already"))
        };
        assert!(said(3.0) && !said(0.0));
    }

    #[test]
    fn a_step_for_a_newer_version_is_shown_with_it_where_no_other_step_applies() {
        let library = knowledge::playbook::load(None).unwrap();
        let reachable = library.reachable("queue-buildup").into_iter().map(|node| (node.id, node)).collect();
        let (observations, places, request) = (Observations::default(), BTreeMap::new(), request(&[]));
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].chain = ["queue-buildup", "ranks-uneven"].map(str::to_owned).to_vec();
        let now = |version: &str| {
            let detection = detected(&["sglang"], Some(version));
            let fixes = fixes(&library, &reachable, &about(&diagnosis, &request, &observations, &detection, &places));
            fixes.now.iter().filter(|fix| fix.action.starts_with("With sglang 0.5.22 or newer: ")).count()
        };
        assert!(now("0.5.19") > 0 && now("0.5.22") == 0);
    }

    fn detected(engines: &[&str], version: Option<&str>) -> DetectionResult {
        let seen = |engine: &&str| EngineSeen {
            engine: (*engine).to_owned(),
            version: version.map(|version| version.parse().unwrap()),
            prefixes: Vec::new(),
            matchers: Vec::new(),
            target: String::new(),
        };
        DetectionResult { engines: engines.iter().map(seen).collect(), ..DetectionResult::default() }
    }

    #[test]
    fn retries_are_stopped_where_time_outs_or_errors_are_seen() {
        let stops = |signal: &str, value: f64| {
            let observed = Observation { value: Some(value), answered: true, ..Observation::default() };
            for_a_full_queue(signal, observed).iter().any(|step| step.contains("Stop retries"))
        };
        assert!(stops("gateway_timeout_ratio", 0.1) && stops("error_ratio", 0.1));
        assert!(!stops("gateway_timeout_ratio", 0.0) && !stops("waiting_per_replica", 50.0));
    }
}
