//! The KV cache of one GPU: what a request takes, and how many fit.
//!
//! Counted as vLLM counts: in blocks that all layers share, with sliding-window and recurrent layers in groups of their
//! own as large as the smallest. Source: https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager/

use super::model::{Attention, LayerKind, Model};
use super::precision::KvDtype;

/// Tokens in a block, unless recurrent layers need larger ones.
const BLOCK: u64 = 16;
/// vLLM pads every kind's layers to the largest count when counts differ by less than this, else cuts them into groups
/// of the smallest.
const SIMILAR: f64 = 1.5;

/// The KV cache's shape on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// Bytes that one token takes while no window is full: in all attention layers of this GPU.
    pub token_bytes: u64,
    /// Tokens in a block.
    pub block_tokens: u64,
    /// Bytes of a block of one group.
    pub block_bytes: u64,
    full_groups: u64,
    recurrent_groups: u64,
    /// Groups of a window.
    sliding_groups: Vec<(u64, u64)>,
    batched_tokens: u64,
}

impl Cache {
    /// The cache of the GPU that holds the most layers; none when no layer attends.
    pub fn new(model: &Model, dtype: KvDtype, tensor: u64, pipeline: u64, batched_tokens: u64) -> Option<Self> {
        let here = |n: u64| n.div_ceil(pipeline);
        let per_layer = match model.attention {
            Attention::Heads { kv_heads, head_dim } => 2 * (kv_heads / tensor).max(1) * head_dim,
            // Each rank holds the whole latent.
            Attention::Latent { kv_rank, rope } => kv_rank + rope,
        } * dtype.bytes();
        let full = here(model.count(|kind| kind == LayerKind::Full));
        let mut windows: Vec<(u64, u64)> = Vec::new();
        for kind in &model.layers {
            let LayerKind::Sliding { window } = *kind else { continue };
            match windows.iter_mut().find(|(known, _)| *known == window) {
                Some((_, n)) => *n += 1,
                None => windows.push((window, 1)),
            }
        }
        windows.iter_mut().for_each(|(_, n)| *n = here(*n));
        let attending = full + windows.iter().map(|(_, n)| n).sum::<u64>();
        if attending == 0 {
            return None;
        }
        let recurrent = match model.state {
            Some(_) => here(model.count(|kind| kind == LayerKind::Recurrent)),
            None => 0,
        };
        let counts = || [full, recurrent].into_iter().chain(windows.iter().map(|(_, n)| *n)).filter(|n| *n > 0);
        let (least, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
        let group = if (most as f64) < least as f64 * SIMILAR { most } else { least };
        // A block of attention must hold a recurrent layer's state.
        let state = model.state.map_or(0, |s| (s.numbers * s.width + s.convolution * model.dtype.bytes()) / tensor);
        let block_tokens = state.div_ceil(per_layer).div_ceil(BLOCK).max(1) * BLOCK;
        Some(Self {
            token_bytes: per_layer * attending,
            block_tokens,
            block_bytes: block_tokens * per_layer * group,
            full_groups: full.div_ceil(group),
            recurrent_groups: recurrent.div_ceil(group),
            sliding_groups: windows.into_iter().map(|(window, n)| (window, n.div_ceil(group))).collect(),
            batched_tokens,
        })
    }

    /// Blocks that a request of so many tokens takes at most.
    fn blocks(&self, tokens: u64) -> u64 {
        let sliding = self.sliding_groups.iter().map(|(window, groups)| {
            // What a step computes is there beside the window, and the window need not begin with a block.
            let kept = (window - 1 + self.batched_tokens).min(tokens);
            groups * (kept.div_ceil(self.block_tokens) + 1)
        });
        self.full_groups * tokens.div_ceil(self.block_tokens) + self.recurrent_groups + sliding.sum::<u64>()
    }

    /// Bytes that a request of so many tokens takes at most.
    pub fn request_bytes(&self, tokens: u64) -> u64 {
        self.blocks(tokens).saturating_mul(self.block_bytes)
    }

    /// How many requests of so many tokens fit at once.
    pub fn requests(&self, pool_bytes: u64, tokens: u64) -> f64 {
        (pool_bytes / self.block_bytes) as f64 / self.blocks(tokens).max(1) as f64
    }

    /// The pool in tokens, as vLLM tells it: with layers of one kind its blocks, else what fits of the longest requests.
    pub fn pool_tokens(&self, pool_bytes: u64, longest: u64) -> u64 {
        if self.sliding_groups.is_empty() && self.recurrent_groups == 0 {
            return pool_bytes / self.block_bytes * self.block_tokens;
        }
        (self.requests(pool_bytes, longest) * longest as f64) as u64
    }

    /// The longest request that fits alone; 0 when none does.
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
