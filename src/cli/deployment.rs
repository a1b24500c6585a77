//! What can be typed about how a model is served, in vLLM's words where it has them.

use clap::{Args, ValueEnum};

use crate::capacity::{Gpu, KvDtype, Precision, parse_bytes, parse_tokens};

/// How a model is served.
#[derive(Debug, Args)]
pub struct DeploymentArgs {
    /// The GPU by name (H100, A100-40, L40S, MI300X) or its memory (80GiB).
    #[arg(long, value_name = "NAME|SIZE")]
    pub gpu: Option<Gpu>,
    /// The share of the GPU's memory that the engine may use; vLLM's default, 0.9 before its 0.20.
    #[arg(long, value_name = "RATIO", default_value_t = 0.92, value_parser = utilization)]
    pub gpu_memory_utilization: f64,
    /// GPUs that share each layer.
    #[arg(long, visible_alias = "tp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub tensor_parallel_size: u64,
    /// GPUs that share the layers.
    #[arg(long, visible_alias = "pp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub pipeline_parallel_size: u64,
    /// The longest request, such as 32768, 32k (32,000) or 32K (32,768) [default: the model's].
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    pub max_model_len: Option<u64>,
    /// Another request length to show; repeat for more.
    #[arg(long = "context", value_name = "TOKENS", value_parser = parse_tokens)]
    pub contexts: Vec<u64>,
    /// The type of the KV cache; auto is the model's.
    #[arg(long, value_enum, default_value_t = KvCacheDtype::Auto)]
    pub kv_cache_dtype: KvCacheDtype,
    /// Of the weights, instead of the checkpoint's: fp32, bf16, fp16, fp8, int8, int4, mxfp4, nvfp4.
    #[arg(long, value_name = "NAME", value_parser = precision)]
    pub precision: Option<Precision>,
    /// The size of the whole model's weights, instead of counting them.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub weights: Option<u64>,
    /// What one GPU needs beside weights and KV cache, instead of the estimate.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub reserve: Option<u64>,
    /// Without CUDA graphs.
    #[arg(long)]
    pub enforce_eager: bool,
    /// Tokens of one step [default: 8192 from 70 GiB and not A100, else 2048].
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub max_num_batched_tokens: Option<u64>,
    /// Requests of one step [default: 1024 from 70 GiB and not A100, else 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub max_num_seqs: Option<u64>,
}

/// The type of the KV cache, as vLLM's flag has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KvCacheDtype {
    /// The checkpoint's.
    Auto,
    /// 2 bytes.
    #[value(alias = "bf16")]
    Bfloat16,
    /// 2 bytes.
    #[value(alias = "fp16")]
    Float16,
    /// 1 byte.
    #[value(aliases = ["fp8_e4m3", "fp8_e5m2"])]
    Fp8,
}

impl KvCacheDtype {
    /// The type; none for [`Self::Auto`].
    pub fn dtype(self) -> Option<KvDtype> {
        match self {
            Self::Auto => None,
            Self::Bfloat16 => Some(KvDtype::Bf16),
            Self::Float16 => Some(KvDtype::Fp16),
            Self::Fp8 => Some(KvDtype::Fp8),
        }
    }
}

fn utilization(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio > 0.0 && ratio <= 1.0 => Ok(ratio),
        _ => Err("expected a ratio above 0 and up to 1, such as 0.9".to_owned()),
    }
}

fn precision(text: &str) -> Result<Precision, String> {
    Precision::named(text).ok_or_else(|| "expected fp32, bf16, fp16, fp8, int8, int4, mxfp4 or nvfp4".to_owned())
}
