//! A PostgreSQL that is silent without closing anything, and one that fails over.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use llm_diagnose_lab::stack::{Postgres, Wire};
use store::Store;
use tempfile::NamedTempFile;

use crate::running::{CHANNEL, Running, check, group, until};

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

/// Tries the store once; whether it failed, and why a restart may help.
async fn tried(store: &Store) -> (bool, Option<String>) {
    (store.check().await.is_err(), store.dead(Duration::ZERO))
}

#[tokio::test]
async fn a_database_that_is_down_for_everybody_is_no_reason_for_a_restart() {
    let postgres = Postgres::start().unwrap();
    let store = Store::connect(&postgres.database("down").unwrap()).await.unwrap();
    assert_eq!(tried(&store).await, (false, None));
    postgres.stop().unwrap();
    for _ in 0..3 {
        assert_eq!(tried(&store).await, (true, None));
    }
    assert!(store.ping().await.is_err(), "readiness tells it");
    postgres.start_again().unwrap();
    assert_eq!(tried(&store).await, (false, None));
    // It is reached and refuses what we write: a restart would find the same.
    let refuse = "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
                  CREATE TRIGGER no BEFORE DELETE ON events EXECUTE FUNCTION no()";
    postgres.query("down", refuse).unwrap();
    for _ in 0..3 {
        assert_eq!(tried(&store).await, (true, None));
    }
}

#[tokio::test]
async fn a_database_that_works_on_a_new_connection_and_not_on_ours_is_a_reason_for_a_restart() {
    let postgres = Postgres::start().unwrap();
    let store = Store::connect(&postgres.database("ours").unwrap()).await.unwrap();
    // Every second try fails: ours, while that on a new connection after it works.
    let second = "CREATE SEQUENCE tries;
                  CREATE FUNCTION second() RETURNS trigger LANGUAGE plpgsql AS
                    $$BEGIN IF nextval('tries') % 2 = 1 THEN RAISE 'not on yours'; END IF; RETURN NULL; END$$;
                  CREATE TRIGGER second BEFORE DELETE ON events EXECUTE FUNCTION second()";
    postgres.query("ours", second).unwrap();
    for _ in 0..2 {
        let (failed, dead) = tried(&store).await;
        let dead = dead.unwrap();
        assert!(
            failed && dead.contains("not on yours") && dead.ends_with("a new connection works, ours do not"),
            "{dead}"
        );
        assert_eq!(store.dead(Duration::from_secs(60)), None, "it may pass");
    }
    postgres.query("ours", "DROP TRIGGER second ON events").unwrap();
    assert_eq!(tried(&store).await, (false, None));
}

#[tokio::test]
async fn a_database_that_refuses_our_login_is_a_reason_for_a_restart_which_reads_the_password_again() {
    let postgres = Postgres::start().unwrap();
    postgres.query("postgres", "CREATE ROLE ours SUPERUSER LOGIN").unwrap();
    let url = postgres.database("login").unwrap().replace("user=postgres", "user=ours");
    let store = Store::connect(&url).await.unwrap();
    assert_eq!(tried(&store).await, (false, None));
    postgres.query("postgres", "ALTER ROLE ours NOLOGIN").unwrap();
    postgres
        .query("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ours'")
        .unwrap();
    let (failed, dead) = tried(&store).await;
    assert!(
        failed && dead.as_ref().is_some_and(|dead| dead.contains("reads the address and its password")),
        "{dead:?}"
    );
    postgres.query("postgres", "ALTER ROLE ours LOGIN").unwrap();
    assert_eq!(tried(&store).await, (false, None));
}
