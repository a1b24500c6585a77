//! What a backtest says where it could not see, and how it goes on: an empty Prometheus, one that is lost midway, used-up
//! queries, firings from standard input, labels.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use report::FiringOutcome;
use serde_json::json;

use super::day::{BEGIN, END, HOSTILE, MODEL, NOISE};
use super::{assert_same, at, command, of, prometheus, read, whole};
use crate::running::BINARY;

/// The answer to requests with the text of a fault; without one the connection is cut, and each later one.
type Answer = Option<&'static str>;

const REFUSED: Answer = Some("422 Unprocessable Entity");
const UNAVAILABLE: Answer = Some("503 Service Unavailable");

/// Forwards connections to a Prometheus; requests with a text have another answer.
struct Faulty {
    url: String,
    fault: Arc<Fault>,
}

struct Fault {
    text: String,
    answer: Answer,
    is_off: AtomicBool,
    is_cut: AtomicBool,
    hits: AtomicUsize,
}

impl Faulty {
    fn at(text: &str, answer: Answer) -> Self {
        let server: SocketAddr = prometheus().trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (is_off, is_cut, hits) = (AtomicBool::default(), AtomicBool::default(), AtomicUsize::default());
        let fault = Arc::new(Fault { text: text.to_owned(), answer, is_off, is_cut, hits });
        let state = Arc::clone(&fault);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if state.is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(server).unwrap();
                let (answer_to, answer_from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let state = Arc::clone(&state);
                std::thread::spawn(move || forward(client, server, Some(&state)));
                std::thread::spawn(move || forward(answer_from, answer_to, None));
            }
        });
        Self { url, fault }
    }

    fn hits(&self) -> usize {
        self.fault.hits.load(Ordering::SeqCst)
    }

    /// Forwards everything from now on.
    fn mend(&self) {
        self.fault.is_off.store(true, Ordering::SeqCst);
        self.fault.is_cut.store(false, Ordering::SeqCst);
    }

    /// A backtest of the day through it.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["backtest", "--prometheus", &self.url, "--since", "1d", "--until", &END.to_string()]);
        command.args(["--deadline", "1m", "--output", "json"]).args(arguments).stdin(Stdio::null());
        command
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, fault: Option<&Fault>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if let Some(fault) = fault.filter(|fault| !fault.is_off.load(Ordering::SeqCst)) {
            let has_text = buffer[..n].windows(fault.text.len()).any(|window| window == fault.text.as_bytes());
            fault.hits.fetch_add(usize::from(has_text), Ordering::SeqCst);
            if let Some(status) = fault.answer.filter(|_| has_text) {
                let kind = if status.starts_with("422") { "execution" } else { "unavailable" };
                let body = json!({ "status": "error", "errorType": kind, "error": "too much" }).to_string();
                let head = "content-type: application/json\r\nconnection: close";
                let answer = format!("HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = (from.write_all(answer.as_bytes()), from.shutdown(Shutdown::Write));
                // What is left of the request, so that the answer is not reset.
                while matches!(from.read(&mut buffer), Ok(1..)) {}
                break;
            }
            if fault.answer.is_none() && (fault.is_cut.fetch_or(has_text, Ordering::SeqCst) || has_text) {
                break;
            }
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a backtest with this standard input.
fn with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_empty_prometheus_is_never_nothing_to_change() {
    let until = (BEGIN - 5 * 86_400).to_string();
    let run = |output: &str| {
        let mut command = Command::new(BINARY);
        command.args([
            "backtest",
            "--prometheus",
            prometheus(),
            "--since",
            "2d",
            "--until",
            &until,
            "--output",
            output,
        ]);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let output = run("json");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let empty = read(&output);
    assert!(empty.limits.iter().any(|limit| limit.starts_with("no pool of an LLM engine")), "{:?}", empty.limits);
    assert!(empty.limits.iter().any(|limit| limit.contains("no series `ALERTS`")), "{:?}", empty.limits);
    let text = String::from_utf8(run("text").stdout).unwrap();
    assert!(text.contains("it did not see everything") && !text.contains("nothing to change"), "{text}");
}

#[test]
fn a_prometheus_that_is_lost_midway_ends_the_run_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    // The first step of the pool's day.
    let proxy = Faulty::at(&format!("start={}", BEGIN + 60), None);
    let run = || proxy.command(&["--state", state.to_str().unwrap()]).output().unwrap();
    let output = run();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let lost = read(&output);
    let why = lost.stopped.as_deref().unwrap();
    assert!(why.starts_with("Prometheus did not answer about the history of llm/"), "{why}");
    assert_eq!((lost.firings.len(), lost.unalerted.len()), (whole().firings.len(), 0));
    assert!(state.exists() && said(&output).contains("the same command continues from there"), "{}", said(&output));

    proxy.mend();
    let output = run();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let resumed = read(&output);
    assert_eq!((resumed.load.resumed, &resumed.stopped), (whole().firings.len(), &None));
    assert_same(&resumed.firings, &whole().firings);
    assert_eq!((&resumed.unalerted, &resumed.limits), (&whole().unalerted, &whole().limits));
    assert!(!state.exists());
}

#[test]
fn a_refused_query_of_a_pool_is_a_limit_and_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    // The replicas of a day; the day's pools are found by another query.
    let proxy = Faulty::at("llm%22%7D%5B1d%5D", REFUSED);
    let output = proxy.command(&["--state", state.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let result = read(&output);
    assert!(proxy.hits() > 0, "{}", said(&output));
    assert_eq!((result.firings.len(), &result.stopped), (whole().firings.len(), &None));
    let limit = result.limits.iter().find(|limit| limit.contains("was not seen")).unwrap();
    assert!(limit.starts_with("llm/") && limit.contains("too much"), "{limit}");
    assert!(!state.exists(), "what is refused is refused again");
}

#[test]
fn a_late_query_does_not_take_a_confirmed_diagnosis_away() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("firings");
    std::fs::write(&file, prompts()).unwrap();
    let proxy = Faulty::at("inter_token_latency_seconds_bucket", UNAVAILABLE);
    let output = proxy.command(&["--firings", file.to_str().unwrap(), "--max-queries", "5"]).output().unwrap();
    let result = read(&output);
    assert!(proxy.hits() > 0, "{}", said(&output));
    let [firing] = &result.firings[..] else { panic!("{result:#?}") };
    assert_eq!(firing.outcome, FiringOutcome::Confirmed, "{firing:#?}");
}

#[test]
fn the_label_of_one_of_two_prometheis_selects_it_and_not_the_firings() {
    let dir = tempfile::tempdir().unwrap();
    let [config, file] = ["config.yaml", "firings"].map(|name| dir.path().join(name));
    let entry = |name: &str, url: &str| json!({ "name": name, "url": url, "labels": { "cluster": name } });
    let both = json!({ "prometheus": [entry("us", "http://127.0.0.1:1"), entry("eu", prometheus())] });
    std::fs::write(&config, both.to_string()).unwrap();
    std::fs::write(&file, prompts()).unwrap();
    let run = |label: &str| {
        let mut command = Command::new(BINARY);
        command.args(["backtest", "--config", config.to_str().unwrap(), "--label", label, "--max-queries", "5"]);
        command.args(["--firings", file.to_str().unwrap(), "--since", "1d", "--until", &END.to_string()]);
        command.args(["--deadline", "1m", "--output", "json"]).stdin(Stdio::null()).output().unwrap()
    };
    let output = run("cluster=eu");
    let result = read(&output);
    assert_eq!((result.firings.len(), &result.limits), (1, &Vec::new()), "{}", said(&output));
    // The first one is not there.
    assert_eq!(run("namespace=llm").status.code(), Some(3));
}

#[test]
fn firings_of_another_time_are_never_nothing_to_change() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("firings");
    std::fs::write(&file, alert("LLMHighTTFT", "high-ttft", -3_000)).unwrap();
    let output = command(&["--firings", file.to_str().unwrap(), "--output", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let none = read(&output);
    assert!(none.limits[0].starts_with("the file has 1 firing, none of them in this range"), "{:?}", none.limits);
    assert_eq!(none.left_out.outside[0].rule, "LLMHighTTFT");
}

/// A resolved alert about the pool, 39 minutes long, which begins at this minute.
fn alert(name: &str, playbook: &str, from: i64) -> String {
    let labels = json!({ "alertname": name, "namespace": "llm", "model_name": MODEL, "playbook": playbook });
    let (starts, ends) = (at(from).to_string(), at(from + 39).to_string());
    json!({ "status": "resolved", "startsAt": starts, "endsAt": ends, "labels": labels }).to_string()
}

/// The alert of the first fault.
fn prompts() -> String {
    alert("LLMHighTTFT", "high-ttft", 246)
}

#[test]
fn used_up_queries_go_on_for_the_same_standard_input_alone() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let prompts = prompts();
    let few = ["--firings", "-", "--state", state.to_str().unwrap(), "--max-queries", "5", "--output", "json"];
    let output = with_input(&few, &prompts);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let partial = read(&output);
    assert!(partial.stopped.as_deref().unwrap().contains("its 5 queries are used up"), "{:?}", partial.stopped);
    assert_eq!(partial.firings.len(), 1, "what has begun is finished");
    let kept = std::fs::read(&state).unwrap();

    let other = with_input(&few, &alert("LLMQueueBuildup", "queue-buildup", 606));
    assert!(!said(&other).contains("going on"), "{}", said(&other));
    assert_eq!(read(&other).firings[0].rule, "LLMQueueBuildup");

    std::fs::write(&state, kept).unwrap();
    let output =
        with_input(&["--quiet", "--firings", "-", "--state", state.to_str().unwrap(), "--output", "json"], &prompts);
    assert!(said(&output).contains("going on with the run about"), "{}", said(&output));
    let whole = read(&output);
    assert_eq!((whole.load.resumed, &whole.stopped), (1, &None));
    assert_same(&whole.firings, &partial.firings);
    assert_eq!(whole.firings[0].chain.last().map(String::as_str), Some("longer-prompts"));
    assert!(!whole.ladders.is_empty() && !state.exists());
}

#[test]
fn a_label_selects_firings_by_what_it_says_about_a_pool() {
    let model = format!("model={MODEL}");
    let team = format!("team={HOSTILE}");
    let output = command(&["--label", &model, "--label", &team, "--output", "json"]).output().unwrap();
    let some = read(&output);
    assert_eq!(some.firings.len(), NOISE.len(), "{}", said(&output));
    assert_eq!(of(&some, "ChatFeelsSlow").len(), NOISE.len());
    assert!(!some.ladders.is_empty(), "the pool of these firings");
    let output = command(&["--label", "namespace=typo", "--output", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let none = read(&output);
    for part in ["no firing about a pool has the labels", "no pool has the labels"] {
        assert!(none.limits.iter().any(|limit| limit.contains(part)), "{:?}", none.limits);
    }
}

#[test]
fn a_result_is_not_written_over_its_own_state() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let file = file.to_str().unwrap();
    let output = command(&["--html", file, "--state", file]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("the same file"), "{}", said(&output));
}
