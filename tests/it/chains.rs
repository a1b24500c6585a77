//! From a simulated fleet to a root cause: an hour of normal service, then a fault for six minutes, judged by the
//! playbook that the alert would enter.

mod fleets;

use std::time::{Duration, Instant};

use diagnose::{ExtraSources, diagnose, diagnose_early, impact};
use findings::{Baseline, Diagnosis, Request, Scope, SymptomVerdict, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::harness::{DEADLINE, at, client, library, request, run, shared};
pub(crate) use fleets::{FAULT_SECONDS, histories, history_of, moment};

/// From the alert to the diagnosis: Alertmanager's group wait.
const ALERTED_SECONDS: i64 = 30;
/// The model of every fleet that is judged.
const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct";
/// The playbooks that these alerts enter.
const ENTRIES: [&str; 5] = ["high-ttft", "high-itl", "queue-buildup", "replica-down", "kv-cache-pressure"];

fn scope(labels: &[(&str, &str)]) -> Scope {
    Scope::of_labels(&labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// A diagnosis as the alert of a case asks for it, before anything special.
pub(crate) fn asked(name: &str, playbook: &str) -> Request {
    let now = fleets::moment(name);
    let mut request = request(playbook, &[("namespace", name)], now);
    request.since = Some(at(now - ALERTED_SECONDS));
    request
}

fn diagnosed(request: &Request) -> Diagnosis {
    let prometheus = shared();
    run(diagnose(library(), prometheus, request))
}

/// The best chain of a case is this one, from the playbook that the alert enters to the root, and it is likely.
#[track_caller]
fn assert_chain(name: &str, chain: &[&str]) -> Diagnosis {
    assert_verdict(name, chain, Verdict::Likely)
}

/// The best chain of a case is this one, and its root is so sure.
#[track_caller]
fn assert_verdict(name: &str, chain: &[&str], verdict: Verdict) -> Diagnosis {
    let diagnosis = diagnosed(&asked(name, chain[0]));
    let best = diagnosis.root().map(|root| (root.chain.clone(), root.verdict));
    let expected = (chain.iter().map(|id| (*id).to_owned()).collect(), verdict);
    assert_eq!(best, Some(expected), "{}", serde_json::to_string_pretty(&diagnosis).unwrap());
    diagnosis
}

/// The replicas that the best chain blames.
fn blamed(diagnosis: &Diagnosis) -> Vec<&str> {
    diagnosis.causes[0].replicas.affected.iter().map(String::as_str).collect()
}

#[test]
fn a_healthy_fleet_gets_no_story() {
    for (name, entry) in ["healthy", "sixteen-replicas"].into_iter().flat_map(|name| ENTRIES.map(|entry| (name, entry)))
    {
        let diagnosis = diagnosed(&asked(name, entry));
        assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Absent, "{name} {entry}");
        assert_eq!((diagnosis.causes.len(), diagnosis.fix.now.len()), (0, 0), "{name} {entry}");
        assert_eq!((diagnosis.problems.as_slice(), diagnosis.degraded), (&[][..], false), "{name} {entry}");
    }
}

#[test]
fn what_an_incident_has_cost_is_counted_in_requests() {
    let (now, took) = (moment("healthy"), 600);
    let whole = [at(now - took), at(now)];
    let cost = run(impact(library(), shared(), &scope(&[("namespace", "healthy")]), whole, DEADLINE)).unwrap();
    let counted = "sum(increase(vllm:time_to_first_token_seconds_count{namespace=\"healthy\"}[10m]))";
    let rows = run(shared().query(counted, at(now), Instant::now() + DEADLINE)).unwrap();
    let (said, counted) = (cost.requests.unwrap(), rows[0].value);
    assert!(counted > 100.0 && (said / counted - 1.0).abs() < 0.02, "{said} said, {counted} counted");
    assert!(cost.failed.is_none_or(|failed| failed < 1.0), "{cost:?}");
    let nowhere = run(impact(library(), shared(), &scope(&[("namespace", "none")]), whole, DEADLINE));
    assert_eq!(nowhere, None, "who cannot tell says nothing");
}

#[test]
fn longer_prompts_exhaust_the_cache() {
    let diagnosis = assert_chain("longer-prompts", &["high-ttft", "kv-cache-full", "longer-prompts"]);
    let prompts = diagnosis.causes[0].evidence.iter().find(|e| e.signal == "prompt_tokens_mean").unwrap();
    let grown = prompts.value.unwrap() / prompts.baseline.unwrap();
    assert!((2.2..3.2).contains(&grown), "prompts became three times as long: {grown}");
    assert_chain("longer-prompts", &["kv-cache-pressure", "kv-cache-full", "longer-prompts"]);
    assert_chain("one-replica", &["high-ttft", "kv-cache-full", "longer-prompts"]);
}

#[test]
fn longer_outputs_are_told_from_answers_that_never_stop() {
    assert_chain("longer-outputs", &["high-ttft", "kv-cache-full", "longer-outputs"]);
    assert_chain("runaway-generation", &["high-ttft", "kv-cache-full", "runaway-generation"]);
    assert_chain("runaway-generation", &["kv-cache-pressure", "kv-cache-full", "runaway-generation"]);
}

#[test]
fn a_surge_of_requests_is_told_from_longer_ones() {
    assert_chain("traffic-surge", &["queue-buildup", "kv-cache-full", "traffic-surge"]);
    assert_chain("traffic-surge", &["high-ttft", "kv-cache-full", "traffic-surge"]);
}

#[test]
fn two_lost_replicas_explain_the_pressure_on_the_others_and_why_they_are_gone() {
    assert_chain("lost-replicas", &["high-ttft", "kv-cache-full", "lost-replica", "crash-loop"]);
    assert_chain("lost-replicas", &["kv-cache-pressure", "kv-cache-full", "lost-replica", "crash-loop"]);
    let diagnosis = assert_chain("lost-replicas", &["replica-down", "crash-loop"]);
    assert_eq!(blamed(&diagnosis), ["vllm-llama-8b-0", "vllm-llama-8b-2"]);
    assert_eq!(diagnosis.causes[0].replicas.total, 4, "the gone ones still count");
}

#[test]
fn a_lowered_slot_limit_is_told_from_a_full_cache() {
    let diagnosis = assert_chain("slot-limit", &["queue-buildup", "slot-limit", "limit-lowered"]);
    assert!(diagnosis.ruled_out.iter().any(|cause| cause.id == "kv-cache-full"), "{:?}", diagnosis.ruled_out);
    assert_chain("slot-limit", &["high-ttft", "slot-limit", "limit-lowered"]);
}

#[test]
fn a_slow_replica_is_named_at_full_load_and_at_night() {
    let full = assert_chain("bad-replica", &["high-itl", "kv-cache-full", "bad-replica"]);
    assert_eq!(blamed(&full), ["vllm-llama-8b-1"]);
    let night = assert_chain("bad-replica-at-night", &["high-itl", "bad-replica"]);
    assert_eq!(blamed(&night), ["vllm-llama-8b-1"]);
    assert_chain("bad-replica", &["queue-buildup", "kv-cache-full", "bad-replica"]);
}

#[test]
fn a_slow_replica_without_peers_is_no_change_of_the_workload() {
    assert_chain("one-replica-bad", &["high-itl", "kv-cache-full", "unchanged"]);
}

#[test]
fn prompt_processing_as_the_bottleneck_leads_to_the_prompts() {
    assert_chain("prefill-bound", &["high-ttft", "prefill-bound", "longer-prompts"]);
}

#[test]
fn throttled_gpus_are_found_below_a_full_cache_and_at_night() {
    assert_chain("gpu-throttling", &["high-itl", "kv-cache-full", "gpu-clock-bound", "gpu-overheated"]);
    let night = ["high-itl", "decode-slow-at-low-load", "gpu-clock-bound", "gpu-overheated"];
    assert_chain("gpu-throttling-at-night", &night);
    let chain = ["high-itl", "kv-cache-full", "bad-replica", "gpu-clock-bound", "power-limited"];
    let diagnosis = assert_chain("gpu-power", &chain);
    assert_eq!(blamed(&diagnosis), ["vllm-llama-8b-2"]);
    let radius = &diagnosis.causes[0].replicas;
    let places = &radius.places["vllm-llama-8b-2"];
    assert!(places.iter().any(|place| place.starts_with("gpu-node-")), "{places:?}");
    assert!(places.iter().any(|place| place.starts_with("GPU-")), "{places:?}");
    assert!((0.05..0.35).contains(&radius.traffic.unwrap()), "a slow one of four: {:?}", radius.traffic);
}

#[test]
fn throttling_that_nobody_measures_gets_no_confident_story_but_a_way_to_see_it() {
    let diagnosis = diagnosed(&asked("gpu-throttling-unseen", "high-itl"));
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed);
    let root = diagnosis.root().unwrap();
    assert_eq!((root.id.as_str(), root.verdict), ("unchanged", Verdict::Possible));
    let clock = diagnosis.unchecked.iter().find(|u| u.signal == "gpu_sm_clock").unwrap();
    assert_eq!(clock.why, "no dcgm series in this Prometheus");
    assert!(clock.causes.contains(&"gpu-clock-bound".to_owned()), "{clock:?}");
    assert!(clock.enable.as_deref().unwrap().contains("DCGM_FI_DEV_FB_USED"), "{clock:?}");
}

#[test]
fn a_hanging_engine_is_named_although_its_page_answers() {
    let diagnosis = diagnosed(&asked("stalled-engine", "engine-stalled"));
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed);
    assert_eq!(diagnosis.replicas.affected, ["vllm-llama-8b-0"]);
    assert_eq!(diagnosis.root().unwrap().id, "engine-stalled");
}

