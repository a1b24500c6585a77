//! Parts of the benchmarks: a fleet in a real Prometheus, the product beside a fake Slack, and the printed lines.
#![allow(dead_code, reason = "no benchmark uses all of it")]

use std::path::Path;
use std::time::Duration;

use knowledge::clock;
use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::slack::FakeSlack;
use llm_diagnose_lab::stack::{Prometheus, Service};
use serde_json::{Value, json};

/// The program that is measured.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_llm-diagnose");
/// Where messages go.
pub(crate) const CHANNEL: &str = "#llm-alerts";
/// The fault at the end of the simulated past, in seconds.
pub(crate) const FAULT: f64 = 600.0;

/// A figure against its bar.
pub(crate) fn bar(what: &str, figure: f64, most: f64, unit: &str) {
    let word = if figure <= most { "ok" } else { "MISSED" };
    println!("  {what:<58} {figure:>8.2} {unit:<3} bar {most:>5} {unit:<3} {word}");
}

/// A figure that is to be at least its bar.
pub(crate) fn bar_at_least(what: &str, figure: f64, least: f64, unit: &str) {
    let word = if figure >= least { "ok" } else { "MISSED" };
    println!("  {what:<58} {figure:>8.2} {unit:<3} bar {least:>5} {unit:<3} {word}");
}

/// A figure that has no bar.
pub(crate) fn told(what: &str, figure: f64, unit: &str) {
    println!("  {what:<58} {figure:>8.2} {unit}");
}

/// In milliseconds.
pub(crate) fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// The time that so large a share took at most; sorts.
pub(crate) fn share(times: &mut [Duration], share: f64) -> Duration {
    times.sort();
    times[((times.len() - 1) as f64 * share) as usize]
}

/// Memory of the program in MB. `VmRSS` is now, `VmHWM` the most so far; source: proc(5), in KiB, which it calls kB.
pub(crate) fn memory_mb(service: &Service, which: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id().unwrap())).unwrap();
    let line = status.lines().find(|l| l.starts_with(which)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1.024e-3
}

/// A fleet that has just begun to suffer, after so many seconds of health.
pub(crate) async fn fleet(replicas: usize, seconds: f64) -> Prometheus {
    let now = clock::now().as_second() as f64;
    let mut fleet = Fleet::new(FleetSpec::sized(replicas), 7, now - seconds).unwrap();
    let mut history = History::new(15.0);
    history.record(&mut fleet, now - FAULT);
    fleet.inject("longer-prompts".parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, now);
    let file = tempfile::NamedTempFile::new().unwrap();
    history.write(std::io::BufWriter::new(file.as_file())).unwrap();
    Prometheus::builder().backfill(file.path()).start().await.unwrap()
}

/// The product; `keys` are more of the key `slack:`, `extra` more lines, `secret` opens Slack's way in.
pub(crate) async fn serve(
    prometheus: &str,
    slack: &FakeSlack,
    keys: &str,
    extra: &str,
    (secret, value): (&str, &str),
) -> Service {
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\npages: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"{prometheus}\" }}]\nslack: {{ api_url: \"{}\", \
         channel: \"{CHANNEL}\"{keys} }}\n{extra}\n",
        slack.base_url
    );
    Service::builder(Path::new(BINARY))
        .args(["serve", "--config", "$CONFIG"])
        .env("SLACK_BOT_TOKEN", &slack.token)
        .env(secret, value)
        .config(&config)
        .ready_path("/healthz")
        .start()
        .await
        .unwrap()
}

/// An alert that fires, as Alertmanager sends it.
pub(crate) fn alert(name: &str, pod: &str, severity: &str) -> Value {
    json!({ "status": "firing", "labels": { "alertname": name, "namespace": "llm", "pod": pod, "severity": severity },
        "annotations": { "summary": "first tokens are late" }, "startsAt": clock::now(),
        "endsAt": "0001-01-01T00:00:00Z", "fingerprint": format!("{name}/{pod}") })
}

/// One group that fires, as Alertmanager sends it.
pub(crate) fn group(number: usize) -> Value {
    let name = format!("LLMHighTTFT{number}");
    json!({
        "version": "4", "groupKey": format!("{{}}:{{alertname=\"{name}\"}}"), "status": "firing", "receiver": "r",
        "alerts": [{ "status": "firing", "labels": { "alertname": name, "namespace": "llm", "severity": "critical" },
            "annotations": { "summary": "first tokens are late" }, "startsAt": clock::now(),
            "endsAt": "0001-01-01T00:00:00Z", "fingerprint": name }],
    })
}

/// Hands the group of a number to the webhook.
pub(crate) async fn send(client: &reqwest::Client, service: &Service, number: usize) {
    post(client, service, &group(number)).await;
}

/// Hands a group of these alerts to the webhook.
pub(crate) async fn send_group(client: &reqwest::Client, service: &Service, key: String, alerts: Vec<Value>) {
    let group = json!({ "version": "4", "groupKey": key, "status": "firing", "receiver": "r", "alerts": alerts });
    post(client, service, &group).await;
}

async fn post(client: &reqwest::Client, service: &Service, group: &Value) {
    let url = format!("{}/webhook/alertmanager", service.url);
    let answer = client.post(url).json(group).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}
