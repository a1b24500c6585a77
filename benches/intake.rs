//! `make bench`: webhooks a second, the first message against Alertmanager's own Slack receiver, a flood of alerts, and
//! the start with a large store. The fake Slack answers at once.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::path::Path;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::iter;
use llm_diagnose_lab::slack::{Channel, FakeSlack, Message, Options, Outcome, State};
use llm_diagnose_lab::stack::Alertmanager;
use serde_json::{Value, json};
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Executor};

use harness::{CHANNEL, alert, bar, bar_at_least, fleet, memory_mb, ms, send, send_group, serve, share, told};

/// Webhooks of the throughput measurement, each a new group, and the connections that they arrive on.
const WEBHOOKS: usize = 20_000;
const CONNECTIONS: usize = 16;
/// Commits to compare with.
const COMMITS: usize = 1_000;
/// Alerts that Alertmanager tells both receivers.
const ROUNDS: usize = 31;
/// The channel of Alertmanager's own receiver.
const OWN_CHANNEL: &str = "#alertmanager";
/// How often /healthz is asked until the service is ready, in milliseconds; each start is measured no better.
const POLLED_EVERY: f64 = 15.0;
/// The flood.
const GROUPS: usize = 1_000;
const ALERTS_PER_GROUP: usize = 10;
/// Incidents in the store of the last measurement.
const STORED: usize = 100_000;
/// Starts of the last measurement.
const STARTS: usize = 5;

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    sqlx::any::install_default_drivers();
    throughput().await;
    let prometheus = fleet(4, 3_600.0).await;
    println!(
        "\nfrom Alertmanager's API to the first message in Slack, median of {ROUNDS}; no limit of posts, no storm"
    );
    // Nothing listens on port 1: the way of the message alone.
    let (own, ours) = first_message("http://127.0.0.1:1").await;
    told("Alertmanager's own Slack receiver", own, "ms");
    bar("ours after it, while Prometheus cannot be reached", ours - own, 5.0, "ms");
    let (own, ours) = first_message(&prometheus.url).await;
    told("ours after it, with the diagnosis in it", ours - own, "ms");
    flood(&prometheus.url).await;
    large_store().await;
}

/// New groups as fast as 16 connections bring them. For comparison: commits of single rows on the same disk, of which
/// several groups can share one.
async fn throughput() {
    let commits = commits_per_second().await;
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    // Nothing listens on port 1: diagnoses of these groups fail at once.
    let service = serve("http://127.0.0.1:1", &slack, "", "", ("SLACK_APP_TOKEN", "xapp-lab")).await;
    let client = reqwest::Client::new();
    let started = Instant::now();
    let sent = iter(0..WEBHOOKS).map(|number| send(&client, &service, number)).buffer_unordered(CONNECTIONS);
    sent.collect::<Vec<_>>().await;
    let figure = WEBHOOKS as f64 / started.elapsed().as_secs_f64();
    println!(
        "\n{WEBHOOKS} webhooks, each with a new group, on {CONNECTIONS} connections; 200 means flushed to the disk"
    );
    told("commits of one row, one after the other, in the same directory", commits, "/s");
    bar_at_least("webhooks stored", figure, 2_000.0, "/s");
    told("webhooks / commits", figure / commits, "");
    told("memory at most", memory_mb(&service, "VmHWM"), "MB");
}

/// SQLite with a flush for each row.
async fn commits_per_second() -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let mut database = open(&directory.path().join("floor.db"), "rwc").await;
    database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (text TEXT)").await.unwrap();
    let started = Instant::now();
    for _ in 0..COMMITS {
        sqlx::query("INSERT INTO t VALUES ($1)").bind("x".repeat(1_000)).execute(&mut database).await.unwrap();
    }
    COMMITS as f64 / started.elapsed().as_secs_f64()
}

async fn open(file: &Path, mode: &str) -> AnyConnection {
    AnyConnection::connect(&format!("sqlite:{}?mode={mode}", file.display())).await.unwrap()
}

/// One Alertmanager tells each alert to its own Slack receiver and to us, in alternating order. Returns the medians of
/// both in milliseconds.
async fn first_message(prometheus: &str) -> (f64, f64) {
    let options = Options::unlimited().channel(Channel::new("C0OWN", OWN_CHANNEL.trim_start_matches('#')));
    let slack = FakeSlack::start(options).await.unwrap();
    let keys = ", posts_per_second: 1000, posts_burst: 1000, storm: { incidents: 0 }";
    let service = serve(prometheus, &slack, keys, "", ("SLACK_APP_TOKEN", "xapp-lab")).await;
    let route = |first: &str, receiver: &str| json!({ "matchers": [format!("first = {first}")], "receiver": receiver, "continue": true });
    let config = json!({
        "route": {
            "receiver": "ours",
            "group_by": ["alertname"],
            "group_wait": "0s",
            "routes": [route("ours", "ours"), route("ours", "own"), route("own", "own"), route("own", "ours")],
        },
        "receivers": [
            { "name": "ours", "webhook_configs": [{ "url": format!("{}/webhook/alertmanager", service.url) }] },
            { "name": "own", "slack_configs": [{
                "api_url": format!("{}/chat.postMessage", slack.base_url),
                "channel": OWN_CHANNEL,
                "http_config": { "authorization": { "credentials": slack.token } },
            }] },
        ],
    });
    let alertmanager = Alertmanager::builder().config(&config.to_string()).start().await.unwrap();
    let mut ours = Vec::new();
    let mut own = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("LLMFirst{round}End");
        let order = if round % 2 == 0 { "ours" } else { "own" };
        let alert =
            json!({ "labels": { "alertname": name, "namespace": "llm", "severity": "warning", "first": order } });
        let sent = Instant::now();
        alertmanager.post_alerts(&[alert]).await.unwrap();
        let first = |state: &State, channel: &str| {
            let posted = |arguments: &Value| arguments["channel"] == channel && arguments.to_string().contains(&name);
            let mut calls = state.calls().iter().filter(|call| call.method == "chat.postMessage");
            calls.find(|call| call.outcome == Outcome::Ok && posted(&call.args)).map(|call| call.at)
        };
        let both = |state: &State| first(state, CHANNEL).is_some() && first(state, OWN_CHANNEL).is_some();
        slack.wait_for(both, Duration::from_secs(20)).await.unwrap();
        ours.push(slack.with(|state| first(state, CHANNEL)).unwrap().duration_since(sent));
        own.push(slack.with(|state| first(state, OWN_CHANNEL)).unwrap().duration_since(sent));
    }
    (ms(share(&mut own, 0.5)), ms(share(&mut ours, 0.5)))
}

