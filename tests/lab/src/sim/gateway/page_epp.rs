//! The metrics page of an endpoint picker, in the names of llm-d or of the inference extension before it.

use super::super::exposition::{Family, Kind, Labels, Numbers};
use super::super::fleet::Fleet;
use super::super::stats::{EngineStats, Histogram};
use super::core::Gateway;
use super::ledger::{Meter, Outcome};

/// Generations of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// `llm_d_epp_*`.
    LlmD,
    /// `inference_objective_*`, `inference_pool_*`, `inference_extension_*`.
    Objective,
}

/// A name in both generations, with its help; a missing one was not there yet.
type Spelled = (Option<&'static str>, Option<&'static str>, &'static str);
type Observed = (Spelled, fn(&Meter) -> &Histogram);

static HISTOGRAMS: [Observed; 6] = [
    (
        (
            Some("llm_d_epp_request_duration_seconds"),
            Some("inference_objective_request_duration_seconds"),
            "Inference response latency distribution in seconds",
        ),
        |m| &m.total,
    ),
    ((Some("llm_d_epp_request_streaming_itl_seconds"), None, "Time between streamed tokens"), |m| &m.itl),
    (
        (Some("llm_d_epp_request_input_tokens"), Some("inference_objective_input_tokens"), "Input tokens per request"),
        |m| &m.input,
    ),
    (
        (
            Some("llm_d_epp_request_output_tokens"),
            Some("inference_objective_output_tokens"),
            "Output tokens per request",
        ),
        |m| &m.output,
    ),
    (
        (
            Some("llm_d_epp_request_cached_tokens"),
            Some("inference_objective_prompt_cached_tokens"),
            "Cached prompt tokens per request",
        ),
        |m| &m.cached,
    ),
    (
        (
            Some("llm_d_epp_request_ntpot_seconds"),
            Some("inference_objective_normalized_time_per_output_token_seconds"),
            "Latency per output token, the first one included",
        ),
        |m| &m.per_token,
    ),
];

/// Pool gauges that are means over the endpoints.
type Averaged = (&'static str, &'static str, fn(&EngineStats) -> f64);

static AVERAGES: [Averaged; 3] = [
    ("llm_d_epp_average_kv_cache_utilization", "inference_pool_average_kv_cache_utilization", |s| s.kv_usage),
    ("llm_d_epp_average_queue_size", "inference_pool_average_queue_size", |s| s.waiting as f64),
    ("llm_d_epp_average_running_requests", "inference_pool_average_running_requests", |s| s.running as f64),
];

/// The page at the gateway's present.
pub fn families(gateway: &Gateway, fleets: &[Fleet], names: Names) -> Vec<Family> {
    let mut page = requests(gateway, fleets, names);
    for ((current, old, help), histogram) in &HISTOGRAMS {
        let Some(name) = choose(names, *current, *old) else { continue };
        let family = Family::new(name, Kind::Histogram, help);
        page.push(fleets.iter().enumerate().fold(family, |family, (i, fleet)| {
            let meter = gateway.ledger.of_fleet(i);
            family.with_histogram_in(&of_model(fleet, names), histogram(&meter), Numbers::Go)
        }));
    }
    page.push(first_tokens(gateway, fleets, names));
    page.extend(pool(gateway, fleets, names));
    page.extend(scheduler(gateway, fleets, names));
    page
}

fn first_tokens(gateway: &Gateway, fleets: &[Fleet], names: Names) -> Family {
    let name = named(names, "llm_d_epp_request_ttft_seconds", "inference_objective_request_ttft_seconds");
    let family = Family::new(name, Kind::Histogram, "Time to first token");
    fleets.iter().enumerate().fold(family, |family, (i, fleet)| {
        let mut labels = of_model(fleet, names);
        if names == Names::LlmD {
            labels.push(("streaming", "true".to_owned()));
        }
        family.with_histogram_in(&labels, &gateway.ledger.sent_to(i).ttft, Numbers::Go)
    })
}

fn choose(names: Names, current: Option<&'static str>, old: Option<&'static str>) -> Option<&'static str> {
    match names {
        Names::LlmD => current,
        Names::Objective => old,
    }
}

