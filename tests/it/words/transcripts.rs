//! Whole messages as people read them, from the first alert to the end.

use findings::Outcome;
use jiff::SignedDuration;
use knowledge::incident::{Act, Impact, Note};
use message::{Message, Tone};
use render::{
    DigestEntry, DigestView, IncidentView, Phrases, diagnosis_message, digest_message, evidence_parts,
    incident_message, terminal,
};

use super::{DIAGNOSES, blocks, diagnosis, late, read, view};

/// The text of an incident's message, which Slack accepts.
fn message(view: &IncidentView<'_>) -> String {
    let message = incident_message(view, &Phrases::english());
    blocks(&message);
    read(&message)
}

#[test]
fn an_incident_begins_with_its_alerts_alone() {
    let alerts = late();
    insta::assert_snapshot!(message(&view(&alerts, None)), @r"
    CRITICAL · LLMHighTTFT · prod/llama-70b
    Looking at the evidence …
    Alerts
    1 firing: LLMHighTTFT
    First tokens are late
    01JCV7Y3E8 · alert since 23:55 UTC · new alerts · Incident · Runbook · Dashboard
    [Acknowledge] [Silence] [Run again] [Snooze until worse] [Escalate] [Bundle]
    ");
}

#[test]
fn the_first_step_stands_within_the_first_ten_lines() {
    for name in DIAGNOSES {
        let (alerts, diagnosis) = (late(), diagnosis(name));
        let text = message(&view(&alerts, Some(&diagnosis)));
        let step = text.lines().position(|line| line.starts_with("1. ")).unwrap();
        assert!(step < 10, "{text}");
    }
}

#[test]
fn one_number_is_not_for_a_cause_and_against_it_at_the_same_time() {
    let (alerts, mut diagnosis) = (late(), diagnosis(DIAGNOSES[0]));
    let checks = &mut diagnosis.causes[0].evidence;
    let mut stricter = checks.iter().find(|e| e.outcome == Outcome::Met && e.value.is_some()).unwrap().clone();
    stricter.outcome = Outcome::NotMet;
    checks.push(stricter);
    let text = message(&view(&alerts, Some(&diagnosis)));
    let agree = text.lines().find(|line| line.starts_with("For: ")).unwrap();
    assert!(!agree.is_empty() && !text.contains("Against: "), "{text}");
}

#[test]
fn a_resolved_incident_tells_its_length_its_cost_and_what_prevents_it() {
    let (alerts, diagnosis) = (late(), diagnosis(DIAGNOSES[1]));
    let note = |act, who: &str, detail: &str| Note { who: who.into(), at: diagnosis.at, act, detail: detail.into() };
    let notes = [
        note(Act::Acknowledge, "U1", ""),
        note(Act::Evidence, "U1", ""),
        note(Act::Right, "U2", "prompts became longer"),
    ];
    let resolved = IncidentView {
        resolved_at: Some(diagnosis.at + SignedDuration::from_mins(7)),
        impact: Some(Impact { requests: Some(12_340.0), failed: Some(31.0), slow: Some(3_085.0) }),
        refired: 2,
        notes: &notes,
        ..view(&alerts, Some(&diagnosis))
    };
    insta::assert_snapshot!(message(&resolved), @r"
    RESOLVED after 12 min · high inter-token latency: tokens come slowly · bad-replica · KV cache is exhausted ← one replica is much worse than its peers
    It was: inter-token latency p99 276 ms
    Answers flow slower than people read, or stall midway.
    Affects 1 of 4 replicas: vllm-llama-8b-1 on GPU-a30c0001, gpu-node-0, 12 % of the traffic
    During the incident 12k requests arrived, 31 of them failed (0.3 %), 3.1k were slow (25 %).
    Flapping: it came back 2 times. Each time it may be the same fault that was never fixed.
    Why
    Right cause, says @U2 at 22:01 UTC: prompts became longer
    ← KV cache is exhausted, began 21:55 UTC
    ← one replica is much worse than its peers — likely, 97 %, began 21:56 UTC
    For: inter-token latency p50 141 ms (others 18 ms); 8 of 8 checks agree
    So that it does not come back
    • Let the router see latency and queue of each replica, not only its readiness; /health says 200 on a slow engine
    • Halve the bytes per token with --kv-cache-dtype fp8, after checking answer quality
    How sure this is
    Ruled out: decode batch too large: many sequences share each step; head-of-line blocking: huge requests hold up small ones and 28 more
    Alerts
    1 resolved: LLMHighTTFT
    First tokens are late
    Acknowledged by @U1 at 22:01 UTC
    01JCV7Y3E8 · alert since 21:56 UTC · new alerts, re-fired 2 times · Incident · Runbook · Dashboard · Prometheus
    [Show evidence] [Right cause] [Wrong cause] [Bundle]
    ");
    let body = blocks(&incident_message(&resolved, &Phrases::english()));
    assert_eq!(body["attachments"][0]["color"], "#2f9e6e");
    assert!(body.to_string().contains("Acknowledged by <@U1> at <!date^"), "{body}");
}

#[test]
fn what_the_first_message_leaves_out_stands_behind_the_button() {
    let diagnosis = diagnosis(DIAGNOSES[1]);
    let parts = evidence_parts(&diagnosis, &Phrases::english());
    insta::assert_snapshot!(read(&Message { tone: Tone::Good, headline: String::new(), parts }), @r#"
    high inter-token latency: tokens come slowly
    ✓ inter-token latency p99 276 ms (condition: > 100 ms): supports it clearly
    KV cache is exhausted (likely)
    ✓ KV cache peak 100 % (condition: > 95 %): supports it clearly
    ✓ waiting requests per replica 13 (condition: > 0.1): supports it clearly
    ✓ KV cache usage 98 % (condition: > 55 %): supports it clearly
    ✓ preemptions 0.2/s (condition: > 0.05/s): supports it clearly
    one replica is much worse than its peers (likely, 97 %)
    ✓ inter-token latency p50 141 ms (others 18 ms) (condition: > 1.8x peers and > 20 ms): supports it clearly
    ✓ requests of the busiest replica over the mean 1.2x (condition: < 1.5x): supports it clearly
    ✓ TTFT p50 73 ms (1.2x, was 63 ms) (condition: < 2x baseline): supports it clearly
    ✓ age of the youngest replica 126 min (condition: > 300 s): supports it clearly
    One replica, or a few of many, is slower or fails more often than the others at the same share of the traffic, while the others are at their normal.
    Ruled out
    • decode batch too large: many sequences share each step — preemptions 0.2/s (needs < 0.05/s)
    • head-of-line blocking: huge requests hold up small ones — prompt length p99 unchanged at 4.1k tokens (needs > 1.5x baseline)
    • prefill-bound: computing prompts is the bottleneck — prompt tokens computed 2.8k tokens/s (0.8x, was 3.6k tokens/s) (needs > 1.15x baseline)
    • the router overloads some replicas — requests of the busiest replica over the mean 1.2x (needs > 1.5x)
    • tokens are slow even with few requests — inter-token latency p50 19 ms (needs > 100 ms)
    • fewer replicas serve than before — replicas serving unchanged at 4 (needs < 0.9x baseline)
    • GPU clocks are pulled down — SM clock unchanged at 1440 MHz (needs < 0.85x baseline)
    • a GPU reports a hardware fault — critical Xid errors 0 (needs > 0)
    • GPUs exchange data over a slow path — PCIe traffic 15 MiB/s (needs > 1.863 GiB/s)
    • low draft acceptance: speculative decoding guesses wrong — draft tokens accepted: none (needs present)
    • the API server is out of CPU — prefill time 105 ms (1.5x, was 68 ms) (needs < 1.3x baseline)
    • the deployment was changed shortly before — rollouts 0 (needs > 0)
    • the model no longer stops by itself — outputs cut at max_tokens 2.1 % (0.9x, was 2.3 %) (needs > 2x baseline and > 20 %)
    • answers became longer — output length unchanged at 216 tokens (needs > 1.3x baseline)
    • more requests arrive than before — arrival rate 9.2 req/s (0.8x, was 11 req/s) (needs > 1.2x baseline)
    • prompts became longer — prompt length unchanged at 791 tokens (needs > 1.3x baseline)
    • the autoscaler is at its maximum — autoscalers at their maximum 0 (needs > 0)
    • the KV cache itself became smaller — KV cache capacity unchanged at 33k tokens (needs < 0.9x baseline)
    • one popular prefix draws requests to one replica — prefix cache hit ratio 62 % (others 61 %) (needs > 1.3x peers)
    • the GPU is too hot — clock held down by heat 0 % (needs > 10 %)
    • the power limit holds the GPU back — throttling reasons active 0 % (needs > 10 %)
    • a replica has just started — age of the youngest replica 126 min (needs < 15 min)
    • crash loop: a replica crashes again and again — containers in CrashLoopBackOff 0 (needs > 0)
    • OOMKilled: the container ran out of host memory — containers OOM-killed 0 (needs > 0)
    • model load failure: a replica cannot load its model — pods that restart and were never ready 0 (needs > 0)
    • GPU OOM: a GPU ran out of memory — GPU memory used 92 % (needs > 97 %)
    • the engine leaves no GPU memory for peaks — GPU memory used 92 % (needs > 97 %)
    • prefix cache hit rate fell: prompts are computed again — prefix cache hit ratio unchanged at 61 % (needs < 0.6x baseline)
    • prompts no longer share a prefix — prefix cache hit ratio unchanged at 61 % (needs < 0.6x baseline)
    • some prompts became huge — prompt length p99 unchanged at 4.1k tokens (needs > 1.5x baseline)
    What could not be checked
    • CPU periods throttled: no series → cAdvisor metrics: scrape the kubelet's /metrics/cadvisor
    • failures of the router to read its backends: no gateway was found in this Prometheus → scrape its /metrics; one of these series must be there: dynamo_frontend_inflight_requests, litellm_proxy_total_requests_metric_total, inference_pool_ready_pods, ray_serve_num_ongoing_http_requests, smg_worker_health
    Do now
    Take it out of rotation and keep it for the post-mortem. Remove the label that the Service or InferencePool selects by, e.g. kubectl label pod <pod> app-; the Deployment starts a fresh one — fixed when TTFT p99 < 2 s (source)
    If the fresh one is bad on the same node, cordon it: kubectl cordon <node>, then run dcgmi diag -r 3 there (source)
    Scale out if replicas can start within minutes; it is the only step that needs no restart of what runs — fixed when waiting requests per replica < 0.25 (source)
    If users suffer from answers that stall rather than from late first tokens, lower --max-num-seqs so that fewer requests share the cache; preemptions fall and waiting rises — fixed when preemptions < 0.05/s (source)
    Raise --gpu-memory-utilization in steps of 0.02 if the GPU has memory left at peak — fixed when KV cache peak < 95 % (source)
    Compare median and p99. A high p99 with a normal median is stutter (prefill chunks, preemptions); a high median is every step being slow (source)
    So that it does not come back
    • Let the router see latency and queue of each replica, not only its readiness; /health says 200 on a slow engine (source)
    • Halve the bytes per token with --kv-cache-dtype fp8, after checking answer quality — fixed when KV cache capacity > 1.5x baseline (source)
    • Keep a few blocks free at admission with --watermark 0.02, so that running requests are preempted less — fixed when preemptions < 0.05/s (source)
    • Use more GPUs per replica (--tensor-parallel-size), which leaves more memory for the cache beside the weights (source)
    Queries
    • inter-token latency p99: histogram_quantile(0.99, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket{server="",namespace="bad-replica"}[300s]) or rate(vllm:time_per_output_token_seconds_bucket{server="",namespace="bad-replica"}[300s])))
    • KV cache peak: max by (exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (max_over_time(vllm:kv_cache_usage_perc{server="",namespace="bad-replica"}[300s]) or max_over_time(vllm:gpu_cache_usage_perc{server="",namespace="bad-replica"}[300s]))
    • waiting requests per replica: avg by (exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (sum by (job, instance, ReplicaId, exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (avg_over_time(vllm:num_requests_waiting_by_reason{reason="capacity", server="",namespace="bad-replica"}[300s]) or on (job, instance, ReplicaId) avg_over_time(vllm:num_requests_waiting{server="",namespace="bad-replica"}[300s])))
    • KV cache usage: max by (exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (avg_over_time(vllm:kv_cache_usage_perc{server="",namespace="bad-replica"}[300s]) or avg_over_time(vllm:gpu_cache_usage_perc{server="",namespace="bad-replica"}[300s]))
    • preemptions: sum by (exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (rate(vllm:num_preemptions_total{server="",namespace="bad-replica"}[300s]))
    • inter-token latency p50: histogram_quantile(0.5, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket{server="",namespace="bad-replica"}[300s]) or rate(vllm:time_per_output_token_seconds_bucket{server="",namespace="bad-replica"}[300s])))
    • requests of the busiest replica over the mean: max by (exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (   sum by (job, instance, ReplicaId, cluster, namespace, model_name, exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (rate(vllm:time_to_first_token_seconds_count{server="",namespace="bad-replica"}[300s]) unless on (job, instance) (up == 0))     / on (cluster, namespace, model_name) group_left ()   avg by (cluster, namespace, model_name) (sum by (job, instance, ReplicaId, cluster, namespace, model_name) (rate(vllm:time_to_first_token_seconds_count{server="",namespace="bad-replica"}[300s]) unless on (job, instance) (up == 0))))
    • TTFT p50: histogram_quantile(0.5, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket{server="",namespace="bad-replica"}[300s])))
    • age of the youngest replica: min by (exported_pod, pod, kubernetes_pod, pod_name, ReplicaId, WorkerId, instance) (time() - process_start_time_seconds and on (job, instance) vllm:num_requests_running{ReplicaId="", server="",namespace="bad-replica"})
    high-itl at 2023-11-20 22:01:00 UTC, 17 queries in 335 ms, dcgm, kubernetes, vllm ≥ 0.30
    "#);
}

#[test]
fn a_terminal_gets_all_of_a_diagnosis() {
    let message = diagnosis_message(&diagnosis(DIAGNOSES[1]), None, &Phrases::english());
    insta::assert_snapshot!(anstream::adapter::strip_str(&terminal(&message)).to_string(), @r#"
    ▌ Confirmed · high inter-token latency: tokens come slowly · bad-replica · KV cache is exhausted ← one replica is much worse than its peers

    Confirmed: inter-token latency p99 276 ms on 1 of 4 replicas: vllm-llama-8b-1
    Answers flow slower than people read, or stall midway.

    Why
      ← KV cache is exhausted — likely: KV cache peak 100 %, waiting requests per replica 13, KV cache usage 98 %, preemptions 0.2/s (4 of 4 checks agree)
      ← one replica is much worse than its peers — likely, 97 %: inter-token latency p50 141 ms (others 18 ms), requests of the busiest replica over the mean 1.2x, TTFT p50 73 ms (1.2x, was 63 ms), age of the youngest replica 126 min (4 of 4 checks agree)
      Affects 1 of 4 replicas: vllm-llama-8b-1 on GPU-a30c0001-7d3e-4b8a-9c61-3c6ef372fe94, gpu-node-0, 12 % of the traffic
      Began: 21:55 UTC KV cache peak 100 % → 21:55 UTC inter-token latency p99 276 ms → 21:56 UTC inter-token latency p50 7.7x
      One replica, or a few of many, is slower or fails more often than the others at the same share of the traffic, while the others are at their normal.

    Do now
      1. Take it out of rotation and keep it for the post-mortem. Remove the label that the Service or InferencePool selects by, e.g. `kubectl label pod <pod> app-`; the Deployment starts a fresh one — fixed when TTFT p99 < 2 s (source: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#isolating-pods-from-a-replicaset)
      2. If the fresh one is bad on the same node, cordon it: `kubectl cordon <node>`, then run `dcgmi diag -r 3` there (source: https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html)
      3. Scale out if replicas can start within minutes; it is the only step that needs no restart of what runs — fixed when waiting requests per replica < 0.25 (source: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#scaling-a-deployment)
      4. If users suffer from answers that stall rather than from late first tokens, lower `--max-num-seqs` so that fewer requests share the cache; preemptions fall and waiting rises — fixed when preemptions < 0.05/s (source: https://docs.vllm.ai/en/stable/configuration/optimization/)
      5. Raise `--gpu-memory-utilization` in steps of 0.02 if the GPU has memory left at peak — fixed when KV cache peak < 95 % (source: https://docs.vllm.ai/en/stable/configuration/optimization/)
      6. Compare median and p99. A high p99 with a normal median is stutter (prefill chunks, preemptions); a high median is every step being slow (source: https://docs.vllm.ai/en/stable/design/metrics/)

    So that it does not come back
      • Let the router see latency and queue of each replica, not only its readiness; `/health` says 200 on a slow engine (source: https://llm-d.ai/docs/architecture/core/router/epp/scheduling)
      • Halve the bytes per token with `--kv-cache-dtype fp8`, after checking answer quality — fixed when KV cache capacity > 1.5x baseline (source: https://docs.vllm.ai/en/stable/features/quantization/quantized_kvcache/)
      • Keep a few blocks free at admission with `--watermark 0.02`, so that running requests are preempted less — fixed when preemptions < 0.05/s (source: https://docs.vllm.ai/en/stable/cli/serve/)
      • Use more GPUs per replica (`--tensor-parallel-size`), which leaves more memory for the cache beside the weights (source: https://docs.vllm.ai/en/stable/configuration/optimization/)

    Ruled out
      • decode batch too large: many sequences share each step — preemptions 0.2/s (needs < 0.05/s)
      • head-of-line blocking: huge requests hold up small ones — prompt length p99 unchanged at 4.1k tokens (needs > 1.5x baseline)
      • prefill-bound: computing prompts is the bottleneck — prompt tokens computed 2.8k tokens/s (0.8x, was 3.6k tokens/s) (needs > 1.15x baseline)
      • Also ruled out: the router overloads some replicas; tokens are slow even with few requests; fewer replicas serve than before; GPU clocks are pulled down; a GPU reports a hardware fault; GPUs exchange data over a slow path; and 21 more

    What could not be checked
      • CPU periods throttled: no series → cAdvisor metrics: scrape the kubelet's `/metrics/cadvisor`
      • failures of the router to read its backends: no gateway was found in this Prometheus → scrape its `/metrics`; one of these series must be there: `dynamo_frontend_inflight_requests`, `litellm_proxy_total_requests_metric_total`, `inference_pool_ready_pods`, `ray_serve_num_ongoing_http_requests`, `smg_worker_health`

    high-itl at 2023-11-20 22:01:00 UTC, 17 queries in 335 ms, dcgm, kubernetes, vllm ≥ 0.30
    "#);
}

#[test]
fn a_digest_reads_worst_first_and_names_what_cannot_be_read() {
    let start = diagnosis(DIAGNOSES[0]).at;
    let entry = |n: i64, what: &str, cause: Option<&str>, open: bool, critical: bool| DigestEntry {
        id: format!("i{n}"),
        what: what.into(),
        cause: cause.map(str::to_owned),
        pool: [("cluster", "prod"), ("model", "llama")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        open,
        critical,
        warning: !critical,
        since: start + SignedDuration::from_mins(n),
        page: Some(format!("https://triage.example/incidents/i{n}")),
    };
    let digest = DigestView {
        id: "d1".into(),
        topic: "high inter-token latency: tokens come slowly".into(),
        opened_at: start,
        incidents: vec![
            entry(1, "high inter-token latency: tokens come slowly", Some("a replica was lost"), true, false),
            entry(2, "high inter-token latency: tokens come slowly", Some("a replica was lost"), true, false),
            entry(3, "high error rate: requests fail", None, true, true),
            entry(4, "high inter-token latency: tokens come slowly", None, false, false),
        ],
        unreadable: 1,
        interactive: true,
    };
    let message = digest_message(&digest, &Phrases::english());
    blocks(&message);
    insta::assert_snapshot!(read(&message), @r"
    CRITICAL · storm of 5 incidents · high inter-token latency: tokens come slowly · ← a replica was lost (2 of 3) · 3 firing (1 critical), 1 resolved
    Symptoms, worst first
    high error rate: requests fail · prod/llama — 1 firing (1 critical), since 04:04 UTC
    high inter-token latency: tokens come slowly ← a replica was lost · prod/llama — 2 firing, since 04:02 UTC
    high inter-token latency: tokens come slowly · prod/llama — 0 firing, 1 resolved, since 04:05 UTC
    1 incident cannot be read from the store: see the log of llm-diagnose.
    first at 04:02 UTC, last at 04:05 UTC
    [Show incidents]
    ");
}
