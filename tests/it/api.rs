//! The API as programs use it: its document, a generated client, pages, filters, errors, and diagnoses on demand.

use std::path::Path;
use std::process::{Command, Output};

use knowledge::incident::IncidentState;
use reqwest::header::{ALLOW, CONTENT_TYPE, ETAG, HeaderMap, LINK, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use store::IncidentQuery;

use crate::admission::CALM;
use crate::chains::moment;
use crate::harness::shared;
use crate::running::{NOWHERE, Running, group};
use crate::stores::{Both, admit, at};

/// Runs a script of tests/lab/scripts with the clients of PyPI.
pub(crate) fn client(script: &str, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("sh");
    command.arg("tests/lab/scripts/clients.sh").arg(script).args(arguments).current_dir(root).output().unwrap()
}

/// What a script printed as JSON.
#[track_caller]
pub(crate) fn printed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Status, headers and body of an answer.
pub(crate) async fn get(run: &Running, path: &str) -> (u16, HeaderMap, Value) {
    answered(run.http.get(format!("{}{path}", run.service.url))).await
}

pub(crate) async fn answered(request: reqwest::RequestBuilder) -> (u16, HeaderMap, Value) {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.json().await.unwrap_or(Value::Null))
}

#[track_caller]
pub(crate) fn assert_problem((status, headers, body): &(u16, HeaderMap, Value), expected: u16, says: &str) {
    assert_eq!((*status, &body["status"]), (expected, &expected.into()), "{body}");
    assert_eq!(headers[CONTENT_TYPE], "application/problem+json", "{body}");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains(says), "{says}: {detail}");
    assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()), "{body}");
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|incident| incident["id"].as_str().unwrap()).collect()
}

/// Opens incidents of these names and severities, one after the other.
async fn incidents(run: &Running, alerts: &[(&str, &str)]) -> Vec<String> {
    let mut ids = Vec::new();
    for (name, severity) in alerts {
        let opened = run.send(&group(name, "firing", severity, &["pod-a"])).await;
        ids.push(opened["incident"].as_str().unwrap().to_owned());
    }
    ids
}

