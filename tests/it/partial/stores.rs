//! The shared Prometheus behind a proxy that answers as Thanos or VictoriaMetrics do while one of their stores is away:
//! without the series of that store, with a warning.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{StatusCode, Uri};
use knowledge::promql::parse;
use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::Expr;
use promql_parser::util::visitor::{ExprVisitorMut, walk_expr_mut};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{run, shared};

/// Thanos' words while a store refuses connections, as its `pkg/store/proxy.go` builds them.
pub(super) const THANOS: &str = "receive series from Addr: 10.0.0.7:10901 LabelSets: {prometheus=\"eu-1\", \
    prometheus_replica=\"0\"} MinTime: 1700000000000 MaxTime: 9223372036854775807: rpc error: code = Unavailable desc = \
    connection error: desc = \"transport: Error while dialing: dial tcp 10.0.0.7:10901: connect: connection refused\"";
/// PromQL's words about a query, which stand among the warnings too (Prometheus, `util/annotations`).
pub(super) const ANNOTATION: &str =
    "PromQL warning: bucket label \"le\" is missing or has a malformed value of \"\" (1:5)";

/// What the proxy does.
#[derive(Clone, Default)]
pub(super) struct Stores {
    /// The series of the store that is away: a label and its value.
    away: Option<(&'static str, &'static str)>,
    /// The first evaluation time that lacks them, in unix seconds.
    since: i64,
    /// Fields of each such answer beside `data`.
    says: Option<Value>,
    /// Only answers below this path lack the series.
    only: &'static str,
    /// The status and the body with which packs are refused.
    refuses: Option<(u16, &'static str)>,
    /// Packs that were refused, and all other queries.
    counts: Arc<[AtomicUsize; 2]>,
}

impl Stores {
    pub(super) fn without(label: &'static str, value: &'static str) -> Self {
        Self { away: Some((label, value)), ..Self::default() }
    }

    /// All series are there.
    pub(super) fn whole() -> Self {
        Self::default()
    }

    /// Answers say this as `warnings`.
    pub(super) fn warning(self, text: &str) -> Self {
        Self { says: Some(json!({ "warnings": [text] })), ..self }
    }

    /// Answers say so as a cluster of VictoriaMetrics does.
    pub(super) fn flagged(self) -> Self {
        Self { says: Some(json!({ "isPartial": true })), ..self }
    }

    /// Evaluations before this second are complete.
    pub(super) fn since(self, since: i64) -> Self {
        Self { since, ..self }
    }

    /// Only range queries are concerned.
    pub(super) fn of_ranges(self) -> Self {
        Self { only: "/api/v1/query_range", ..self }
    }

    /// Packs are refused.
    pub(super) fn refusing_packs(self, status: u16, body: &'static str) -> Self {
        Self { refuses: Some((status, body)), ..self }
    }

    /// Returns how many packs were refused, and how many other queries came.
    pub(super) fn counts(&self) -> [usize; 2] {
        [0, 1].map(|i| self.counts[i].load(Ordering::Relaxed))
    }

    /// Serves, and returns the address.
    pub(super) fn serve(&self) -> String {
        let (stores, real) = (self.clone(), shared().url.clone());
        run(async move {
            let http = reqwest::Client::new();
            let pass = move |uri: Uri, body: String| {
                let (stores, http, real) = (stores.clone(), http.clone(), real.clone());
                async move { stores.answer(&http, &real, &uri, &body).await }
            };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            tokio::spawn(async move { axum::serve(listener, Router::new().fallback(pass)).await });
            url
        })
    }

    async fn answer(&self, http: &reqwest::Client, real: &str, uri: &Uri, body: &str) -> (StatusCode, String) {
        let mut form: Vec<(String, String)> =
            reqwest::Url::parse(&format!("http://form/?{body}")).unwrap().query_pairs().into_owned().collect();
        if !uri.path().starts_with("/api/v1/query") {
            return read(http.get(format!("{real}{uri}"))).await;
        }
        let is_pack = form.iter().any(|(_, value)| value.contains("llm_diagnose_ask"));
        let refusal = self.refuses.filter(|_| is_pack);
        self.counts[usize::from(refusal.is_none())].fetch_add(1, Ordering::Relaxed);
        if let Some((status, body)) = refusal {
            return (StatusCode::from_u16(status).unwrap(), body.to_owned());
        }
        let time = |name: &str| Some(form.iter().find(|(key, _)| key == name)?.1.parse::<f64>().unwrap());
        let evaluated = time("time").or_else(|| time("end")).unwrap_or(f64::MAX);
        let is_concerned = evaluated >= self.since as f64 && uri.path().starts_with(self.only);
        if let Some((label, value)) = self.away.filter(|_| is_concerned) {
            form.iter_mut().filter(|(key, _)| key == "query").for_each(|(_, query)| {
                let mut expr = parse(query).unwrap();
                walk_expr_mut(&mut Without(Matcher::new(MatchOp::NotEqual, label, value)), &mut expr).unwrap();
                *query = expr.to_string();
            });
        }
        let (status, text) = read(http.post(format!("{real}{}", uri.path())).form(&form)).await;
        match &self.says {
            Some(Value::Object(says)) if is_concerned => {
                let mut answer: Value = serde_json::from_str(&text).unwrap();
                answer.as_object_mut().unwrap().extend(says.clone());
                (status, answer.to_string())
            }
            _ => (status, text),
        }
    }
}

async fn read(request: reqwest::RequestBuilder) -> (StatusCode, String) {
    let answer = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

/// Takes series out of every selector.
struct Without(Matcher);

impl ExprVisitorMut for Without {
    type Error = ();

    fn pre_visit(&mut self, expr: &mut Expr) -> Result<bool, ()> {
        match expr {
            Expr::VectorSelector(selector) => selector.matchers.matchers.push(self.0.clone()),
            Expr::MatrixSelector(selector) => selector.vs.matchers.matchers.push(self.0.clone()),
            _ => {}
        }
        Ok(true)
    }
}
