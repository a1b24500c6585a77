//! Everything that the store does, on both of its databases.

mod attention;
mod diagnoses;
mod digests;
mod related;
mod weekly;

use std::time::Duration;

use findings::{Diagnosis, ExporterTarget};
use jiff::{SignedDuration, Timestamp};
use knowledge::alert::AlertGroup;
use knowledge::incident::{Act, AdmissionRules, AdmitReason, Impact};
use llm_diagnose_lab::stack::Postgres;
use message::{Message, Tone};
use render::slack;
use sqlx::AnyPool;
use store::{
    AdmissionPlan, AuditEntry, AuditResult, CalledPeople, Delivery, Digest, EndedCall, Escalated, EscalationCall,
    Feedback, Mention, MessageEffects, PendingItem, PendingWork, Post, PostKind, PostponeReason, Sink, Store,
    StoreAccess, StoreError, Storm,
};
use tempfile::TempDir;

use crate::admission::CALM;
use crate::harness::fixture;
use crate::running::{CHANNEL, group};

const RULES: AdmissionRules =
    AdmissionRules { duplicate_within: Duration::from_secs(60), reopen_within: Duration::from_secs(600) };
pub(crate) const LEASE_MS: i64 = 60_000;

pub(crate) fn at(seconds: i64) -> Timestamp {
    "2026-11-20T18:07:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

pub(crate) fn there(ts: &str) -> (String, String) {
    ("C0LLMALERTS".to_owned(), ts.to_owned())
}

/// Both databases, and a second replica of each.
pub(crate) struct Both {
    pub(crate) directory: TempDir,
    pub(crate) postgres: Postgres,
}

impl Both {
    pub(crate) fn start() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), postgres: Postgres::start().unwrap() }
    }

    pub(crate) async fn stores(&self, name: &str) -> [Store; 2] {
        let sqlite = Store::open(&self.directory.path().join(name)).await.unwrap();
        [sqlite, Store::connect(&self.postgres.database(name).unwrap()).await.unwrap()]
    }

    /// The databases below the stores of that name.
    pub(crate) async fn databases(&self, name: &str) -> [AnyPool; 2] {
        let sqlite = format!("sqlite:{}", self.directory.path().join(name).display());
        [AnyPool::connect(&sqlite).await.unwrap(), AnyPool::connect(&self.url(name)).await.unwrap()]
    }

    /// Opens the stores of that name once more, as a restart does.
    pub(crate) async fn again(&self, name: &str) -> [Result<Store, StoreError>; 2] {
        [Store::open(&self.directory.path().join(name)).await, Store::connect(&self.url(name)).await]
    }

    fn url(&self, name: &str) -> String {
        self.postgres.url().replacen("/postgres?", &format!("/{name}?"), 1)
    }
}

pub(crate) async fn admit(
    store: &Store,
    name: &str,
    status: &str,
    storm: &Storm,
    seconds: i64,
) -> (String, AdmitReason) {
    let body = serde_json::to_vec(&group(name, status, "critical", &["a", "b"])).unwrap();
    let wanted = AdmissionPlan {
        selection: Some(("high-ttft".to_owned(), "its name".to_owned())),
        sinks: vec![(Sink::Slack, CHANNEL.to_owned()), (Sink::Console, String::new())],
        filtered: Vec::new(),
        grace: Duration::ZERO,
        storm: storm.clone(),
    };
    let groups = [(AlertGroup::from_webhook(&body).unwrap(), wanted)];
    let admitted = store.admit(&groups, at(seconds), &RULES).await.unwrap().remove(0).unwrap();
    store.choose_digests(at(seconds)).await.unwrap();
    (admitted.incident, admitted.reason)
}