/// Ten thousand alerts at Slack's real rates, then a critical one of another pool.
async fn flood(prometheus: &str) {
    let slack = FakeSlack::start(Options::default()).await.unwrap();
    let service = serve(prometheus, &slack, "", "", ("SLACK_APP_TOKEN", "xapp-lab")).await;
    let client = reqwest::Client::new();
    let started = Instant::now();
    let groups = iter(0..GROUPS).map(|number| {
        let alerts =
            (0..ALERTS_PER_GROUP).map(|n| alert(&format!("Flood{number}"), &format!("pod-{number}-{n}"), "warning"));
        send_group(&client, &service, format!("flood {number}"), alerts.collect())
    });
    groups.buffer_unordered(CONNECTIONS).collect::<Vec<_>>().await;
    let stored = started.elapsed();
    let began = Instant::now();
    let mut critical = alert("CriticalAmongThem", "pod-critical", "critical");
    critical["labels"]["namespace"] = "chat".into();
    send_group(&client, &service, "critical".into(), vec![critical]).await;
    // A digest shows the pool, a message of its own the alert too.
    let tells = |message: &Message| json!([message.content.text, message.content.blocks, message.content.attachments]);
    let shown = |state: &State| {
        let mut messages = state.messages(CHANNEL);
        messages
            .any(|message| ["chat", "CriticalAmongThem"].iter().any(|name| tells(message).to_string().contains(name)))
    };
    let seen = slack.wait_for(shown, Duration::from_secs(120)).await;
    let visible = if seen.is_ok() { began.elapsed().as_secs_f64() } else { f64::INFINITY };
    println!("\n{} alerts in {GROUPS} groups at Slack's rates, then a critical one", GROUPS * ALERTS_PER_GROUP);
    told("all stored after", stored.as_secs_f64(), "s");
    bar("the critical one visible after", visible, 3.0, "s");
    // The digests and diagnoses that follow count too.
    tokio::time::sleep(Duration::from_secs(30)).await;
    bar("memory at most", memory_mb(&service, "VmHWM"), 150.0, "MB");
    bar("rules of Slack's broken", slack.violations().len() as f64, 0.0, "");
}

/// The start with a store of 100,000 incidents, all but one resolved.
async fn large_store() {
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let mut service = serve("http://127.0.0.1:1", &slack, "", "", ("SLACK_APP_TOKEN", "xapp-lab")).await;
    send(&reqwest::Client::new(), &service, 0).await;
    let posted = |state: &State| state.messages(CHANNEL).next().is_some();
    slack.wait_for(posted, Duration::from_secs(20)).await.unwrap();
    service.terminate(Duration::from_secs(20)).await.unwrap();
    multiply(&service.directory().join("state/llm-diagnose.db")).await;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        service.restart().await.unwrap();
        starts.push(started.elapsed());
        service.terminate(Duration::from_secs(20)).await.unwrap();
    }
    println!("\nthe start with {STORED} stored incidents, median of {STARTS}; asked every {POLLED_EVERY} ms");
    bar("ready after", ms(share(&mut starts, 0.5)), 150.0, "ms");
}

/// Copies the only incident, with its alerts, events and deliveries: one ended each second until now.
async fn multiply(file: &Path) {
    let mut database = open(file, "rw").await;
    let numbers = format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {STORED})");
    database.execute("BEGIN").await.unwrap();
    for table in ["incidents", "alerts", "deliveries", "events"] {
        let columns: Vec<(String,)> =
            sqlx::query_as(AssertSqlSafe(format!("SELECT name FROM pragma_table_info('{table}')")))
                .fetch_all(&mut database)
                .await
                .unwrap();
        let values: Vec<String> = columns.iter().map(|(column,)| copied(table, column)).collect();
        let names: Vec<&str> = columns.iter().map(|(column,)| column.as_str()).collect();
        let insert = format!(
            "INSERT INTO {table} ({}) {numbers} SELECT {} FROM n, {table}",
            names.join(", "),
            values.join(", ")
        );
        database.execute(AssertSqlSafe(insert)).await.unwrap();
    }
    database.execute("COMMIT").await.unwrap();
    database.close().await.unwrap();
}

/// What a column of a copy holds.
fn copied(table: &str, column: &str) -> String {
    match (table, column) {
        ("incidents", "id") | (_, "incident_id") => "printf('01JD%022d', i)".into(),
        ("incidents", "group_key") => "'group ' || i".into(),
        ("incidents", "state") => "'resolved'".into(),
        ("incidents", "opened_ms" | "notified_ms") => format!("{column} - 1000 * i"),
        ("incidents", "resolved_ms") => "opened_ms - 1000 * i + 1".into(),
        ("incidents", "diagnose_due_ms") => "NULL".into(),
        ("deliveries", "revision") => "1000000".into(),
        _ => column.into(),
    }
}
