//! Answers that were lost: of a picture, and of messages that appear hours later. The test turns the clock.

use std::time::Duration;

use diagnose::diagnose;
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::slack::{Failure, State};
use store::{AdmissionPlan, DuplicateCheck, PendingWork, Sink};

use super::bench::{Bench, CHANNEL};
use crate::chains::{asked, moment};
use crate::harness::{at, library, run, shared};
use crate::running::{SOON, group, whole};

pub(super) const KEYS: &str =
    "channel: C0LLMALERTS\nposts_per_second: 200\nposts_burst: 200\nupdates_per_minute: 60000";

/// Longer than looks at one place share an answer of Slack.
const SHARED: Duration = Duration::from_secs(1);

/// A notification of one alert that began then; the incident's id.
pub(super) async fn notified(bench: &Bench, status: &str, begins: i64) -> String {
    let mut body = group("LLMHighTTFT", status, "warning", &["a"]);
    body["alerts"][0]["startsAt"] = at(begins).to_string().into();
    let group = AlertGroup::from_webhook(&serde_json::to_vec(&body).unwrap()).unwrap();
    let sinks = vec![(Sink::Slack, CHANNEL.to_owned())];
    let wanted = AdmissionPlan {
        selection: None,
        sinks,
        filtered: Vec::new(),
        grace: Duration::ZERO,
        storm: crate::admission::CALM,
    };
    let rules = AdmissionRules { duplicate_within: Duration::ZERO, reopen_within: Duration::from_secs(600) };
    let admitted = bench.store.admit(&[(group, wanted)], clock::now(), &rules).await.unwrap();
    admitted[0].as_ref().unwrap().incident.clone()
}

/// Delivers what is due so many seconds from now, with what comes of it, some rounds.
pub(super) async fn deliver(bench: &Bench, seconds: u64) {
    for _ in 0..10 {
        let then = clock::after(clock::now(), Duration::from_secs(seconds));
        for work in bench.desk.service.notifier.take(then, 60_000, 50).await.unwrap().work {
            bench.desk.service.notifier.deliver(work).await;
        }
    }
}

fn tops(state: &State) -> Vec<String> {
    state.messages(CHANNEL).filter(|message| message.thread_ts.is_none()).map(whole).collect()
}

fn pictures(state: &State) -> usize {
    state.messages(CHANNEL).filter(|message| !message.files.is_empty()).count()
}

fn calls(state: &State, method: &str) -> usize {
    state.calls().iter().filter(|call| call.method == method).count()
}

/// An incident whose thread is to be shown a picture: the last step of its upload fails so.
fn shown(failure: Failure, then: impl AsyncFnOnce(&Bench)) {
    let prometheus = shared();
    run(async {
        let diagnosis = diagnose(library(), prometheus, &asked("longer-prompts", "high-ttft")).await;
        let bench = Bench::start(KEYS, &[], &prometheus.url).await;
        let id = notified(&bench, "firing", moment("longer-prompts") - 30).await;
        deliver(&bench, 0).await;
        let incident = bench.store.incident(&id).await.unwrap().unwrap();
        bench.store.save_diagnosis(&incident, Some(&diagnosis), true, None, clock::now()).await.unwrap();
        bench.store.queue_picture(&id, clock::now()).await.unwrap();
        bench.slack.fail_next("files.completeUploadExternal", failure, 1);
        deliver(&bench, 5).await;
        then(&bench).await;
        assert_eq!((bench.slack.with(pictures), bench.slack.violations()), (1, vec![]));
    });
}

#[test]
fn a_picture_whose_answer_was_lost_stands_once() {
    shown(Failure::Reset, async |bench| {
        assert_eq!(bench.slack.with(|s| (pictures(s), calls(s, "files.completeUploadExternal"))), (1, 1));
        for seconds in [25, 100, 500, 86_500] {
            deliver(bench, seconds).await;
        }
        assert_eq!(bench.slack.with(|s| calls(s, "files.delete")), 0);
    });
}

#[test]
fn a_picture_that_appears_late_beside_another_is_removed() {
    shown(Failure::Late, async |bench| {
        appear(bench, |s| pictures(s) == 2).await;
        deliver(bench, 25).await;
        assert_eq!(bench.slack.with(|s| calls(s, "files.delete")), 1);
    });
}

/// What was late appears, and the next look sees it.
pub(super) async fn appear(bench: &Bench, appeared: impl FnMut(&State) -> bool) {
    bench.slack.release(1);
    bench.slack.wait_for(appeared, SOON).await.unwrap();
    // The notifier's clock, which no test turns, ends an answer.
    tokio::time::sleep(SHARED).await;
}

/// A message that stands twice: the first call for it had its effect only after all looks of the first minutes.
async fn late() -> Bench {
    let bench = Bench::start(KEYS, &[], "http://127.0.0.1:1").await;
    bench.slack.fail_next("chat.postMessage", Failure::Late, 1);
    notified(&bench, "firing", 0).await;
    for seconds in [5, 25, 100, 500] {
        deliver(&bench, seconds).await;
    }
    appear(&bench, |s| tops(s).len() == 2).await;
    bench
}

#[tokio::test]
async fn what_slack_does_long_after_the_call_is_removed_when_the_incident_ends() {
    let bench = late().await;
    notified(&bench, "resolved", 0).await;
    deliver(&bench, 5).await;
    let left = bench.slack.with(tops);
    assert!(left.len() == 1 && left[0].contains("RESOLVED"), "{left:?}");
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn what_slack_does_long_after_the_call_is_removed_a_day_later_while_the_incident_lasts() {
    let bench = late().await;
    deliver(&bench, 86_500).await;
    assert_eq!(bench.slack.with(tops).len(), 1);
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn the_last_look_is_made_again_when_slack_could_not_answer_it() {
    let bench = late().await;
    // A day has passed: the look is due for the last time.
    let then = clock::after(clock::now(), Duration::from_secs(86_500));
    let waiting = bench.store.waiting(then, 9).await.unwrap();
    let waiting = waiting.into_iter().find(|waiting| matches!(waiting.work, PendingWork::DuplicateCheck(_))).unwrap();
    assert!(bench.store.take(&waiting, then, 1).await.unwrap());
    let PendingWork::DuplicateCheck(check) = waiting.work else { panic!("{check:?}", check = waiting.work) };
    bench.store.finish_duplicate_check(&check, None).await.unwrap();
    let since = clock::before(clock::now(), Duration::from_secs(86_400));
    bench.store.schedule_duplicate_check(&DuplicateCheck { since, ..check }, clock::now()).await.unwrap();
    bench.slack.fail_next("conversations.history", Failure::Status(500), 1);
    deliver(&bench, 0).await;
    assert_eq!(bench.slack.with(tops).len(), 2);
    deliver(&bench, 30).await;
    assert_eq!(bench.slack.with(tops).len(), 1);
}
