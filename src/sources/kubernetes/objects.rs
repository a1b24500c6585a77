//! Objects that own the pods, up to the top-level owner, and objects that route to the pods and scale them.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, ObjectMeta};
use kube::api::ListParams;
use serde_json::Value;

use super::ask::{ApiQuery, ApiSession, Failure};
use super::kinds::{OBJECTS, ResourceKind, Verb, is_name};
use super::pods::Owner;
use super::{Object, SnapshotGaps};

/// Maximum number of owner levels; a pod of a Dynamo graph on Grove has five.
const LEVELS: usize = 8;
/// Maximum number of owners that are read.
const MAX_OWNERS: usize = 200;
/// Maximum number of objects of one kind in one namespace.
const MAX_LISTED: usize = 100;
/// Maximum bytes of one object, and of all objects.
const OBJECT_BYTES: usize = 512 << 10;
const ALL_BYTES: usize = 8 << 20;
/// The annotation of `kubectl apply` with a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The owners of each object, from the pods' controllers upwards.
#[derive(Debug, Default)]
pub(super) struct Owners {
    above: BTreeMap<Owner, Option<Owner>>,
}

impl Owners {
    /// Returns the top-level owner of an owner.
    pub(super) fn top<'a>(&'a self, mut owner: &'a Owner) -> &'a Owner {
        for _ in 0..LEVELS {
            match self.above.get(owner) {
                Some(Some(above)) => owner = above,
                Some(None) | None => break,
            }
        }
        owner
    }

    /// Returns all owners.
    pub(super) fn all(&self) -> impl Iterator<Item = &Owner> {
        self.above.keys()
    }
}

/// Reads owners level by level; an owner that may not be read counts as the top-level one.
pub(super) async fn climb(
    ask: ApiSession<'_>,
    from: BTreeSet<Owner>,
    missing: &mut SnapshotGaps,
) -> (Owners, Vec<Object>) {
    let (mut owners, mut objects, mut level) = (Owners::default(), Vec::new(), from);
    for _ in 0..LEVELS {
        level.retain(|owner| !owners.above.contains_key(owner));
        let room = MAX_OWNERS.saturating_sub(owners.above.len());
        if level.len() > room {
            missing.note_absent("owners", format!("there are more than the {MAX_OWNERS} that are read"));
        }
        let requests = std::mem::take(&mut level).into_iter().take(room);
        let answers = join_all(requests.map(|owner| async move { (read_owner(ask, &owner).await, owner) })).await;
        if answers.is_empty() {
            break;
        }
        for (answer, owner) in answers {
            let mut above = None;
            match answer {
                Ok(Some(value)) => {
                    let meta: ObjectMeta = serde_json::from_value(value["metadata"].clone()).unwrap_or_default();
                    above = Owner::of(&meta);
                    objects.push(object(value, &owner.api_version, &owner.kind, &owner.namespace));
                }
                // The kind is not in `OBJECTS`, or the owner was deleted before its pods.
                Ok(None) | Err(Failure::Absent) => {}
                Err(failure @ Failure::Forbidden { .. }) => {
                    missing.note(format!("{} of namespace {}", owner.kind, owner.namespace), &failure);
                }
                Err(failure) => missing.note(owner.display_name(), &failure),
            }
            level.extend(above.clone());
            owners.above.insert(owner, above);
        }
    }
    (owners, objects)
}

