//! Two replicas that share a store: what people ask one of them is not done a second time by the other, nor after a
//! restart.

use std::sync::Arc;
use std::time::Duration;

use chat::Desk;
use knowledge::clock;
use llm_diagnose_lab::stack::Postgres;
use slack::{Ack, RequestPlace, SlackAction, SlackActor, SlackRequest};
use sqlx::Connection;
use store::{REQUEST_RETENTION, Store};

use super::bench::{Bench, CHANNEL};
use super::{NOWHERE, ON_CALL};
use crate::harness::{client, desk_with};

const OFTEN: &str = "commands_per_minute: [6000, 6000, 6000]";

fn request(id: &str, user: &str, what: SlackAction) -> SlackRequest {
    let who = SlackActor { user: user.into(), team: "T0LAB".into(), is_bot: false };
    let place = RequestPlace { channel: CHANNEL.into(), ..RequestPlace::default() };
    SlackRequest { id: id.into(), who, place, what }
}

fn pressed(action: &str, incident: &str) -> SlackAction {
    SlackAction::Press { action: action.into(), value: incident.into() }
}

fn submitted(incident: &str) -> SlackAction {
    let about = serde_json::json!({ "incident": incident, "channel": CHANNEL }).to_string();
    let values = [("cause".to_owned(), "other".to_owned())];
    SlackAction::Submit { form: "wrong".into(), about, values: values.into() }
}

/// Another desk with this store.
fn replica(bench: &Bench, store: Store, state: &tempfile::TempDir) -> Arc<Desk> {
    desk_with(store, bench.desk.service.config.clone(), &bench.slack, client(NOWHERE), state.path())
}

/// Does it, and waits until what it began has ended.
async fn receive(desk: &Arc<Desk>, request: SlackRequest) -> Ack {
    let ack = desk.receive(request).await;
    settled(desk).await;
    ack
}

async fn settled(desk: &Desk) {
    desk.tasks.close();
    desk.tasks.wait().await;
    desk.tasks.reopen();
}

#[tokio::test]
async fn what_one_replica_did_another_does_not_repeat() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    let state = tempfile::tempdir().unwrap();
    let other = replica(&bench, bench.store.clone(), &state);
    let all = [
        request("trigger-1", "U0ANN", pressed("acknowledge", &id)),
        request("trigger-2", "U0ANN", submitted(&id)),
        request("trigger-3", "U0ANN", SlackAction::Command { text: "playbooks".into() }),
    ];
    for request in &all {
        receive(&bench.desk, request.clone()).await;
    }
    let (said, audit) = (bench.said(), bench.audit().await);
    assert_eq!(audit, ["acknowledge U0ANN done", "wrong U0ANN done"]);
    for desk in [&bench.desk, &other] {
        for request in &all {
            assert_eq!(receive(desk, request.clone()).await, Ack::Received);
        }
    }
    assert_eq!((bench.said(), bench.audit().await), (said, audit));
}