#[test]
fn a_lost_prefix_cache_is_found_where_it_hurts_and_by_its_own_alert() {
    let peak = "prefix-cache-collapse-at-peak";
    // The cache is full, which evicts shared blocks too: that prompts differ is possible, that reuse is lost is sure.
    let chain = ["high-ttft", "kv-cache-full", "prefix-cache-collapse", "prompts-diverged"];
    let diagnosis = assert_verdict(peak, &chain, Verdict::Possible);
    assert!(
        diagnosis.causes[0].via.iter().all(|link| link.verdict == Verdict::Likely),
        "{:?}",
        diagnosis.causes[0].via
    );
    assert_chain("prefix-cache-collapse", &["prefix-cache-collapse", "prompts-diverged"]);
}

#[test]
fn a_skewed_router_is_told_from_a_slow_replica() {
    let diagnosis = assert_chain("routing-skew", &["high-ttft", "kv-cache-full", "hot-replica"]);
    assert_eq!(blamed(&diagnosis), ["vllm-llama-8b-0"]);
    assert_chain("routing-skew", &["kv-cache-pressure", "kv-cache-full", "hot-replica"]);
}

#[test]
fn a_smaller_cache_comes_before_the_rollout_that_brought_it() {
    let diagnosis = assert_chain("capacity-shrunk", &["kv-cache-pressure", "kv-cache-full", "capacity-shrunk"]);
    assert_eq!(diagnosis.causes[1].id, "recent-rollout");
    assert_chain("capacity-shrunk", &["high-ttft", "kv-cache-full", "capacity-shrunk"]);
}