/// Reads an owner; `None` for one of a kind that is never read.
pub(super) async fn read_owner(ask: ApiSession<'_>, owner: &Owner) -> Result<Option<Value>, Failure> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let kind = OBJECTS.iter().find(|kind| kind.group == group && kind.kind == owner.kind && kind.is(Verb::Get));
    match kind {
        Some(kind) if [version, &owner.namespace, &owner.name].into_iter().all(is_name) => {
            ask.get(kind, version, Some(&owner.namespace), &owner.name).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Lists all objects of these namespaces that route to pods or scale them; kinds that the cluster lacks are skipped.
pub(super) async fn list(ask: ApiSession<'_>, namespaces: &[String], missing: &mut SnapshotGaps) -> Vec<Object> {
    let mut kinds = Vec::new();
    for (kind, versions) in installed(ask, missing).await {
        match versions {
            Ok(Some(version)) => kinds.push((kind, version)),
            Ok(None) => {}
            Err(failure) => missing.note(kind.name(), &failure),
        }
    }
    let requests =
        namespaces.iter().flat_map(|namespace| kinds.iter().map(move |(kind, version)| (namespace, kind, version)));
    let requests = requests.map(|(namespace, kind, version)| async move {
        let api_version = format!("{}/{version}", kind.group);
        let params = ListParams::default().limit(MAX_LISTED as u32);
        let read = |value: Value| value.is_object().then(|| object(value, &api_version, kind.kind, namespace));
        (
            format!("{} of namespace {namespace}", kind.name()),
            ask.list(kind, version, Some(namespace), params, MAX_LISTED, read).await,
        )
    });
    let mut objects = Vec::new();
    for (what, listed) in join_all(requests).await {
        // The kind was removed after the server returned its list of APIs.
        if listed.failure != Some(Failure::Absent) {
            missing.listed(&what, &listed);
        }
        objects.extend(listed.items);
    }
    objects
}

/// Returns each listed kind with the version that the server prefers; `None` if the cluster lacks it.
async fn installed<'a>(
    ask: ApiSession<'_>,
    missing: &mut SnapshotGaps,
) -> Vec<(&'a ResourceKind, Result<Option<String>, Failure>)> {
    let listed = OBJECTS.iter().filter(|kind| kind.is(Verb::List));
    let (fixed, open): (Vec<&ResourceKind>, Vec<&ResourceKind>) = listed.partition(|kind| kind.version.is_some());
    let mut versions_by_kind: Vec<_> =
        fixed.into_iter().map(|kind| (kind, Ok(kind.version.map(str::to_owned)))).collect();
    let groups: APIGroupList = match ask.json("/apis", ApiQuery::List(&ListParams::default()), "get /apis").await {
        Ok(groups) => groups,
        Err(failure) => {
            missing.note("the list of APIs", &failure);
            return versions_by_kind;
        }
    };
    // Each version lists its resources; the server returns versions in order of preference.
    let open_groups: BTreeSet<&str> = open.iter().map(|kind| kind.group).collect();
    let versions: Vec<_> = groups
        .groups
        .iter()
        .filter(|group| open_groups.contains(group.name.as_str()))
        .flat_map(|group| group.versions.iter().map(move |version| (group.name.as_str(), version.version.as_str())))
        .filter(|(_, version)| is_name(version))
        .collect();
    let requests = versions.into_iter().map(|(group, version)| async move {
        let what = format!("get /apis/{group}/{version}");
        let path = format!("/apis/{group}/{version}");
        (group, version, ask.json::<APIResourceList>(&path, ApiQuery::List(&ListParams::default()), &what).await)
    });
    let answers = join_all(requests).await;
    for kind in open {
        let of_group = answers.iter().filter(|(group, ..)| *group == kind.group);
        let mut version = Ok(None);
        for (_, candidate, answer) in of_group {
            match answer {
                Ok(resources) if resources.resources.iter().any(|resource| resource.name == kind.plural) => {
                    version = Ok(Some((*candidate).to_owned()));
                    break;
                }
                Ok(_) | Err(Failure::Absent) => {}
                Err(failure) => version = Err(failure.clone()),
            }
        }
        versions_by_kind.push((kind, version));
    }
    versions_by_kind
}

/// Builds an object: removes redundant metadata, adds the fields that a list leaves out.
fn object(mut value: Value, api_version: &str, kind: &str, namespace: &str) -> Object {
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    if let Some(all) = value.as_object_mut() {
        all.entry("apiVersion").or_insert_with(|| api_version.into());
        all.entry("kind").or_insert_with(|| kind.into());
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Object { kind: format!("{api_version}/{kind}"), namespace: namespace.to_owned(), name, value }
}

/// Sorts and deduplicates objects, and drops those that exceed the limits.
pub(super) fn bounded(mut objects: Vec<Object>, missing: &mut SnapshotGaps) -> Vec<Object> {
    let key = |object: &Object| (object.kind.clone(), object.namespace.clone(), object.name.clone());
    objects.sort_by_key(key);
    objects.dedup_by_key(|object| key(object));
    let mut all = 0;
    objects.retain(|object| {
        let bytes = object.value.to_string().len();
        let fits = bytes <= OBJECT_BYTES && all + bytes <= ALL_BYTES;
        match fits {
            true => all += bytes,
            false => missing
                .note_absent(format!("{} {}", object.kind, object.name), format!("it has {bytes} bytes, too many")),
        }
        fits
    });
    objects
}