/// Takes everything that waits.
pub(crate) async fn take(store: &Store, seconds: i64) -> (Vec<Delivery>, Vec<Digest>, Vec<Post>) {
    let (mut messages, mut digests, mut posts) = (Vec::new(), Vec::new(), Vec::new());
    for waiting in store.waiting(at(seconds), 50).await.unwrap() {
        assert!(store.take(&waiting, at(seconds), LEASE_MS).await.unwrap(), "{waiting:?}");
        match waiting.work {
            PendingWork::Message(message) => messages.push(message),
            PendingWork::Digest(digest) => digests.push(digest),
            PendingWork::Post(post) => posts.push(post),
            PendingWork::DuplicateCheck(check) => panic!("nothing was lost: {check:?}"),
            PendingWork::SummaryPost(weekly) => panic!("no week has ended: {weekly:?}"),
        }
    }
    (messages, digests, posts)
}

pub(crate) async fn deliver(store: &Store, delivery: &Delivery, ts: &str, seconds: i64) {
    let revision = store.incident(&delivery.incident).await.unwrap().unwrap().revision;
    let mention = Mention { since: at(seconds), called: CalledPeople::default().and(&["S0ONCALL"]) };
    let said =
        MessageEffects { mention: Some(mention), thread_state: Some("{}".to_owned()), ..MessageEffects::default() };
    store.delivered(delivery, Some(&there(ts)), revision, &said, at(seconds)).await.unwrap();
}

/// Something waits once more, and nothing waits after it was delivered.
async fn edited(store: &Store, why: &str, seconds: i64) {
    let (messages, _, _) = take(store, seconds).await;
    assert!(!messages.is_empty(), "{why}: nothing waits");
    for message in &messages {
        let ts = message.posted.as_ref().map_or("7.7", |(_, ts)| ts.as_str()).to_owned();
        deliver(store, message, &ts, seconds).await;
    }
    assert_eq!(store.waiting(at(seconds + 1), 50).await.unwrap(), vec![], "{why}");
    assert_eq!(store.depths(at(seconds)).await.unwrap().2, 0, "{why}");
}

