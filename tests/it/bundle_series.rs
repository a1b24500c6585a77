//! The series of a bundle: as they were scraped, whatever Prometheus does; opened again they tell the same cause.

mod hostile;
mod opened;

use std::fs::File;
use std::io::BufRead;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bundle::series;
use bundle::series::Written;
use findings::Request;
use findings::facts::Window;
use knowledge::clock;
use prom::Prometheus;
use redact::Redactor;
use tempfile::TempDir;

use crate::chains::asked;
use crate::harness::{client, library, run, shared};

/// How long writing may take here.
const LONG: Duration = Duration::from_secs(600);
const MIB: u64 = 1 << 20;

/// Ten minutes around the moment of a case.
fn window(request: &Request) -> Window {
    let minutes = Duration::from_secs(600);
    Window { from: clock::before(request.at, minutes), to: clock::after(request.at, minutes) }
}

/// What was written, and to where.
struct Kept {
    written: Written,
    path: PathBuf,
    _dir: TempDir,
}

async fn kept(prometheus: &Prometheus, request: &Request, bytes: u64, deadline: Duration) -> Kept {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("series.om");
    let (out, deadline, redactor) = (File::create(&path).unwrap(), Instant::now() + deadline, Redactor::off());
    let window = window(request);
    let written = series::write(library(), prometheus, request, window, bytes, &redactor, out, deadline).await;
    Kept { written, path, _dir: dir }
}

impl Kept {
    fn lines(&self) -> Vec<String> {
        std::io::BufReader::new(File::open(&self.path).unwrap()).lines().map(Result::unwrap).collect()
    }

    fn why(&self) -> String {
        self.written.left_out.iter().map(|gap| format!("{}: {}\n", gap.what, gap.reason.as_str())).collect()
    }
}

/// The whole bytes of a file end as OpenMetrics asks.
#[track_caller]
fn assert_whole(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with("# EOF\n"), "{:?}", &text[text.len().saturating_sub(100)..]);
}

#[test]
fn samples_are_the_scraped_ones_and_the_metrics_stand_together() {
    let request = asked("longer-prompts", "high-ttft");
    let kept = run(kept(shared(), &request, 100 * MIB, LONG));
    assert_eq!(kept.written.left_out, []);
    let lines = kept.lines();
    assert_eq!(kept.written.samples as usize + 1, lines.len());
    assert_eq!(kept.written.bytes, std::fs::metadata(&kept.path).unwrap().len());
    let name = |line: &String| line.split('{').next().unwrap().to_owned();
    let mut names: Vec<String> = lines.iter().map(name).collect();
    names.dedup();
    let order = names.clone();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), order.len(), "a metric stands in two places: {order:?}");
    for wanted in [
        "up",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:time_to_first_token_seconds_count",
        "DCGM_FI_DEV_SM_CLOCK",
        "kube_pod_info",
    ] {
        assert!(names.contains(&wanted.to_owned()), "{wanted} of {names:?}");
    }
    // The scrapes of one engine, exactly as Prometheus has them.
    let pod = "vllm-llama-8b-1";
    let selector = format!("vllm:num_requests_running{{namespace=\"longer-prompts\",pod=\"{pod}\"}}");
    let ours: Vec<&String> =
        lines.iter().filter(|l| l.starts_with("vllm:num_requests_running{") && l.contains(pod)).collect();
    let counted = format!("count_over_time({selector}[{}ms])", span(&ours).end - span(&ours).start + 1);
    let at = clock::from_unix_ms(span(&ours).end);
    let rows = run(shared().query(&counted, at, Instant::now() + LONG)).unwrap();
    assert_eq!(rows[0].value as usize, ours.len());
    // The past that a diagnosis compares with is kept too, with a gap before it.
    let closest = times(&ours).windows(2).map(|pair| pair[1] - pair[0]).min();
    assert_eq!(closest, Some(15_000));
    assert!(lines.iter().all(|line| !line.contains("namespace=\"healthy\"")), "another pool's series");
}

#[test]
fn series_that_carry_no_label_of_the_pool_come_by_the_targets_of_those_that_do() {
    let mut request = asked("longer-prompts", "high-error-rate");
    let model = "meta-llama/Llama-3.1-8B-Instruct".to_owned();
    request.scope.dimensions.insert("model".to_owned(), model);
    let kept = run(kept(shared(), &request, 100 * MIB, LONG));
    let lines = kept.lines();
    for metric in ["http_requests_total{", "vllm:cache_config_info{"] {
        let ours: Vec<&String> = lines.iter().filter(|line| line.starts_with(metric)).collect();
        assert!(!ours.is_empty(), "{metric} of {}", kept.why());
        assert!(ours.iter().all(|line| line.contains("namespace=\"longer-prompts\"")), "another pool's {metric}");
    }
}

/// The times of lines in unix milliseconds.
fn times(lines: &[&String]) -> Vec<i64> {
    let at = |line: &String| (line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() * 1e3).round() as i64;
    let times: Vec<i64> = lines.iter().map(|line| at(line)).collect();
    assert!(times.is_sorted());
    times
}

/// The first and the last time of lines.
fn span(lines: &[&String]) -> Range<i64> {
    let times = times(lines);
    times[0]..times[times.len() - 1]
}

