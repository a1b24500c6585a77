//! Servers that refuse, hang, break off, send rubbish or without an end; logs of any kind; ways that lead nowhere.

use std::time::{Duration, Instant};

use llm_diagnose_lab::kubernetes::{FakeKubernetes, Mode, deployment, node, object, pod};
use logs::Log;
use serde_json::json;
use sources::kubernetes::{Config, Kubernetes, KubernetesError, SnapshotRequest};

use super::{IMAGE, SOON, connected, fleet, named, snapshot, wanted, why, with};
use crate::harness::tls;

/// Until a hanging server is given up.
const SHORT: Duration = Duration::from_secs(3);
/// What is let beyond a deadline on a busy machine.
const GRACE: Duration = Duration::from_secs(3);
const WELL: &str = "llama-7d9c5b4f6-aaaaa";
const DYING: &str = "llama-7d9c5b4f6-bbbbb";

// ---- a server in trouble

#[tokio::test]
async fn a_server_that_hangs_with_one_thing_still_tells_the_others_within_the_deadline() {
    let fake = fleet().await;
    ["/log", "/events", "/nodes/gpu-2", "replicasets"].into_iter().for_each(|part| fake.set_mode_of(part, Mode::Hang));
    let began = Instant::now();
    let seen = connected(&fake.url).await.snapshot(&wanted(&[WELL]), began + SHORT).await;
    assert!(began.elapsed() < SHORT + GRACE, "{:?}", began.elapsed());
    assert_eq!((seen.pods.len(), seen.nodes.len()), (2, 1));
    // The way up is not known, so the next one stands for it.
    assert_eq!(named(&seen, WELL).owner.as_deref(), Some("ReplicaSet/llama-7d9c5b4f6"));
    for what in ["log of", "events of namespace llm", "events of nodes", "node gpu-2", "ReplicaSet/llama-7d9c5b4f6"] {
        assert_eq!(why(&seen, what), "no answer in time", "{what}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_with_everything_is_given_up_at_the_deadline() {
    let fake = fleet().await;
    fake.set_mode(Mode::Hang);
    let began = Instant::now();
    let seen = connected(&fake.url).await.snapshot(&wanted(&[WELL]), began + SHORT).await;
    assert!(began.elapsed() < SHORT + GRACE, "{:?}", began.elapsed());
    assert!(seen.pods.is_empty());
    assert_eq!(why(&seen, "pods of namespace llm"), "no answer in time");
}

#[tokio::test]
async fn a_log_that_breaks_off_is_told_as_far_as_it_came() {
    let fake = fleet().await;
    let text: String = (0..200).map(|n| format!("line {n}\n")).collect();
    fake.log("llm", WELL, "main", false, text);
    fake.set_mode_of(&format!("{WELL}/log"), Mode::Stall);
    let seen = connected(&fake.url).await.snapshot(&wanted(&[WELL]), Instant::now() + SHORT).await;
    let log = log(&seen.logs, WELL);
    assert!(log.text.contains(" line 50\n") && !log.text.contains(" line 199\n"), "{}", log.text);
    assert_eq!(why(&seen, WELL), "no answer in time");
}

#[tokio::test]
async fn a_missing_permission_is_named_with_who_lacks_it_and_where_it_is_given() {
    let fake = fleet().await;
    fake.add(object("inference.networking.k8s.io/v1", "InferencePool", "llm", "llama-pool"));
    ["/events", "/nodes", "/log", "inferencepools", "replicasets"]
        .into_iter()
        .for_each(|part| fake.set_mode_of(part, Mode::Forbidden));
    let seen = snapshot(&fake, &wanted(&[WELL])).await;
    assert_eq!(seen.pods.len(), 2);
    let sentence = |what: &str| {
        let who = "`system:serviceaccount:monitoring:llm-diagnose`";
        format!(
            "may not {what}: give {who} that permission, see config/kubernetes/rbac.yaml, for logs config/kubernetes/logs.yaml"
        )
    };
    assert_eq!(why(&seen, "events of namespace llm"), sentence("list events"));
    assert_eq!(why(&seen, "events of nodes"), sentence("list events"));
    assert_eq!(why(&seen, "log of"), sentence("get pods/log"));
    assert_eq!(why(&seen, "inferencepools"), sentence("list inferencepools.inference.networking.k8s.io"));
    assert_eq!(why(&seen, "ReplicaSet of namespace llm"), sentence("get replicasets.apps"));
    let of_nodes: Vec<_> =
        seen.missing.iter().filter(|gap| gap.what == "nodes").map(|gap| gap.reason.as_str()).collect();
    assert_eq!(of_nodes, [&sentence("get nodes")], "said once, not for each node");
}

#[tokio::test]
async fn a_cluster_that_forbids_everything_says_so_and_no_more() {
    let fake = fleet().await;
    fake.set_mode(Mode::Forbidden);
    let seen = snapshot(&fake, &wanted(&[WELL])).await;
    assert!(seen.pods.is_empty() && seen.objects.is_empty());
    assert!(why(&seen, "pods of namespace llm").starts_with("may not list pods: give `system:serviceaccount:"));
}

#[tokio::test]
async fn a_cluster_that_is_away_or_knows_us_no_more_is_one_sentence() {
    let away = connected("http://127.0.0.1:1").await.snapshot(&wanted(&[WELL]), Instant::now() + SOON).await;
    let refused = "the API server cannot be reached: Connection refused (http://127.0.0.1:1)";
    assert!(why(&away, "the cluster").starts_with(refused), "{away:#?}");
    assert!(away.missing.len() <= 2, "{:#?}", away.missing);
    let fake = fleet().await;
    fake.set_mode(Mode::Unauthorized);
    let unknown = snapshot(&fake, &wanted(&[WELL])).await;
    assert!(why(&unknown, "the cluster").starts_with("the API server does not accept our credentials"), "{unknown:#?}");
    assert!(unknown.missing.len() <= 2, "{:#?}", unknown.missing);
}

#[tokio::test]
async fn answers_that_are_rubbish_errors_or_endless_cost_only_themselves() {
    for (mode, sentence) in [
        (Mode::Garbage, "the answer is not what the API promises"),
        (Mode::Status(500), "the API server answered HTTP 500: etcdserver: request timed out"),
        (Mode::Huge, "the answer has more than 8 MiB"),
    ] {
        let fake = fleet().await;
        let client = connected(&fake.url).await;
        for part in ["/events", "/apis", "/nodes/", "/version"] {
            fake.set_mode_of(part, mode);
        }
        let seen = client.snapshot(&wanted(&[WELL]), Instant::now() + SOON).await;
        assert_eq!((seen.pods.len(), seen.logs.len(), &seen.version), (2, 2, &None), "{mode:?}: {:#?}", seen.missing);
        for what in ["events of namespace llm", "node gpu-1", "the list of APIs", "ReplicaSet/", "version"] {
            assert!(why(&seen, what).starts_with(sentence), "{mode:?}, {what}: {}", why(&seen, what));
        }
        fake.set_mode(mode);
        let nothing = client.snapshot(&wanted(&[WELL]), Instant::now() + SOON).await;
        assert!(nothing.pods.is_empty());
        assert!(why(&nothing, "pods of namespace llm").starts_with(sentence), "{mode:?}: {:#?}", nothing.missing);
    }
}

#[tokio::test]
async fn one_pod_that_cannot_be_read_hides_no_other() {
    let fake = fleet().await;
    let mut odd = pod("llm", "odd-0", IMAGE, &[], "gpu-1");
    odd["spec"]["containers"] = json!("a hedgehog");
    fake.add(odd);
    let seen = snapshot(&fake, &wanted(&[WELL])).await;
    assert_eq!(seen.pods.len(), 2);
    assert_eq!(why(&seen, "pods of namespace llm"), "1 of them cannot be read");
}

#[tokio::test]
async fn names_in_answers_that_lead_elsewhere_are_not_followed() {
    let fake = fleet().await;
    let mut odd = pod("llm", WELL, IMAGE, &[], "../namespaces/llm/secrets");
    odd["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "../../secrets/x", "uid": "", "controller": true }]);
    odd["spec"]["containers"][0]["name"] = json!("main&follow=true");
    fake.add(odd);
    let seen = snapshot(&fake, &wanted(&[WELL])).await;
    assert_eq!(named(&seen, WELL).owner.as_deref(), Some("ReplicaSet/../../secrets/x"));
    let asked = fake.asked();
    assert!(
        asked.iter().all(|asked| !asked.path.contains("secrets") && !asked.query.contains_key("follow")),
        "{asked:#?}"
    );
}

#[tokio::test]
async fn an_object_larger_than_anybody_reads_is_left_out_and_told() {
    let fake = fleet().await;
    let mut large = deployment("llm", "llama");
    large["spec"]["template"] = json!("x".repeat(600 << 10));
    fake.add(large);
    let seen = snapshot(&fake, &wanted(&[WELL])).await;
    assert!(seen.objects.iter().all(|object| object.name != "llama"));
    assert!(why(&seen, "apps/v1/Deployment llama").ends_with("bytes, too many"));
}

// ---- logs

fn log<'a>(logs: &'a [Log], pod: &str) -> &'a Log {
    logs.iter().find(|log| log.pod.as_deref() == Some(pod)).unwrap_or_else(|| panic!("no log of {pod}: {logs:#?}"))
}

#[tokio::test]
async fn the_last_words_of_a_container_that_died_are_told_with_their_times() {
    let fake = fleet().await;
    let (logs, missing) = {
        let (client, wanted) = (connected(&fake.url).await, wanted(&[WELL]));
        let namespace = wanted.namespace.as_deref();
        client.logs(namespace, &wanted.pods, wanted.since, wanted.log_bytes, Instant::now() + SOON).await
    };
    assert_eq!(missing, []);
    let died = log(&logs, DYING);
    assert!(died.previous && !died.cut && died.source == "kubernetes" && died.container.as_deref() == Some("main"));
    let line = "2026-11-20T03:00:00.000000000Z torch.OutOfMemoryError\n";
    assert!(died.text.ends_with(line), "{}", died.text);
    assert_eq!((logs.len(), log(&logs, WELL).previous), (2, false));
    let asked: Vec<_> = fake.asked().into_iter().filter(|asked| asked.path.ends_with("/log")).collect();
    assert!(asked.iter().all(|asked| asked.query.contains_key("limitBytes")), "{asked:#?}");
    // The start of each log may lie long before.
    let (ends, starts): (Vec<_>, Vec<_>) = asked.iter().partition(|asked| asked.query.contains_key("tailLines"));
    assert!(ends.iter().all(|asked| asked.query["sinceTime"] == "2026-11-20T02:00:00Z"), "{ends:#?}");
    assert!(starts.iter().all(|asked| !asked.query.contains_key("sinceTime")), "{starts:#?}");
    assert_eq!((ends.len(), starts.len()), (2, 2));
}

#[tokio::test]
async fn long_logs_keep_their_end_within_the_bound_for_all_and_say_that_they_are_cut() {
    let fake = fleet().await;
    let short: String = (0..50_000).map(|n| format!("short line {n}\n")).collect();
    let long: String = (0..2_000).map(|n| format!("{}\nlong line {n}\n", "x".repeat(4_000))).collect();
    fake.log("llm", WELL, "main", false, short);
    fake.log("llm", DYING, "main", true, long);
    let bytes = 400 << 10;
    let seen = snapshot(&fake, &SnapshotRequest { log_bytes: bytes, ..wanted(&[WELL]) }).await;
    assert!(seen.logs.iter().map(|log| log.text.len() as u64).sum::<u64>() <= bytes);
    for (pod, end) in [(WELL, " short line 49999\n"), (DYING, " long line 1999\n")] {
        let log = log(&seen.logs, pod);
        assert!(log.cut && log.text.ends_with(end) && log.text.len() > 50 << 10, "{pod}: {} bytes", log.text.len());
        assert!(log.text.starts_with("2026-"), "begins with a whole line");
        assert_eq!(log.text.matches("[llm-diagnose: a part of this log is left out here]\n").count(), 1, "{pod}");
    }
    assert!(log(&seen.logs, WELL).text.contains("Z short line 0\n"), "the start tells versions and arguments");
}

#[tokio::test]
async fn a_log_whose_start_cannot_be_had_is_told_without_it() {
    let fake = fleet().await;
    let text: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
    fake.log("llm", WELL, "main", false, text);
    fake.without_starts();
    let seen = snapshot(&fake, &SnapshotRequest { log_bytes: 200 << 10, ..wanted(&[WELL]) }).await;
    let told = log(&seen.logs, WELL);
    assert!(told.cut && told.text.ends_with(" line 49999\n") && !told.text.contains("left out"), "{}", told.text);
}

#[tokio::test]
async fn bytes_that_are_no_text_do_no_harm_and_no_bytes_fetch_nothing() {
    let fake = fleet().await;
    fake.log("llm", WELL, "main", false, b"tokens \xff\xfe\x00 end\n".to_vec());
    let seen = snapshot(&fake, &wanted(&[WELL])).await;
    assert!(log(&seen.logs, WELL).text.ends_with("tokens \u{fffd}\u{fffd}\0 end\n"));
    let before = fake.asked().len();
    let none = snapshot(&fake, &SnapshotRequest { log_bytes: 0, ..wanted(&[WELL]) }).await;
    assert!(none.logs.is_empty() && none.missing.is_empty(), "{none:#?}");
    assert!(fake.asked()[before..].iter().all(|asked| !asked.path.ends_with("/log")));
}

#[tokio::test]
async fn more_containers_than_bytes_leave_out_the_least_telling_and_one_reason_is_said_once() {
    let fake = FakeKubernetes::start().await.unwrap();
    fake.add(node("gpu-1"));
    for n in 0..40 {
        fake.add(super::labelled(pod("llm", &format!("llama-{n}"), IMAGE, &[], "gpu-1"), "llama"));
    }
    let seen = snapshot(&fake, &SnapshotRequest { log_bytes: 20 * (64 << 10), ..wanted(&["llama-0"]) }).await;
    assert_eq!(seen.pods.len(), 40);
    assert_eq!(why(&seen, "logs"), "20 of 40 are left out: all together may have 1310720 bytes");
    // The twenty have each a sentence of their own, as the server says it with their names.
    let said = seen.missing.iter().filter(|gap| gap.reason.as_str().contains("is waiting to start")).count();
    assert_eq!(said, 20, "{:#?}", seen.missing);
    fake.set_mode_of("/log", Mode::Forbidden);
    let seen = snapshot(&fake, &wanted(&["llama-0"])).await;
    assert!(why(&seen, "logs of 40 containers, such as llama-0/main").starts_with("may not get pods/log"));
}

// ---- ways that lead nowhere

#[tokio::test]
async fn a_cluster_is_asked_only_where_it_is_wanted() {
    tls();
    let off = Config { enabled: Some(false), ..Config::default() };
    assert!(Kubernetes::connect(&off).await.unwrap().is_none());
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        assert!(Kubernetes::connect(&Config::default()).await.unwrap().is_none());
        let on = Config { enabled: Some(true), ..Config::default() };
        let said = Kubernetes::connect(&on).await.unwrap_err().to_string();
        assert!(said.contains("name a file in `kubernetes.kubeconfig`"), "{said}");
    }
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named_with_what_is_wrong() {
    tls();
    let missing = Config { enabled: Some(true), kubeconfig: Some("/nowhere/kubeconfig".into()), ..Config::default() };
    let said = Kubernetes::connect(&missing).await.unwrap_err();
    assert!(matches!(said, KubernetesError::Kubeconfig(..)));
    assert!(said.to_string().contains("/nowhere/kubeconfig") && said.to_string().contains("No such file"), "{said}");
    let other = Config { context: Some("production".to_owned()), ..Config::default() };
    let said = with("http://127.0.0.1:1", other).await.unwrap_err().to_string();
    assert!(said.ends_with("has no context `production`; it has `lab`"), "{said}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{ this is: [no kubeconfig").unwrap();
    let broken = Config { enabled: Some(true), kubeconfig: Some(file.path().to_owned()), ..Config::default() };
    assert!(matches!(Kubernetes::connect(&broken).await.unwrap_err(), KubernetesError::Kubeconfig(..)));
}

#[tokio::test]
async fn a_cluster_is_asked_with_the_credentials_of_the_kubeconfig_over_tls() {
    // Nobody answers TLS there, so a client was made with the one provider and got as far as the connection.
    let client = connected("https://127.0.0.1:1").await;
    let seen = client.snapshot(&wanted(&[WELL]), Instant::now() + SOON).await;
    assert!(why(&seen, "the cluster").contains("Connection refused"), "{seen:#?}");
}
