//! Rows that nobody can read: everything else goes on, and it is said.

use llm_diagnose_lab::slack::State;
use llm_diagnose_lab::stack::Postgres;
use serde_json::Value;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use store::{IncidentQuery, Store, StoreAccess};

use crate::running::{CHANNEL, Running, SOON, check, group, until, whole};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";

/// Breaks rows of both databases: a diagnosis, an alert, a post of no known kind that stands first in its thread.
fn broken(ids: &[String]) -> Vec<String> {
    let [diagnosed, alerted, threaded] = ids else { panic!("{ids:?}") };
    vec![
        format!("UPDATE incidents SET diagnosis = '{{\"causes\": 1' WHERE id = '{diagnosed}'"),
        format!("UPDATE alerts SET alert = 'no JSON' WHERE incident_id = '{alerted}'"),
        format!(
            "INSERT INTO posts (id, incident_id, kind, body, due_ms) VALUES ('0', '{threaded}', 'from the future', '', 0)"
        ),
    ]
}

async fn firing(run: &Running, name: &str) -> String {
    let id = run.send(&group(name, "firing", "warning", &["a"])).await["incident"].as_str().unwrap().to_owned();
    run.wait_for(CHANNEL, |message| message.contains(name)).await;
    id
}

/// Everything that is told after rows were broken.
async fn everything_goes_on(run: &Running, names: &[&str], ids: &[String]) {
    // A new alert, news of the thread with the strange post, news of each incident.
    let after = firing(run, "LLMHighITLAfter").await;
    run.send(&group(names[2], "firing", "warning", &["a", "b"])).await;
    let threads =
        |state: &State| state.messages(CHANNEL).any(|m| m.thread_ts.is_some() && whole(m).contains("+1 alert"));
    let told = run.slack.wait_for(threads, SOON).await;
    assert!(told.is_ok(), "{}\n{}", told.unwrap_err(), run.service.stderr());
    for name in names {
        run.send(&group(name, "resolved", "warning", &["a", "b"])).await;
        run.wait_for(CHANNEL, |message| message.contains(name) && message.contains("RESOLVED")).await;
    }
    for path in ["/incidents", "/api/v1/incidents"] {
        let (status, listed) = run.get(path).await;
        assert_eq!(status, 200, "{path}: {listed}");
        let missing: Vec<&String> = ids.iter().chain([&after]).filter(|id| !listed.contains(*id)).collect();
        assert!(missing.is_empty(), "{path} lacks {missing:?}: {listed}");
    }
    assert_eq!(run.slack.violations(), []);
}

/// Log, metric and readiness say it; alerts are taken all the same.
async fn is_said(run: &Running) {
    let log = run.service.stderr();
    assert!(log.contains("a row of the store cannot be read") && log.contains("from the future"), "{log}");
    let (_, metrics) = run.get("/metrics").await;
    let count = metrics.lines().find_map(|line| line.strip_prefix("llm_diagnose_store_unreadable_rows "));
    assert!(count.is_some_and(|count| count != "0"), "{metrics}");
    let (status, ready) = run.get("/readyz").await;
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((status, &ready["status"]), (200, &"degraded".into()), "{ready}");
    let rows = check(&ready, "store rows");
    assert!(rows["detail"].as_str().is_some_and(|detail| detail.contains("cannot be read")), "{ready}");
    assert!(!log.contains("panicked"), "{log}");
}

const NAMES: [&str; 3] = ["LLMHighTTFTOne", "LLMHighTTFTTwo", "LLMHighTTFTThree"];

async fn three(run: &Running) -> Vec<String> {
    let mut ids = Vec::new();
    for name in NAMES {
        ids.push(firing(run, name).await);
    }
    ids
}

