//! Questions of programs, by the API and by MCP: about the pool that they name and no other, without secrets, few at once.

use std::time::Duration;

use knowledge::clock;
use llm_diagnose_lab::stack::Prometheus;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use reqwest::header::RETRY_AFTER;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{assert_problem, client, diagnose, get};
use crate::harness::{assert_clean, planted};
use crate::mcp::spoken;
use crate::running::{BINARY, Running, group};

/// Prometheus servers are asked within this time on a stalled machine, too.
const PATIENT: &str = "diagnose: { deadline: 30s }";

/// Pools of now, each one replica: namespace, model, pod, job and how many requests wait.
async fn fleet(pools: &[(&str, &str, &str, &str, f64)]) -> Prometheus {
    let now = clock::now().as_second();
    let mut history = Vec::new();
    for (namespace, model, pod, job, waiting) in pools {
        let instance = format!("{pod}:8000");
        let labels =
            [("job", *job), ("instance", &instance), ("namespace", namespace), ("model_name", model), ("pod", pod)];
        let of = |name, value| Series::new(name, &labels).steady(now - 1_800, now + 600, 15, value);
        history.push(of("vllm:num_requests_waiting", *waiting));
        history.push(of("vllm:num_requests_running", 9.0));
        history.push(of("vllm:kv_cache_usage_perc", 0.2));
        history.push(of("up", 1.0));
    }
    Prometheus::builder().backfill_text(&openmetrics(history)).unwrap().start().await.unwrap()
}

async fn beside(prometheus: &Prometheus) -> Running {
    Running::start(&format!("prometheus: [{{ url: \"{}\" }}]\n{PATIENT}", prometheus.url)).await
}

/// The models of the pools in a health.
fn models(health: &Value) -> Vec<&str> {
    let pools = health["pools"].as_array().unwrap_or_else(|| panic!("{health}"));
    pools.iter().map(|pool| pool["labels"]["model"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn generated_requests_are_answered_as_the_document_says_and_none_fails_the_server() {
    let prometheus = fleet(&[("llm", "chat", "chat-0", "vllm-chat", 0.0)]).await;
    let run = beside(&prometheus).await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["chat-0"])).await;
    let url = run.service.url.clone();
    let tried = tokio::task::spawn_blocking(move || client("api-properties.py", &[&url])).await.unwrap();
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));
}

