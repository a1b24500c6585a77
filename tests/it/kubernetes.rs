//! The cluster's API: what is told of a pool, what is never asked for, and what a server in trouble leaves of it.

mod rollout;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use findings::cluster::{ClusterSnapshot, Object, Pod};
use jiff::Timestamp;
use knowledge::gap::{Gap, GapReason};
use llm_diagnose_lab::kubernetes::{FakeKubernetes, deployment, event, kubeconfig, node, object, owned, pod};
use serde_json::{Value, json};
use sources::kubernetes::{Config, Kubernetes, KubernetesError, SnapshotRequest, read};

use crate::harness::tls;

/// Enough for a machine that builds something else, and short of what a hanging server would take.
const SOON: Duration = Duration::from_secs(20);
const IMAGE: &str = "vllm/vllm-openai:v0.30.1";

async fn connected(url: &str) -> Kubernetes {
    with(url, Config::default()).await.unwrap().unwrap()
}

async fn with(url: &str, config: Config) -> Result<Option<Kubernetes>, KubernetesError> {
    tls();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig(url)).unwrap();
    let config = Config { enabled: Some(true), kubeconfig: Some(file.path().to_owned()), ..config };
    Kubernetes::connect(&config).await
}

fn wanted(pods: &[&str]) -> SnapshotRequest {
    SnapshotRequest {
        namespace: Some("llm".to_owned()),
        pods: pods.iter().map(|pod| (*pod).to_owned()).collect(),
        since: "2026-11-20T02:00:00Z".parse::<Timestamp>().unwrap(),
        log_bytes: 8 << 20,
    }
}

async fn snapshot(fake: &FakeKubernetes, wanted: &SnapshotRequest) -> ClusterSnapshot {
    connected(&fake.url).await.snapshot(wanted, Instant::now() + SOON).await
}

/// Two replicas of one Deployment, of which one dies again and again, a stranger, and what belongs to them.
async fn fleet() -> FakeKubernetes {
    let fake = FakeKubernetes::start().await.unwrap();
    fake.add(labelled(replica("llama-7d9c5b4f6-aaaaa", "gpu-1"), "llama"));
    fake.log("llm", "llama-7d9c5b4f6-aaaaa", "main", false, "INFO Avg generation throughput: 10 tokens/s\n");
    let mut dying = labelled(replica("llama-7d9c5b4f6-bbbbb", "gpu-2"), "llama");
    dying["status"]["conditions"][2] = json!({
        "type": "Ready", "status": "False", "lastTransitionTime": "2026-11-20T03:00:00Z",
        "reason": "ContainersNotReady", "message": "containers with unready status: [main]",
    });
    dying["status"]["containerStatuses"][0] = json!({
        "name": "main", "image": IMAGE, "imageID": "", "ready": false, "restartCount": 7,
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container" } },
        "lastState": { "terminated": {
            "reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-20T03:01:00Z", "message": "bye",
        } },
    });
    fake.add(dying);
    fake.log("llm", "llama-7d9c5b4f6-bbbbb", "main", true, "INFO start\ntorch.OutOfMemoryError\n");
    fake.add(labelled(pod("llm", "web-0", "nginx", &[], "gpu-1"), "web"));
    fake.add(owned(object("apps/v1", "ReplicaSet", "llm", "llama-7d9c5b4f6"), "apps/v1", "Deployment", "llama"));
    fake.add(deployment("llm", "llama"));
    ["gpu-1", "gpu-2"].into_iter().for_each(|name| fake.add(node(name)));
    let at = "2026-11-20T03:00:30Z";
    fake.add(event("llm", "Pod", "llama-7d9c5b4f6-bbbbb", "BackOff", "Back-off restarting failed container", at));
    fake.add(event("llm", "Pod", "web-0", "Unhealthy", "Readiness probe failed", at));
    fake.add(event("llm", "Deployment", "llama", "ScalingReplicaSet", "Scaled up", "2026-11-19T03:00:00Z"));
    fake.add(event("default", "Node", "gpu-2", "XidError", "Xid 79", at));
    fake
}

fn replica(name: &str, node: &str) -> Value {
    let args = ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-num-seqs", "64"];
    owned(pod("llm", name, IMAGE, &args, node), "apps/v1", "ReplicaSet", "llama-7d9c5b4f6")
}

fn labelled(mut object: Value, app: &str) -> Value {
    object["metadata"]["labels"]["app"] = json!(app);
    object
}

