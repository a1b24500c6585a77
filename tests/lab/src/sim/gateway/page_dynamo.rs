//! The metrics pages of Dynamo 1.6: the frontend's in KV mode, and what a worker adds to its engine's page.

use super::super::exposition::{Family, Kind, Labels, Numbers};
use super::super::fleet::Fleet;
use super::super::spec::BLOCK_TOKENS;
use super::super::stats::Histogram;
use super::core::Gateway;
use super::ledger::{Meter, Outcome, Sent};

/// Identity of the frontend, as workers have one.
const FRONTEND: u64 = 0x1bc2_d560_a629_13e3;

type Observed = (&'static str, &'static str, fn(&Meter) -> &Histogram);
type OfSent = (&'static str, &'static str, fn(&Sent) -> &Histogram);

/// Of requests that were answered in full.
static HISTOGRAMS: [Observed; 3] = [
    ("dynamo_frontend_inter_token_latency_seconds", "Inter-token latency in seconds", |m| &m.itl),
    ("dynamo_frontend_output_sequence_tokens", "Output sequence length in tokens", |m| &m.output),
    ("dynamo_frontend_cached_tokens", "Number of cached tokens (prefix cache hits) per request", |m| &m.cached),
];

/// Of all requests that were sent on.
static SENT: [OfSent; 3] = [
    ("dynamo_frontend_request_duration_seconds", "Duration of LLM requests", |s| &s.duration),
    ("dynamo_frontend_time_to_first_token_seconds", "Time to first token in seconds", |s| &s.ttft),
    ("dynamo_frontend_input_sequence_tokens", "Input sequence length in tokens", |s| &s.input),
];

/// The frontend's page at `now` (unix seconds).
pub fn families(gateway: &Gateway, fleets: &[Fleet], now: f64) -> Vec<Family> {
    let mut page = models(gateway, fleets, now);
    page.extend(outcomes(gateway, fleets));
    for (name, help, histogram) in &HISTOGRAMS {
        let family = Family::new(name, Kind::Histogram, help);
        page.push(fleets.iter().enumerate().fold(family, |family, (i, fleet)| {
            family.with_histogram_in(&of_model(fleet), histogram(&gateway.ledger.of_fleet(i)), Numbers::Go)
        }));
    }
    for (name, help, histogram) in &SENT {
        let family = Family::new(name, Kind::Histogram, help);
        page.push(fleets.iter().enumerate().fold(family, |family, (i, fleet)| {
            family.with_histogram_in(&of_model(fleet), histogram(&gateway.ledger.sent_to(i)), Numbers::Go)
        }));
    }
    let stage =
        Family::new("dynamo_frontend_stage_duration_seconds", Kind::Histogram, "Pipeline stage duration (seconds)");
    let sent = gateway.ledger.all_sent();
    let preprocess = vec![("stage", "preprocess".to_owned())];
    page.push(stage.with_histogram_in(&preprocess, &sent.before, Numbers::Go));
    page.extend(workers(gateway, fleets, now));
    page.extend(runtime(gateway, now));
    page
}

