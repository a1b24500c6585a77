//! Computation of the report from a model and a deployment.

use super::config::{Result, refuse};
use super::deployment::PlannedDeployment;
use super::gpu::GpuSpec;
use super::kv::Cache;
use super::layers::{Attention, LayerKind, Parts};
use super::model::ModelSpec;
use super::precision::Precision;
use super::{
    CapacityReport, Concurrency, Deployed, Fit, KvReport, LayerCounts, ModelReport, ParameterReport, SCHEMA, Share,
    WeightsReport, phrases,
};

const GIB: u64 = 1 << 30;
/// The fraction of a GPU that weights may take before they leave too little to the KV cache.
/// Our choice: with 0.9 of the GPU in use less than a sixth of it is left for the cache.
const CROWDED: f64 = 0.75;
/// Minimum memory of a GPU, except A100 and GB10, for vLLM's large default batches.
/// Source: https://docs.vllm.ai/en/stable/configuration/optimization/
const LARGE: u64 = 70 * GIB;
/// CUDA graphs of one GPU; start-up logs show 0.1 to 0.7 GiB.
const GRAPHS: u64 = GIB / 2;
/// The CUDA context and kernels of one GPU; a start-up log shows 0.35 GiB of "non-torch memory".
const RUNTIME: u64 = GIB * 35 / 100;
/// Buffers of collective communication.
const COLLECTIVES: u64 = GIB / 2;
/// Number of 32-bit copies of the logits that the sampler holds at once.
const LOGIT_COPIES: u64 = 3;
/// Largest tensor-parallel size that is suggested.
const MOST_TENSOR: u64 = 64;
/// Context lengths that are shown beside the longest.
const CONTEXTS: [u64; 4] = [2_048, 8_192, 32_768, 131_072];
const PRECISIONS: [&str; 3] = ["bf16", "fp8", "int4"];

