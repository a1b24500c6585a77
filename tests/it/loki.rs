//! Logs from Loki: whole, in order, within their bounds; and a sentence that says what to do when not.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use llm_diagnose_lab::sources::{FakeLoki, Manner};
use logs::{Log, files};
use sources::loki::{Config, Loki, LokiError};

use crate::harness::tls;

/// The begin of the time that is asked for, in nanoseconds.
const BEGIN: i64 = 1_790_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;
const LEFT_OUT: &str = "[llm-diagnose: a part of this log is left out here]";

fn at(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap()
}

fn loki(fake: &FakeLoki) -> Loki {
    tls();
    Loki::new(&Config { url: fake.url.clone(), ..Config::default() }).unwrap()
}

async fn logs(loki: &Loki, pods: &[&str], bytes: u64) -> Result<Vec<Log>, LokiError> {
    let pods: Vec<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    loki.logs(Some("llm"), &pods, at(BEGIN), at(BEGIN + 3_600 * SECOND), bytes, deadline).await
}

fn push(fake: &FakeLoki, pod: &str, stream: &str, at: i64, line: &str) {
    fake.push(&[("namespace", "llm"), ("pod", pod), ("container", "vllm"), ("stream", stream)], at, line);
}

/// What a log says, without the times before its lines and the line that says that a part is left out.
fn lines(log: &Log) -> Vec<&str> {
    log.text.lines().filter(|line| *line != LEFT_OUT).map(|line| line.split_once("Z ").unwrap().1).collect()
}

#[tokio::test]
async fn streams_of_a_container_are_one_log_in_the_order_of_time_with_full_times() {
    let fake = FakeLoki::start().await.unwrap();
    push(&fake, "llama-0", "stdout", BEGIN + 2 * SECOND, "second");
    push(&fake, "llama-0", "stderr", BEGIN + SECOND, "first");
    push(&fake, "llama-0", "stdout", BEGIN + 3 * SECOND, "third");
    push(&fake, "llama-0", "stdout", BEGIN + 3 * SECOND, "third, again");
    push(&fake, "llama-1", "stdout", BEGIN, "other");
    push(&fake, "llama-2", "stdout", BEGIN, "of nobody who was asked for");
    push(&fake, "llama-0", "stdout", BEGIN - 1, "too early");
    let logs = logs(&loki(&fake), &["llama-1", "llama-0"], 1 << 20).await.unwrap();
    let names: Vec<String> = logs.iter().map(Log::name).collect();
    assert_eq!(names, ["llama-0/vllm", "llama-1/vllm"]);
    assert_eq!(lines(&logs[0]), ["first", "second", "third", "third, again"]);
    assert!(logs[0].text.starts_with("2026-09-21T14:13:21Z first\n"), "{}", logs[0].text);
    assert!(logs.iter().all(|log| log.source == "loki" && !log.cut));
}

#[tokio::test]
async fn many_pages_are_read_once_each_and_no_line_is_lost_or_doubled() {
    let fake = FakeLoki::start().await.unwrap();
    fake.most(50);
    // Three lines at each moment, so that pages end within moments.
    for i in 0..600 {
        push(&fake, "llama-0", "stdout", BEGIN + (i / 3) * SECOND, &format!("line {i}"));
    }
    let logs = logs(&loki(&fake), &["llama-0"], 1 << 20).await.unwrap();
    let expected: Vec<String> = (0..600).map(|i| format!("line {i}")).collect();
    assert_eq!(lines(&logs[0]), expected);
    let requests = fake.requests();
    assert!(requests.len() < 20 && requests.iter().all(|request| request.method == "GET"), "{}", requests.len());
}

#[tokio::test]
async fn of_too_much_the_youngest_lines_stay_and_a_talkative_pod_takes_nothing_from_others() {
    let fake = FakeLoki::start().await.unwrap();
    for i in 0..20_000 {
        push(&fake, "loud", "stdout", BEGIN + i * 1_000_000, &format!("line {i:06} {}", "x".repeat(80)));
    }
    push(&fake, "quiet", "stdout", BEGIN, "the only word");
    let logs = logs(&loki(&fake), &["loud", "quiet"], 200 << 10).await.unwrap();
    let [loud, quiet] = logs.as_slice() else { panic!("{}", logs.len()) };
    assert!(loud.cut && loud.text.ends_with(&format!("line 019999 {}\n", "x".repeat(80))));
    // How it was started stands at its beginning.
    let said = lines(loud);
    assert!(said[0].starts_with("line 000000 ") && said[1].starts_with("line 000001 "), "{:?}", &said[..2]);
    assert_eq!(loud.text.lines().filter(|line| *line == LEFT_OUT).count(), 1);
    let said: usize = lines(loud).iter().map(|line| line.len() + 1).sum();
    assert!(said <= 100 << 10 && said > 90 << 10, "{said}");
    assert!(!quiet.cut);
    assert_eq!(lines(quiet), ["the only word"]);
}

