//! Finds the pool's pods: the named ones and their siblings, which may have no metrics because they never started.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod as Raw;
use kube::api::ListParams;

use super::ask::{ApiSession, Failure};
use super::kinds::{POD, is_name};
use super::pods::{self, Owner};
use super::{Container, Pod, SnapshotGaps, SnapshotRequest};
use knowledge::gap::GapReason;

/// Pods of one page: about 2 MB.
const PAGE: u32 = 100;
/// Maximum number of pods that are listed, per namespace or over all.
const MAX_LISTED_PODS: usize = 2_000;
/// Maximum number of returned pods.
const MAX_PODS: usize = 500;
/// Maximum number of pod names that are searched one by one, and of namespaces that are listed.
const MAX_NAMES: usize = 32;
const MAX_NAMESPACES: usize = 8;

/// The reason for a missing pod that metrics still contain.
const POD_IS_GONE: &str = "it is gone: the API does not know it any more; its events may still tell";

/// Names of engines and of their routers in images and commands.
const ENGINES: [&str; 15] = [
    "vllm",
    "sglang",
    "tritonserver",
    "tensorrt",
    "trtllm",
    "dynamo",
    "text-generation",
    "text-embeddings",
    "llama-server",
    "llama.cpp",
    "lmdeploy",
    "litellm",
    "llm-d",
    "inference-scheduler",
    "endpoint-picker",
];
/// Labels that differ between replicas or revisions of the same workload.
const REPLICA_LABELS: [&str; 14] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/group-key",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
    "grove.io/podclique-pod-index",
    "grove.io/pod-template-hash",
    "grove.io/podcliqueset-replica-index",
    "grove.io/podgang",
];
/// Labels that name the workload that a pod is a part of. Sources: the operators' own constants, see [`super::kinds`].
const WORKLOAD_LABELS: [&str; 6] = [
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/cluster",
    "serving.kserve.io/inferenceservice",
    "nvidia.com/dynamo-graph-deployment-name",
    "grove.io/podcliqueset",
    "app.kubernetes.io/part-of",
];
/// The value with which the generic label `app.kubernetes.io/part-of` of [`WORKLOAD_LABELS`] counts, together with the
/// name.
const LLM_SERVICE: &str = "llminferenceservice";
const NAME: &str = "app.kubernetes.io/name";

/// The result of the search.
#[derive(Debug, Default)]
pub(super) struct PodSearchResult {
    /// The pods, each with its controller.
    pub(super) pods: Vec<(Pod, Option<Owner>)>,
    /// The namespaces of the pods, or those that were searched.
    pub(super) namespaces: Vec<String>,
    /// True if the server answers no request at all.
    pub(super) dead: bool,
}

/// Searches for the pool's pods; `allowed` are the namespaces that may be queried, all if empty.
pub(super) async fn find(
    ask: ApiSession<'_>,
    request: &SnapshotRequest,
    allowed: &[String],
    missing: &mut SnapshotGaps,
) -> PodSearchResult {
    let mut search = PodSearchResult::default();
    let names: BTreeSet<&str> = request.pods.iter().map(String::as_str).filter(|name| is_name(name)).collect();
    for invalid in request.pods.iter().filter(|name| !is_name(name)) {
        missing.note_absent(format!("pod {}", super::ask::words(invalid)), "no pod can have this name");
    }
    if names.is_empty() && !request.pods.is_empty() {
        return search;
    }
    // `None` lists all namespaces at once.
    let mut places: Vec<Option<String>> = match &request.namespace {
        Some(namespace) if !is_name(namespace) => {
            missing
                .note_absent(format!("namespace {}", super::ask::words(namespace)), "no namespace can have this name");
            return search;
        }
        Some(namespace) if !allowed.is_empty() && !allowed.contains(namespace) => {
            missing.note_absent(format!("namespace {namespace}"), "`kubernetes.namespaces` does not list it");
            return search;
        }
        Some(namespace) => vec![Some(namespace.clone())],
        None if allowed.is_empty() => vec![None],
        None => allowed.iter().filter(|namespace| is_name(namespace)).cloned().map(Some).collect(),
    };
    if request.namespace.is_none() && !names.is_empty() {
        places = locate(ask, &places, &names, missing, &mut search.dead).await.into_iter().map(Some).collect();
    }
    let scans = places.iter().map(|place| scan(ask, place.as_deref(), ListParams::default()));
    let mut listed_pods = Vec::new();
    let mut complete = true;
    for (place, listed) in places.iter().zip(join_all(scans).await) {
        missing.listed(&list_name(place.as_deref()), &listed);
        search.dead |= listed.failure.as_ref().is_some_and(Failure::is_final);
        complete &= listed.failure.is_none();
        let more = listed.more;
        listed_pods.extend(listed.items);
        if more {
            complete &= names.len() <= MAX_NAMES;
            listed_pods.extend(beyond(ask, place, &names, &listed_pods, missing).await);
        }
    }
    search.namespaces.extend(places.into_iter().flatten());
    if complete && !search.dead {
        let existing: BTreeSet<&str> = listed_pods.iter().map(|(pod, _)| pod.name.as_str()).collect();
        // Metrics of a Deployment carry its name instead of a pod's; the names of its pods begin with it.
        let owns = |name: &str| existing.iter().any(|pod| pod.strip_prefix(name).is_some_and(|n| n.starts_with('-')));
        for name in names.iter().filter(|name| !existing.contains(*name) && !owns(name)) {
            missing.note(format!("pod {name}"), GapReason::Gone(POD_IS_GONE.to_owned()));
        }
    }
    search.pods = select(listed_pods, &names);
    if search.pods.len() > MAX_PODS {
        missing.note_absent("pods", format!("there are {}; the first {MAX_PODS} are listed", search.pods.len()));
        search.pods.truncate(MAX_PODS);
    }
    let of_pods: BTreeSet<String> = search.pods.iter().map(|(pod, _)| pod.namespace.clone()).collect();
    search.namespaces.extend(of_pods);
    search.namespaces.sort();
    search.namespaces.dedup();
    search.namespaces.truncate(MAX_NAMESPACES);
    search
}

