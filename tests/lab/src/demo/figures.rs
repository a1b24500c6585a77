//! What the pool looks like at the moment, as Prometheus saw it in the last half minute.

use std::fmt;

use crate::stack::Prometheus;

const TTFT_P99: &str = "histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[30s])))";
const ITL_P99: &str = "histogram_quantile(0.99, sum by (le) (rate(vllm:inter_token_latency_seconds_bucket[30s])))";
const KV_USAGE: &str = "avg(vllm:kv_cache_usage_perc)";
const WAITING: &str = "sum(vllm:num_requests_waiting)";
const UP: &str = "sum(up{job=\"vllm\"})";
const REPLICAS: &str = "count(up{job=\"vllm\"})";

/// The pool's key figures; none where there is no data.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Figures {
    /// The 99th percentile of the time to the first token, in seconds.
    pub(super) ttft_p99: Option<f64>,
    /// The 99th percentile of the time between tokens, in seconds.
    pub(super) itl_p99: Option<f64>,
    /// The mean used part of the KV caches, 0..1.
    pub(super) kv_usage: Option<f64>,
    /// Requests that wait.
    pub(super) waiting: Option<f64>,
    /// Replicas that answer scrapes.
    pub(super) up: Option<f64>,
    /// All replicas.
    pub(super) replicas: Option<f64>,
}

impl Figures {
    /// Asks Prometheus; a question without an answer is a figure without data.
    pub(super) async fn read(prometheus: &Prometheus) -> Self {
        let ask = async |promql: &str| {
            let result = prometheus.query_now(promql).await.ok()?;
            let value: f64 = result[0]["value"][1].as_str()?.parse().ok()?;
            value.is_finite().then_some(value)
        };
        Self {
            ttft_p99: ask(TTFT_P99).await,
            itl_p99: ask(ITL_P99).await,
            kv_usage: ask(KV_USAGE).await,
            waiting: ask(WAITING).await,
            up: ask(UP).await,
            replicas: ask(REPLICAS).await,
        }
    }

    /// Whether every replica is scraped and answers its users quickly.
    pub(super) fn is_healthy(&self) -> bool {
        self.up.is_some() && self.up == self.replicas && self.ttft_p99.is_some_and(|seconds| seconds < 2.0)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "?".to_owned());
        write!(
            f,
            "TTFT p99 {} s, ITL p99 {} ms, KV {} %, {} waiting, {} of {} replicas",
            or_none(self.ttft_p99.map(|v| format!("{v:.2}"))),
            or_none(self.itl_p99.map(|v| format!("{:.0}", v * 1e3))),
            or_none(self.kv_usage.map(|v| format!("{:.0}", v * 1e2))),
            or_none(self.waiting.map(|v| format!("{v:.0}"))),
            or_none(self.up.map(|v| format!("{v:.0}"))),
            or_none(self.replicas.map(|v| format!("{v:.0}"))),
        )
    }
}

/// The names of the alerts that fire in Prometheus, sorted, each once.
pub(super) async fn firing(prometheus: &Prometheus) -> Vec<String> {
    let alerts = prometheus.api("alerts").await.unwrap_or_default();
    let alerts = alerts["alerts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names: Vec<String> = alerts
        .iter()
        .filter(|alert| alert["state"] == "firing")
        .filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}
