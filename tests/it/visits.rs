//! The commands that look at a service's store, Alertmanager and Prometheus: beside it, after it, and without it.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use findings::Diagnosis;
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::stack::{Alertmanager, Postgres};
use serde_json::{Value, json};
use store::{AdmissionPlan, AuditEntry, Feedback, Store};

use crate::admission::CALM;
use crate::harness::fixture;
use crate::running::{BINARY, group, named, tls};

const NOWHERE: &str = "http://127.0.0.1:1";

/// What a command printed, said and returned.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a command with a configuration.
fn run(config: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(BINARY);
    for name in ["PROMETHEUS_URL", "LLM_DIAGNOSE_STATE_DIR", "STATE_DIRECTORY"] {
        command.env_remove(name);
    }
    let output: Output =
        command.args(arguments).env("LLM_DIAGNOSE_CONFIG", config).env("USER", "eve").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

impl Ran {
    fn says(&self, code: i32, expected: &str) {
        assert!(
            self.code == Some(code) && (self.out.contains(expected) || self.err.contains(expected)),
            "{expected}: {self:?}"
        );
    }
}

/// The incident of a webhook's body; its id.
async fn admit(store: &Store, body: &Value) -> String {
    let body = serde_json::to_vec(body).unwrap();
    let wanted = AdmissionPlan {
        selection: Some(("high-ttft".into(), "its name".into())),
        sinks: Vec::new(),
        filtered: Vec::new(),
        grace: Duration::ZERO,
        storm: CALM,
    };
    let rules = AdmissionRules { duplicate_within: Duration::ZERO, reopen_within: Duration::from_secs(600) };
    let groups = [(AlertGroup::from_webhook(&body).unwrap(), wanted)];
    store.admit(&groups, clock::now(), &rules).await.unwrap().remove(0).unwrap().incident
}

/// An incident with a diagnosis, that somebody judged and acted on; its id.
async fn incident(store: &Store) -> String {
    let id = admit(store, &group("LLMHighTTFT", "firing", "warning", &["a", "b"])).await;
    let diagnosis: Diagnosis = serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
    let incident = store.incident(&id).await.unwrap().unwrap();
    store.save_diagnosis(&incident, Some(&diagnosis), true, None, clock::now()).await.unwrap();
    store.audit(&AuditEntry::new_attempt("U0ANN", "C1", "acknowledge\nforged", Some(&id), clock::now())).await.unwrap();
    let said = Feedback {
        incident: id.clone(),
        who: "U0ANN".to_owned(),
        at: clock::now(),
        is_right: true,
        named: "longer-prompts".to_owned(),
        cause: "longer-prompts".to_owned(),
        comment: "yes\u{1b}[31m".to_owned(),
    };
    store.give_feedback(&said).await.unwrap();
    id
}

/// Every command that only looks, and a part of what it prints.
fn looks(id: &str) -> Vec<(Vec<String>, String)> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    vec![
        (words("incidents"), id.to_owned()),
        (words("accuracy"), "as people here found: 1 right, 0 wrong".to_owned()),
        (words("audit"), "U0ANN in C1: acknowledge forged".to_owned()),
        (words("feedback"), "longer-prompts ─▶ longer-prompts".to_owned()),
    ]
}

#[tokio::test]
async fn the_list_of_incidents_shows_no_secret_of_a_label() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("c.yaml");
    std::fs::write(&config, format!("state_dir: {}\n", directory.path().display())).unwrap();
    let store = Store::open(&directory.path().join("llm-diagnose.db")).await.unwrap();
    let mut sent = group("LLMHighTTFT", "firing", "warning", &["a", "b"]);
    for alert in sent["alerts"].as_array_mut().unwrap() {
        alert["labels"]["hf_token"] = json!("correct-horse");
    }
    let id = admit(&store, &sent).await;
    store.close().await;
    let ran = run(&config, &["incidents"]);
    ran.says(0, &id);
    assert!(ran.out.contains("hf_token=[redacted: secret-field]") && !ran.out.contains("correct-horse"), "{ran:?}");
}

fn look(config: &Path, id: &str) {
    for (arguments, expected) in looks(id) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = run(config, &arguments);
        ran.says(0, &expected);
        assert!(!ran.out.contains('\u{1b}'), "{ran:?}");
    }
}

/// A bundle is read from the store like everything else; without a Prometheus it is made all the same.
fn bundle(config: &Path, id: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.zip");
    run(config, &["bundle", id, "--prometheus", NOWHERE, "-o", file.to_str().unwrap()]).says(3, "cannot be asked");
    assert_eq!(crate::bundles::summary(&std::fs::read(file).unwrap())["incident"]["id"], id);
}

/// Everything in every table.
fn everything(postgres: &Postgres) -> Vec<String> {
    let tables = "SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'public'";
    let tables = postgres.query("postgres", tables).unwrap();
    let rows = |table: &str| {
        let all = format!("SELECT string_agg(t::text, '|' ORDER BY t::text) FROM \"{table}\" t");
        format!("{table}: {}", postgres.query("postgres", &all).unwrap())
    };
    tables.split_whitespace().map(rows).collect()
}

