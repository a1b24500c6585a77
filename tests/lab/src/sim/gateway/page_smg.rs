//! The metrics page of the SGLang router in HTTP mode, where it knows no first tokens.

use super::super::exposition::{Family, Kind, Labels, Numbers};
use super::super::fleet::Fleet;
use super::core::Gateway;
use super::ledger::Outcome;

/// The page at `now` (unix seconds).
pub fn families(gateway: &Gateway, fleets: &[Fleet], now: f64) -> Vec<Family> {
    let mut page = requests(gateway, fleets);
    page.extend(workers(gateway, fleets, now));
    page
}

fn status(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Success | Outcome::ClientGone => ("200", ""),
        Outcome::Unauthorized(403) => ("403", "validation_error"),
        Outcome::Unauthorized(_) => ("401", "validation_error"),
        Outcome::KeyLimited | Outcome::AllCooling | Outcome::BackendLimited | Outcome::Overloaded => ("429", ""),
        Outcome::UnknownModel | Outcome::Vanished => ("404", "no_workers"),
        Outcome::BackendRejected => ("400", "backend_error"),
        Outcome::NoBackends => ("503", "no_workers"),
        Outcome::TimedOut => ("504", "timeout"),
        Outcome::ConnectFailed | Outcome::Dropped => ("502", "backend_error"),
        Outcome::BackendFailed => ("500", "backend_error"),
    }
}

fn requests(gateway: &Gateway, fleets: &[Fleet]) -> Vec<Family> {
    let counter = |name, help| Family::new(name, Kind::Counter, help);
    let mut arrived = counter("smg_http_requests_total", "Total HTTP requests by method and path");
    let mut answered = counter("smg_http_responses_total", "Total HTTP responses by path, status_code and error_code");
    let mut limited = counter("smg_http_rate_limit_total", "Rate limiting decisions by result (allowed/rejected)");
    let mut routed = counter("smg_router_requests_total", "Total routed requests");
    let mut errors = counter("smg_router_request_errors_total", "Router errors");
    let mut duration = Family::new("smg_router_request_duration_seconds", Kind::Histogram, "Router request duration");
    let (mut started, mut rejected) = (0, 0);
    let mut responses: Vec<((&str, &str), u64)> = Vec::new();
    for (i, fleet) in fleets.iter().enumerate() {
        started += gateway.ledger.started.get(&i).copied().unwrap_or(0);
        let labels = |more: Option<(&'static str, &str)>| {
            let mut labels: Labels = vec![
                ("router_type", "regular".to_owned()),
                ("backend_type", "regular".to_owned()),
                ("connection_mode", "http".to_owned()),
                ("model", fleet.spec().model_name.clone()),
                ("endpoint", "chat".to_owned()),
            ];
            labels.extend(more.map(|(name, value)| (name, value.to_owned())));
            labels
        };
        let mut by_error: Vec<(&str, u64)> = Vec::new();
        for (outcome, count) in gateway.ledger.outcomes(i) {
            let (code, error) = status(outcome);
            add(&mut responses, (code, error), count);
            if code == "429" {
                rejected += count;
            } else if !error.is_empty() {
                add(&mut by_error, error, count);
            }
        }
        let sent = gateway.ledger.sent.get(&i).map_or(0, |sent| sent.before.count());
        routed = routed.with(labels(Some(("streaming", "true"))), sent as f64);
        for (error, count) in by_error {
            errors = errors.with(labels(Some(("error_type", error))), count as f64);
        }
        let meter = gateway.ledger.of_fleet(i);
        duration = duration.with_histogram_in(&labels(None), &meter.backend, Numbers::Go);
    }
    let path = || vec![("method", "POST".to_owned()), ("path", "/v1/chat/completions".to_owned())];
    arrived = arrived.with(path(), started as f64);
    for ((code, error), count) in responses {
        let labels = vec![
            ("path", "/v1/chat/completions".to_owned()),
            ("status_code", code.to_owned()),
            ("error_code", error.to_owned()),
        ];
        answered = answered.with(labels, count as f64);
    }
    limited = limited.with(vec![("result", "allowed".to_owned())], (started - rejected) as f64);
    if rejected > 0 {
        limited = limited.with(vec![("result", "rejected".to_owned())], rejected as f64);
    }
    let active = Family::new("smg_http_connections_active", Kind::Gauge, "Currently active HTTP connections")
        .with(Labels::new(), gateway.flows.len() as f64);
    let mut page = vec![arrived, answered, limited, routed, duration, active];
    if !errors.samples.is_empty() {
        page.push(errors);
    }
    page
}

fn add<K: PartialEq>(counts: &mut Vec<(K, u64)>, key: K, count: u64) {
    match counts.iter_mut().find(|(old, _)| *old == key) {
        Some((_, sum)) => *sum += count,
        None => counts.push((key, count)),
    }
}

fn workers(gateway: &Gateway, fleets: &[Fleet], now: f64) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, Kind::Gauge, help);
    let mut health = gauge("smg_worker_health", "Worker health status (1=healthy, 0=unhealthy)");
    let mut active = gauge("smg_worker_requests_active", "Currently running requests per worker");
    let mut breaker = gauge("smg_worker_cb_state", "Circuit breaker state per worker (0=closed, 1=open, 2=half_open)");
    let mut pool = gauge("smg_worker_pool_size", "Current worker pool size");
    let mut outcomes = Family::new(
        "smg_worker_cb_outcomes_total",
        Kind::Counter,
        "Circuit breaker outcomes by worker and outcome (success/failure)",
    );
    for (i, fleet) in fleets.iter().enumerate() {
        let mut known = 0;
        for (j, backend) in gateway.backends[i].iter().enumerate() {
            let (_, port) = fleet.spec().dialect.job();
            let url = format!("http://{}:{port}", fleet.replicas()[j].pod.ip);
            let worker = || vec![("worker", url.clone())];
            // One that was taken out reads -1: gone, not unhealthy.
            let forgotten = gateway.is_forgotten(backend, now);
            let healthy = f64::from(u8::from(backend.gone_since.is_none()));
            health = health.with(worker(), if forgotten { -1.0 } else { healthy });
            breaker = breaker.with(worker(), if forgotten { -1.0 } else { 0.0 });
            active = active.with(worker(), backend.in_flight as f64);
            known += u32::from(!forgotten);
            for (label, good) in [("success", true), ("failure", false)] {
                let rows = gateway.ledger.tries.iter().filter(|(row, _)| {
                    row.fleet == i && row.replica == Some(j) && (row.outcome == Outcome::Success) == good
                });
                let count: u64 = rows.map(|(_, count)| count).sum();
                if count > 0 {
                    let labels = vec![("worker", url.clone()), ("outcome", label.to_owned())];
                    outcomes = outcomes.with(labels, count as f64);
                }
            }
        }
        let labels = vec![
            ("worker_type", "regular".to_owned()),
            ("connection_mode", "http".to_owned()),
            ("model", fleet.spec().model_name.clone()),
        ];
        pool = pool.with(labels, f64::from(known));
    }
    vec![health, active, breaker, pool, outcomes]
}
