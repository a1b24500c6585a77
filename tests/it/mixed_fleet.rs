//! A gateway that turns requests of its one model away, beside pools of other models: what it says is about none of them.

use std::collections::BTreeMap;

use diagnose::diagnose;
use diagnose::health::{HealthQuery, evaluate_fleet};
use findings::Diagnosis;
use findings::health::{Health, HealthState};

use crate::harness::{DEADLINE, Page, Stamp, WINDOW, at, evidence, fixture, library, request, run, shared, slot};

pub(crate) const CASE: usize = 143;
/// Namespaces, each with a model of its own.
const POOLS: [&str; 11] = [
    "mixed-a", "mixed-b", "mixed-c", "mixed-d", "mixed-e", "mixed-f", "mixed-g", "mixed-h", "mixed-i", "mixed-j",
    "mixed-k",
];

/// The captured frontend has no namespace; each pool is a captured vLLM under another model's name.
pub(crate) fn pages() -> Vec<Page> {
    let frontend = |time: &str| fixture(&format!("dynamo/1.6-frontend-overload-{time}.prom"));
    let pool = |namespace: &str, time: &str| -> String {
        let page = fixture(&format!("vllm/0.32-healthy-{time}.prom"));
        // Of the histograms this is what users feel; the others only make the import long.
        let kept = |line: &&str| !line.contains("_bucket{") || line.contains("time_to_first_token");
        let page: String = page.lines().filter(kept).map(|line| format!("{line}\n")).collect();
        page.replace("tiny-llama", &format!("model-of-{namespace}"))
    };
    let mut pages = minute("dynamo-frontend", "", "frontend-0", &frontend("t0"), &frontend("t1"));
    for namespace in POOLS {
        pages.extend(minute("vllm", namespace, "vllm-0", &pool(namespace, "t0"), &pool(namespace, "t1")));
    }
    pages
}

/// Scrapes of what was before, one of them longer ago than the rate window, and one a minute later: errors are born with
/// a number, and count only where the target was there before.
fn minute(job: &'static str, namespace: &'static str, pod: &'static str, before: &str, after: &str) -> Vec<Page> {
    // Addresses differ in the namespace, as those of pods do.
    let instance = if namespace.is_empty() { pod } else { namespace };
    let page =
        |text: &str, seconds| Page::new(text, Stamp { job, instance, namespace, pod, time: slot(CASE) + seconds });
    vec![page(before, -300), page(before, -60), page(before, 0), page(after, 60)]
}

fn looked(scope: &[(&str, &str)]) -> Health {
    let scope: BTreeMap<String, String> = scope.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let (prometheus, labels) = (shared(), BTreeMap::new());
    let what = HealthQuery { scope, at: at(slot(CASE) + 60), window: WINDOW, deadline: DEADLINE };
    run(evaluate_fleet(library(), &[(prometheus, &labels)], &what))
}

fn diagnosed(playbook: &str, namespace: &str) -> Diagnosis {
    let model = format!("model-of-{namespace}");
    let request = request(playbook, &[("namespace", namespace), ("model_name", &model)], slot(CASE) + 60);
    run(diagnose(library(), shared(), &request))
}

/// The gateways' signals that have a value in a diagnosis.
fn of_gateways(diagnosis: &Diagnosis) -> Vec<&str> {
    let told = evidence(diagnosis).into_iter().filter(|e| e.signal.starts_with("gateway_") && e.value.is_some());
    told.map(|e| e.signal.as_str()).collect()
}

#[test]
fn a_failing_gateway_makes_its_own_pool_critical_and_no_other() {
    let health = looked(&[]);
    let states: BTreeMap<&str, HealthState> =
        health.pools.iter().map(|pool| (pool.labels["model"].as_str(), pool.state)).collect();
    assert_eq!(states.len(), POOLS.len() + 1, "{states:?}");
    for pool in &health.pools {
        let own = pool.labels["model"] == "tiny";
        let wrong: Vec<_> =
            pool.checks.iter().filter(|c| !matches!(c.state, None | Some(HealthState::Healthy))).collect();
        assert_eq!(
            pool.state,
            if own { HealthState::Critical } else { HealthState::Healthy },
            "{:?} {wrong:#?}",
            pool.labels
        );
        let gateways = pool.checks.iter().filter(|check| check.signal.starts_with("gateway_")).count();
        assert_eq!(gateways > 0, own, "{:?}", pool.labels);
        assert_eq!(pool.engines.iter().any(|engine| engine.engine == "dynamo"), own, "{:?}", pool.labels);
    }
    // Whoever asks for one pool alone gets the same.
    let one = looked(&[("namespace", POOLS[3])]);
    assert_eq!((one.pools.len(), one.state), (1, HealthState::Healthy), "{one:#?}");
}

#[test]
fn a_gateway_of_another_model_is_no_evidence_in_a_diagnosis() {
    for playbook in ["gateway-errors", "high-error-rate", "request-timeouts", "high-ttft", "queue-buildup"] {
        for namespace in [POOLS[0], POOLS[10]] {
            let diagnosis = diagnosed(playbook, namespace);
            assert_eq!(of_gateways(&diagnosis), Vec::<&str>::new(), "{playbook} {namespace}");
            assert!(diagnosis.engines.iter().all(|engine| engine.engine != "dynamo"), "{playbook} {namespace}");
            assert_eq!(diagnosis.root().map(|root| &root.id), None, "{playbook} {namespace}");
        }
    }
    let own = run(diagnose(library(), shared(), &request("gateway-errors", &[("model", "tiny")], slot(CASE) + 60)));
    assert!(of_gateways(&own).contains(&"gateway_error_ratio"), "{:?}", own.symptom);
}
