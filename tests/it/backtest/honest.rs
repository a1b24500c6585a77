//! What a backtest says where it could not see, and how it goes on: an empty Prometheus, one that is lost midway, used-up
//! queries, firings from standard input, labels.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::day::{BEGIN, END, HOSTILE, MODEL, NOISE};
use super::{at, command, of, prometheus, read, whole};
use crate::running::BINARY;

/// Forwards connections to a Prometheus until a request has a text; from then on every connection is cut.
struct Cut {
    url: String,
    is_cut: Arc<AtomicBool>,
}

impl Cut {
    fn at(text: &'static str) -> Self {
        let server: SocketAddr = prometheus().trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let is_cut = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if state.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(server).unwrap();
                let (answer_to, answer_from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let state = Arc::clone(&state);
                std::thread::spawn(move || forward(client, server, Some((text, &state))));
                std::thread::spawn(move || forward(answer_from, answer_to, None));
            }
        });
        Self { url, is_cut }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, cut: Option<(&str, &AtomicBool)>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let is_last = cut.is_some_and(|(text, state)| {
            let has_text = buffer[..n].windows(text.len()).any(|window| window == text.as_bytes());
            state.fetch_or(has_text, Ordering::SeqCst) || has_text
        });
        if is_last || to.write_all(&buffer[..n]).is_err() {
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
    let cut = Cut::at(&*format!("start={}", BEGIN + 60).leak());
    let run = || {
        let mut command = Command::new(BINARY);
        command.args(["backtest", "--prometheus", &cut.url, "--since", "1d", "--until", &END.to_string()]);
        command.args(["--state", state.to_str().unwrap(), "--deadline", "1m", "--output", "json"]).output().unwrap()
    };
    let output = run();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let lost = read(&output);
    let why = lost.stopped.as_deref().unwrap();
    assert!(why.starts_with("Prometheus did not answer about the history of llm/"), "{why}");
    assert_eq!((lost.firings.len(), lost.unalerted.len()), (whole().firings.len(), 0));
    assert!(state.exists() && said(&output).contains("the same command goes on from there"), "{}", said(&output));

    cut.is_cut.store(false, Ordering::SeqCst);
    let output = run();
    assert_eq!(output.status.code(), Some(3), "it is cut at the same place: {}", said(&output));
    assert_eq!(read(&output).load.resumed, whole().firings.len());
}

#[test]
fn used_up_queries_go_on_for_the_same_standard_input_alone() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let alert = |name: &str, playbook: &str, from: i64| {
        let labels = json!({ "alertname": name, "namespace": "llm", "model_name": MODEL, "playbook": playbook });
        let (starts, ends) = (at(from).to_string(), at(from + 39).to_string());
        json!({ "status": "resolved", "startsAt": starts, "endsAt": ends, "labels": labels }).to_string()
    };
    let prompts = alert("LLMHighTTFT", "high-ttft", 246);
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
    assert_eq!((whole.load.resumed, &whole.firings, &whole.stopped), (1, &partial.firings, &None));
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
    assert!(none.limits[0].contains("no pool has the labels"), "{:?}", none.limits);
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