#[tokio::test]
async fn a_pool_is_screened_by_its_name_pod_or_job_and_never_another_in_its_place() {
    let pools = [
        ("llm", "chat", "chat-0", "vllm-chat", 0.0),
        ("llm", "embed", "embed-0", "vllm", 500.0),
        ("dev", "embed", "embed-0", "vllm", 500.0),
    ];
    let prometheus = fleet(&pools).await;
    let run = beside(&prometheus).await;
    let whole = get(&run, "/api/v1/health").await.2;
    assert_eq!((models(&whole).len(), &whole["state"]), (3, &"critical".into()), "{whole}");
    let chat = [
        json!({ "target": "chat" }),
        json!({ "labels": { "pod": "chat-0" } }),
        json!({ "labels": { "job": "vllm-chat" } }),
        json!({ "labels": { "job": "vllm-chat", "namespace": "llm" } }),
        json!({ "labels": { "pod": "chat-0", "namespace": "llm" } }),
        json!({ "labels": { "instance": "chat-0:8000" } }),
        json!({ "target": "chat", "labels": { "namespace": "llm" } }),
        json!({ "labels": { "model_name": "chat" } }),
        json!({ "target": "", "labels": { "model_name": "chat" } }),
    ];
    let wrong = [
        (json!({ "labels": { "pod": "nobody-0" } }), "no pool has `nobody-0`"),
        (json!({ "labels": { "pod": "embed-0" } }), "`embed-0` is in 2 pools"),
        (json!({ "labels": { "job": "vllm" } }), "`vllm` is in 2 pools"),
        (json!({ "labels": { "job": "vlm" } }), "no job `vlm`; there is `vllm`"),
        (json!({ "labels": { "namespace": "lmm" } }), "no namespace `lmm`; there is `llm`"),
        (json!({ "labels": { "pod": "" } }), "name a pool by"),
        (json!({ "labels": { "namespace": "llm", "pod": "chta-0" } }), "no pool has `chta-0, llm`"),
        (json!({ "target": "chat", "labels": { "namespace": "dev" } }), "no pool called `chat` has namespace=dev"),
        (json!({ "target": " " }), "name a pool by"),
        (json!({ "target": "x".repeat(60_000) }), "expected at most 200 characters"),
    ];
    // The models stand in the complete data.
    let full = |pool: &Value| {
        let mut pool = pool.clone();
        pool["full"] = true.into();
        json!(["screen_pool", pool])
    };
    let mut calls: Vec<Value> = chat.iter().map(full).collect();
    calls.extend(wrong.iter().map(|(pool, _)| json!(["screen_pool", pool])));
    calls.push(full(&json!({ "labels": { "namespace": "llm" } })));
    for pool in [json!({ "labels": { "pod": "chat-0" } }), json!({ "labels": { "namespace": "lmm" } })] {
        calls.push(json!(["query_signal", { "signal": "requests_waiting", "labels": pool["labels"], "full": true }]));
    }
    let answer = spoken(json!({ "command": [BINARY, "mcp", "--prometheus", prometheus.url], "calls": calls })).await;
    let mut answers = answer["calls"].as_array().unwrap().iter();
    for question in &chat {
        let screened = &answers.next().unwrap()["data"];
        assert_eq!(models(screened), ["chat"], "{question}");
        assert_eq!(screened["state"], screened["pools"][0]["state"], "{question}");
        assert_ne!(screened["state"], "critical", "{question}");
        let (status, _, diagnosed) = diagnose(&run, question.clone()).await;
        assert_eq!((status, &diagnosed["diagnosis"]), (200, &Value::Null), "{question}: {diagnosed}");
        assert_eq!(models(&diagnosed["health"]), ["chat"], "{question}");
    }
    for (question, says) in &wrong {
        let call = answers.next().unwrap();
        assert!(call["error"] == true && call["text"].as_str().unwrap().contains(says), "{says}: {call}");
        let status = if says.contains("200 characters") { 422 } else { 400 };
        assert_problem(&diagnose(&run, question.clone()).await, status, says);
    }
    let nobody = json!({ "playbook": "high-ttft", "labels": { "pod": "nobody-0" } });
    assert_problem(&diagnose(&run, nobody).await, 400, "no pool has `nobody-0`");
    assert_eq!(models(&answers.next().unwrap()["data"]), ["chat", "embed"], "all that the labels select");
    let [queried, unknown] = [answers.next().unwrap(), answers.next().unwrap()];
    assert_eq!(
        (&queried["data"]["pool"]["model"], &queried["data"]["observed"]["value"]),
        (&"chat".into(), &0.0.into())
    );
    assert!(unknown["error"] == true && unknown["text"].as_str().unwrap().contains("no namespace `lmm`"), "{unknown}");
}

#[tokio::test]
async fn a_label_that_contradicts_a_prometheus_is_not_answered_from_it() {
    let prometheus = fleet(&[("llm", "chat", "chat-0", "vllm", 0.0)]).await;
    let own = format!("prometheus: [{{ url: \"{}\", labels: {{ cluster: eu }} }}]\n{PATIENT}", prometheus.url);
    let run = Running::start(&own).await;
    let (status, _, answer) = diagnose(&run, json!({ "labels": { "cluster": "eu", "namespace": "llm" } })).await;
    assert_eq!((status, models(&answer["health"])), (200, vec!["chat"]), "{answer}");
    let other = json!({ "labels": { "cluster": "us", "namespace": "llm" } });
    let says = "no Prometheus has these labels; there is cluster=eu";
    assert_problem(&diagnose(&run, other).await, 400, says);
    assert_problem(&get(&run, "/api/v1/incidents/%00").await, 404, "there is no such incident");
}

#[tokio::test]
async fn health_is_short_unless_all_of_it_is_asked_for() {
    let prometheus = fleet(&[("llm", "chat", "chat-0", "vllm", 0.0), ("llm", "embed", "embed-0", "vllm", 500.0)]).await;
    let run = beside(&prometheus).await;
    let (_, _, summary) = get(&run, "/api/v1/health").await;
    let (_, _, full) = get(&run, "/api/v1/health?detail=full").await;
    let states = |health: &Value| -> Vec<String> {
        let pools = health["pools"].as_array().unwrap().iter();
        pools.flat_map(|pool| pool["checks"].as_array().unwrap()).map(|check| check["state"].to_string()).collect()
    };
    let not_well = |state: &String| ["\"warning\"", "\"critical\""].contains(&state.as_str());
    assert!(!states(&summary).is_empty() && states(&summary).iter().all(not_well), "{summary}");
    assert!(states(&full).len() > 20 && !states(&full).iter().all(not_well), "{full}");
    assert_eq!(states(&full).iter().filter(|state| not_well(state)).count(), states(&summary).len());
    let part = get(&run, "/api/v1/health?model=chat&detail=full").await.2;
    assert_eq!(models(&part), ["chat"], "{part}");
    assert_problem(&get(&run, "/api/v1/health?detail=everything").await, 400, "expected `summary` or `full`");
}