/// Computes the report.
///
/// # Errors
/// If the deployment is not possible with the model, or a required value is missing.
pub fn plan(model: &ModelSpec, deployment: &PlannedDeployment) -> Result<CapacityReport> {
    let d = deployment;
    splits(model, d, d.tensor)?;
    let mut assumed = model.assumed.clone();
    let Some(longest) = d.longest.or(model.longest) else {
        return refuse("the configuration does not tell the longest request: pass `--max-model-len`");
    };
    if let (Some(requested), Some(trained)) = (d.longest, model.longest)
        && requested > trained
    {
        assumed.push(phrases::longer_than_trained(requested, trained));
    }
    let weights = weights(model, d);
    let kv_dtype = d.kv_dtype.or(model.kv_dtype).unwrap_or(model.dtype);
    let large = d.gpu.as_ref().is_none_or(|gpu| gpu.bytes >= LARGE && !has_small_batches(gpu));
    let batched = d.batched_tokens.unwrap_or(if large { 8_192 } else { 2_048 });
    let sequences = d.sequences.unwrap_or(if large { 1_024 } else { 256 });
    let cache = |split| match Cache::new(model, kv_dtype, split, batched) {
        Some(cache) => Ok(cache),
        None => refuse("no layer attends: this model has no KV cache, and its requests need no tokens of it"),
    };
    let unsharded = cache([1, 1, 1])?;
    let per_gpu = cache([d.tensor, d.pipeline, d.context])?;
    let mut report = CapacityReport {
        schema: SCHEMA.to_owned(),
        model: Some(described(model, longest)),
        weights: weights.as_ref().map(|(bytes, name)| WeightsReport {
            precision: if d.weights_bytes.is_some() { phrases::AS_GIVEN.to_owned() } else { name.clone() },
            bytes: *bytes,
            by_precision: by_precision(model),
        }),
        kv: Some(KvReport {
            dtype: kv_dtype,
            bytes_per_token: unsharded.token_bytes,
            bytes_per_token_per_gpu: per_gpu.token_bytes,
            block_tokens: per_gpu.block_tokens,
        }),
        fit: None,
        live: None,
        assumed,
        warnings: Vec::new(),
    };
    let (gpu, weights) = match (&d.gpu, weights) {
        (Some(gpu), Some((bytes, _))) => (gpu, bytes),
        (Some(_), None) => return refuse(phrases::uncountable(model)),
        (None, Some(_)) => return Ok(report),
        (None, None) => {
            report.warnings.push(phrases::uncountable(model));
            return Ok(report);
        }
    };
    let fit_of = |tensor: u64| -> Result<(Vec<Share>, u64)> {
        let parts = memory(model, d, gpu, weights, tensor, batched, sequences.min(batched));
        let pool = parts.iter().find(|share| share.part == KV).map_or(0, |share| share.bytes);
        Ok((parts, pool))
    };
    let holds = |tensor: u64| -> Result<bool> {
        splits(model, d, tensor)?;
        Ok(cache([tensor, d.pipeline, d.context])?.request_bytes(longest) <= fit_of(tensor)?.1)
    };
    let (memory, pool) = fit_of(d.tensor)?;
    let fits = holds(d.tensor)?;
    let smallest = (1..=MOST_TENSOR).find(|tensor| holds(*tensor).unwrap_or(false));
    let mut contexts: Vec<u64> = CONTEXTS.into_iter().filter(|c| *c < longest).chain(d.contexts.clone()).collect();
    contexts.push(longest);
    contexts.sort_unstable();
    contexts.dedup();
    let fit = Fit {
        deployed: Deployed {
            gpu: gpu.name.clone(),
            gpu_bytes: gpu.bytes,
            gpu_memory_utilization: d.utilization,
            tensor_parallel: d.tensor,
            pipeline_parallel: d.pipeline,
            data_parallel: d.data,
            decode_context_parallel: d.context,
            max_model_len: longest,
            max_num_batched_tokens: batched,
            max_num_seqs: sequences,
        },
        fits,
        smallest_tensor_parallel: smallest,
        longest_request_tokens: per_gpu.longest(pool, longest),
        memory,
        kv_pool_tokens: per_gpu.pool_tokens(pool, longest),
        concurrency: contexts
            .into_iter()
            .map(|tokens| Concurrency {
                context_tokens: tokens,
                request_bytes: per_gpu.request_bytes(tokens),
                requests: per_gpu.requests(pool, tokens),
            })
            .collect(),
    };
    report.assumed.extend(phrases::assumptions(model, d, batched, sequences));
    if let Attention::Heads { kv_heads, .. } = model.attention
        && d.tensor > kv_heads * d.context
    {
        report.warnings.push(phrases::replicated(d.tensor, kv_heads, d.context));
    }
    if !fits {
        report.warnings.push(phrases::does_not_fit(&fit));
    }
    let weights = fit.memory.iter().find(|share| share.part == WEIGHTS).map_or(0.0, |share| share.share);
    if fits && weights > CROWDED {
        report.warnings.push(phrases::crowded(weights));
    }
    report.fit = Some(fit);
    Ok(report)
}

fn has_small_batches(gpu: &GpuSpec) -> bool {
    gpu.name.as_ref().is_some_and(|name| name.starts_with("A100") || name == "GB10")
}

/// Checks that the model can be divided among the GPUs, with the same conditions as vLLM.
fn splits(model: &ModelSpec, d: &PlannedDeployment, tensor: u64) -> Result<()> {
    let heads = if let Attention::Heads { kv_heads, .. } = model.attention { kv_heads } else { 1 };
    // https://docs.vllm.ai/en/stable/serving/context_parallel_deployment/
    if d.context > (tensor / heads).max(1) || !tensor.is_multiple_of(d.context) {
        return refuse(format!("`--dcp` divides the copies of {heads} heads of keys and values on `--tp {tensor}`"));
    }
    if d.pipeline > model.layers.len() as u64 {
        return refuse(format!("{} layers cannot be divided among `--pp {}`", model.layers.len(), d.pipeline));
    }
    if !model.heads.is_multiple_of(tensor) {
        return refuse(format!("{} attention heads cannot be divided among `--tp {tensor}`", model.heads));
    }
    match model.attention {
        Attention::Heads { kv_heads, .. } if !kv_heads.is_multiple_of(tensor) && !tensor.is_multiple_of(kv_heads) => {
            refuse(format!("{kv_heads} heads of keys and values cannot be divided among `--tp {tensor}`"))
        }
        _ => Ok(()),
    }
}

