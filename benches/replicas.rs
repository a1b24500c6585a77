//! `make bench`: three replicas on one PostgreSQL behind nginx, against one replica: webhooks a second, also where the database
//! is far and not the processor is what lacks, a thousand new groups a minute at Slack's rates, and how soon the work of a
//! killed replica is taken over. `cargo bench --bench replicas -- throughput` measures only the first two.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::iter;
use knowledge::clock;
use llm_diagnose_lab::slack::{Failure, FakeSlack, Options, State};
use llm_diagnose_lab::stack::{Nginx, Postgres, Service};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use harness::{CHANNEL, bar, bar_at_least, group, ms, serve, share, told};

/// Webhooks of the throughput measurement, each a new group, and the connections that they arrive on.
const WEBHOOKS: usize = 2_000;
const CONNECTIONS: usize = 16;
/// The way to the far database and back.
const FAR: Duration = Duration::from_millis(20);
/// Connections to each replica with the far database: more than two transactions take.
const FAR_CONNECTIONS: usize = 128;
/// Webhooks to each replica with the far database.
const FAR_WEBHOOKS: usize = 1_500;
/// New groups of the steady load, all within a minute.
const PER_MINUTE: u32 = 1_000;
/// Posts that the killed replica has begun.
const BEGUN: usize = 8;
/// The most time that all messages of a measurement may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Deliveries that are not up to date, among the service's metrics; housekeeping counts them every five seconds.
const WAITING: &str = "llm_diagnose_delivery_queue_depth ";
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
    /// The socket of the far database.
    _far: Option<TempDir>,
}

impl Site {
    /// Starts so many replicas beside a Slack with these limits; `keys` are more of the key `slack:`.
    async fn start(replicas: usize, limits: Options, keys: &str) -> Self {
        Self::start_at(replicas, limits, keys, None).await
    }

    /// The way to the database and back takes so long.
    async fn start_at(replicas: usize, limits: Options, keys: &str, away: Option<Duration>) -> Self {
        let postgres = Postgres::start().unwrap();
        let far = away.map(|away| far(postgres.socket(), away / 2));
        let near = postgres.socket();
        let host = far.as_ref().map_or(near.parent().unwrap(), TempDir::path);
        let address = postgres.file(&format!("postgres:///postgres?host={}&user=postgres", host.display())).unwrap();
        let slack = FakeSlack::start(limits).await.unwrap();
        let database = format!("database: {{ url_file: {} }}", address.path().display());
        let mut started = Vec::new();
        for _ in 0..replicas {
            // Nothing listens on port 1: the way of the message alone.
            let secret = ("SLACK_APP_TOKEN", "xapp-lab");
            started.push(serve("http://127.0.0.1:1", &slack, keys, &database, secret).await);
        }
        let nginx = match started.len() {
            1 => None,
            _ => Some(before(&started).await),
        };
        Self { replicas: started, nginx, slack, http: reqwest::Client::new(), _postgres: postgres, _far: far }
    }

    fn url(&self) -> &str {
        self.nginx.as_ref().map_or(self.replicas[0].url.as_str(), |nginx| nginx.url.as_str())
    }

    async fn send(&self, group: &Value) {
        self.send_to(self.url(), group).await;
    }

    async fn send_to(&self, url: &str, group: &Value) {
        let url = format!("{url}/webhook/alertmanager");
        loop {
            let answer = self.http.post(&url).json(group).send().await.unwrap().status().as_u16();
            // "Not now" is sent again, as Alertmanager does.
            if answer != 503 {
                return assert_eq!(answer, 200);
            }
        }
    }

    /// Waits until there are so many messages; returns false if they do not come.
    async fn messages(&self, many: usize) -> bool {
        let all = |state: &State| state.messages(CHANNEL).filter(|m| m.thread_ts.is_none()).count() >= many;
        self.slack.wait_for(all, PATIENCE).await.is_ok()
    }

