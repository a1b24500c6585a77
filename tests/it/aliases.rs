//! Former ids of playbooks: every place where users may have one leads to the playbook under its id of today.

use llm_diagnose::alert::AlertGroup;
use llm_diagnose::check::{lint, run, verdict_test};
use llm_diagnose::clock;
use llm_diagnose::diagnose::Diagnosis;
use llm_diagnose::explain::{explain, queries_about};
use llm_diagnose::playbook::{load, select};
use llm_diagnose::store::{Feedback, IncidentQuery};

use crate::admission::CALM;
use crate::harness::{fixture, library};
use crate::own_playbooks::{directory, failures, with};
use crate::running::group;
use crate::stores::{Both, admit, at};

/// Former ids, each with the id of today.
const FORMER: [(&str, &str); 4] = [
    ("gpu-throttled", "gpu-clock-bound"),
    ("kv-cache-exhaustion", "kv-cache-full"),
    ("metrics-missing", "scrape-failing"),
    ("routing-skew", "hot-replica"),
];

/// A text of today as it was before.
fn before(text: &str) -> String {
    FORMER.iter().fold(text.to_owned(), |text, (former, id)| text.replace(id, former))
}

fn shipped(path: &str) -> String {
    std::fs::read_to_string(format!("playbooks/{path}")).unwrap()
}

#[test]
fn an_alert_whose_label_has_a_former_id_enters_its_playbook() {
    for (former, id) in FORMER {
        let mut body = group("Ours", "firing", "warning", &["a"]);
        for alert in body["alerts"].as_array_mut().unwrap() {
            alert["labels"]["playbook"] = former.into();
        }
        let alerts = AlertGroup::from_webhook(&serde_json::to_vec(&body).unwrap()).unwrap().alerts;
        let selection = select(library(), &alerts).unwrap();
        assert_eq!((selection.playbook.as_str(), selection.because.as_str()), (id, "label playbook"));
    }
}

#[test]
fn a_former_id_is_explained_as_its_playbook() {
    for (former, id) in FORMER {
        assert_eq!(explain(library(), former, None), explain(library(), id, None));
        assert_eq!(queries_about(library(), former, &[]), queries_about(library(), id, &[]));
        assert!(explain(library(), former, None).unwrap().contains(&format!("({id})")), "{former}");
    }
}

#[test]
fn files_of_a_user_name_playbooks_by_their_former_ids() {
    for folder in ["", "mechanisms/"] {
        let title = "title: the router overloads some replicas";
        let own = before(&shipped("mechanisms/hot-replica.yaml")).replace(title, "title: ours");
        let own = own.replace("aliases: [routing-skew]\n", "");
        let test = before(&shipped("mechanisms/hot-replica.test.yaml"));
        let above = before(&shipped("symptoms/routing-imbalance.yaml"));
        let (playbook, tests) = (format!("{folder}routing-skew.yaml"), format!("{folder}routing-skew.test.yaml"));
        let library = with(&[(&playbook, &own), (&tests, &test), ("routing-imbalance.yaml", &above)]).unwrap();
        assert_eq!((library.playbook("routing-skew").unwrap().title.as_str(), lint(&library)), ("ours", vec![]));
        assert_eq!(library.playbooks.len(), load(None).unwrap().playbooks.len());
        assert_eq!(failures(&library), [""; 0]);
        let cases = |id: &str| run(&library).unwrap().iter().filter(|case| case.playbook == id).count();
        assert_eq!((cases("hot-replica"), cases("routing-skew")), (test.matches("- name: ").count(), 0));
        let below = library.reachable("routing-imbalance");
        assert!(below.iter().any(|node| node.id == "hot-replica" && node.title == "ours"));
    }
}

#[test]
fn every_file_of_a_user_may_have_former_ids() {
    let health = shipped("health.yaml");
    let health = health.replace("{ signal: kv_cache_peak }", "{ signal: kv_cache_peak, playbook: kv-cache-full }");
    let paths = [
        "logs/vllm.yaml",
        "tables/engine-flags.yaml",
        "tables/litellm-codes.yaml",
        "tickets/platform.yaml",
        "symptoms/high-ttft.yaml",
    ];
    let mut texts = paths.map(|path| (path, before(&shipped(path)))).to_vec();
    texts.push(("health.yaml", before(&health)));
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    for (path, text) in &files {
        assert!(FORMER.iter().any(|(former, _)| text.contains(former)), "{path} has no former id");
    }
    let library = with(&files).unwrap();
    assert_eq!(lint(&library), vec![]);
    let causes = &library.playbooks["high-ttft"].causes;
    let loaded = format!("{:?}{:?}{:?}", library.health, library.logs, library.tables);
    let loaded = format!("{loaded}{:?}{causes:?}", library.tickets);
    for (former, _) in FORMER {
        assert!(!loaded.contains(former), "{former}");
    }
}

