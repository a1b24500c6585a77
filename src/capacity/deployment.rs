//! The deployment of a model.

use super::gpu::GpuSpec;
use super::precision::{KvDtype, Precision};

/// The deployment of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedDeployment {
    /// The GPU; `None` to describe only the model.
    pub gpu: Option<GpuSpec>,
    /// The fraction of its memory that the engine may use, 0..1.
    pub utilization: f64,
    /// Number of GPUs that share each layer.
    pub tensor: u64,
    /// Number of pipeline stages among which the layers are divided.
    pub pipeline: u64,
    /// Number of ranks with attention and a KV cache of their own; the experts are divided among all of them.
    pub data: u64,
    /// Number of GPUs of a layer among which a request's tokens are divided, instead of a copy on each.
    pub context: u64,
    /// The KV cache's type; `None` for the model's.
    pub kv_dtype: Option<KvDtype>,
    /// The precision of the weights; `None` for the checkpoint's.
    pub precision: Option<Precision>,
    /// The size of all weights in bytes; `None` to compute it.
    pub weights_bytes: Option<u64>,
    /// Activations, CUDA graphs and runtime of one GPU in bytes; `None` to estimate them.
    pub reserve_bytes: Option<u64>,
    /// True without CUDA graphs.
    pub eager: bool,
    /// Maximum length of a request; `None` for the model's.
    pub longest: Option<u64>,
    /// Maximum tokens per step; `None` for vLLM's default for the GPU.
    pub batched_tokens: Option<u64>,
    /// Maximum requests per step; `None` for vLLM's default for the GPU.
    pub sequences: Option<u64>,
    /// Additional context lengths to show.
    pub contexts: Vec<u64>,
}