#[tokio::test]
async fn a_message_lives_the_same_life_on_both() {
    let both = Both::start();
    for store in both.stores("life").await {
        let (id, reason) = admit(&store, "A", "firing", &CALM, 0).await;
        assert_eq!(reason, AdmitReason::First);
        assert_eq!(store.depths(at(1)).await.unwrap(), (1, 1, 2));
        let (diagnosis_due, delivery_due) = store.next_due(at(-1)).await.unwrap();
        assert_eq!((diagnosis_due, delivery_due), (Some(at(0).as_millisecond()), Some(at(0).as_millisecond())));
        let stale = store.waiting(at(1), 5).await.unwrap();
        edited(&store, "the first message", 1).await;
        // Whoever had looked before does not post it a second time.
        for waiting in &stale {
            assert!(!store.take(waiting, at(100), LEASE_MS).await.unwrap(), "{waiting:?}");
        }
        assert_eq!(store.place_of(&id).await.unwrap(), Some(there("7.7")));
        let called = store.called_people(&id, CHANNEL).await.unwrap().unwrap();
        assert!(called.includes("S0ONCALL") && !called.includes("S0OTHERS"));
        assert_eq!(store.called_people(&id, "#none").await.unwrap(), None);

        let due = store.take_diagnoses(at(2), LEASE_MS, 5).await.unwrap();
        assert_eq!(due.iter().map(|due| (due.id.as_str(), due.tries)).collect::<Vec<_>>(), [(id.as_str(), 0)]);
        assert_eq!(store.take_diagnoses(at(3), LEASE_MS, 5).await.unwrap(), []);
        let incident = store.incident(&id).await.unwrap().unwrap();
        let found: Diagnosis = serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
        store.save_diagnosis(&incident, Some(&found), true, Some(at(60)), at(3)).await.unwrap();
        edited(&store, "a diagnosis", 4).await;
        store.save_diagnosis(&store.incident(&id).await.unwrap().unwrap(), None, false, None, at(5)).await.unwrap();
        assert_eq!(store.waiting(at(6), 5).await.unwrap(), vec![]);
        assert!(store.incident(&id).await.unwrap().unwrap().diagnosis.is_some());
        assert!(store.diagnose_now(&id, at(6)).await.unwrap() && !store.diagnose_now("none", at(6)).await.unwrap());
        assert!(store.acknowledge(&id, "U0ANN", at(6)).await.unwrap());
        assert!(!store.acknowledge(&id, "U0ANN", at(6)).await.unwrap());
        store.touch(&id).await.unwrap();
        edited(&store, "somebody is on it", 7).await;

        // A message that is gone comes back; not for ever.
        store.forget_message(&id, "7.7", 2, at(8)).await.unwrap();
        edited(&store, "a message that is gone", 9).await;
        store.save_thread_state(&id, CHANNEL, "{\"told\":1}").await.unwrap();
        let attempt = AuditEntry::new_attempt("U0ANN", "C1", "escalate", Some(&id), at(9));
        let attempt = AuditEntry { id: "01J".to_owned(), ..attempt };
        store.escalate(&attempt, at(0), EscalationCall::Pager("pagerduty"), at(9)).await.unwrap();
        let (messages, _, _) = take(&store, 10).await;
        let [page] = messages.as_slice() else { panic!("{messages:?}") };
        assert_eq!((page.sink, store.depths(at(10)).await.unwrap().2), (Sink::Pager, 0), "a pager is no chat");
        store.postpone(&PendingWork::Message(page.clone()), at(11), PostponeReason::Failed, "busy").await.unwrap();
        let (messages, _, _) = take(&store, 12).await;
        assert_eq!(messages.iter().map(|m| m.tries).collect::<Vec<_>>(), [1]);
        store.escalation_ended(page, "01J").await.unwrap();
        store.give_up(page, 99, "nobody there", at(12)).await.unwrap();
        assert_eq!(store.waiting(at(1_000), 5).await.unwrap(), vec![]);

        // What comes meanwhile is not lost with it.
        let (same, reason) = admit(&store, "A", "resolved", &CALM, 100).await;
        assert_eq!((same.as_str(), reason), (id.as_str(), AdmitReason::Resolved));
        let (messages, _, _) = take(&store, 101).await;
        assert_eq!(messages.len(), 3, "Slack, the console and the pager: {messages:?}");
        store.give_up(&messages[0], 1, "too late", at(101)).await.unwrap();
        assert_eq!(store.waiting(at(101 + LEASE_MS), 5).await.unwrap().len(), 3);
        for message in &messages {
            deliver(&store, message, "8.8", 102).await;
        }
        let cost = Impact { requests: Some(100.0), failed: None, slow: Some(1.5) };
        store.save_impact(&id, Some(&cost), at(103)).await.unwrap();
        edited(&store, "what it has cost", 104).await;
        store.save_impact(&id, None, at(105)).await.unwrap();
        assert_eq!(store.incident(&id).await.unwrap().unwrap().impact, Some(cost));

        let (id, _) = admit(&store, "B", "firing", &CALM, 200).await;
        let (messages, _, _) = take(&store, 201).await;
        let slack = messages.iter().find(|m| m.sink == Sink::Slack).unwrap();
        // Another channel stands in for one that refuses, once, and is asked for as long as that lasts.
        store.refused(CHANNEL, "not_in_channel", at(201)).await.unwrap();
        assert!(store.stand_in(&id, CHANNEL, "#other", at(201)).await.unwrap());
        assert!(!store.stand_in(&id, CHANNEL, "#other", at(201)).await.unwrap());
        store
            .postpone(&PendingWork::Message(slack.clone()), at(900), PostponeReason::Failed, "not_in_channel")
            .await
            .unwrap();
        let refusals = store.refusals().await.unwrap();
        assert_eq!(refusals.iter().map(|r| (r.channel.as_str(), r.waiting)).collect::<Vec<_>>(), [(CHANNEL, 1)]);
        assert!(store.claim_refusal_report(CHANNEL, at(201)).await.unwrap());
        assert!(!store.claim_refusal_report(CHANNEL, at(202)).await.unwrap(), "people are told once");
        let (stands, _, _) = take(&store, 202).await;
        assert_eq!(stands.iter().map(|m| m.channel.as_str()).collect::<Vec<_>>(), ["#other"]);
        assert_eq!(store.depths(at(202)).await.unwrap().2, 3);
        deliver(&store, &stands[0], "9.0", 202).await;
        assert_eq!(store.depths(at(202)).await.unwrap().2, 1, "the console's: the refusal keeps nobody in the dark");
        assert_eq!(store.place_of(&id).await.unwrap(), Some(there("9.0")));
        assert!(store.accepted(CHANNEL, at(203)).await.unwrap() && !store.accepted(CHANNEL, at(203)).await.unwrap());
        let (opened, _, _) = take(&store, 203).await;
        assert_eq!(opened.iter().map(|m| m.channel.as_str()).collect::<Vec<_>>(), [CHANNEL], "it waits no longer");
        for message in opened.iter().chain(messages.iter().filter(|m| m.sink == Sink::Console)) {
            deliver(&store, message, "9.1", 203).await;
        }
        assert_eq!(store.place_of(&id).await.unwrap(), Some(there("9.1")), "the wanted one before the stand-in");
        assert_eq!(store.incident_at("C0LLMALERTS", "9.1").await.unwrap(), Some(id.clone()));
        assert_eq!(store.incident_at("C0LLMALERTS", "0.0").await.unwrap(), None);
        assert_eq!(store.resolve_stale(at(300), at(301)).await.unwrap(), 1);
        edited(&store, "nobody has said anything", 302).await;
        let said: Vec<String> = store.events(&id, 50).await.unwrap().into_iter().map(|event| event.what).collect();
        assert_eq!(said.first().map(String::as_str), Some("notified"), "{said:?}");
        assert_eq!(store.recent(1).await.unwrap(), std::slice::from_ref(&id));
        assert_eq!(store.incidents(true, None, 9).await.unwrap(), Vec::<String>::new());
        assert_eq!(store.incidents(false, Some(at(150)), 9).await.unwrap(), [id]);
        assert_eq!(store.forget(at(400)).await.unwrap(), 2);
        assert_eq!(store.recent(9).await.unwrap(), Vec::<String>::new());
        store.ping().await.unwrap();
        store.release(at(500)).await.unwrap();
        assert_eq!(store.heartbeat(at(500)).await.unwrap().alive, 1);
        store.close().await;
    }
}

