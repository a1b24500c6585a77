//! `make bench`: how fast Slack is answered while a storm is delivered, and how fast a message is rendered.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

use std::path::Path;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::iter;
use llm_diagnose::alert::AlertGroup;
use llm_diagnose::clock;
use llm_diagnose::diagnose::{Baseline, Diagnosis, Request, Scope, diagnose};
use llm_diagnose::playbook;
use llm_diagnose::prom;
use llm_diagnose::render::{self, IncidentView, Words};
use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::slack::{FakeSlack, Options};
use llm_diagnose_lab::stack::{Prometheus, Service};
use ring::hmac;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_llm-diagnose");
/// Commands, and how many at once.
const COMMANDS: usize = 1_000;
const AT_ONCE: usize = 50;
/// Groups that begin to fire while the commands come.
const STORM: usize = 200;
const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
/// Renderings of one message.
const RENDERINGS: u32 = 500;
/// Of the simulated past, and of the fault at its end, in seconds.
const HISTORY: f64 = 3_600.0;
const FAULT: f64 = 600.0;

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let prometheus = history().await;
    rendering(&prometheus).await;
    acks(&prometheus).await;
}

fn bar(what: &str, figure: f64, most: f64, unit: &str) {
    let word = if figure <= most { "ok" } else { "MISSED" };
    println!("{what:<44} {figure:>8.2}{unit} (bar {most}{unit}: {word})");
}

async fn history() -> Prometheus {
    let now = clock::now().as_second() as f64;
    let mut fleet = Fleet::new(FleetSpec::sized(4), 7, now - HISTORY).unwrap();
    let mut history = History::new(15.0);
    history.record(&mut fleet, now - FAULT);
    fleet.inject("longer-prompts".parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, now);
    let file = tempfile::NamedTempFile::new().unwrap();
    history.write(std::io::BufWriter::new(file.as_file())).unwrap();
    Prometheus::builder().backfill(file.path()).start().await.unwrap()
}

/// One group that fires, as Alertmanager sends it.
fn group(number: usize) -> Value {
    let name = format!("LLMHighTTFT{number}");
    json!({
        "version": "4", "groupKey": format!("{{}}:{{alertname=\"{name}\"}}"), "status": "firing", "receiver": "r",
        "alerts": [{ "status": "firing", "labels": { "alertname": name, "namespace": "llm", "severity": "critical" },
            "annotations": { "summary": "first tokens are late" }, "startsAt": clock::now(),
            "endsAt": "0001-01-01T00:00:00Z", "fingerprint": name }],
    })
}

async fn diagnosis(prometheus: &Prometheus) -> Diagnosis {
    let library = playbook::load(None).unwrap();
    let client =
        prom::Prometheus::new(&prom::Config { url: prometheus.url.clone(), ..prom::Config::default() }).unwrap();
    let request = Request {
        playbook: "high-ttft".into(),
        scope: Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into()),
        at: clock::now(),
        since: None,
        window: Duration::from_secs(300),
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: Duration::from_secs(10),
    };
    diagnose(&library, &client, &request).await
}

/// An incident's message, from the diagnosis to the JSON for Slack.
async fn rendering(prometheus: &Prometheus) {
    let diagnosis = diagnosis(prometheus).await;
    assert!(diagnosis.root().is_some(), "the simulated fault has a cause");
    let body = serde_json::to_vec(&group(0)).unwrap();
    let alerts = AlertGroup::from_webhook(&body).unwrap().alerts;
    let words = Words::english();
    let view = IncidentView {
        id: "01JD0000000000000000000000",
        alerts: &alerts,
        diagnosis: Some(&diagnosis),
        because: Some("alert name"),
        reason: "first",
        interactive: true,
        ..IncidentView::default()
    };
    let started = Instant::now();
    let mut bytes = 0;
    for _ in 0..RENDERINGS {
        let message = render::slack(&render::incident_message(&view, &words));
        bytes = message.text.len() + serde_json::to_vec(&message.attachments).unwrap().len();
    }
    let each = started.elapsed().as_secs_f64() * 1e3 / f64::from(RENDERINGS);
    bar(&format!("a message of {bytes} bytes rendered in"), each, 2.0, " ms");
}

/// Signed commands while a storm is stored, diagnosed and delivered.
async fn acks(prometheus: &Prometheus) {
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nprometheus: [{{ url: \"{}\" }}]\nslack: {{ api_url: \"{}\", \
         transport: http, channel: \"#llm-alerts\", storm: {{ incidents: 0, within: 5m }}, posts_per_second: 20, \
         commands_per_minute: [100000, 100000, 100000] }}\n",
        prometheus.url, slack.base_url
    );
    let service = Service::builder(Path::new(BINARY))
        .args(["serve", "--config", "$CONFIG"])
        .env("SLACK_BOT_TOKEN", &slack.token)
        .env("SLACK_SIGNING_SECRET", SECRET)
        .config(&config)
        .ready_path("/healthz")
        .start()
        .await
        .unwrap();
    let client = reqwest::Client::new();
    let webhook = format!("{}/webhook/alertmanager", service.url);
    let storm = iter(0..STORM).map(|number| {
        let call = client.post(&webhook).json(&group(number)).send();
        async move { call.await.unwrap().error_for_status().unwrap() }
    });
    let commands = iter(0..COMMANDS).map(|number| command(&client, &service.url, &slack.base_url, number));
    let (_, mut times) = tokio::join!(
        storm.buffer_unordered(20).collect::<Vec<_>>(),
        commands.buffer_unordered(AT_ONCE).collect::<Vec<_>>()
    );
    times.sort();
    let p = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{COMMANDS} signed commands, {AT_ONCE} at once, beside {STORM} new incidents: p50 {:.1} ms", p(0.5));
    bar("acknowledged, p99", p(0.99), 100.0, " ms");
    let all = slack.wait_for(|s| s.messages("#llm-alerts").count() >= STORM, Duration::from_secs(60)).await;
    let shown = slack.with(|s| s.messages("#llm-alerts").filter(|m| m.thread_ts.is_none()).count());
    println!("of the storm {shown} of {STORM} messages stand in Slack ({})", if all.is_ok() { "ok" } else { "MISSED" });
}

async fn command(client: &reqwest::Client, url: &str, slack: &str, number: usize) -> Duration {
    let at = clock::now().as_second().to_string();
    let fields = [
        ("command", "/llm-diagnose".to_owned()),
        ("text", "help".to_owned()),
        ("user_id", format!("U0{number}")),
        ("team_id", "T0LAB".to_owned()),
        ("channel_id", "C0ALERTS".to_owned()),
        ("trigger_id", format!("{number}.1")),
        ("response_url", format!("{slack}/response/{number}")),
    ];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{at}:{body}").as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let request = client
        .post(format!("{url}/slack/commands"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("x-slack-request-timestamp", at)
        .header("x-slack-signature", format!("v0={signature}"))
        .body(body);
    let sent = Instant::now();
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let _ = answer.bytes().await;
    sent.elapsed()
}