#[tokio::test]
async fn a_hundred_pods_share_few_queries() {
    let fake = FakeLoki::start().await.unwrap();
    let pods: Vec<String> = (0..100).map(|i| format!("llama-{i}")).collect();
    for pod in &pods {
        push(&fake, pod, "stdout", BEGIN, "here");
    }
    let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    assert_eq!(logs(&loki(&fake), &pods, 1 << 20).await.unwrap().len(), 100);
    assert!(fake.requests().len() <= 16, "{}", fake.requests().len());
}

#[tokio::test]
async fn hostile_names_ask_for_nothing_but_themselves() {
    let fake = FakeLoki::start().await.unwrap();
    let hostile = "x\"} |= `secret` or {pod=~\".*";
    push(&fake, hostile, "stdout", BEGIN, "its own");
    push(&fake, "llama-0", "stdout", BEGIN, "another's");
    let logs = logs(&loki(&fake), &[hostile, ".*", "a|llama-0"], 1 << 20).await.unwrap();
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert_eq!(lines(&logs[0]), ["its own"]);
}

#[tokio::test]
async fn a_tenant_is_sent_and_a_missing_one_asked_for() {
    let fake = FakeLoki::start().await.unwrap();
    fake.tenant("team-a");
    push(&fake, "llama-0", "stdout", BEGIN, "here");
    assert_eq!(logs(&loki(&fake), &["llama-0"], 1 << 20).await, Err(LokiError::NoTenant));
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "planted\n").unwrap();
    let config = Config {
        url: fake.url.clone(),
        headers: [("X-Scope-OrgID".to_owned(), "team-a".to_owned())].into(),
        bearer_token_file: Some(token),
        ..Config::default()
    };
    let loki = Loki::new(&config).unwrap();
    assert_eq!(logs(&loki, &["llama-0"], 1 << 20).await.unwrap().len(), 1);
    assert_eq!(fake.requests().last().unwrap().header("authorization"), Some("Bearer planted"));
    assert!(!format!("{loki:?}").contains("planted"));
}

#[tokio::test]
async fn whatever_goes_wrong_is_a_sentence_that_says_what_to_do() {
    let limit = "max query length exceeded: the query time range exceeds the limit (query length: 800h, limit: 721h)";
    for (manner, sentence) in [
        (Manner::Status(401, String::new()), "refuses us (HTTP 401): set `bearer_token_file`"),
        (Manner::Status(400, limit.to_owned()), "ask for a shorter time, or raise the limit there"),
        (Manner::Status(429, "too many outstanding requests".to_owned()), "too much to do (HTTP 429)"),
        (Manner::Status(500, "context canceled".to_owned()), "Loki answered HTTP 500: context canceled"),
        (Manner::Status(404, "404 page not found".to_owned()), "the answer is not Loki's: HTTP 404"),
        (Manner::Redirect("http://169.254.169.254/".to_owned()), "it is a redirect (HTTP 307), which is not followed"),
        (Manner::Login, "the answer is not Loki's"),
        (Manner::Garbage, "the answer is not Loki's"),
        (Manner::Cut, "the answer is not Loki's"),
        (Manner::Huge(64 << 20), "sent more than 8 MiB for 31 lines"),
    ] {
        let fake = FakeLoki::start().await.unwrap();
        fake.behave(manner.clone());
        let error = logs(&loki(&fake), &["llama-0"], 1 << 20).await.unwrap_err().to_string();
        assert!(error.contains(sentence), "{manner:?}: {error}");
    }
    let gone = Config { url: "http://ann:quiet@127.0.0.1:1/harbour?key=deep".into(), ..Config::default() };
    let error = logs(&Loki::new(&gone).unwrap(), &["llama-0"], 1).await.unwrap_err().to_string();
    assert_eq!(error, "Loki cannot be reached: Connection refused (http://127.0.0.1:1)");
}