#[tokio::test]
async fn a_thread_and_its_pictures_are_told_in_order_on_both() {
    let both = Both::start();
    for store in both.stores("thread").await {
        let (id, _) = admit(&store, "A", "firing", &CALM, 0).await;
        let note = Message { tone: Tone::Unknown, headline: "done".to_owned(), parts: Vec::new() };
        for incident in [id.as_str(), "none"] {
            let failed = AuditEntry::new_attempt("U0ANN", "C1", "escalate", Some(incident), at(0));
            let failed = AuditEntry { result: AuditResult::Failed, ..failed };
            assert!(store.end_escalation(&failed, Some(&note), at(0)).await.unwrap());
        }
        for _ in 0..2 {
            store.queue_change(&id, CHANNEL, at(0)).await.unwrap();
            store.queue_picture(&id, at(0)).await.unwrap();
            let mention = Mention { since: at(0), called: CalledPeople::default() };
            store.queue_mentions(&id, CHANNEL, &["S0ONCALL", "S0OTHERS"], &mention, at(0)).await.unwrap();
        }
        let waiting = store.waiting(at(1), 50).await.unwrap();
        assert!(
            waiting.iter().all(|w| matches!(w.work, PendingWork::Message(_))),
            "there is no message to be under: {waiting:?}"
        );
        edited_first(&store, 2).await;
        let mut kinds = Vec::new();
        loop {
            let (_, _, posts) = take(&store, 3).await;
            let Some(post) = posts.first() else { break };
            assert_eq!((&post.thread, post.thread_state.as_deref()), (&there("1.1"), Some("{}")));
            kinds.extend(posts.iter().map(|post| post.kind));
            for post in &posts {
                store.post_needless(post, "said").await.unwrap();
            }
        }
        assert_eq!(kinds, [PostKind::Mention, PostKind::Mention, PostKind::Note, PostKind::Change, PostKind::Picture]);
        store.queue_change(&id, CHANNEL, at(4)).await.unwrap();
        let (_, _, posts) = take(&store, 5).await;
        store.postpone(&PendingWork::Post(posts[0].clone()), at(6), PostponeReason::Failed, "busy").await.unwrap();
        let (_, _, again) = take(&store, 7).await;
        assert_eq!(again[0].tries, 1);
        store.post_given_up(&again[0], "no", at(7)).await.unwrap();
        assert_eq!(take(&store, 1_000).await.2, []);
        assert!(store.events(&id, 50).await.unwrap().iter().any(|e| e.what == "post failed"));

        let (lost, _) = admit(&store, "B", "firing", &CALM, 10).await;
        store.queue_change(&lost, CHANNEL, at(10)).await.unwrap();
        assert_eq!(store.give_up_orphans(at(9)).await.unwrap(), 0);
        assert_eq!(store.give_up_orphans(at(11)).await.unwrap(), 1);

        // A call for a person ends with its post.
        let attempt = AuditEntry::new_attempt("U0ANN", "C1", "escalate", Some(&lost), at(20));
        let escalated = store.escalate(&attempt, at(0), EscalationCall::Post(&slack(&note)), at(20)).await.unwrap();
        assert_eq!(escalated, Escalated::Queued);
        assert_eq!(store.ended_calls(at(0), at(100)).await.unwrap(), []);
        store.give_up_orphans(at(21)).await.unwrap();
        let failed = Some("the incident has no message in Slack".to_owned());
        let ended = EndedCall { incident: lost.clone(), line: attempt.id.clone(), failed };
        assert_eq!(store.ended_calls(at(0), at(100)).await.unwrap(), [ended]);
        store.audit(&AuditEntry { result: AuditResult::Failed, ..attempt }).await.unwrap();
        assert_eq!(store.ended_calls(at(0), at(100)).await.unwrap(), []);
    }
}