#[test]
fn another_deployments_trouble_is_not_ours() {
    let labels = [("namespace", "beside-trouble"), ("model_name", MODEL)];
    let diagnosis = diagnosed(&Request { scope: scope(&labels), ..asked("beside-trouble", "replica-down") });
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Absent);
}

#[test]
fn a_model_beside_a_model_in_trouble_keeps_its_own_story() {
    let labels = [("namespace", "trouble-beside-trouble"), ("model_name", MODEL)];
    let diagnosis = diagnosed(&Request { scope: scope(&labels), ..asked("trouble-beside-trouble", "high-ttft") });
    assert_eq!(diagnosis.root().unwrap().chain, ["high-ttft", "kv-cache-full", "longer-prompts"]);
    assert_eq!(diagnosis.replicas.total, 4);
}

#[test]
fn an_alert_of_a_namespace_judges_each_of_its_models_by_itself() {
    let of = |labels: &[(&str, &str)]| {
        diagnosed(&Request { scope: scope(labels), ..asked("trouble-beside-trouble", "high-ttft") })
    };
    let place = ("namespace", "trouble-beside-trouble");
    let (both, own) = (of(&[place]), of(&[place, ("model_name", MODEL)]));
    assert_eq!(both.pools.len(), 2, "{:?}", both.pools);
    let told = both.pools.iter().find(|pool| pool.labels.values().any(|value| value == MODEL)).unwrap();
    assert_eq!(told.causes.last(), own.root().map(|root| &root.title));
    assert!(both.replicas.total <= own.replicas.total, "one pool's: {:?}", both.replicas);
}

