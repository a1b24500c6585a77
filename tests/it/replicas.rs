//! Several replicas on one PostgreSQL: one incident, one message, whoever handles it and whoever dies.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use knowledge::alert::AlertGroup;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::slack::{Failure, FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::{Nginx, Postgres, Service};
use serde_json::Value;
use store::{AdmissionPlan, PendingWork, Sink, Store};
use tempfile::NamedTempFile;

use crate::admission::{self, Kept};
use crate::running::{BINARY, CHANNEL, SOON, group, serve, tls, whole};

const RULES: AdmissionRules =
    AdmissionRules { duplicate_within: Duration::from_secs(60), reopen_within: Duration::from_secs(600) };
/// What is tested is who delivers, not how fast Slack lets them.
const RATES: &str = "storm: { incidents: 0 }, posts_per_second: 1000, posts_burst: 100, updates_per_minute: 60000,";
const LEASE_MS: i64 = 60_000;
/// A silent replica is known to be gone after 9 s, which is looked at every 2 s; and a busy machine is slow.
const TAKEN_OVER: Duration = Duration::from_secs(45);

/// A database, and the Slack of all who share it.
struct Shared {
    slack: FakeSlack,
    address: NamedTempFile,
    http: reqwest::Client,
    postgres: Postgres,
}

impl Shared {
    async fn start() -> Self {
        tls();
        let postgres = Postgres::start().unwrap();
        let address = postgres.file(&postgres.url()).unwrap();
        let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
        Self { slack, address, http: reqwest::Client::new(), postgres }
    }

    fn config(&self) -> String {
        let file = self.address.path().display();
        format!("prometheus: [{{ url: \"http://127.0.0.1:1\" }}]\ndatabase: {{ url_file: {file} }}")
    }

    async fn replica(&self) -> Service {
        serve(&self.slack, RATES, &self.config()).await.unwrap()
    }

    async fn send(&self, to: &Service, group: &Value) -> (u16, Value) {
        let url = format!("{}/webhook/alertmanager", to.url);
        let response = self.http.post(url).json(group).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or(Value::Null))
    }

    /// Sends a group until it is stored: Alertmanager repeats what gets 503, as from a database that is late.
    async fn accepted(&self, to: &Service, group: &Value) -> Value {
        for _ in 0..20 {
            match self.send(to, group).await {
                (503, _) => tokio::task::yield_now().await,
                (status, answer) => {
                    assert_eq!(status, 200, "{answer}");
                    return answer;
                }
            }
        }
        panic!("20 times 503 for {group}")
    }

    /// Waits until every message in the channel satisfies `shown`, and there are `many`.
    async fn all(&self, many: usize, within: Duration, shown: impl Fn(&str) -> bool) {
        let met = |s: &llm_diagnose_lab::slack::State| {
            let texts: Vec<String> = s.messages(CHANNEL).filter(|m| m.thread_ts.is_none()).map(whole).collect();
            texts.len() == many && texts.iter().all(|text| shown(text))
        };
        self.slack.wait_for(met, within).await.unwrap();
    }
}

#[tokio::test]
async fn a_storm_sent_to_both_replicas_makes_one_message_per_group() {
    let shared = Shared::start().await;
    let (one, other) = tokio::join!(shared.replica(), shared.replica());
    let names: Vec<String> = (0..50).map(|i| format!("LLMHighTTFT{i}")).collect();
    for status in ["firing", "resolved"] {
        let groups: Vec<Value> = names.iter().map(|name| group(name, status, "warning", &["a"])).collect();
        // As a pair of Alertmanagers does it: everything to both, at once.
        let answers = futures::future::join_all(groups.iter().map(|group| async {
            let (a, b) = tokio::join!(shared.accepted(&one, group), shared.accepted(&other, group));
            assert_eq!(a["incident"], b["incident"], "one incident: {a} {b}");
            [a["reason"].clone(), b["reason"].clone()]
        }))
        .await;
        assert!(answers.iter().all(|reasons| reasons.contains(&"duplicate".into())), "{answers:?}");
        let word = if status == "firing" { "Cannot tell" } else { "RESOLVED" };
        shared.all(names.len(), TAKEN_OVER, |text| text.contains(word)).await;
    }
    let posted = shared.slack.with(|s| s.messages(CHANNEL).filter(|m| m.thread_ts.is_none()).count());
    assert_eq!((posted, shared.slack.violations()), (names.len(), vec![]), "each was posted once, the rest are edits");
    let left = shared.postgres.query("postgres", "SELECT COUNT(*) FROM incidents WHERE state = 'open'").unwrap();
    assert_eq!(left, "0");
}

