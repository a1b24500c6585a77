//! Related incidents on both databases: the last time of a cause in a pool, and others that are open there.

use findings::{Diagnosis, Verdict};
use knowledge::incident::{Act, Related, SharedTrait};
use sqlx::{AnyPool, AssertSqlSafe};
use store::{AuditEntry, AuditResult, Store};

use super::{Both, admit, at};
use crate::admission::CALM;
use crate::harness::fixture;

fn diagnosis() -> Diagnosis {
    let mut diagnosis: Diagnosis = serde_json::from_str(&fixture("diagnoses/bad-replica.high-itl.json")).unwrap();
    diagnosis.causes[0].fallback = false;
    diagnosis.causes[0].replicas.nodes = vec!["gpu-node-0".to_owned()];
    diagnosis
}

/// As [`diagnosis`], of the same nodes in another pool.
fn of_pool(namespace: &str) -> Diagnosis {
    let mut diagnosis = diagnosis();
    diagnosis.scope.labels.insert("namespace".to_owned(), namespace.to_owned());
    diagnosis
}

/// An incident that opens at that second with this diagnosis; its id.
async fn opened(store: &Store, name: &str, diagnosis: &Diagnosis, seconds: i64) -> String {
    let (id, _) = admit(store, name, "firing", &CALM, seconds).await;
    diagnosed(store, &id, diagnosis, seconds + 1).await;
    id
}

async fn diagnosed(store: &Store, id: &str, diagnosis: &Diagnosis, seconds: i64) {
    let incident = store.incident(id).await.unwrap().unwrap();
    store.save_diagnosis(&incident, Some(diagnosis), true, None, at(seconds)).await.unwrap();
}

async fn note(store: &Store, id: &str, act: Act, detail: &str, seconds: i64) {
    let attempt = AuditEntry::new_attempt("U1", "C1", act.as_str(), Some(id), at(seconds));
    store.audit(&AuditEntry { result: AuditResult::Done, detail: detail.to_owned(), ..attempt }).await.unwrap();
}

async fn related(store: &Store, id: &str) -> Related {
    store.incident_with_related(id).await.unwrap().unwrap().related
}

async fn last(store: &Store, id: &str) -> Option<String> {
    related(store, id).await.last.map(|last| last.id)
}

/// The other open incidents of one: the id, and what is shared.
async fn open(store: &Store, id: &str) -> Vec<(String, SharedTrait)> {
    related(store, id).await.open.into_iter().map(|other| (other.id, other.shared)).collect()
}

async fn run(database: &AnyPool, sql: String) {
    sqlx::query(AssertSqlSafe(sql)).execute(database).await.unwrap();
}

#[tokio::test]
async fn the_last_time_of_a_cause_in_its_pool_is_told_with_what_was_done() {
    let both = Both::start();
    for (store, database) in both.stores("last").await.iter().zip(both.databases("last").await) {
        let first = opened(store, "First", &diagnosis(), 0).await;
        assert_eq!(related(store, &first).await, Related::default());
        for (seconds, act, detail) in [
            (60, Act::Acknowledge, ""),
            (61, Act::Done, "Restart it"),
            (62, Act::Verify, "Fixed: it is 2"),
            (63, Act::Right, "one replica is much worse than its peers"),
        ] {
            note(store, &first, act, detail, seconds).await;
        }
        // Until the first one is over, it is no last time.
        let beside = opened(store, "Beside", &diagnosis(), 100).await;
        admit(store, "First", "resolved", &CALM, 600).await;
        assert_eq!(last(store, &beside).await, None, "both were open at the same time");

        let (later, _) = admit(store, "Later", "firing", &CALM, 5_000).await;
        assert_eq!(related(store, &later).await, Related::default(), "there is no diagnosis yet");
        diagnosed(store, &later, &diagnosis(), 5_001).await;
        let told = related(store, &later).await.last.unwrap();
        assert_eq!((told.id.as_str(), told.resolved_at), (first.as_str(), at(600)));
        let acts: Vec<(Act, &str)> = told.notes.iter().map(|note| (note.act, note.detail.as_str())).collect();
        assert_eq!(
            acts,
            [
                (Act::Done, "Restart it"),
                (Act::Verify, "Fixed: it is 2"),
                (Act::Right, "one replica is much worse than its peers"),
            ]
        );
        // Another pool, another cause, one that is not likely enough, and a mechanism without a cause.
        let other_cause = {
            let mut diagnosis = diagnosis();
            diagnosis.causes[0].id = "another".to_owned();
            diagnosis
        };
        let mut unlikely = diagnosis();
        unlikely.causes[0].verdict = Verdict::Unlikely;
        let mut fallback = diagnosis();
        fallback.causes[0].fallback = true;
        for other in [of_pool("other"), other_cause, unlikely, fallback] {
            diagnosed(store, &later, &other, 5_002).await;
            assert_eq!(last(store, &later).await, None);
        }
        diagnosed(store, &later, &diagnosis(), 5_003).await;
        assert_eq!(last(store, &later).await.as_ref(), Some(&first));
        // Two senders of alerts may have a pool of the same name.
        let moved = format!("UPDATE incidents SET source = 'south' WHERE id = '{later}'");
        sqlx::query(AssertSqlSafe(moved)).execute(&database).await.unwrap();
        assert_eq!(last(store, &later).await, None);
        assert_eq!(open(store, &later).await, []);
    }
}

