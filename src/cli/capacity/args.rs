//! The arguments of `capacity`: a model, GPUs, and the deployment.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use crate::cli::args::{label, window};
use capacity::{GpuSpec, KvDtype, Precision, parse_bytes, parse_tokens};
use knowledge::clock;

/// The arguments of `capacity`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 it fits or no GPU was given, 1 it does not fit, 2 wrong use, 3 Prometheus could not be asked.\n\
Nothing is downloaded: config.json is the model's file on Hugging Face, or in the engine's cache.\n\
Examples:\n  llm-diagnose capacity Llama-3.1-8B-Instruct/config.json --gpu H100 --max-model-len 32768\n  \
llm-diagnose capacity config.json --gpu 80GiB --tp 4 --kv-cache-dtype fp8 --label model_name=llama-70b --prometheus http://prometheus:9090\n  \
llm-diagnose capacity --label namespace=llm --prometheus http://prometheus:9090"
)]
pub struct CapacityArgs {
    /// The model's config.json; `-` reads standard input. Without it only the running pool is shown.
    #[arg(value_name = "FILE|-")]
    pub model: Option<String>,
    /// The deployment.
    #[command(flatten)]
    pub deployment: DeploymentArgs,
    /// A label of the running pool to compare with: namespace, model_name, cluster; repeat for more.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its Prometheus and playbooks.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The time of the comparison: RFC 3339 or unix seconds; defaults to now.
    #[arg(long, value_name = "TIME", value_parser = clock::parse_time)]
    pub at: Option<Timestamp>,
    /// The rate window [default: the configuration's, else 5m].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub window: Option<Duration>,
    /// The time limit for Prometheus' answers [default: the configuration's, else 10s].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

/// The deployment of a model, by the names of vLLM's flags where they exist.
#[derive(Debug, Args)]
pub struct DeploymentArgs {
    /// The GPU by name (H100, A100-40, L40S, MI300X) or its memory (80GiB).
    #[arg(long, value_name = "NAME|SIZE")]
    pub gpu: Option<GpuSpec>,
    /// The share of the GPU's memory that the engine may use; vLLM's default, 0.9 before its 0.20.
    #[arg(long, value_name = "RATIO", default_value_t = 0.92, value_parser = utilization)]
    pub gpu_memory_utilization: f64,
    /// GPUs that each layer is split over.
    #[arg(long, visible_alias = "tp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub tensor_parallel_size: u64,
    /// GPUs that the layers are distributed over.
    #[arg(long, visible_alias = "pp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub pipeline_parallel_size: u64,
    /// Ranks with attention and a KV cache of their own, among which experts are divided; SGLang's `--tp` counts the GPUs of all.
    #[arg(long, visible_alias = "dp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub data_parallel_size: u64,
    /// GPUs of `--tp` that divide a request's tokens, where each would keep a copy of its KV cache.
    #[arg(long, visible_alias = "dcp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub decode_context_parallel_size: u64,
    /// The maximum request length, such as 32768, 32k (32,000) or 32K (32,768) [default: the model's].
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    pub max_model_len: Option<u64>,
    /// Another request length to show; repeat for more.
    #[arg(long = "context", value_name = "TOKENS", value_parser = parse_tokens)]
    pub contexts: Vec<u64>,
    /// The type of the KV cache; auto is the model's.
    #[arg(long, value_enum, default_value_t = KvCacheDtype::Auto)]
    pub kv_cache_dtype: KvCacheDtype,
    /// The precision of the weights, instead of the checkpoint's: fp32, bf16, fp16, fp8, int8, int4, mxfp4, nvfp4.
    #[arg(long, value_name = "NAME", value_parser = precision)]
    pub precision: Option<Precision>,
    /// The size of the whole model's weights, instead of the computed size.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub weights: Option<u64>,
    /// The memory of one GPU beside weights and KV cache, instead of the estimate.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub reserve: Option<u64>,
    /// CUDA graphs are disabled.
    #[arg(long)]
    pub enforce_eager: bool,
    /// Maximum tokens of one step [default: 8192 from 70 GiB and not A100 or GB10, else 2048].
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub max_num_batched_tokens: Option<u64>,
    /// Maximum requests of one step [default: 1024 from 70 GiB and not A100 or GB10, else 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub max_num_seqs: Option<u64>,
}

/// The output format of `capacity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// The documented, versioned schema.
    Json,
}

/// The type of the KV cache, named as in vLLM's flag.
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
    /// Returns the type; `None` for [`Self::Auto`].
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
