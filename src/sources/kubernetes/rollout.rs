//! The last rollout of a pool's workload, from the two newest revisions of its pod template.

use std::time::Instant;

use k8s_openapi::api::core::v1::{Pod as RawPod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use serde_json::Value;

use super::Kubernetes;
use super::ask::ApiSession;
use super::kinds::{CONTROLLER_REVISION, POD, REPLICA_SET, is_name};
use super::objects::read_owner;
use super::pods::{Owner, containers};
use findings::rollout::{Deployer, Rollout, diff};

/// Maximum number of pods that are tried: the first may be gone.
const TRIED: usize = 3;
/// Objects of one page, and at most: a namespace has ten revisions of each workload.
const PAGE: u32 = 100;
const MAX_REVISIONS: usize = 1_000;
/// The label of a LeaderWorkerSet's pods, whose revisions its StatefulSets do not have.
const LEADER_WORKER_SET: &str = "leaderworkerset.sigs.k8s.io/name";
/// The annotations with a ReplicaSet's revision: of a Deployment, of an Argo Rollout.
const REVISIONS: [&str; 2] = ["deployment.kubernetes.io/revision", "rollout.argoproj.io/revision"];
/// The places of a pod's specification in a revision: of a ReplicaSet; in the data of a ControllerRevision, of a StatefulSet
/// and of a LeaderWorkerSet. Sources: kubernetes.io/docs/reference/kubernetes-api/workload-resources, KEP-238 of
/// kubernetes-sigs/lws.
const TEMPLATES: [&str; 4] = [
    "/spec/template/spec",
    "/data/spec/template/spec",
    "/data/spec/leaderWorkerTemplate/leaderTemplate/spec",
    "/data/spec/leaderWorkerTemplate/workerTemplate/spec",
];

/// A revision of a workload.
struct Revision {
    number: Option<i64>,
    meta: ObjectMeta,
    value: Value,
}

impl Kubernetes {
    /// Reads what the last rollout of the workload of these pods changed; `None` if that is not known: an access that is not
    /// permitted, pods without a workload, a workload with one revision. Missing knowledge is no trouble of a diagnosis.
    pub async fn rollout(&self, namespace: &str, pods: &[String], deadline: Instant) -> Option<Rollout> {
        if !is_name(namespace) || !self.may_ask(namespace) {
            return None;
        }
        let ask = self.session(deadline);
        let mut pod = None;
        for name in pods.iter().filter(|name| is_name(name)).take(TRIED) {
            pod = ask.get::<RawPod>(&POD, "v1", Some(namespace), name).await.ok();
            if pod.is_some() {
                break;
            }
        }
        let meta = pod?.metadata;
        let owner = Owner::of(&meta)?;
        let set = meta.labels.as_ref().and_then(|labels| labels.get(LEADER_WORKER_SET));
        let (workload, revisions) = match (set, owner.kind.as_str()) {
            (None, "ReplicaSet") => {
                let sets = list(ask, namespace, true).await?;
                let own = sets.iter().find(|set| set.meta.name.as_ref() == Some(&owner.name))?;
                (Owner::of(&own.meta)?, sets)
            }
            (Some(name), _) => {
                let revisions = list(ask, namespace, false).await?;
                let of_set = |owner: &Owner| owner.kind == "LeaderWorkerSet" && owner.name == *name;
                (revisions.iter().filter_map(|one| Owner::of(&one.meta)).find(of_set)?, revisions)
            }
            (None, _) => (owner, list(ask, namespace, false).await?),
        };
        let is_own = |one: &Revision| {
            Owner::of(&one.meta).is_some_and(|owner| owner.kind == workload.kind && owner.name == workload.name)
        };
        let mut own: Vec<Revision> = revisions.into_iter().filter(is_own).collect();
        own.sort_by_key(|one| (one.number, one.meta.creation_timestamp.as_ref().map(|at| at.0)));
        let [.., old, new] = own.as_slice() else { return None };
        let made = |revision: &Revision| revision.meta.creation_timestamp.as_ref().map(|at| at.0);
        // The workload itself names its tool; its revisions have copies of most of it.
        let metadata = match read_owner(ask, &workload).await {
            Ok(Some(value)) => serde_json::from_value(value["metadata"].clone()).unwrap_or_default(),
            Ok(None) | Err(_) => new.meta.clone(),
        };
        Some(Rollout {
            workload: workload.display_name(),
            revision: new.number,
            at: made(new).filter(|at| made(old).is_none_or(|old| old < *at)),
            changes: diff(&template(&old.value), &template(&new.value)),
            deployed_by: Deployer::of(&metadata.labels.unwrap_or_default(), &metadata.annotations.unwrap_or_default()),
        })
    }
}

/// Lists the ReplicaSets of a namespace, or its ControllerRevisions; `None` without all of them, because the newest may be
/// among the others.
async fn list(ask: ApiSession<'_>, namespace: &str, sets: bool) -> Option<Vec<Revision>> {
    let kind = if sets { &REPLICA_SET } else { &CONTROLLER_REVISION };
    let read = |value: Value| {
        let meta: ObjectMeta = serde_json::from_value(value["metadata"].clone()).ok()?;
        let annotated = || REVISIONS.iter().find_map(|key| meta.annotations.as_ref()?.get(*key)?.parse().ok());
        Some(Revision { number: value["revision"].as_i64().or_else(annotated), meta, value })
    };
    let params = ListParams::default().limit(PAGE);
    let listed = ask.list(kind, "v1", Some(namespace), params, MAX_REVISIONS, read).await;
    (!listed.more && listed.failure.is_none()).then_some(listed.items)
}

/// Returns the containers of a revision's pods; those of leaders and workers together.
fn template(revision: &Value) -> Vec<findings::cluster::Container> {
    let specs = TEMPLATES.iter().filter_map(|place| revision.pointer(place));
    specs.filter_map(|spec| serde_json::from_value::<PodSpec>(spec.clone()).ok()).flat_map(containers).collect()
}