fn named(names: Names, current: &'static str, old: &'static str) -> &'static str {
    match names {
        Names::LlmD => current,
        Names::Objective => old,
    }
}

fn requests(gateway: &Gateway, fleets: &[Fleet], names: Names) -> Vec<Family> {
    let name = |current, old| named(names, current, old);
    let mut total = Family::new(
        name("llm_d_epp_request_total", "inference_objective_request_total"),
        Kind::Counter,
        "Counter of inference requests broken out for each model.",
    );
    let mut errors = Family::new(
        name("llm_d_epp_request_error_total", "inference_objective_request_error_total"),
        Kind::Counter,
        "Counter of inference request errors broken out for each model.",
    );
    let mut running = Family::new(
        name("llm_d_epp_request_running", "inference_objective_running_requests"),
        Kind::Gauge,
        "Number of running requests per model.",
    );
    for (i, fleet) in fleets.iter().enumerate() {
        let labels = of_model(fleet, names);
        let started = gateway.ledger.started.get(&i).copied().unwrap_or(0);
        total = total.with(labels.clone(), started as f64);
        let inside = gateway.flows.values().filter(|flow| flow.fleet == i).count();
        running = running.with(labels.clone(), inside as f64);
        let mut by_code: Vec<(&str, u64)> = Vec::new();
        for (outcome, count) in gateway.ledger.outcomes(i) {
            let Some(code) = error_code(outcome) else { continue };
            match by_code.iter_mut().find(|(old, _)| *old == code) {
                Some((_, sum)) => *sum += count,
                None => by_code.push((code, count)),
            }
        }
        for (code, count) in by_code {
            let mut labels = of_model(fleet, names);
            labels.push(("error_code", code.to_owned()));
            errors = errors.with(labels, count as f64);
        }
    }
    // Error series appear with the first error.
    if errors.samples.is_empty() { vec![total, running] } else { vec![total, errors, running] }
}

fn error_code(outcome: Outcome) -> Option<&'static str> {
    Some(match outcome {
        Outcome::Success | Outcome::ClientGone => return None,
        Outcome::Unauthorized(403) => "Forbidden",
        Outcome::Unauthorized(_) => "Unauthorized",
        Outcome::KeyLimited | Outcome::AllCooling | Outcome::BackendLimited | Outcome::Overloaded => {
            "ResourceExhausted"
        }
        Outcome::UnknownModel | Outcome::Vanished => "NotFound",
        Outcome::BackendRejected => "BadRequest",
        Outcome::ConnectFailed | Outcome::NoBackends => "ServiceUnavailable",
        Outcome::Dropped | Outcome::TimedOut | Outcome::BackendFailed => "ModelServerError",
    })
}

