//! Traces by OTLP: spans reach a collector that the usual variables name; a wrong one is told, and costs nothing else.

use std::path::Path;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use llm_diagnose_lab::stack::Service;
use tokio::sync::mpsc;

use crate::running::{BINARY, NOWHERE, SOON, group, tls, without_authentication};

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
    exporting(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k3y"),
        ("OTEL_RESOURCE_ATTRIBUTES", "cluster=east"),
        // The library sends each 5 s.
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ])
    .await
}

/// A service with these variables that has taken an alert.
async fn exporting(environment: &[(&str, &str)]) -> Service {
    tls();
    let config = without_authentication(&format!("listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\n{NOWHERE}\n"));
    let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], environment, &config);
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
    // The library's own attributes would name our files, threads and modules.
    for text in ["LLMHighTTFT", "first tokens are late", "pod", "code.", "thread.", "target", "loops::"] {
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
async fn a_collector_that_hangs_does_not_hold_the_stop() {
    tls();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut service = exporting_to(&url).await;
    let _held = tokio::time::timeout(SOON, listener.accept()).await.expect("an export").unwrap();
    assert!(service.terminate(SOON).await.unwrap().success(), "{}", service.stderr());
}

#[tokio::test]
async fn a_variable_that_does_not_fit_is_told_without_secrets_and_alerts_are_taken() {
    tls();
    for (variable, url, words) in [
        ("OTEL_SERVICE_NAME", "not an address", "OTEL_EXPORTER_OTLP_ENDPOINT=not an address"),
        ("OTEL_SERVICE_NAME", "http://me:s3cr3t@127.0.0.1:1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http://127.0.0.1:1", "http/protobuf is the only value"),
    ] {
        let log = exporting(&[("OTEL_EXPORTER_OTLP_ENDPOINT", url), (variable, "grpc")]).await.stderr();
        assert!(log.contains("no traces are exported") && log.contains(words) && !log.contains("s3cr3t"), "{log}");
    }
}
