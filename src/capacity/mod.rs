//! Whether a model fits on its GPUs and how many requests its KV cache holds, from its `config.json`. Pure.
//!
//! The types here are the documented output, `capacity --output json`.

mod config;
mod gpu;
mod kv;
mod live;
mod model;
mod phrases;
mod plan;
mod precision;
mod recurrent;
mod weights;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use config::CapacityError;
pub use gpu::{Gpu, parse_bytes, parse_tokens};
pub use kv::Cache;
pub use live::{SIGNALS, compare};
pub use model::{Attention, LayerKind, Model, Parts, State};
pub(crate) use phrases::{AS_GIVEN, grouped, size};
pub use plan::{Deployment, plan};
pub use precision::{KvDtype, Precision};

/// The version of the JSON output; a change that breaks readers gives it another name.
pub const SCHEMA: &str = "llm-diagnose/capacity/v1";

/// What fits; the parts that were not asked for are null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The model, when its configuration was given.
    pub model: Option<ModelReport>,
    /// Its weights.
    pub weights: Option<WeightsReport>,
    /// Its KV cache.
    pub kv: Option<KvReport>,
    /// What fits, when a GPU was given.
    pub fit: Option<Fit>,
    /// What the engine tells, when Prometheus was given.
    pub live: Option<Live>,
    /// What was assumed, in sentences.
    pub assumed: Vec<String>,
    /// What will not work, or not as expected, in sentences.
    pub warnings: Vec<String>,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReport {
    /// The architecture's class.
    pub architecture: String,
    /// Layers by what they keep.
    pub layers: LayerCounts,
    /// Null where they cannot be counted.
    pub parameters: Option<ParameterReport>,
    /// The longest request in tokens.
    pub max_model_len: u64,
}

/// Layers by what they keep of the tokens before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerCounts {
    /// Every token.
    pub full_attention: u64,
    /// The last tokens.
    pub sliding_window: u64,
    /// A state of constant size.
    pub recurrent: u64,
    /// Nothing.
    pub other: u64,
}

/// Parameters by part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParameterReport {
    /// All.
    pub total: u64,
    /// Token embedding.
    pub embedding: u64,
    /// Output projection; 0 when it is the embedding.
    pub output: u64,
    /// Attention and recurrent mixers.
    pub attention: u64,
    /// Dense feed-forward layers and shared experts.
    pub dense: u64,
    /// Routed experts.
    pub experts: u64,
    /// Routers, norms, biases.
    pub other: u64,
}

/// The weights of the whole model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WeightsReport {
    /// As the checkpoint or the flag names it.
    pub precision: String,
    /// All of them.
    pub bytes: u64,
    /// What they would take otherwise.
    pub by_precision: BTreeMap<String, u64>,
}

/// The KV cache per token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KvReport {
    /// Its type.
    pub dtype: KvDtype,
    /// Bytes of one token in all layers, on one GPU that holds the whole model.
    pub bytes_per_token: u64,
    /// Bytes of one token on each GPU of the deployment.
    pub bytes_per_token_per_gpu: u64,
    /// Tokens in a block.
    pub block_tokens: u64,
}

/// What fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// On what.
    pub deployed: Deployed,
    /// The weights, and the KV cache of one request of `max_model_len`.
    pub fits: bool,
    /// The smallest tensor-parallel size up to 64 with which it fits; null when none does.
    pub smallest_tensor_parallel: Option<u64>,
    /// The longest request that fits here, at most `max_model_len`; 0 when not even one token does.
    pub longest_request_tokens: u64,
    /// What one GPU's memory is for.
    pub memory: Vec<Share>,
    /// What the KV cache holds, as the engine tells it at its start.
    pub kv_pool_tokens: u64,
    /// How many requests fit at once, by their length.
    pub concurrency: Vec<Concurrency>,
}

/// The deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deployed {
    /// The GPU's name, when it was given by name.
    pub gpu: Option<String>,
    /// Its memory.
    pub gpu_bytes: u64,
    /// The share of it that the engine may use, 0..1.
    pub gpu_memory_utilization: f64,
    /// GPUs that share each layer.
    pub tensor_parallel: u64,
    /// GPUs that share the layers.
    pub pipeline_parallel: u64,
    /// The longest request in tokens.
    pub max_model_len: u64,
    /// Tokens of one step.
    pub max_num_batched_tokens: u64,
    /// Requests of one step.
    pub max_num_seqs: u64,
}

/// A part of one GPU's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// `weights`, `activations`, `cuda_graphs`, `runtime` (or `reserve`), `kv_cache`, `not_used`.
    pub part: String,
    /// Its size.
    pub bytes: u64,
    /// Of the GPU's memory, 0..1; more than 1 when it does not fit.
    pub share: f64,
}

/// How many requests of one length fit at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Concurrency {
    /// Prompt and output together.
    pub context_tokens: u64,
    /// What one takes on each GPU at most.
    pub request_bytes: u64,
    /// How many fit.
    pub requests: f64,
}

/// What the engine tells of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Live {
    /// The pool's matchers in the engine's labels.
    pub scope: BTreeMap<String, String>,
    /// Replicas seen within the last hour.
    pub replicas: usize,
    /// Tokens that one replica's KV cache holds: the mean of the replicas.
    pub kv_capacity_tokens: Option<f64>,
    /// Each replica's.
    pub kv_capacity_by_replica: BTreeMap<String, f64>,
    /// Live over computed capacity; null without both.
    pub live_over_computed: Option<f64>,
    /// Mean prompt.
    pub prompt_tokens_mean: Option<f64>,
    /// Mean output.
    pub generation_tokens_mean: Option<f64>,
    /// Requests of this mean length that one replica holds; with sliding windows more of them fit.
    pub mean_requests_per_replica: Option<f64>,
    /// Requests that run on one replica now, on the mean.
    pub running_per_replica: Option<f64>,
    /// Signals without data, and why.
    pub missing: BTreeMap<String, String>,
    /// What went wrong while asking, in sentences.
    pub problems: Vec<String>,
    /// Prometheus was away or late.
    pub degraded: bool,
}
