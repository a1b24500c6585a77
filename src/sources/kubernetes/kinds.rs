//! All resources and verbs that are ever requested of a cluster, as data. config/kubernetes/rbac.yaml and logs.yaml
//! grant the same.

/// A read-only verb of the API; no other verbs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object by its name.
    Get,
    /// Lists a collection.
    List,
}

impl Verb {
    /// Returns the verb's name in RBAC rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
        }
    }
}

/// A resource of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceKind {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The version; `None` if several are in use, then the server's list of APIs decides.
    pub version: Option<&'static str>,
    /// The kind: `Pod`.
    pub kind: &'static str,
    /// The resource's name in URLs and permissions: `pods`, `pods/log`.
    pub plural: &'static str,
    /// The verbs that are used.
    pub verbs: &'static [Verb],
}

const GET: &[Verb] = &[Verb::Get];
const LIST: &[Verb] = &[Verb::List];
const GET_AND_LIST: &[Verb] = &[Verb::Get, Verb::List];

pub(super) const POD: ResourceKind =
    ResourceKind { group: "", version: Some("v1"), kind: "Pod", plural: "pods", verbs: GET_AND_LIST };
pub(super) const LOG: ResourceKind =
    ResourceKind { group: "", version: Some("v1"), kind: "Log", plural: "pods/log", verbs: GET };
pub(super) const EVENT: ResourceKind =
    ResourceKind { group: "", version: Some("v1"), kind: "Event", plural: "events", verbs: LIST };
pub(super) const NODE: ResourceKind =
    ResourceKind { group: "", version: Some("v1"), kind: "Node", plural: "nodes", verbs: GET };

/// The revisions of a Deployment's template, and of other workloads': listed for what the last rollout changed.
pub(super) const REPLICA_SET: ResourceKind = object("apps", Some("v1"), "ReplicaSet", "replicasets", LIST);
pub(super) const CONTROLLER_REVISION: ResourceKind =
    object("apps", Some("v1"), "ControllerRevision", "controllerrevisions", LIST);

/// Resources that own pods (read by name), or that route to them and scale them (listed in the pods' namespaces).
///
/// Sources: kubernetes.io/docs/reference/kubernetes-api; the CRDs of kubernetes-sigs/lws, ray-project/kuberay,
/// kserve/kserve, ai-dynamo/dynamo, ai-dynamo/grove, kubernetes-sigs/gateway-api,
/// kubernetes-sigs/gateway-api-inference-extension, llm-d/llm-d-router (docs/api-reference), kedacore/keda.
pub(super) const OBJECTS: &[ResourceKind] = &[
    object("apps", Some("v1"), "ReplicaSet", "replicasets", GET),
    object("apps", Some("v1"), "Deployment", "deployments", GET),
    object("apps", Some("v1"), "StatefulSet", "statefulsets", GET),
    object("apps", Some("v1"), "DaemonSet", "daemonsets", GET),
    object("batch", Some("v1"), "Job", "jobs", GET),
    object("leaderworkerset.x-k8s.io", None, "LeaderWorkerSet", "leaderworkersets", GET),
    object("ray.io", None, "RayCluster", "rayclusters", GET),
    object("ray.io", None, "RayService", "rayservices", GET),
    object("ray.io", None, "RayJob", "rayjobs", GET),
    object("grove.io", None, "PodClique", "podcliques", GET),
    object("grove.io", None, "PodCliqueScalingGroup", "podcliquescalinggroups", GET),
    object("grove.io", None, "PodCliqueSet", "podcliquesets", GET),
    object("nvidia.com", None, "DynamoComponentDeployment", "dynamocomponentdeployments", GET),
    object("nvidia.com", None, "DynamoGraphDeployment", "dynamographdeployments", GET_AND_LIST),
    object("serving.kserve.io", None, "InferenceService", "inferenceservices", GET_AND_LIST),
    object("serving.kserve.io", None, "LLMInferenceService", "llminferenceservices", GET_AND_LIST),
    object("gateway.networking.k8s.io", None, "HTTPRoute", "httproutes", LIST),
    // The InferencePool left the experimental group with v1; InferenceObjective moved to llm-d's. Clusters have any of
    // them.
    object("inference.networking.k8s.io", None, "InferencePool", "inferencepools", LIST),
    object("inference.networking.x-k8s.io", None, "InferencePool", "inferencepools", LIST),
    object("inference.networking.x-k8s.io", None, "InferenceObjective", "inferenceobjectives", LIST),
    object("llm-d.ai", None, "InferenceObjective", "inferenceobjectives", LIST),
    object("autoscaling", Some("v2"), "HorizontalPodAutoscaler", "horizontalpodautoscalers", LIST),
    object("keda.sh", None, "ScaledObject", "scaledobjects", LIST),
];

const fn object(
    group: &'static str,
    version: Option<&'static str>,
    kind: &'static str,
    plural: &'static str,
    verbs: &'static [Verb],
) -> ResourceKind {
    ResourceKind { group, version, kind, plural, verbs }
}

/// Returns all resources that are ever requested, beside the server's version and list of APIs, which all users may
/// read.
pub fn read() -> impl Iterator<Item = &'static ResourceKind> {
    [&POD, &LOG, &EVENT, &NODE, &REPLICA_SET, &CONTROLLER_REVISION].into_iter().chain(OBJECTS)
}

impl ResourceKind {
    /// Returns the resource's name in errors and permissions: `pods`, `deployments.apps`.
    pub(super) fn name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns true if this verb is used.
    pub(super) fn is(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// Returns the URL path of the collection; without `namespace`, over all namespaces or of a cluster-wide resource.
    ///
    /// `version` and `namespace` must be names ([`is_name`]).
    pub(super) fn path(&self, version: &str, namespace: Option<&str>) -> String {
        let api = match self.group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        // In the path of `pods/log` the pod's name stands between the two parts.
        let plural = self.plural.split('/').next().unwrap_or_default();
        match namespace {
            Some(namespace) => format!("{api}/namespaces/{namespace}/{plural}"),
            None => format!("{api}/{plural}"),
        }
    }
}

/// Returns true if the text can be a name in a URL: labels and answers are untrusted, such as `../secrets`.
///
/// All objects' names are DNS subdomains (kubernetes.io/docs/concepts/overview/working-with-objects/names).
pub(super) fn is_name(text: &str) -> bool {
    let fine = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
    let edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 253 && bytes.iter().all(|c| fine(*c)) && edge(bytes.first()) && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_api() {
        assert_eq!(POD.path("v1", Some("llm")), "/api/v1/namespaces/llm/pods");
        assert_eq!(LOG.path("v1", Some("llm")), "/api/v1/namespaces/llm/pods");
        assert_eq!(NODE.path("v1", None), "/api/v1/nodes");
        assert_eq!(OBJECTS[1].path("v1", Some("llm")), "/apis/apps/v1/namespaces/llm/deployments");
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_name() {
        for text in
            ["", ".", "..", "../secrets", "a/b", "a?b", "a%2fb", "A", "-a", "a-", "ü", "a b", "a\n", &"a".repeat(254)]
        {
            assert!(!is_name(text), "{text:?}");
        }
        assert!(["llama-0", "ip-10-0-0-1.eu-west-1.compute.internal", "v1"].into_iter().all(is_name));
    }
}