fn named<'a>(seen: &'a ClusterSnapshot, name: &str) -> &'a Pod {
    seen.pods.iter().find(|pod| pod.name == name).unwrap_or_else(|| panic!("no pod {name}: {seen:#?}"))
}

fn why<'a>(seen: &'a ClusterSnapshot, what: &str) -> &'a str {
    let found = seen.missing.iter().find(|gap| gap.what.contains(what));
    found.unwrap_or_else(|| panic!("nothing about {what}: {:#?}", seen.missing)).reason.as_str()
}

// ---- what is told

#[tokio::test]
async fn a_sibling_that_died_of_memory_is_told_beside_the_pod_that_has_metrics() {
    let fake = fleet().await;
    let seen = snapshot(&fake, &wanted(&["llama-7d9c5b4f6-aaaaa"])).await;
    assert_eq!(seen.missing, []);
    assert_eq!(seen.version.as_deref(), Some("v1.34.2"));
    let names: Vec<_> = seen.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["llama-7d9c5b4f6-aaaaa", "llama-7d9c5b4f6-bbbbb"]);
    let (well, dying) = (named(&seen, names[0]), named(&seen, names[1]));
    assert_eq!((well.phase.as_str(), well.troubles.len(), well.node.as_deref()), ("Running", 0, Some("gpu-1")));
    assert_eq!(well.owner.as_deref(), Some("Deployment/llama"));
    let main = &well.containers[0];
    assert_eq!((main.image.as_str(), main.args[3].as_str(), main.ready), (IMAGE, "64", true));
    assert_eq!(main.image_id.as_deref(), Some("vllm/vllm-openai:v0.30.1@sha256:0123456789abcdef"));
    assert_eq!(main.resources["limits.nvidia.com/gpu"], "1");
    let main = &dying.containers[0];
    assert_eq!((main.restarts, main.waiting.as_deref()), (7, Some("CrashLoopBackOff")));
    let ended = main.ended.as_ref().unwrap();
    assert_eq!((ended.reason.as_str(), ended.exit_code, ended.message.as_deref()), ("OOMKilled", 137, Some("bye")));
    assert_eq!(
        dying.troubles,
        [
            "Ready is False since 2026-11-20T03:00:00Z: ContainersNotReady: containers with unready status: [main]",
            "container main waits: CrashLoopBackOff: back-off 5m0s restarting failed container",
        ]
    );
}

#[tokio::test]
async fn nodes_tell_their_hardware_and_their_trouble() {
    let fake = fleet().await;
    let mut sick = node("gpu-2");
    sick["spec"] = json!({ "unschedulable": true, "taints": [
        { "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" },
        { "key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule" },
    ] });
    sick["status"]["conditions"][1] = json!({ "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown" });
    fake.add(sick);
    let seen = snapshot(&fake, &wanted(&["llama-7d9c5b4f6-aaaaa"])).await;
    let [well, sick] = seen.nodes.as_slice() else { panic!("{:#?}", seen.nodes) };
    assert_eq!(well.labels["nvidia.com/gpu.product"], "NVIDIA-H100-80GB-HBM3");
    assert_eq!(well.labels["nvidia.com/cuda.driver-version.full"], "580.95.05");
    assert_eq!((well.allocatable["nvidia.com/gpu"].as_str(), well.versions["kubelet"].as_str()), ("8", "v1.34.2"));
    assert!(!well.labels.contains_key("kubernetes.io/hostname") && well.troubles.is_empty(), "{well:#?}");
    assert_eq!(
        sick.troubles,
        [
            "it is cordoned: nothing is scheduled on it",
            "Ready is Unknown: NodeStatusUnknown",
            "taint node.kubernetes.io/unreachable:NoExecute",
        ]
    );
}

#[tokio::test]
async fn events_are_those_of_the_pool_its_owners_and_nodes_since_then() {
    let fake = fleet().await;
    let seen = snapshot(&fake, &wanted(&["llama-7d9c5b4f6-aaaaa"])).await;
    let told: Vec<_> = seen.events.iter().map(|event| (event.about.as_str(), event.reason.as_str())).collect();
    assert_eq!(told, [("Node/gpu-2", "XidError"), ("Pod/llama-7d9c5b4f6-bbbbb", "BackOff")]);
    assert!(seen.events.iter().all(|event| event.warning && event.count == 3 && event.at.is_some()));
}