/// Reads by name the named pods that are missing from a list because it was too long.
async fn beyond(
    ask: ApiSession<'_>,
    place: &Option<String>,
    names: &BTreeSet<&str>,
    listed_pods: &[(Pod, Option<Owner>)],
    missing: &mut SnapshotGaps,
) -> Vec<(Pod, Option<Owner>)> {
    let existing: BTreeSet<&str> = listed_pods.iter().map(|(pod, _)| pod.name.as_str()).collect();
    let unlisted = names.iter().filter(|name| !existing.contains(*name)).take(MAX_NAMES);
    let scans = unlisted.map(|name| scan(ask, place.as_deref(), by_name(name)));
    let mut pods = Vec::new();
    for listed in join_all(scans).await {
        missing.listed(&list_name(place.as_deref()), &listed);
        pods.extend(listed.items);
    }
    pods
}

fn by_name(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

/// Returns the namespaces that contain pods of these names.
async fn locate(
    ask: ApiSession<'_>,
    places: &[Option<String>],
    names: &BTreeSet<&str>,
    missing: &mut SnapshotGaps,
    dead: &mut bool,
) -> Vec<String> {
    let pairs = places.iter().flat_map(|place| names.iter().take(MAX_NAMES).map(move |name| (place.as_deref(), *name)));
    let scans = pairs.map(|(place, name)| async move { (place, scan(ask, place, by_name(name)).await) });
    let mut namespaces = BTreeSet::new();
    for (place, listed) in join_all(scans).await {
        missing.listed(&list_name(place), &listed);
        *dead |= listed.failure.as_ref().is_some_and(Failure::is_final);
        namespaces.extend(listed.items.into_iter().map(|(pod, _)| pod.namespace));
    }
    if namespaces.is_empty() && !*dead {
        missing.note_absent("pods", "these names were not found");
    }
    namespaces.into_iter().filter(|namespace| is_name(namespace)).take(MAX_NAMESPACES).collect()
}

async fn scan(
    ask: ApiSession<'_>,
    namespace: Option<&str>,
    params: ListParams,
) -> super::ask::Listed<(Pod, Option<Owner>)> {
    let read = |item| {
        let raw: Raw = serde_json::from_value(item).ok()?;
        let owner = Owner::of(&raw.metadata);
        Some((pods::read(raw), owner)).filter(|(pod, _)| is_name(&pod.name) && is_name(&pod.namespace))
    };
    ask.list(&POD, "v1", namespace, params.limit(PAGE), MAX_LISTED_PODS, read).await
}

fn list_name(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("pods of namespace {namespace}"),
        None => "pods of all namespaces".to_owned(),
    }
}

/// Selects the named pods and their siblings; without names, the pods that run an engine. Pure.
fn select(pods: Vec<(Pod, Option<Owner>)>, names: &BTreeSet<&str>) -> Vec<(Pod, Option<Owner>)> {
    let mut chosen: Vec<_> = if names.is_empty() {
        pods.into_iter().filter(|(pod, _)| pod.containers.iter().any(is_engine)).collect()
    } else {
        let (named, others): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|(pod, _)| names.contains(pod.name.as_str()));
        let existing: BTreeSet<&str> = named.iter().map(|(pod, _)| pod.name.as_str()).collect();
        let stems_of_gone: BTreeSet<&str> =
            names.iter().filter(|name| !existing.contains(*name)).filter_map(|n| stem(n)).collect();
        let owners: BTreeSet<&Owner> = named.iter().filter_map(|(_, owner)| owner.as_ref()).collect();
        let labels: BTreeSet<_> = named.iter().map(|(pod, _)| (&pod.namespace, lasting(pod))).collect();
        let workloads: BTreeSet<_> = named.iter().flat_map(|(pod, _)| workloads_of(pod)).collect();
        let related = |(pod, owner): &(Pod, Option<Owner>)| {
            owner.as_ref().is_some_and(|owner| owners.contains(owner))
                || (!lasting(pod).is_empty() && labels.contains(&(&pod.namespace, lasting(pod))))
                || workloads_of(pod).any(|workload| workloads.contains(&workload))
                || stem(&pod.name).is_some_and(|stem| stems_of_gone.contains(stem))
        };
        let related: Vec<bool> = others.iter().map(related).collect();
        let siblings = others.into_iter().zip(related).filter_map(|(pod, related)| related.then_some(pod));
        let siblings: Vec<_> = siblings.collect();
        named.into_iter().chain(siblings).collect()
    };
    // The named pods stand first, so that they remain if there are too many.
    chosen.sort_by_key(|(pod, _)| (!names.contains(pod.name.as_str()), pod.namespace.clone(), pod.name.clone()));
    chosen
}