#[test]
fn an_id_wins_over_an_alias_of_the_same_name() {
    let aliases = "aliases: [high-ttft, queue-buildup, traffic-surge]\n";
    let text = shipped("mechanisms/hot-replica.yaml").replace("aliases: [routing-skew]\n", aliases);
    let own = shipped("symptoms/queue-buildup.yaml");
    let library = with(&[("hot-replica.yaml", &text), ("queue-buildup.yaml", &own)]).unwrap();
    for id in ["high-ttft", "queue-buildup"] {
        assert_eq!(library.playbook(id).unwrap().playbook, id);
    }
    assert_eq!(library.aliases.id("traffic-surge"), "traffic-surge");
}

#[test]
fn former_ids_are_replaced_in_what_an_earlier_diagnosis_could_not_check() {
    let mut diagnosis: Diagnosis = serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
    diagnosis.unchecked[0].causes = vec!["routing-skew".to_owned()];
    diagnosis.resolve_aliases(&library().aliases);
    assert_eq!(diagnosis.unchecked[0].causes, ["hot-replica"]);
}

#[test]
fn an_alias_that_is_an_id_or_stands_twice_is_shown() {
    let found = |aliases: &str| {
        let head = "aliases: [routing-skew]\n";
        let text = shipped("mechanisms/hot-replica.yaml").replace(head, &format!("aliases: [{aliases}]\n"));
        let problems = lint(&with(&[("hot-replica.yaml", &text)]).unwrap());
        problems.into_iter().map(|problem| (problem.rule, problem.message)).collect::<Vec<_>>()
    };
    let said = |message: &str| ("playbook/alias", message.to_owned());
    assert_eq!(found("routing-skew, router-hot"), []);
    assert_eq!(found("traffic-surge"), [said("the alias `traffic-surge` is an id")]);
    assert_eq!(found("hot-replica"), [said("the alias `hot-replica` is an id")]);
    assert_eq!(found("a, a")[0], said("the alias `a` stands here twice"));
    let both = found("gpu-throttled");
    let expected = said("the alias `gpu-throttled` is one of `gpu-clock-bound` too");
    assert!(both.contains(&expected), "{both:?}");
}

#[test]
fn a_new_playbook_takes_no_former_id() {
    let own = directory(&[]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_llm-diagnose"));
    let output = command.args(["new", "playbook", "routing-skew", "--into"]).arg(own.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`routing-skew` is taken"), "{said}");
}

#[tokio::test]
async fn a_store_of_an_earlier_version_is_read_under_the_ids_of_today_and_exported_with_them() {
    let both = Both::start();
    let text = fixture("diagnoses/longer-prompts.high-ttft.json");
    let today: Diagnosis = serde_json::from_str(&text).unwrap();
    let earlier: Diagnosis = serde_json::from_str(&before(&text)).unwrap();
    assert_ne!(today, earlier);
    for store in both.stores("former").await {
        let store = store.with_aliases(library().aliases.clone());
        let (id, _) = admit(&store, "Former", "firing", &CALM, 0).await;
        let incident = store.incident(&id).await.unwrap().unwrap();
        store.save_diagnosis(&incident, Some(&earlier), true, None, at(1)).await.unwrap();
        let said = Feedback {
            incident: id.clone(),
            who: "U0ANN".to_owned(),
            at: clock::now(),
            is_right: false,
            named: "kv-cache-exhaustion".to_owned(),
            cause: "routing-skew".to_owned(),
            comment: String::new(),
        };
        store.give_feedback(&said).await.unwrap();

        let incident = store.incident(&id).await.unwrap().unwrap();
        assert_eq!(incident.diagnosis.as_ref(), Some(&today));
        assert_eq!(store.listed(&IncidentQuery::default(), 9).await.unwrap()[0].diagnosis.as_ref(), Some(&today));
        let said = store.feedback().await.unwrap().remove(0);
        assert_eq!((said.named.as_str(), said.cause.as_str()), ("kv-cache-full", "hot-replica"));
        let text = verdict_test(library(), &incident, &said).unwrap();
        assert!(text.contains("chain: [high-ttft, ") && text.contains("hot-replica]"), "{text}");
        assert!(FORMER.iter().all(|(former, _)| !text.contains(former)), "{text}");
    }
    for (store, database) in both.again("former").await.into_iter().zip(both.databases("former").await) {
        let store = store.unwrap().with_aliases(library().aliases.clone());
        sqlx::query("UPDATE incidents SET playbook = 'routing-skew', diagnosis = NULL")
            .execute(&database)
            .await
            .unwrap();
        let id = store.recent(9).await.unwrap().remove(0);
        let incident = store.incident(&id).await.unwrap().unwrap();
        assert_eq!((incident.playbook.as_deref(), incident.entered()), (Some("hot-replica"), Some("hot-replica")));
    }
}
