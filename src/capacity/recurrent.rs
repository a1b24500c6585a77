//! The state of Mamba and linear attention layers.

use super::config::{Config, Result};
use super::layers::{MOST_HEAD_WIDTH as MOST, MOST_HEADS, MOST_WIDTH, RecurrentState};

/// Returns the state and parameters of one recurrent layer; `None` if the configuration does not contain its shape.
pub(super) fn state(config: &Config, hidden: u64) -> Result<Option<RecurrentState>> {
    if let Some(values) = config.number(&["linear_num_value_heads"], MOST_HEADS)? {
        return gated_delta(config, hidden, values).map(Some);
    }
    let Some(size) = config.number(&["mamba_d_state", "ssm_state_size"], MOST)? else { return Ok(None) };
    let kernel = config.needed(&["mamba_d_conv", "conv_kernel"], MOST, Some(4))?;
    let Some(heads) = config.number(&["mamba_n_heads", "mamba_num_heads"], MOST_HEADS)? else {
        let inner = hidden * config.needed(&["mamba_expand", "expand"], 64, Some(2))?;
        let step = config.number(&["mamba_dt_rank"], MOST_WIDTH)?.unwrap_or(hidden.div_ceil(16));
        let parameters =
            hidden * 2 * inner + inner * (step + 2 * size) + step * inner + inner * (hidden + size + kernel);
        return Ok(Some(RecurrentState {
            numbers: inner * size,
            width: 2,
            convolution: inner * (kernel - 1),
            parameters,
        }));
    };
    let inner = heads * config.needed(&["mamba_d_head", "mamba_head_dim"], MOST, Some(64))?;
    let groups = config.needed(&["mamba_n_groups", "n_groups"], MOST_HEADS, Some(1))?;
    let mixed = inner + 2 * groups * size;
    Ok(Some(RecurrentState {
        numbers: inner * size,
        width: 2,
        convolution: mixed * (kernel - 1),
        parameters: hidden * (inner + mixed + heads) + mixed * kernel + inner * hidden,
    }))
}

/// Returns the state of gated delta nets (Qwen3-Next and later).
fn gated_delta(config: &Config, hidden: u64, values: u64) -> Result<RecurrentState> {
    let keys = config.needed(&["linear_num_key_heads"], MOST_HEADS, None)?;
    let key = config.needed(&["linear_key_head_dim"], MOST, None)?;
    let value = config.needed(&["linear_value_head_dim"], MOST, None)?;
    let kernel = config.needed(&["linear_conv_kernel_dim"], MOST, Some(4))?;
    let mixed = 2 * keys * key + values * value;
    let width = if config.text("mamba_ssm_dtype") == Some("float32") { 4 } else { 2 };
    Ok(RecurrentState {
        numbers: values * value * key,
        width,
        convolution: mixed * (kernel - 1),
        parameters: hidden * (mixed + values * value + 2 * values) + mixed * kernel + values * value * hidden,
    })
}
