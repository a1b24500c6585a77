//! Exporters' pages: what is printed is read back, and a page that cannot be read is named by its line.

use std::fmt::Write;

use knowledge::alert::Labels;
use proptest::prelude::*;
use sources::exporter::{Sample, parse};

use super::mutation::mutated_text;
use super::{corpus, holds};

fn sample() -> impl Strategy<Value = Sample> {
    let labels = prop::collection::btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,8}", any::<String>(), 0..4);
    ("[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", labels, any::<f64>()).prop_map(|(name, labels, value)| Sample {
        name,
        labels,
        value,
    })
}

/// Prints samples as exporters do, with what may stand around them.
fn printed<'a>(samples: impl IntoIterator<Item = &'a Sample>, times: bool, comments: bool) -> String {
    let mut page = String::new();
    for sample in samples {
        if comments {
            writeln!(page, "# HELP {} what it is\n# TYPE {} gauge\n", sample.name, sample.name).unwrap();
        }
        page.push_str(&sample.name);
        if !sample.labels.is_empty() {
            let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let labels: Vec<_> =
                sample.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            write!(page, "{{{}}}", labels.join(",")).unwrap();
        }
        // Go's names of what is no number.
        match sample.value {
            value if value.is_nan() => page.push_str(" NaN"),
            f64::INFINITY => page.push_str(" +Inf"),
            f64::NEG_INFINITY => page.push_str(" -Inf"),
            value => write!(page, " {value:e}").unwrap(),
        }
        page.push_str(if times { " 1700000000000 # {trace_id=\"a\"} 0.5 1700000000.5\n" } else { "\n" });
    }
    page
}

/// Samples in a form that can be compared, NaN too.
fn comparable(samples: &[Sample]) -> Vec<(String, Labels, String)> {
    samples.iter().map(|one| (one.name.clone(), one.labels.clone(), format!("{:?}", one.value))).collect()
}

#[test]
fn samples_that_are_printed_are_read_back() {
    holds((prop::collection::vec(sample(), 0..6), any::<bool>(), any::<bool>()), |(samples, times, comments)| {
        let page = printed(&samples, times, comments);
        let read = parse(&page, |_| true).map_err(|error| TestCaseError::fail(format!("{error}\n{page}")))?;
        prop_assert_eq!(comparable(&read), comparable(&samples));
        Ok(())
    });
}

#[test]
fn a_page_is_read_as_it_prints_or_is_an_error_that_names_the_line() {
    let pages = ["vllm", "sglang", "litellm", "dynamo"].into_iter().flat_map(|folder| corpus(folder, "prom"));
    // A part of each page is enough to be mutated, and is quick to read.
    let part =
        |page: Vec<u8>| page.split_inclusive(|byte| *byte == b'\n').skip(20).take(30).flatten().copied().collect();
    let tokens =
        &["{", "}", "\"", "\\", ",", "=", " # ", "\n", "\0", "NaN", "+Inf", "_bucket", "le=", "é", "\r", " 1 2"];
    holds(mutated_text(pages.map(part).collect(), tokens), |page| {
        match parse(&page, |_| true) {
            Ok(samples) => {
                let again = parse(&printed(&samples, false, false), |_| true);
                let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(comparable(&again), comparable(&samples));
                prop_assert!(samples.len() <= page.lines().count());
            }
            Err(error) => {
                let said = error.to_string();
                prop_assert!(said.contains("line ") || said.contains("breaks off"), "{}", said);
                prop_assert!(said.chars().count() < 200, "{}", said);
            }
        }
        Ok(())
    });
}
