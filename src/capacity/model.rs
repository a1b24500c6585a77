//! The properties of a model that determine its memory.

use serde_json::Value;

use super::config::{Config, Result, refuse};
use super::layers::{
    Attention, LayerKind, MOST_HEAD_WIDTH, MOST_HEADS, MOST_LAYERS, MOST_TOKENS, MOST_VOCABULARY, MOST_WIDTH, Parts,
    RecurrentState,
};
use super::precision::{KvDtype, Precision, quantization};

/// The properties of a model that determine its memory.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// The architecture's class.
    pub title: String,
    /// The kind of each layer.
    pub layers: Vec<LayerKind>,
    /// Dimension of the residual stream.
    pub hidden: u64,
    /// Size of the vocabulary.
    pub vocabulary: u64,
    /// Number of query heads.
    pub heads: u64,
    /// The layout of keys and values.
    pub attention: Attention,
    /// Dimension of a token inside the feed-forward layer: of the dense layer, or of the selected experts together.
    pub inner: u64,
    /// The state of a recurrent layer, if any and known.
    pub state: Option<RecurrentState>,
    /// Parameters by part; `None` if they cannot be counted from the configuration.
    pub parts: Option<Parts>,
    /// The checkpoint's precision; `None` if it is unknown.
    pub precision: Option<Precision>,
    /// The type of weights that are not quantized, and the default of the KV cache.
    pub dtype: KvDtype,
    /// The KV cache's type that the checkpoint requests.
    pub kv_dtype: Option<KvDtype>,
    /// Maximum length of a request in tokens.
    pub longest: Option<u64>,
    /// Assumptions and omissions, as sentences.
    pub assumed: Vec<String>,
}

