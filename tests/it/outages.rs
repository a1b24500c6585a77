//! A store that fails while alerts come: a full disk, a network that is silent, a failover, rows that nobody can read; and a
//! Prometheus that many entries share.

mod disk;
mod network;
mod prometheus;
mod rows;

use std::time::{Duration, Instant};

use serde_json::Value;

/// Waits until an answer is as it should be, asking again and again as Alertmanager and a kubelet do.
async fn until<T: std::fmt::Debug>(within: Duration, ask: impl AsyncFn() -> T, met: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + within;
    loop {
        let answer = ask().await;
        if met(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "not within {within:?}: {answer:?}");
    }
}

/// One check of `/readyz`.
fn check<'a>(ready: &'a Value, name: &str) -> &'a Value {
    let checks = ready["checks"].as_array().into_iter().flatten();
    checks.into_iter().find(|check| check["name"] == name).unwrap_or(&Value::Null)
}
