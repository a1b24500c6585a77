//! Loki, as far as its logs are queried: streams, pages, limits and tenants.
//!
//! Source: <https://grafana.com/docs/loki/latest/reference/loki-http-api/>; error texts after `pkg/querier/limits` and
//! `pkg/util/validation` of grafana/loki.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Manner, Request, badly, remembered};

/// A stream's labels.
type Labels = BTreeMap<String, String>;

/// A Loki; it stops when dropped.
pub struct FakeLoki {
    /// Its address.
    pub url: String,
    hub: Arc<Hub>,
    server: JoinHandle<()>,
}

struct Hub(Mutex<Inside>);

struct Inside {
    lines: Vec<(Labels, i64, String)>,
    manner: Manner,
    manner_from: usize,
    tenant: Option<String>,
    most: usize,
    requests: Vec<Request>,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeLoki {
    /// Starts an empty one on a free port of the loopback interface.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("Loki cannot listen on 127.0.0.1")?;
        let url = format!("http://{}", listener.local_addr()?);
        let inside = Inside {
            lines: Vec::new(),
            manner: Manner::Fine,
            manner_from: 0,
            tenant: None,
            most: 5_000,
            requests: Vec::new(),
        };
        let hub = Arc::new(Hub(Mutex::new(inside)));
        let router = Router::new()
            .route("/loki/api/v1/query_range", get(query_range))
            .route("/loki/api/v1/labels", get(labels))
            .with_state(Arc::clone(&hub));
        let server = tokio::spawn(async move {
            // It ends only with the task.
            axum::serve(listener, router).await.ok();
        });
        Ok(Self { url, hub, server })
    }

    /// Takes a line in; the time is nanoseconds since 1970.
    pub fn push(&self, labels: &[(&str, &str)], at: i64, line: &str) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.hub.lock().lines.push((labels, at, line.to_owned()));
    }

    /// Answers everything so from now on.
    pub fn behave(&self, manner: Manner) {
        self.behave_after(0, manner);
    }

    /// Answers so after this many requests in all.
    pub fn behave_after(&self, requests: usize, manner: Manner) {
        let mut inside = self.hub.lock();
        (inside.manner, inside.manner_from) = (manner, requests);
    }

    /// Wants this `X-Scope-OrgID`.
    pub fn tenant(&self, tenant: &str) {
        self.hub.lock().tenant = Some(tenant.to_owned());
    }

    /// Lines of one answer at most (`max_entries_limit_per_query`); 5000 unless told.
    pub fn most(&self, lines: usize) {
        self.hub.lock().most = lines;
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.hub.lock().requests.clone()
    }
}

impl Drop for FakeLoki {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Remembers the request; what to answer unless all is fine.
async fn admitted(hub: &Hub, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    let (manner, tenant) = {
        let mut inside = hub.lock();
        inside.requests.push(remembered(method, uri, headers));
        let manner = if inside.requests.len() > inside.manner_from { inside.manner.clone() } else { Manner::Fine };
        (manner, inside.tenant.clone())
    };
    let told = headers.get("x-scope-orgid").and_then(|value| value.to_str().ok()).map(str::to_owned);
    match manner {
        Manner::Fine if tenant.is_some() && told.is_none() => {
            Some((StatusCode::UNAUTHORIZED, "no org id\n").into_response())
        }
        Manner::Fine if tenant.is_some() && told != tenant => Some(Json(streams(Vec::new())).into_response()),
        Manner::Fine => None,
        other => Some(badly(other).await),
    }
}

async fn labels(State(hub): State<Arc<Hub>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if let Some(response) = admitted(&hub, &method, &uri, &headers).await {
        return response;
    }
    let inside = hub.lock();
    let mut names: Vec<&String> = inside.lines.iter().flat_map(|(labels, _, _)| labels.keys()).collect();
    names.sort();
    names.dedup();
    Json(json!({ "status": "success", "data": names })).into_response()
}

async fn query_range(
    State(hub): State<Arc<Hub>>,
    Query(query): Query<BTreeMap<String, String>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    if let Some(response) = admitted(&hub, &method, &uri, &headers).await {
        return response;
    }
    let inside = hub.lock();
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<i64>().ok());
    let (Some(start), Some(end)) = (number("start"), number("end")) else {
        return (StatusCode::BAD_REQUEST, "could not parse 'start' parameter\n").into_response();
    };
    let limit = usize::try_from(number("limit").unwrap_or(100)).unwrap_or(0);
    if limit > inside.most {
        let text = "max entries limit per query exceeded, limit > max_entries_limit_per_query";
        return (StatusCode::BAD_REQUEST, format!("{text} ({limit} > {})\n", inside.most)).into_response();
    }
    let Some(matchers) = query.get("query").and_then(|text| selector(text)) else {
        return (StatusCode::BAD_REQUEST, "parse error at line 1, col 1: syntax error: unexpected IDENTIFIER\n")
            .into_response();
    };
    let matches = |labels: &Labels| {
        matchers.iter().all(|(name, values)| labels.get(name).is_some_and(|value| values.contains(value)))
    };
    let mut found: Vec<&(Labels, i64, String)> =
        inside.lines.iter().filter(|(labels, at, _)| (start..end).contains(at) && matches(labels)).collect();
    // `backward`: the youngest first; of one moment, what came in last.
    found.reverse();
    found.sort_by_key(|(_, at, _)| std::cmp::Reverse(*at));
    if query.get("direction").is_some_and(|direction| direction == "forward") {
        found.reverse();
    }
    found.truncate(limit);
    let mut by_labels: BTreeMap<&Labels, Vec<Value>> = BTreeMap::new();
    for (labels, at, line) in found {
        by_labels.entry(labels).or_default().push(json!([at.to_string(), line]));
    }
    let result = by_labels.into_iter().map(|(labels, values)| json!({ "stream": labels, "values": values })).collect();
    Json(streams(result)).into_response()
}

fn streams(result: Vec<Value>) -> Value {
    json!({ "status": "success", "data": { "resultType": "streams", "result": result, "stats": {} } })
}

/// `{namespace="llm",pod=~"a|b"}`: what each label may be. None for what it does not read.
fn selector(text: &str) -> Option<Vec<(String, Vec<String>)>> {
    let mut rest = text.trim().strip_prefix('{')?;
    let mut all = Vec::new();
    loop {
        let (name, after) = rest.split_once('=')?;
        let (regex, quoted) = match after.strip_prefix('~') {
            Some(after) => (true, after),
            None => (false, after),
        };
        let mut value = String::new();
        let mut letters = quoted.strip_prefix('"')?.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    'r' => value.push('\r'),
                    't' => value.push('\t'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        all.push((name.trim().to_owned(), if regex { choices(&value) } else { vec![value] }));
        rest = quoted[1 + end + 1..].trim_start();
        if rest == "}" {
            return Some(all);
        }
        rest = rest.strip_prefix(',')?;
    }
}

/// The literal texts between the bars of a regular expression without anything else in it.
fn choices(regex: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut letters = regex.chars();
    while let Some(letter) = letters.next() {
        let next = match letter {
            '|' => {
                all.push(String::new());
                continue;
            }
            '\\' => letters.next(),
            other => Some(other),
        };
        if let (Some(last), Some(next)) = (all.last_mut(), next) {
            last.push(next);
        }
    }
    all
}
