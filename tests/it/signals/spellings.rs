//! The same engine under other names: escaped prefix, V0 metrics, mixed rollouts, other models, hostile labels.

use diagnose::{ObserveResult, diagnose};
use llm_diagnose_lab::sim::spec::Release;
use llm_diagnose_lab::sim::{Fleet, FleetSpec};

use super::{assert_values, observed, replicas, told_by, value, version};
use crate::harness::{Page, Stamp, fixture, library, request, run, shared, slot};

/// A model name that tries to leave its quotes, to comment the rest away and to match everything.
const HOSTILE: &str = "x\"} or vector(1) #\\\n{}.*|";

const ESCAPED: usize = 5;
const BOTH: usize = 6;
const V0: usize = 7;
const MIXED: usize = 8;
const MODELS: usize = 9;

fn stamp(case: usize, namespace: &'static str, pod: &'static str, instance: &'static str) -> Stamp {
    Stamp { job: "vllm", instance, namespace, pod, time: slot(case) }
}

/// Two pages a minute apart.
fn minute(stamp: Stamp, before: &str, after: &str) -> [Page; 2] {
    [Page::new(before, stamp), Page::new(after, Stamp { time: stamp.time + 60, ..stamp })]
}

pub(super) fn pages() -> Vec<Page> {
    let [before, after] = ["t0", "t1"].map(|name| fixture(&format!("vllm/0.32-healthy-{name}.prom")));
    let escaped = |page: &str| page.replace("vllm:", "vllm_");
    let model = |page: &str, name: &str| page.replace("tiny-llama", name);
    let hostile = HOSTILE.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let [v0_before, v0_after] = v0();
    let mut pages = Vec::new();
    pages.extend(minute(stamp(ESCAPED, "escaped", "vllm-0", "10.0.0.1:8000"), &escaped(&before), &escaped(&after)));
    pages.extend(minute(stamp(BOTH, "both", "vllm-0", "10.0.0.1:8000"), &before, &after));
    pages.extend(minute(stamp(BOTH, "both", "vllm-1", "10.0.0.2:8000"), &escaped(&before), &escaped(&after)));
    pages.extend(minute(stamp(V0, "v0", "vllm-0", "10.0.0.1:8000"), &v0_before, &v0_after));
    let [old, new] = [pressed("vllm:gpu_cache_usage_perc", 0.95, 7), pressed("vllm:kv_cache_usage_perc", 0.20, 0)];
    pages.extend(minute(stamp(MIXED, "mixed", "vllm-old", "10.0.0.1:8000"), &old, &old));
    pages.extend(minute(stamp(MIXED, "mixed", "vllm-new", "10.0.0.2:8000"), &new, &new));
    pages.extend(minute(stamp(MODELS, "models", "tiny-0", "10.0.0.1:8000"), &before, &after));
    let [other_before, other_after] =
        ["t0", "t1"].map(|name| model(&fixture(&format!("vllm/0.32-kv-exhaustion-{name}.prom")), "other"));
    pages.extend(minute(stamp(MODELS, "models", "other-0", "10.0.0.2:8000"), &other_before, &other_after));
    let idle = model(&after, &hostile);
    pages.extend(minute(stamp(MODELS, "models", "hostile-0", "10.0.0.3:8000"), &idle, &idle));
    pages
}

/// A page of a V0-era server and the one a minute later.
fn v0() -> [String; 2] {
    let mut spec = FleetSpec::sized(1);
    spec.engine.release = Release::V0_8;
    let mut fleet = Fleet::new(spec, 1, slot(V0) as f64).unwrap();
    let target = fleet.targets().remove(0);
    [120.0, 180.0].map(|seconds| {
        fleet.advance_to(slot(V0) as f64 + seconds);
        fleet.page(&target).unwrap()
    })
}

/// What little of a page the cache playbook turns on.
fn pressed(usage: &str, ratio: f64, waiting: u32) -> String {
    let labels = "engine=\"0\",model_name=\"tiny-llama\"";
    format!(
        "vllm:num_requests_running{{{labels}}} 9\nvllm:num_requests_waiting{{{labels}}} {waiting}\n{usage}{{{labels}}} {ratio}\n"
    )
}

fn read(case: usize, labels: &[(&str, &str)]) -> ObserveResult {
    observed(labels, slot(case) + 60)
}

