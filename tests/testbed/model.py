"""A tiny model without weights: a configuration, and a tokenizer that makes one token of each byte."""

import json

CONTEXT = 8192
# Mock engines answer with any token up to here.
VOCABULARY = 2048


def letters():
    """A printable letter for each byte, as byte-level tokenizers spell them (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def write(directory):
    directory.mkdir(parents=True, exist_ok=True)
    special = ["<s>", "</s>"]
    spelled = letters()
    words = special + [spelled[byte] for byte in range(256)]
    words += [f"{spelled[32]}w{i}" for i in range(VOCABULARY - len(words))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    files = {
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "added_tokens": [{"id": i, "content": word} | flags for i, word in enumerate(special)],
            "pre_tokenizer": byte_level, "decoder": byte_level,
            "model": {
                "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                "fuse_unk": False, "byte_fallback": False, "vocab": {word: i for i, word in enumerate(words)}, "merges": [],
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "model_max_length": CONTEXT,
            "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
        },
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32", "hidden_act": "silu",
            "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
            "vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": False,
        },
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 1},
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