#[test]
fn engines_scraped_by_address_keep_their_gpus() {
    assert_chain("gpu-throttling-by-address", &["high-itl", "kv-cache-full", "gpu-clock-bound", "gpu-overheated"]);
}

#[test]
fn a_deployment_is_no_replica() {
    let diagnosis = diagnosed(&asked("slot-limit", "queue-buildup"));
    let rollout = diagnosis.causes.iter().find(|cause| cause.id == "recent-rollout").unwrap();
    assert!(!rollout.replicas.affected.contains(&"vllm-llama-8b".to_owned()), "{:?}", rollout.replicas);
}

#[test]
fn without_a_past_the_chain_ends_at_the_mechanism() {
    let told = |name: &str| diagnosed(&Request { baseline: Baseline::Off, ..asked(name, "high-ttft") });
    for name in ["longer-outputs", "traffic-surge"] {
        let diagnosis = told(name);
        assert_eq!(diagnosis.root().unwrap().chain, ["high-ttft", "kv-cache-full"], "{name}");
        let open = diagnosis.unchecked.iter().find(|u| u.signal == "prompt_tokens_mean").unwrap();
        assert_eq!(open.why, "there is no past to compare with", "{name}");
    }
    // What an engine has counted since its start is a past of its own.
    let longer = told("longer-prompts").root().unwrap().chain.clone();
    assert_eq!(longer, ["high-ttft", "kv-cache-full", "longer-prompts"]);
    let root = told("prefix-cache-collapse-at-peak").root().unwrap().clone();
    assert!(root.chain.contains(&"prefix-cache-collapse".to_owned()), "{:?}", root.chain);
}

#[test]
fn eight_replicas_need_no_more_queries_than_two() {
    for entry in ENTRIES {
        let [two, eight] = ["two-replicas", "eight-replicas"].map(|name| diagnosed(&asked(name, entry)));
        assert_eq!((two.queries, two.replicas.total), (eight.queries, 2), "{entry}");
        assert_eq!(eight.replicas.total, 8, "{entry}");
    }
}

#[test]
fn a_prometheus_that_is_down_is_said_quickly_and_blames_nobody() {
    let prometheus = client("http://127.0.0.1:1");
    let diagnosis = run(diagnose(library(), &prometheus, &asked("healthy", "high-ttft")));
    assert!(diagnosis.degraded && diagnosis.took_seconds < 2.0, "{diagnosis:?}");
    assert_eq!((diagnosis.symptom.verdict, diagnosis.causes.len()), (SymptomVerdict::NoData, 0));
    assert!(diagnosis.problems[0].starts_with("Prometheus cannot be reached: "), "{:?}", diagnosis.problems);
    assert!(diagnosis.symptom.evidence[0].why.as_deref().unwrap().starts_with("Prometheus cannot be reached"));
}

