//! Traces by OTLP: spans reach a collector that the usual variables name; a wrong one is told, and costs nothing else.

use std::path::Path;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use llm_diagnose_lab::stack::Service;
use tokio::sync::mpsc;

use crate::running::{BINARY, NOWHERE, SOON, command, ended, group, tls, without_authentication};

/// A call of the exporter: the path, the collector's own header, the body.
type Export = (String, String, Vec<u8>);

/// A collector that answers with this status.
async fn collector(status: StatusCode) -> (String, mpsc::UnboundedReceiver<Export>) {
    let (sender, exports) = mpsc::unbounded_channel();
    let take = move |uri: Uri, headers: HeaderMap, body: Bytes| {
        let key = headers.get("x-key").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        sender.send((uri.path().to_owned(), key, body.to_vec())).ok();
        async move { status }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(take)).await });
    (url, exports)
}

/// A service that exports to this address and has taken an alert.
async fn exporting_to(url: &str) -> Service {
    tls();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k3y"),
        ("OTEL_RESOURCE_ATTRIBUTES", "cluster=east"),
        // The library sends each 5 s.
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let config = without_authentication(&format!("listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\n{NOWHERE}\n"));
    let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &environment, &config);
    let service = service.await.unwrap();
    let body = group("LLMHighTTFT", "firing", "critical", &["a"]);
    let webhook = reqwest::Client::new().post(format!("{}/webhook/alertmanager", service.url)).json(&body);
    webhook.send().await.unwrap().error_for_status().unwrap();
    service
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test]
async fn spans_with_ids_and_without_texts_from_outside_reach_the_named_collector() {
    let (url, mut exports) = collector(StatusCode::OK).await;
    let mut service = exporting_to(&url).await;
    let mut all = Vec::new();
    // An admission, and a diagnosis with its incident.
    for part in ["admit", "incident.id"] {
        while !holds(&all, part) {
            let next = tokio::time::timeout(SOON, exports.recv()).await;
            let (path, key, body) = next.unwrap_or_else(|_| panic!("no {part}: {}", service.stderr())).unwrap();
            assert_eq!((path.as_str(), key.as_str()), ("/v1/traces", "k3y"));
            all.extend(body);
        }
    }
    for part in ["service.name", "llm-diagnose", "cluster", "east"] {
        assert!(holds(&all, part), "{part}");
    }
    for text in ["LLMHighTTFT", "first tokens are late", "pod"] {
        assert!(!holds(&all, text), "{text} left the service");
    }
    assert!(service.terminate(SOON).await.unwrap().success(), "{}", service.stderr());
}

#[tokio::test]
async fn a_collector_that_refuses_is_told_once_and_the_service_goes_on() {
    let (url, mut exports) = collector(StatusCode::UNAUTHORIZED).await;
    let service = exporting_to(&url).await;
    for _ in 0..2 {
        tokio::time::timeout(SOON, exports.recv()).await.expect("an export").unwrap();
        let again = reqwest::Client::new().post(format!("{}/webhook/alertmanager", service.url));
        let body = group("LLMHighITL", "firing", "critical", &["a"]);
        again.json(&body).send().await.unwrap().error_for_status().unwrap();
    }
    tokio::time::timeout(SOON, exports.recv()).await.expect("an export").unwrap();
    let told = service.stderr().matches("the collector does not take traces").count();
    assert_eq!(told, 1, "{}", service.stderr());
}

#[tokio::test]
async fn a_wrong_address_of_a_collector_ends_the_start_with_the_variables_name() {
    let mut serve = command(&["serve"]);
    serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", "not an address").env("LLM_DIAGNOSE_STATE_DIR", "/nonexistent");
    let output = ended(serve).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("OTEL_EXPORTER_OTLP_ENDPOINT is an address"), "{said}");
}
