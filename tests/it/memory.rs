//! Memory of the service where its input is large: it stays below the limit of config/kubernetes, with glibc's arenas as the image and
//! the unit set them (`MALLOC_ARENA_MAX`).

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{any, post};
use diagnose::diagnose;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use knowledge::clock;
use knowledge::clock::Range;
use llm_diagnose_lab::slack::{Options, State};
use llm_diagnose_lab::stack::Service;
use prom::{Config, PromError, Prometheus};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use crate::harness::{library, request, tls};
use crate::large_groups::{many, sent};
use crate::running::{CHANNEL, NOWHERE, Running, SOON, group, whole};

/// The memory limit of config/kubernetes.
const LIMIT: u64 = 256 << 20;
/// The memory that answers take of this limit.
const ANSWERS: &str = "answer_bytes: 33554432";
/// Incidents of a digest.
const STORM: usize = 3_000;

/// The most memory that the service has used, by the peak of its resident set: a memory cgroup needs root, and is another
/// tree of files on each kind of machine.
fn peak(service: &Service) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id().unwrap())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    most.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Asserts that the service has never used more memory than the limit.
fn assert_within_limit(service: &Service) {
    let most = peak(service);
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
    let answers = tokio::time::timeout(3 * SOON, join_all(bodies.map(send))).await;
    assert_eq!(answers.unwrap_or_else(|_| panic!("{}", run.service.stderr())), [200; 8]);
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

/// The client of a server of these answers, which may use 1 MiB of memory, half of it for one answer, one at a time.
async fn small_client(router: Router) -> Prometheus {
    tls();
    let url = format!("http://{}", serve(router.fallback(any(|| async { StatusCode::NOT_FOUND }))).await);
    Prometheus::new(&Config { url, answer_bytes: Some(1 << 20), concurrency: 1, ..Config::default() }).unwrap()
}

fn json(body: Bytes) -> axum::response::Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[tokio::test]
async fn prometheus_is_reachable_while_answers_use_all_their_memory() {
    let clock = Bytes::from_static(br#"{"status":"success","data":{"resultType":"scalar","result":[7,"7"]}}"#);
    let rows = answer("vector", 100);
    let query = move |query: String| async move { json(if query.contains("time%28%29") { clock } else { rows }) };
    let prometheus = small_client(Router::new().route("/api/v1/query", post(query))).await;
    let (now, mut held) = (clock::now(), Vec::new());
    let full = loop {
        match prometheus.query(&format!("up + {}", held.len()), now, std::time::Instant::now() + SOON).await {
            Ok(answer) => held.push(answer),
            Err(error) => break error,
        }
    };
    assert!(matches!(*full, PromError::NoMemory { .. }) && held.len() > 3, "{full}");
    prometheus.ping(now, SOON).await.unwrap();
    assert_eq!(prometheus.clock(SOON).await.unwrap(), 7.0);
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_too_large_is_not_asked_for_again() {
    // Each series takes little memory of what it has as JSON: a histogram is left out.
    let histogram = r#"{"metric":{},"histogram":[1763953200,{"count":"1","sum":"1"}]}"#;
    let long = format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#,
        vec![histogram; 50_000].join(",")
    );
    let (long, large) = (Bytes::from(long), answer("matrix", 5_000));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let query = |answer: Bytes| {
        let asked = Arc::clone(&asked);
        move |query: String| async move {
            asked.lock().unwrap().push(query);
            json(answer)
        }
    };
    let router =
        Router::new().route("/api/v1/query", post(query(long))).route("/api/v1/query_range", post(query(large)));
    let prometheus = small_client(router).await;
    let (now, until) = (clock::now(), std::time::Instant::now() + SOON);
    let long = prometheus.query("up", now, until).await.unwrap_err();
    assert!(matches!(*long, PromError::TooLong { bytes: 2_097_152 }), "{long}");
    let range = Range { from: now, to: now, step_seconds: 60 };
    let large = prometheus.query_range("up", range, until).await.unwrap_err();
    assert!(matches!(*large, PromError::TooLarge { bytes: 524_288, .. }), "{large}");
    for error in [long, large] {
        assert!(!error.is_unavailable() && error.to_string().contains("memory limit"), "{error}");
    }
    let request = request("high-ttft", &[("namespace", "llm")], now.as_second());
    let diagnosis = diagnose(library(), &prometheus, &request).await;
    let problems = serde_json::to_string(&diagnosis).unwrap();
    assert!(problems.contains("memory limit"), "{problems}");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.len() > 3, "{asked:#?}");
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "{asked:#?}");
}