#[test]
fn a_prometheus_that_hangs_is_given_up_at_the_deadline() {
    // The kernel takes the connection; nobody ever reads from it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let prometheus = client(&format!("http://{}", listener.local_addr().unwrap()));
    let request = Request { deadline: Duration::from_millis(700), ..asked("healthy", "high-ttft") };
    let diagnosis = run(diagnose(library(), &prometheus, &request));
    assert!(diagnosis.degraded && diagnosis.took_seconds < 1.5, "{diagnosis:?}");
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData);
    assert_eq!(diagnosis.symptom.evidence[0].why.as_deref(), Some("timed out"));
}

#[test]
fn a_prometheus_that_hangs_halfway_leaves_the_rest_timed_out() {
    let diagnosis = run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let prometheus = client(&format!("http://{}", listener.local_addr().unwrap()));
        tokio::spawn(answer_once(listener));
        let request = Request { deadline: Duration::from_millis(900), ..asked("healthy", "high-ttft") };
        diagnose(library(), &prometheus, &request).await
    });
    assert!(diagnosis.degraded && diagnosis.took_seconds < 2.0, "{diagnosis:?}");
    assert_eq!(diagnosis.engines[0].engine, "vllm");
    assert_eq!(diagnosis.symptom.evidence[0].why.as_deref(), Some("timed out"));
    assert!(diagnosis.problems.iter().any(|p| p.ends_with("queries timed out")), "{:?}", diagnosis.problems);
}

/// Answers the detection query, then takes connections and stays silent.
async fn answer_once(listener: TcpListener) {
    let body = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"__name__":"vllm:num_requests_running","namespace":"healthy"},"value":[1,"1"]}]}}"#;
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let (mut first, _) = listener.accept().await.unwrap();
    let mut request = [0; 65_536];
    let _ = first.read(&mut request).await.unwrap();
    first.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut held = Vec::new();
    while let Ok((connection, _)) = listener.accept().await {
        held.push(connection);
    }
}

#[test]
fn the_story_tells_when_each_link_of_the_chain_began() {
    let name = "longer-prompts";
    let diagnosis = diagnosed(&asked(name, "high-ttft"));
    let ids: Vec<&str> = diagnosis.timeline.iter().map(|onset| onset.id.as_str()).collect();
    assert_eq!(ids, ["longer-prompts", "kv-cache-full", "high-ttft"], "{:?}", diagnosis.timeline);
    let began = fleets::moment(name) - fleets::FAULT_SECONDS;
    let onsets: Vec<i64> = diagnosis.timeline.iter().map(|onset| onset.at.as_second() - began).collect();
    // Prompts are counted when their requests end; a cache that touched its ceiling just before began a little early.
    assert!(onsets.iter().all(|after| (-90..=120).contains(after)), "{onsets:?}");
}

#[test]
fn what_is_said_before_the_onsets_are_known_is_not_taken_back() {
    let cases = [
        ("longer-prompts", "high-ttft"),
        ("longer-outputs", "high-ttft"),
        ("traffic-surge", "queue-buildup"),
        ("lost-replicas", "high-ttft"),
        ("slot-limit", "queue-buildup"),
        ("bad-replica", "high-itl"),
        ("prefill-bound", "high-ttft"),
        ("gpu-throttling", "high-itl"),
        ("gpu-power", "high-itl"),
        ("healthy", "high-ttft"),
    ];
    let mut said = 0;
    for (name, entry) in cases {
        let (prometheus, request) = (shared(), asked(name, entry));
        let (so_far, whole) = run(async {
            let (early, so_far) = oneshot::channel();
            let whole = diagnose_early(library(), prometheus, &request, ExtraSources::default(), Some(early)).await;
            (so_far.await.ok(), whole)
        });
        let Some(so_far) = so_far else { continue };
        said += 1;
        assert_eq!(so_far.timeline, [], "{name} {entry}");
        let best = |d: &Diagnosis| d.root().map(|root| (root.chain.clone(), root.verdict, root.replicas.clone()));
        assert_eq!(best(&so_far), best(&whole), "{name} {entry}");
        assert_eq!(so_far.fix, whole.fix, "{name} {entry}");
    }
    assert!(said >= 8, "{said} of {} were said early", cases.len());
}