#[tokio::test]
async fn while_no_request_can_be_recorded_people_read_and_do_not_act() {
    let bench = Bench::start(&format!("{ON_CALL}\n{OFTEN}"), &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    bench.change("DROP TABLE requests").await;
    let command = |text: &str| SlackAction::Command { text: text.into() };
    let acts = [
        pressed("acknowledge", &id),
        pressed("escalate", &id),
        command(&format!("again {id}")),
        command("silence expire 8f9c0f5e"),
        submitted(&id),
    ];
    for (n, act) in acts.into_iter().enumerate() {
        let before = bench.said().len();
        let ack = receive(&bench.desk, request(&format!("trigger-{n}"), "U0ANN", act.clone())).await;
        let told = format!("{ack:?} {:?}", &bench.said()[before..]);
        assert!(told.contains("The store does not answer, so nothing was done"), "{act:?}: {told}");
    }
    assert_eq!(bench.audit().await, Vec::<String>::new());
    receive(&bench.desk, request("trigger-9", "U0ANN", command("playbooks"))).await;
    assert!(bench.last().contains("high-ttft"), "{}", bench.last());
}

#[tokio::test]
async fn of_copies_that_arrive_together_exactly_one_is_new_and_old_ones_are_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let postgres = Postgres::start().unwrap();
    let sqlite = Store::open(&directory.path().join("state.db")).await.unwrap();
    let one = Store::connect(&postgres.url()).await.unwrap();
    let other = Store::connect(&postgres.url()).await.unwrap();
    let now = clock::now();
    for (a, b) in [(sqlite.clone(), sqlite), (one, other)] {
        for round in 0..50 {
            let id = format!("envelope {round}");
            let copies = [&a, &b, &a, &b].map(|store| store.claim_request(&id, now));
            let new = futures::future::join_all(copies).await.into_iter().filter(|new| *new.as_ref().unwrap()).count();
            assert_eq!(new, 1, "{id}");
        }
        assert_eq!(b.forget_requests(clock::before(now, REQUEST_RETENTION)).await.unwrap(), 0);
        assert_eq!(b.forget_requests(clock::after(now, REQUEST_RETENTION)).await.unwrap(), 50);
        assert!(a.claim_request("envelope 0", now).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_escalate_at_once_at_two_replicas_one_calls() {
    let postgres = Postgres::start().unwrap();
    let bench = Bench::start(&format!("{ON_CALL}\n{OFTEN}"), &[], NOWHERE).await;
    bench.slack.configure(|options| options.groups[0].users.push("U0BEN".into()));
    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let store = Store::connect(&postgres.url()).await.unwrap();
    let first = replica(&bench, store.clone(), &states[0]);
    let second = replica(&bench, Store::connect(&postgres.url()).await.unwrap(), &states[1]);
    let bench = Bench { store, ..bench };
    for n in 1..=20 {
        let id = bench.incident(&format!("LLMHighTTFT{n}"), "firing", true).await;
        let press = |user: &str| request(&format!("{user}-{n}"), user, pressed("escalate", &id));
        tokio::join!(receive(&first, press("U0ANN")), receive(&second, press("U0BEN")));
        let calls = bench.said().into_iter().filter(|text| text.starts_with("<!subteam^S0ONCALL> ")).count();
        assert_eq!((calls, bench.audit().await.len()), (n, n), "{:?}", bench.said());
    }
}

/// The longest time until Slack has its answer.
const ACKNOWLEDGED: Duration = Duration::from_millis(2_900);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_in_time_does_nothing_and_everybody_is_told() {
    let postgres = Postgres::start().unwrap();
    let bench = Bench::start(&format!("{ON_CALL}\n{OFTEN}"), &[], NOWHERE).await;
    let (state, store) = (tempfile::tempdir().unwrap(), Store::connect(&postgres.url()).await.unwrap());
    let desk = replica(&bench, store.clone(), &state);
    let bench = Bench { store, ..bench };
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    let mut beside = sqlx::PgConnection::connect(&postgres.url()).await.unwrap();
    let run = async |beside: &mut sqlx::PgConnection, sql: &'static str| {
        sqlx::Executor::execute(&mut *beside, sql).await.unwrap();
    };
    let answered = async |id: &str, what: SlackAction| {
        tokio::time::timeout(ACKNOWLEDGED, desk.receive(request(id, "U0ANN", what))).await.unwrap()
    };
    let playbooks = || SlackAction::Command { text: "playbooks".into() };

    // No request can be recorded: no act, and people read on.
    run(&mut beside, "BEGIN").await;
    run(&mut beside, "LOCK TABLE requests IN ACCESS EXCLUSIVE MODE").await;
    let (press, form, read) = tokio::join!(
        answered("t-1", pressed("acknowledge", &id)),
        answered("t-2", submitted(&id)),
        answered("t-3", playbooks())
    );
    assert_eq!((press, read), (Ack::Received, Ack::Received));
    assert!(format!("{form:?}").contains("The store does not answer, so nothing was done"), "{form:?}");
    run(&mut beside, "ROLLBACK").await;
    settled(&desk).await;
    let said = bench.said().join("\n");
    assert!(said.contains("The store does not answer") && said.contains("high-ttft"), "{said}");
    assert_eq!(bench.audit().await, Vec::<String>::new());

    // A form that takes too long is told so, and Slack does not close it as if it were accepted.
    run(&mut beside, "BEGIN").await;
    run(&mut beside, "LOCK TABLE incidents IN ACCESS EXCLUSIVE MODE").await;
    let form = answered("t-4", submitted(&id)).await;
    assert!(format!("{form:?}").contains("This took too long, so nothing was done"), "{form:?}");
    run(&mut beside, "ROLLBACK").await;
    settled(&desk).await;
    assert_eq!(bench.audit().await, Vec::<String>::new());
    assert_eq!(answered("t-5", submitted(&id)).await, Ack::Received);
    settled(&desk).await;
    assert_eq!(bench.audit().await, ["wrong U0ANN done"]);
}

#[tokio::test]
async fn what_is_over_the_rate_limit_is_not_recorded() {
    let bench = Bench::start(&format!("{ON_CALL}\ncommands_per_minute: [2, 6000, 6000]"), &[], NOWHERE).await;
    for n in 0..20 {
        let command = SlackAction::Command { text: "playbooks".into() };
        receive(&bench.desk, request(&format!("trigger-{n}"), "U0ANN", command)).await;
    }
    let mut new = 0;
    for n in 0..20 {
        new += usize::from(bench.store.claim_request(&format!("trigger-{n}"), clock::now()).await.unwrap());
    }
    assert_eq!(new, 18);
}
