//! The Model Context Protocol as models' clients use it: the client of PyPI's `mcp`, over both transports.

use reqwest::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use crate::api::{answered, client, get, printed};
use crate::chains::moment;
use crate::harness::{assert_clean, innocent, planted, shared};
use crate::running::{BINARY, CHANNEL, NOWHERE, Running, group};

/// The tools that need no store.
const OF_FLEET: [&str; 5] = ["diagnose", "screen_pool", "get_health", "query_signal", "explain"];
/// The longest text of a complete answer, in bytes.
const LONGEST: usize = 10_000;
/// The longest text of a short answer, and its longest data, in bytes: what fills a model's context.
const SHORT: usize = 2_000;

/// What the client got.
pub(crate) async fn spoken(asked: Value) -> Value {
    let answer = tokio::task::spawn_blocking(move || printed(&client("mcp-client.py", &[&asked.to_string()])));
    answer.await.unwrap()
}

fn names(answer: &Value) -> Vec<&str> {
    answer["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[track_caller]
fn text(call: &Value) -> &str {
    assert_eq!(call["error"], false, "{call}");
    let text = call["text"].as_str().unwrap();
    assert!(!text.is_empty() && text.len() < LONGEST && !text.contains('\u{1b}'), "{text}");
    text
}

/// A short answer: its text, and what it says in which field.
#[track_caller]
fn short<'a>(call: &'a Value, tool: &str) -> (&'a str, Vec<&'a str>) {
    let (text, data) = (text(call), &call["data"]);
    assert!(text.len() <= SHORT && data.to_string().len() <= SHORT, "{}, {}: {text}", text.len(), data);
    let keys: Vec<&str> = data.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["more", "next", "what", "why"], "{data}");
    assert!(text.starts_with(data["what"].as_str().unwrap()) && !data["what"].as_str().unwrap().is_empty(), "{data}");
    let more = format!("{tool} with `full: true`");
    assert_eq!(data["more"], json!(more));
    assert!(text.ends_with(&format!("more: {more}")), "{text}");
    (text, data["next"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect())
}

#[tokio::test]
async fn answers_are_short_and_say_what_why_what_now_and_where_the_rest_is() {
    let url = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    let at = moment("longer-prompts").to_string();
    let answer = spoken(json!({
        "command": [BINARY, "mcp", "--prometheus", url],
        "calls": [
            ["diagnose", { "target": "longer-prompts", "at": at }],
            ["screen_pool", { "labels": { "namespace": "longer-prompts" }, "at": at }],
            ["get_health", {}],
            ["query_signal", { "signal": "ttft_p99", "target": "longer-prompts", "at": at }],
            ["explain", { "id": "high-ttft" }],
            ["explain", { "id": "high-ttft", "full": "yes" }],
        ],
    }))
    .await;
    let calls = answer["calls"].as_array().unwrap();
    let told: Vec<(&str, Vec<&str>)> = OF_FLEET.iter().zip(calls).map(|(tool, call)| short(call, tool)).collect();
    assert!(told[0].0.contains("prompts became longer"), "{}", told[0].0);
    assert!(told[0].1.iter().any(|step| step.contains("explain with id `longer-prompts`")), "{:?}", told[0].1);
    assert!(told[1].1[0].starts_with("diagnose with labels {\"") && told[3].1[0].contains("`ttft_p99`"), "{told:?}");
    assert_eq!(calls[5]["error"], true, "{}", calls[5]);
}

#[tokio::test]
async fn over_standard_output_a_model_diagnoses_screens_queries_and_explains() {
    let url = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    let at = moment("longer-prompts").to_string();
    let pool = json!({ "labels": { "namespace": "longer-prompts" }, "at": at, "full": true });
    let answer = spoken(json!({
        "command": [BINARY, "mcp", "--prometheus", url],
        "calls": [
            ["diagnose", { "target": "longer-prompts", "at": at, "full": true }],
            ["screen_pool", pool],
            ["query_signal", { "signal": "ttft_p99", "target": "longer-prompts", "at": at, "full": true }],
            ["explain", { "id": "xid", "name": "79" }],
            ["explain", { "id": "high-ttft", "full": true }],
            ["get_health", { "full": true }],
            ["diagnose", { "target": "nobody", "at": at }],
            ["diagnose", { "pool": "x" }],
            ["query_signal", { "signal": "ttft_p9", "target": "longer-prompts" }],
            ["screen_pool", {}],
        ],
        "read": ["llm-diagnose://playbooks/high-ttft"],
    }))
    .await;
    assert_eq!(answer["server"]["name"], "llm-diagnose", "{answer}");
    assert_eq!(names(&answer), OF_FLEET, "without a store there is nothing to tell of incidents");
    for tool in answer["tools"].as_array().unwrap() {
        let schema = tool["inputSchema"].to_string();
        assert!(tool["annotations"]["readOnlyHint"] == true && !schema.contains("$ref"), "{tool}");
    }
    let [diagnosed, screened, queried, xid, tree, health, wrong @ ..] = answer["calls"].as_array().unwrap().as_slice()
    else {
        panic!("{answer}")
    };
    assert!(text(diagnosed).contains("prompts became longer") && text(diagnosed).lines().count() < 40, "{diagnosed}");
    assert_eq!(diagnosed["data"]["diagnosis"]["causes"][0]["id"], "longer-prompts");
    assert!(text(screened).starts_with('▌') && screened["data"]["pools"][0]["checks"].as_array().unwrap().len() > 20);
    assert!(text(queried).contains("TTFT p99") && text(queried).contains("PromQL: "), "{queried}");
    assert!(queried["data"]["observed"]["value"].as_f64().unwrap() > 1.0, "{queried}");
    assert!(
        text(xid).contains("fallen off the bus") && text(tree).contains("high TTFT: first tokens come late"),
        "{xid}"
    );
    assert_eq!(tree["links"], json!(["llm-diagnose://playbooks/high-ttft"]));
    assert!(answer["read"][0].as_str().unwrap().contains("high TTFT: first tokens come late"));
    text(health);
    let says = ["no pool or pod is called `nobody`", "unknown field `pool`", "`ttft_p99`", "name a pool"];
    for (call, says) in wrong.iter().zip(says) {
        assert!(call["error"] == true && call["text"].as_str().unwrap().contains(says), "{says}: {call}");
    }
}

/// A service with a token, and three incidents.
async fn with_incidents(secret: &std::path::Path) -> (Running, Vec<String>) {
    std::fs::write(secret, "s3cret").unwrap();
    let run = Running::start(&format!("{NOWHERE}\npages: {{ bearer_token_file: {} }}", secret.display())).await;
    let mut ids = Vec::new();
    for (name, severity) in [("Alpha", "warning"), ("LLMHighTTFT", "critical"), ("Gamma", "info")] {
        let opened = run.send(&group(name, "firing", severity, &["pod-a"])).await;
        ids.push(opened["incident"].as_str().unwrap().to_owned());
    }
    run.wait_for(CHANNEL, |message| message.contains("Cannot tell")).await;
    (run, ids)
}

#[tokio::test]
async fn over_http_a_model_reads_incidents_in_both_ages_of_the_protocol() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    let (run, ids) = with_incidents(secret.path()).await;
    let url = format!("{}/mcp", run.service.url);
    for mode in ["auto", "legacy"] {
        let answer = spoken(json!({
            "url": url, "token": "s3cret", "mode": mode,
            "calls": [
                ["list_incidents", { "limit": 2, "full": true }],
                ["list_incidents", { "severity": "critical", "state": "open", "since": "1h", "q": "ttft", "full": true }],
                ["get_incident", { "incident": ids[1], "full": true }],
                ["get_incident", { "incident": ids[1][22..], "full": true }],
                ["summarize_bundle", { "incident": ids[1], "full": true }],
                ["diagnose", { "labels": { "namespace": "llm" } }],
                ["get_incident", { "incident": "nobody" }],
                ["list_incidents", { "since": "yesterday" }],
                ["list_incidents", { "limit": 2 }],
                ["get_incident", { "incident": ids[1] }],
                ["summarize_bundle", { "incident": ids[1] }],
            ],
            "read": [format!("llm-diagnose://incidents/{}", ids[1])],
        }))
        .await;
        assert_eq!(names(&answer).len(), 8, "{answer}");
        let calls = answer["calls"].as_array().unwrap();
        let listed: Vec<&str> =
            calls[0]["data"]["incidents"].as_array().unwrap().iter().map(|i| i["id"].as_str().unwrap()).collect();
        assert_eq!(listed, [&ids[2], &ids[1]], "{mode}");
        assert!(text(&calls[0]).contains(&ids[1]) && text(&calls[0]).contains("cursor "), "{}", calls[0]);
        assert_eq!(
            (&calls[1]["data"]["incidents"][0]["id"], &calls[1]["data"]["next"]),
            (&json!(ids[1]), &Value::Null)
        );
        assert_eq!((&calls[2]["data"]["id"], text(&calls[2])), (&json!(ids[1]), text(&calls[3])));
        assert_eq!(calls[2]["data"]["alerts"].as_array().unwrap().len(), 1);
        assert_eq!(calls[2]["links"], json!([format!("llm-diagnose://incidents/{}", ids[1])]));
        assert_eq!(calls[4]["data"]["schema"], "llm-diagnose/report/v1");
        assert!(text(&calls[4]).contains("LLMHighTTFT"), "{}", calls[4]);
        assert!(text(&calls[5]).starts_with("cannot tell: ") && text(&calls[5]).contains("cannot be reached"));
        assert!(calls[6]["text"].as_str().unwrap().contains("list_incidents lists them"), "{}", calls[6]);
        assert!(calls[7]["text"].as_str().unwrap().contains("since: expected a time"), "{}", calls[7]);
        let listed = short(&calls[8], "list_incidents").1;
        assert!(listed[0].contains(&ids[2]) && listed[1].contains("cursor"), "{listed:?}");
        for (call, tool) in calls[9..].iter().zip(["get_incident", "summarize_bundle"]) {
            assert!(short(call, tool).1.iter().any(|step| step.contains(&ids[1])), "{call}");
        }
        let read: Value = serde_json::from_str(answer["read"][0].as_str().unwrap()).unwrap();
        assert_eq!(read["id"], json!(ids[1]));
    }
    let url = run.service.url.clone();
    let refused = run.http.post(format!("{url}/mcp")).json(&json!({})).send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 401);
    assert!(refused.headers()[WWW_AUTHENTICATE].to_str().unwrap().starts_with("Bearer "));
    let page = run.http.post(format!("{url}/mcp")).bearer_auth("s3cret").header("Origin", "https://elsewhere.example");
    assert_eq!(page.json(&json!({})).send().await.unwrap().status().as_u16(), 403);
    let form = run.http.post(format!("{url}/mcp")).bearer_auth("s3cret").header(CONTENT_TYPE, "text/plain").body("{}");
    assert_eq!(form.send().await.unwrap().status().as_u16(), 415);
}

