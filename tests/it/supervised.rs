//! A loop of the service that panics: it is started again, and when it keeps dying the liveness probe fails.

use std::sync::Arc;
use std::time::Duration;

use knowledge::clock::Backoff;
use service::config::ServerLimits;
use store::Store;
use telemetry::Metrics;
use telemetry::supervise::{Supervisor, Timing};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use web::{listen, liveness};

use crate::running::{SOON, tls};

/// Asks `/healthz` until it answers so; what it said.
async fn until(url: &str, status: u16) -> String {
    let asked = async {
        loop {
            let answer = reqwest::get(format!("{url}/healthz")).await.unwrap();
            if answer.status() == status {
                return answer.text().await.unwrap();
            }
        }
    };
    tokio::time::timeout(SOON, asked).await.unwrap_or_else(|_| panic!("/healthz does not answer {status}"))
}

#[tokio::test]
async fn a_loop_that_keeps_panicking_fails_healthz_until_it_runs_steadily() {
    tls();
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store")).await.unwrap();
    let (metrics, stop) = (Arc::new(Metrics::default()), CancellationToken::new());
    let timing = Timing {
        pauses: Backoff { first: Duration::from_millis(5), longest: Duration::from_millis(20) },
        steady: Duration::from_millis(300),
        dead_after: Duration::from_millis(100),
    };
    let supervisor = Supervisor::new(Arc::clone(&metrics), timing, stop.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = liveness(store.clone(), supervisor.clone());
    let serving = tokio::spawn(listen(listener, app, ServerLimits::default(), Arc::clone(&metrics), stop.clone()));
    assert_eq!(until(&url, 200).await, "ok\n");

    let (mend, mended) = watch::channel(false);
    let deliver = {
        let stop = stop.clone();
        move || {
            let (mended, stop) = (mended.clone(), stop.clone());
            async move {
                assert!(*mended.borrow(), "a message that nobody expected");
                let mut tick = tokio::time::interval(Duration::from_millis(10));
                while !stop.is_cancelled() {
                    tick.tick().await;
                }
            }
        }
    };
    let kept = tokio::spawn(supervisor.keep("deliver", Duration::from_secs(600), deliver));
    let said = until(&url, 503).await;
    assert!(said.starts_with("loop/deliver: has kept failing for"), "{said}");
    assert!(said.contains("a message that nobody expected"), "{said}");
    let restarts = "llm_diagnose_loop_restarts_total{result=\"deliver\"}";
    assert!(metrics.page().lines().any(|line| line.starts_with(restarts)), "{}", metrics.page());

    mend.send(true).unwrap();
    assert_eq!(until(&url, 200).await, "ok\n");
    stop.cancel();
    kept.await.unwrap();
    serving.await.unwrap();
    store.close().await;
}
