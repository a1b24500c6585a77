//! A recorded fleet as a Prometheus of the present.

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::{Json, Router};
use jiff::Timestamp;
use knowledge::clock;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use url::form_urlencoded::{Serializer, parse};

use super::shared;
use crate::chains::moment;

/// Times within so many seconds are one to it, so that a slow machine reads the same values.
const GRAIN: f64 = 300.0;
/// Diagnoses round their time down, so a little before is the same too.
const BEFORE: f64 = 30.0;

/// The real Prometheus, and which of its times stands for which time of the present.
#[derive(Clone)]
struct Replay {
    http: reqwest::Client,
    real: String,
    then: f64,
    now: f64,
}

/// Answers at this port with the history of a fleet of [`crate::chains`]; returns the moment at which its alert would fire.
pub(crate) async fn replay(fleet: String, port: TcpSocket) -> Timestamp {
    let (real, then) = tokio::task::spawn_blocking(move || (shared().url.clone(), moment(&fleet))).await.unwrap();
    let now = clock::now();
    let replay = Replay { http: reqwest::Client::new(), real, then: then as f64, now: now.as_second() as f64 };
    let router = Router::new().fallback(answer).with_state(replay);
    let listener = port.listen(64).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    now
}

async fn answer(State(replay): State<Replay>, method: Method, uri: Uri, body: String) -> (StatusCode, Json<Value>) {
    let Replay { http, real, then, now } = replay;
    let mut asked: Vec<(String, String)> =
        parse(uri.query().unwrap_or(&body).as_bytes()).map(|(name, value)| (name.into(), value.into())).collect();
    let time = |name: &str| asked.iter().find(|(key, _)| key == name)?.1.parse::<f64>().ok();
    let last = time("time").or(time("end")).unwrap_or(now);
    // All times of a question are moved by as much, and those of its answer are moved back.
    let moved = last - (then + ((last - now + BEFORE) / GRAIN).floor() * GRAIN);
    for (_, value) in asked.iter_mut().filter(|(name, _)| ["time", "start", "end"].contains(&name.as_str())) {
        *value = value.parse::<f64>().map_or(value.clone(), |time| (time - moved).to_string());
    }
    let asked = Serializer::new(String::new()).extend_pairs(asked).finish();
    let url = format!("{real}{}", uri.path());
    let sent = match method {
        Method::POST => http.post(url).header("content-type", "application/x-www-form-urlencoded").body(asked),
        _ => http.get(format!("{url}?{asked}")),
    };
    let answered = sent.send().await.unwrap();
    let (status, mut answer) = (answered.status(), answered.json::<Value>().await.unwrap_or_default());
    let shift = |point: &mut Value| point[0] = json!(point[0].as_f64().unwrap_or_default() + moved);
    for row in answer.pointer_mut("/data/result").and_then(Value::as_array_mut).into_iter().flatten() {
        row.get_mut("value").into_iter().for_each(shift);
        row.get_mut("values").and_then(Value::as_array_mut).into_iter().flatten().for_each(shift);
    }
    (status, Json(answer))
}
