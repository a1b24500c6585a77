//! The parts of a model, its kinds of layers, and the bounds of their sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// Upper bounds above those of any real model, and low enough that no product overflows.
pub(super) const MOST_LAYERS: u64 = 2_000;
pub(super) const MOST_WIDTH: u64 = 1 << 20;
pub(super) const MOST_HEADS: u64 = 1 << 12;
pub(super) const MOST_HEAD_WIDTH: u64 = 1 << 14;
pub(super) const MOST_TOKENS: u64 = 1 << 30;
pub(super) const MOST_VOCABULARY: u64 = 1 << 24;

/// The past tokens that a layer stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Keys and values of every token.
    Full,
    /// Keys and values of the last tokens only.
    Sliding {
        /// The window in tokens.
        window: u64,
    },
    /// A state of constant size: Mamba, linear attention.
    Recurrent,
    /// Nothing: the layer is only a feed-forward layer.
    Nothing,
}

/// The layout of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    /// Per head; several query heads may share one.
    Heads {
        /// Number of key-value heads.
        kv_heads: u64,
        /// Dimension of a head.
        head_dim: u64,
    },
    /// One latent for all heads (MLA).
    Latent {
        /// Dimension of the latent.
        kv_rank: u64,
        /// Dimension of the part with positions (RoPE).
        rope: u64,
    },
}

/// The state of one recurrent layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrentState {
    /// Number of values in the recurrent state.
    pub numbers: u64,
    /// Bytes per value.
    pub width: u64,
    /// Number of values in the convolution's window, in the model's type.
    pub convolution: u64,
    /// Number of the mixer's parameters.
    pub parameters: u64,
}

/// Parameters by part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Token embedding.
    pub embedding: u64,
    /// Output projection; 0 if it shares the embedding.
    pub output: u64,
    /// Attention and recurrent mixers.
    pub attention: u64,
    /// Dense feed-forward layers and shared experts.
    pub dense: u64,
    /// Routed experts.
    pub experts: u64,
    /// Routers, norms and biases; never quantized.
    pub other: u64,
}

impl Parts {
    /// Returns the number of all parameters.
    pub fn total(&self) -> u64 {
        self.embedding + self.output + self.attention + self.dense + self.experts + self.other
    }
}
