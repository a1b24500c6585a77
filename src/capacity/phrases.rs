//! The sentences in a capacity report.

use super::deployment::PlannedDeployment;
use super::model::ModelSpec;
use super::{Fit, Live};
use knowledge::signal::{Unit, format_value};

/// Shown as the precision if the size of the weights is given.
pub const AS_GIVEN: &str = "as given";

/// Formats a size in GiB with one decimal: `14.9 GiB`.
pub fn size(bytes: u64) -> String {
    match bytes as f64 / 1_073_741_824.0 {
        gib if gib >= 1.0 => format!("{gib:.1} GiB"),
        gib => format!("{:.0} MiB", gib * 1024.0),
    }
}

/// Formats a whole number with thousands separators: `131,072`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(super) fn uncountable(model: &ModelSpec) -> String {
    match (&model.parts, &model.precision) {
        (None, _) => format!(
            "the parameters of {} cannot be counted from its configuration: pass the checkpoint's size, such as `--weights 60GiB`",
            model.title
        ),
        _ => {
            "the checkpoint's quantization is not known here: pass `--precision`, or its size such as `--weights 20GiB`"
                .to_owned()
        }
    }
}

pub(super) fn longer_than_trained(requested: u64, trained: u64) -> String {
    format!(
        "{} tokens are more than the model's {}: the engine takes that only with scaled positions",
        grouped(requested),
        grouped(trained)
    )
}

pub(super) fn replicated(tensor: u64, kv_heads: u64, context: u64) -> String {
    format!(
        "only {kv_heads} heads of keys and values among {tensor} GPUs: each is kept {} times, so the pool grows less than the GPUs",
        tensor / kv_heads / context
    )
}

pub(super) fn assumptions(model: &ModelSpec, d: &PlannedDeployment, batched: u64, sequences: u64) -> Vec<String> {
    let mut all = Vec::new();
    if d.reserve_bytes.is_none() {
        all.push(match d.eager {
            true => format!(
                "activations are estimated for --max-num-batched-tokens {batched} and --max-num-seqs {sequences}; start-up logs tell the real ones, for `--reserve`"
            ),
            false => format!(
                "activations are estimated for --max-num-batched-tokens {batched} and --max-num-seqs {sequences}, CUDA graphs at 0.5 GiB; start-up logs tell the real ones, for `--reserve`"
            ),
        });
    }
    if d.gpu.as_ref().is_some_and(|gpu| gpu.name.is_none()) {
        all.push(
            "the size is the one that the driver reports; it is about 1 % less than an \"80 GB\" on the box".to_owned(),
        );
    }
    if model.layers.iter().any(|kind| *kind != super::LayerKind::Full) {
        all.push(
            "layers of several kinds share the pool as in vLLM's hybrid KV cache manager; without it every attention layer keeps all tokens"
                .to_owned(),
        );
    }
    all.push("nothing else is on these GPUs; no speculative decoding, no LoRA, no KV offloading".to_owned());
    all
}

pub(super) fn does_not_fit(fit: &Fit) -> String {
    let d = &fit.deployed;
    let gpus = d.tensor_parallel * d.pipeline_parallel * d.data_parallel;
    let on = if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") };
    let note = match fit.longest_request_tokens {
        0 => format!("the model does not fit on {on}"),
        longest => format!(
            "a request of {} tokens does not fit on {on}; {} would: `--max-model-len {longest}`",
            grouped(d.max_model_len),
            grouped(longest)
        ),
    };
    match fit.smallest_tensor_parallel {
        Some(tensor) => format!("{note}; the smallest tensor-parallel size that does is {tensor}"),
        None => format!(
            "{note}; no tensor-parallel size up to 64 does: more memory, fewer bits, `--kv-cache-dtype fp8`, or a larger `--pp`"
        ),
    }
}

pub(super) fn crowded(share: f64) -> String {
    format!(
        "the weights take {:.0} % of each GPU, so little is left for the KV cache and few requests run at once: more GPUs per replica, or smaller or quantized weights",
        share * 100.0
    )
}

pub(super) fn differs(ratio: f64) -> String {
    let percent = (ratio * 100.0).round();
    if ratio < 1.0 {
        format!(
            "the engine's KV cache holds {percent} % of what was computed: see `--gpu-memory-utilization`, the KV cache's type, other processes on the GPU, larger batches, a draft model, `--num-gpu-blocks-override`"
        )
    } else {
        format!(
            "the engine's KV cache holds {percent} % of what was computed: see its GPU, tensor-parallel size, precision of weights and KV cache, `--max-num-batched-tokens`"
        )
    }
}

pub(super) fn replicas_differ(live: &Live, least: f64, most: f64) -> String {
    let name = live.kv_capacity_by_replica.iter().find(|(_, v)| **v <= least).map(|(name, _)| name.as_str());
    format!(
        "replicas differ: {} holds {}, others up to {}",
        name.unwrap_or_default(),
        format_value(least, Unit::Tokens),
        format_value(most, Unit::Tokens)
    )
}

pub(super) fn full(running: f64, holds: f64) -> String {
    format!(
        "{running:.0} requests run on each replica and {holds:.0} of their mean length fit: the KV cache is the limit"
    )
}
