//! A recording proxy between the Alertmanagers and the service: it remembers what was answered with 200.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The requests so far.
#[derive(Clone, Default)]
pub(super) struct Recorded {
    /// Number of requests, whatever was answered.
    pub(super) requests: usize,
    /// Number of requests that were answered with 200.
    pub(super) acknowledged: usize,
    /// Their alerts: the label `group` and the name.
    pub(super) alerts: BTreeSet<(String, String)>,
    /// Their group keys.
    pub(super) group_keys: BTreeSet<String>,
}

impl Recorded {
    /// Number of groups of which at least one alert was acknowledged.
    pub(super) fn groups(&self) -> usize {
        self.alerts.iter().map(|(group, _)| group).collect::<BTreeSet<_>>().len()
    }
}

/// The running proxy; it stops when dropped.
pub(super) struct Proxy {
    pub(super) url: String,
    pub(super) recorded: watch::Receiver<Recorded>,
    server: JoinHandle<()>,
}

struct Forward {
    to: String,
    http: reqwest::Client,
    recorded: watch::Sender<Recorded>,
}

impl Proxy {
    /// Starts it on a free port; it forwards to this address.
    pub(super) async fn start(to: String) -> Self {
        // No idle connections: they would end with the process.
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(Duration::from_secs(15));
        let (sender, recorded) = watch::channel(Recorded::default());
        let forward = Arc::new(Forward { to, http: http.build().unwrap(), recorded: sender });
        let router = axum::Router::new().route("/", axum::routing::post(pass_on)).with_state(forward);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            // It ends only with the task.
            axum::serve(listener, router).await.ok();
        });
        Self { url, recorded, server }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn pass_on(State(forward): State<Arc<Forward>>, body: Bytes) -> StatusCode {
    let request = forward.http.post(&forward.to).header("content-type", "application/json").body(body.clone());
    let status = request.send().await.map_or(StatusCode::BAD_GATEWAY, |answer| answer.status());
    let notification: Value = serde_json::from_slice(&body).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    forward.recorded.send_modify(|recorded| {
        recorded.requests += 1;
        if status == StatusCode::OK {
            recorded.acknowledged += 1;
            recorded.group_keys.insert(text(&notification["groupKey"]));
            let alerts = notification["alerts"].as_array().into_iter().flatten().map(|alert| &alert["labels"]);
            recorded.alerts.extend(alerts.map(|labels| (text(&labels["group"]), text(&labels["alertname"]))));
        }
    });
    status
}