#[test]
fn the_bound_is_kept_and_what_the_playbook_needs_comes_first() {
    let request = asked("longer-prompts", "high-ttft");
    let kept = run(kept(shared(), &request, 2 * MIB, LONG));
    assert!(std::fs::metadata(&kept.path).unwrap().len() <= 2 * MIB);
    assert_whole(&kept.path);
    assert!(kept.why().contains("the bound for series was reached"), "{}", kept.why());
}

/// What a Prometheus does when it is asked for raw samples.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    Hangs,
    Fails,
    Html,
    CutOff,
    TooMany,
    Partial,
}

#[derive(Clone)]
struct Troubled {
    base: String,
    trouble: Trouble,
}

/// The shared Prometheus, but for raw samples.
async fn troubled(base: String, trouble: Trouble) -> Prometheus {
    let state = Troubled { base, trouble };
    let router = Router::new().fallback(answer).with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    client(&url)
}

async fn answer(State(state): State<Troubled>, headers: HeaderMap, body: Bytes) -> Response {
    let form: std::collections::BTreeMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let query = &form["query"];
    let asked = reqwest::Client::new()
        .post(format!("{}/api/v1/query", state.base))
        .header(header::CONTENT_TYPE, headers[header::CONTENT_TYPE].clone())
        .body(body.clone());
    let raw = query.starts_with('{') && query.ends_with("ms]");
    // Half of the hour is fine.
    let long = || query.rsplit('[').next().unwrap().trim_end_matches("ms]").parse::<u64>().unwrap() > 1_900_000;
    let refused =
        r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples"}"#;
    match state.trouble {
        _ if !raw => {}
        Trouble::Hangs => std::future::pending().await,
        Trouble::Fails => return (StatusCode::INTERNAL_SERVER_ERROR, "the disk is gone").into_response(),
        Trouble::Html => return "<html>please log in</html>".into_response(),
        Trouble::TooMany if long() => return (StatusCode::UNPROCESSABLE_ENTITY, refused).into_response(),
        Trouble::TooMany => {}
        Trouble::CutOff => {
            let whole = asked.send().await.unwrap().bytes().await.unwrap();
            return whole.slice(..whole.len() / 2).into_response();
        }
        Trouble::Partial => {
            let whole = asked.send().await.unwrap().text().await.unwrap();
            let end = whole.trim_end().strip_suffix('}').unwrap();
            return format!("{end},\"warnings\":[\"store-1 did not answer\"]}}").into_response();
        }
    }
    let answer = asked.send().await.unwrap();
    (answer.status(), answer.bytes().await.unwrap()).into_response()
}

/// What is said of a trouble, with how long it took.
fn said(trouble: Trouble, deadline: Duration) -> (Kept, Duration) {
    // Its start has a runtime of its own.
    let base = shared().url.clone();
    run(async move {
        let prometheus = troubled(base, trouble).await;
        let started = Instant::now();
        let kept = kept(&prometheus, &asked("longer-prompts", "high-ttft"), 100 * MIB, deadline).await;
        (kept, started.elapsed())
    })
}

#[test]
fn a_prometheus_that_hangs_fails_or_is_another_program_is_told_and_never_waited_for() {
    let deadline = Duration::from_secs(4);
    for (trouble, words) in [
        (Trouble::Hangs, "timed out"),
        (Trouble::Fails, "HTTP 500"),
        (Trouble::Html, "the answer is not Prometheus'"),
        (Trouble::CutOff, "the answer was cut off"),
    ] {
        let (kept, took) = said(trouble, deadline);
        assert_whole(&kept.path);
        assert!(kept.why().contains(words), "{}", kept.why());
        assert!(kept.why().contains("vllm:") || kept.why().contains("more: "), "{}", kept.why());
        assert!(took < 10 * deadline, "{took:?}");
    }
}

#[test]
fn what_arrived_before_a_cut_is_kept() {
    let (kept, _) = said(Trouble::CutOff, LONG);
    assert!(kept.written.samples > 0 && kept.lines().len() as u64 == kept.written.samples + 1);
    assert!(kept.why().contains("the answer was cut off"), "{}", kept.why());
}

#[test]
fn too_many_samples_are_asked_in_pieces_until_all_are_there() {
    let whole = run(kept(shared(), &asked("longer-prompts", "high-ttft"), 100 * MIB, LONG));
    let (pieces, _) = said(Trouble::TooMany, LONG);
    assert_eq!(pieces.written.left_out, []);
    assert!(pieces.written.queries > whole.written.queries);
    let [mut one, mut other] = [whole.lines(), pieces.lines()];
    one.sort();
    other.sort();
    assert_eq!(one.len(), other.len());
    assert!(one == other, "other samples");
}

#[test]
fn a_store_that_is_away_is_told() {
    let (kept, _) = said(Trouble::Partial, LONG);
    assert!(kept.written.samples > 0 && kept.why().contains("store-1 did not answer"), "{}", kept.why());
}

#[test]
fn nobody_there_is_one_sentence() {
    let kept = run(kept(&client("http://127.0.0.1:1"), &asked("healthy", "high-ttft"), MIB, LONG));
    assert_eq!(kept.written.left_out.len(), 1, "{}", kept.why());
    assert!(kept.why().starts_with("all series: Prometheus cannot be reached"), "{}", kept.why());
    assert_whole(&kept.path);
}