impl ModelSpec {
    /// Parses a Hugging Face `config.json`.
    ///
    /// # Errors
    /// If the text is not a JSON object, or a key is missing or has an unsupported value: names the key, its value and
    /// what is expected.
    pub fn parse(text: &str) -> std::result::Result<Self, super::CapacityError> {
        let config = Config::parse(text)?;
        let mut assumed = Vec::new();
        let kind = config.text("model_type").unwrap_or_default().to_owned();
        for (key, why) in [
            ("global_head_dim", "its attention layers differ in the shape of their KV cache"),
            ("compress_ratios", "its KV cache is compressed by layer"),
        ] {
            if let Some((key, _)) = config.get(&[key]) {
                return refuse(format!(
                    "`{key}`: {why}, which is not computed here; ask the running engine with `--prometheus` alone"
                ));
            }
        }
        if config.flag("is_encoder_decoder")? == Some(true) {
            return refuse("`is_encoder_decoder`: caches of encoder-decoder models are not computed here");
        }
        if let Some(nested_key) = config.nested_key {
            assumed.push(format!(
                "`{nested_key}` is the language model; weights of vision and audio encoders are not counted"
            ));
        }
        // Defaults of the transformers library for keys that Gemma 3's files omit.
        // Source: https://huggingface.co/docs/transformers/model_doc/gemma3
        let silent = |n: u64| (kind == "gemma3_text").then_some(n);
        let layers = config.needed(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"], MOST_LAYERS, None)?;
        let hidden = config.needed(&["hidden_size", "n_embd", "n_embed", "d_model"], MOST_WIDTH, None)?;
        let heads = config.needed(&["num_attention_heads", "n_head", "n_heads"], MOST_HEADS, silent(8))?;
        let vocabulary = config.needed(&["vocab_size", "padded_vocab_size"], MOST_VOCABULARY, silent(262_208))?;
        let attention = attention(&config, hidden, heads, silent(4), silent(256))?;
        let kinds = kinds(&config, &kind, layers, &mut assumed)?;
        let (feed, inner) = super::weights::feed_forward(&config, &kind, layers, hidden)?;
        let state = super::recurrent::state(&config, hidden)?;
        let recurrent = kinds.contains(&LayerKind::Recurrent);
        if recurrent && state.is_none() {
            assumed.push("the recurrent layers' state is not in this configuration and is not counted".to_owned());
        }
        let tied = match config.flag("tie_word_embeddings")? {
            Some(tied) => tied,
            None => {
                let tied = ["gemma", "cohere", "gpt2", "falcon", "opt", "bloom"].iter().any(|f| kind.starts_with(f));
                let assumption = match tied {
                    true => "no `tie_word_embeddings`: the output projection is the embedding",
                    false => "no `tie_word_embeddings`: the output projection is not the embedding",
                };
                assumed.push(assumption.to_owned());
                tied
            }
        };
        // Each NemotronH layer is either a mixer or feed-forward; Kimi's linear layers have unsupported shapes.
        let countable = !kinds.contains(&LayerKind::Nothing) && (state.is_some() || !recurrent);
        let parts = if countable {
            let shape = super::weights::Shape { config: &config, kind: &kind, hidden, heads, attention, tied };
            Some(super::weights::parts(&shape, vocabulary, &kinds, &feed, state)?)
        } else {
            None
        };
        let (precision, kv_dtype, dtype) = quantization(&config, &mut assumed)?;
        if config.get(&["index_topk"]).is_some() {
            assumed.push("the cache of the sparse attention's indexer (`index_topk`) is not counted".to_owned());
        }
        if config.number(&["num_nextn_predict_layers"], MOST_LAYERS)?.is_some() {
            assumed.push(
                "layers for multi-token prediction are not counted: they load with speculative decoding only"
                    .to_owned(),
            );
        }
        let longest = config
            .number(&["max_position_embeddings", "n_positions", "seq_length", "max_sequence_length"], MOST_TOKENS)?;
        let longest = longest.or(silent(131_072));
        let title = config.title();
        Ok(Self {
            title,
            layers: kinds,
            hidden,
            vocabulary,
            heads,
            attention,
            inner,
            state: state.filter(|_| recurrent),
            parts,
            precision,
            dtype,
            kv_dtype,
            longest,
            assumed,
        })
    }

    /// Returns the number of layers whose kind satisfies a condition.
    pub fn count(&self, which: impl Fn(LayerKind) -> bool) -> u64 {
        self.layers.iter().filter(|kind| which(**kind)).count() as u64
    }
}

fn attention(
    config: &Config,
    hidden: u64,
    heads: u64,
    silent_kv: Option<u64>,
    silent_dim: Option<u64>,
) -> Result<Attention> {
    if let Some(kv_rank) = config.number(&["kv_lora_rank"], MOST_WIDTH)? {
        let rope = config.needed(&["qk_rope_head_dim"], MOST_HEAD_WIDTH, None)?;
        return Ok(Attention::Latent { kv_rank, rope });
    }
    let one = config.flag("multi_query")? == Some(true) && config.flag("new_decoder_architecture")? != Some(true);
    let kv_heads = config
        .number(&["num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"], MOST_HEADS)?
        .or(silent_kv)
        .unwrap_or(if one { 1 } else { heads });
    if kv_heads > heads || !heads.is_multiple_of(kv_heads) {
        return refuse(format!(
            "{heads} query heads cannot share {kv_heads} heads of keys and values: `num_key_value_heads` must divide `num_attention_heads`"
        ));
    }
    let head_dim =
        match config.number(&["head_dim", "kv_channels", "attention_head_dim"], MOST_HEAD_WIDTH)?.or(silent_dim) {
            Some(head_dim) => head_dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => return refuse(format!("there is no `head_dim`, and {hidden} is no multiple of {heads} heads")),
        };
    Ok(Attention::Heads { kv_heads, head_dim })
}

/// Returns the kind of each layer.
fn kinds(config: &Config, kind: &str, layers: u64, assumed: &mut Vec<String>) -> Result<Vec<LayerKind>> {
    let window = config.number(&["sliding_window", "attention_chunk_size"], MOST_TOKENS)?;
    let sliding = |layer: &str| match window {
        Some(window) => Ok(LayerKind::Sliding { window }),
        None => refuse(format!("{layer} layers, but no `sliding_window` that tells how much they keep")),
    };
    if let Some((key, value)) = config.get(&["layer_types", "layers_block_type"]) {
        let names: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if names.len() as u64 != layers {
            return refuse(format!("`{key}` names {} layers, `num_hidden_layers` is {layers}", names.len()));
        }
        return names
            .into_iter()
            .map(|name| match name {
                "full_attention" | "attention" | "global" => Ok(LayerKind::Full),
                "sliding_attention" | "chunked_attention" | "local" => sliding(name),
                "linear_attention" | "mamba" | "mamba2" | "conv" | "recurrent" | "hybrid" => Ok(LayerKind::Recurrent),
                other => refuse(format!(
                    "`{key}` has a layer `{other}`: expected full_attention, sliding_attention, linear_attention, mamba"
                )),
            })
            .collect();
    }
    if let Some(pattern) = config.text("hybrid_override_pattern") {
        if pattern.chars().count() as u64 != layers {
            return refuse(format!("`hybrid_override_pattern` has {} layers, expected {layers}", pattern.len()));
        }
        let of = |c| match c {
            'M' => LayerKind::Recurrent,
            '*' => LayerKind::Full,
            _ => LayerKind::Nothing,
        };
        return Ok(pattern.chars().map(of).collect());
    }
    let listed = |key: &str| -> Option<Vec<u64>> {
        let (_, list) = config.get(&[key])?;
        Some(list.as_array()?.iter().filter_map(Value::as_u64).collect())
    };
    let mixed = |is_full: &dyn Fn(u64) -> bool| {
        (0..layers).map(|i| if is_full(i) { LayerKind::Full } else { LayerKind::Recurrent }).collect()
    };
    if let Some(every) = config.number(&["full_attention_interval"], MOST_LAYERS)? {
        return Ok(mixed(&|i| (i + 1) % every == 0));
    }
    if let Some(every) = config.number(&["attn_layer_period"], MOST_LAYERS)? {
        let offset = config.count(&["attn_layer_offset"], MOST_LAYERS)?.unwrap_or_default();
        return Ok(mixed(&|i| i % every == offset));
    }
    if let Some(full) = listed("attn_layer_indices") {
        return Ok(mixed(&|i| full.contains(&i)));
    }
    if let Some((_, linear)) = config.get(&["linear_attn_config"]) {
        // Indices start at one. Source: https://huggingface.co/moonshotai/Kimi-Linear-48B-A3B-Instruct
        let full: Vec<u64> =
            linear["full_attn_layers"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        return Ok(mixed(&|i| full.contains(&(i + 1))));
    }
    if kind.starts_with("llama4") {
        // Zero marks a layer without RoPE, which has full attention; by default it is every fourth layer.
        let rope = listed("no_rope_layers").filter(|list| !list.is_empty());
        let is_full = |i: usize| rope.as_ref().map_or((i + 1).is_multiple_of(4), |rope| rope.get(i) == Some(&0));
        return (0..layers as usize)
            .map(|i| if is_full(i) { Ok(LayerKind::Full) } else { sliding("chunked attention") })
            .collect();
    }
    let every = match kind {
        "gemma2" => Some(2),
        "gemma3_text" => Some(config.number(&["sliding_window_pattern"], MOST_LAYERS)?.unwrap_or(6)),
        "cohere2" => Some(config.number(&["sliding_window_pattern"], MOST_LAYERS)?.unwrap_or(4)),
        _ => None,
    };
    if let Some(every) = every {
        return (0..layers)
            .map(|i| if (i + 1) % every == 0 { Ok(LayerKind::Full) } else { sliding("sliding attention") })
            .collect();
    }
    // Qwen's files contain a window that is used only if it is enabled.
    let used = config.flag("use_sliding_window")?.unwrap_or(!kind.starts_with("qwen"));
    let Some(window) = window.filter(|_| used) else {
        return Ok(vec![LayerKind::Full; layers as usize]);
    };
    let from = config.count(&["max_window_layers"], MOST_LAYERS)?.filter(|_| kind.starts_with("qwen")).unwrap_or(0);
    assumed.push(format!("`sliding_window` holds for the layers from {from} on"));
    Ok((0..layers).map(|i| if i < from { LayerKind::Full } else { LayerKind::Sliding { window } }).collect())
}
