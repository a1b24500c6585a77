//! `make bench`: three replicas on one PostgreSQL behind nginx, against one replica: webhooks a second, messages, and how
//! soon the work of a killed replica is taken over. The fake Slack answers at once.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::iter;
use llm_diagnose::clock;
use llm_diagnose_lab::slack::{Failure, FakeSlack, Options, State};
use llm_diagnose_lab::stack::{Nginx, Postgres, Service};
use serde_json::{Value, json};

use harness::{CHANNEL, bar, bar_at_least, group, ms, serve, share, told};

/// Webhooks of the throughput measurement, each a new group, and the connections that they arrive on.
const WEBHOOKS: usize = 3_000;
const CONNECTIONS: usize = 16;
/// New groups a minute of the steady load, and its minutes.
const PER_MINUTE: u32 = 1_000;
const MINUTES: u32 = 2;
/// Posts that the killed replica has begun.
const BEGUN: usize = 8;
/// The most time that all messages of a measurement may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// What is measured is the replicas, not Slack's rates.
const UNLIMITED: &str =
    ", posts_per_second: 1000, posts_burst: 1000, updates_per_minute: 60000, storm: { incidents: 0 }";
const NGINX: &str = include_str!("../config/nginx/llm-diagnose.conf");

/// Replicas on a database of their own, with the one address that all are reached by.
struct Site {
    replicas: Vec<Service>,
    /// The proxy, if there is more than one replica.
    nginx: Option<Nginx>,
    slack: FakeSlack,
    http: reqwest::Client,
    _postgres: Postgres,
}

impl Site {
    async fn start(replicas: usize) -> Self {
        let postgres = Postgres::start().unwrap();
        let address = postgres.file(&postgres.url()).unwrap();
        let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
        let database = format!("database: {{ url_file: {} }}", address.path().display());
        let mut started = Vec::new();
        for _ in 0..replicas {
            // Nothing listens on port 1: the way of the message alone.
            let secret = ("SLACK_APP_TOKEN", "xapp-lab");
            started.push(serve("http://127.0.0.1:1", &slack, UNLIMITED, &database, secret).await);
        }
        let nginx = match started.len() {
            1 => None,
            _ => Some(before(&started).await),
        };
        Self { replicas: started, nginx, slack, http: reqwest::Client::new(), _postgres: postgres }
    }

    fn url(&self) -> &str {
        self.nginx.as_ref().map_or(self.replicas[0].url.as_str(), |nginx| nginx.url.as_str())
    }

    async fn send(&self, group: &Value) {
        let url = format!("{}/webhook/alertmanager", self.url());
        let answer = self.http.post(url).json(group).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }

    /// Waits until there are so many messages; returns false if they do not come.
    async fn messages(&self, many: usize) -> bool {
        let all = |state: &State| state.messages(CHANNEL).filter(|m| m.thread_ts.is_none()).count() >= many;
        self.slack.wait_for(all, PATIENCE).await.is_ok()
    }

    /// Returns how many incidents have more than one message.
    fn doubled(&self) -> usize {
        let mut of: BTreeMap<String, usize> = BTreeMap::new();
        for message in self.slack.messages(CHANNEL).into_iter().filter(|m| m.thread_ts.is_none()) {
            let text = json!([message.content.text, message.content.blocks, message.content.attachments]).to_string();
            let number: String = text
                .split_once("LLMHighTTFT")
                .map_or("", |(_, rest)| rest)
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            *of.entry(number).or_default() += 1;
        }
        of.into_values().filter(|n| *n > 1).count()
    }
}

/// What is shipped for nginx, before these replicas.
async fn before(replicas: &[Service]) -> Nginx {
    let listen = NGINX.replace("listen 9095;", "listen 127.0.0.1:$PORT;");
    let directives = replicas.iter().enumerate().fold(listen, |text, (i, replica)| {
        text.replace(&format!("10.0.0.1{}:9095", i + 1), &format!("127.0.0.1:{}", replica.port()))
    });
    Nginx::start(&directives, "/healthz", &[]).await.unwrap()
}

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    println!("\n{WEBHOOKS} webhooks, each with a new group, on {CONNECTIONS} connections, on PostgreSQL");
    let one = throughput(&Site::start(1).await).await;
    told("stored by one replica", one, "/s");
    let site = Site::start(3).await;
    let three = throughput(&site).await;
    told("stored by three behind nginx, on the same cores", three, "/s");
    bar_at_least("three against one", three / one, 0.5, "");
    bar("incidents with a second message", site.doubled() as f64, 0.0, "");
    drop(site);
    steady().await;
    takeover().await;
}

/// New groups as fast as the connections bring them; then waits for the message of each.
async fn throughput(site: &Site) -> f64 {
    let started = Instant::now();
    let sent = iter(0..WEBHOOKS).map(async |number| site.send(&group(number)).await).buffer_unordered(CONNECTIONS);
    sent.collect::<Vec<()>>().await;
    let figure = WEBHOOKS as f64 / started.elapsed().as_secs_f64();
    assert!(site.messages(WEBHOOKS).await, "not every incident has a message");
    told("all messages posted, a second", WEBHOOKS as f64 / started.elapsed().as_secs_f64(), "/s");
    figure
}

/// A new group every 60 milliseconds, to three replicas.
async fn steady() {
    let site = Site::start(3).await;
    let total = (PER_MINUTE * MINUTES) as usize;
    let mut tick = tokio::time::interval(Duration::from_secs(60) / PER_MINUTE);
    let mut sent = Vec::with_capacity(total);
    for number in 0..total {
        tick.tick().await;
        sent.push(Instant::now());
        site.send(&group(number)).await;
    }
    assert!(site.messages(total).await, "not every incident has a message");
    let mut waits: Vec<Duration> = site.slack.with(|state| {
        let calls = state.calls().iter().filter(|call| call.method == "chat.postMessage");
        let number = |text: &str| -> Option<usize> {
            let rest = text.split_once("LLMHighTTFT")?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        calls.filter_map(|call| Some(call.at.duration_since(*sent.get(number(&call.args.to_string())?)?))).collect()
    });
    println!("\n{PER_MINUTE} new groups a minute for {MINUTES} minutes, three replicas on PostgreSQL behind nginx");
    told("from the webhook to the first message, median", ms(share(&mut waits, 0.5)), "ms");
    bar("from the webhook to the first message, 99 %", ms(share(&mut waits, 0.99)) / 1e3, 5.0, "s");
    bar("incidents with a second message", site.doubled() as f64, 0.0, "");
}

/// A replica is killed while its posts hang in Slack; the others post them.
async fn takeover() {
    let mut site = Site::start(3).await;
    site.slack.fail_next("chat.postMessage", Failure::Hang, BEGUN);
    let first = format!("{}/webhook/alertmanager", site.replicas[0].url);
    for number in 0..BEGUN {
        let answer = site.http.post(&first).json(&group(number)).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "at {}", clock::now());
    }
    let begun = |s: &State| s.calls().iter().filter(|call| call.method == "chat.postMessage").count() >= BEGUN;
    site.slack.wait_for(begun, PATIENCE).await.unwrap();
    site.replicas[0].kill9().await.unwrap();
    let killed = Instant::now();
    assert!(site.messages(BEGUN).await, "nobody took over");
    println!("\na replica of three is killed while {BEGUN} posts of it hang in Slack");
    bar("all posted by the others after", killed.elapsed().as_secs_f64(), 15.0, "s");
    bar("incidents with a second message", site.doubled() as f64, 0.0, "");
}