fn models(gateway: &Gateway, fleets: &[Fleet], now: f64) -> Vec<Family> {
    let per_model = |name, kind, help, value: &dyn Fn(usize, &Fleet) -> Option<f64>| {
        let family = Family::new(name, kind, help);
        fleets.iter().enumerate().fold(family, |family, (i, fleet)| match value(i, fleet) {
            Some(value) => family.with(of_model(fleet), value),
            None => family,
        })
    };
    let inside = |i: usize| gateway.flows.values().filter(move |flow| flow.fleet == i);
    // With its last worker, or its route, the model's own series go away.
    let known = |i: usize| {
        let worker = gateway.backends[i].iter().any(|backend| !gateway.is_forgotten(backend, now));
        worker && gateway.misrouted_share() < 1.0
    };
    let of_card = |value: fn(&Fleet) -> f64| move |i: usize, fleet: &Fleet| known(i).then(|| value(fleet));
    let gauge = Kind::Gauge;
    let open = |i: usize, _: &Fleet| Some(inside(i).count() as f64);
    let silent = |i: usize, _: &Fleet| Some(inside(i).filter(|flow| flow.first_token.is_none()).count() as f64);
    vec![
        per_model(
            "dynamo_frontend_active_requests",
            gauge,
            "Number of requests currently being handled by the frontend, from HTTP handler entry to response completion",
            &open,
        ),
        per_model("dynamo_frontend_inflight_requests", gauge, "Number of inflight requests", &open),
        // Until the first token, so that prefills are in it.
        per_model("dynamo_frontend_queued_requests", gauge, "Number of requests in HTTP processing queue", &silent),
        per_model(
            "dynamo_frontend_output_tokens_total",
            Kind::Counter,
            "Total number of output tokens generated (updates in real-time)",
            &|_, fleet| {
                let stats = fleet.replicas().iter().filter_map(|replica| replica.stats());
                Some(stats.map(|stats| stats.generation_tokens as f64).sum())
            },
        ),
        per_model(
            "dynamo_frontend_model_ready",
            gauge,
            "Whether the frontend can route at least one inference request for the model (1 = ready, 0 = not ready)",
            &of_card(|_| 1.0),
        ),
        per_model(
            "dynamo_frontend_model_total_kv_blocks",
            gauge,
            "Total KV cache blocks available for a worker serving the model",
            &of_card(|fleet| f64::from(fleet.spec().engine.num_gpu_blocks)),
        ),
        per_model(
            "dynamo_frontend_model_max_num_seqs",
            gauge,
            "Maximum number of sequences for a worker serving the model",
            &of_card(|fleet| fleet.spec().engine.max_num_seqs as f64),
        ),
        per_model(
            "dynamo_frontend_model_max_num_batched_tokens",
            gauge,
            "Maximum number of batched tokens for a worker serving the model",
            &of_card(|fleet| f64::from(fleet.spec().engine.max_num_batched_tokens)),
        ),
        per_model(
            "dynamo_frontend_model_kv_cache_block_size",
            gauge,
            "KV cache block size in tokens for a worker serving the model",
            &of_card(|_| f64::from(BLOCK_TOKENS)),
        ),
        per_model(
            "dynamo_frontend_model_context_length",
            gauge,
            "Maximum context length in tokens for a worker serving the model",
            &of_card(|fleet| f64::from(fleet.spec().engine.max_model_len)),
        ),
        per_model(
            "dynamo_frontend_model_migration_limit",
            gauge,
            "Maximum number of request migrations allowed for the model",
            &of_card(|_| 0.0),
        ),
    ]
}

fn outcomes(gateway: &Gateway, fleets: &[Fleet]) -> Vec<Family> {
    let mut started = Family::new(
        "dynamo_frontend_requests_started_total",
        Kind::Counter,
        "Total number of LLM requests accepted by the frontend handler",
    );
    let mut ended =
        Family::new("dynamo_frontend_requests_total", Kind::Counter, "Total number of LLM requests processed");
    let mut failures = Family::new(
        "dynamo_frontend_failures_total",
        Kind::Counter,
        "Total number of terminal semantic request failures",
    );
    let mut refused = Family::new(
        "dynamo_frontend_model_rejection_total",
        Kind::Counter,
        "Total number of requests rejected for the model",
    );
    let mut unknown = 0;
    let (mut absent, mut gone, mut full) = (0, 0, 0);
    for (i, fleet) in fleets.iter().enumerate() {
        let model = fleet.spec().model_name.as_str();
        let endpoint = ("endpoint", "chat_completions".to_owned());
        let outcomes = gateway.ledger.outcomes(i);
        let count = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
        let others = count(Outcome::Vanished) + count(Outcome::UnknownModel);
        let accepted = gateway.ledger.started.get(&i).copied().unwrap_or(0) - others;
        if accepted > 0 {
            let labels = vec![endpoint.clone(), ("model", model.to_owned()), ("request_type", "stream".to_owned())];
            started = started.with(labels, accepted as f64);
        }
        let unavailable = count(Outcome::ConnectFailed) + count(Outcome::Dropped) + count(Outcome::NoBackends);
        for (error, status, count) in [
            ("", "success", count(Outcome::Success)),
            ("cancelled", "error", count(Outcome::ClientGone)),
            ("unavailable", "error", unavailable),
            ("response_timeout", "error", count(Outcome::TimedOut)),
            ("validation", "error", count(Outcome::BackendRejected)),
            ("internal", "error", count(Outcome::BackendFailed)),
            ("overload", "error", count(Outcome::Overloaded)),
        ] {
            if count > 0 {
                ended = ended.with(processed(model, error, status), count as f64);
            }
        }
        if count(Outcome::Overloaded) > 0 {
            let labels = vec![endpoint, ("model", model.to_owned())];
            refused = refused.with(labels, count(Outcome::Overloaded) as f64);
        }
        unknown += count(Outcome::UnknownModel);
        gone += unavailable;
        absent += count(Outcome::UnknownModel);
        full += count(Outcome::Overloaded);
    }
    if unknown > 0 {
        ended = ended.with(processed("unknown_model", "not_found", "error"), unknown as f64);
    }
    for (class, reason, count) in [
        ("Unavailable", "transport.cannot_connect", gone),
        ("NotFound", "request.not_found", absent),
        ("CapacityExhausted", "capacity.pool_exhausted", full),
    ] {
        if count > 0 {
            let labels = vec![("class", class.to_owned()), ("reason", reason.to_owned())];
            failures = failures.with(labels, count as f64);
        }
    }
    let quiet = [failures, refused].into_iter().filter(|family| !family.samples.is_empty());
    [started, ended].into_iter().chain(quiet).collect()
}