#[tokio::test]
async fn a_body_that_is_no_message_gets_an_error_of_json_rpc() {
    let run = Running::start(NOWHERE).await;
    let long = format!("\"{}\"", "x".repeat(64 << 10));
    for (body, status, code) in [
        ("{", 400, -32700),
        ("[]", 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
        (long.as_str(), 413, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#, 200, -32601),
    ] {
        let post = run.http.post(format!("{}/mcp", run.service.url)).header(CONTENT_TYPE, "application/json");
        let post = post.header("Accept", "application/json, text/event-stream").body(body.to_owned());
        let (found, _, answer) = answered(post).await;
        assert_eq!((found, &answer["jsonrpc"]), (status, &json!("2.0")), "{body:.40}: {answer}");
        assert_eq!(answer["error"]["code"], json!(code), "{body:.40}: {answer}");
    }
    let (found, headers, _) = get(&run, "/mcp").await;
    assert_eq!((found, headers[ALLOW].to_str().unwrap()), (405, "POST"));
}

#[tokio::test]
async fn beside_a_service_the_command_reads_its_incidents() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    let (run, ids) = with_incidents(secret.path()).await;
    let state = run.service.directory().join("state");
    let answer = spoken(json!({
        "command": [BINARY, "mcp", "--prometheus", "http://127.0.0.1:1", "--state-dir", state],
        "calls": [["list_incidents", { "full": true }]],
    }))
    .await;
    assert_eq!(answer["calls"][0]["data"]["incidents"][2]["id"], json!(ids[0]), "{answer}");
}

#[tokio::test]
async fn no_planted_secret_reaches_a_model() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret").unwrap();
    let run = Running::start(&format!("{NOWHERE}\npages: {{ bearer_token_file: {} }}", secret.path().display())).await;
    let mut body = group("LLMHighTTFT", "firing", "critical", &["pod-a"]);
    for alert in body["alerts"].as_array_mut().unwrap() {
        alert["labels"]["hf_token"] = json!(innocent(1));
        alert["labels"]["note"] = json!(planted()[0].secret);
        alert["annotations"]["summary"] = json!(format!("late with {} of {}", innocent(1), planted()[0].secret));
    }
    let id = run.send(&body).await["incident"].as_str().unwrap().to_owned();
    run.wait_for(CHANNEL, |message| message.contains("Cannot tell")).await;
    let answer = spoken(json!({
        "url": format!("{}/mcp", run.service.url), "token": "s3cret",
        "calls": [
            ["list_incidents", { "full": true }],
            ["get_incident", { "incident": id, "full": true }],
            ["summarize_bundle", { "incident": id, "full": true }],
            ["get_incident", { "incident": id }],
        ],
        "read": [format!("llm-diagnose://incidents/{id}")],
    }))
    .await;
    for call in answer["calls"].as_array().unwrap() {
        text(call);
    }
    assert_clean(answer.to_string().as_bytes(), "an answer");
}

