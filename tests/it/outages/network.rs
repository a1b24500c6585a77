//! A PostgreSQL that is silent without closing anything, and one that fails over.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use llm_diagnose_lab::stack::{Postgres, Wire};
use tempfile::NamedTempFile;

use super::{check, until};
use crate::running::{CHANNEL, Running, group};

/// How soon a webhook is answered whatever the network does: a statement may take 11 s, a new connection 5 s, both of
/// them once more for who waited in the queue; and a busy machine is slow.
const ANSWERED: Duration = Duration::from_secs(40);
/// How soon alerts are taken once the database can be reached: what hangs ends after 11 s, then there is a new connection.
const AGAIN: Duration = Duration::from_secs(25);

async fn behind(wire: &Wire, postgres: &Postgres) -> (Running, NamedTempFile) {
    let address = postgres.file(&wire.url()).unwrap();
    let extra = format!(
        "prometheus: [{{ url: \"http://127.0.0.1:1\" }}]\ndatabase: {{ url_file: {} }}",
        address.path().display()
    );
    (Running::start(&extra).await, address)
}

async fn send(run: &Running, i: usize) -> (u16, serde_json::Value) {
    run.webhook(serde_json::to_vec(&group(&format!("Group{i}x"), "firing", "warning", &["a"])).unwrap()).await
}

#[tokio::test]
async fn a_database_that_falls_silent_hangs_nobody_and_is_used_again_when_it_can_be_reached() {
    let postgres = Postgres::start().unwrap();
    let wire = Wire::start(postgres.socket()).await.unwrap();
    let (run, _address) = behind(&wire, &postgres).await;
    assert_eq!(send(&run, 0).await.0, 200);
    wire.silence();
    let began = Instant::now();
    let answers = futures::future::join_all((1..13).map(|i| send(&run, i))).await;
    assert!(answers.iter().all(|(status, _)| *status == 503), "{answers:?}");
    assert!(began.elapsed() < ANSWERED, "{:?}", began.elapsed());
    let (status, ready) = run.get("/readyz").await;
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((status, &check(&ready, "store")["ok"]), (503, &false.into()), "{ready}");
    assert_eq!(run.get("/healthz").await.0, 200, "it may pass");

    wire.lead_to(postgres.socket());
    let back = Instant::now();
    for i in 1..13 {
        until(AGAIN, async || send(&run, i).await, |(status, _)| *status == 200).await;
    }
    assert!(back.elapsed() < AGAIN, "{:?}", back.elapsed());
    until(AGAIN, async || run.get("/readyz").await, |(status, _)| *status == 200).await;
    run.wait_for(CHANNEL, |message| message.contains("Group12x") || message.contains("storm of")).await;
}

#[tokio::test]
async fn connections_that_died_while_nobody_used_them_are_replaced() {
    let postgres = Postgres::start().unwrap();
    let wire = Wire::start(postgres.socket()).await.unwrap();
    let (run, _address) = behind(&wire, &postgres).await;
    assert_eq!(send(&run, 0).await.0, 200);
    run.wait_for(CHANNEL, |message| message.contains("Group0x")).await;
    // Every connection that is open stays silent; new ones work.
    wire.lead_to(postgres.socket());
    let took = Instant::now();
    let (status, answer) = until(AGAIN, async || send(&run, 1).await, |(status, _)| *status == 200).await;
    assert!(status == 200 && took.elapsed() < AGAIN, "{answer}");
    run.wait_for(CHANNEL, |message| message.contains("Group1x")).await;
}

#[tokio::test]
async fn a_failover_in_the_middle_of_a_load_loses_no_alert_that_was_answered() {
    const SENDERS: usize = 4;
    const EACH: usize = 15;
    let primary = Postgres::start().unwrap();
    let standby = primary.standby().unwrap();
    let wire = Wire::start(primary.socket()).await.unwrap();
    let (run, _address) = behind(&wire, &primary).await;
    let (stored, mut watched) = tokio::sync::watch::channel(0);
    let sender = async |sender: usize| {
        let mut answered = Vec::new();
        for i in 0..EACH {
            let answer = async || send(&run, sender * EACH + i).await;
            let (_, body) = until(ANSWERED + AGAIN, answer, |(status, _)| *status == 200).await;
            answered.push(body["incident"].as_str().unwrap().to_owned());
            stored.send_modify(|count| *count += 1);
        }
        answered
    };
    let failover = async {
        watched.wait_for(|count| *count >= SENDERS * 3).await.unwrap();
        wire.silence();
        primary.stop().unwrap();
        standby.promote().unwrap();
        wire.lead_to(standby.socket());
        let (before, began) = (*stored.borrow(), Instant::now());
        watched.wait_for(|count| *count > before).await.unwrap();
        began.elapsed()
    };
    let senders = futures::future::join_all((0..SENDERS).map(sender));
    let (answered, took) = tokio::join!(senders, failover);
    assert!(took < AGAIN, "alerts were taken again only after {took:?}");
    let answered: BTreeSet<String> = answered.into_iter().flatten().collect();
    let kept = standby.query("postgres", "SELECT id FROM incidents").unwrap();
    let kept: BTreeSet<String> = kept.lines().map(str::to_owned).collect();
    assert_eq!((answered.len(), &answered), (SENDERS * EACH, &kept), "each group is one incident");
    until(AGAIN, async || run.get("/readyz").await, |(status, _)| *status == 200).await;
    assert!(!run.service.stderr().contains("panicked"), "{}", run.service.stderr());
}