fn processed(model: &str, error: &str, status: &str) -> Labels {
    vec![
        ("endpoint", "chat_completions".to_owned()),
        ("error_type", error.to_owned()),
        ("model", model.to_owned()),
        ("request_type", "stream".to_owned()),
        ("status", status.to_owned()),
    ]
}

fn workers(gateway: &Gateway, fleets: &[Fleet], now: f64) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, Kind::Gauge, help);
    let mut blocks = gauge("dynamo_frontend_worker_active_decode_blocks", "Active KV cache decode blocks per worker");
    let mut prefill = gauge("dynamo_frontend_worker_active_prefill_tokens", "Active prefill tokens queued per worker");
    let mut isl =
        gauge("dynamo_frontend_worker_last_input_sequence_tokens", "Last observed input sequence tokens per worker");
    let mut ttft = gauge(
        "dynamo_frontend_worker_last_time_to_first_token_seconds",
        "Last observed time to first token per worker (seconds)",
    );
    let mut itl = gauge(
        "dynamo_frontend_worker_last_inter_token_latency_seconds",
        "Last observed inter-token latency per worker (seconds)",
    );
    let mut registered = gauge(
        "dynamo_component_router_worker_registered",
        "Whether the router currently has this worker/dp_rank registered (1 = registered)",
    );
    for (i, fleet) in fleets.iter().enumerate() {
        for (j, backend) in gateway.backends[i].iter().enumerate().take(fleet.replicas().len()) {
            if gateway.is_forgotten(backend, now) {
                continue;
            }
            let labels: Labels = vec![
                ("dp_rank", "0".to_owned()),
                ("worker_id", worker_id(i, j).to_string()),
                ("worker_type", "decode".to_owned()),
            ];
            let there = || gateway.flows.values().filter(move |flow| flow.fleet == i && flow.replica == Some(j));
            // Prompts that still wait inside the engine count as active.
            let held: u32 = there().map(|flow| flow.request.prompt.div_ceil(BLOCK_TOKENS)).sum();
            let silent = there().filter(|flow| flow.first_token.is_none());
            let queued: u32 = silent.map(|flow| flow.request.prompt - flow.request.cached).sum();
            blocks = blocks.with(labels.clone(), f64::from(held));
            prefill = prefill.with(labels.clone(), f64::from(queued));
            isl = isl.with(labels.clone(), backend.last.0);
            ttft = ttft.with(labels.clone(), backend.last.1);
            itl = itl.with(labels.clone(), backend.last.2);
            let labels = vec![
                ("dp_rank", "0".to_owned()),
                ("dynamo_component", "backend".to_owned()),
                ("dynamo_namespace", "dynamo".to_owned()),
                ("router_worker_id", worker_id(i, j).to_string()),
                ("worker_id", format!("{FRONTEND:x}")),
                ("worker_type", "decode".to_owned()),
            ];
            registered = registered.with(labels, 1.0);
        }
    }
    vec![blocks, prefill, isl, ttft, itl, registered]
}

fn runtime(gateway: &Gateway, now: f64) -> Vec<Family> {
    let router = || {
        vec![
            ("dynamo_component", "backend".to_owned()),
            ("dynamo_namespace", "dynamo".to_owned()),
            ("router_id", (FRONTEND >> 3).to_string()),
            ("worker_id", format!("{FRONTEND:x}")),
        ]
    };
    let sent = gateway.ledger.all_sent().before.count() as f64;
    let waiting = gateway.flows.values().filter(|flow| flow.replica.is_none()).count() as f64;
    let done: u64 = gateway.ledger.served.values().map(|meter| meter.total.count()).sum();
    let open = gateway.flows.len() as f64 - waiting;
    let busy = (1000.0 * gateway.busy).round();
    let tokio = Family::new(
        "dynamo_tokio_worker_busy_ratio",
        Kind::Gauge,
        "Worker busy ratio (0-1) as integer mill ratio; >950 = saturated",
    );
    let tokio = (0..gateway.spec.cpu_slots)
        .fold(tokio, |family, worker| family.with(vec![("worker", worker.to_string())], busy));
    let plain = |name, kind, help, labels, value| Family::new(name, kind, help).with(labels, value);
    vec![
        plain(
            "dynamo_component_router_requests_started_total",
            Kind::Counter,
            "Total number of requests admitted by the router scheduler",
            router(),
            sent,
        ),
        plain(
            "dynamo_component_router_requests_total",
            Kind::Counter,
            "Total number of requests processed by the router",
            router(),
            done as f64,
        ),
        plain(
            "dynamo_request_plane_inflight_requests",
            Kind::Gauge,
            "Currently in-flight requests at AddressedPushRouter",
            Labels::new(),
            open,
        ),
        tokio,
        plain(
            "dynamo_tokio_global_queue_depth",
            Kind::Gauge,
            "Number of tasks in the runtime global queue",
            Labels::new(),
            waiting,
        ),
        plain(
            "dynamo_component_uptime_seconds",
            Kind::Gauge,
            "Total uptime of the DistributedRuntime in seconds",
            vec![("worker_id", format!("{FRONTEND:x}"))],
            now - gateway.started,
        ),
    ]
}

