//! Information in an engine file beyond signals: lengths of requests, labels, and changes.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The quantity of a histogram of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Prompt tokens per request.
    InputTokens,
    /// Generated tokens per request.
    OutputTokens,
}

/// A series whose labels carry information.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Info {
    /// The name that is shown: the metric's name.
    pub metric: String,
    /// PromQL that keeps the series' labels, with `$scope`, `$workload` and `$window`.
    pub query: String,
    /// True if its labels are settings that a report should show.
    #[serde(default)]
    pub shown: bool,
    /// Label to the meaning of its value.
    #[serde(default)]
    pub tells: BTreeMap<String, Fact>,
    /// Label to the product whose version it holds: `NVIDIA driver`.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// True if the sample is the number of GPUs of the row's replica.
    #[serde(default)]
    pub counts_gpus: bool,
    /// The interconnect of the GPUs if any sample is above zero: `NVLink`.
    pub interconnect: Option<String>,
    /// The setting to enable if the query returns nothing.
    pub enable: Option<String>,
}

/// The meaning of a label's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// A GPU's product: `NVIDIA H100 80GB HBM3`.
    Gpu,
    /// The identifier of a GPU: its UUID.
    GpuId,
    /// The profile of a part of a GPU: `1g.10gb`.
    GpuSlice,
    /// The identifier of a part of a GPU.
    GpuSliceId,
    /// The node.
    Node,
    /// A property of a node: its type, its zone.
    OfNode,
    /// The container.
    Container,
    /// The image of the container.
    Image,
    /// The replica's role: `prefill`, `decode`.
    Role,
}

/// A quantity that is followed over time to detect changes; each row is one replica, pod or workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The start time of a replica's process, in unix seconds.
    Started,
    /// The number of restarts of a pod's containers.
    Restarts,
    /// The number of replicas in a workload's specification.
    Wanted,
    /// The number of replicas that an autoscaler requests.
    Autoscaled,
    /// A row for each image (label `image`) of a pod's containers (label `container`).
    Images,
    /// A number that changes with a workload's specification.
    Specification,
}