#[tokio::test]
async fn what_is_kept_is_shown_beside_the_service_and_after_it_and_nothing_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (config, state) = (directory.path().join("c.yaml"), directory.path().join("state"));
    std::fs::write(&config, format!("state_dir: {}\n", state.display())).unwrap();
    for (arguments, _) in looks("x") {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // What was measured is known without a store.
        let code = if arguments[0] == "accuracy" { 0 } else { 2 };
        run(&config, &arguments).says(code, "there is no store at ");
    }
    assert!(!state.exists(), "nobody who looks makes a store");
    std::fs::create_dir(&state).unwrap();
    let store = Store::open(&state.join("llm-diagnose.db")).await.unwrap();
    let id = incident(&store).await;
    look(&config, &id);
    store.close().await;
    let before = std::fs::read(state.join("llm-diagnose.db")).unwrap();
    look(&config, &id);
    assert_eq!(std::fs::read(state.join("llm-diagnose.db")).unwrap(), before);
    bundle(&config, &id);
    assert_eq!(std::fs::read(state.join("llm-diagnose.db")).unwrap(), before);
    run(&config, &["bundle", "01NONE"]).says(2, "there is no such incident");
    let entries: Value = serde_json::from_str(&run(&config, &["audit", "--output", "json"]).out).unwrap();
    assert_eq!((&entries[0]["who"], &entries[0]["incident"]), (&json!("U0ANN"), &json!(id)));
    run(&config, &["audit", "--since", "yesterday"]).says(2, "yesterday");

    // What people judged becomes a verdict test that holds.
    let export = directory.path().join("tests");
    let ran = run(&config, &["feedback", "--export", export.to_str().unwrap()]);
    ran.says(0, "wrote 1 verdict test");
    assert_eq!(std::fs::read_dir(&export).unwrap().count(), 1);
    run(&config, &["test", export.to_str().unwrap()]).says(0, "");

    // A file of an older or a newer version, and what is no store at all.
    let store = Store::open(&state.join("llm-diagnose.db")).await.unwrap();
    store.close().await;
    for (what, expected) in [("text", "cannot use the store at "), ("", "no llm-diagnose has made its tables in it")] {
        std::fs::write(state.join("llm-diagnose.db"), what.repeat(1_000)).unwrap();
        run(&config, &["incidents"]).says(2, expected);
    }
}

#[tokio::test]
async fn a_postgresql_is_looked_at_and_never_made_or_brought_up_to_date() {
    let postgres = Postgres::start().unwrap();
    let file = postgres.file(&postgres.url()).unwrap();
    let config = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(config.path(), format!("database: {{ url_file: {} }}\n", file.path().display())).unwrap();
    run(config.path(), &["audit"]).says(2, "no llm-diagnose has made its tables in it: `serve` does");
    let tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(postgres.query("postgres", tables).unwrap(), "0");
    let store = Store::connect(&postgres.url()).await.unwrap();
    let id = incident(&store).await;
    let before = everything(&postgres);
    assert!(before.iter().any(|rows| rows.contains(&id)), "{before:?}");
    look(config.path(), &id);
    bundle(config.path(), &id);
    assert_eq!(everything(&postgres), before);
    postgres.query("postgres", "UPDATE compatibility SET needs = 99").unwrap();
    run(config.path(), &["incidents"])
        .says(2, "a newer llm-diagnose keeps it (its tables need a version that knows migration 99");
    postgres.query("postgres", "DELETE FROM _sqlx_migrations WHERE version > 1").unwrap();
    postgres.query("postgres", "UPDATE _sqlx_migrations SET version = 0").unwrap();
    run(config.path(), &["incidents"]).says(2, "an older llm-diagnose made it (tables of version 0");
    postgres.stop().unwrap();
    let ran = run(config.path(), &["audit"]);
    ran.says(2, "database.url_file");
    assert!(!ran.err.contains("timed out"), "{ran:?}");
}

#[tokio::test]
async fn the_queries_of_an_incidents_diagnosis_are_plain_promql() {
    let directory = tempfile::tempdir().unwrap();
    let (config, state) = (directory.path().join("c.yaml"), directory.path().join("state"));
    std::fs::write(&config, format!("state_dir: {}\n", state.display())).unwrap();
    std::fs::create_dir(&state).unwrap();
    let store = Store::open(&state.join("llm-diagnose.db")).await.unwrap();
    let id = incident(&store).await;
    let ran = run(&config, &["explain", "--queries", &id]);
    let (titles, queries): (Vec<&str>, Vec<&str>) = ran.out.lines().partition(|line| line.starts_with("# "));
    assert!(ran.code == Some(0) && titles.len() == queries.len() && !queries.is_empty(), "{ran:?}");
    assert!(queries.iter().all(|query| knowledge::promql::parse(query).is_ok()), "{ran:?}");
    let bare = admit(&store, &group("Strange", "firing", "warning", &["a"])).await;
    run(&config, &["explain", "--queries", &bare]).says(2, "nothing was asked for the incident");
    run(&config, &["explain", "--queries", &id.replace('0', "1")]).says(2, "there is no incident");
}

