//! The fleet on the wall clock, over HTTP, for a real Prometheus to scrape.
//!
//! - `GET /targets`: what there is to scrape; `GET /targets/<i>/metrics`: a page, 503 while the target is down.
//! - `GET /faults`: all faults and what is active.
//! - `POST /faults/<fault>`: starts one, as `longer-prompts` or `bad-replica:replica=2,slowdown=6`.
//! - `DELETE /faults/<name>` ends those of a name, `DELETE /faults` all.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::fault::Fault;
use super::fleet::Fleet;
use super::target::Target;

/// How often the fleet follows the clock when nobody looks.
const FOLLOW: Duration = Duration::from_millis(100);

type Shared = Arc<Mutex<Fleet>>;

/// Serves the fleet until the future is dropped; the fleet follows the wall clock all the while.
///
/// The fleet should start a minute or two in the past: it catches up at once and is then warm.
pub async fn serve(fleet: Fleet, listener: TcpListener) -> io::Result<()> {
    let fleet = Arc::new(Mutex::new(fleet));
    let routes = Router::new()
        .route("/targets", get(targets))
        .route("/targets/{index}/metrics", get(page))
        .route("/faults", get(faults).delete(clear_all))
        .route("/faults/{fault}", post(inject).delete(clear))
        .with_state(Arc::clone(&fleet));
    let follow = async {
        let mut ticks = tokio::time::interval(FOLLOW);
        loop {
            ticks.tick().await;
            drop(present(&fleet));
        }
    };
    tokio::select! {
        served = axum::serve(listener, routes) => served,
        () = follow => Ok(()),
    }
}

/// The `scrape_configs` of a Prometheus for targets served at `address` (`host:port`); JSON is YAML.
pub fn scrape_configs(targets: &[Target], address: &str, interval: &str) -> Value {
    let mut configs: Vec<Value> = Vec::new();
    for target in targets {
        let mut labels = json!({ "__metrics_path__": target.path, "instance": target.instance });
        for (name, value) in &target.labels {
            labels[*name] = json!(value);
        }
        let group = json!({ "targets": [address], "labels": labels });
        match configs.iter_mut().find(|config| config["job_name"] == target.job) {
            Some(config) => {
                if let Some(groups) = config["static_configs"].as_array_mut() {
                    groups.push(group);
                }
            }
            None => configs.push(json!({
                "job_name": target.job,
                "scrape_interval": interval,
                "honor_labels": target.honor_labels,
                "static_configs": [group],
            })),
        }
    }
    Value::Array(configs)
}

/// The fleet, advanced to the wall clock.
#[expect(clippy::disallowed_methods, reason = "the lab's edge: here the virtual clock meets the real one")]
fn present(fleet: &Shared) -> MutexGuard<'_, Fleet> {
    // A panic elsewhere leaves the fleet in a state that can still be shown.
    let mut fleet = fleet.lock().unwrap_or_else(PoisonError::into_inner);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    fleet.advance_to(now.as_secs_f64());
    fleet
}

async fn targets(State(fleet): State<Shared>) -> Json<Value> {
    let fleet = present(&fleet);
    let targets = fleet.targets();
    let list = targets.iter().map(|target| {
        let up = fleet.families(target).is_some();
        json!({ "job": target.job, "instance": target.instance, "path": target.path, "up": up })
    });
    Json(list.collect())
}

async fn page(State(fleet): State<Shared>, Path(index): Path<usize>) -> Response {
    let fleet = present(&fleet);
    let path = format!("/targets/{index}/metrics");
    let Some(target) = fleet.targets().into_iter().find(|target| target.path == path) else {
        return (StatusCode::NOT_FOUND, format!("no target {index}\n")).into_response();
    };
    match fleet.page(&target) {
        Some(page) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the target is down\n").into_response(),
    }
}

async fn faults(State(fleet): State<Shared>) -> Json<Value> {
    Json(list(&present(&fleet)))
}

async fn inject(State(fleet): State<Shared>, Path(fault): Path<String>) -> Response {
    let mut fleet = present(&fleet);
    match fault.parse().and_then(|fault| fleet.inject(fault)) {
        Ok(()) => Json(list(&fleet)).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}\n")).into_response(),
    }
}

async fn clear(State(fleet): State<Shared>, Path(fault): Path<String>) -> Response {
    let mut fleet = present(&fleet);
    match fault.parse::<Fault>() {
        Ok(fault) => {
            fleet.clear(fault);
            Json(list(&fleet)).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}\n")).into_response(),
    }
}

async fn clear_all(State(fleet): State<Shared>) -> Json<Value> {
    let mut fleet = present(&fleet);
    fleet.clear_all();
    Json(list(&fleet))
}

fn list(fleet: &Fleet) -> Value {
    let faults = Fault::ALL.iter().map(|fault| {
        let active = fleet.faults().iter().filter(|active| active.name() == fault.name());
        json!({
            "name": fault.name(),
            "description": fault.description(),
            "default": fault.to_string(),
            "active": active.map(Fault::to_string).collect::<Vec<_>>(),
        })
    });
    faults.collect()
}