#[tokio::test]
async fn what_a_killed_replica_was_posting_is_posted_by_the_other() {
    let shared = Shared::start().await;
    let mut one = shared.replica().await;
    shared.slack.fail_next("chat.postMessage", Failure::Hang, 3);
    for i in 0..3 {
        assert_eq!(shared.send(&one, &group(&format!("LLMHighTTFT{i}"), "firing", "warning", &["a"])).await.0, 200);
    }
    let begun = |s: &State| s.calls().iter().filter(|call| call.method == "chat.postMessage").count();
    shared.slack.wait_for(|s| begun(s) == 3, SOON).await.unwrap();
    let other = shared.replica().await;
    one.kill9().await.unwrap();
    let killed = Instant::now();
    shared.all(3, TAKEN_OVER, |text| text.contains("WARNING")).await;
    assert!(killed.elapsed() < Duration::from_millis(LEASE_MS.unsigned_abs()), "{:?}", killed.elapsed());
    // The living message stays one when the end arrives at the other replica.
    for i in 0..3 {
        shared.send(&other, &group(&format!("LLMHighTTFT{i}"), "resolved", "warning", &["a"])).await;
    }
    shared.all(3, SOON, |text| text.contains("RESOLVED")).await;
}

/// What is shipped for nginx, before these replicas.
async fn nginx(replicas: &[&Service]) -> Nginx {
    let shipped = include_str!("../../config/nginx/llm-diagnose.conf");
    let listen = shipped.replace("listen 9098;", "listen 127.0.0.1:$PORT;");
    let directives = replicas.iter().enumerate().fold(listen, |text, (i, replica)| {
        text.replace(&format!("10.0.0.1{}:9098", i + 1), &format!("127.0.0.1:{}", replica.port()))
    });
    assert!(!directives.contains("10.0.0.1"), "{directives}");
    Nginx::start(&directives, "/healthz", &[]).await.unwrap()
}

