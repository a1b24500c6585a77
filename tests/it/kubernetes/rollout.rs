//! What the last rollout changed: from the cluster into the message, and nothing where the cluster may not be asked.

use std::time::Instant;

use diagnose::{ExtraSources, LogSources, diagnose, diagnose_with};
use findings::rollout::{Rollout, TemplateChange};
use findings::{Diagnosis, Request};
use knowledge::alert::Labels;
use knowledge::clock;
use llm_diagnose_lab::kubernetes::{FakeKubernetes, Mode, deployment, object, owned, pod};
use render::{Phrases, diagnosis_message, terminal};
use serde_json::{Value, json};

use super::{SOON, connected};
use crate::chains::asked;
use crate::harness::{library, run, shared};

/// The template of a revision: an image, a limit of slots and a secret in plain text.
fn template(image: &str, slots: u32, token: &str) -> Value {
    json!({ "containers": [{
        "name": "main", "image": image, "args": ["--max-num-seqs", slots.to_string()],
        "env": [{ "name": "HF_TOKEN", "value": token }],
    }] })
}

/// A revision of the Deployment `llama`, as a ReplicaSet.
fn replica_set(namespace: &str, revision: u32, made: &str, spec: Value) -> Value {
    let mut set = object("apps/v1", "ReplicaSet", namespace, &format!("llama-{revision}"));
    set["metadata"]["creationTimestamp"] = json!(made);
    set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!(revision.to_string());
    set["spec"]["template"] = json!({ "spec": spec });
    owned(set, "apps/v1", "Deployment", "llama")
}

/// The third of three revisions runs: it has a newer image, fewer slots and another token. Argo CD deployed it.
async fn rolled_out(namespace: &str, pods: &[&str], made: &str) -> FakeKubernetes {
    let fake = FakeKubernetes::start().await.unwrap();
    for name in pods {
        fake.add(owned(pod(namespace, name, "vllm:v0.11", &[], "gpu-1"), "apps/v1", "ReplicaSet", "llama-10"));
    }
    // By their text the tenth revision comes before the ninth.
    fake.add(replica_set(namespace, 8, "2020-01-01T00:00:00Z", template("vllm:v0.9", 512, "hf_one")));
    fake.add(replica_set(namespace, 9, "2020-02-01T00:00:00Z", template("vllm:v0.10", 256, "hf_two")));
    fake.add(replica_set(namespace, 10, made, template("vllm:v0.11", 64, "hf_three")));
    let mut llama = deployment(namespace, "llama");
    llama["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] = json!("llama-prod:apps/Deployment:llm/llama");
    llama["metadata"]["annotations"]["link.argocd.argoproj.io/app"] = json!("https://argo.example/llama-prod");
    fake.add(llama);
    fake
}

async fn of(fake: &FakeKubernetes, pods: &[&str]) -> Option<Rollout> {
    let pods: Vec<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
    connected(&fake.url).await.rollout("llm", &pods, Instant::now() + SOON).await
}

fn told(changes: &[TemplateChange]) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
    changes.iter().map(|one| format!("{}: {} → {}", one.what, text(&one.before), text(&one.after))).collect()
}

#[tokio::test]
async fn the_two_newest_revisions_are_compared_and_a_secret_is_told_by_its_name() {
    let fake = rolled_out("llm", &["llama-10-b"], "2026-03-01T00:00:00Z").await;
    let rollout = of(&fake, &["gone", "llama-10-b"]).await.unwrap();
    assert_eq!((rollout.workload.as_str(), rollout.revision), ("Deployment/llama", Some(10)));
    let expected = ["image: vllm:v0.10 → vllm:v0.11", "--max-num-seqs: 256 → 64", "env HF_TOKEN: – → –"];
    assert_eq!(told(&rollout.changes), expected);
    let by = rollout.deployed_by.unwrap();
    assert_eq!((by.tool.as_str(), by.name.as_str()), ("Argo CD", "llama-prod"));
    assert_eq!(by.link.as_deref(), Some("https://argo.example/llama-prod"));
    fake.set_mode_of("replicasets", Mode::Forbidden);
    assert_eq!(of(&fake, &["llama-10-b"]).await, None);
}

