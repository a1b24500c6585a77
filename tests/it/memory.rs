//! Memory of the service where its input is large: it stays below the limit of config/kubernetes.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{any, post};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use llm_diagnose_lab::stack::Service;

use crate::large_groups::{many, sent};
use crate::running::{CHANNEL, NOWHERE, Running, group};

/// The memory limit of config/kubernetes.
const LIMIT: u64 = 256 << 20;
/// The memory that answers take of this limit.
const ANSWERS: &str = "answer_bytes: 33554432";

/// Asserts that the service has never used more memory than the limit.
fn assert_within_limit(service: &Service) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id().unwrap())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most = most.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    assert!(most <= LIMIT, "{} MiB", most >> 20);
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// An answer of so many series, as a vector or a matrix.
fn answer(kind: &str, series: usize) -> Bytes {
    let value = if kind == "vector" {
        r#""value":[1763953200,"1"]"#
    } else {
        r#""values":[[1763953200,"1"],[1763953260,"2"]]"#
    };
    let series = (0..series).map(|n| {
        format!(
            r#"{{"metric":{{"__name__":"vllm:num_requests_running","namespace":"llm","pod":"vllm-llama-8b-{n}","model_name":"llama","job":"vllm","le":"{}"}},{value}}}"#,
            n % 20
        )
    });
    let series: Vec<String> = series.collect();
    format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":[{}]}}}}"#, series.join(",")).into()
}

#[tokio::test]
async fn answers_of_up_to_a_hundred_thousand_series_do_not_fill_the_memory() {
    let json = |body: Bytes| ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    let count = Arc::new(AtomicUsize::new(0));
    let (large, too_large, matrix) = (answer("vector", 20_000), answer("vector", 100_000), answer("matrix", 100_000));
    let router = Router::new()
        .route(
            "/api/v1/query",
            post(move |query: String| {
                // The query that finds the engines is answered.
                let is_large = !count.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) || query.contains("__name__");
                async move { json(if is_large { large } else { too_large }) }
            }),
        )
        .route("/api/v1/query_range", post(move || async move { json(matrix) }))
        .fallback(any(|| async { StatusCode::NOT_FOUND }));
    let address = serve(router).await;
    let run = Running::start(&format!(
        "prometheus: [{{ url: \"http://{address}\", {ANSWERS} }}]\ndiagnose: {{ deadline: 20s }}"
    ))
    .await;
    let names = ["LLMHighTTFT", "LLMHighITL", "LLMHighErrorRate", "LLMQueueGrowing"];
    for name in names {
        run.send(&group(name, "firing", "warning", &["vllm-llama-8b-1"])).await;
    }
    // What finds no memory is asked again.
    run.wait_for_metric("llm_diagnose_prometheus_queries_total", 20.0).await;
    assert_within_limit(&run.service);
    run.wait_for(CHANNEL, |text| text.contains("memory limit")).await;
}

#[tokio::test]
async fn eight_groups_of_ten_thousand_alerts_at_once_do_not_fill_the_memory() {
    let run = Running::start(NOWHERE).await;
    let bodies = (0..8).map(|n| {
        let mut body = many(10_000, |_| "firing");
        body["groupKey"] = format!("{{}}:{{alertname=\"LLMHighTTFT\", n=\"{n}\"}}").into();
        sent(&body)
    });
    let url = format!("{}/webhook/alertmanager", run.service.url);
    let send = async |body: Vec<u8>| {
        loop {
            // As Alertmanager: a 503, which may come before the whole body was sent, is repeated.
            let request = run.http.post(&url).header("content-type", "application/json").body(body.clone());
            match request.send().await.map(|answer| answer.status().as_u16()) {
                Err(_) | Ok(503) => tokio::time::sleep(Duration::from_millis(200)).await,
                Ok(status) => return status,
            }
        }
    };
    let answers = join_all(bodies.map(send)).await;
    assert_eq!(answers, [200; 8]);
    let shown = |state: &llm_diagnose_lab::slack::State| state.messages(CHANNEL).count() >= 8;
    run.slack.wait_for(shown, 3 * crate::running::SOON).await.unwrap();
    run.wait_for_metric("llm_diagnose_diagnoses_total", 8.0).await;
    assert_within_limit(&run.service);
}

#[tokio::test]
async fn a_pager_whose_error_unpacks_to_a_gigabyte_does_not_fill_the_memory() {
    let mut member = GzEncoder::new(Vec::new(), Compression::fast());
    member.write_all(&vec![b'x'; 1 << 20]).unwrap();
    let bomb = Bytes::from(member.finish().unwrap().repeat(1_024));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let pager = move || {
        count.fetch_add(1, Ordering::Relaxed);
        let bomb = bomb.clone();
        async move {
            let headers = [(header::CONTENT_ENCODING, "gzip")];
            (StatusCode::INTERNAL_SERVER_ERROR, headers, Body::from(bomb)).into_response()
        }
    };
    let address = serve(Router::new().fallback(any(pager))).await;
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&key, "secret of the bridge\n").unwrap();
    let path = key.path().display();
    let pager = format!("{{ name: bomb, kind: webhook, url: \"http://{address}/\", key_file: {path} }}");
    let run = Running::start(&format!("{NOWHERE}\npagers: [{pager}]")).await;
    run.send(&group("LLMHighTTFT", "firing", "page", &["a"])).await;
    run.wait_for_metric("llm_diagnose_deliveries_total{sink=\"pager\"", 1.0).await;
    assert!(asked.load(Ordering::Relaxed) > 0);
    assert_within_limit(&run.service);
}