async fn edited_first(store: &Store, seconds: i64) {
    for message in &take(store, seconds).await.0 {
        deliver(store, message, "1.1", seconds).await;
    }
}

#[tokio::test]
async fn what_people_do_and_say_is_kept_the_same_on_both() {
    let both = Both::start();
    for store in both.stores("people").await {
        let (id, _) = admit(&store, "A", "firing", &CALM, 0).await;
        let attempt = AuditEntry::new_attempt("U0ANN", "C1", "acknowledge", Some(&id), at(1));
        store.audit(&attempt).await.unwrap();
        assert_eq!(store.notes(&id).await.unwrap(), []);
        let done = AuditEntry { result: AuditResult::Done, detail: "ok".to_owned(), ..attempt };
        store.audit(&done).await.unwrap();
        store.audit(&AuditEntry::new_attempt("cli:x", "cli", "expire", None, at(2))).await.unwrap();
        let notes = store.notes(&id).await.unwrap();
        assert_eq!(notes.iter().map(|n| (n.act, n.who.as_str())).collect::<Vec<_>>(), [(Act::Acknowledge, "U0ANN")]);
        // Downloads are no acts, and push none out.
        let (other, _) = admit(&store, "B", "firing", &CALM, 0).await;
        let line = |what: &str, second: i64| {
            let attempt = AuditEntry::new_attempt("link", "http", what, Some(&other), at(second));
            AuditEntry { result: AuditResult::Done, ..attempt }
        };
        store.audit(&line("note", -400)).await.unwrap();
        for second in 0..200 {
            store.audit(&line("download", -200 + second)).await.unwrap();
        }
        assert_eq!(store.notes(&other).await.unwrap().len(), 1);
        for second in 0..200 {
            store.audit(&line("verify", -200 + second)).await.unwrap();
        }
        let notes = store.notes(&other).await.unwrap();
        assert_eq!((notes.len(), notes[0].at, notes[199].at), (200, at(-200), at(-1)), "the newest count");
        assert_eq!(store.forget_audit(at(0)).await.unwrap(), 401);
        let lines = store.audited(at(0), 9).await.unwrap();
        assert_eq!((lines.len(), &lines[1]), (2, &done));
        assert_eq!(store.forget_audit(at(2)).await.unwrap(), 1);

        let said = |who: &str, is_right, seconds| Feedback {
            incident: id.clone(),
            who: who.to_owned(),
            at: at(seconds),
            is_right,
            named: "longer-prompts".to_owned(),
            cause: "other".to_owned(),
            comment: "\u{fc}".to_owned(),
        };
        assert_eq!(store.found_right().await.unwrap(), (0, 0));
        for (who, is_right, seconds) in [("U0ANN", false, 1), ("U0BEN", false, 2), ("U0BEN", true, 3)] {
            store.give_feedback(&said(who, is_right, seconds)).await.unwrap();
        }
        assert_eq!(store.found_right().await.unwrap(), (1, 0));
        assert_eq!(store.feedback().await.unwrap(), [said("U0ANN", false, 1), said("U0BEN", true, 3)]);

        store.follow_up(&id, "verify", "{}", &[at(10), at(20), at(30)]).await.unwrap();
        store.follow_up(&id, "verify", "{\"n\":2}", &[at(40), at(50)]).await.unwrap();
        assert_eq!(store.take_followups(at(35), LEASE_MS, 9).await.unwrap(), []);
        let due = store.take_followups(at(45), LEASE_MS, 9).await.unwrap();
        assert_eq!(
            due.iter().map(|f| (f.kind.as_str(), f.data.as_str())).collect::<Vec<_>>(),
            [("verify", "{\"n\":2}")]
        );
        assert_eq!(store.take_followups(at(46), LEASE_MS, 9).await.unwrap(), []);
        // What nobody finished is due again at the next start; what is planned for later is not.
        assert_eq!(store.take_followups(at(50), LEASE_MS, 9).await.unwrap().len(), 1);
        store.followed_up(&due[0].id).await.unwrap();
        assert_eq!(store.take_followups(at(1_000), LEASE_MS, 9).await.unwrap().len(), 1);

        let target = ExporterTarget {
            engine: "vllm".to_owned(),
            url: "http://10.0.0.1:8000/metrics".to_owned(),
            labels: [("pod".to_owned(), "a".to_owned())].into(),
            seen: Some(at(0)),
        };
        for _ in 0..2 {
            store.remember_exporters("http://p", std::slice::from_ref(&target)).await.unwrap();
        }
        assert_eq!(store.exporters("http://p").await.unwrap(), [target]);
    }
}