#[tokio::test]
async fn behind_nginx_a_killed_replica_costs_no_webhook_and_no_second_message() {
    let shared = Shared::start().await;
    let (mut one, two, three) = tokio::join!(shared.replica(), shared.replica(), shared.replica());
    let nginx = nginx(&[&one, &two, &three]).await;
    let groups: Vec<Value> = (0..60).map(|i| group(&format!("LLMHighTTFT{i}"), "firing", "warning", &["a"])).collect();
    let send = async |group: &Value| {
        let end = Instant::now() + TAKEN_OVER;
        loop {
            let sent = shared.http.post(format!("{}/webhook/alertmanager", nginx.url)).json(group).send();
            let response = sent.await.unwrap();
            let answer = (response.status().as_u16(), response.text().await.unwrap());
            // "Not now" of a busy database is sent again, as Alertmanager does.
            if answer.0 != 503 || Instant::now() > end {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    for group in &groups[..20] {
        assert_eq!(send(group).await.0, 200);
    }
    let (rest, killed) = tokio::join!(futures::future::join_all(groups[20..].iter().map(&send)), one.kill9());
    killed.unwrap();
    for (status, answer) in rest {
        assert_eq!(status, 200, "{answer} {}", nginx.log());
    }
    shared.all(groups.len(), TAKEN_OVER, |text| text.contains("Cannot tell")).await;
    assert_eq!(shared.slack.violations(), vec![]);
}

#[tokio::test]
async fn behind_nginx_a_refused_webhook_leaves_no_replica_out_for_people() {
    let shared = Shared::start().await;
    let (one, two, three) = tokio::join!(shared.replica(), shared.replica(), shared.replica());
    let nginx = nginx(&[&one, &two, &three]).await;
    shared.postgres.stop().unwrap();
    let body = group("LLMHighTTFT", "firing", "warning", &["a"]);
    for _ in 0..3 {
        let sent = shared.http.post(format!("{}/webhook/alertmanager", nginx.url)).json(&body).send().await.unwrap();
        assert_eq!(sent.status().as_u16(), 503);
        let page = shared.http.get(format!("{}/readyz", nginx.url)).send().await.unwrap();
        let text = page.text().await.unwrap();
        assert!(text.contains("\"checks\""), "a replica's own answer: {text}");
    }
}

#[tokio::test]
async fn without_the_database_the_webhook_says_not_now_and_the_retry_is_stored() {
    let shared = Shared::start().await;
    let one = shared.replica().await;
    shared.postgres.stop().unwrap();
    let body = group("LLMHighTTFT", "firing", "warning", &["a"]);
    let (status, answer) = shared.send(&one, &body).await;
    assert_eq!(status, 503, "{answer}");
    let refused = serve(&shared.slack, RATES, &shared.config()).await.err().map(|error| format!("{error:#}"));
    let refused = refused.expect("no start without a store");
    for said in ["cannot use the database that", "database.url_file", "No such file or directory"] {
        assert!(refused.contains(said), "{said} is not in {refused}");
    }
    shared.postgres.start_again().unwrap();
    assert_eq!(shared.send(&one, &body).await.0, 200);
    shared.all(1, SOON, |text| text.contains("WARNING")).await;
}

#[tokio::test]
async fn admission_decides_on_postgresql_as_on_sqlite() {
    let postgres = Postgres::start().unwrap();
    let kept = async |name: &str| Kept::from(Store::connect(&postgres.database(name).unwrap()).await.unwrap());
    admission::odd_characters_come_back(&kept("odd").await, "0.33/unicode_04_firing").await;
    admission::a_nul_character_is_taken(&kept("nul").await).await;
    admission::late_duplicates_change_nothing(&kept("late").await).await;
    admission::refiring_reopens_soon_and_opens_later(&kept("refired").await).await;
}

fn at(seconds: i64) -> Timestamp {
    "2026-11-20T18:07:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn wanted(name: &str) -> (AlertGroup, AdmissionPlan) {
    let body = serde_json::to_vec(&group(name, "firing", "warning", &["a", "b"])).unwrap();
    let sinks = vec![(Sink::Slack, CHANNEL.to_owned())];
    let selection = Some(("high-ttft".to_owned(), "its name".to_owned()));
    (
        AlertGroup::from_webhook(&body).unwrap(),
        AdmissionPlan { selection, sinks, filtered: Vec::new(), grace: Duration::ZERO, storm: admission::CALM },
    )
}

#[tokio::test]
async fn work_is_taken_once_and_stays_with_a_replica_that_lives() {
    let postgres = Postgres::start().unwrap();
    let url = postgres.url();
    // Both migrate the empty database at once.
    let (one, other) = tokio::join!(Store::connect(&url), Store::connect(&url));
    let (one, other) = (one.unwrap(), other.unwrap());
    one.release(at(0)).await.unwrap();
    other.release(at(0)).await.unwrap();
    let groups: Vec<_> = (0..40).map(|i| wanted(&format!("LLMHighTTFT{i}"))).collect();
    let mut backwards = groups.clone();
    backwards.reverse();
    // The same groups in opposite orders would wait for each other for ever.
    let (first, second) = tokio::join!(one.admit(&groups, at(0), &RULES), other.admit(&backwards, at(0), &RULES));
    let ids = |admitted: Vec<Result<store::Admitted, _>>| {
        let mut ids: Vec<String> =
            admitted.into_iter().map(|a: Result<_, store::StoreError>| a.unwrap().incident).collect();
        ids.sort();
        ids
    };
    let all = ids(first.unwrap());
    assert_eq!(all, ids(second.unwrap()));

    let take = async |store: &Store, seconds: i64| {
        let mut taken = Vec::new();
        loop {
            let some = store.waiting(at(seconds), 7).await.unwrap();
            if some.is_empty() {
                break taken;
            }
            for waiting in some {
                if store.take(&waiting, at(seconds), LEASE_MS).await.unwrap()
                    && let PendingWork::Message(delivery) = waiting.work
                {
                    taken.push(delivery.incident);
                }
            }
        }
    };
    let (a, b) = tokio::join!(take(&one, 1), take(&other, 1));
    let mut both = [a, b].concat();
    both.sort();
    assert_eq!(both, all, "each delivery is taken once");
    let (a, b) = tokio::join!(one.take_diagnoses(at(1), LEASE_MS, 40), other.take_diagnoses(at(1), LEASE_MS, 40));
    let mut both: Vec<String> = [a.unwrap(), b.unwrap()].concat().into_iter().map(|due| due.id).collect();
    both.sort();
    assert_eq!(both, all, "each diagnosis is taken once");

    // A third one starts: it takes nothing from those who live, and everything from those who said good-bye.
    let third = Store::connect(&url).await.unwrap();
    third.release(at(2)).await.unwrap();
    assert_eq!(take(&third, 3).await, Vec::<String>::new());
    one.close().await;
    other.close().await;
    assert_eq!(third.heartbeat(at(4)).await.unwrap().alive, 1);
    let mut left = take(&third, 5).await;
    left.sort();
    assert_eq!(left, all);
    // A lease runs out even when its owner only seems to live.
    assert_eq!(take(&third, 60).await, Vec::<String>::new());
    assert_eq!(take(&third, 66).await.len(), all.len());
}

/// The messages of the channel that speak for one incident, and the digests.
fn tops(state: &State) -> (Vec<&Message>, Vec<&Message>) {
    let tops = state.messages(CHANNEL).filter(|message| message.thread_ts.is_none());
    tops.partition(|message| !message.content.text.contains("storm of"))
}

/// One group for each pod, of one symptom of one pool: one topic. Everything to everybody, at once.
async fn pods(shared: &Shared, numbers: std::ops::Range<usize>, status: &str, to: &[&Service]) {
    let groups: Vec<Value> = numbers
        .map(|i| {
            let mut group = group("LLMHighTTFT", status, "warning", &[&format!("pod-{i}")]);
            group["groupKey"] = format!("{{}}:{{pod=\"{i}\"}}").into();
            group
        })
        .collect();
    let sent = groups.iter().flat_map(|group| to.iter().map(move |to| shared.send(to, group)));
    for (status, answer) in futures::future::join_all(sent).await {
        assert_eq!(status, 200, "{answer}");
    }
}

#[tokio::test]
async fn a_storm_that_two_replicas_digest_is_one_digest_with_everything_in_it_once() {
    let shared = Shared::start().await;
    let keys = "storm: { incidents: 5 }, posts_per_second: 1000, posts_burst: 100, updates_per_minute: 60000,";
    let (mut one, other) = tokio::join!(async { serve(&shared.slack, keys, &shared.config()).await.unwrap() }, async {
        serve(&shared.slack, keys, &shared.config()).await.unwrap()
    });
    pods(&shared, 0..40, "firing", &[&one, &other]).await;
    let counted = |s: &State, many: usize| {
        let (own, digests) = tops(s);
        let all = format!("storm of {} incidents", many - own.len());
        own.len() >= 5 && digests.len() == 1 && digests[0].content.text.contains(&all)
    };
    let seen = shared.slack.wait_for(|s| counted(s, 40), TAKEN_OVER).await;
    assert!(seen.is_ok(), "{}\n{}\n{}", seen.unwrap_err(), one.stderr(), other.stderr());
    // One dies in the middle of the storm; the other goes on counting in the same digest.
    one.kill9().await.unwrap();
    pods(&shared, 40..60, "firing", &[&other]).await;
    let seen = shared.slack.wait_for(|s| counted(s, 60), TAKEN_OVER).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), other.stderr());
    let sql =
        "SELECT COUNT(*), COUNT(DISTINCT incident_id), COUNT(DISTINCT digest_id) FROM deliveries WHERE sink = 'slack'";
    assert_eq!(shared.postgres.query("postgres", sql).unwrap(), "60|60|1", "every incident once");
    let own = "SELECT COUNT(*) FROM deliveries WHERE sink = 'slack' AND digest_id IS NULL";
    let own: usize = shared.postgres.query("postgres", own).unwrap().parse().unwrap();
    assert_eq!((own, shared.slack.with(|s| tops(s).0.len())), (5, 5));
    pods(&shared, 0..60, "resolved", &[&other]).await;
    let over = |s: &State| tops(s).1[0].content.attachments.iter().any(|a| a["color"] == "#2f9e6e");
    let seen = shared.slack.wait_for(over, TAKEN_OVER).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), other.stderr());
    assert_eq!((shared.slack.with(|s| tops(s).1.len()), shared.slack.violations()), (1, vec![]));
}

