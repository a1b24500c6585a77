//! A serving engine, as far as it tells about itself.
//!
//! The answers are written after the engines' sources (vLLM 0.33 `entrypoints/serve`, SGLang 0.5.23
//! `entrypoints/http_server.py`, LiteLLM `proxy/health_endpoints`), with secrets where those tell secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Manner, Request, badly, remembered};

/// What each engine answers, by path without query.
const VLLM: &[(&str, &str)] = &[
    ("/version", r#"{"version": "0.33.0"}"#),
    ("/health", ""),
    ("/load", r#"{"server_load": 0}"#),
    (
        "/v1/models",
        r#"{"object": "list", "data": [
            {"id": "llama", "object": "model", "owned_by": "vllm", "root": "meta-llama/Llama-3.1-8B-Instruct", "parent": null, "max_model_len": 131072},
            {"id": "llama-sql", "object": "model", "owned_by": "vllm", "root": "/adapters/sql", "parent": "llama"}]}"#,
    ),
    ("/metrics", "vllm:num_requests_running{model_name=\"llama\",engine=\"0\"} 30\n"),
];
const VLLM_SERVER_INFO: &str = r#"{"vllm_config": {
    "model_config": {"model": "meta-llama/Llama-3.1-8B-Instruct", "hf_token": "hf_planted", "dtype": "torch.bfloat16", "max_model_len": 131072},
    "cache_config": {"block_size": 16, "gpu_memory_utilization": 0.92, "cache_dtype": "auto", "num_gpu_blocks": 27648},
    "parallel_config": {"tensor_parallel_size": 2, "data_parallel_size": 1},
    "scheduler_config": {"max_num_seqs": 256, "max_num_batched_tokens": 8192}},
    "vllm_env": {"VLLM_USE_V1": true}, "system_env": {"cuda_runtime_version": "12.9"}}"#;
const SGLANG_SERVER_INFO: &str = r#"{"model_path": "Qwen/Qwen3-32B", "served_model_name": "qwen", "tp_size": 4,
    "mem_fraction_static": 0.85, "chunked_prefill_size": 8192, "max_running_requests": 128, "api_key": "sk-planted",
    "schedule_policy": "fcfs", "disable_radix_cache": false, "lora_paths": null, "max_total_num_tokens": 412345,
    "internal_states": [{"last_gen_throughput": 812.5}], "version": "0.5.23"}"#;
const SGLANG: &[(&str, &str)] = &[
    (
        "/model_info",
        r#"{"model_path": "Qwen/Qwen3-32B", "tokenizer_path": "Qwen/Qwen3-32B", "is_generation": true, "weight_version": "default"}"#,
    ),
    (
        "/v1/models",
        r#"{"object": "list", "data": [{"id": "qwen", "object": "model", "root": "qwen", "max_model_len": 40960}]}"#,
    ),
    ("/v1/loads", r#"{"loads": [{"dp_rank": 0, "num_running_reqs": 12, "num_waiting_reqs": 3}]}"#),
    ("/ready", ""),
    ("/metrics", "sglang:num_running_reqs{model_name=\"qwen\"} 12\n"),
];
const LITELLM: &[(&str, &str)] = &[
    ("/health/liveliness", r#""I'm alive!""#),
    ("/health/readiness", r#"{"status": "healthy", "db": "connected", "cache": null, "litellm_version": "1.83.0"}"#),
    ("/metrics/", "litellm_in_flight_requests 3\n"),
];

/// An engine's server; it stops when dropped.
pub struct FakeEngine {
    /// Its address: `http://127.0.0.1:41234`.
    pub url: String,
    hub: Arc<Hub>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Hub(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    answers: BTreeMap<String, String>,
    manner: BTreeMap<String, Manner>,
    always: Option<Manner>,
    requests: Vec<Request>,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeEngine {
    /// Starts a server that knows these paths; everything else is 404.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(answers: &[(&str, &str)]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the engine cannot listen on 127.0.0.1")?;
        let url = format!("http://{}", listener.local_addr()?);
        let hub = Arc::new(Hub::default());
        hub.lock().answers = answers.iter().map(|(path, body)| ((*path).to_owned(), (*body).to_owned())).collect();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&hub));
        let server = tokio::spawn(async move {
            // It ends only with the task.
            axum::serve(listener, router).await.ok();
        });
        Ok(Self { url, hub, server })
    }

    /// vLLM as it runs in production: without `/server_info`.
    ///
    /// # Errors
    /// As [`Self::start`]; here and below.
    pub async fn vllm() -> anyhow::Result<Self> {
        Self::start(VLLM).await
    }

    /// vLLM in development mode, with `/server_info`, which tells a token.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn vllm_in_development() -> anyhow::Result<Self> {
        let all: Vec<_> = VLLM.iter().copied().chain([("/server_info", VLLM_SERVER_INFO)]).collect();
        Self::start(&all).await
    }

    /// SGLang, whose `/server_info` tells its key.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn sglang() -> anyhow::Result<Self> {
        let all: Vec<_> = SGLANG.iter().copied().chain([("/server_info", SGLANG_SERVER_INFO)]).collect();
        Self::start(&all).await
    }

    /// SGLang under its older names.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn sglang_of_old() -> anyhow::Result<Self> {
        let older =
            SGLANG.iter().map(|(path, body)| (if *path == "/model_info" { "/get_model_info" } else { path }, *body));
        let all: Vec<_> = older.chain([("/get_server_info", SGLANG_SERVER_INFO)]).collect();
        Self::start(&all).await
    }

    /// LiteLLM, which wants a key for what names models.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn litellm() -> anyhow::Result<Self> {
        let fake = Self::start(LITELLM).await?;
        for path in ["/v1/models", "/model/info", "/health"] {
            fake.behave_at(path, Manner::Status(401, "No api key passed in.".to_owned()));
        }
        fake.behave_at("/metrics", Manner::Redirect(format!("{}/metrics/", fake.url)));
        Ok(fake)
    }

    /// Where its metrics are.
    pub fn metrics(&self) -> String {
        format!("{}/metrics", self.url)
    }

    /// Answers everything so from now on.
    pub fn behave(&self, manner: Manner) {
        self.hub.lock().always = Some(manner).filter(|manner| *manner != Manner::Fine);
    }

    /// Answers one path so from now on.
    pub fn behave_at(&self, path: &str, manner: Manner) {
        self.hub.lock().manner.insert(path.to_owned(), manner);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.hub.lock().requests.clone()
    }

    /// Goes away: connections are refused from now on.
    pub async fn stop(self) -> String {
        self.server.abort();
        let url = self.url.clone();
        // Aborted tasks drop their listener when they are next looked at.
        while tokio::net::TcpStream::connect(url.trim_start_matches("http://")).await.is_ok() {
            tokio::task::yield_now().await;
        }
        url
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(State(hub): State<Arc<Hub>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let (manner, body) = {
        let mut inside = hub.lock();
        inside.requests.push(remembered(&method, &uri, &headers));
        let manner = inside.always.clone().or_else(|| inside.manner.get(uri.path()).cloned());
        (manner.filter(|manner| *manner != Manner::Fine), inside.answers.get(uri.path()).cloned())
    };
    match (manner, body) {
        (Some(manner), _) => badly(manner).await,
        (None, None) => (StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#).into_response(),
        (None, Some(body)) => {
            let kind = if body.starts_with(['{', '"', '[']) { "application/json" } else { "text/plain; version=0.0.4" };
            ([(header::CONTENT_TYPE, kind)], body).into_response()
        }
    }
}
