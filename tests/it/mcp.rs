//! The Model Context Protocol as models' clients use it: the client of PyPI's `mcp`, over both transports.

use reqwest::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use crate::api::{answered, client, get, printed};
use crate::chains::moment;
use crate::harness::{assert_clean, innocent, planted, shared};
use crate::running::{BINARY, CHANNEL, NOWHERE, Running, group};

/// The tools that need no store.
const OF_FLEET: [&str; 5] = ["diagnose", "screen_pool", "get_health", "query_signal", "explain"];
/// The longest text of an answer, in bytes: what a model reads.
const LONGEST: usize = 10_000;

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

#[tokio::test]
async fn over_standard_output_a_model_diagnoses_screens_queries_and_explains() {
    let url = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    let at = moment("longer-prompts").to_string();
    let pool = json!({ "labels": { "namespace": "longer-prompts" }, "at": at });
    let answer = spoken(json!({
        "command": [BINARY, "mcp", "--prometheus", url],
        "calls": [
            ["diagnose", { "target": "longer-prompts", "at": at }],
            ["screen_pool", pool],
            ["query_signal", { "signal": "ttft_p99", "target": "longer-prompts", "at": at }],
            ["explain", { "id": "xid", "name": "79" }],
            ["explain", { "id": "high-ttft" }],
            ["get_health", {}],
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
                ["list_incidents", { "limit": 2 }],
                ["list_incidents", { "severity": "critical", "state": "open", "since": "1h", "q": "ttft" }],
                ["get_incident", { "incident": ids[1] }],
                ["get_incident", { "incident": ids[1][22..] }],
                ["summarize_bundle", { "incident": ids[1] }],
                ["diagnose", { "labels": { "namespace": "llm" } }],
                ["get_incident", { "incident": "nobody" }],
                ["list_incidents", { "since": "yesterday" }],
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
        "calls": [["list_incidents", {}]],
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
            ["list_incidents", {}],
            ["get_incident", { "incident": id }],
            ["summarize_bundle", { "incident": id }],
        ],
        "read": [format!("llm-diagnose://incidents/{id}")],
    }))
    .await;
    for call in answer["calls"].as_array().unwrap() {
        text(call);
    }
    assert_clean(answer.to_string().as_bytes(), "an answer");
}