    /// Returns how many messages are not up to date.
    async fn waiting(&self) -> f64 {
        let page = self.http.get(format!("{}/metrics", self.replicas[0].url)).send().await.unwrap();
        let page = page.text().await.unwrap();
        let line = page.lines().find(|line| line.starts_with(WAITING)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
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
    let listen = NGINX.replace("listen 9098;", "listen 127.0.0.1:$PORT;");
    let directives = replicas.iter().enumerate().fold(listen, |text, (i, replica)| {
        text.replace(&format!("10.0.0.1{}:9098", i + 1), &format!("127.0.0.1:{}", replica.port()))
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
    let one = throughput(&Site::start(1, Options::unlimited(), UNLIMITED).await).await;
    told("stored by one replica", one, "/s");
    let three = throughput(&Site::start(3, Options::unlimited(), UNLIMITED).await).await;
    // No bar: the cores are shared, and each replica also diagnoses and posts.
    told("stored by three behind nginx, on the same cores", three, "/s");
    told("three against one", three / one, "");
    println!(
        "\nthe same with {FAR_CONNECTIONS} connections to each, {} ms from the database and back",
        FAR.as_millis()
    );
    let one = far_throughput(1).await;
    told("stored by one replica", one, "/s");
    let three = far_throughput(3).await;
    told("stored by three", three, "/s");
    bar_at_least("three against one", three / one, 2.0, "");
    if std::env::args().any(|a| a == "throughput") {
        return;
    }
    steady().await;
    takeover().await;
}

/// New groups as fast as the connections bring them.
async fn throughput(site: &Site) -> f64 {
    let started = Instant::now();
    let sent = iter(0..WEBHOOKS).map(async |number| site.send(&group(number)).await).buffer_unordered(CONNECTIONS);
    sent.collect::<Vec<()>>().await;
    WEBHOOKS as f64 / started.elapsed().as_secs_f64()
}

/// New groups as fast as the replicas store them: what takes time is the way to the database. Storms as they are.
async fn far_throughput(replicas: usize) -> f64 {
    let site = Site::start_at(replicas, Options::unlimited(), "", Some(FAR)).await;
    let started = Instant::now();
    let all = FAR_WEBHOOKS * replicas;
    let to = |number: usize| site.replicas[number % replicas].url.as_str();
    let sent = iter(0..all).map(async |number| site.send_to(to(number), &group(number)).await);
    sent.buffer_unordered(FAR_CONNECTIONS * replicas).collect::<Vec<()>>().await;
    all as f64 / started.elapsed().as_secs_f64()
}

/// A socket at which everything that passes comes so much later.
fn far(socket: PathBuf, later: Duration) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join(socket.file_name().unwrap())).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = UnixStream::connect(&socket).await else { continue };
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            tokio::spawn(pass(from_client, to_server, later));
            tokio::spawn(pass(from_server, to_client, later));
        }
    });
    directory
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin + Send + 'static, later: Duration) {
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = receive.recv().await {
            tokio::time::sleep_until((at + later).into()).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if send.send((Instant::now(), bytes[..read].to_vec())).is_err() {
            return;
        }
    }
}

/// A new group every 60 milliseconds, to three replicas, with Slack's rates and storms as they are.
async fn steady() {
    let site = Site::start(3, Options::default(), "").await;
    let mut tick = tokio::time::interval(Duration::from_secs(60) / PER_MINUTE);
    let mut answers = Vec::new();
    for number in 0..PER_MINUTE as usize {
        tick.tick().await;
        let sent = Instant::now();
        site.send(&group(number)).await;
        answers.push(sent.elapsed());
    }
    let ended = Instant::now();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let shown = loop {
        let waiting = site.waiting().await;
        if waiting == 0.0 || ended.elapsed() > PATIENCE {
            break ended.elapsed();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    println!("\n{PER_MINUTE} new groups in a minute, three replicas on PostgreSQL behind nginx, Slack's rates");
    told("an answer to a webhook, median", ms(share(&mut answers, 0.5)), "ms");
    bar("an answer to a webhook, 99 %", ms(share(&mut answers, 0.99)) / 1e3, 1.0, "s");
    told("all messages and digests up to date after the last", shown.as_secs_f64(), "s");
    bar("incidents with a second message", site.doubled() as f64, 0.0, "");
    bar("rules of Slack's broken", site.slack.violations().len() as f64, 0.0, "");
}

/// A replica is killed while its posts hang in Slack; the others post them.
async fn takeover() {
    let mut site = Site::start(3, Options::unlimited(), UNLIMITED).await;
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
