//! The KV cache of one GPU: the memory of a request, and the number of requests that fit.
//!
//! Computed as in vLLM: blocks are shared by all layers; sliding-window and recurrent layers form groups of their
//! own, each as large as the smallest group. Source: https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager/

use super::layers::{Attention, LayerKind};
use super::model::ModelSpec;
use super::precision::KvDtype;

/// Tokens per block, unless recurrent layers need larger blocks.
const BLOCK: u64 = 16;
/// Ratio of layer counts below which vLLM pads the layers of every kind to the largest count; above it, the layers
/// are divided into groups of the smallest count.
const SIMILAR: f64 = 1.5;

/// The KV cache's shape on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// Bytes per token before any sliding window is full, in all attention layers of this GPU.
    pub token_bytes: u64,
    /// Tokens per block.
    pub block_tokens: u64,
    /// Bytes of one group's block.
    pub block_bytes: u64,
    full_groups: u64,
    recurrent_groups: u64,
    /// Number of groups for each window size.
    sliding_groups: Vec<(u64, u64)>,
    batched_tokens: u64,
}

impl Cache {
    /// Computes the cache of the GPU with the most layers; `None` if the model has no attention layers.
    pub fn new(
        model: &ModelSpec,
        dtype: KvDtype,
        [tensor, pipeline, context]: [u64; 3],
        batched_tokens: u64,
    ) -> Option<Self> {
        let per_stage = |n: u64| n.div_ceil(pipeline);
        let per_layer = match model.attention {
            Attention::Heads { kv_heads, head_dim } => 2 * (kv_heads / tensor).max(1) * head_dim,
            // Each rank holds the whole latent.
            Attention::Latent { kv_rank, rope } => kv_rank + rope,
        } * dtype.bytes();
        let full = per_stage(model.count(|kind| kind == LayerKind::Full));
        let mut windows: Vec<(u64, u64)> = Vec::new();
        for kind in &model.layers {
            let LayerKind::Sliding { window } = *kind else { continue };
            match windows.iter_mut().find(|(size, _)| *size == window) {
                Some((_, n)) => *n += 1,
                None => windows.push((window, 1)),
            }
        }
        windows.iter_mut().for_each(|(_, n)| *n = per_stage(*n));
        let attending = full + windows.iter().map(|(_, n)| n).sum::<u64>();
        if attending == 0 {
            return None;
        }
        let recurrent = match model.state {
            Some(_) => per_stage(model.count(|kind| kind == LayerKind::Recurrent)),
            None => 0,
        };
        let counts = || [full, recurrent].into_iter().chain(windows.iter().map(|(_, n)| *n)).filter(|n| *n > 0);
        let (least, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
        let group = if (most as f64) < least as f64 * SIMILAR { most } else { least };
        // A block of attention must hold a recurrent layer's state.
        let state = model.state.map_or(0, |s| (s.numbers * s.width + s.convolution * model.dtype.bytes()) / tensor);
        let block_tokens = state.div_ceil(per_layer).div_ceil(BLOCK).max(1) * BLOCK;
        Some(Self {
            token_bytes: per_layer * attending / context,
            // Each of the GPUs keeps its part of so many tokens.
            block_tokens: block_tokens * context,
            block_bytes: block_tokens * per_layer * group,
            full_groups: full.div_ceil(group),
            recurrent_groups: recurrent.div_ceil(group),
            sliding_groups: windows.into_iter().map(|(window, n)| (window, n.div_ceil(group))).collect(),
            batched_tokens,
        })
    }

    /// Returns the maximum number of blocks that a request of `tokens` takes.
    fn blocks(&self, tokens: u64) -> u64 {
        let sliding = self.sliding_groups.iter().map(|(window, groups)| {
            // The tokens of the current step are stored in addition to the window, which may start inside a block.
            let tokens_kept = (window - 1 + self.batched_tokens).min(tokens);
            groups * (tokens_kept.div_ceil(self.block_tokens) + 1)
        });
        self.full_groups * tokens.div_ceil(self.block_tokens) + self.recurrent_groups + sliding.sum::<u64>()
    }

    /// Returns the maximum bytes that a request of `tokens` takes.
    pub fn request_bytes(&self, tokens: u64) -> u64 {
        self.blocks(tokens).saturating_mul(self.block_bytes)
    }

    /// Returns the number of concurrent requests of `tokens` that fit.
    pub fn requests(&self, pool_bytes: u64, tokens: u64) -> f64 {
        (pool_bytes / self.block_bytes) as f64 / self.blocks(tokens).max(1) as f64
    }

    /// Returns the pool's size in tokens as vLLM reports it: the tokens of its blocks if all layers are of one kind,
    /// else those of the longest requests that fit.
    pub fn pool_tokens(&self, pool_bytes: u64, longest: u64) -> u64 {
        if self.sliding_groups.is_empty() && self.recurrent_groups == 0 {
            return pool_bytes / self.block_bytes * self.block_tokens;
        }
        (self.requests(pool_bytes, longest) * longest as f64) as u64
    }

    /// Returns the length of the longest request that fits alone; 0 if none fits.
    pub fn longest(&self, pool_bytes: u64, most: u64) -> u64 {
        let (mut fits, mut fails) = (0, most.saturating_add(1));
        while fails - fits > 1 {
            let middle = fits + (fails - fits) / 2;
            if self.request_bytes(middle) <= pool_bytes {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        fits
    }
}
