//! The deployment of a model.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::gpu::{GpuSpec, parse_bytes, parse_tokens};
use super::precision::{KvDtype, Precision};

/// A value that the checkpoint gives where none is set; clap reads `auto` into it, and would not into an `Option`.
type CheckpointOr<T> = Option<T>;

/// The deployment of a model, by the names of vLLM's flags where they exist.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PlannedDeployment {
    /// The GPU by name (H100, A100-40, L40S, MI300X) or its memory (80GiB).
    #[arg(long, value_name = "NAME|SIZE")]
    pub gpu: Option<GpuSpec>,
    /// The share of the GPU's memory that the engine may use; vLLM's default, 0.9 before its 0.20.
    #[arg(long = "gpu-memory-utilization", value_name = "RATIO", default_value_t = 0.92, value_parser = parse_share)]
    pub utilization: f64,
    /// GPUs that each layer is split over.
    #[arg(long = "tensor-parallel-size", visible_alias = "tp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub tensor: u64,
    /// GPUs that the layers are distributed over.
    #[arg(long = "pipeline-parallel-size", visible_alias = "pp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub pipeline: u64,
    /// Ranks with attention and a KV cache of their own, among which experts are divided; SGLang's `--tp` counts the GPUs of all.
    #[arg(long = "data-parallel-size", visible_alias = "dp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub data: u64,
    /// GPUs of `--tp` that divide a request's tokens, where each would keep a copy of its KV cache.
    #[arg(long = "decode-context-parallel-size", visible_alias = "dcp", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub context: u64,
    /// The maximum request length, such as 32768, 32k (32,000) or 32K (32,768) [default: the model's].
    #[arg(long = "max-model-len", value_name = "TOKENS", value_parser = parse_tokens)]
    pub longest: Option<u64>,
    /// Another request length to show; repeat for more.
    #[arg(long = "context", value_name = "TOKENS", value_parser = parse_tokens)]
    pub contexts: Vec<u64>,
    /// The type of the KV cache; auto is the model's.
    #[arg(long = "kv-cache-dtype", value_name = "KV_CACHE_DTYPE", default_value = "auto", value_parser = kv_dtypes())]
    pub kv_dtype: CheckpointOr<KvDtype>,
    /// The precision of the weights, instead of the checkpoint's: fp32, bf16, fp16, fp8, int8, int4, mxfp4, nvfp4.
    #[arg(long, value_name = "NAME", value_parser = parse_precision)]
    pub precision: Option<Precision>,
    /// The size of the whole model's weights, instead of the computed size.
    #[arg(long = "weights", value_name = "SIZE", value_parser = parse_bytes)]
    pub weights_bytes: Option<u64>,
    /// The memory of one GPU beside weights and KV cache, instead of the estimate.
    #[arg(long = "reserve", value_name = "SIZE", value_parser = parse_bytes)]
    pub reserve_bytes: Option<u64>,
    /// CUDA graphs are disabled.
    #[arg(long = "enforce-eager")]
    pub eager: bool,
    /// Maximum tokens of one step [default: 8192 from 70 GiB and not A100 or GB10, else 2048].
    #[arg(long = "max-num-batched-tokens", value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub batched_tokens: Option<u64>,
    /// Maximum requests of one step [default: 1024 from 70 GiB and not A100 or GB10, else 256].
    #[arg(long = "max-num-seqs", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub sequences: Option<u64>,
}

/// Reads the type of the KV cache, named as in vLLM's flag.
fn kv_dtypes() -> impl TypedValueParser<Value = CheckpointOr<KvDtype>> {
    let names = [
        PossibleValue::new("auto").help("The checkpoint's"),
        PossibleValue::new("bfloat16").alias("bf16").help("2 bytes"),
        PossibleValue::new("float16").alias("fp16").help("2 bytes"),
        PossibleValue::new("fp8").aliases(["fp8_e4m3", "fp8_e5m2"]).help("1 byte"),
    ];
    PossibleValuesParser::new(names).map(|name| KvDtype::of(&name))
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio > 0.0 && ratio <= 1.0 => Ok(ratio),
        _ => Err("expected a ratio above 0 and up to 1, such as 0.9".to_owned()),
    }
}

fn parse_precision(text: &str) -> Result<Precision, String> {
    Precision::named(text).ok_or_else(|| "expected fp32, bf16, fp16, fp8, int8, int4, mxfp4 or nvfp4".to_owned())
}