/// What the worker of a replica adds to its engine's page, `None` while it is down.
pub fn worker(fleet: &Fleet, number: usize, replica: usize, now: f64) -> Option<Vec<Family>> {
    let stats = fleet.replicas().get(replica)?.stats()?;
    let id = format!("{:x}", worker_id(number, replica));
    let endpoint: Labels = vec![
        ("dynamo_component", "backend".to_owned()),
        ("dynamo_endpoint", "generate".to_owned()),
        ("dynamo_namespace", "dynamo".to_owned()),
        ("worker_id", id.clone()),
    ];
    let engine: Labels = vec![
        ("dp_rank", "0".to_owned()),
        ("dynamo_component", "backend".to_owned()),
        ("model", fleet.spec().model_name.clone()),
    ];
    let inside = (stats.running + stats.waiting) as f64;
    let answered = (stats.http_4xx + stats.http_5xx) as f64;
    let plain = |name, kind, help, labels: &Labels, value| Family::new(name, kind, help).with(labels.clone(), value);
    let none = Labels::new();
    let hit_rate = stats.cache_hits as f64 / stats.cache_queries.max(1) as f64;
    Some(vec![
        plain(
            "dynamo_component_requests_total",
            Kind::Counter,
            "Total number of requests processed by work handler",
            &endpoint,
            stats.received as f64 + answered,
        ),
        plain(
            "dynamo_component_inflight_requests",
            Kind::Gauge,
            "Number of requests currently being processed by work handler",
            &endpoint,
            inside,
        ),
        plain(
            "dynamo_component_cancellation_total",
            Kind::Counter,
            "Total number of requests cancelled by work handler",
            &endpoint,
            stats.aborted as f64,
        ),
        plain(
            "dynamo_component_uptime_seconds",
            Kind::Gauge,
            "Total uptime of the DistributedRuntime in seconds",
            &vec![("worker_id", id)],
            now - stats.started,
        ),
        plain(
            "dynamo_component_total_blocks",
            Kind::Gauge,
            "Total number of KV cache blocks available on the worker",
            &engine,
            f64::from(stats.num_gpu_blocks),
        ),
        plain(
            "dynamo_component_gpu_cache_usage_percent",
            Kind::Gauge,
            "GPU cache usage as a percentage (0.0-1.0)",
            &engine,
            stats.kv_usage,
        ),
        plain("dynamo_component_kv_cache_hit_rate", Kind::Gauge, "KV cache hit rate", &engine, hit_rate),
        plain(
            "dynamo_engine_request",
            Kind::Gauge,
            "Current number of requests being handled by the engine (--engine-request-limit)",
            &none,
            inside,
        ),
        plain(
            "dynamo_request_queue",
            Kind::Gauge,
            "Current number of requests queued in Dynamo not yet in the engine (--dynamo-request-queue-limit)",
            &none,
            0.0,
        ),
        plain(
            "dynamo_rejection_request_total",
            Kind::Counter,
            "Requests rejected because the worker is at capacity (engine in-flight limit and Dynamo queue both full)",
            &none,
            0.0,
        ),
        plain(
            "dynamo_work_handler_pool_active_tasks",
            Kind::Gauge,
            "Current number of active worker-pool tasks (permits in use)",
            &none,
            inside,
        ),
        plain(
            "dynamo_work_handler_pool_capacity",
            Kind::Gauge,
            "Configured worker-pool capacity (total permits)",
            &none,
            10_000.0,
        ),
        plain(
            "dynamo_work_handler_queue_depth",
            Kind::Gauge,
            "Current items in the bounded work queue awaiting dispatcher pickup",
            &none,
            0.0,
        ),
        plain(
            "dynamo_work_handler_queue_capacity",
            Kind::Gauge,
            "Configured capacity of the bounded work queue",
            &none,
            40_000.0,
        ),
    ])
}

fn of_model(fleet: &Fleet) -> Labels {
    vec![("model", fleet.spec().model_name.clone())]
}

/// Decimal on the frontend's own metrics and hexadecimal on component metrics.
fn worker_id(fleet: usize, replica: usize) -> u64 {
    (1_000 * fleet as u64 + replica as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