#[tokio::test]
async fn open_incidents_of_a_pool_or_a_node_name_each_other_until_one_ends() {
    let both = Both::start();
    for store in both.stores("open").await {
        let one = opened(&store, "One", &diagnosis(), 0).await;
        assert_eq!(open(&store, &one).await, []);
        let two = opened(&store, "Two", &diagnosis(), 10).await;
        let elsewhere = opened(&store, "Elsewhere", &of_pool("other"), 20).await;
        let node = || SharedTrait::Node("gpu-node-0".to_owned());
        assert_eq!(open(&store, &one).await, [(two.clone(), SharedTrait::Pool), (elsewhere.clone(), node())]);
        assert_eq!(open(&store, &two).await, [(one.clone(), SharedTrait::Pool), (elsewhere.clone(), node())]);
        assert_eq!(open(&store, &elsewhere).await, [(two.clone(), node()), (one.clone(), node())]);
        let of_elsewhere = related(&store, &one).await.open.remove(1);
        assert_eq!(of_elsewhere.pool.get("namespace").map(String::as_str), Some("other"));
        assert_eq!(of_elsewhere.what, Some(diagnosis().symptom.title));
        assert_eq!(of_elsewhere.cause, Some(diagnosis().causes[0].title.clone()));
        // A node of that name in another cluster is another node.
        let mut far = of_pool("other");
        far.scope.labels.insert("cluster".to_owned(), "far".to_owned());
        let far = opened(&store, "Far", &far, 30).await;
        assert_eq!(open(&store, &far).await, []);
        // Admission alone changes no message of another.
        let revision = store.incident(&one).await.unwrap().unwrap().revision;
        admit(&store, "Two", "resolved", &CALM, 100).await;
        assert_eq!(open(&store, &one).await, [(elsewhere.clone(), node())]);
        assert_eq!(open(&store, &two).await, [], "it is over");
        assert_eq!(store.incident(&one).await.unwrap().unwrap().revision, revision);
        for (i, name) in ["A", "B", "C", "D"].iter().enumerate() {
            opened(&store, name, &diagnosis(), 200 + i64::try_from(i).unwrap()).await;
        }
        assert_eq!(open(&store, &one).await.len(), 3);
    }
}

#[tokio::test]
async fn traits_of_forgotten_incidents_are_forgotten_too() {
    let both = Both::start();
    for (store, database) in both.stores("traits").await.iter().zip(both.databases("traits").await) {
        opened(store, "Old", &diagnosis(), 0).await;
        let kept =
            async || sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM traits").fetch_one(&database).await.unwrap();
        assert_eq!(kept().await, 4, "pool, labels, cause and node");
        admit(store, "Old", "resolved", &CALM, 100).await;
        while store.forget(at(1_000)).await.unwrap() > 0 {}
        assert_eq!(kept().await, 0);
    }
}

#[tokio::test]
async fn rules_that_label_a_pool_differently_speak_of_one_pool_and_of_no_other() {
    let labelled = |labels: &[(&str, &str)]| {
        let mut diagnosis = diagnosis();
        diagnosis.scope.labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        diagnosis.causes[0].replicas.nodes.clear();
        diagnosis
    };
    let both = Both::start();
    for store in both.stores("labels").await {
        let engine = labelled(&[("cluster", "eu"), ("namespace", "prod"), ("model", "llama"), ("job", "vllm")]);
        let first = opened(&store, "First", &engine, 0).await;
        admit(&store, "First", "resolved", &CALM, 100).await;
        let gpu = labelled(&[("cluster", "eu"), ("namespace", "prod")]);
        let gpu = opened(&store, "Gpu", &gpu, 1_000).await;
        assert_eq!(last(&store, &gpu).await, None, "a rule of GPUs knows no model: it may be another pool's");
        let qwen = labelled(&[("cluster", "eu"), ("namespace", "prod"), ("model", "qwen")]);
        let other = opened(&store, "Other", &qwen, 1_010).await;
        assert_eq!(
            (last(&store, &other).await, open(&store, &other).await),
            (None, vec![(gpu.clone(), SharedTrait::Place)])
        );
        let job = [("cluster", "eu"), ("namespace", "prod"), ("model", "llama"), ("job", "other")];
        let job = opened(&store, "Job", &labelled(&job), 1_020).await;
        assert_eq!(
            last(&store, &job).await.as_ref(),
            Some(&first),
            "the namespace and the model say more than the job"
        );
        assert_eq!(open(&store, &job).await, [(gpu.clone(), SharedTrait::Place)], "another model is another pool");
        // A cluster alone is no pool.
        let cluster = opened(&store, "Cluster", &labelled(&[("cluster", "eu")]), 1_030).await;
        assert_eq!(related(&store, &cluster).await, Related::default());
    }
}