#[tokio::test]
async fn owners_are_climbed_to_the_top_and_objects_are_read_in_the_version_that_has_them() {
    let fake = fleet().await;
    fake.add(owned(deployment("llm", "llama"), "serving.kserve.io/v1alpha2", "LLMInferenceService", "llama"));
    // The group's preferred version does not have the kind.
    fake.install("serving.kserve.io", "v1beta1", &["inferenceservices"]);
    fake.add(object("serving.kserve.io/v1alpha2", "LLMInferenceService", "llm", "llama"));
    fake.add(object("inference.networking.k8s.io/v1", "InferencePool", "llm", "llama-pool"));
    fake.add(object("autoscaling/v2", "HorizontalPodAutoscaler", "llm", "llama"));
    fake.add(object("gateway.networking.k8s.io/v1", "HTTPRoute", "elsewhere", "other"));
    let seen = snapshot(&fake, &wanted(&["llama-7d9c5b4f6-aaaaa"])).await;
    assert_eq!(seen.missing, []);
    assert_eq!(named(&seen, "llama-7d9c5b4f6-bbbbb").owner.as_deref(), Some("LLMInferenceService/llama"));
    let told: Vec<_> = seen.objects.iter().map(|object| (object.kind.as_str(), object.name.as_str())).collect();
    assert_eq!(
        told,
        [
            ("apps/v1/Deployment", "llama"),
            ("apps/v1/ReplicaSet", "llama-7d9c5b4f6"),
            ("autoscaling/v2/HorizontalPodAutoscaler", "llama"),
            ("inference.networking.k8s.io/v1/InferencePool", "llama-pool"),
            ("serving.kserve.io/v1alpha2/LLMInferenceService", "llama"),
        ]
    );
    for Object { kind, value, .. } in &seen.objects {
        assert_eq!(value["metadata"]["managedFields"], Value::Null, "{kind}");
        assert_eq!(value["metadata"]["annotations"], json!({ "team": "serving" }), "{kind}");
        assert_eq!(format!("{}/{}", text(value, "apiVersion"), text(value, "kind")), *kind);
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[tokio::test]
async fn without_names_the_pods_that_run_engines_are_the_pool() {
    let fake = fleet().await;
    let script = "python -m sglang.launch_server --model-path /models/qwen";
    fake.add(pod("llm", "qwen-0", "registry.example.org/ml/base:7", &["-c", script], "gpu-1"));
    let seen = snapshot(&fake, &wanted(&[])).await;
    let names: Vec<_> = seen.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["llama-7d9c5b4f6-aaaaa", "llama-7d9c5b4f6-bbbbb", "qwen-0"]);
}

#[tokio::test]
async fn without_a_namespace_pods_are_found_by_their_names_in_those_that_may_be_asked() {
    let fake = fleet().await;
    fake.add(pod("other", "llama-7d9c5b4f6-aaaaa", IMAGE, &[], "gpu-1"));
    let anywhere = SnapshotRequest { namespace: None, ..wanted(&["llama-7d9c5b4f6-aaaaa"]) };
    let places = |seen: &ClusterSnapshot| seen.pods.iter().map(|pod| pod.namespace.clone()).collect::<BTreeSet<_>>();
    assert_eq!(places(&snapshot(&fake, &anywhere).await), BTreeSet::from(["llm".to_owned(), "other".to_owned()]));
    let only = Config { namespaces: vec!["llm".to_owned()], ..Config::default() };
    let limited = with(&fake.url, only).await.unwrap().unwrap();
    let seen = limited.snapshot(&anywhere, Instant::now() + SOON).await;
    assert_eq!(places(&seen), BTreeSet::from(["llm".to_owned()]));
    let before = fake.asked().len();
    let seen_again = limited.snapshot(&anywhere, Instant::now() + SOON).await;
    assert_eq!(seen_again, seen);
    let asked = fake.asked().split_off(before);
    let inside = |path: &str| path.contains("/namespaces/llm/") || !path.contains("/namespaces/");
    assert!(asked.iter().all(|asked| inside(&asked.path) && asked.path != "/api/v1/pods"), "{asked:#?}");
    let other = SnapshotRequest { namespace: Some("other".to_owned()), ..anywhere };
    let seen = limited.snapshot(&other, Instant::now() + SOON).await;
    assert!(seen.pods.is_empty());
    assert_eq!(why(&seen, "namespace other"), "`kubernetes.namespaces` does not list it");
}

#[tokio::test]
async fn a_pod_that_is_gone_is_told_with_its_events_and_whoever_followed_it() {
    let fake = fleet().await;
    let gone = "llama-5f6d8c9b7-zzzzz";
    fake.add(event("llm", "Pod", gone, "Evicted", "The node was low on memory", "2026-11-20T02:59:00Z"));
    let seen = snapshot(&fake, &wanted(&[gone])).await;
    assert!(why(&seen, gone).starts_with("it is gone"), "{:#?}", seen.missing);
    let is_gone = |gap: &Gap| gap.what.contains(gone) && matches!(gap.reason, GapReason::Gone(_));
    assert!(seen.missing.iter().any(is_gone), "{:#?}", seen.missing);
    let owner = snapshot(&fake, &wanted(&["llama"])).await;
    assert!(owner.missing.iter().all(|gap| gap.what != "pod llama"), "a Deployment's name: {:#?}", owner.missing);
    assert_eq!(seen.pods.len(), 2, "{:#?}", seen.pods);
    assert!(seen.events.iter().any(|event| event.about == format!("Pod/{gone}") && event.reason == "Evicted"));
}

#[tokio::test]
async fn hundreds_of_pods_are_read_page_by_page() {
    let fake = FakeKubernetes::start().await.unwrap();
    for n in 0..620 {
        fake.add(owned(pod("llm", &format!("llama-{n}"), IMAGE, &[], "gpu-1"), "apps/v1", "StatefulSet", "llama"));
    }
    fake.add(node("gpu-1"));
    let seen = snapshot(&fake, &SnapshotRequest { log_bytes: 0, ..wanted(&["llama-600"]) }).await;
    assert_eq!((seen.pods.len(), seen.pods[0].name.as_str()), (500, "llama-600"));
    assert_eq!(why(&seen, "pods"), "there are 620; the first 500 are listed");
    let pages = fake.asked().into_iter().filter(|asked| asked.path.ends_with("/pods"));
    assert!(pages.clone().count() >= 7 && pages.into_iter().all(|asked| asked.query.contains_key("limit")));
}

#[tokio::test]
async fn a_named_pod_behind_the_end_of_a_very_long_list_is_found() {
    let fake = FakeKubernetes::start().await.unwrap();
    for n in 0..2_010 {
        fake.add(pod("llm", &format!("batch-{n}"), "busybox", &[], "gpu-1"));
    }
    fake.add(pod("llm", "llama-0", IMAGE, &[], "gpu-1"));
    fake.add(node("gpu-1"));
    let seen = snapshot(&fake, &SnapshotRequest { log_bytes: 0, ..wanted(&["llama-0", "llama-9"]) }).await;
    let names: Vec<_> = seen.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["llama-0"]);
    assert_eq!(why(&seen, "pods of namespace llm"), "there are more than the 2000 that were read");
    assert!(why(&seen, "pod llama-9").starts_with("it is gone"));
}