/// Returns the bytes and the precision of all weights.
fn weights(model: &ModelSpec, d: &PlannedDeployment) -> Option<(u64, String)> {
    let precision = d.precision.as_ref().or(model.precision.as_ref());
    let name = precision.map(|p| p.name.clone()).unwrap_or_default();
    if let Some(bytes) = d.weights_bytes {
        return Some((bytes, name));
    }
    Some((precision?.bytes(model.parts.as_ref()?, model.dtype), name))
}

fn by_precision(model: &ModelSpec) -> std::collections::BTreeMap<String, u64> {
    let named = PRECISIONS.iter().filter_map(|name| Some((*name, Precision::named(name)?)));
    let bytes = |precision: &Precision| Some(precision.bytes(model.parts.as_ref()?, model.dtype));
    named.filter_map(|(name, precision)| Some((name.to_owned(), bytes(&precision)?))).collect()
}

fn described(model: &ModelSpec, longest: u64) -> ModelReport {
    ModelReport {
        architecture: model.title.clone(),
        layers: LayerCounts {
            full_attention: model.count(|kind| kind == LayerKind::Full),
            sliding_window: model.count(|kind| matches!(kind, LayerKind::Sliding { .. })),
            recurrent: model.count(|kind| kind == LayerKind::Recurrent),
            other: model.count(|kind| kind == LayerKind::Nothing),
        },
        parameters: model.parts.map(|parts| ParameterReport { total: parts.total(), parts }),
        max_model_len: longest,
    }
}

const KV: &str = "kv_cache";
const WEIGHTS: &str = "weights";

/// Returns the memory of one GPU by use, in the order of allocation.
fn memory(
    model: &ModelSpec,
    d: &PlannedDeployment,
    gpu: &GpuSpec,
    weights: u64,
    tensor: u64,
    batched: u64,
    sequences: u64,
) -> Vec<Share> {
    let weights = weights_here(model, d, weights, tensor);
    let mut parts = vec![(WEIGHTS, weights)];
    match d.reserve_bytes {
        Some(bytes) => parts.push(("reserve", bytes)),
        None => {
            let width = model.dtype.bytes();
            // The residual stream, its norm and a sublayer's output; gate, up and their product.
            let forward = batched * width * (3 * model.hidden + 3 * (model.inner / tensor));
            // The rank that samples gathers the logits of the whole vocabulary.
            let sampling = LOGIT_COPIES * sequences * model.vocabulary * 4;
            parts.push(("activations", forward.max(sampling)));
            if !d.eager {
                parts.push(("cuda_graphs", GRAPHS));
            }
            let several = tensor * d.pipeline * d.data > 1;
            parts.push(("runtime", RUNTIME + if several { COLLECTIVES } else { 0 }));
        }
    }
    let usable = (gpu.bytes as f64 * d.utilization) as u64;
    let taken = parts.iter().map(|(_, bytes)| bytes).fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    parts.push((KV, usable.saturating_sub(taken)));
    parts.push(("not_used", gpu.bytes.saturating_sub(usable.max(taken))));
    let share =
        |(part, bytes): (&str, u64)| Share { part: part.to_owned(), bytes, share: bytes as f64 / gpu.bytes as f64 };
    parts.into_iter().map(share).collect()
}

/// Returns the weights of the GPU with the most: the first stage has the embedding, the last the output projection.
/// Experts are divided among all ranks. Source: https://docs.vllm.ai/en/stable/serving/data_parallel_deployment/
fn weights_here(model: &ModelSpec, d: &PlannedDeployment, bytes: u64, tensor: u64) -> u64 {
    let experts =
        d.precision.as_ref().or(model.precision.as_ref()).zip(model.parts).map_or(0.0, |(precision, parts)| {
            let others = precision.bytes(&Parts { experts: 0, ..parts }, model.dtype);
            1.0 - others as f64 / precision.bytes(&parts, model.dtype) as f64
        });
    let bytes = bytes - (bytes as f64 * experts * (1.0 - 1.0 / d.data as f64)) as u64;
    if d.pipeline == 1 {
        return bytes / tensor;
    }
    let ends = model.parts.map_or(0, |p| p.embedding.max(p.output) * model.dtype.bytes());
    let both = model.parts.map_or(0, |p| (p.embedding + p.output) * model.dtype.bytes());
    let layers = model.layers.len() as u64;
    let inside = bytes.saturating_sub(both) as f64 * layers.div_ceil(d.pipeline) as f64 / layers as f64;
    (inside as u64 + ends) / tensor
}