#[tokio::test]
async fn a_stateful_set_and_a_leader_worker_set_tell_by_their_controller_revisions() {
    let fake = FakeKubernetes::start().await.unwrap();
    let revision = |name: &str, number: u32, kind: (&str, &str), data: Value| {
        let mut revision = object("apps/v1", "ControllerRevision", "llm", name);
        (revision["revision"], revision["data"]) = (json!(number), data);
        owned(revision, kind.0, kind.1, "llama")
    };
    let (stateful, set) = (("apps/v1", "StatefulSet"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"));
    for (number, slots) in [(1, 256), (2, 64)] {
        let data = json!({ "spec": { "template": { "$patch": "replace", "spec": template("vllm", slots, "x") } } });
        fake.add(revision(&format!("s-{number}"), number, stateful, data));
        let leader = json!({ "spec": template("sglang", slots + 1, "x") });
        let data = json!({ "spec": { "leaderWorkerTemplate": { "$patch": "replace", "workerTemplate": leader } } });
        fake.add(revision(&format!("l-{number}"), number, set, data));
    }
    fake.add(owned(pod("llm", "llama-0", "vllm", &[], "gpu-1"), stateful.0, stateful.1, "llama"));
    let mut of_set = owned(pod("llm", "llama-1-0", "sglang", &[], "gpu-1"), stateful.0, stateful.1, "llama-1");
    of_set["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = json!("llama");
    fake.add(of_set);
    let rollout = of(&fake, &["llama-0"]).await.unwrap();
    assert_eq!(rollout.workload, "StatefulSet/llama");
    assert_eq!(told(&rollout.changes), ["--max-num-seqs: 256 → 64"]);
    let rollout = of(&fake, &["llama-1-0"]).await.unwrap();
    assert_eq!(rollout.workload, "LeaderWorkerSet/llama");
    assert_eq!(told(&rollout.changes), ["--max-num-seqs: 257 → 65"]);
}

/// The text of a diagnosis without colours.
fn message(diagnosis: &Diagnosis) -> String {
    let text = terminal(&diagnosis_message(diagnosis, None, &Phrases::english())).to_string();
    anstream::adapter::strip_str(&text).to_string()
}

/// Diagnoses the case of a lowered slot limit, with a cluster whose last rollout began so long before.
async fn with_cluster(request: &Request, hours: u64) -> Diagnosis {
    let made = clock::before(request.at, std::time::Duration::from_secs(hours * 3_600)).to_string();
    let pods: Vec<String> = (0..4).map(|n| format!("vllm-llama-8b-{n}")).collect();
    let fake = rolled_out("slot-limit", &pods.iter().map(String::as_str).collect::<Vec<_>>(), &made).await;
    let cluster = Some((connected(&fake.url).await, Labels::new()));
    let logs = LogSources { kubernetes: cluster, ..LogSources::default() };
    diagnose_with(library(), shared(), request, ExtraSources { exporters: None, logs: Some(&logs) }).await
}

#[test]
fn a_lowered_limit_names_the_flag_and_a_rollout_of_another_day_is_not_told() {
    let request = asked("slot-limit", "queue-buildup");
    shared();
    let (diagnosis, old, without) = run(async {
        let (diagnosis, old) = (with_cluster(&request, 1).await, with_cluster(&request, 48).await);
        (diagnosis, old, diagnose(library(), shared(), &request).await)
    });
    assert_eq!(diagnosis.root().unwrap().id, "limit-lowered");
    let text = message(&diagnosis);
    assert!(text.contains("Changed by the last rollout of `Deployment/llama`, "), "{text}");
    assert!(
        text.contains("`--max-num-seqs`: `256` → `64`") && text.contains("(deployed by Argo CD: llama-prod"),
        "{text}"
    );
    assert!(text.contains("`env HF_TOKEN`: another value, which is not shown") && !text.contains("hf_"), "{text}");
    assert_eq!((old.rollout, without.rollout), (None, None));
}

#[test]
fn a_step_that_restarts_replicas_tells_what_that_costs_now() {
    let request = asked("slot-limit", "queue-buildup");
    shared();
    let diagnosis = run(diagnose(library(), shared(), &request));
    let step = diagnosis.fix.now.iter().find(|fix| fix.action.contains("rollout undo")).unwrap();
    let cost = step.cost.as_ref().unwrap_or_else(|| panic!("{step:#?}"));
    assert!(cost.replica.is_none() && cost.of == 4 && cost.running.is_some_and(|n| n > 0), "{cost:?}");
    // The use of the fullest replica says nothing of the others.
    assert_eq!(cost.others_kv, None, "{cost:?}");
    let text = message(&diagnosis);
    assert!(text.contains("Restarts 4 replicas one after another: each ends about"), "{text}");
    let scale = diagnosis.fix.now.iter().find(|fix| fix.action.contains("scale deployment"));
    assert!(scale.is_none_or(|fix| fix.cost.is_none()), "more replicas restart none");
}