// ---- what is never asked for

#[tokio::test]
async fn a_secret_in_the_environment_is_a_reference_and_nothing_but_what_the_manifest_lists_is_ever_read() {
    let fake = fleet().await;
    let mut pod = labelled(replica("llama-7d9c5b4f6-aaaaa", "gpu-1"), "llama");
    pod["spec"]["containers"][0]["env"] = json!([
        { "name": "VLLM_LOGGING_LEVEL", "value": "INFO" },
        { "name": "HF_TOKEN", "valueFrom": { "secretKeyRef": { "name": "hf-token", "key": "token" } } },
        { "name": "MODE", "valueFrom": { "configMapKeyRef": { "name": "modes", "key": "fast" } } },
        { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
    ]);
    pod["spec"]["containers"][0]["envFrom"] = json!([{ "prefix": "AWS_", "secretRef": { "name": "s3" } }]);
    fake.add(pod);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "llm", "name": "hf-token" },
        "data": { "token": "aGZfYWJjZGVm" },
    });
    fake.add(secret);
    fake.add(owned(deployment("llm", "llama"), "nvidia.com/v1beta1", "DynamoGraphDeployment", "llama"));
    fake.add(object("nvidia.com/v1beta1", "DynamoGraphDeployment", "llm", "llama"));
    fake.add(object("llm-d.ai/v1alpha2", "InferenceObjective", "llm", "llama"));
    let seen = snapshot(&fake, &wanted(&["llama-7d9c5b4f6-aaaaa"])).await;
    let env = &named(&seen, "llama-7d9c5b4f6-aaaaa").containers[0].env;
    let expected = BTreeMap::from([
        ("VLLM_LOGGING_LEVEL", "INFO"),
        ("HF_TOKEN", "secret hf-token/token"),
        ("MODE", "configmap modes/fast"),
        ("NODE", "field spec.nodeName"),
        ("AWS_* of secret s3", "secret s3"),
    ]);
    assert_eq!(env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<BTreeMap<_, _>>(), expected);
    assert!(!serde_json::to_string(&seen).unwrap().contains("aGZfYWJjZGVm"));
    assert_eq!(seen.logs.len(), 2);
    let asked = fake.asked();
    assert!(asked.len() > 15, "{asked:#?}");
    let mut allowed = permitted("rbac.yaml", "ClusterRole");
    allowed.extend(permitted("logs.yaml", "Role"));
    for asked in asked {
        assert_eq!(asked.method, "GET", "{asked:?}");
        assert!(!asked.query.contains_key("watch") && !asked.query.contains_key("follow"), "{asked:?}");
        // The version and the lists of APIs are for everybody (ClusterRole system:discovery).
        if let Some(needed) = permission(&asked.path) {
            assert!(allowed.contains(&needed), "{needed:?} is not in the manifest: {asked:?}");
        }
    }
}

