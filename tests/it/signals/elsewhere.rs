//! vLLM's names in other hands: under Ray, copied by Open Data Hub, repeated by a router; and a site's own labels.

use std::collections::BTreeMap;

use diagnose::{ObserveResult, observe};
use knowledge::signal::OwnLabels;

use super::{EVERYTHING, WINDOW, assert_no_data, assert_values, observed, told_by, value, version, with_everything};
use crate::harness::{Page, Stamp, fixture, request, run, shared, slot};

const SLOT: usize = 31;
/// Two replicas on one node: one finishes requests, the other hangs with three.
const NODE: &str = "10.4.0.1:8080";

pub(super) fn pages() -> Vec<Page> {
    let [before, after] = ["t0", "t1"].map(|name| fixture(&format!("vllm/0.32-healthy-{name}.prom")));
    let copied = |page: &str| page.replace("vllm:", "kserve_vllm:");
    let both = |page: &str| format!("{page}\n{}", copied(page));
    let hanging = after.replace(
        "vllm:num_requests_running{engine=\"0\",model_name=\"tiny-llama\"} 0.0",
        "vllm:num_requests_running{engine=\"0\",model_name=\"tiny-llama\"} 3",
    );
    let node = |page: &str| ray(page, "busy") + &ray(&hanging, "hung");
    let router = "vllm:num_requests_running{server=\"http://10.4.0.4:8000\"} 5\nvllm:num_requests_waiting{server=\"http://10.4.0.4:8000\"} 9\n";
    let own = |page: &str| page.replace("model_name=", "served=");
    let minute = |namespace, pod, instance, before: String, after: String| {
        let stamp = Stamp { job: "vllm", instance, namespace, pod, time: slot(SLOT) };
        [Page::new(before, stamp), Page::new(after, Stamp { time: slot(SLOT) + 60, ..stamp })]
    };
    [
        minute("ray", "ray-worker", NODE, node(&before), node(&after)),
        minute("copied", "vllm-0", "10.4.0.2:8000", both(&before), both(&after)),
        minute("copy-only", "vllm-0", "10.4.0.3:8000", copied(&before), copied(&after)),
        minute("routed", "vllm-0", "10.4.0.4:8000", before.clone(), after.clone()),
        minute("routed", "router-0", "10.4.0.5:8001", router.to_owned(), router.to_owned()),
        minute("early", "vllm-0", "10.4.0.7:8000", early(0), early(60)),
        minute("own-labels", "vllm-0", "10.4.0.6:8000", own(&before), own(&after)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What vLLM 0.5.5 had, written by hand: 100 prompt tokens a second, a quarter of them cached.
fn early(second: u32) -> String {
    let one = |name: &str, value: f64| format!("vllm:{name}{{model_name=\"m\"}} {value}\n");
    let seconds = f64::from(second);
    let rows = [
        ("num_requests_running", 2.0),
        ("num_requests_waiting", 6.0),
        ("gpu_cache_usage_perc", 0.5),
        ("gpu_prefix_cache_hit_rate", 0.25),
        ("num_preemptions_total", seconds),
        ("prompt_tokens_total", 100.0 * seconds),
        ("time_in_queue_requests_sum", 0.5 * seconds),
        ("time_in_queue_requests_count", seconds),
    ];
    rows.map(|(name, value)| one(name, value)).concat()
}

/// vLLM's series of a page as Ray exposes them for one replica.
fn ray(page: &str, replica: &str) -> String {
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("vllm:")?.split_once('{')?;
        Some(format!("ray_vllm_{name}{{ReplicaId=\"{replica}\",WorkerId=\"w-{replica}\",{rest}\n"))
    };
    page.lines().filter_map(line).collect()
}

fn read(namespace: &'static str) -> ObserveResult {
    observed(&[("namespace", namespace)], slot(SLOT) + 60)
}

fn healthy() -> ObserveResult {
    observed(&[("namespace", "healthy")], slot(0) + 60)
}

/// Every signal as the same page alone gives it. Ages depend on when one looks.
fn assert_like_healthy(seen: &ObserveResult) {
    let healthy = healthy();
    for signal in told_by("vllm").into_iter().filter(|signal| *signal != "replica_age_min") {
        assert_eq!(value(seen, signal), value(&healthy, signal), "{signal}");
    }
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn a_hung_replica_is_seen_beside_a_busy_one_on_the_same_ray_node() {
    let seen = read("ray");
    assert_values(
        &seen,
        &[
            ("replicas_serving", 2.0),
            ("stalled_requests", 3.0),
            ("request_rate", 121.0 / 60.0),
            ("running_per_replica", 1.5),
            ("prompt_tokens_mean", 15_390.0 / 121.0),
            ("kv_cache_capacity_tokens", 32_768.0),
        ],
    );
    // Ray exposes no HTTP series of vLLM's, and the process is the node's agent.
    assert_no_data(&seen, &["error_ratio", "client_error_ratio", "replica_age_min", "frontend_cpu"]);
    assert_eq!(seen.problems, Vec::<String>::new());
}

#[test]
fn a_copy_beside_the_original_is_not_counted_twice_and_alone_it_serves() {
    assert_like_healthy(&read("copied"));
    assert_like_healthy(&read("copy-only"));
}

#[test]
fn a_router_that_repeats_the_engines_names_is_no_replica() {
    let seen = read("routed");
    assert_eq!(seen.observations.pool, ["vllm-0"]);
    assert_like_healthy(&seen);
}

#[test]
fn a_sites_own_labels_find_the_pool_that_the_shipped_ones_miss() {
    let labels = [("namespace", "own-labels"), ("model", "tiny-llama")];
    let shipped = observed(&labels, slot(SLOT) + 60);
    assert_eq!(shipped.observations.pool, Vec::<String>::new());
    let mut library = with_everything();
    let scope = BTreeMap::from([("model".to_owned(), vec!["served".to_owned()])]);
    let own = OwnLabels { replica: vec!["served".to_owned()], scope };
    library.put_first(&BTreeMap::from([("vllm".to_owned(), own)])).unwrap();
    let mut request = request(EVERYTHING, &labels, slot(SLOT) + 60);
    request.window = WINDOW;
    let seen = run(observe(&library, shared(), &request, None));
    assert_eq!(
        (seen.observations.pool.as_slice(), &seen.detection.notes),
        (&["tiny-llama".to_owned()][..], &Vec::new())
    );
    assert_values(&seen, &[("request_rate", 121.0 / 60.0), ("replicas_serving", 1.0)]);
}

#[test]
fn an_own_label_that_cannot_be_used_is_refused_with_a_way_out() {
    let refused = |engine: &str, own: OwnLabels| {
        with_everything().put_first(&BTreeMap::from([(engine.to_owned(), own)])).unwrap_err()
    };
    let replica = |label: &str| OwnLabels { replica: vec![label.to_owned()], ..OwnLabels::default() };
    let error = refused("vlm", replica("p"));
    assert!(
        error.starts_with("`engines.vlm:` no such engine: expected one of ") && error.ends_with("vllm, vllm-router"),
        "{error}"
    );
    let error = refused("vllm", replica("my pod) or vector(1"));
    assert!(error.contains("`my pod) or vector(1` is no label name: expected letters"), "{error}");
    let scope = BTreeMap::from([("team".to_owned(), vec!["team".to_owned()])]);
    let error = refused("vllm", OwnLabels { replica: Vec::new(), scope });
    assert_eq!(error, "`engines.vllm:` `scope` has no `team`: expected one of cluster, job, model, namespace");
}

#[test]
fn a_v0_page_tells_queueing_and_cache_hits_in_its_own_way() {
    let seen = read("early");
    assert_eq!(version(&seen, "vllm").as_deref(), Some("0.5.5"));
    let expected = [("prefix_cache_hit_ratio", 0.25), ("computed_prompt_token_rate", 75.0), ("queue_time_mean", 0.5)];
    assert_values(&seen, &expected);
    assert_values(&seen, &[("kv_cache_usage", 0.5), ("preemption_rate", 1.0), ("waiting_per_replica", 6.0)]);
    assert_no_data(&seen, &["prefill_time_mean", "requests_deferred", "kv_cache_capacity_tokens"]);
}