/// A replica that people reach over HTTP.
async fn reached(shared: &Shared) -> Service {
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nslack: {{ {RATES} api_url: \"{}\", channel: \"{CHANNEL}\" }}\n{}\n",
        shared.slack.base_url,
        shared.config()
    );
    let secrets = [("SLACK_BOT_TOKEN", shared.slack.token.as_str()), ("SLACK_SIGNING_SECRET", "lab-signing-secret")];
    Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config).await.unwrap()
}

#[tokio::test]
async fn a_button_of_one_replicas_message_is_answered_by_another_and_the_thread_is_told_once() {
    let shared = Shared::start().await;
    // Who did it is said with their name, which calls them.
    shared.slack.configure(|options| options.allowed_mentions = vec!["@U0ANN".into()]);
    let mut one = reached(&shared).await;
    shared.send(&one, &group("LLMHighTTFT", "firing", "warning", &["a"])).await;
    shared.all(1, SOON, |text| text.contains("Cannot tell")).await;
    let other = reached(&shared).await;
    let url = format!("{}/slack", other.url);
    shared.slack.configure(|options| options.request_url = Some(url));
    let ts = shared.slack.with(|s| s.messages(CHANNEL).next().unwrap().ts.clone());
    let ack = shared.slack.press("U0ANN", CHANNEL, &ts, "acknowledge").await.unwrap();
    assert!(ack.delay < Duration::from_secs(3), "{ack:?}");
    shared.all(1, TAKEN_OVER, |text| text.contains("U0ANN")).await;
    let audit = "SELECT who || ' ' || what || ' ' || result FROM audit";
    assert_eq!(shared.postgres.query("postgres", audit).unwrap(), "U0ANN acknowledge done");
    // Both are told the same changes at once, as by a pair of Alertmanagers; one of them dies before the last.
    let replies = |s: &State| s.messages(CHANNEL).filter(|m| m.thread_ts.is_some()).map(whole).collect::<Vec<_>>();
    let said = |s: &State, what: &str| replies(s).iter().filter(|text| text.contains(what)).count();
    let more = group("LLMHighTTFT", "firing", "warning", &["a", "b"]);
    tokio::join!(shared.send(&one, &more), shared.send(&other, &more));
    let seen = shared.slack.wait_for(|s| said(s, "+1 alert") > 0, TAKEN_OVER).await;
    assert!(seen.is_ok(), "{}\n{}\n{}", seen.unwrap_err(), one.stderr(), other.stderr());
    let over = group("LLMHighTTFT", "resolved", "warning", &["a", "b"]);
    tokio::join!(shared.send(&one, &over), shared.send(&other, &over));
    one.kill9().await.unwrap();
    let seen = shared.slack.wait_for(|s| said(s, "resolved") > 0, TAKEN_OVER).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), other.stderr());
    let once = shared.slack.with(|s| (said(s, "+1 alert"), said(s, "resolved"), tops(s).0.len()));
    assert_eq!((once, shared.slack.violations()), ((1, 1, 1), vec![]), "{:?}", shared.slack.with(replies));
}