/// A sample of a page, found by the beginning of its line.
fn sample(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn names_with_an_underscore_give_the_values_of_names_with_a_colon() {
    let colon = observed(&[("namespace", "healthy")], slot(0) + 60);
    let underscore = read(ESCAPED, &[("namespace", "escaped")]);
    assert_eq!(version(&underscore, "vllm").as_deref(), Some("0.32"));
    // An age depends on when one looks.
    for signal in told_by("vllm").into_iter().filter(|signal| *signal != "replica_age_min") {
        assert_eq!(value(&underscore, signal), value(&colon, signal), "{signal}");
    }
    assert!(
        underscore.observations.signals["kv_cache_usage"]
            .query
            .as_deref()
            .unwrap()
            .contains("vllm_kv_cache_usage_perc")
    );
}

#[test]
fn pods_with_either_spelling_are_one_pool() {
    let seen = read(BOTH, &[("namespace", "both")]);
    assert_eq!(seen.observations.pool, ["vllm-0", "vllm-1"]);
    assert_values(
        &seen,
        &[
            ("request_rate", 2.0 * 121.0 / 60.0),
            ("replicas_serving", 2.0),
            ("prompt_tokens_mean", 15_390.0 / 121.0),
            ("kv_cache_capacity_tokens", 32_768.0),
        ],
    );
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn a_v0_era_page_tells_cache_latency_and_capacity_under_its_old_names() {
    let seen = read(V0, &[("namespace", "v0")]);
    let [before, after] = v0();
    let delta = |name: &str| sample(&after, name) - sample(&before, name);
    let mean = |name: &str| f64::midpoint(sample(&before, name), sample(&after, name));
    assert_eq!(version(&seen, "vllm").as_deref(), Some("0.7.3"));
    assert!(mean("vllm:gpu_cache_usage_perc") > 0.1);
    assert_values(
        &seen,
        &[
            ("kv_cache_usage", mean("vllm:gpu_cache_usage_perc")),
            ("requests_running", mean("vllm:num_requests_running")),
            ("requests_waiting", mean("vllm:num_requests_waiting")),
            ("request_rate", delta("vllm:time_to_first_token_seconds_count") / 60.0),
            (
                "prefix_cache_hit_ratio",
                delta("vllm:gpu_prefix_cache_hits_total") / delta("vllm:gpu_prefix_cache_queries_total"),
            ),
            (
                "computed_prompt_token_rate",
                (delta("vllm:prompt_tokens_total") - delta("vllm:gpu_prefix_cache_hits_total")) / 60.0,
            ),
            // 2,048 blocks of 16 tokens.
            ("kv_cache_capacity_tokens", 32_768.0),
        ],
    );
    let itl = value(&seen, "itl_p50").unwrap();
    assert!((0.01..0.05).contains(&itl), "time_per_output_token_seconds stands in: {itl}");
}

#[test]
fn a_mixed_rollout_shows_the_sick_old_pod_and_names_it() {
    let seen = read(MIXED, &[("namespace", "mixed")]);
    assert_eq!(value(&seen, "kv_cache_usage"), Some(0.95));
    assert_eq!(replicas(&seen, "kv_cache_usage"), [("vllm-new", 0.20), ("vllm-old", 0.95)].into());
    let request = request("kv-cache-pressure", &[("namespace", "mixed")], slot(MIXED) + 60);
    let prometheus = shared();
    let diagnosis = run(diagnose(library(), prometheus, &request));
    assert_eq!(diagnosis.replicas.affected, ["vllm-old"]);
    assert_eq!(diagnosis.replicas.total, 2);
}

#[test]
fn two_models_in_one_namespace_are_kept_apart() {
    let tiny = read(MODELS, &[("namespace", "models"), ("model_name", "tiny-llama")]);
    let other = read(MODELS, &[("namespace", "models"), ("model", "other")]);
    assert_eq!(
        (tiny.observations.pool.as_slice(), other.observations.pool.as_slice()),
        (&["tiny-0".to_owned()][..], &["other-0".to_owned()][..])
    );
    // The cache's configuration has no label `model_name`: it is found by the server that it is of.
    assert_values(&tiny, &[("request_rate", 121.0 / 60.0), ("kv_cache_capacity_tokens", 32_768.0)]);
    assert_values(&other, &[("request_rate", 286.0 / 60.0), ("kv_cache_capacity_tokens", 5_120.0)]);
    assert_values(&other, &[("preemption_rate", 897.0 / 60.0), ("error_ratio", 0.0), ("frontend_cpu", 20.08 / 60.0)]);
}

#[test]
fn a_hostile_model_name_finds_its_own_pod_and_no_other() {
    let seen = read(MODELS, &[("namespace", "models"), ("model_name", HOSTILE)]);
    assert_eq!(seen.problems, Vec::<String>::new());
    assert_eq!(seen.observations.pool, ["hostile-0"]);
    assert_values(&seen, &[("replicas_serving", 1.0), ("request_rate", 0.0), ("kv_cache_capacity_tokens", 32_768.0)]);
    for observation in seen.observations.signals.values() {
        assert!(observation.replicas.iter().all(|r| r.name == "hostile-0"), "{observation:?}");
    }
}

#[test]
fn a_hostile_value_that_no_series_has_widens_nothing() {
    let evil = ".*\"} or {namespace=~\".+";
    let seen = read(MODELS, &[("namespace", evil)]);
    assert_eq!(seen.problems, Vec::<String>::new());
    assert_eq!(seen.observations.pool, Vec::<String>::new());
    assert_eq!(seen.detection.notes, [format!("no vllm series of the last hour has namespace=`{evil}`")]);
    let told: Vec<_> = told_by("vllm").into_iter().filter(|signal| value(&seen, signal).is_some()).collect();
    assert_eq!(told, Vec::<&str>::new());
}

#[test]
fn a_cluster_that_no_series_carries_is_dropped_with_a_note() {
    let labels = [("namespace", "models"), ("model_name", "tiny-llama"), ("cluster", "eu-1")];
    let seen = read(MODELS, &labels);
    assert_values(&seen, &[("request_rate", 121.0 / 60.0)]);
    let note = "the vllm series carry no label for the alert's cluster `eu-1`: it was not used to narrow the pool";
    assert_eq!(seen.detection.notes, [note]);
}
