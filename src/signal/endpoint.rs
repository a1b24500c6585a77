//! What an engine tells over HTTP beside its metrics: which paths, what they mean, and where in the answer it stands.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Queries that may stand behind a path: they only choose how the answer is written.
const QUERIES: [&str; 1] = ["config_format=json"];

/// Segments of paths that change the server, cost it work, empty what others read, or show what users asked.
///
/// Sources: vLLM `vllm/entrypoints/serve` (development mode), SGLang `entrypoints/http_server.py`, LiteLLM
/// `/docs/proxy/health`, TensorRT-LLM `serve/openai_server.py` (iteration statistics and events are handed out once),
/// llama.cpp `tools/server/README.md` (`/slots` shows prompts).
const NEVER: [&str; 64] = [
    "abort_request",
    "add_worker",
    "apply_lora_adapter",
    "chat",
    "classify",
    "close_session",
    "collective_rpc",
    "completion",
    "completions",
    "configure_logging",
    "continue_generation",
    "delete",
    "destroy_weights_update_group",
    "detokenize",
    "drain",
    "dump_expert_distribution_record",
    "embed",
    "embedding",
    "embeddings",
    "encode",
    "flush",
    "flush_cache",
    "freeze_gc",
    "generate",
    "generate_stream",
    "health_generate",
    "history",
    "infer",
    "init_weights_update_group",
    "invocations",
    "kill",
    "kv_cache_events",
    "latest",
    "load_lora_adapter",
    "messages",
    "open_session",
    "pause",
    "pause_generation",
    "perf_metrics",
    "pooling",
    "pprof",
    "quitquitquit",
    "release_memory_occupation",
    "remove_worker",
    "rerank",
    "reset_mm_cache",
    "reset_prefix_cache",
    "responses",
    "resume",
    "resume_memory_occupation",
    "scale_elastic_ep",
    "score",
    "services",
    "shutdown",
    "sleep",
    "slots",
    "start_expert_distribution_record",
    "start_profile",
    "stop_profile",
    "test_connection",
    "tokenize",
    "unload",
    "unload_lora_adapter",
    "wake_up",
];

/// Whole paths that are harmless elsewhere: LiteLLM calls every model for it, SGLang generates a token.
const NEVER_OF: [(&str, &str); 3] = [("litellm", "/health"), ("sglang", "/health"), ("trtllm", "/metrics")];

/// A path that may be asked with GET.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The path: `/version`.
    pub path: String,
    /// What it tells, in a clause.
    pub meaning: String,
    /// The versions or settings it is there for, in words.
    pub since: Option<String>,
    /// Its older name, asked where the path is unknown.
    pub formerly: Option<String>,
    /// The port, where it is another than that of the metrics.
    pub port: Option<u16>,
    /// Where in a JSON answer what stands.
    #[serde(default)]
    pub tells: Tells,
}

/// JSON pointers (RFC 6901), in which `*` stands for every element.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tells {
    /// Versions, by what they are of.
    pub versions: BTreeMap<String, String>,
    /// Names of models that are served.
    pub models: Vec<String>,
    /// Where their weights were loaded from.
    pub weights: Vec<String>,
    /// Settings: a value by its key, or all of an object.
    pub settings: Vec<String>,
    /// Command lines: a text, or a list of words.
    pub arguments: Vec<String>,
}

impl Endpoint {
    /// The paths it may have, the newest first.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.path).chain(&self.formerly).map(String::as_str)
    }

    /// Whether an answer of this path, as it is shown, is one of its.
    pub fn is_at(&self, path: &str) -> bool {
        self.paths().any(|own| shown(own) == path)
    }
}

impl Tells {
    /// Every pointer.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        let lists = [&self.models, &self.weights, &self.settings, &self.arguments];
        self.versions.values().chain(lists.into_iter().flatten()).map(String::as_str)
    }
}

/// The path without its query.
pub fn shown(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// Why a path of this engine may not be asked; none when it may.
pub fn forbidden(engine: &str, path: &str) -> Option<String> {
    let (bare, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    if !bare.starts_with('/') || bare.starts_with("//") || !bare.chars().all(plain) || bare.contains("..") {
        return Some(format!("`{path}` is no plain path: write it like /version"));
    }
    if let Some(query) = query.filter(|query| !QUERIES.contains(query)) {
        return Some(format!("the query `{query}` is not known to be harmless"));
    }
    let lower = bare.trim_end_matches('/').to_ascii_lowercase();
    let acts = |segment: &str| NEVER.binary_search(&segment).is_ok() || segment.starts_with("update_");
    if lower.split('/').any(acts) || NEVER_OF.contains(&(engine, &lower)) {
        return Some(format!("`{bare}` of {engine} changes the server, costs it work, or shows what users asked"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_costs_or_tells_of_users_is_forbidden_however_it_is_written() {
        assert!(NEVER.is_sorted());
        for path in [
            "/flush_cache",
            "/start_profile",
            "/sleep",
            "/wake_up/",
            "/v1/completions",
            "/V1/Chat/Completions",
            "/update_weights_from_disk",
            "/generate",
            "/health_generate",
            "/slots",
            "/v1/./completions",
            "//evil.example/version",
            "version",
            "/a/../version",
            "/%67enerate",
            "/version#x",
            "/server_info?config_format=text&x=1",
            "/v1/models?key=1",
        ] {
            assert!(forbidden("vllm", path).is_some(), "{path}");
        }
        assert!(forbidden("litellm", "/health").is_some() && forbidden("sglang", "/health/").is_some());
        for path in ["/version", "/v1/models", "/health", "/health/readiness", "/server_info?config_format=json", "/v2"]
        {
            assert_eq!(forbidden("vllm", path), None, "{path}");
        }
    }
}
