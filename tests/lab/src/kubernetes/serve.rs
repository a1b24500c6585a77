//! What is answered to which path.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State as Shared};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::{Asked, Hub, Mode, State};

/// The largest answer that is read back to be halved.
const BODY_BYTES: usize = 64 << 20;
/// The time that every line was written at.
const WRITTEN: &str = "2026-11-20T03:00:00.000000000Z ";

type Parameters = BTreeMap<String, String>;

pub(super) async fn answer(
    Shared(hub): Shared<Arc<Hub>>,
    method: Method,
    uri: Uri,
    Query(query): Query<Parameters>,
) -> Response {
    let path = uri.path().to_owned();
    let mode = {
        let mut state = hub.lock();
        state.asked.push(Asked { method: method.to_string(), path: path.clone(), query: query.clone() });
        state.modes.iter().find(|(part, _)| path.contains(part.as_str())).map_or(Mode::Fine, |(_, mode)| *mode)
    };
    match mode {
        Mode::Fine => serve(&hub.lock(), &path, &query),
        Mode::Hang => std::future::pending().await,
        Mode::Stall => {
            let whole = serve(&hub.lock(), &path, &query).into_body();
            let bytes = axum::body::to_bytes(whole, BODY_BYTES).await.unwrap_or_default();
            let half = bytes.slice(..bytes.len() / 2);
            let body = stream::iter([Ok::<_, Infallible>(half)]).chain(stream::pending());
            Body::from_stream(body).into_response()
        }
        Mode::Forbidden => {
            let who = "system:serviceaccount:monitoring:llm-diagnose";
            status(403, "Forbidden", &format!("{path} is forbidden: User \"{who}\" cannot read it"))
        }
        Mode::Unauthorized => status(401, "Unauthorized", "Unauthorized"),
        Mode::Status(code) => status(code, "InternalError", "etcdserver: request timed out"),
        Mode::Garbage => "<html><body>Welcome to the hotel's network</body></html>".into_response(),
        Mode::Huge => {
            let piece = Ok::<_, Infallible>(" ".repeat(1 << 20));
            Body::from_stream(stream::iter([Ok("{\"items\":[".to_owned())]).chain(stream::repeat(piece)))
                .into_response()
        }
    }
}

fn status(code: u16, reason: &str, message: &str) -> Response {
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    (StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Json(body)).into_response()
}

fn absent(path: &str) -> Response {
    status(404, "NotFound", &format!("{path} not found"))
}

fn serve(state: &State, path: &str, query: &Parameters) -> Response {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["version"] => Json(json!({ "major": "1", "minor": "34", "gitVersion": "v1.34.2" })).into_response(),
        ["apis"] => Json(groups(state)).into_response(),
        ["apis", group, version] => match resources(state, group, version) {
            Some(plurals) => {
                let resources: Vec<_> = plurals.iter().map(|name| json!({ "name": name, "kind": name })).collect();
                Json(json!({ "groupVersion": format!("{group}/{version}"), "resources": resources })).into_response()
            }
            None => absent(path),
        },
        ["api", "v1", rest @ ..] => below(state, path, "", rest, query),
        ["apis", group, version, rest @ ..] => {
            let plural = if let ["namespaces", _, plural, ..] | [plural, ..] = rest { *plural } else { "" };
            match resources(state, group, version) {
                Some(plurals) if plurals.iter().any(|known| known == plural) => below(state, path, group, rest, query),
                _ => absent(path),
            }
        }
        _ => absent(path),
    }
}

fn resources(state: &State, group: &str, version: &str) -> Option<Vec<String>> {
    let versions = state.groups.get(group)?;
    let (_, plurals) = versions.iter().find(|(known, _)| known == version)?;
    Some(plurals.iter().cloned().collect())
}

fn groups(state: &State) -> Value {
    let version =
        |group: &str, version: &str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let group = |(name, versions): (&String, &Vec<(String, _)>)| {
        let versions: Vec<_> = versions.iter().map(|(known, _)| version(name, known)).collect();
        json!({ "name": name, "preferredVersion": versions[0], "versions": versions })
    };
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": state.groups.iter().map(group).collect::<Vec<_>>() })
}