#[tokio::test]
async fn rows_that_cannot_be_read_stop_nothing_else_in_sqlite() {
    let run = Running::start_slack(llm_diagnose_lab::slack::Options::unlimited(), ", posts_burst: 50", NOWHERE).await;
    let ids = three(&run).await;
    let gone = firing(&run, "LLMHighTTFTGone").await;
    let database = run.service.directory().join("state/llm-diagnose.db");
    let mut beside = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    let mut sql = broken(&ids);
    // Of this one nothing is left that could be told, and it is due for everything.
    sql.push(format!(
        "UPDATE incidents SET started_ms = 'x', diagnose_due_ms = 0, revision = revision + 1 WHERE id = '{gone}'"
    ));
    sql.push(format!("UPDATE deliveries SET state = 'pending', due_ms = 0 WHERE incident_id = '{gone}'"));
    // What cannot even be fetched: text that is no UTF-8.
    sql.push("INSERT INTO digests (id, channel, topic, opened_ms, joined_ms, due_ms) VALUES (CAST(x'ff' AS TEXT), '', '', 0, 0, 0)".into());
    sql.push(format!(
        "UPDATE deliveries SET note = CAST(x'ff' AS TEXT), told = CAST(x'ff' AS TEXT) WHERE incident_id = '{gone}'"
    ));
    for sql in sql {
        beside.execute(AssertSqlSafe(sql)).await.unwrap();
    }
    everything_goes_on(&run, &NAMES, &ids).await;
    is_said(&run).await;
    // The one that cannot be read takes no place in a list, and hides none that is older.
    let store = Store::visit(&database, StoreAccess::ReadOnly).await.unwrap();
    let listed = store.listed(&IncidentQuery::default(), 4).await.unwrap();
    let listed: Vec<String> = listed.into_iter().map(|incident| incident.id).collect();
    assert!(listed.len() == 4 && !listed.contains(&gone) && ids.iter().all(|id| listed.contains(id)), "{listed:?}");
    store.close().await;
    let aside = "SELECT COUNT(*) FROM incidents WHERE diagnose_due_ms IS NULL AND id = ";
    let aside = format!("{aside}'{gone}'");
    let mut beside = tokio::sync::Mutex::new(beside);
    until(
        SOON,
        async || {
            let mut beside = beside.lock().await;
            let count: i64 = sqlx::query_scalar(AssertSqlSafe(aside.clone())).fetch_one(&mut *beside).await.unwrap();
            count
        },
        |count| *count == 1,
    )
    .await;
    let states = "SELECT COUNT(*) FROM posts WHERE state = 'unreadable'";
    let count: i64 = sqlx::query_scalar(states).fetch_one(beside.get_mut()).await.unwrap();
    assert_eq!(count, 1, "the strange post is set aside");
    beside.into_inner().close().await.unwrap();
}

#[tokio::test]
async fn rows_that_cannot_be_read_stop_nothing_else_in_postgresql() {
    let postgres = Postgres::start().unwrap();
    let address = postgres.file(&postgres.url()).unwrap();
    let extra = format!("{NOWHERE}\ndatabase: {{ url_file: {} }}", address.path().display());
    let run = Running::start_slack(llm_diagnose_lab::slack::Options::unlimited(), ", posts_burst: 50", &extra).await;
    let ids = three(&run).await;
    for sql in broken(&ids) {
        postgres.query("postgres", &sql).unwrap();
    }
    everything_goes_on(&run, &NAMES, &ids).await;
    is_said(&run).await;
    assert_eq!(postgres.query("postgres", "SELECT state FROM posts WHERE id = '0'").unwrap(), "unreadable");
}

/// The service with these groups firing, each with the incident's id; and its database, to be broken.
async fn broken_states(names: &[&str]) -> (Running, Vec<String>, sqlx::SqliteConnection) {
    let keys = ", posts_burst: 50, storm: { incidents: 0 }";
    let run = Running::start_slack(llm_diagnose_lab::slack::Options::unlimited(), keys, NOWHERE).await;
    let mut ids = Vec::new();
    for name in names {
        ids.push(firing(&run, name).await);
    }
    let database = run.service.directory().join("state/llm-diagnose.db");
    let beside = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    (run, ids, beside)
}

