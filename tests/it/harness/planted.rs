//! Planted secrets in the contexts of real logs and files, and a search for them in everything that was written.
//!
//! None of them is real; they are put together here, so that no scanner of repositories takes them for a leak.

use std::io::{Cursor, Read};

/// A secret in one context.
#[derive(Debug, Clone)]
pub(crate) struct Planted {
    /// The kind of secret and the context: `hf/env`.
    pub(crate) name: String,
    /// The secret, which no output may contain.
    pub(crate) secret: String,
    /// The text of the source, which contains the secret.
    pub(crate) text: String,
}

/// The common prefix of all secrets, so that one search finds every leak.
const BODY: &str = "Zq7LEAKx9";

/// Keys that are recognised by their prefix in any context: the kind and the prefix.
const KNOWN: [(&str, &str); 34] = [
    ("hf", "hf_"),
    ("hf-org", "api_org_"),
    ("anthropic", "sk-ant-api03-"),
    ("openai", "sk-"),
    ("openai-project", "sk-proj-"),
    ("openai-service", "sk-svcacct-"),
    ("openrouter", "sk-or-v1-"),
    ("litellm", "sk-"),
    ("langfuse", "sk-lf-"),
    ("groq", "gsk_"),
    ("nvidia", "nvapi-"),
    ("google-oauth", "ya29."),
    ("google-client", "GOCSPX-"),
    ("github", "ghp_"),
    ("github-app", "ghs_"),
    ("github-fine", "github_pat_"),
    ("gitlab", "glpat-"),
    ("gitlab-runner", "glrt-"),
    ("slack-bot", "xoxb-"),
    ("slack-user", "xoxp-"),
    ("slack-app", "xapp-1-"),
    ("slack-rotated", "xoxe.xoxp-1-"),
    ("wandb", "wandb_v1_"),
    ("pypi", "pypi-"),
    ("npm", "npm_"),
    ("docker", "dckr_pat_"),
    ("sendgrid", "SG."),
    ("vault", "hvs."),
    ("xai", "xai-"),
    ("replicate", "r8_"),
    ("perplexity", "pplx-"),
    ("stripe", "sk_live_"),
    ("grafana", "glsa_"),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9."),
];

/// Names of secrets without a recognisable format: variables, arguments, fields.
const NAMED: [&str; 26] = [
    "hf_token",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "api_key",
    "apiKey",
    "admin_api_key",
    "OPENAI_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "NGC_API_KEY",
    "WANDB_API_KEY",
    "DD_API_KEY",
    "LITELLM_MASTER_KEY",
    "LITELLM_SALT_KEY",
    "master_key",
    "aws_secret_access_key",
    "AWS_SESSION_TOKEN",
    "ssl_keyfile_password",
    "DATABASE_PASSWORD",
    "redis_password",
    "clientSecret",
    "client_secret",
    "access_token",
    "refresh_token",
    "auth_token",
    "VAULT_TOKEN",
    "AccountKey",
];

fn body(number: usize) -> String {
    format!("{BODY}{number:03}aBcD3fGh1JkLmN0pQrStUv")
}

/// A secret without a recognisable format: only the name beside it marks it as one.
pub(crate) fn innocent(number: usize) -> String {
    format!("{BODY} quiet harbour {number:03}")
}

/// Every secret in every context: known keys in all of them, other secrets only beside a name that marks them.
pub(crate) fn planted() -> Vec<Planted> {
    let mut all = Vec::new();
    let mut number = 0;
    let mut put = |name: String, before: &str, context: &dyn Fn(&str) -> String| {
        number += 1;
        let secret = format!("{before}{}", body(number));
        all.push(Planted { name, text: context(&secret), secret });
    };
    for (kind, before) in KNOWN {
        for (context, text) in anywhere() {
            put(format!("{kind}/{context}"), before, &|secret| text.replace("SECRET", secret));
        }
    }
    for name in NAMED {
        for (context, text) in named() {
            put(format!("{name}/{context}"), "", &|secret| text.replace("NAME", name).replace("SECRET", secret));
        }
    }
    for (context, text) in in_context() {
        put(context.to_owned(), "", &|secret| text.replace("SECRET", secret));
    }
    all
}