#[tokio::test]
async fn what_did_not_end_and_what_cannot_be_read_is_no_last_time_and_costs_no_message() {
    let both = Both::start();
    for (store, database) in both.stores("ends").await.iter().zip(both.databases("ends").await) {
        let older = opened(store, "Older", &diagnosis(), 0).await;
        admit(store, "Older", "resolved", &CALM, 100).await;
        let newer = opened(store, "Newer", &diagnosis(), 1_000).await;
        admit(store, "Newer", "resolved", &CALM, 1_100).await;
        let now = opened(store, "Now", &diagnosis(), 2_000).await;
        assert_eq!(last(store, &now).await.as_ref(), Some(&newer));
        for reason in ["stale", "unreadable", "readable_again"] {
            run(&database, format!("UPDATE incidents SET reason = '{reason}' WHERE id = '{newer}'")).await;
            assert_eq!(last(store, &now).await.as_ref(), Some(&older), "{reason}");
        }
        run(&database, "ALTER TABLE traits RENAME TO elsewhere".to_owned()).await;
        assert_eq!(related(store, &now).await, Related::default());
    }
}

#[tokio::test]
async fn of_another_pool_on_the_node_no_more_is_told_than_its_channels_tell() {
    let both = Both::start();
    for (store, database) in both.stores("channels").await.iter().zip(both.databases("channels").await) {
        let here = opened(store, "Here", &diagnosis(), 0).await;
        let there = opened(store, "There", &of_pool("other"), 10).await;
        let told = async || related(store, &here).await.open.remove(0);
        assert_eq!(told().await.what, Some(diagnosis().symptom.title));
        run(&database, format!("UPDATE deliveries SET channel = 'C0OTHERTEAM' WHERE incident_id = '{there}'")).await;
        let told = told().await;
        assert_eq!((told.id, told.what, told.cause), (there, None, None));
        assert_eq!((told.shared, told.pool.len()), (SharedTrait::Node("gpu-node-0".to_owned()), 0));
    }
}

#[tokio::test]
async fn all_that_name_an_incident_are_updated_in_slack_and_nowhere_else() {
    let both = Both::start();
    for (store, database) in both.stores("others").await.iter().zip(both.databases("others").await) {
        let mut ids = Vec::new();
        for (i, name) in ["One", "Two", "Three", "Four", "Five", "Six"].iter().enumerate() {
            ids.push(opened(store, name, &diagnosis(), i64::try_from(i).unwrap()).await);
        }
        let revisions = async || {
            let mut all = Vec::new();
            for id in &ids {
                all.push(store.incident(id).await.unwrap().unwrap().revision);
            }
            all
        };
        let due = async |sink: &str| {
            let pending = format!("SELECT COUNT(*) FROM deliveries WHERE state = 'pending' AND sink = '{sink}'");
            sqlx::query_scalar::<_, i64>(AssertSqlSafe(pending)).fetch_one(&database).await.unwrap()
        };
        run(&database, "UPDATE deliveries SET state = 'delivered', posted_ts = '1.1'".to_owned()).await;
        let of_pager = "INSERT INTO deliveries (incident_id, sink, channel, posted_ts, state, due_ms)
                        SELECT id, 'pager', 'hook', '1.2', 'delivered', 0 FROM incidents";
        run(&database, of_pager.to_owned()).await;
        let before = revisions().await;
        let newest = store.incident(&ids[5]).await.unwrap().unwrap();
        store.update_neighbours(&newest, &diagnosis(), at(100)).await.unwrap();
        let after: Vec<i64> = before.iter().enumerate().map(|(i, n)| n + i64::from(i < 5)).collect();
        assert_eq!(revisions().await, after, "also the oldest, which named it");
        assert_eq!((due("slack").await, due("pager").await), (5, 0));
        // A message that waits already is not revised again, nor one that stands in a digest.
        store.update_neighbours(&newest, &diagnosis(), at(101)).await.unwrap();
        run(&database, "UPDATE deliveries SET state = 'digested' WHERE sink = 'slack'".to_owned()).await;
        store.update_neighbours(&newest, &diagnosis(), at(102)).await.unwrap();
        assert_eq!(revisions().await, after);
    }
}

#[tokio::test]
async fn the_pool_comes_before_any_number_of_nodes() {
    let on_nodes = |mut diagnosis: Diagnosis| {
        diagnosis.causes[0].replicas.nodes = (0..32).map(|i| format!("node-{i}")).collect();
        diagnosis
    };
    let both = Both::start();
    for store in both.stores("crowd").await {
        let own = opened(&store, "Own", &on_nodes(diagnosis()), 0).await;
        let beside = opened(&store, "Beside", &on_nodes(diagnosis()), 1).await;
        let mut others = Vec::new();
        for (i, name) in ["A", "B", "C"].iter().enumerate() {
            others.push(opened(&store, name, &on_nodes(of_pool(name)), 10 + i64::try_from(i).unwrap()).await);
        }
        let named = open(&store, &own).await;
        let ids: Vec<&String> = named.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [&beside, &others[2], &others[1]]);
    }
}