/// Returns the labels that all replicas of a workload share, in every revision.
fn lasting(pod: &Pod) -> BTreeMap<&str, &str> {
    let labels = pod.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    labels.filter(|(name, _)| !REPLICA_LABELS.contains(name)).collect()
}

/// Returns the workloads that a pod is a part of: namespace, label, value.
fn workloads_of(pod: &Pod) -> impl Iterator<Item = (&str, &str, &str)> {
    WORKLOAD_LABELS.iter().filter_map(move |label| {
        let value = pod.labels.get(*label)?.as_str();
        if *label != "app.kubernetes.io/part-of" {
            return Some((pod.namespace.as_str(), *label, value));
        }
        let name = pod.labels.get(NAME).filter(|_| value == LLM_SERVICE)?;
        Some((pod.namespace.as_str(), NAME, name.as_str()))
    })
}

/// Returns the owner's name in a pod's name, as controllers build it: `llama-7d9c5b4f6-x2x9k`, `llama-0`.
fn stem(name: &str) -> Option<&str> {
    let (rest, last) = name.rsplit_once('-')?;
    if last.bytes().all(|c| c.is_ascii_digit()) {
        return Some(rest);
    }
    let (stem, hash) = rest.rsplit_once('-')?;
    (last.len() == 5 && (6..=10).contains(&hash.len()) && hash.bytes().any(|c| c.is_ascii_digit())).then_some(stem)
}

/// Returns true if a container runs an engine or its router, by its image and command.
pub(super) fn is_engine(container: &Container) -> bool {
    let names_engine = |text: &str| {
        let text = text.to_lowercase();
        ENGINES.iter().any(|engine| text.contains(engine))
    };
    names_engine(&container.image) || container.args.iter().any(|word| names_engine(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, owner: &str, labels: &[(&str, &str)]) -> (Pod, Option<Owner>) {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let pod = Pod { namespace: "llm".into(), name: name.into(), labels, ..Pod::default() };
        let owner = Owner {
            namespace: "llm".into(),
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: owner.into(),
        };
        (pod, Some(owner))
    }

    fn chosen(pods: Vec<(Pod, Option<Owner>)>, names: &[&str]) -> Vec<String> {
        select(pods, &names.iter().copied().collect()).into_iter().map(|(pod, _)| pod.name).collect()
    }

    #[test]
    fn siblings_of_another_revision_belong_to_the_pool_and_neighbours_do_not() {
        let seen = vec![
            pod("llama-7d9c5b4f6-aaaaa", "llama-7d9c5b4f6", &[("app", "llama"), ("pod-template-hash", "7d9c5b4f6")]),
            pod("llama-5f6d8c9b7-bbbbb", "llama-5f6d8c9b7", &[("app", "llama"), ("pod-template-hash", "5f6d8c9b7")]),
            pod("other-5f6d8c9b7-ccccc", "other-5f6d8c9b7", &[("app", "other"), ("pod-template-hash", "5f6d8c9b7")]),
        ];
        assert_eq!(chosen(seen, &["llama-7d9c5b4f6-aaaaa"]), ["llama-7d9c5b4f6-aaaaa", "llama-5f6d8c9b7-bbbbb"]);
    }

    #[test]
    fn pods_without_labels_have_no_siblings_by_them() {
        let seen = vec![pod("a", "x", &[]), pod("b", "y", &[])];
        assert_eq!(chosen(seen, &["a"]), ["a"]);
    }

    #[test]
    fn who_followed_a_pod_that_is_gone_is_found_by_its_name() {
        let seen = vec![pod("llama-7d9c5b4f6-aaaaa", "x", &[]), pod("llama-guard-7d9c5b4f6-aaaaa", "y", &[])];
        assert_eq!(chosen(seen, &["llama-5f6d8c9b7-zzzzz"]), ["llama-7d9c5b4f6-aaaaa"]);
    }

    #[test]
    fn all_parts_of_one_service_belong_together() {
        let part = |component| {
            [("app.kubernetes.io/name", "llama"), ("app.kubernetes.io/part-of", LLM_SERVICE), ("component", component)]
        };
        let seen = vec![pod("a", "x", &part("workload")), pod("b", "y", &part("router-scheduler"))];
        assert_eq!(chosen(seen, &["a"]), ["a", "b"]);
    }
}
