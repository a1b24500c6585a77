//! Parses Prometheus' answers leniently: series of an unexpected shape are skipped and cause no error.
//!
//! `prometheus-http-query` drops warnings and fails a whole result for one native histogram, so its raw response is
//! parsed here. Source of the shape: Prometheus HTTP API, "Format overview".

use serde::Deserialize;
use serde_json::value::RawValue;

use super::PromError;
use knowledge::alert::Labels;

/// One series of an instant query's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The series' labels.
    pub labels: Labels,
    /// The value; never NaN or infinite, such rows are left out.
    pub value: f64,
}

/// One series of a range query's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The series' labels.
    pub labels: Labels,
    /// Unix milliseconds and values, in order; never NaN or infinite.
    pub samples: Vec<(i64, f64)>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    status: String,
    #[serde(default, borrow)]
    data: Option<Data<'a>>,
    #[serde(default, rename = "errorType")]
    error_type: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

/// The `data` of an answer; the shape of `result` depends on `resultType`, which may come after it.
#[derive(Deserialize)]
struct Data<'a> {
    #[serde(rename = "resultType")]
    kind: String,
    #[serde(borrow)]
    result: &'a RawValue,
}

#[derive(Deserialize)]
struct Sampled {
    #[serde(default)]
    metric: Labels,
    value: Option<(f64, String)>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

pub(super) async fn read_rows(response: reqwest::Response, most: usize) -> Result<Vec<Row>, PromError> {
    let status = response.status();
    parse(status, &body(response, most).await?)?.map_or(Ok(Vec::new()), rows)
}

pub(super) async fn read_series(response: reqwest::Response, most: usize) -> Result<Vec<Series>, PromError> {
    let status = response.status();
    parse(status, &body(response, most).await?)?.map_or(Ok(Vec::new()), series)
}

/// Reads the body of a response of at most `most` bytes.
///
/// # Errors
/// If it is larger, or the connection fails.
pub(super) async fn body(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, PromError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > most => {
                return Err(PromError::NotPrometheus(format!("the answer is larger than {} MiB", most >> 20)));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(PromError::from_http(error)),
        }
    }
}

/// Builds the error that a response without success stands for.
pub(super) async fn refusal(response: reqwest::Response, most: usize) -> PromError {
    let status = response.status();
    let problem = || format!("HTTP {status} with a body that is no API answer");
    match body(response, most).await {
        Ok(body) => parse(status, &body).err().unwrap_or_else(|| PromError::NotPrometheus(problem())),
        Err(error) => error,
    }
}

fn parse(status: reqwest::StatusCode, body: &[u8]) -> Result<Option<Data<'_>>, PromError> {
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(body) else {
        return Err(PromError::NotPrometheus(format!("HTTP {status} with a body that is no API answer")));
    };
    match (envelope.status.as_str(), envelope.data) {
        ("success", data) => Ok(data),
        _ => Err(PromError::Refused {
            kind: envelope.error_type.unwrap_or_else(|| status.to_string()),
            message: envelope.error.unwrap_or_default(),
        }),
    }
}

fn rows(data: Data<'_>) -> Result<Vec<Row>, PromError> {
    match data.kind.as_str() {
        "vector" => {
            let series: Vec<Sampled> = serde_json::from_str(data.result.get())
                .map_err(|e| PromError::NotPrometheus(format!("a vector of an unknown shape: {e}")))?;
            Ok(series.into_iter().filter_map(|s| Some(Row { labels: s.metric, value: finite(&s.value?.1)? })).collect())
        }
        "scalar" => {
            let (_, value): (f64, String) = serde_json::from_str(data.result.get())
                .map_err(|e| PromError::NotPrometheus(format!("a scalar of an unknown shape: {e}")))?;
            Ok(finite(&value).map(|value| Row { labels: Labels::new(), value }).into_iter().collect())
        }
        other => Err(PromError::NotPrometheus(format!("expected a vector, found {other}"))),
    }
}

fn series(data: Data<'_>) -> Result<Vec<Series>, PromError> {
    if data.kind != "matrix" {
        return Err(PromError::NotPrometheus(format!("expected a matrix, found {}", data.kind)));
    }
    let series: Vec<Sampled> = serde_json::from_str(data.result.get())
        .map_err(|e| PromError::NotPrometheus(format!("a matrix of an unknown shape: {e}")))?;
    let samples = |values: &[(f64, String)]| {
        values.iter().filter_map(|(at, value)| Some(((at * 1e3).round() as i64, finite(value)?))).collect()
    };
    Ok(series.into_iter().map(|s| Series { samples: samples(&s.values), labels: s.metric }).collect())
}

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_infinite_and_histogram_series_are_left_out() {
        let body = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"pod":"a"},"value":[1,"0.5"]},{"metric":{"pod":"b"},"value":[1,"NaN"]},
            {"metric":{"pod":"c"},"value":[1,"+Inf"]},{"metric":{"pod":"d"},"histogram":[1,{"count":"1"}]}]}}"#;
        let rows = rows(parse(reqwest::StatusCode::OK, body).unwrap().unwrap()).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].labels["pod"].as_str(), rows[0].value), ("a", 0.5));
    }

    #[test]
    fn a_range_keeps_its_times_and_leaves_out_what_is_no_number() {
        let body = br#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"pod":"a"},"values":[[1.5,"0.5"],[2.5,"NaN"],[3.5,"2"]]},{"metric":{"pod":"b"},"histograms":[]}]}}"#;
        let series = series(parse(reqwest::StatusCode::OK, body).unwrap().unwrap()).unwrap();
        assert_eq!(series[0].samples, [(1_500, 0.5), (3_500, 2.0)]);
        assert_eq!(series[1].samples, []);
    }

    #[test]
    fn an_unknown_error_type_and_a_login_page_are_told_apart() {
        let error = |body: &[u8]| parse(reqwest::StatusCode::TOO_MANY_REQUESTS, body).err().unwrap();
        assert!(matches!(error(br#"{"status":"error","errorType":"too_many_requests","error":"slow down"}"#),
            PromError::Refused { kind, .. } if kind == "too_many_requests"));
        assert!(matches!(error(b"<html>login</html>"), PromError::NotPrometheus(_)));
    }
}
