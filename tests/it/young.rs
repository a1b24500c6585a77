//! A young incident: the time before it dilutes every rate, so that it is observed in a window of its own.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::Request as Asked;
use diagnose::diagnose;
use findings::Request;
use tokio::net::TcpListener;

use crate::chains::{FAULT_SECONDS, asked};
use crate::harness::{at, client, library, run, shared};

/// The queries of a diagnosis at one time, in order; a query over a range has no such time.
#[derive(Clone, Default)]
struct Queries(Arc<Mutex<Vec<String>>>);

impl Queries {
    /// The shared Prometheus behind a proxy that notes what it is asked.
    async fn noted(&self, real: &str) -> String {
        let (noted, real, http) = (self.clone(), real.to_owned(), reqwest::Client::new());
        let pass = move |asked: Asked| {
            let (noted, real, http) = (noted.clone(), real.clone(), http.clone());
            async move {
                let (parts, body) = asked.into_parts();
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let form = url::form_urlencoded::parse(&body).into_owned();
                if parts.uri.path() == "/api/v1/query" {
                    let queries = form.filter(|(name, _)| name == "query").map(|(_, query)| query);
                    noted.0.lock().unwrap_or_else(PoisonError::into_inner).extend(queries);
                }
                let sent = http.request(parts.method, format!("{real}{}", parts.uri)).body(body);
                let kind = "application/x-www-form-urlencoded";
                sent.header("content-type", kind).send().await.unwrap().text().await.unwrap()
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(pass)).await });
        url
    }
}

/// The request of an alert that came a minute ago, so long after the fault's begin.
fn young(name: &str, playbook: &str, seconds: i64) -> Request {
    let request = asked(name, playbook);
    let now = request.at.as_second() - FAULT_SECONDS + seconds;
    Request { at: at(now), since: Some(at(now - 60)), ..request }
}

#[test]
fn replicas_of_a_young_incident_are_asked_with_its_window_too() {
    let (real, request) = (&shared().url, young("longer-prompts", "high-ttft", 150));
    run(async {
        let queries = Queries::default();
        let prometheus = client(&queries.noted(real).await);
        let diagnosis = diagnose(library(), &prometheus, &request).await;
        let said = serde_json::to_string_pretty(&diagnosis).unwrap();
        assert_eq!(diagnosis.window_seconds, 150, "{said}");
        let mut all = queries.0.lock().unwrap().clone();
        // The replicas of met evidence are asked for once with each window, and at last.
        let last = all.pop().unwrap();
        assert!(last.contains("kv_cache_usage_perc"), "{last}");
        assert!(last.contains("[2m30s]") && all.contains(&last.replace("[2m30s]", "[5m]")), "{last}");
    });
}