#[tokio::test]
async fn silences_are_made_listed_and_ended_and_every_attempt_is_written_down() {
    tls();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("c.yaml");
    let state = directory.path().join("state");
    let write = |url: &str| {
        let text = format!("state_dir: {}\nalertmanagers: [{{ url: \"{url}\" }}]\n", state.display());
        std::fs::write(&config, text).unwrap();
    };
    std::fs::write(&config, format!("state_dir: {}\n", state.display())).unwrap();
    run(&config, &["silence", "list"]).says(2, "no Alertmanager is configured");
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    write(&alertmanager.url);
    run(&config, &["silence", "list"]).says(0, "there are no silences");
    run(&config, &["silence", "create", "01NONE"]).says(2, "there is no store at ");
    assert!(!state.exists());
    std::fs::create_dir(&state).unwrap();
    let store = Store::open(&state.join("llm-diagnose.db")).await.unwrap();
    let id = incident(&store).await;
    run(&config, &["silence", "create", "01NONE"]).says(2, "there is no incident `01NONE`");
    run(&config, &["silence", "create", &id, "--label", "pod"]).says(2, "do not agree on a label `pod`");
    let alerts = ["a", "b"].map(|pod| {
        json!({ "labels": { "alertname": "LLMHighTTFT", "namespace": "llm", "severity": "warning", "pod": pod } })
    });
    alertmanager.post_alerts(&alerts).await.unwrap();
    let made = run(&config, &["silence", "create", &id, "--for", "2h", "--comment", "known\nupgrade"]);
    made.says(0, "alertname=\"LLMHighTTFT\"");
    let silence = made.out.split_whitespace().next().unwrap().to_owned();
    let listed = run(&config, &["silence", "list"]);
    listed.says(0, &silence);
    assert!(listed.out.contains("known upgrade") && listed.out.contains("cli:eve"), "{listed:?}");
    let listed: Value = serde_json::from_str(&run(&config, &["silence", "list", "--output", "json"]).out).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    run(&config, &["silence", "expire", &silence]).says(0, "ended silence");
    run(&config, &["silence", "list"]).says(0, "there are no silences");
    run(&config, &["silence", "expire", "no-such-silence"]).says(2, "no-such-silence");
    // More names than a matcher takes: nothing is chosen that nobody chose.
    let many = admit(&store, &named(9)).await;
    let refused = run(&config, &["silence", "create", &many]);
    refused.says(2, "a silence takes everything with namespace=\"llm\" severity=\"warning\"");
    refused.says(2, "--label");
    run(&config, &["silence", "list"]).says(0, "there are no silences");
    let wide = ["silence", "create", &many, "--label", "namespace"];
    run(&config, &wide).says(2, "not of the incident would be silenced too (2 now)");
    run(&config, &["silence", "create", &id, "--for", "25h"]).says(2, "a silence lasts from a minute to 24 h");
    run(&config, &["silence", "list"]).says(0, "there are no silences");
    let chosen = run(&config, &[&wide[..], &["--others"]].concat());
    chosen.says(0, ": namespace=\"llm\"\n");
    run(&config, &["silence", "expire", chosen.out.split_whitespace().next().unwrap()]).says(0, "ended silence");
    write(NOWHERE);
    let away = run(&config, &["silence", "list"]);
    away.says(1, "127.0.0.1:1");
    assert!(!away.out.contains("there are no silences"), "{away:?}");
    let two = format!("alertmanagers: [{{ url: \"{}\" }}, {{ url: \"{NOWHERE}\" }}]", alertmanager.url);
    std::fs::write(&config, format!("state_dir: {}\n{two}\n", state.display())).unwrap();
    let half = run(&config, &["silence", "list"]);
    half.says(1, "127.0.0.1:1");
    assert!(!half.out.contains("there are no silences"), "{half:?}");
    write(NOWHERE);
    run(&config, &["silence", "expire", &silence]).says(1, "127.0.0.1:1");
    run(&config, &["silence", "create", &id]).says(1, "127.0.0.1:1");
    let entries: Value = serde_json::from_str(&run(&config, &["audit", "--output", "json"]).out).unwrap();
    let told: Vec<String> = entries
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .filter(|entry| entry["place"] == "cli")
        .map(|entry| [&entry["who"], &entry["what"], &entry["result"]].map(|v| v.as_str().unwrap()).join(" "))
        .collect();
    let expected = [
        "silence done",
        "expire done",
        "expire failed",
        "silence failed",
        "silence failed",
        "silence done",
        "expire done",
        "expire failed",
        "silence failed",
    ];
    assert_eq!(told, expected.map(|line| format!("cli:eve {line}")));
}
