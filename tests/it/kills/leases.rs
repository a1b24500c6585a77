//! What a killed process was trying for the second time, in the store.

use std::time::Duration;

use store::{PendingWork, PostponeReason, Storm};

use crate::admission::CALM;
use crate::running::CHANNEL;
use crate::stores::{Both, admit, at, deliver, take};

#[tokio::test]
async fn what_a_killed_process_tried_again_is_due_at_the_start_and_a_pause_between_tries_goes_on() {
    let both = Both::start();
    let stores = both.stores("retry").await;
    for store in &stores {
        store.release(at(0)).await.unwrap();
        let (id, _) = admit(store, "A", "firing", &CALM, 0).await;
        for message in take(store, 0).await.0 {
            deliver(store, &message, "1.1", 0).await;
        }
        let storm = Storm { incidents: 1, within: Duration::from_secs(60), queue: 100, topic: "slow".to_owned() };
        admit(store, "B", "firing", &storm, 1).await;
        store.queue_change(&id, CHANNEL, at(1)).await.unwrap();
        let (messages, digests, posts) = take(store, 2).await;
        store
            .postpone(&PendingWork::Message(messages[0].clone()), at(3), PostponeReason::Failed, "reset")
            .await
            .unwrap();
        store.postpone(&PendingWork::Digest(digests[0].clone()), at(3), PostponeReason::Failed, "reset").await.unwrap();
        store.postpone(&PendingWork::Post(posts[0].clone()), at(3), PostponeReason::Failed, "reset").await.unwrap();
        let (messages, digests, posts) = take(store, 3).await;
        assert_eq!((messages.len(), digests.len(), posts.len()), (1, 1, 1));
    }
    // On PostgreSQL a killed replica counts as dead some seconds later (`replicas`); here at once.
    both.postgres.query("retry", "DELETE FROM replicas").unwrap();
    for next in both.again("retry").await.map(Result::unwrap) {
        next.release(at(5)).await.unwrap();
        let (messages, digests, posts) = take(&next, 6).await;
        assert_eq!((messages.len(), digests.len(), posts.len()), (1, 1, 1), "due at the start");
        next.postpone(&PendingWork::Message(messages[0].clone()), at(60), PostponeReason::Failed, "reset")
            .await
            .unwrap();
        next.postpone(&PendingWork::Digest(digests[0].clone()), at(60), PostponeReason::Failed, "reset").await.unwrap();
        next.postpone(&PendingWork::Post(posts[0].clone()), at(60), PostponeReason::Failed, "reset").await.unwrap();
        next.release(at(7)).await.unwrap();
        assert_eq!(next.waiting(at(59), 9).await.unwrap(), [], "the pause goes on");
        assert_eq!(next.waiting(at(60), 9).await.unwrap().len(), 3);
    }
}