/// Group, resource and verb that a path needs.
fn permission(path: &str) -> Option<(String, String, &'static str)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
        ["version"] | ["apis", ..] => return None,
        _ => panic!("an unknown path: {path}"),
    };
    let rest = if let ["namespaces", _, rest @ ..] = rest { rest } else { rest };
    let (resource, verb) = match rest {
        [plural] => ((*plural).to_owned(), "list"),
        [plural, _] => ((*plural).to_owned(), "get"),
        [plural, _, part] => (format!("{plural}/{part}"), "get"),
        _ => panic!("an unknown path: {path}"),
    };
    Some((group.to_owned(), resource, verb))
}

/// Every permission that the role in a file of config/kubernetes gives.
fn permitted(file: &str, kind: &str) -> BTreeSet<(String, String, &'static str)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/kubernetes").join(file);
    let text = std::fs::read_to_string(file).unwrap();
    let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    let role = documents.into_iter().find(|document| document["kind"] == kind).unwrap();
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut all = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        assert_eq!(rule.as_object().unwrap().len(), 3, "{rule}");
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    let verb = ["get", "list"].into_iter().find(|known| *known == verb);
                    all.insert((group.clone(), resource.clone(), verb.expect("only get and list")));
                }
            }
        }
    }
    all
}

#[test]
fn the_manifests_permit_what_is_asked_for_and_nothing_else() {
    let asked: BTreeSet<_> = read()
        .flat_map(|kind| kind.verbs.iter().map(|verb| (kind.group.to_owned(), kind.plural.to_owned(), verb.name())))
        .collect();
    let (cluster, logs) = (permitted("rbac.yaml", "ClusterRole"), permitted("logs.yaml", "Role"));
    assert_eq!(asked, cluster.union(&logs).cloned().collect());
    assert!(!asked.iter().any(|(_, resource, _)| resource.contains("secret") || resource.contains("configmap")));
}

#[test]
fn logs_are_permitted_by_namespace_unless_somebody_asks_for_all() {
    let log = BTreeSet::from([(String::new(), "pods/log".to_owned(), "get")]);
    assert_eq!(permitted("logs.yaml", "Role"), log);
    assert_eq!(permitted("logs-everywhere.yaml", "ClusterRole"), log);
    assert!(permitted("rbac.yaml", "ClusterRole").is_disjoint(&log));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/kubernetes/kustomization.yaml");
    let applied: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let resources: Vec<&str> = applied["resources"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(resources.contains(&"rbac.yaml") && !resources.iter().any(|file| file.contains("logs")), "{resources:?}");
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_refused_before_anything_is_sent() {
    let fake = fleet().await;
    let bad = ["../secrets/hf-token", "a?watch=true", "%2e%2e", "Llama", "ü", "a\nb", ""];
    let seen = snapshot(&fake, &wanted(&bad)).await;
    assert!(seen.pods.is_empty());
    assert_eq!(why(&seen, "pod ../secrets/hf-token"), "no pod can have this name");
    let elsewhere = SnapshotRequest { namespace: Some("llm/secrets".to_owned()), ..wanted(&["llama-0"]) };
    assert_eq!(why(&snapshot(&fake, &elsewhere).await, "llm/secrets"), "no namespace can have this name");
    assert!(fake.asked().iter().all(|asked| !asked.path.contains("secret")), "{:#?}", fake.asked());
}
