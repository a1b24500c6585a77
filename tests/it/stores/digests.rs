//! Digests in the store: what they count, when they are due, when they end.

use std::time::Duration;

use jiff::SignedDuration;
use knowledge::alert::AlertGroup;
use store::{
    AdmissionPlan, CalledPeople, DigestEffects, DigestedDelivery, IncidentPlace, Mention, PendingWork, PostponeReason,
    Sink, Store, Storm,
};

use super::{Both, RULES, admit, at, take, there};
use crate::running::{CHANNEL, group};

#[tokio::test]
async fn a_digest_counts_and_ends_the_same_on_both() {
    let both = Both::start();
    let storm = Storm { incidents: 1, within: Duration::from_secs(60), queue: 100, topic: "slow".to_owned() };
    for store in both.stores("digest").await {
        let mut ids = Vec::new();
        for name in ["A", "B", "C"] {
            ids.push(admit(&store, name, "firing", &storm, 0).await.0);
        }
        let (_, digests, _) = take(&store, 1).await;
        let [digest] = digests.as_slice() else { panic!("{digests:?}") };
        assert_eq!((digest.topic.as_str(), digest.channel.as_str()), ("slow", CHANNEL));
        let of = store.digest_incidents(&digest.id, |incident| incident).await.unwrap();
        assert_eq!(
            of.incidents.iter().map(|i| (i.id.clone(), i.alerts.len())).collect::<Vec<_>>(),
            [(ids[1].clone(), 2), (ids[2].clone(), 2)]
        );
        let called = CalledPeople::default().and(&["S0ONCALL"]);
        let mention = Mention { since: at(1), called: called.clone() };
        store.queue_mentions(&ids[1], CHANNEL, &[], &mention, at(1)).await.unwrap();
        let places = store.digest_places(&digest.id).await.unwrap();
        let expected = [(&ids[1], Some(called)), (&ids[2], None)]
            .map(|(id, called)| (id.clone(), DigestedDelivery { channel: CHANNEL.into(), called, thread_state: None }));
        assert_eq!(places, expected.into());
        store.postpone(&PendingWork::Digest(digest.clone()), at(2), PostponeReason::Failed, "busy").await.unwrap();
        store.digest_moved(digest, "#other", at(2)).await.unwrap();
        let (_, digests, _) = take(&store, 3).await;
        assert_eq!((digests[0].tries, digests[0].channel.as_str()), (2, "#other"));
        // One joins while it is being posted.
        store.digest_moved(digest, CHANNEL, at(3)).await.unwrap();
        let late = admit(&store, "D", "firing", &storm, 4).await.0;
        store
            .digest_delivered(&digests[0], &there("5.5"), of.revisions, &DigestEffects::default(), at(5))
            .await
            .unwrap();
        let (_, digests, _) = take(&store, 6).await;
        assert_eq!(digests[0].posted, Some(there("5.5")));
        let of = store.digest_incidents(&digest.id, |incident| incident).await.unwrap();
        assert_eq!(of.incidents.last().map(|i| i.id.as_str()), Some(late.as_str()));
        store.digest_given_up(&digests[0], of.revisions - 1, "no", at(6)).await.unwrap();
        assert_eq!(take(&store, 100).await.1.len(), 1, "what joined meanwhile tries again");
        store.digest_given_up(&digests[0], of.revisions, "no", at(7)).await.unwrap();
        assert_eq!(take(&store, 1_000).await.1, []);
        for name in ["B", "C", "D"] {
            admit(&store, name, "resolved", &storm, 50).await;
        }
        admit(&store, "B", "firing", &storm, 200).await;
        let (_, digests, _) = take(&store, 201).await;
        assert_eq!(digests.len(), 1, "one fires again");
        admit(&store, "B", "resolved", &storm, 202).await;
        let of = store.digest_incidents(&digest.id, |incident| incident).await.unwrap();
        store
            .digest_delivered(&digests[0], &there("5.5"), of.revisions, &DigestEffects::default(), at(203))
            .await
            .unwrap();
        assert_eq!(take(&store, 2_000).await.1, [], "it is over");
    }
}