#[tokio::test]
async fn what_a_gone_replica_had_taken_is_due_again_and_its_plans_are_not() {
    let both = Both::start();
    let [sqlite, postgres] = both.stores("gone").await;
    for (store, again) in [(sqlite, None), (postgres, Some("gone"))] {
        store.release(at(0)).await.unwrap();
        let storm = Storm { incidents: 1, within: Duration::from_secs(60), queue: 100, topic: "slow".to_owned() };
        let (id, _) = admit(&store, "A", "firing", &storm, 0).await;
        edited_first(&store, 1).await;
        admit(&store, "B", "firing", &storm, 1).await;
        store.queue_change(&id, CHANNEL, at(1)).await.unwrap();
        store.follow_up(&id, "verify", "{}", &[at(1), at(3_000)]).await.unwrap();
        let (messages, digests, posts) = take(&store, 2).await;
        assert_eq!((messages.len(), digests.len(), posts.len()), (1, 1, 1));
        assert_eq!(store.take_followups(at(2), LEASE_MS, 9).await.unwrap().len(), 1);
        let next = match again {
            // Every start of ours has the file for itself.
            None => store.clone(),
            Some(name) => {
                let socket = both.postgres.url().replacen("/postgres?", &format!("/{name}?"), 1);
                let next = Store::connect(&socket).await.unwrap();
                next.release(at(3)).await.unwrap();
                assert_eq!(next.waiting(at(4), 9).await.unwrap(), Vec::<PendingItem>::new(), "the other one lives");
                assert_eq!(next.take_followups(at(4), LEASE_MS, 9).await.unwrap(), []);
                both.postgres.query(name, "DELETE FROM replicas").unwrap();
                next
            }
        };
        next.release(at(5)).await.unwrap();
        let (messages, digests, posts) = take(&next, 6).await;
        assert_eq!((messages.len(), digests.len(), posts.len()), (1, 1, 1));
        assert_eq!(next.take_followups(at(6), LEASE_MS, 9).await.unwrap().len(), 1);
        assert_eq!(next.take_followups(at(2_999), LEASE_MS, 9).await.unwrap().len(), 1, "its lease has run out");
    }
}

