//! Parameters of a model, counted from its shapes.

use serde_json::Value;

use super::config::{Config, Result, refuse};
use super::layers::{Attention, LayerKind, MOST_HEAD_WIDTH, MOST_LAYERS, MOST_WIDTH, Parts, RecurrentState};

const MOST_EXPERTS: u64 = 1 << 14;
const MOST_SHARED: u64 = 1 << 8;
/// Upper bound above the size of any real model.
const MOST_PARAMETERS: u128 = 1_000_000_000_000_000;

/// Model types whose feed-forward layer has two matrices instead of three.
const UNGATED: [&str; 13] = [
    "gpt2",
    "gpt_neox",
    "gptj",
    "gpt_bigcode",
    "opt",
    "bloom",
    "falcon",
    "phi",
    "phi-msft",
    "mpt",
    "starcoder2",
    "nemotron",
    "nemotron_h",
];

/// The properties that determine the number of parameters.
pub(super) struct Shape<'a> {
    pub(super) config: &'a Config,
    pub(super) kind: &'a str,
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) attention: Attention,
    pub(super) tied: bool,
}

/// The parameters of each feed-forward layer: dense, experts, router.
pub(super) struct FeedForward(Vec<(u64, u128, u64)>);

/// Returns the feed-forward layers, and the dimension of a token inside them.
pub(super) fn feed_forward(config: &Config, kind: &str, layers: u64, hidden: u64) -> Result<(FeedForward, u64)> {
    let matrices = if UNGATED.contains(&kind) { 2 } else { 3 };
    let names = ["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "intermediate_size_mlp"];
    // GPT-2 and related models omit it; the default is four times the hidden size.
    let usual = (matrices == 2).then_some(4 * hidden);
    let experts =
        config.count(&["num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"], MOST_EXPERTS)?;
    let Some(experts) = experts.filter(|n| *n > 1) else {
        let inner = config.needed(&names, MOST_WIDTH, usual)?;
        return Ok((FeedForward(vec![(matrices * hidden * inner, 0, 0); layers as usize]), inner));
    };
    let own = config.number(&["moe_intermediate_size", "expert_intermediate_size"], MOST_WIDTH)?;
    let inner = match own {
        Some(inner) => inner,
        None => config.needed(&names, MOST_WIDTH, None)?,
    };
    // In Llama 4, `intermediate_size_mlp` is the size of dense layers and `intermediate_size` that of experts.
    let dense = config.number(&["intermediate_size_mlp", "intermediate_size"], MOST_WIDTH)?.unwrap_or(inner);
    let shared = match config.number(&["shared_expert_intermediate_size", "shared_intermediate_size"], MOST_WIDTH)? {
        // Qwen's shared expert has an additional gate.
        Some(inner) => matrices * hidden * inner + hidden,
        None => {
            let llama4 = u64::from(kind.starts_with("llama4"));
            let n = config.count(&["n_shared_experts", "num_shared_experts"], MOST_SHARED)?.unwrap_or(llama4);
            matrices * hidden * n * inner
        }
    };
    let one = u128::from(experts) * u128::from(matrices * hidden * inner);
    let sparse = (shared, one, hidden * experts);
    let first = config.count(&["first_k_dense_replace", "num_dense_layers"], MOST_LAYERS)?.unwrap_or_default();
    let step = config
        .number(
            &["decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", "expert_layer_period"],
            MOST_LAYERS,
        )
        .unwrap_or_default()
        .unwrap_or(1);
    let offset = config.count(&["expert_layer_offset"], MOST_LAYERS)?.unwrap_or(step - 1);
    let only_dense: Vec<u64> = match config.get(&["mlp_only_layers"]) {
        Some((_, Value::Array(list))) => list.iter().filter_map(Value::as_u64).collect(),
        _ => Vec::new(),
    };
    let is_sparse = |i: u64| i >= first && i % step == offset % step && !only_dense.contains(&i);
    let layer = |i| if is_sparse(i) { sparse } else { (matrices * hidden * dense, 0, 0) };
    let chosen =
        config.number(&["num_experts_per_tok", "num_experts_per_token", "moe_top_k"], MOST_EXPERTS)?.unwrap_or(2);
    Ok((FeedForward((0..layers).map(layer).collect()), inner.saturating_mul(chosen).max(dense.min(MOST_WIDTH))))
}

/// Counts all parameters.
pub(super) fn parts(
    shape: &Shape<'_>,
    vocabulary: u64,
    kinds: &[LayerKind],
    feed: &FeedForward,
    state: Option<RecurrentState>,
) -> Result<Parts> {
    let hidden = shape.hidden;
    let (attention, small) = mixer(shape)?;
    // Gemma normalises both the input and the output of each sublayer.
    let norms = if ["gemma2", "gemma3_text"].contains(&shape.kind) { 4 } else { 2 };
    let mut parts = Parts { embedding: vocabulary * hidden, other: hidden, ..Parts::default() };
    parts.output = if shape.tied { 0 } else { parts.embedding };
    let mut experts = 0_u128;
    for (kind, (dense, in_experts, router)) in kinds.iter().zip(&feed.0) {
        match (kind, state) {
            (LayerKind::Recurrent, Some(state)) => parts.attention += state.parameters,
            _ => {
                parts.attention += attention;
                parts.other += small;
            }
        }
        parts.dense += dense;
        experts += in_experts;
        parts.other += router + norms * hidden;
    }
    if experts + u128::from(parts.total()) > MOST_PARAMETERS {
        return refuse("more than 10^15 parameters: a number in this configuration is wrong");
    }
    parts.experts = u64::try_from(experts).unwrap_or(u64::MAX);
    Ok(parts)
}

/// Returns an attention layer's parameters: matrices, and biases with norms.
fn mixer(shape: &Shape<'_>) -> Result<(u64, u64)> {
    let Shape { config, kind, hidden, heads, attention, .. } = *shape;
    match attention {
        Attention::Latent { kv_rank, rope } => {
            let nope = config.needed(&["qk_nope_head_dim"], MOST_HEAD_WIDTH, None)?;
            let value = config.needed(&["v_head_dim"], MOST_HEAD_WIDTH, None)?;
            let (query, norm) = match config.number(&["q_lora_rank"], MOST_WIDTH)? {
                Some(rank) => (hidden * rank + rank * heads * (nope + rope), rank),
                None => (hidden * heads * (nope + rope), 0),
            };
            let keys = hidden * (kv_rank + rope) + kv_rank * heads * (nope + value);
            Ok((query + keys + heads * value * hidden, norm + kv_rank))
        }
        Attention::Heads { kv_heads, head_dim } => {
            let (query, keys) = (heads * head_dim, 2 * kv_heads * head_dim);
            let gated = u64::from(config.flag("attn_output_gate")?.unwrap_or(kind == "qwen3_next"));
            let all = config.flag("attention_bias")?.unwrap_or_default();
            let biases = match all {
                true => query + keys + hidden,
                false if ["qwen2", "qwen2_moe", "qwen2_5_vl_text"].contains(&kind) => query + keys,
                false => 0,
            };
            let norms = if kind.starts_with("qwen3") || kind == "gemma3_text" { 2 * head_dim } else { 0 };
            Ok((hidden * (query * (1 + gated) + keys) + query * hidden, biases + norms))
        }
    }
}