fn anywhere() -> [(&'static str, &'static str); 8] {
    [
        ("alone", "SECRET"),
        ("sentence", "ERROR 11-20 03:00:10 [api_server.py:12] 401 Client Error: token SECRET, is not valid."),
        ("traceback", "huggingface_hub.errors.HfHubHTTPError: Invalid (SECRET)"),
        ("quoted", "{'x': 'SECRET'}"),
        ("json", r#"{"level":"info","fields":{"x":"SECRET"}}"#),
        ("list", r#"["--x", "SECRET"]"#),
        ("path", "GET /v1/x/SECRET/y 200"),
        ("escaped", r#"{"log":"{\"x\":\"SECRET\"}\n"}"#),
    ]
}

fn named() -> [(&'static str, &'static str); 16] {
    [
        ("env", "NAME=SECRET"),
        ("env-list", "PATH=/usr/bin NAME=SECRET HOME=/root"),
        ("export", "export NAME=\"SECRET\""),
        ("argument", "vllm serve meta-llama/Llama-3 --NAME SECRET --port 8000"),
        ("argument-is", "python3 -m sglang.launch_server --NAME=SECRET --port 8000"),
        ("argument-list", "launched ['vllm', '--NAME', 'SECRET', '--port', '8000']"),
        ("argument-json", r#"{"args":["--NAME","SECRET","--port","8000"]}"#),
        ("argument-yaml", "args:\n  - --NAME\n  - SECRET\n  - --port\n"),
        ("env-yaml", "env:\n- name: NAME\n  value: SECRET\n- name: A\n  value: b\n"),
        ("env-json", r#"{"env":[{"name":"NAME","value":"SECRET"},{"name":"A","value":"b"}]}"#),
        ("json", r#"{"a":1,"NAME":"SECRET","b":"x"}"#),
        ("vllm-args", "INFO 11-20 [utils.py:253] non-default args: {'model': 'm', 'NAME': ['SECRET'], 'port': 8000}"),
        ("namespace", "args: Namespace(host=None, NAME='SECRET', port=8000)"),
        ("server-args", "[2026-11-20 03:00:00] server_args=ServerArgs(model_path='m', NAME='SECRET', tp_size=8)"),
        ("yaml", "litellm_params:\n  model: azure/x\n  NAME: SECRET\n"),
        ("url", "GET https://api.example.com/v1?a=1&NAME=SECRET&b=2 HTTP/1.1"),
    ]
}

/// Contexts that mark any text as a secret: headers, addresses with passwords, key blocks, prompts in logs.
fn in_context() -> Vec<(&'static str, &'static str)> {
    vec![
        ("bearer", "Authorization: Bearer SECRET"),
        ("bearer-lower", "authorization: bearer SECRET"),
        ("bearer-json", r#"{"headers":{"authorization":"Bearer SECRET"}}"#),
        ("bearer-pairs", "headers=[(b'host', b'x'), (b'authorization', b'Bearer SECRET')]"),
        ("bearer-alone", "sent Bearer SECRET to upstream"),
        ("bearer-curl", "curl -X POST http://x -H 'Authorization: Bearer SECRET' -d '{}'"),
        ("basic", "Authorization: Basic SECRET=="),
        ("no-scheme", "AUTHORIZATION: SECRET"),
        ("x-api-key", "x-api-key: SECRET"),
        ("api-key", "api-key: SECRET"),
        ("header-json", r#"{"x-api-key": "SECRET"}"#),
        ("header-vault", "X-Vault-Token: SECRET"),
        ("cookie", "Cookie: session=SECRET; theme=dark"),
        ("set-cookie", "Set-Cookie: token=SECRET; Path=/; HttpOnly"),
        ("cookie-json", r#"{"cookie":"session=SECRET"}"#),
        ("url-password", "redis://default:SECRET@redis:6379/0"),
        ("url-user", "https://SECRET@git.example.com/x.git"),
        ("url-slash", "postgresql://u:p/SECRET@db:5432/x"),
        ("curl-user", "curl -u admin:SECRET http://prometheus:9090"),
        ("signed-aws", "https://b.s3.amazonaws.com/m?X-Amz-Algorithm=AWS4&X-Amz-Signature=SECRET"),
        ("signed-azure", "https://a.blob.core.windows.net/c?sv=2024-01-01&sig=SECRET%3D"),
        ("signed-html", "<a href=\"https://x/y?a=1&amp;token=SECRET\">"),
        ("azure-connection", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=SECRET==;EndpointSuffix=x"),
        ("slack-hook", "posting to https://hooks.slack.com/services/T0/B0/SECRET"),
        ("aws-ini", "[default]\naws_secret_access_key = SECRET/x\n"),
        ("key-number", r#"{"master_key": 12345, "password": "SECRET"}"#),
        ("key-list", r#"{"admin_api_key": ["SECRET", "x"]}"#),
        ("key-object", r#"{"credentials": {"x": "SECRET"}}"#),
        ("password-quote", "DB_PASSWORD=a\"SECRET b=1"),
        ("mail", "owner=SECRET@example.com"),
        (
            "pem",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nSECRETSECRET\nabcd\n-----END PRIVATE KEY-----\nINFO next",
        ),
        ("pem-cut", "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nSECRETSECRET"),
        ("pem-tail", "SECRETSECRET\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nab==\n-----END EC PRIVATE KEY-----\nINFO next"),
        ("pem-json", r#"{"x":"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\nSECRET\n-----END PRIVATE KEY-----\n"}"#),
        (
            "pem-timed",
            "2026-11-20T03:00:00Z -----BEGIN PRIVATE KEY-----\n2026-11-20T03:00:00Z SECRETSECRET\n2026-11-20T03:00:00Z -----END PRIVATE KEY-----",
        ),
        (
            "vllm-prompt",
            "INFO 11-20 03:00:00 [logger.py:43] Received request cmpl-1: prompt: 'my SECRET is', params: SamplingParams(n=1, max_tokens=256), prompt_token_ids: [1, 2], lora_request: None.",
        ),
        ("vllm-prompt-quotes", "Received request cmpl-1: prompt: \"it's 'SECRET'\", params: SamplingParams(n=1)"),
        (
            "vllm-output",
            "INFO [logger.py:60] Generated response cmpl-1: output: 'SECRET', output_token_ids: [1], finish_reason: stop",
        ),
        (
            "sglang-receive",
            "[2026-11-20 03:00:00] Receive: obj=GenerateReqInput(rid='1', text='a \\'b\\' SECRET', input_ids=None, sampling_params={'max_new_tokens': 8})",
        ),
        (
            "sglang-finish",
            "Finish: obj=GenerateReqInput(text=\"SECRET it's\", stream=False), out={'text': 'SECRET', 'meta_info': {'prompt_tokens': 5}}",
        ),
        (
            "litellm-messages",
            "litellm.acompletion(model='gpt', messages=[{'role': 'user', 'content': 'SECRET'}], temperature=0)",
        ),
        (
            "litellm-response",
            "RAW RESPONSE:\n{\"id\":\"1\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"SECRET\"}}]}",
        ),
        ("litellm-model", "ModelResponse(choices=[Choices(message=Message(content='SECRET', role='assistant'))])"),
        ("openai-parts", r#"{"messages":[{"role":"user","content":[{"type":"text","text":"SECRET"}]}]}"#),
        ("completion", r#"{"model":"m","prompt":["a","SECRET"],"max_tokens":16}"#),
        ("tgi-inputs", r#"{"inputs":"SECRET","parameters":{"max_new_tokens":20}}"#),
        ("tgi-debug", "generate{inputs: \"SECRET\", parameters: GenerateParameters { best_of: None }}"),
        ("dynamo-request", "PreprocessedRequest { model: \"m\", prompt: Some(\"SECRET\"), token_ids: [1, 2] }"),
        ("image", "{\"image_url\":{\"url\":\"data:image/png;base64,SECRET0KGgo=\"}}"),
        ("cut-string", r#"{"prompt": "and then SECRET"#),
    ]
}

/// Texts that redaction must not change.
pub(crate) const INNOCENT: [&str; 28] = [
    "Engine 000: Avg prompt throughput: 1204.5 tokens/s, Avg generation throughput: 312.8 tokens/s, Running: 28 reqs, Waiting: 0 reqs, GPU KV cache usage: 61.0%, Prefix cache hit rate: 12.0%",
    "GPU KV cache size: 162,704 tokens, Maximum concurrency for 16,000 tokens per request: 10.17x",
    "[2026-11-20 03:02:11 TP0] Decode batch, #running-req: 12, #token: 5120, token usage: 0.43, gen throughput (token/s): 812.3, #queue-req: 0",
    "Prefill batch, #new-seq: 1, #new-token: 512, #cached-token: 64, token usage: 0.01",
    "max_total_num_tokens=162704, chunked_prefill_size=8192, max_prefill_tokens=16384, context_len=32768",
    "non-default args: {'model': 'meta-llama/Llama-3-70B', 'max_model_len': 16000, 'api_key': None, 'tokenizer_mode': 'auto'}",
    "vllm serve meta-llama/Llama-3 --max-num-batched-tokens 8192 --tokenizer meta-llama/Llama-3 --api-key $(VLLM_API_KEY)",
    "image vllm/vllm-openai:v0.32.0@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "GPU-6f8a2c1e-3b4d-4e5f-8a9b-0c1d2e3f4a5b Xid 79",
    "vllm:time_to_first_token_seconds_bucket{le=\"0.5\",model_name=\"meta-llama/Llama-3\"} 12",
    "vllm:request_prompt_tokens_sum{engine=\"0\"} 123456",
    "litellm_remaining_api_key_budget_metric{hashed_api_key=\"88dc28d0f030c55ed4ab77ed8faf0981\",api_key_alias=\"team-a\"} 12.5",
    "kv_token_capacity: 162704, eos_token_id: 2, pad_token: <pad>",
    "HTTP 401: Authorization header is missing; bearer authentication is on",
    "MountVolume.SetUp failed for volume \"x\" : secret \"hf-token\" not found",
    "Error: couldn't find key HF_TOKEN in Secret llm/hf",
    "SamplingParams(n=1, temperature=0.7, max_tokens=256, stop_token_ids=[], prompt_logprobs=None)",
    "0/8 nodes are available: 8 Insufficient nvidia.com/gpu",
    "pod llama-70b-7c9f8d6b5-x2x9k on node ip-10-0-1-2.ec2.internal",
    "https://docs.vllm.ai/en/stable/usage/troubleshooting/#hangs?x=1",
    "http://prometheus.monitoring.svc:9090/api/v1/query?query=up&time=1",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "INFO: 10.0.0.7:43210 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK",
    "tokenizer_config.json special_tokens_map.json hf_transfer hf_overrides",
    "ssl_keyfile='/etc/tls/tls.key', ssl_certfile='/etc/tls/tls.crt', ssl_keyfile_password=None",
    "automountServiceAccountToken: false",
    "NCCL WARN socketStartConnect: Connect to 10.0.0.7<43210> failed : Software caused connection abort",
];

/// Fails if `bytes`, written at `place`, contain a planted secret; also searches inside zip files.
pub(crate) fn assert_clean(bytes: &[u8], place: &str) {
    let assert_no_secret = |bytes: &[u8], place: &str| {
        let text = String::from_utf8_lossy(bytes);
        if let Some(at) = text.find(BODY) {
            let before: String = text[..at].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("a secret is left in {place} behind: {before}");
        }
    };
    assert_no_secret(bytes, place);
    let Ok(mut zip) = zip::ZipArchive::new(Cursor::new(bytes)) else { return };
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).unwrap();
        let name = format!("{place}: {}", entry.name().unwrap_or_default());
        assert_no_secret(name.as_bytes(), "the name of an entry");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        assert_clean(&content, &name);
    }
}