#[tokio::test]
async fn a_visitor_neither_makes_nor_changes_a_store_and_knows_its_age() {
    let both = Both::start();
    let stores = both.stores("visit").await;
    let path = both.directory.path().join("visit");
    let url = both.url("visit");
    let read_only = [
        Store::visit(&path, StoreAccess::ReadOnly).await.unwrap(),
        Store::visit_postgres(&url, StoreAccess::ReadOnly).await.unwrap(),
    ];
    for (store, read_only) in stores.iter().zip(&read_only) {
        let (id, _) = admit(store, "A", "firing", &CALM, 0).await;
        assert!(read_only.incident(&id).await.unwrap().is_some());
        let refused = read_only.touch(&id).await.unwrap_err().to_string();
        assert!(refused.contains("read") && refused.contains("only"), "{refused}");
    }
    for write in [
        Store::visit(&path, StoreAccess::Write).await.unwrap(),
        Store::visit_postgres(&url, StoreAccess::Write).await.unwrap(),
    ] {
        write.audit(&AuditEntry::new_attempt("cli:x", "cli", "expire", None, at(2))).await.unwrap();
        assert_eq!(write.audited(at(0), 9).await.unwrap().len(), 1);
        write.close().await;
    }
    let missing = both.directory.path().join("missing");
    assert!(
        Store::visit(&missing, StoreAccess::ReadOnly).await.is_err()
            && Store::visit(&missing, StoreAccess::Write).await.is_err()
    );
    assert!(!missing.exists());
    let empty = both.postgres.database("empty").unwrap();
    assert!(matches!(Store::visit_postgres(&empty, StoreAccess::ReadOnly).await, Err(StoreError::NoTables)));
    assert_eq!(
        both.postgres.query("empty", "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'").unwrap(),
        "0"
    );
    both.postgres.query("visit", "UPDATE compatibility SET needs = 99").unwrap();
    assert!(matches!(
        Store::visit_postgres(&url, StoreAccess::ReadOnly).await,
        Err(StoreError::Newer { found: 99, .. })
    ));
    both.postgres.query("visit", "DELETE FROM _sqlx_migrations WHERE version > 1").unwrap();
    both.postgres.query("visit", "UPDATE _sqlx_migrations SET version = 0").unwrap();
    for visit in [StoreAccess::ReadOnly, StoreAccess::Write] {
        assert!(matches!(Store::visit_postgres(&url, visit).await, Err(StoreError::Older { found: 0, .. })));
    }
}