fn below(state: &State, path: &str, group: &str, rest: &[&str], query: &Parameters) -> Response {
    let of = |plural: &str| state.objects.get(&(group.to_owned(), plural.to_owned()));
    let one = |namespace: &str, plural: &str, name: &str| {
        of(plural).and_then(|objects| objects.get(&(namespace.to_owned(), name.to_owned())))
    };
    match rest {
        ["namespaces", namespace, "pods", name, "log"] if group.is_empty() => match one(namespace, "pods", name) {
            Some(_) => log(state, namespace, name, query),
            None => absent(path),
        },
        ["namespaces", namespace, plural, name] => match one(namespace, plural, name) {
            Some(object) => Json(object).into_response(),
            None => absent(path),
        },
        ["nodes", name] => match one("", "nodes", name) {
            Some(object) => Json(object).into_response(),
            None => absent(path),
        },
        ["namespaces", namespace, plural] => {
            let all = of(plural).into_iter().flatten().filter(|((of, _), _)| of == namespace);
            page(all.map(|(_, object)| object), query)
        }
        [plural] => page(of(plural).into_iter().flatten().map(|(_, object)| object), query),
        _ => absent(path),
    }
}

/// A page of a list: `limit`, `continue`, and the selectors that servers know for these kinds.
fn page<'a>(objects: impl Iterator<Item = &'a Value>, query: &Parameters) -> Response {
    let selected = |object: &&Value| {
        let field = query.get("fieldSelector").and_then(|selector| selector.split_once('='));
        field.is_none_or(|(field, value)| {
            let pointer = format!("/{}", field.replace('.', "/"));
            object.pointer(&pointer).and_then(Value::as_str) == Some(value)
        })
    };
    let all: Vec<&Value> = objects.filter(selected).collect();
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
    let from = number("continue").unwrap_or(0).min(all.len());
    let to = number("limit").map_or(all.len(), |limit| (from + limit).min(all.len()));
    let next = if to < all.len() { to.to_string() } else { String::new() };
    // As for built-in kinds, items do not say their kind.
    let strip = |object: &&Value| {
        let mut object = (*object).clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        object
    };
    let items: Vec<Value> = all[from..to].iter().map(strip).collect();
    Json(json!({ "kind": "List", "apiVersion": "v1", "metadata": { "continue": next }, "items": items }))
        .into_response()
}

/// The last lines first of all, then of these the first bytes.
fn log(state: &State, namespace: &str, pod: &str, query: &Parameters) -> Response {
    let container = query.get("container").cloned().unwrap_or_default();
    let previous = query.get("previous").is_some_and(|text| text == "true");
    let key = (namespace.to_owned(), pod.to_owned(), container.clone(), previous);
    let Some(text) = state.logs.get(&key) else {
        let said = match previous {
            true => format!("previous terminated container \"{container}\" in pod \"{pod}\" not found"),
            false => format!("container \"{container}\" in pod \"{pod}\" is waiting to start: ContainerCreating"),
        };
        return status(400, "BadRequest", &said);
    };
    if state.starts_withheld && !query.contains_key("tailLines") {
        return status(500, "InternalError", "the log's start was rotated away");
    }
    let lines: Vec<&[u8]> = text.split_inclusive(|c| *c == b'\n').collect();
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
    let from = number("tailLines").map_or(0, |most| lines.len().saturating_sub(most));
    let stamped = query.get("timestamps").is_some_and(|text| text == "true");
    let mut sent = Vec::new();
    for line in &lines[from..] {
        // Who gives lines their own times wants those.
        let own = line.starts_with(b"20") && line.get(10) == Some(&b'T');
        sent.extend_from_slice(if stamped && !own { WRITTEN.as_bytes() } else { b"" });
        sent.extend_from_slice(line);
    }
    sent.truncate(number("limitBytes").unwrap_or(usize::MAX));
    sent.into_response()
}