#[tokio::test]
async fn a_group_whose_incident_cannot_be_read_gets_another_one_and_the_first_ends() {
    let breaks = [
        "UPDATE incidents SET notified_ms = 'x' WHERE id = ",
        "UPDATE incidents SET truncated = 'x', critical = 'y', resolved_ms = 'z' WHERE id = ",
        "UPDATE incidents SET state = CAST(x'ff' AS TEXT) WHERE id = ",
    ];
    let names: Vec<String> = (0..breaks.len()).map(|i| format!("LLMHighTTFTBroken{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (run, ids, mut beside) = broken_states(&names).await;
    for (id, sql) in ids.iter().zip(breaks) {
        beside.execute(AssertSqlSafe(format!("{sql}'{id}'"))).await.unwrap();
    }
    for (id, name) in ids.iter().zip(&names) {
        let answer = run.send(&group(name, "firing", "warning", &["a", "b"])).await;
        assert_eq!(answer["reason"], "first", "{name}: {answer}");
        let new = answer["incident"].as_str().unwrap().to_owned();
        assert_ne!(&new, id);
        // The next notification finds the new one.
        let again = run.send(&group(name, "firing", "warning", &["a", "b", "c"])).await;
        assert_eq!(again["incident"], new.as_str(), "{name}: {again}");
        let shown = |s: &State| {
            let of = |part: &str| s.messages(CHANNEL).any(|m| whole(m).contains(name) && whole(m).contains(part));
            of("3 firing") && of("its record could not be read: a new incident took its place")
        };
        let seen = run.slack.wait_for(shown, SOON).await;
        assert!(seen.is_ok(), "{name}: {}\n{}", seen.unwrap_err(), run.service.stderr());
        let told: Vec<String> =
            sqlx::query_scalar("SELECT detail FROM events WHERE what = 'set aside' AND incident_id = $1")
                .bind(id)
                .fetch_all(&mut beside)
                .await
                .unwrap();
        assert!(told.len() == 1 && told[0].contains(&new), "{name}: {told:?}");
    }
    assert!(run.service.stderr().contains("a row of the store cannot be read"), "{}", run.service.stderr());
    let ready: Value = serde_json::from_str(&run.get("/readyz").await.1).unwrap();
    assert!(
        check(&ready, "store rows")["detail"].as_str().is_some_and(|why| why.contains("cannot be read")),
        "{ready}"
    );
    beside.close().await.unwrap();
}

#[tokio::test]
async fn a_digest_with_an_incident_that_cannot_be_read_says_so_and_is_not_edited_for_ever() {
    let run = Running::start_slack(
        llm_diagnose_lab::slack::Options::unlimited(),
        ", storm: { incidents: 1 }, posts_burst: 50",
        NOWHERE,
    )
    .await;
    firing(&run, "First").await;
    let mut ids = Vec::new();
    for number in ["1", "2", "3"] {
        let mut one = group("Odd", "firing", "warning", &[number]);
        one["groupKey"] = format!("{{}}:{{alertname=\"Odd\", pod=\"{number}\"}}").into();
        ids.push(run.send(&one).await["incident"].as_str().unwrap().to_owned());
    }
    run.wait_for(CHANNEL, |message| message.contains("storm of 3 incidents")).await;
    let database = run.service.directory().join("state/llm-diagnose.db");
    let mut beside = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    // One cannot be read, the other not even be fetched.
    for (id, broken) in [(&ids[1], "opened_ms = 'x'"), (&ids[2], "because = CAST(x'ff' AS TEXT)")] {
        let sql = format!("UPDATE incidents SET {broken}, revision = revision + 1 WHERE id = '{id}'");
        beside.execute(AssertSqlSafe(sql)).await.unwrap();
    }
    let counted = |message: &str| message.contains("storm of 3 ") && message.contains("2 incidents cannot be read");
    run.wait_for(CHANNEL, counted).await;
    // What is told up to every revision waits for nothing more.
    let behind = "SELECT COUNT(*) FROM digests WHERE delivered < (SELECT SUM(i.revision) FROM deliveries d
                    JOIN incidents i ON i.id = d.incident_id WHERE d.digest_id = digests.id)";
    let beside = tokio::sync::Mutex::new(beside);
    until(
        SOON,
        async || {
            let mut beside = beside.lock().await;
            sqlx::query_scalar::<_, i64>(behind).fetch_one(&mut *beside).await.unwrap()
        },
        |count| *count == 0,
    )
    .await;
    assert_eq!(run.slack.violations(), []);
}

#[tokio::test]
async fn incidents_of_a_digest_are_read_though_many_before_them_cannot_be_fetched() {
    let run = Running::start_slack(
        llm_diagnose_lab::slack::Options::unlimited(),
        ", storm: { incidents: 1 }, posts_burst: 50",
        NOWHERE,
    )
    .await;
    firing(&run, "First").await;
    for number in 0..45 {
        let mut one = group("Odd", "firing", "warning", &["a"]);
        one["groupKey"] = format!("{{}}:{{alertname=\"Odd\", n=\"{number}\"}}").into();
        run.send(&one).await;
    }
    run.wait_for(CHANNEL, |message| message.contains("storm of 45 incidents")).await;
    let database = run.service.directory().join("state/llm-diagnose.db");
    let mut beside = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    let broken = "UPDATE incidents SET because = CAST(x'ff' AS TEXT), revision = revision + 1 WHERE id IN
                    (SELECT incident_id FROM deliveries WHERE digest_id IS NOT NULL ORDER BY incident_id LIMIT 25)";
    beside.execute(broken).await.unwrap();
    let counted = |message: &str| {
        message.contains("storm of 45 ") && message.contains("20 firing") && message.contains("25 incidents cannot")
    };
    run.wait_for(CHANNEL, counted).await;
    assert_eq!(run.slack.violations(), []);
}