#[tokio::test]
async fn queries_whose_common_answer_is_too_large_are_asked_one_by_one() {
    let (one, large) = (answer("vector", 1), answer("vector", 5_000));
    let packs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&packs);
    let query = move |query: String| async move {
        let is_pack = query.contains("llm_diagnose_ask");
        count.fetch_add(usize::from(is_pack), Ordering::Relaxed);
        json(if is_pack { large } else { one })
    };
    let prometheus = small_client(Router::new().route("/api/v1/query", post(query))).await;
    let request = request("high-ttft", &[("namespace", "llm")], clock::now().as_second());
    let diagnosis = diagnose(library(), &prometheus, &request).await;
    assert!(packs.load(Ordering::Relaxed) > 0);
    assert!(!diagnosis.degraded, "{:?}", diagnosis.problems);
    let evidence = crate::harness::evidence(&diagnosis);
    let too_large = |why: &Option<String>| why.as_ref().is_some_and(|why| why.contains("MiB"));
    assert!(evidence.iter().any(|one| one.value.is_some()), "{evidence:?}");
    assert!(!evidence.iter().any(|one| too_large(&one.why)), "{evidence:?}");
}

/// One group of the storm.
fn storm_group(n: usize, status: &str) -> Value {
    let mut body = group("LLMHighTTFT", status, "warning", &["a"]);
    body["groupKey"] = format!("{{}}:{{alertname=\"LLMHighTTFT\", n=\"{n}\"}}").into();
    body
}

/// Copies incident 1, which is in a digest, in the store of a service that does not run, until there are `STORM`; returns
/// the bytes of all alerts.
async fn fill_with_storm(service: &Service) -> u64 {
    let database = service.directory().join("state/llm-diagnose.db");
    let mut database = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    let numbers =
        format!("WITH RECURSIVE n (copy) AS (SELECT 2 UNION ALL SELECT copy + 1 FROM n WHERE copy < {STORM})");
    let first = "SELECT incident_id FROM deliveries WHERE digest_id IS NOT NULL LIMIT 1";
    let key = r#"group_key = replace(group_key, 'n="1"', 'n="' || copy || '"')"#;
    let text = "alert = json_set(alert, '$.annotations.description', printf('%.*c', 70000, 'x'))";
    // The 22nd character is changed too: the end of the first id may be the number of a copy.
    let other = |id: &str| format!("CASE substr({id}, 22, 1) WHEN '0' THEN '1' ELSE '0' END");
    let unique = |id: &str| format!("{id} = printf('%s%s%04d', substr({id}, 1, 21), {}, copy)", other(id));
    for (table, id, changes) in [
        ("incidents", "id", format!("{}, {key}, diagnose_due_ms = NULL", unique("id"))),
        ("alerts", "incident_id", format!("{}, {text}", unique("incident_id"))),
        ("deliveries", "incident_id", unique("incident_id")),
    ] {
        for sql in [
            format!(
                "CREATE TEMP TABLE copies AS {numbers} SELECT {table}.*, copy FROM {table}, n WHERE {id} = ({first})"
            ),
            format!("UPDATE copies SET {changes}"),
            "ALTER TABLE copies DROP COLUMN copy".to_owned(),
            format!("INSERT INTO {table} SELECT * FROM copies"),
            "DROP TABLE copies".to_owned(),
        ] {
            database.execute(AssertSqlSafe(sql.clone())).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    let bytes: i64 =
        sqlx::query_scalar("SELECT SUM(length(alert)) FROM alerts").fetch_one(&mut database).await.unwrap();
    bytes.cast_unsigned()
}

#[tokio::test]
async fn a_digest_of_three_thousand_incidents_does_not_fill_the_memory() {
    let mut run = Running::start_slack(Options::unlimited(), ", storm: { incidents: 1 }", NOWHERE).await;
    let messages = |state: &State| state.messages(CHANNEL).filter(|message| message.thread_ts.is_none()).count();
    for n in 0..2 {
        run.send(&storm_group(n, "firing")).await;
        run.slack.wait_for(|state| messages(state) > n, SOON).await.unwrap();
    }
    let before = peak(&run.service);
    run.service.terminate(SOON).await.unwrap();
    let alerts = fill_with_storm(&run.service).await;
    assert!(before + alerts > LIMIT, "all of them fit: {before} + {alerts}");
    run.service.restart().await.unwrap();
    let digest = format!("storm of {STORM} incidents");
    let shows = |state: &State| state.messages(CHANNEL).any(|message| whole(message).contains(&digest));
    // Unoptimised, it takes some ten seconds; more on a machine that does other things.
    let shown = run.slack.wait_for(shows, 3 * SOON).await;
    assert!(shown.is_ok(), "{}", run.service.stderr());
    assert_within_limit(&run.service);
}
