//! Bytes per value of weights and of the KV cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::{Config, Result, refuse};
use super::layers::Parts;

/// The type of the KV cache, and of weights that are not quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvDtype {
    /// 4 bytes.
    Fp32,
    /// 2 bytes.
    Fp16,
    /// 2 bytes.
    Bf16,
    /// 1 byte.
    Fp8,
}

impl KvDtype {
    /// Returns the bytes per value.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Fp8 => 1,
        }
    }

    /// Returns the name as in flags and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
        }
    }

    /// Returns the type by a checkpoint's name, or that of a flag.
    pub(super) fn of(text: &str) -> Option<Self> {
        match text.trim_start_matches("torch.") {
            "float32" | "float" => Some(Self::Fp32),
            "float16" | "fp16" | "half" => Some(Self::Fp16),
            "bfloat16" | "bf16" => Some(Self::Bf16),
            text if text.starts_with("float8") || text.starts_with("fp8") => Some(Self::Fp8),
            _ => None,
        }
    }
}

/// The storage format of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Precision {
    /// The name, as in the checkpoint.
    pub name: String,
    /// Bits per quantized weight, including its share of the scales.
    pub bits: f64,
    /// True if only routed experts are quantized.
    pub experts_only: bool,
}

impl Precision {
    /// Creates a precision of the whole model.
    pub fn new(name: &str, bits: f64) -> Self {
        Self { name: name.to_owned(), bits, experts_only: false }
    }

    /// Returns a precision by the name of a flag; scales are 16 bits per 128 weights for int4, 8 bits per 16 or 32
    /// for others.
    pub fn named(name: &str) -> Option<Self> {
        let bits = match name {
            "fp32" => 32.0,
            "bf16" | "fp16" => 16.0,
            "fp8" | "int8" => 8.0,
            "nvfp4" => 4.5,
            "mxfp4" => 4.25,
            "int4" => 4.0 + 20.0 / 128.0,
            _ => return None,
        };
        Some(Self::new(name, bits))
    }

    /// Returns the bytes of the weights; embeddings, output projection, norms and routers keep `dtype`.
    pub fn bytes(&self, parts: &Parts, dtype: KvDtype) -> u64 {
        let wide = dtype.bytes().max(2);
        let quantized = if self.experts_only { parts.experts } else { parts.experts + parts.dense + parts.attention };
        let rest = parts.total() - quantized;
        if self.bits >= 16.0 {
            return (parts.total() as f64 * self.bits / 8.0) as u64;
        }
        (quantized as f64 * self.bits / 8.0) as u64 + rest * wide
    }
}

/// Returns the checkpoint's precision, the KV cache's type that it requests, and the type of weights that are not
/// quantized.
pub(super) fn quantization(
    config: &Config,
    assumed: &mut Vec<String>,
) -> Result<(Option<Precision>, Option<KvDtype>, KvDtype)> {
    let dtype = match config.get_anywhere(&["dtype", "torch_dtype"]) {
        None => {
            assumed.push("no `torch_dtype`: 16 bits".to_owned());
            KvDtype::Bf16
        }
        Some((key, value)) => match value.as_str().and_then(KvDtype::of) {
            // vLLM's default for a 32-bit checkpoint. Source:
            // https://docs.vllm.ai/en/stable/configuration/engine_args/
            Some(KvDtype::Fp32) => {
                assumed.push(
                    "the checkpoint is in 32 bits, which vLLM loads in 16 unless told `--dtype float32`".to_owned(),
                );
                KvDtype::Fp16
            }
            Some(KvDtype::Fp8) => KvDtype::Bf16,
            Some(dtype) => dtype,
            None => return refuse(format!("`{key}` is {value}: expected bfloat16, float16 or float32")),
        },
    };
    let plain = Some(Precision::new(dtype.name(), dtype.bytes() as f64 * 8.0));
    let Some((_, q)) = config.get_anywhere(&["quantization_config", "compression_config"]) else {
        return Ok((plain, None, dtype));
    };
    let kv = q["kv_cache_quant_algo"].as_str().or_else(|| q["quantization"]["kv_cache_quant_algo"].as_str());
    let kv8 =
        kv.is_some_and(|algo| algo.eq_ignore_ascii_case("fp8")) || q["kv_cache_scheme"]["num_bits"].as_u64() == Some(8);
    let precision = method(q);
    if precision.as_ref().is_some_and(|p| p.bits < 16.0) {
        assumed.push("embeddings, output projection, norms and routers are not quantized".to_owned());
    }
    Ok((precision, kv8.then_some(KvDtype::Fp8), dtype))
}

fn method(q: &Value) -> Option<Precision> {
    let method = q["quant_method"].as_str().unwrap_or_default();
    let bits = |key: &str| q[key].as_u64().filter(|bits| (1..=16).contains(bits)).map(|bits| bits as f64);
    let scaled = |bits: f64, group: &Value| match group.as_u64().filter(|g| *g > 0) {
        Some(group) => bits + (16.0 + bits) / group as f64,
        None => bits,
    };
    match method {
        "fp8" | "fbgemm_fp8" => Some(Precision::new("fp8", 8.0)),
        "mxfp4" => Some(Precision { experts_only: true, ..Precision::named("mxfp4")? }),
        "awq" | "gptq" | "gptq_marlin" | "awq_marlin" => {
            let bits = bits("bits").or_else(|| bits("w_bit"))?;
            let group = if q["group_size"].is_null() { &q["q_group_size"] } else { &q["group_size"] };
            Some(Precision::new(&format!("{method} {bits} bit"), scaled(bits, group)))
        }
        "bitsandbytes" if q["load_in_4bit"] == true => Some(Precision::new("bitsandbytes 4 bit", 4.5)),
        "bitsandbytes" if q["load_in_8bit"] == true => Some(Precision::new("bitsandbytes 8 bit", 8.0)),
        "modelopt" | "modelopt_fp4" => {
            let algo = q["quant_algo"].as_str().or_else(|| q["quantization"]["quant_algo"].as_str())?;
            match algo.to_ascii_lowercase().as_str() {
                "fp8" => Some(Precision::new("fp8", 8.0)),
                "nvfp4" => Precision::named("nvfp4"),
                _ => None,
            }
        }
        "compressed-tensors" => {
            if q["format"].as_str().is_some_and(|f| f.starts_with("nvfp4")) {
                return Precision::named("nvfp4");
            }
            let weights = &q["config_groups"].as_object()?.values().next()?["weights"];
            let bits = weights["num_bits"].as_u64().filter(|bits| (1..=16).contains(bits))? as f64;
            let kind = if weights["type"] == "float" { "fp" } else { "int" };
            Some(Precision::new(&format!("{kind}{bits}"), scaled(bits, &weights["group_size"])))
        }
        _ => None,
    }
}
