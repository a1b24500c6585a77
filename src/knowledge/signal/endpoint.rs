//! HTTP paths of engines beside their metrics: the paths, their meaning, and the pointers into the answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Query strings that a path may have: they only select the format of the answer.
const QUERIES: [&str; 1] = ["config_format=json"];

/// Path segments that change the server, cost it work, consume data of other readers, or show users' requests.
///
/// Sources: vLLM `vllm/entrypoints/serve` (development mode), SGLang `entrypoints/http_server.py`, LiteLLM
/// `/docs/proxy/health`, TensorRT-LLM `serve/openai_server.py` (iteration statistics and events are handed out once),
/// llama.cpp `tools/server/README.md` (`/slots` shows prompts).
const FORBIDDEN_SEGMENTS: [&str; 64] = [
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

/// Whole paths that are harmless on other engines: LiteLLM calls every model for it, SGLang generates a token.
const FORBIDDEN_PATHS: [(&str, &str); 3] = [("litellm", "/health"), ("sglang", "/health"), ("trtllm", "/metrics")];

/// A path that may be requested with GET.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The path: `/version`.
    pub path: String,
    /// The information in its answer, in a clause.
    pub meaning: String,
    /// The versions or settings that have it, in words.
    pub since: Option<String>,
    /// Its older name, requested if the path is unknown.
    pub formerly: Option<String>,
    /// The port, if it differs from that of the metrics.
    pub port: Option<u16>,
    /// Pointers into a JSON answer.
    #[serde(default)]
    pub tells: AnswerPointers,
}

/// JSON pointers (RFC 6901), in which `*` stands for every element.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerPointers {
    /// Versions, by product.
    pub versions: BTreeMap<String, String>,
    /// Names of models that are served.
    pub models: Vec<String>,
    /// Sources of their weights.
    pub weights: Vec<String>,
    /// Settings: a value by its key, or all of an object.
    pub settings: Vec<String>,
    /// Command lines: a text, or a list of arguments.
    pub arguments: Vec<String>,
}

impl Endpoint {
    /// Returns its paths, the newest first.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.path).chain(&self.formerly).map(String::as_str)
    }

    /// Returns true if an answer with this path, without a query string, belongs to this endpoint.
    pub fn is_at(&self, path: &str) -> bool {
        self.paths().any(|own| shown(own) == path)
    }
}

impl AnswerPointers {
    /// Returns all pointers.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        let lists = [&self.models, &self.weights, &self.settings, &self.arguments];
        self.versions.values().chain(lists.into_iter().flatten()).map(String::as_str)
    }
}

/// Returns the path without its query string.
pub fn shown(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// Returns the reason why a path of this engine may not be requested; `None` if it may.
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
    let acts = |segment: &str| FORBIDDEN_SEGMENTS.binary_search(&segment).is_ok() || segment.starts_with("update_");
    if lower.split('/').any(acts) || FORBIDDEN_PATHS.contains(&(engine, &lower)) {
        return Some(format!("`{bare}` of {engine} changes the server, costs it work, or shows what users asked"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_costs_or_tells_of_users_is_forbidden_however_it_is_written() {
        assert!(FORBIDDEN_SEGMENTS.is_sorted());
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