/// How many digests are due so many seconds after [`at`].
async fn due(store: &Store, seconds: i64) -> usize {
    let waiting = store.waiting(at(seconds), 50).await.unwrap();
    waiting.iter().filter(|waiting| matches!(waiting.work, PendingWork::Digest(_))).count()
}

#[tokio::test]
async fn a_critical_incident_that_joins_a_digest_is_due_within_two_seconds_but_for_what_is_posted_or_failed() {
    let both = Both::start();
    let storm = Storm { incidents: 1, within: Duration::from_secs(60), queue: 100, topic: "slow".to_owned() };
    for store in both.stores("hasten").await {
        let now = store.now().duration_since(at(0)).as_secs();
        admit(&store, "A", "firing", &storm, now).await;
        let first = admit(&store, "B", "firing", &storm, now).await.0;
        let (_, digests, _) = take(&store, now).await;
        let place = IncidentPlace { incident: first, channel: CHANNEL.to_owned() };
        let mention = Mention { since: at(now + 1), called: CalledPeople::default() };
        let shown = DigestEffects { mentions: vec![(place, mention)], ..DigestEffects::default() };
        let next = at(now) + SignedDuration::from_secs(60);
        store.digest_delivered(&digests[0], &there("5.5"), 1, &shown, next).await.unwrap();
        assert_eq!(due(&store, now + 20).await, 0, "what it shows is not shown again before its time");
        admit(&store, "C", "firing", &storm, now).await;
        assert_eq!([due(&store, now + 1).await, due(&store, now + 2).await], [0, 1]);
        let (_, digests, _) = take(&store, now + 2).await;
        // The next one joins while that one is being shown: the lease goes on, and another edit follows soon.
        admit(&store, "D", "firing", &storm, now + 2).await;
        assert_eq!(due(&store, now + 20).await, 0);
        store.digest_delivered(&digests[0], &there("5.5"), 2, &shown, next).await.unwrap();
        let (_, digests, _) = take(&store, now + 20).await;
        // What Slack refuses keeps its pause, whatever joins.
        store.postpone(&PendingWork::Digest(digests[0].clone()), next, PostponeReason::Failed, "busy").await.unwrap();
        admit(&store, "E", "firing", &storm, now + 20).await;
        admit(&store, "F", "firing", &storm, now + 21).await;
        assert_eq!(due(&store, now + 30).await, 0);
    }
}

#[tokio::test]
async fn a_channel_that_accepts_again_makes_digests_due_that_failed_also_those_that_one_joined_since() {
    let both = Both::start();
    let storm = Storm { incidents: 1, within: Duration::from_secs(60), queue: 100, topic: "slow".to_owned() };
    for store in both.stores("accepts").await {
        let now = store.now().duration_since(at(0)).as_secs();
        for name in ["A", "B"] {
            admit(&store, name, "firing", &storm, now).await;
        }
        let (_, digests, _) = take(&store, now).await;
        let next = at(now) + SignedDuration::from_secs(600);
        store
            .postpone(&PendingWork::Digest(digests[0].clone()), next, PostponeReason::Failed, "is_archived")
            .await
            .unwrap();
        store.refused(CHANNEL, "is_archived", at(now)).await.unwrap();
        admit(&store, "C", "firing", &storm, now).await;
        assert_eq!(due(&store, now + 20).await, 0);
        assert!(store.accepted(CHANNEL, at(now + 20)).await.unwrap());
        assert_eq!(due(&store, now + 20).await, 1);
    }
}

