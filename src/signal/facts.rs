//! What an engine file tells beyond signals: lengths of requests, what stands in labels, and what changes.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a histogram of requests counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Prompt tokens per request.
    InputTokens,
    /// Generated tokens per request.
    OutputTokens,
}

/// A series whose labels tell something.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Info {
    /// What it is called where it is shown: the metric's name.
    pub metric: String,
    /// PromQL that keeps the series' labels, with `$scope`, `$workload` and `$window`.
    pub query: String,
    /// Its labels are settings that somebody who reads a report wants to see.
    #[serde(default)]
    pub shown: bool,
    /// Label to what its value is.
    #[serde(default)]
    pub tells: BTreeMap<String, Fact>,
    /// Label to what its value is the version of: `NVIDIA driver`.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// The sample is the number of GPUs that the row's replica has.
    #[serde(default)]
    pub counts_gpus: bool,
    /// What connects the GPUs where any sample is above zero: `NVLink`.
    pub interconnect: Option<String>,
    /// What to turn on where the query finds nothing.
    pub enable: Option<String>,
}

/// What a label's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// A GPU's product: `NVIDIA H100 80GB HBM3`.
    Gpu,
    /// What tells one GPU from another: its UUID.
    GpuId,
    /// The profile of a part of a GPU: `1g.10gb`.
    GpuSlice,
    /// What tells one part of a GPU from another.
    GpuSliceId,
    /// The machine.
    Node,
    /// What is known of a machine: its type, its zone.
    OfNode,
    /// The container.
    Container,
    /// What the container runs.
    Image,
    /// The replica's part: `prefill`, `decode`.
    Role,
}

/// What is followed over time, to tell what happened; each row is one replica, pod or workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// When a replica's process started, in unix seconds.
    Started,
    /// How often a pod's containers restarted so far.
    Restarts,
    /// How many replicas a workload shall have.
    Wanted,
    /// How many replicas an autoscaler wants.
    Autoscaled,
    /// A row for each image (label `image`) of a pod's containers (label `container`).
    Images,
    /// A number that changes with a workload's specification.
    Specification,
}