/// What agents get of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[tokio::test]
async fn the_skill_names_every_tool_and_none_that_does_not_exist() {
    let run = Running::start(NOWHERE).await;
    let answer = spoken(json!({ "url": format!("{}/mcp", run.service.url), "calls": [] })).await;
    let skill = file("config/agents/llm-diagnose/SKILL.md");
    let table = skill.split("## Which tool").nth(1).unwrap().split("## What an answer says").next().unwrap();
    // Source: https://agentskills.io/specification.
    let head = skill.strip_prefix("---\n").unwrap().split("\n---\n").next().unwrap();
    let head: std::collections::BTreeMap<String, String> = serde_saphyr::from_str(head).unwrap();
    assert_eq!(head.keys().collect::<Vec<_>>(), ["compatibility", "description", "license", "name"]);
    assert!(head["name"] == "llm-diagnose" && head["description"].len() <= 1_024 && head["compatibility"].len() <= 500);
    let known = names(&answer);
    for tool in &known {
        assert!(table.contains(&format!("`{tool}`")), "{tool}");
    }
    let arguments: String =
        answer["tools"].as_array().unwrap().iter().map(|tool| tool["inputSchema"].to_string()).collect();
    for (n, name) in skill.split('`').enumerate().filter(|(n, _)| n % 2 == 1) {
        let is_word = name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && name.contains('_');
        let is_signal = ["ttft_p99", "kv_cache_usage"].contains(&name);
        assert!(
            !is_word || is_signal || known.contains(&name) || arguments.contains(&format!("\"{name}\"")),
            "{n}: {name}"
        );
    }
}

