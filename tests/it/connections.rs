//! Strangers hold connections and say nothing: the webhook and the probes answer all the same.

use std::path::Path;
use std::time::Duration;

use llm_diagnose_lab::stack::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::running::{BINARY, Running, SOON, group, tls};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
/// A request's head that never ends, and a body that never comes.
const HALF_HEAD: &str = "POST /webhook/alertmanager HTTP/1.1\r\nHost: h\r\nContent-";
const HALF_BODY: &str =
    "POST /webhook/alertmanager HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{";

#[tokio::test]
async fn callers_of_readyz_who_hang_up_do_not_ask_slack_each_time() {
    let run = Running::start(NOWHERE).await;
    let asked = || run.slack.with(|slack| slack.count("auth.test"));
    let before = asked();
    run.slack.configure(|options| options.latency = Duration::from_millis(300));
    for _ in 0..20 {
        let request = run.http.get(format!("{}/readyz", run.service.url)).timeout(Duration::from_millis(10));
        // What is known already may come in time.
        let _ = request.send().await;
    }
    assert!(run.get("/readyz").await.0 == 200 && asked() - before <= 1, "{} calls", asked() - before);
}

/// The service with at most `files` open files.
async fn start(files: u32, extra: &str) -> Service {
    tls();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\n{NOWHERE}\n{extra}\n"
    );
    let limited = format!("ulimit -n {files}; exec \"$0\" serve --config \"$1\"");
    Service::start(Path::new("/bin/sh"), &["-c", &limited, BINARY, "$CONFIG"], &[], &config).await.unwrap()
}

/// Opens `n` connections that send `text` and then nothing.
async fn strangers(service: &Service, n: usize, text: &str) -> Vec<TcpStream> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        let mut stream = TcpStream::connect(("127.0.0.1", service.port())).await.unwrap();
        // Who is closed at once cannot write, and that is as well.
        let _ = stream.write_all(text.as_bytes()).await;
        out.push(stream);
    }
    out
}

/// Waits until the service has closed the connection; what it sent before does not count.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // Reset counts as closed.
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.expect("the service closes it");
}

/// The webhook stores and the probes answer, each on a connection of its own.
async fn answers(service: &Service) {
    let http = reqwest::Client::builder().timeout(SOON).pool_max_idle_per_host(0).build().unwrap();
    let body = group("LLMHighTTFT", "firing", "warning", &["a"]);
    let webhook = http.post(format!("{}/webhook/alertmanager", service.url)).json(&body).send().await.unwrap();
    assert_eq!(webhook.status(), 200, "{}", service.stderr());
    let alive = http.get(format!("{}/healthz", service.url)).send().await.unwrap();
    assert_eq!((alive.status().as_u16(), alive.text().await.unwrap().as_str()), (200, "ok\n"));
}

async fn metric(service: &Service, name: &str) -> f64 {
    let page = reqwest::get(format!("{}/metrics", service.url)).await.unwrap().text().await.unwrap();
    let line = page.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

#[tokio::test]
async fn half_sent_requests_and_idle_connections_beyond_the_open_files_do_not_stop_the_webhook() {
    // The limits of time are far away: only giving way helps.
    let service = start(300, "http: { header_timeout: 10m, body_timeout: 10m, idle_timeout: 10m }").await;
    for text in ["", HALF_HEAD, HALF_BODY] {
        let held = strangers(&service, 400, text).await;
        answers(&service).await;
        drop(held);
    }
    assert!(metric(&service, "llm_diagnose_http_connections_cut_total{result=\"gave_way\"}").await > 400.0);
    let log = service.stderr();
    assert!(log.contains("fewer connections than `http.connections`"), "{log}");
    assert_eq!(log.matches("the limit of connections is reached").count(), 1, "said once a minute\n{log}");
}

#[tokio::test]
async fn half_sent_requests_beyond_the_usual_limit_of_open_files_do_not_stop_the_webhook() {
    // What a shell allows a process: 1,024 open files. Heads and bodies that never end, all held at once.
    let service = start(1_024, "http: { header_timeout: 10m, body_timeout: 10m, idle_timeout: 10m }").await;
    let heads = strangers(&service, 600, HALF_HEAD).await;
    let bodies = strangers(&service, 500, HALF_BODY).await;
    answers(&service).await;
    assert_eq!(heads.len() + bodies.len(), 1_100);
    assert!(metric(&service, "llm_diagnose_http_connections ").await < 1_024.0);
    assert!(metric(&service, "llm_diagnose_http_connections_cut_total{result=\"gave_way\"}").await > 100.0);
}

#[tokio::test]
async fn more_half_sent_requests_than_the_configured_connections_do_not_stop_the_webhook() {
    let service = start(4_096, "http: { connections: 50, header_timeout: 10m, body_timeout: 10m }").await;
    let _held = strangers(&service, 300, HALF_HEAD).await;
    answers(&service).await;
    assert!(metric(&service, "llm_diagnose_http_connections ").await <= 50.0);
}

#[tokio::test]
async fn silence_in_a_head_a_body_or_between_requests_ends_a_connection_in_time() {
    let limits = "http: { header_timeout: 300ms, body_timeout: 300ms, idle_timeout: 300ms }";
    let service = start(4_096, limits).await;
    let whole = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
    for (text, why) in [("", "header_late"), (HALF_HEAD, "header_late"), (HALF_BODY, "body_late"), (whole, "idle")] {
        let name = format!("llm_diagnose_http_connections_cut_total{{result=\"{why}\"}}");
        let before = metric(&service, &name).await;
        for stream in &mut strangers(&service, 3, text).await {
            closed(stream).await;
        }
        assert!(metric(&service, &name).await >= before + 3.0, "{why}");
    }
    answers(&service).await;
}

#[tokio::test]
async fn a_half_sent_request_does_not_hold_the_stop() {
    let mut service = start(4_096, "http: { header_timeout: 10m }").await;
    let _held = strangers(&service, 5, HALF_HEAD).await;
    let end = service.terminate(Duration::from_secs(15)).await.unwrap();
    assert!(end.success(), "{}", service.stderr());
    assert!(!service.stderr().contains("some requests were cut off"), "{}", service.stderr());
}