#[tokio::test]
async fn one_that_hangs_or_drips_ends_at_the_deadline() {
    for manner in [Manner::Hang, Manner::Drip] {
        let fake = FakeLoki::start().await.unwrap();
        fake.behave(manner);
        let loki = loki(&fake);
        let started = Instant::now();
        let deadline = started + Duration::from_secs(1);
        let outcome = loki.logs(Some("llm"), &["a".to_owned()], at(BEGIN), at(BEGIN + SECOND), 1, deadline).await;
        assert_eq!(outcome, Err(LokiError::Late));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn what_came_before_a_failure_is_kept_and_the_rest_named() {
    let fake = FakeLoki::start().await.unwrap();
    for i in 0..4_000 {
        push(&fake, "llama-0", "stdout", BEGIN + i * SECOND / 2, &format!("line {i}"));
    }
    fake.behave_after(1, Manner::Status(500, "context deadline exceeded".to_owned()));
    let error = logs(&loki(&fake), &["llama-0"], 1 << 20).await.unwrap_err();
    let said = error.to_string();
    assert_eq!(said, "some logs are missing (llama-0): Loki answered HTTP 500: context deadline exceeded");
    let logs = error.into_logs();
    assert!(logs[0].cut && logs[0].text.ends_with("line 3999\n"));
}

#[tokio::test]
async fn labels_that_nobody_has_are_named_with_those_there_are() {
    let fake = FakeLoki::start().await.unwrap();
    fake.push(&[("namespace", "llm"), ("k8s_pod_name", "llama-0")], BEGIN, "here");
    let error = logs(&loki(&fake), &["llama-0"], 1 << 20).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "Loki has no streams with the label `pod`: set `pod` of `loki:` to one of k8s_pod_name, namespace"
    );
    // A pod that said nothing is no error.
    let fake = FakeLoki::start().await.unwrap();
    push(&fake, "llama-1", "stdout", BEGIN, "here");
    assert_eq!(logs(&loki(&fake), &["llama-0"], 1 << 20).await, Ok(Vec::new()));
    loki(&fake).ready(Instant::now() + Duration::from_secs(5)).await.unwrap();
}

// ---- files

#[test]
fn files_and_directories_are_read_and_of_large_ones_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("llama-0.log"), "first\nsecond\n").unwrap();
    std::fs::write(path("vllm.txt"), (0..10_000).map(|i| format!("line {i}\n")).collect::<String>()).unwrap();
    std::fs::write(path("image.png"), "no log").unwrap();
    std::fs::create_dir(path("deeper.log")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, (0..10_000).map(|i| format!("packed {i}\n")).collect::<String>().as_bytes())
        .unwrap();
    std::fs::write(path("old.log.gz"), packed.finish().unwrap()).unwrap();
    let (logs, missing) = files::read(&[dir.path().to_owned()], 4_000);
    assert_eq!(missing, []);
    let seen: Vec<(&str, Option<&str>, bool)> =
        logs.iter().map(|log| (log.source.as_str(), log.pod.as_deref(), log.cut)).collect();
    assert_eq!(seen, [("llama-0.log", Some("llama-0"), false), ("old.log.gz", None, true), ("vllm.txt", None, true)]);
    assert_eq!(logs[0].text, "first\nsecond\n");
    for (log, word) in [(&logs[1], "packed"), (&logs[2], "line")] {
        assert!(log.text.starts_with(word) && log.text.ends_with(&format!("{word} 9999\n")), "{}", log.text);
    }
    assert!(logs.iter().map(|log| log.text.len()).sum::<usize>() <= 4_000);
}

#[cfg(unix)]
#[test]
fn what_is_no_ordinary_text_is_refused_with_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("real.log"), "x\n").unwrap();
    std::os::unix::fs::symlink(path("real.log"), path("link.log")).unwrap();
    std::os::unix::fs::symlink("/etc", path("away")).unwrap();
    std::fs::write(path("binary.log"), b"\x7fELF\0\0\0").unwrap();
    std::fs::write(path("odd.gz"), "not packed").unwrap();
    std::fs::create_dir(path("empty")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(path("pipe.log")).status().unwrap();
    assert!(fifo.success());
    for (given, sentence) in [
        (path("link.log"), "is a symbolic link, which is not followed: name the file it leads to"),
        (path("away"), "is a symbolic link"),
        (path("pipe.log"), "is a pipe, a socket or a device, and no file"),
        ("/dev/zero".into(), "is a pipe, a socket or a device, and no file"),
        (path("binary.log"), "is no text"),
        (path("odd.gz"), "is no whole .gz file"),
        (path("empty"), "has no file that ends in .log, .txt or .gz"),
        ("-".into(), "there is no such file"),
    ] {
        let (logs, missing) = files::read(std::slice::from_ref(&given), 1 << 20);
        assert!(logs.is_empty(), "{logs:?}");
        assert!(missing[0].reason.as_str().contains(sentence), "{missing:?}");
    }
    // Bytes that are no UTF-8 do not make a log unreadable.
    std::fs::write(path("latin.log"), b"Gr\xfc\xdfe\n").unwrap();
    let (logs, _) = files::read(&[path("latin.log")], 1 << 20);
    assert_eq!(logs[0].text, "Gr\u{fffd}\u{fffd}e\n");
}

#[test]
fn a_packed_file_that_never_ends_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &vec![b'a'; 16 << 20]).unwrap();
    // Members may follow each other: 65 times 16 MiB.
    std::fs::write(&path, packed.finish().unwrap().repeat(65)).unwrap();
    let (logs, missing) = files::read(&[path], 1 << 20);
    assert_eq!(logs, []);
    assert!(missing[0].reason.as_str().starts_with("unpacks to more than 1 GiB"), "{missing:?}");
}
