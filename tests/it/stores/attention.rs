//! Snoozes, reminders, maintenance windows and filtered channels, on both databases.

use std::time::Duration;

use knowledge::alert::{AlertGroup, Labels};
use knowledge::incident::MaintenanceWindow;
use store::{AdmissionPlan, PostKind, Sink, Store};

use super::{Both, CALM, RULES, admit, at, deliver, take};
use crate::running::{CHANNEL, group};

const AFTER: Duration = Duration::from_secs(900);

/// Admits a critical incident and posts its message.
async fn posted(store: &Store, name: &str, seconds: i64) -> String {
    let (id, _) = admit(store, name, "firing", &CALM, seconds).await;
    for message in take(store, seconds).await.0 {
        deliver(store, &message, "1.1", seconds).await;
    }
    id
}

/// Admits a group with these pods once more.
async fn again(store: &Store, name: &str, pods: &[&str], plan: &AdmissionPlan, seconds: i64) {
    let body = serde_json::to_vec(&group(name, "firing", "critical", pods)).unwrap();
    let groups = [(AlertGroup::from_webhook(&body).unwrap(), plan.clone())];
    store.admit(&groups, at(seconds), &RULES).await.unwrap().remove(0).unwrap();
}

fn plan(shown: &[&str], filtered: &[&str]) -> AdmissionPlan {
    AdmissionPlan {
        selection: None,
        sinks: shown.iter().map(|channel| (Sink::Slack, (*channel).to_owned())).collect(),
        filtered: filtered.iter().map(|channel| (*channel).to_owned()).collect(),
        grace: Duration::ZERO,
        storm: CALM,
    }
}

/// Reminds, and posts what was queued; its number.
async fn reminded(store: &Store, seconds: i64) -> usize {
    store.remind(AFTER, 2, at(seconds)).await.unwrap();
    let posts = take(store, seconds).await.2;
    let reminders: Vec<_> = posts.iter().filter(|post| post.kind == PostKind::Reminder).collect();
    for post in &reminders {
        store.posted(post, Some("9.9")).await.unwrap();
    }
    reminders.len()
}

#[tokio::test]
async fn reminders_end_by_their_number_or_by_an_acknowledgement() {
    let both = Both::start();
    for store in both.stores("reminders").await {
        let id = posted(&store, "A", 0).await;
        for (seconds, wanted) in [(899, 0), (900, 1), (901, 0), (1_800, 1), (2_700, 0), (9_000, 0)] {
            assert_eq!(reminded(&store, seconds).await, wanted, "{seconds}");
        }
        // One that waits for Slack is no reason for another one, and is not counted twice.
        posted(&store, "B", 10_000).await;
        assert_eq!(store.remind(AFTER, 2, at(10_900)).await.unwrap(), 1);
        assert_eq!(store.remind(AFTER, 2, at(11_800)).await.unwrap(), 0);
        // An acknowledgement ends them until it becomes critical anew.
        let other = posted(&store, "C", 20_000).await;
        assert!(store.acknowledge(&other, "U0ANN", at(20_100)).await.unwrap());
        assert!(!store.acknowledge(&other, "U0ANN", at(20_101)).await.unwrap());
        assert_eq!(store.remind(AFTER, 2, at(21_000)).await.unwrap(), 0, "that of B still waits");
        let critical_since = async || store.incident(&other).await.unwrap().unwrap().critical_at.unwrap();
        store.go_on_after_maintenance(&other, true, at(19_000), at(20_900)).await.unwrap();
        assert_eq!(critical_since().await, at(20_000), "people were called since that window began");
        store.go_on_after_maintenance(&other, true, at(20_900), at(20_950)).await.unwrap();
        assert_eq!(critical_since().await, at(20_950));
        assert_eq!(store.remind(AFTER, 2, at(21_850)).await.unwrap(), 1, "of C");
        assert!(store.acknowledge(&other, "U0ANN", at(21_900)).await.unwrap(), "the same person may take it again");
        assert_ne!(id, other);
    }
}