#[tokio::test]
async fn in_a_batch_an_incident_without_storms_has_its_own_message_and_counts_for_the_others() {
    let both = Both::start();
    let storm = |incidents, topic: &str| Storm {
        incidents,
        within: Duration::from_secs(60),
        queue: 100,
        topic: topic.to_owned(),
    };
    for store in both.stores("batch").await {
        let plan = |storm| AdmissionPlan {
            selection: None,
            sinks: vec![(Sink::Slack, CHANNEL.to_owned())],
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm,
        };
        let read = |name| {
            let body = serde_json::to_vec(&group(name, "firing", "warning", &["a"])).unwrap();
            AlertGroup::from_webhook(&body).unwrap()
        };
        let batch = [
            (read("A"), plan(storm(2, "slow"))),
            (read("B"), plan(storm(0, "slow"))),
            (read("C"), plan(storm(2, "slow"))),
            (read("D"), plan(storm(0, "slow"))),
        ];
        let admitted = store.admit(&batch, at(0), &RULES).await.unwrap();
        assert_eq!(store.choose_digests(at(0)).await.unwrap(), 1);
        let (messages, digests, _) = take(&store, 1).await;
        let ids: Vec<String> = admitted.into_iter().map(|one| one.unwrap().incident).collect();
        assert_eq!(messages.into_iter().map(|own| own.incident).collect::<Vec<_>>(), [0, 1, 3].map(|i| ids[i].clone()));
        let of = store.digest_incidents(&digests[0].id, |incident| incident.id).await.unwrap();
        assert_eq!(of.incidents, [ids[2].clone()]);
    }
}

#[tokio::test]
async fn what_a_version_that_knows_no_choice_has_posted_stays_a_message_of_its_own() {
    let both = Both::start();
    let storm = Storm { incidents: 1, within: Duration::from_secs(60), queue: 100, topic: "slow".to_owned() };
    let stores = both.stores("before").await;
    for (store, database) in stores.into_iter().zip(both.databases("before").await) {
        admit(&store, "A", "firing", &storm, 0).await;
        let id = admit(&store, "B", "firing", &storm, 0).await.0;
        let text = serde_json::to_string(&storm).unwrap();
        let posted = "UPDATE deliveries SET storm = $1, state = 'pending', digest_id = NULL, posted_to = 'C0LLM', posted_ts = '1.1'
                      WHERE incident_id = $2 AND sink = 'slack'";
        sqlx::query(posted).bind(text).bind(&id).execute(&database).await.unwrap();
        assert_eq!(store.choose_digests(at(1)).await.unwrap(), 0);
        let (messages, _, _) = take(&store, 1).await;
        let own = messages.iter().find(|message| message.incident == id && message.sink == Sink::Slack);
        assert_eq!(own.unwrap().posted.as_ref().map(|(_, ts)| ts.as_str()), Some("1.1"));
    }
}

#[tokio::test]
async fn replicas_with_news_for_the_same_digests_in_opposite_orders_do_not_wait_for_ever() {
    let both = Both::start();
    let [_, one] = both.stores("orders").await;
    let [_, other] = both.again("orders").await;
    let other = other.unwrap();
    let storm =
        |topic: &str| Storm { incidents: 1, within: Duration::from_secs(3_600), queue: 100, topic: topic.to_owned() };
    let batch = |names: &[&str], severity: &str, seconds: i64| -> Vec<(AlertGroup, AdmissionPlan)> {
        let of = |name: &&str| {
            let mut group = group(name, "firing", severity, &["a"]);
            group["alerts"][0]["startsAt"] = at(seconds).to_string().into();
            let sinks = vec![(Sink::Slack, CHANNEL.to_owned())];
            let plan = AdmissionPlan {
                selection: None,
                sinks,
                filtered: Vec::new(),
                grace: Duration::ZERO,
                storm: storm(&name[..1]),
            };
            (AlertGroup::from_webhook(&serde_json::to_vec(&group).unwrap()).unwrap(), plan)
        };
        names.iter().map(of).collect()
    };
    let all = ["x0", "a1", "b1", "a2", "b2"];
    one.admit(&batch(&all, "warning", 0), at(0), &RULES).await.unwrap();
    assert_eq!(one.choose_digests(at(0)).await.unwrap(), 4);
    for round in 1..20 {
        let severity = if round % 2 == 1 { "critical" } else { "warning" };
        let (now, forth, back) = (at(round * 60), ["a1", "b1"], ["b2", "a2"]);
        let (forth, back) = (batch(&forth, severity, round * 60), batch(&back, severity, round * 60));
        let (forth, back) = tokio::join!(one.admit(&forth, now, &RULES), other.admit(&back, now, &RULES));
        assert!(forth.unwrap().iter().chain(&back.unwrap()).all(Result::is_ok));
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'orders'";
    assert_eq!(both.postgres.query("postgres", deadlocks).unwrap(), "0");
}