#[tokio::test]
async fn no_planted_secret_of_prometheus_reaches_a_program_neither_in_an_answer_nor_in_an_error() {
    let secret = &planted()[0].secret;
    let pools = [("llm", secret.as_str(), "chat-0", "vllm", 500.0), ("dev", secret.as_str(), "chat-0", "vllm", 0.0)];
    let prometheus = fleet(&pools).await;
    let run = beside(&prometheus).await;
    let questions = [
        (json!({ "target": "llm" }), 200, ""),
        (json!({ "labels": { "model_name": secret } }), 200, ""),
        (json!({ "target": "nobody" }), 400, "no pool or pod is called `nobody`: there is "),
        (json!({ "target": "chat" }), 400, "`chat` may be "),
        (json!({ "labels": { "model_name": "nobody" } }), 400, "no model `nobody`; there is "),
        (json!({ "labels": { "pod": "chat-0" } }), 400, "`chat-0` is in 2 pools"),
    ];
    let mut calls = Vec::new();
    for (question, status, says) in &questions {
        let answer = diagnose(&run, question.clone()).await;
        assert_clean(answer.2.to_string().as_bytes(), "an answer");
        if *status == 200 {
            assert_eq!(answer.0, 200, "{question}");
            assert!(answer.2.to_string().contains("[redacted: "), "{question}: {}", answer.2);
        } else {
            assert_problem(&answer, *status, says);
            assert!(answer.2["detail"].as_str().unwrap().contains("[redacted: "), "{question}: {}", answer.2);
        }
        calls.push(json!(["diagnose", question]));
        calls.push(json!(["screen_pool", question]));
        let mut signal = question.clone();
        signal["signal"] = json!("requests_waiting");
        calls.push(json!(["query_signal", signal]));
    }
    calls.push(json!(["get_health", { "detail": "full" }]));
    let count = calls.len();
    let answer = spoken(json!({ "url": format!("{}/mcp", run.service.url), "calls": calls })).await;
    assert_clean(answer.to_string().as_bytes(), "an answer to a model");
    let answers = answer["calls"].as_array().unwrap();
    assert_eq!(answers.len(), count);
    for call in answers {
        assert!(call.to_string().contains("[redacted: "), "{call}");
    }
}

/// Tells the times that are asked about on a connection, and never answers.
async fn listen(mut connection: TcpStream, times: Vec<i64>, told: mpsc::UnboundedSender<i64>) {
    let (mut asked, mut part) = (Vec::new(), [0; 4_096]);
    while let Ok(length @ 1..) = connection.read(&mut part).await {
        asked.extend_from_slice(&part[..length]);
        let text = String::from_utf8_lossy(&asked);
        times.iter().filter(|time| text.contains(&time.to_string())).for_each(|time| _ = told.send(*time));
    }
}

#[tokio::test]
async fn only_a_few_questions_run_at_once_the_others_are_told_to_come_again_and_turns_come_back() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let now = clock::now().as_second();
    let times: Vec<i64> = (1..=4).map(|n| now - 7_777 * n).collect();
    let (told, mut heard) = mpsc::unbounded_channel();
    let searched = times.clone();
    let server = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((connection, _)) = silent.accept().await {
            connections.spawn(listen(connection, searched.clone(), told.clone()));
        }
    });
    let run = Running::start(&format!("prometheus: [{{ url: \"{url}\" }}]\n{PATIENT}")).await;
    let ask = async |at: i64| diagnose(&run, json!({ "playbook": "high-ttft", "at": at.to_string() })).await;
    let running = futures::future::join_all(times.iter().map(|at| ask(*at)));
    let others = async {
        let mut missing = times.clone();
        while !missing.is_empty() {
            let time = tokio::time::timeout(Duration::from_secs(20), heard.recv()).await.unwrap().unwrap();
            missing.retain(|at| *at != time);
        }
        for refused in [ask(now - 1).await, get(&run, "/api/v1/health?model=chat").await] {
            assert_problem(&refused, 503, "too many questions at once");
            assert!(refused.1.contains_key(RETRY_AFTER));
        }
        assert_eq!(get(&run, "/api/v1").await.0, 200, "what asks no Prometheus needs no turn");
        // Its connections end with it.
        server.abort();
    };
    let (answers, ()) = futures::future::join(running, others).await;
    for (status, _, answer) in answers {
        assert_eq!((status, &answer["diagnosis"]["degraded"]), (200, &true.into()), "{answer}");
    }
    assert_eq!(ask(now - 2).await.0, 200, "turns come back");
}
