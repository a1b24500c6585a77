//! The order in which diagnoses are made when more are due than can be made.

use findings::Diagnosis;
use store::Store;

use super::{Both, LEASE_MS, admit, at};
use crate::admission::CALM;
use crate::harness::fixture;

/// Opens an incident that has a diagnosis, and of which another one is due at this time.
async fn diagnosed(store: &Store, name: &str, due: i64) -> String {
    let (id, _) = admit(store, name, "firing", &CALM, 0).await;
    let taken = store.take_diagnoses(at(0), LEASE_MS, 5).await.unwrap();
    assert_eq!(taken.iter().map(|due| due.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    let incident = store.incident(&id).await.unwrap().unwrap();
    let found: Diagnosis = serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
    store.save_diagnosis(&incident, Some(&found), true, Some(at(due)), at(0)).await.unwrap();
    id
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
