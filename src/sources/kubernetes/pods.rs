//! Converts a pod of the API to a pod of the snapshot. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStateTerminated, ContainerStatus, EnvFromSource, EnvVar, Pod as Raw,
    PodCondition, PodSpec, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{Container, Ended, Pod};

/// Maximum bytes of one text; an argument may be a whole script.
pub(super) const TEXT_BYTES: usize = 16 << 10;
/// Maximum number of arguments, of variables and of labels.
const ENTRIES: usize = 500;

/// A controller or owner of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) namespace: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Owner {
    /// Returns the controller of the object with this metadata, else its first owner.
    pub(super) fn of(meta: &ObjectMeta) -> Option<Self> {
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let owner: &OwnerReference = owners.iter().find(|o| o.controller == Some(true)).or(owners.first())?;
        Some(Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
        })
    }

    /// Returns kind and name: `Deployment/llama`.
    pub(super) fn display_name(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

/// Converts a pod; `owner` is its direct owner until the top-level owner is known.
pub(super) fn read(raw: Raw) -> Pod {
    let (spec, status) = (raw.spec.unwrap_or_default(), raw.status.unwrap_or_default());
    let phase = status.phase.unwrap_or_default();
    let mut troubles = Vec::new();
    if let Some(at) = &raw.metadata.deletion_timestamp {
        troubles.push(format!("it is being deleted since {}", at.0));
    }
    if let Some(reason) = status.reason {
        troubles.push(because(reason, status.message));
    }
    let conditions = status.conditions.unwrap_or_default();
    troubles.extend(conditions.into_iter().filter_map(|condition| trouble(condition, &phase)));
    let init = spec.init_containers.unwrap_or_default();
    let inits = init.len();
    let statuses: Vec<_> =
        [status.init_container_statuses, status.container_statuses].into_iter().flatten().flatten().collect();
    let mut containers = Vec::with_capacity(inits + spec.containers.len());
    for (index, spec) in init.into_iter().chain(spec.containers).enumerate() {
        let status = statuses.iter().find(|status| status.name == spec.name);
        if let Some(waits) = status.and_then(|s| s.state.as_ref()).and_then(|state| state.waiting.as_ref())
            && let (Some(reason), Some(message)) = (&waits.reason, &waits.message)
        {
            troubles.push(format!("container {} waits: {reason}: {}", spec.name, cut(message)));
        }
        containers.push(container(spec, status, index < inits));
    }
    let owner = Owner::of(&raw.metadata).map(|owner| owner.display_name());
    Pod {
        namespace: raw.metadata.namespace.unwrap_or_default(),
        name: raw.metadata.name.unwrap_or_default(),
        node: spec.node_name.filter(|node| !node.is_empty()),
        phase,
        owner,
        created_at: raw.metadata.creation_timestamp.map(|at| at.0),
        labels: raw.metadata.labels.unwrap_or_default().into_iter().take(ENTRIES).collect(),
        containers,
        troubles,
    }
}

/// Describes a condition that does not hold, or one that should not hold: `DisruptionTarget`.
fn trouble(condition: PodCondition, phase: &str) -> Option<String> {
    let bad_when_true = condition.type_ == "DisruptionTarget";
    if (condition.status == "True") != bad_when_true || phase == "Succeeded" {
        return None;
    }
    let since = condition.last_transition_time.map(|at| format!(" since {}", at.0)).unwrap_or_default();
    let why = because(condition.reason.unwrap_or_default(), condition.message);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    Some(format!("{} is {}{since}{why}", condition.type_, condition.status))
}

/// Joins reason and message: `Evicted: The node was low on resource: memory.`
pub(super) fn because(reason: String, message: Option<String>) -> String {
    match message.filter(|message| !message.is_empty()) {
        Some(message) if reason.is_empty() => cut(&message),
        Some(message) => format!("{reason}: {}", cut(&message)),
        None => reason,
    }
}

/// Converts the containers of a template, init containers first.
pub(super) fn containers(spec: PodSpec) -> impl Iterator<Item = Container> {
    spec.init_containers.into_iter().flatten().chain(spec.containers).map(|spec| container(spec, None, false))
}

fn container(spec: Spec, status: Option<&ContainerStatus>, init: bool) -> Container {
    let words = spec.command.into_iter().flatten().chain(spec.args.into_iter().flatten());
    let mut env: BTreeMap<String, String> =
        spec.env_from.into_iter().flatten().take(ENTRIES).filter_map(all_of).collect();
    env.extend(spec.env.into_iter().flatten().take(ENTRIES).map(variable));
    let state = status.and_then(|status| status.state.as_ref());
    let waiting = state.and_then(|state| state.waiting.as_ref());
    Container {
        name: spec.name,
        image: spec.image.unwrap_or_default(),
        image_id: status.map(|status| status.image_id.clone()).filter(|id| !id.is_empty()),
        args: words.take(ENTRIES).map(|word| cut(&word)).collect(),
        env,
        resources: spec.resources.map(resources).unwrap_or_default(),
        restarts: status.map_or(0, |status| u32::try_from(status.restart_count).unwrap_or(0)),
        ready: status.is_some_and(|status| status.ready),
        started_at: state.and_then(|s| s.running.as_ref()).and_then(|r| r.started_at.as_ref()).map(|at| at.0),
        waiting: waiting.map(|waiting| waiting.reason.clone().unwrap_or_else(|| "waiting".to_owned())),
        ended: status.and_then(|status| last_end(status, init)),
    }
}

/// Returns the end of the last run; the success of an init container does not count.
fn last_end(status: &ContainerStatus, init: bool) -> Option<Ended> {
    let terminated = |state: &Option<ContainerState>| state.as_ref().and_then(|state| state.terminated.clone());
    let now = terminated(&status.state).filter(|end| !(init && end.exit_code == 0));
    now.or_else(|| terminated(&status.last_state)).map(ended)
}

fn ended(end: ContainerStateTerminated) -> Ended {
    let signal = end.signal.map(|signal| format!("signal {signal}"));
    Ended {
        reason: end.reason.or(signal).unwrap_or_default(),
        exit_code: end.exit_code,
        at: end.finished_at.map(|at| at.0),
        message: end.message.filter(|message| !message.is_empty()).map(|message| cut(&message)),
    }
}

/// Reads a variable; a value of a Secret or ConfigMap is replaced by its reference and never read.
fn variable(variable: EnvVar) -> (String, String) {
    let Some(from) = variable.value_from else {
        return (variable.name, cut(&variable.value.unwrap_or_default()));
    };
    let value = if let Some(secret) = from.secret_key_ref {
        format!("secret {}/{}", secret.name, secret.key)
    } else if let Some(map) = from.config_map_key_ref {
        format!("configmap {}/{}", map.name, map.key)
    } else if let Some(field) = from.field_ref {
        format!("field {}", field.field_path)
    } else if let Some(resource) = from.resource_field_ref {
        format!("resource {}", resource.resource)
    } else {
        "from elsewhere".to_owned()
    };
    (variable.name, value)
}

/// Returns a reference to all keys of a Secret or ConfigMap, whose names are not known.
fn all_of(source: EnvFromSource) -> Option<(String, String)> {
    let prefix = source.prefix.unwrap_or_default();
    let what = match (source.secret_ref, source.config_map_ref) {
        (Some(secret), _) => format!("secret {}", secret.name),
        (None, Some(map)) => format!("configmap {}", map.name),
        (None, None) => return None,
    };
    Some((format!("{prefix}* of {what}"), what))
}

fn resources(resources: ResourceRequirements) -> BTreeMap<String, String> {
    let named = [("limits", resources.limits), ("requests", resources.requests)];
    let quantities = named.into_iter().flat_map(|(what, quantities)| {
        quantities.into_iter().flatten().map(move |(name, quantity)| (format!("{what}.{name}"), quantity.0))
    });
    let claims = resources.claims.into_iter().flatten();
    let claims = claims.map(|claim| (format!("claims.{}", claim.name), claim.request.unwrap_or_default()));
    quantities.chain(claims).take(ENTRIES).collect()
}

/// Truncates a text to [`TEXT_BYTES`].
pub(super) fn cut(text: &str) -> String {
    match text.floor_char_boundary(TEXT_BYTES) {
        end if end == text.len() => text.to_owned(),
        end => format!("{}…", &text[..end]),
    }
}