#[test]
fn the_openapi_document_is_valid_by_the_specification() {
    let checked = client("check-openapi.py", &["docs/openapi.json"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[tokio::test]
async fn a_client_made_from_the_document_reads_pages_incidents_health_and_diagnoses() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret").unwrap();
    let run = Running::start(&format!("{NOWHERE}\npages: {{ bearer_token_file: {} }}", secret.path().display())).await;
    let mut opened = incidents(&run, &[("One", "warning"), ("LLMHighTTFT", "critical"), ("Three", "info")]).await;
    opened.reverse();
    let url = run.service.url.clone();
    let read = tokio::task::spawn_blocking(move || printed(&client("api-client.py", &[&url, "s3cret"]))).await.unwrap();
    assert_eq!(read["pages"], json!([opened[..2], opened[2..]]), "{read}");
    assert_eq!((&read["alerts"], &read["health"]), (&1.into(), &"unknown".into()), "{read}");
    assert!(
        !read["headline"].as_str().unwrap().is_empty() && !read["diagnosis"].as_str().unwrap().is_empty(),
        "{read}"
    );
    assert!(read["wrong"].as_str().unwrap().contains("severity: expected at most"), "{read}");
}

#[tokio::test]
async fn the_index_leads_to_every_address_and_the_document_describes_it() {
    let run = Running::start(NOWHERE).await;
    let id = incidents(&run, &[("LLMHighTTFT", "critical")]).await.remove(0);
    let (status, headers, index) = get(&run, "/api/v1").await;
    assert_eq!((status, headers["x-content-type-options"].to_str().unwrap()), (200, "nosniff"), "{index}");
    let (_, _, document) = get(&run, index["openapi"].as_str().unwrap()).await;
    let operations = index["operations"].as_array().unwrap();
    for operation in operations {
        let (method, path) = (operation["method"].as_str().unwrap(), operation["path"].as_str().unwrap());
        assert!(document["paths"][path][method.to_lowercase()].is_object(), "{method} {path}");
        if method == "GET" {
            let (status, _, body) = get(&run, &path.replace("{id}", &id)).await;
            assert_eq!(status, 200, "{path}: {body}");
        }
    }
    let described: usize =
        document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(described, operations.len());
}

#[tokio::test]
async fn incidents_come_in_pages_that_neither_repeat_nor_lose_one_while_new_ones_open() {
    let run = Running::start(NOWHERE).await;
    let mut opened =
        incidents(&run, &[("A", "info"), ("B", "info"), ("C", "info"), ("D", "info"), ("E", "info")]).await;
    opened.reverse();
    let (mut path, mut seen) = ("/api/v1/incidents?limit=2&state=open".to_owned(), Vec::new());
    loop {
        let (status, headers, list) = get(&run, &path).await;
        assert_eq!(status, 200, "{list}");
        seen.extend(ids(&list).into_iter().map(str::to_owned));
        incidents(&run, &[(&format!("New{}", seen.len()), "info")]).await;
        let Some(link) = headers.get(LINK) else { break };
        let next = link.to_str().unwrap().strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
        path = format!("/api/v1/incidents{next}");
        assert!(next.contains("limit=2") && next.contains("state=open") && seen.len() < 9, "{next}");
    }
    assert_eq!(seen, opened);
}

#[tokio::test]
async fn filters_select_by_text_state_severity_and_time_and_what_is_wrong_is_named() {
    let run = Running::start(NOWHERE).await;
    let opened =
        incidents(&run, &[("Alpha", "critical"), ("Beta", "warning"), ("100%_!\"severity\":\"critical\"", "Warning")])
            .await;
    run.send(&group("Beta", "resolved", "warning", &["pod-a"])).await;
    let [alpha, beta, strange] = [&*opened[0], &*opened[1], &*opened[2]];
    for (query, expected) in [
        ("", vec![strange, beta, alpha]),
        ("state=open", vec![strange, alpha]),
        ("state=resolved", vec![beta]),
        ("severity=critical", vec![alpha]),
        ("severity=WARNING", vec![strange, beta]),
        ("severity=%25", vec![]),
        ("severity=warn", vec![]),
        ("q=alph", vec![alpha]),
        ("q=pod-A&severity=warning", vec![strange, beta]),
        (&format!("q={beta}"), vec![beta]),
        ("q=nothing-of-this", vec![]),
        ("since=1h", vec![strange, beta, alpha]),
        ("since=2099-01-01T00:00:00Z", vec![]),
        ("since=2020-01-01T00:00:00%2B09:00&limit=1", vec![strange]),
    ] {
        let (status, _, list) = get(&run, &format!("/api/v1/incidents?{query}")).await;
        assert_eq!((status, ids(&list)), (200, expected), "{query}");
    }
    for (query, says) in [
        ("limit=0", "limit: expected a number from 1 to 100"),
        ("limit=101", "limit: expected"),
        ("limit=many", "limit: expected"),
        ("cursor=x", "cursor: expected"),
        ("state=closed", "expected `open` or `resolved`"),
        ("since=yesterday", "since: expected a time as"),
        ("since=2020-01-01T00:00:00+09:00", "%2B"),
        ("sinse=1h", "unknown parameter `sinse`, expected one of `limit`, `cursor`, `q`, `state`, `severity`, `since`"),
        ("limit=1&limit=2", "repeated parameter `limit`"),
    ] {
        assert_problem(&get(&run, &format!("/api/v1/incidents?{query}")).await, 400, says);
    }
}

#[tokio::test]
async fn the_list_says_of_a_large_group_what_its_incident_says() {
    let run = Running::start(NOWHERE).await;
    let pods: Vec<String> = (0..25).map(|n| format!("pod-{n}")).collect();
    let mut large = group("Strange", "firing", "warning", &pods.iter().map(String::as_str).collect::<Vec<_>>());
    let newest = large["alerts"].as_array_mut().unwrap().last_mut().unwrap();
    newest["labels"]["severity"] = json!("critical");
    newest["startsAt"] = json!(knowledge::clock::now().to_string());
    let id = run.send(&large).await["incident"].as_str().unwrap().to_owned();
    run.wait_for(crate::running::CHANNEL, |m| m.contains("Cannot tell")).await;
    let (_, _, list) = get(&run, "/api/v1/incidents?severity=critical").await;
    let (_, _, incident) = get(&run, &format!("/api/v1/incidents/{id}")).await;
    assert_eq!(list[0]["headline"], incident["headline"], "{list}");
    assert!(list[0]["critical"] == true && list[0]["headline"].as_str().unwrap().starts_with("CRITICAL"), "{list}");
}

#[tokio::test]
async fn whoever_has_the_current_version_gets_304_until_something_changes() {
    let run = Running::start(NOWHERE).await;
    let id = incidents(&run, &[("Strange", "warning")]).await.remove(0);
    run.wait_for(crate::running::CHANNEL, |m| m.contains("Cannot tell")).await;
    for path in ["/api/v1/incidents".to_owned(), format!("/api/v1/incidents/{id}")] {
        let again = async |known: String| {
            answered(run.http.get(format!("{}{path}", run.service.url)).header("If-None-Match", known)).await
        };
        let mut not_modified = 0;
        // A diagnosis in between is another version.
        for known in ["TAG", "\"other\", TAG", "TAG", "TAG"] {
            let (_, headers, _) = get(&run, &path).await;
            let tag = headers[ETAG].to_str().unwrap();
            let (status, headers, body) = again(known.replace("TAG", tag)).await;
            let is_same = headers[ETAG] == tag;
            assert_eq!((status, body == Value::Null), (if is_same { 304 } else { 200 }, is_same), "{path} {known}");
            not_modified += usize::from(is_same);
        }
        assert!(not_modified > 1, "{path}");
        assert_eq!(again("\"other\"".to_owned()).await.0, 200);
    }
    let (_, headers, _) = get(&run, "/api/v1/incidents").await;
    run.send(&group("Strange", "resolved", "warning", &["pod-a"])).await;
    let (_, changed, _) = get(&run, "/api/v1/incidents").await;
    assert_ne!(headers[ETAG], changed[ETAG]);
}

#[tokio::test]
async fn every_error_below_api_is_a_problem_of_rfc_9457() {
    let run = Running::start(NOWHERE).await;
    assert_problem(&get(&run, "/api/v1/incidents/nope").await, 404, "no such incident");
    for path in ["/api", "/api/", "/api/v2/incidents", "/api/v1/", "/api/v1/incident", "/api/v1/incidents/a/b/c"] {
        assert_problem(&get(&run, path).await, 404, "/api/v1 lists the addresses");
    }
    let url = |path: &str| format!("{}{path}", run.service.url);
    for path in ["/api/v1/incidents/%FF", "/api/v1/incidents/%FF/bundles"] {
        assert_problem(&get(&run, path).await, 400, "Invalid URL");
    }
    let refused = answered(run.http.delete(url("/api/v1/incidents"))).await;
    assert_problem(&refused, 405, "does not take DELETE");
    assert_eq!(refused.1[ALLOW], "GET,HEAD");
    let refused = answered(run.http.post(url("/api/v1/incidents")).body("{}")).await;
    assert_problem(&refused, 405, "does not take POST");
    assert_eq!(refused.1[ALLOW], "GET,HEAD");
    let post = || run.http.post(url("/api/v1/diagnose"));
    assert_problem(&answered(post().body("{}")).await, 415, "application/json");
    assert_problem(
        &answered(post().header("Origin", "https://elsewhere.example").json(&json!({}))).await,
        403,
        "web pages",
    );
    assert_problem(&answered(post().header(CONTENT_TYPE, "application/json").body("{")).await, 400, "JSON");
    assert_problem(&answered(post().json(&json!({ "pool": "x" }))).await, 422, "unknown field `pool`");
    let long = json!({ "target": "x".repeat(60_000) });
    assert_problem(&answered(post().json(&long)).await, 422, "target: expected at most 200 characters");
    // Whoever still sends may find the connection closed before the answer is read.
    let large = post().json(&json!({ "target": "x".repeat(100_000) })).send().await;
    assert!(large.is_err() || large.is_ok_and(|answer| answer.status().as_u16() == 413));
}

#[tokio::test]
async fn whoever_may_not_read_is_told_so_as_a_problem() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret").unwrap();
    let pages = format!("pages: {{ username: anna, password_file: {} }}", secret.path().display());
    let run = Running::start(&format!("{NOWHERE}\n{pages}")).await;
    for path in ["/api/v1", "/api/v1/incidents", "/api/v1/openapi.json", "/api/v1/nowhere"] {
        let refused = get(&run, path).await;
        assert_problem(&refused, 401, "Wrong or missing credentials");
        assert!(refused.1[WWW_AUTHENTICATE].to_str().unwrap().starts_with("Basic "));
    }
    let asked = run.http.post(format!("{}/api/v1/diagnose", run.service.url)).json(&json!({ "target": "x" }));
    assert_problem(&answered(asked).await, 401, "credentials");
    let allowed = run.http.get(format!("{}/api/v1", run.service.url)).basic_auth("anna", Some("s3cret"));
    assert_eq!(answered(allowed).await.0, 200);
    let closed = Running::start(&format!("{NOWHERE}\npages: {{}}")).await;
    assert_problem(&get(&closed, "/api/v1/health").await, 403, "pages.authentication: none");
}

/// A service beside the Prometheus of the data suites.
async fn with_data() -> Running {
    let url = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    Running::start(&format!("prometheus: [{{ url: \"{url}\" }}]\ndiagnose: {{ deadline: 30s }}")).await
}

pub(crate) async fn diagnose(run: &Running, question: Value) -> (u16, HeaderMap, Value) {
    answered(run.http.post(format!("{}/api/v1/diagnose", run.service.url)).json(&question)).await
}

#[tokio::test]
async fn a_pool_is_diagnosed_on_demand_by_its_name_its_labels_or_a_playbook() {
    let run = with_data().await;
    let at = moment("longer-prompts").to_string();
    for question in [
        json!({ "target": "longer-prompts", "at": at }),
        json!({ "labels": { "namespace": "longer-prompts" }, "at": at }),
        json!({ "labels": { "namespace": "longer-prompts" }, "playbook": "high-ttft", "at": at }),
    ] {
        let (status, _, answer) = diagnose(&run, question).await;
        assert_eq!((status, &answer["health"]), (200, &Value::Null), "{answer}");
        assert_eq!(answer["diagnosis"]["causes"][0]["id"], "longer-prompts", "{answer}");
        assert!(answer["headline"].as_str().unwrap().contains("prompts became longer"), "{answer}");
    }
    let (status, _, quiet) = diagnose(&run, json!({ "target": "healthy", "at": moment("healthy").to_string() })).await;
    assert_eq!(
        (status, &quiet["diagnosis"], &quiet["health"]["state"]),
        (200, &Value::Null, &"healthy".into()),
        "{quiet}"
    );
    for (question, says) in [
        (json!({}), "name a pool by `target` or `labels`"),
        (json!({ "target": "nobody", "at": at }), "no pool or pod is called `nobody`"),
        (json!({ "labels": { "team": "x" } }), "label `team` does not select a pool"),
        (json!({ "labels": { "namespace": "longer-promts" }, "at": at }), "no namespace `longer-promts`; there is"),
        (json!({ "playbook": "high-tfft" }), "high-ttft"),
        (json!({ "target": "healthy", "at": "2099-01-01T00:00:00Z" }), "in the future"),
        (json!({ "target": "healthy", "last": "soon" }), "last: expected a duration"),
    ] {
        assert_problem(&diagnose(&run, question).await, 400, says);
    }
}

#[tokio::test]
async fn a_prometheus_that_cannot_be_reached_is_told_apart_from_a_wrong_question() {
    let run = Running::start(NOWHERE).await;
    assert_problem(&diagnose(&run, json!({ "target": "llm" })).await, 502, "cannot be reached");
    let (_, _, answer) = diagnose(&run, json!({ "labels": { "namespace": "llm" } })).await;
    let headline = answer["headline"].as_str().unwrap();
    assert!(
        headline.starts_with("cannot tell: ") && headline.contains("cannot be reached"),
        "no data is no health: {answer}"
    );
    let (status, _, answer) = diagnose(&run, json!({ "playbook": "high-ttft" })).await;
    assert_eq!((status, &answer["diagnosis"]["degraded"]), (200, &true.into()), "{answer}");
}

#[tokio::test]
async fn lists_are_filtered_and_paged_alike_on_both_databases() {
    let both = Both::start();
    for store in both.stores("listed").await {
        let mut ids = Vec::new();
        for (i, name) in ["One", "Two", "Three"].into_iter().enumerate() {
            ids.push(admit(&store, name, "firing", &CALM, i64::try_from(i).unwrap() * 60).await.0);
        }
        let listed = async |query: IncidentQuery, most: u32| -> Vec<String> {
            store.listed(&query, most).await.unwrap().into_iter().map(|incident| incident.id).collect()
        };
        let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
        let all = store.listed(&IncidentQuery::default(), 9).await.unwrap();
        for (severity, found) in [("Critical", 3), ("critic", 0), ("%", 0), ("'\"", 0)] {
            assert_eq!(store.with_severity(&all, None, severity).await.unwrap().len(), found, "{severity}");
            let open = store.with_severity(&all[1..], Some(IncidentState::Open), severity).await.unwrap();
            assert_eq!(open.len(), found.min(2), "{severity}");
        }
        let since = IncidentQuery { since: Some(at(60)), ..IncidentQuery::default() };
        assert_eq!(listed(since, 9).await, newest_first[..2]);
        let after = IncidentQuery { before: ids[2].clone(), ..IncidentQuery::default() };
        assert_eq!(listed(after, 1).await, newest_first[1..2]);
        assert_eq!(listed(IncidentQuery::of_state(IncidentState::Resolved), 9).await, [""; 0]);
    }
}