#[test]
fn the_registrys_manifest_starts_the_released_image_as_a_server_of_this_name() {
    // Source: https://modelcontextprotocol.io/registry/package-types and the schema that it names.
    let manifest: Value = serde_json::from_str(&file("config/agents/server.json")).unwrap();
    let (version, name) = (env!("CARGO_PKG_VERSION"), manifest["name"].as_str().unwrap());
    assert_eq!(manifest["$schema"], "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json");
    assert!(name.split('/').count() == 2 && name.starts_with("io.github."), "{name}");
    assert!(manifest["description"].as_str().unwrap().len() <= 100 && manifest["version"] == version);
    assert!(["url", "source"].iter().all(|key| manifest["repository"][key].is_string()));
    for package in manifest["packages"].as_array().unwrap() {
        let image = package["identifier"].as_str().unwrap();
        assert!(
            image.starts_with("ghcr.io/") && image.ends_with(&format!(":{version}")),
            "the tag is the version: {image}"
        );
        assert_eq!((&package["registryType"], package.get("version")), (&json!("oci"), None), "{package}");
        assert_eq!(package["transport"], json!({ "type": "stdio" }));
        assert_eq!(package["packageArguments"], json!([{ "type": "positional", "value": "mcp" }]));
        for variable in package["environmentVariables"].as_array().unwrap() {
            let help = std::process::Command::new(BINARY).args(["mcp", "--help"]).output().unwrap();
            let variable = variable["name"].as_str().unwrap();
            assert!(String::from_utf8_lossy(&help.stdout).contains(&format!("[env: {variable}=")), "{variable}");
        }
    }
    let label = format!("io.modelcontextprotocol.server.name=\"{name}\"");
    assert!(file("config/Dockerfile").contains(&label), "the registry looks for {label}");
}

#[test]
fn the_index_for_models_links_to_files_that_exist() {
    let index = file("docs/llms.txt");
    assert!(index.starts_with("# llm-diagnose\n\n> "), "as https://llmstxt.org has it");
    let links: Vec<&str> = index.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(links.len() > 10);
    for link in links {
        assert!(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(link).is_file(), "{link}");
    }
}
