//! Capacity planning from a model's `config.json`: checks that it fits on the GPUs, and computes how many requests
//! its KV cache holds. Pure.
//!
//! The types here are the documented output of `capacity --output json`.

mod config;
mod deployment;
mod gpu;
mod kv;
mod layers;
mod live;
mod model;
mod phrases;
mod plan;
mod precision;
mod recurrent;
mod text;
mod weights;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use config::CapacityError;
pub use deployment::PlannedDeployment;
pub use gpu::{GpuSpec, parse_bytes, parse_tokens};
pub use kv::Cache;
pub use layers::{Attention, LayerKind, Parts, RecurrentState};
pub use live::{SIGNALS, compare};
pub use model::ModelSpec;
pub use phrases::{AS_GIVEN, grouped, size};
pub use plan::plan;
pub use precision::{KvDtype, Precision};
pub use text::text;

/// The version of the JSON output; an incompatible change gets a new name.
pub const SCHEMA: &str = "llm-diagnose/capacity/v1";

/// The capacity report; parts that were not requested are null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// The model, if its configuration is given.
    pub model: Option<ModelReport>,
    /// The weights.
    pub weights: Option<WeightsReport>,
    /// The KV cache.
    pub kv: Option<KvReport>,
    /// The fit on the GPUs, if a GPU is given.
    pub fit: Option<Fit>,
    /// The running engine's metrics, if Prometheus is given.
    pub live: Option<Live>,
    /// Assumptions, as sentences.
    pub assumed: Vec<String>,
    /// Problems and limitations, as sentences.
    pub warnings: Vec<String>,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReport {
    /// The architecture's class.
    pub architecture: String,
    /// Number of layers by kind.
    pub layers: LayerCounts,
    /// Number of parameters; null if they cannot be counted.
    pub parameters: Option<ParameterReport>,
    /// The longest request in tokens.
    pub max_model_len: u64,
}

/// Number of layers by the past tokens that they store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerCounts {
    /// Layers that store every token.
    pub full_attention: u64,
    /// Layers that store only the last tokens.
    pub sliding_window: u64,
    /// Layers with a state of constant size.
    pub recurrent: u64,
    /// Layers that store nothing.
    pub other: u64,
}

/// Parameters by part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParameterReport {
    /// All parameters.
    pub total: u64,
    /// Those of each part.
    #[serde(flatten)]
    pub parts: Parts,
}

/// The weights of the whole model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WeightsReport {
    /// The name of the precision, as in the checkpoint or the flag.
    pub precision: String,
    /// The total size in bytes.
    pub bytes: u64,
    /// The size in bytes with other precisions.
    pub by_precision: BTreeMap<String, u64>,
}

/// The KV cache per token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KvReport {
    /// The data type.
    pub dtype: KvDtype,
    /// Bytes per token in all layers, on one GPU that holds the whole model.
    pub bytes_per_token: u64,
    /// Bytes per token on each GPU of the deployment.
    pub bytes_per_token_per_gpu: u64,
    /// Tokens per block.
    pub block_tokens: u64,
}

/// The fit of the model on the GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// The deployment.
    pub deployed: Deployed,
    /// True if the weights and the KV cache of one request of `max_model_len` fit.
    pub fits: bool,
    /// The smallest tensor-parallel size up to 64 with which it fits; null if none does.
    pub smallest_tensor_parallel: Option<u64>,
    /// The longest request that fits here, at most `max_model_len`; 0 if not even one token fits.
    pub longest_request_tokens: u64,
    /// The memory of one GPU by use.
    pub memory: Vec<Share>,
    /// The size of the KV cache in tokens, as the engine reports it at its start.
    pub kv_pool_tokens: u64,
    /// Number of concurrent requests by their length.
    pub concurrency: Vec<Concurrency>,
}

/// The deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deployed {
    /// The GPU's name, if it was given by name.
    pub gpu: Option<String>,
    /// The GPU's memory in bytes.
    pub gpu_bytes: u64,
    /// The fraction of it that the engine may use, 0..1.
    pub gpu_memory_utilization: f64,
    /// Number of GPUs that share each layer.
    pub tensor_parallel: u64,
    /// Number of pipeline stages among which the layers are divided.
    pub pipeline_parallel: u64,
    /// Number of ranks with a KV cache of their own; what follows is of one of them.
    pub data_parallel: u64,
    /// Number of GPUs of a layer among which a request's tokens are divided.
    pub decode_context_parallel: u64,
    /// Maximum length of a request in tokens.
    pub max_model_len: u64,
    /// Maximum tokens per step.
    pub max_num_batched_tokens: u64,
    /// Maximum requests per step.
    pub max_num_seqs: u64,
}

/// A use of one GPU's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// `weights`, `activations`, `cuda_graphs`, `runtime` (or `reserve`), `kv_cache`, `not_used`.
    pub part: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The fraction of the GPU's memory, 0..1; more than 1 if it does not fit.
    pub share: f64,
}

/// Number of concurrent requests of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Concurrency {
    /// The length of prompt and output together.
    pub context_tokens: u64,
    /// Maximum bytes of one request on each GPU.
    pub request_bytes: u64,
    /// Number of requests that fit.
    pub requests: f64,
}

/// The running engine's metrics for one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Live {
    /// The pool's matchers in the engine's labels.
    pub scope: BTreeMap<String, String>,
    /// Number of replicas within the last hour.
    pub replicas: usize,
    /// The KV cache's size in tokens of one replica: the mean of all replicas.
    pub kv_capacity_tokens: Option<f64>,
    /// The same for each replica.
    pub kv_capacity_by_replica: BTreeMap<String, f64>,
    /// The ratio of live to computed capacity; null without both.
    pub live_over_computed: Option<f64>,
    /// The mean prompt length in tokens.
    pub prompt_tokens_mean: Option<f64>,
    /// The mean output length in tokens.
    pub generation_tokens_mean: Option<f64>,
    /// Number of requests of this mean length that one replica holds; with sliding windows more of them fit.
    pub mean_requests_per_replica: Option<f64>,
    /// The mean number of requests now running on a replica.
    pub running_per_replica: Option<f64>,
    /// Signals without data, each with the reason.
    pub missing: BTreeMap<String, String>,
    /// Query errors, as sentences.
    pub problems: Vec<String>,
    /// True if Prometheus was unavailable or slow.
    pub degraded: bool,
}
