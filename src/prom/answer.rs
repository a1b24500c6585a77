//! Parses Prometheus' answers leniently: native histograms, unknown fields and values that are no finite number are left
//! out; any other shape is an error.
//!
//! `prometheus-http-query` drops warnings and fails a whole result for one native histogram, so its raw response is
//! parsed here. Source of the shape: Prometheus HTTP API, "Format overview".

use std::io::Read;
use std::ops::ControlFlow;

use reqwest::{Response, StatusCode};

use super::PromError;
use super::chunks::{Limits, ReceivedBody, receive};
use super::matrix::{MatrixEnvelope, Raw, read_matrix};
use super::memory::{Answer, AnswerMemory, labels_bytes};
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

/// An item of an answer.
pub(super) trait Item: Send + Sized + 'static {
    /// The types of results that contain such items.
    const TYPES: &'static [&'static str];

    /// Converts a parsed series; `None` if it has no such item.
    fn of(raw: &mut Raw) -> Option<Self>;

    /// Returns the memory that it takes, in bytes.
    fn bytes(&self) -> usize;
}

impl Item for Row {
    const TYPES: &'static [&'static str] = &["vector", "scalar"];

    fn of(raw: &mut Raw) -> Option<Self> {
        let value = finite(raw.samples().next()?.1)?;
        Some(Self { labels: std::mem::take(&mut raw.labels), value })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + labels_bytes(&self.labels)
    }
}

impl Item for Series {
    const TYPES: &'static [&'static str] = &["matrix"];

    fn of(raw: &mut Raw) -> Option<Self> {
        let mut samples: Vec<_> = raw.samples().filter_map(|(at, value)| Some((at, finite(value)?))).collect();
        // Its memory is counted by its length.
        samples.shrink_to_fit();
        Some(Self { labels: std::mem::take(&mut raw.labels), samples })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + labels_bytes(&self.labels) + size_of_val(&*self.samples)
    }
}

/// Reads an answer while it arrives.
pub(super) async fn read<T: Item>(
    response: Response,
    limits: Limits,
    memory: &AnswerMemory,
) -> Result<Answer<T>, PromError> {
    let (status, memory) = (response.status(), memory.clone());
    let ReceivedBody { parsed, transfer } = receive(response, limits, move |body| parse(status, body, memory)).await;
    transfer?;
    parsed.unwrap_or_else(|error| Err(PromError::unexpected(format!("it could not be read: {error}"))))
}

/// Builds the error of a response without success.
pub(super) async fn refusal(response: Response, limits: Limits) -> PromError {
    let problem = no_answer(response.status(), false);
    read::<Row>(response, limits, &AnswerMemory::with(limits.bytes)).await.err().unwrap_or(problem)
}

fn parse<T: Item>(status: StatusCode, body: &mut dyn Read, memory: AnswerMemory) -> Result<Answer<T>, PromError> {
    let mut answer = Answer::default();
    let mut full = None;
    let mut add = |item: T| {
        let bytes = item.bytes();
        memory.add(&mut answer, item, bytes)
    };
    let envelope = read_matrix(body, |raw| match T::of(raw).map_or(Ok(()), &mut add) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            full = Some(error);
            ControlFlow::Break(())
        }
    });
    match (full, envelope) {
        (Some(error), _) => Err(error),
        (None, Ok(envelope)) => {
            let missing = envelope.missing();
            accept::<T>(status, envelope).map(|()| answer.with_missing(missing))
        }
        (None, Err(error)) if error.is_data() => {
            Err(PromError::foreign(status, true, format!("an answer of an unknown shape: {error}")))
        }
        (None, Err(_)) => Err(no_answer(status, false)),
    }
}

fn no_answer(status: StatusCode, is_json: bool) -> PromError {
    PromError::foreign(status, is_json, format!("HTTP {status} with a body that is no API answer"))
}

/// Checks that an answer has the expected result.
fn accept<T: Item>(status: StatusCode, envelope: MatrixEnvelope) -> Result<(), PromError> {
    // A proxy that has no server behind it may say so in JSON of its own.
    if !["success", "error"].contains(&envelope.status.as_str()) && status.is_server_error() {
        return Err(no_answer(status, true));
    }
    if envelope.status != "success" {
        // Cortex answers 500 `execution` while a part of it is away: the status tells whose fault it is.
        let kind = envelope.error_type.filter(|kind| !(status.is_server_error() && kind == "execution"));
        return Err(PromError::Refused {
            kind: kind.unwrap_or_else(|| status.to_string()),
            message: envelope.error.unwrap_or_default(),
        });
    }
    match envelope.result_type {
        Some(kind) if T::TYPES.contains(&kind.as_str()) => Ok(()),
        Some(kind) => Err(PromError::unexpected(format!("expected a {}, found a {kind}", T::TYPES[0]))),
        None => Err(PromError::unexpected("an answer without `resultType`")),
    }
}

