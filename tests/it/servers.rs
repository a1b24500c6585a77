//! Other servers with Prometheus' API, and a proxy before one: they are diagnosed as a Prometheus is.

use diagnose::diagnose;
use findings::{Diagnosis, SymptomVerdict, Verdict};
use llm_diagnose_lab::stack::{Nginx, VictoriaMetrics};

use crate::chains::{asked, history_of};
use crate::harness::{client, library, run, shared};

/// Cases with the playbook that each enters.
const CASES: [(&str, &str); 6] = [
    ("healthy", "high-ttft"),
    ("longer-prompts", "high-ttft"),
    ("slot-limit", "queue-buildup"),
    ("bad-replica", "high-ttft"),
    ("gpu-throttling", "high-itl"),
    ("lost-replicas", "replica-down"),
];

/// What a diagnosis says, without its numbers.
fn gist(diagnosis: &Diagnosis) -> (SymptomVerdict, Option<(Vec<String>, Verdict)>, bool) {
    let root = diagnosis.root().map(|root| (root.chain.clone(), root.verdict));
    (diagnosis.symptom.verdict, root, diagnosis.degraded)
}

#[test]
fn a_victoriametrics_gives_the_same_causes_as_a_prometheus() {
    let victoria = run(async {
        let victoria = VictoriaMetrics::start().await.unwrap();
        for (name, _) in CASES {
            victoria.import(&history_of(name)).await.unwrap();
        }
        victoria
    });
    let ours = client(&victoria.url);
    for (name, playbook) in CASES {
        let request = asked(name, playbook);
        let expected = run(diagnose(library(), shared(), &request));
        let diagnosis = run(diagnose(library(), &ours, &request));
        assert_eq!(diagnosis.problems, Vec::<String>::new(), "{name}");
        assert_eq!(gist(&diagnosis), gist(&expected), "{name}: {:#?}", diagnosis.symptom);
    }
}

#[test]
fn a_proxy_with_a_path_and_a_password_changes_nothing_and_a_wrong_password_is_named() {
    let real = shared().url.clone();
    let directives = format!(
        "server {{ listen 127.0.0.1:$PORT; location /ready {{ return 200; }} location /prom/ {{ auth_basic prometheus; \
         auth_basic_user_file $DIR/users; proxy_pass {real}/; }} }}"
    );
    let nginx = run(Nginx::start(&directives, "/ready", &[("users", "sre:{PLAIN}s3cret\n")])).unwrap();
    let at = |password: &str| format!("{}/prom", nginx.url.replace("http://", &format!("http://sre:{password}@")));
    let request = asked("slot-limit", "queue-buildup");
    let expected = run(diagnose(library(), shared(), &request));
    let diagnosis = run(diagnose(library(), &client(&at("s3cret")), &request));
    assert_eq!((gist(&diagnosis), &diagnosis.problems), (gist(&expected), &expected.problems));
    let refused = run(diagnose(library(), &client(&at("guess")), &request));
    assert_eq!(refused.symptom.verdict, SymptomVerdict::NoData);
    let said = refused.problems.join("; ");
    assert!(said.contains("401") && !said.contains("guess"), "{said}");
}