fn pool(gateway: &Gateway, fleets: &[Fleet], names: Names) -> Vec<Family> {
    let name = |current, old| named(names, current, old);
    let gauge = |name, help| Family::new(name, Kind::Gauge, help);
    let mut ready = gauge(
        name("llm_d_epp_ready_endpoints", "inference_pool_ready_pods"),
        "The number of ready endpoints in the inference server pool.",
    );
    let mut queues = gauge(
        name("llm_d_epp_per_endpoint_queue_size", "inference_pool_per_pod_queue_size"),
        "The total number of requests pending in the model server queue for each underlying endpoint.",
    );
    let mut averages: Vec<Family> = AVERAGES
        .iter()
        .map(|(current, old, _)| gauge(name(current, old), "The average over the ready endpoints of the pool."))
        .collect();
    for (i, fleet) in fleets.iter().enumerate() {
        let labels = vec![("name", fleet.spec().deployment.clone())];
        let there = |j: &usize| gateway.backends[i][*j].gone_since.is_none();
        let endpoints: Vec<_> = (0..fleet.replicas().len())
            .filter(there)
            .filter_map(|j| Some((&fleet.replicas()[j].pod.name, fleet.replicas()[j].stats()?)))
            .collect();
        ready = ready.with(labels.clone(), endpoints.len() as f64);
        for (pod, stats) in &endpoints {
            let mut labels = labels.clone();
            labels.push((name("model_server_endpoint", "model_server_pod"), (*pod).clone()));
            queues = queues.with(labels, stats.waiting as f64);
        }
        for (family, (_, _, value)) in averages.iter_mut().zip(&AVERAGES) {
            let sum: f64 = endpoints.iter().map(|(_, stats)| value(stats)).sum();
            let mean = if endpoints.is_empty() { 0.0 } else { sum / endpoints.len() as f64 };
            *family = family.clone().with(labels.clone(), mean);
        }
    }
    averages.extend([ready, queues]);
    averages
}

fn scheduler(gateway: &Gateway, fleets: &[Fleet], names: Names) -> Vec<Family> {
    let name = |current, old| named(names, current, old);
    let sent = gateway.ledger.all_sent();
    let duration = Family::new(
        name("llm_d_epp_scheduler_e2e_duration_seconds", "inference_extension_scheduler_e2e_duration_seconds"),
        Kind::Histogram,
        "End-to-end scheduling latency distribution in seconds.",
    );
    let mut page = vec![duration.with_histogram_in(&Labels::new(), &sent.work, Numbers::Go)];
    // Something slow that is asked before the decision is a plugin of the picker.
    let plugins = Family::new(
        name("llm_d_epp_plugin_duration_seconds", "inference_extension_plugin_duration_seconds"),
        Kind::Histogram,
        "Plugin processing latency distribution in seconds for each extension point.",
    );
    let labels = vec![
        ("extension_point", "PrepareData".to_owned()),
        ("plugin_name", "external-scorer".to_owned()),
        ("plugin_type", "external-scorer".to_owned()),
    ];
    page.push(plugins.with_histogram_in(&labels, &sent.callout, Numbers::Go));
    if names == Names::LlmD {
        let whole = Family::new(
            "llm_d_epp_request_processing_duration_seconds",
            Kind::Histogram,
            "Time from the request's arrival to the decision, in seconds.",
        );
        page.push(whole.with_histogram_in(&Labels::new(), &sent.before, Numbers::Go));
    }
    let endpoint = name("endpoint_name", "pod_name");
    let mut attempts = Family::new(
        name("llm_d_epp_scheduler_attempts_total", "inference_extension_scheduler_attempts_total"),
        Kind::Counter,
        "Total number of scheduling attempts.",
    );
    for (i, fleet) in fleets.iter().enumerate() {
        let labels = |status: &str, pod: &str| {
            vec![
                ("status", status.to_owned()),
                ("target_model_name", fleet.spec().model_name.clone()),
                (endpoint, pod.to_owned()),
                ("namespace", fleet.spec().namespace.clone()),
                ("port", "8000".to_owned()),
            ]
        };
        for replica in fleet.replicas().iter().filter(|replica| replica.sent > 0) {
            attempts = attempts.with(labels("success", &replica.pod.name), replica.sent as f64);
        }
        let failed = gateway.ledger.ended_as(i, Outcome::NoBackends);
        if failed > 0 {
            attempts = attempts.with(labels("failure", ""), failed as f64);
        }
    }
    page.push(attempts);
    page
}

fn of_model(fleet: &Fleet, names: Names) -> Labels {
    let model = &fleet.spec().model_name;
    let mut labels = vec![("model_name", model.clone()), ("target_model_name", model.clone())];
    if names == Names::LlmD {
        labels.extend([("fairness_id", "default-flow".to_owned()), ("priority", "0".to_owned())]);
    }
    labels
}
