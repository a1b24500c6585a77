//! Stand-ins for what a bundle asks beside Prometheus and Kubernetes: engines' own endpoints, and Loki. They answer as
//! told, also badly, and remember every request.

mod engine;
mod loki;

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;

pub use engine::FakeEngine;
pub use loki::FakeLoki;

/// How a server answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Manner {
    /// As it should.
    Fine,
    /// With a status, and a sentence.
    Status(u16, String),
    /// Takes the connection and says nothing.
    Hang,
    /// Sends one somewhere else.
    Redirect(String),
    /// Bytes that mean nothing.
    Garbage,
    /// The page of a login, with status 200.
    Login,
    /// JSON that breaks off.
    Cut,
    /// This many bytes of JSON that is fine.
    Huge(usize),
    /// One byte each 200 ms, without end.
    Drip,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`.
    pub method: Method,
    /// The path and the query.
    pub path: String,
    /// Headers by their lower-case names.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What a manner other than [`Manner::Fine`] answers.
async fn badly(manner: Manner) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    match manner {
        Manner::Fine => StatusCode::OK.into_response(),
        Manner::Status(status, said) => {
            (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), said).into_response()
        }
        Manner::Hang => std::future::pending().await,
        Manner::Redirect(to) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response(),
        Manner::Garbage => vec![0x00, 0xff, 0xfe, b'{', 0x07, 0x80].into_response(),
        Manner::Login => {
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "<!DOCTYPE html><html>Log in</html>").into_response()
        }
        Manner::Cut => (json, "{\"version\": \"0.3").into_response(),
        Manner::Huge(bytes) => {
            let zeros = Bytes::from("0,".repeat(32 << 10));
            let chunks = bytes.div_ceil(zeros.len());
            let inside = futures::stream::repeat(zeros).take(chunks);
            let all = futures::stream::iter([Bytes::from("[")])
                .chain(inside)
                .chain(futures::stream::iter([Bytes::from("0]")]));
            (json, Body::from_stream(all.map(Ok::<_, Infallible>))).into_response()
        }
        Manner::Drip => {
            let drops = futures::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Some((Ok::<_, Infallible>(Bytes::from(" ")), ()))
            });
            (json, Body::from_stream(drops)).into_response()
        }
    }
}

/// A request as it is remembered.
fn remembered(method: &Method, uri: &axum::http::Uri, headers: &axum::http::HeaderMap) -> Request {
    let path = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    Request { method: method.clone(), path, headers }
}