fn finite(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse::<f64>().ok().filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Item>(body: &str) -> Result<Answer<T>, PromError> {
        parse(StatusCode::OK, &mut body.as_bytes(), AnswerMemory::with(1 << 20))
    }

    #[test]
    fn nan_infinite_and_histogram_series_are_left_out() {
        let rows: Answer<Row> = read(
            r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"pod":"a"},"value":[1,"0.5"]},{"metric":{"pod":"b"},"value":[1,"NaN"]},
            {"metric":{"pod":"c"},"value":[1,"+Inf"]},{"metric":{"pod":"d"},"histogram":[1,{"count":"1"}]}]}}"#,
        )
        .unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].labels["pod"].as_str(), rows[0].value), ("a", 0.5));
    }

    #[test]
    fn a_scalar_is_a_row_without_labels() {
        let rows: Answer<Row> =
            read(r#"{"status":"success","data":{"result":[1700000000.5,"42"],"resultType":"scalar"}}"#).unwrap();
        assert_eq!(rows[..], [Row { labels: Labels::new(), value: 42.0 }]);
        let none: Answer<Row> =
            read(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}"#).unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn a_range_keeps_its_times_and_leaves_out_what_is_no_number() {
        let series: Answer<Series> = read(
            r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"pod":"a"},"values":[[1.5,"0.5"],[2.5,"NaN"],[3.5,"2"]]},{"metric":{"pod":"b"},"histograms":[]}]}}"#,
        )
        .unwrap();
        assert_eq!(series[0].samples, [(1_500, 0.5), (3_500, 2.0)]);
        assert_eq!(series[1].samples, []);
    }

    #[test]
    fn an_answer_knows_that_a_part_of_the_data_is_missing() {
        let missing = |beside: &str| {
            let body = format!(r#"{{"status":"success",{beside}"data":{{"resultType":"vector","result":[]}}}}"#);
            read::<Row>(&body).unwrap().incomplete().map(str::to_owned)
        };
        assert_eq!(missing(r#""isPartial":true,"#).as_deref(), Some("not every store answered"));
        let annotation = r#""PromQL warning: bucket label \"le\" is missing or has a malformed value of \"\" (1:5)""#;
        let store = r#""receive series from Addr: 10.0.0.7:10901 LabelSets: {a=\"b\"}: rpc error: code = Unavailable""#;
        let both = missing(&format!(r#""warnings":[{annotation},{store}],"#));
        assert_eq!(both.as_deref(), Some("receive series from Addr: 10.0.0.7:10901 …: rpc error: code = Unavailable"));
        for complete in ["", r#""isPartial":false,"#, r#""warnings":null,"#, &format!(r#""warnings":[{annotation}],"#)]
        {
            assert_eq!(missing(complete), None, "{complete}");
        }
    }

    #[test]
    fn an_unknown_error_type_and_a_login_page_are_told_apart() {
        let error = |body: &str| {
            parse::<Row>(StatusCode::TOO_MANY_REQUESTS, &mut body.as_bytes(), AnswerMemory::with(1 << 20)).unwrap_err()
        };
        assert!(matches!(error(r#"{"status":"error","errorType":"too_many_requests","error":"slow down"}"#),
            PromError::Refused { kind, .. } if kind == "too_many_requests"));
        assert!(matches!(error(r#"{"status":"error"}"#), PromError::Refused { kind, .. } if kind.starts_with("429")));
        let others = [
            r#"{"status":"success"}"#,
            r#"{"status":"success","data":null}"#,
            r#"{"status":"success","data":{"result":[]}}"#,
            r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#,
        ];
        for page in ["<html>login</html>", "", "[]"].into_iter().chain(others) {
            assert!(matches!(error(page), PromError::NotPrometheus { silent: false, .. }), "{page}");
        }
    }

    #[test]
    fn an_answer_that_is_too_large_is_not_read_to_its_end() {
        let row = |n: usize| format!(r#"{{"metric":{{"pod":"{n}"}},"value":[1,"1"]}}"#);
        let rows: Vec<String> = (0..2_000).map(row).collect();
        let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}"#, rows.join(","));
        let error = read::<Row>(&body).unwrap_err();
        assert!(matches!(error, PromError::TooLarge { .. }), "{error}");
        assert!(error.to_string().contains("memory limit"), "{error}");
    }
}
