//! Prometheus' answers: the reader of streams tells the same as a reader of the whole JSON.

use std::ops::ControlFlow;

use knowledge::alert::Labels;
use prom::read_matrix;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::mutation::{mutated, scalar};
use super::{Slowly, corpus, holds};

type Series = (Labels, Vec<(i64, String)>, usize);

/// The series by the reader of streams, which gets so many bytes at once.
fn streamed(body: &[u8], most: usize) -> Result<Vec<Series>, serde_json::Error> {
    let mut all = Vec::new();
    read_matrix(Slowly(body, most), |raw| {
        let samples = raw.samples().map(|(at, text)| (at, String::from_utf8(text.to_vec()).unwrap())).collect();
        all.push((raw.labels.clone(), samples, raw.histograms));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// The series by their places in the whole JSON.
fn whole(body: &Value) -> Vec<Series> {
    let of = |one: &Value| {
        let samples =
            one["values"].as_array().into_iter().flatten().map(|sample| {
                ((sample[0].as_f64().unwrap() * 1e3).round() as i64, sample[1].as_str().unwrap().to_owned())
            });
        let labels = serde_json::from_value(one["metric"].clone()).unwrap();
        (labels, samples.collect(), one["histograms"].as_array().map_or(0, Vec::len))
    };
    body["data"]["result"].as_array().into_iter().flatten().map(of).collect()
}

fn answer() -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map(any::<String>(), any::<String>(), 0..4);
    let sample = (0.0..4e9_f64, any::<String>()).prop_map(|(at, text)| json!([at, text]));
    let histogram = scalar().prop_map(|value| json!([1, value]));
    let series = (labels, prop::collection::vec(sample, 0..5), prop::collection::vec(histogram, 0..3), scalar());
    let series = series.prop_map(|(labels, values, histograms, other)| {
        json!({ "metric": labels, "values": values, "histograms": histograms, "other": other })
    });
    (prop::collection::vec(series, 0..5), scalar(), scalar()).prop_map(|(result, other, more)| {
        json!({ "status": "success", "data": { "resultType": "matrix", "result": result, "stats": other }, "infos": more })
    })
}

#[test]
fn a_stream_tells_the_same_series_as_the_whole_json() {
    holds((answer(), 1..50_usize, any::<bool>()), |(body, most, pretty)| {
        let text = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) }.unwrap();
        let streamed = streamed(&text, most).map_err(|error| TestCaseError::fail(error.to_string()))?;
        // Numbers are compared as they are read, not as they were made.
        prop_assert_eq!(streamed, whole(&serde_json::from_slice(&text).unwrap()));
        Ok(())
    });
}

#[test]
fn a_mutated_answer_is_read_only_where_it_is_json() {
    let tokens = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "null",
        "true",
        "1e999",
        "-",
        "\\ud800",
        "\u{2028}",
        "é",
        "\0",
        "\"metric\":",
        "\"values\":[[1,\"2\"]],",
        "\"result\":[],",
    ];
    holds((mutated(corpus("fuzz/prometheus", "json"), tokens), 1..50_usize), |(body, most)| {
        match streamed(&body, most) {
            Ok(_) => {
                let json = serde_json::from_slice::<IgnoredAny>(&body);
                prop_assert!(json.is_ok(), "{:?}: {}", json, String::from_utf8_lossy(&body));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        Ok(())
    });
}
