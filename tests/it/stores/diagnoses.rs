//! The order in which diagnoses are made when more are due than can be made.

use std::time::Duration;

use findings::Diagnosis;
use knowledge::alert::AlertGroup;
use store::{AdmissionPlan, DeliveryPriority, PendingWork, Sink, Store};

use super::{Both, LEASE_MS, RULES, admit, at, deliver, take};
use crate::admission::CALM;
use crate::harness::fixture;
use crate::running::{CHANNEL, group};

/// Opens an incident that has a diagnosis, and of which another one is due at this time.
async fn diagnosed(store: &Store, name: &str, due: i64) -> String {
    let (id, _) = admit(store, name, "firing", &CALM, 0).await;
    let taken = store.take_diagnoses(at(0), LEASE_MS, 5).await.unwrap();
    assert_eq!(taken.iter().map(|due| due.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    diagnose(store, &id, due, 0).await;
    id
}

async fn diagnose(store: &Store, id: &str, due: i64, seconds: i64) {
    let incident = store.incident(id).await.unwrap().unwrap();
    let found: Diagnosis = serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
    store.save_diagnosis(&incident, Some(&found), true, Some(at(due)), at(seconds)).await.unwrap();
}

async fn deliver_all(store: &Store, seconds: i64) {
    for (n, message) in take(store, seconds).await.0.iter().enumerate() {
        deliver(store, message, &format!("{seconds}.{n}"), seconds).await;
    }
}

#[tokio::test]
async fn a_first_diagnosis_goes_before_repeated_ones_that_are_due_for_less_than_a_minute() {
    let both = Both::start();
    for store in both.stores("turns").await {
        let (late, waiting) = (diagnosed(&store, "Late", 10).await, diagnosed(&store, "Waiting", 50).await);
        let (new, _) = admit(&store, "New", "firing", &CALM, 80).await;
        let mut order = Vec::new();
        for _ in 0..3 {
            order.extend(store.take_diagnoses(at(81), LEASE_MS, 1).await.unwrap().into_iter().map(|due| due.id));
        }
        assert_eq!(order, [late, new, waiting], "nobody waits for ever");
        store.close().await;
    }
}

#[tokio::test]
async fn the_edit_that_brings_the_diagnosis_goes_before_other_edits_of_warnings() {
    let both = Both::start();
    for store in both.stores("first_edits").await {
        let plan = AdmissionPlan {
            selection: Some(("high-ttft".to_owned(), "its name".to_owned())),
            sinks: vec![(Sink::Slack, CHANNEL.to_owned())],
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm: CALM.clone(),
        };
        let of = |name: &str| {
            let body = serde_json::to_vec(&group(name, "firing", "warning", &["a"])).unwrap();
            (AlertGroup::from_webhook(&body).unwrap(), plan.clone())
        };
        let admitted = store.admit(&[of("Old"), of("New")], at(0), &RULES).await.unwrap();
        let [old, new] = admitted.into_iter().map(|one| one.unwrap().incident).collect::<Vec<_>>().try_into().unwrap();
        deliver_all(&store, 1).await;
        diagnose(&store, &old, 900, 2).await;
        deliver_all(&store, 3).await;
        diagnose(&store, &old, 900, 4).await;
        diagnose(&store, &new, 900, 6).await;
        let waiting = store.waiting(at(9), 50).await.unwrap();
        let order = waiting.iter().map(|item| match &item.work {
            PendingWork::Message(message) => (message.incident.clone(), item.turn),
            other => panic!("{other:?}"),
        });
        let expected = [(new, DeliveryPriority::Favoured), (old, DeliveryPriority::Update)];
        assert_eq!(order.collect::<Vec<_>>(), expected);
        store.close().await;
    }
}