#[tokio::test]
async fn a_snooze_ends_when_more_fires_than_at_its_calmest() {
    let both = Both::start();
    for store in both.stores("snoozes").await {
        let id = posted(&store, "A", 0).await;
        let incident = async || store.incident(&id).await.unwrap().unwrap();
        let wanted = plan(&[CHANNEL], &[]);
        assert!(!store.unsnooze(&id).await.unwrap());
        assert!(store.snooze(&id).await.unwrap() && incident().await.snoozed);
        assert_eq!(store.remind(AFTER, 2, at(5_000)).await.unwrap(), 0);
        assert!(store.unsnooze(&id).await.unwrap() && !incident().await.snoozed);
        assert!(store.snooze(&id).await.unwrap());
        let since = incident().await.critical_at.unwrap();
        // It calms down from two pods to one, and then two fire again.
        again(&store, "A", &["a"], &wanted, 100).await;
        assert!(incident().await.snoozed);
        again(&store, "A", &["a", "c"], &wanted, 200).await;
        let now = incident().await;
        assert!(!now.snoozed && now.critical_at.unwrap() > since, "people are called again");
        // An end ends it too, also one that Alertmanager did not report.
        assert!(store.snooze(&id).await.unwrap());
        assert_eq!(store.resolve_stale(at(9_000), at(9_000)).await.unwrap(), 1);
        assert!(!incident().await.snoozed && !store.snooze(&id).await.unwrap());
    }
}

#[tokio::test]
async fn the_end_of_a_window_is_seen_once_its_incidents_were_looked_at() {
    let both = Both::start();
    for store in both.stores("windows").await {
        let window = |id: &str, who: &str| MaintenanceWindow {
            id: id.to_owned(),
            labels: Labels::from([("namespace".to_owned(), "llm".to_owned())]),
            since: at(0),
            until: at(600),
            who: who.to_owned(),
            reason: "drivers".to_owned(),
        };
        let (made, configured) = (window("01JAAAA4XQ7", "U0ANN"), window("configured x 0 600", ""));
        store.begin_maintenance(&[made.clone(), configured.clone()]).await.unwrap();
        store.begin_maintenance(std::slice::from_ref(&configured)).await.unwrap();
        assert_eq!(store.maintenance(at(1)).await.unwrap(), [made.clone(), configured]);
        for id in ["XQ7", "XXXX", "0600"] {
            assert_eq!(store.end_maintenance(id, at(100)).await.unwrap(), None, "{id}");
        }
        assert_eq!(store.end_maintenance("4xq7", at(100)).await.unwrap(), Some(made));
        assert_eq!(store.ended_maintenance(at(99)).await.unwrap(), []);
        let ended = store.ended_maintenance(at(100)).await.unwrap();
        assert_eq!(ended.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["01JAAAA4XQ7"]);
        assert_eq!(store.ended_maintenance(at(600)).await.unwrap().len(), 2, "a crash before loses nothing");
        store.see_maintenance(&ended).await.unwrap();
        assert_eq!(store.ended_maintenance(at(600)).await.unwrap().len(), 1);
        assert_eq!(store.forget_maintenance(at(10_000)).await.unwrap(), 1, "only one that was seen");
    }
}

#[tokio::test]
async fn a_filtered_channel_shows_what_it_stands_in_for_and_what_becomes_severe_enough() {
    let both = Both::start();
    for store in both.stores("filtered").await {
        again(&store, "A", &["a"], &plan(&["#gpu"], &["#quiet"]), 0).await;
        let channels = async |seconds| {
            store.choose_digests(at(seconds)).await.unwrap();
            take(&store, seconds).await.0.into_iter().map(|message| message.channel).collect::<Vec<_>>()
        };
        assert_eq!(channels(0).await, ["#gpu"]);
        let id = store.recent(1).await.unwrap().remove(0);
        assert_eq!(store.called_people(&id, "#quiet").await.unwrap(), None, "nobody is called where nothing stands");
        assert!(store.stand_in(&id, "#gpu", "#quiet", at(1)).await.unwrap());
        assert!(!store.stand_in(&id, "#gpu", "#quiet", at(2)).await.unwrap(), "only once");
        assert_eq!(channels(3).await, ["#quiet"]);
        // Another incident, whose severity rises.
        again(&store, "B", &["a"], &plan(&[], &["#quiet"]), 10).await;
        assert_eq!(channels(10).await, [""; 0]);
        again(&store, "B", &["a", "b"], &plan(&["#quiet"], &[]), 20).await;
        assert_eq!(channels(20).await, ["#quiet"]);
    }
}
