//! The files of a case: what Alertmanager would send, the engine's pages before and during the fault, and the truth apart.
//!
//! A directory has the case's number and nothing of its truth, so that a tool cannot read it off a path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use llm_diagnose_lab::benchmark::Question;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::alerts;
use crate::run::{Case, Histories};

/// A series is on a page if it was scraped so long before the page's time.
const FRESH: &str = "60s";

/// Writes the files of a case into a directory of its number, and returns the question about it.
pub(crate) async fn question(
    case: &Case,
    histories: Histories,
    number: usize,
    into: &Path,
    url: &str,
) -> anyhow::Result<Question> {
    let directory = into.join(number.to_string());
    std::fs::create_dir_all(&directory)?;
    let file = |name: &str, text: String| -> anyhow::Result<PathBuf> {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    let mut labels = case.labels.clone();
    labels.insert("alertname".to_owned(), case.alert.clone());
    Ok(Question {
        prometheus_url: url.to_owned(),
        alert_file: file("alert.json", format!("{:#}\n", alerts::webhook(&json!(labels), None, case.at())))?,
        metrics_before: file("before.prom", page(url, case, histories, case.before()).await?)?,
        metrics_during: file("during.prom", page(url, case, histories, case.at()).await?)?,
        engine: case.engine().to_owned(),
        at: case.at(),
    })
}

/// Writes the list of cases, and in a file of its own what is right of each.
pub(crate) fn index(cases: &[Case], into: &Path) -> anyhow::Result<()> {
    let numbered = |of: fn(&Case) -> Value| -> String {
        let rows = cases.iter().enumerate().map(|(number, case)| {
            let mut row = of(case);
            row["case"] = number.into();
            row
        });
        format!("{:#}\n", Value::Array(rows.collect()))
    };
    std::fs::create_dir_all(into)?;
    std::fs::write(into.join("cases.json"), numbered(|case| json!({ "engine": case.engine(), "at": case.at() })))?;
    let answers = numbered(|case| json!({ "id": case.id, "what": case.what, "accepted": case.right }));
    Ok(std::fs::write(into.join("answers.json"), answers)?)
}

/// The newest value of each of the case's series at a time, as a page in the text format; `up` is on no page. Labels of
/// targets stay, for some cases have several targets.
async fn page(url: &str, case: &Case, histories: Histories, at: i64) -> anyhow::Result<String> {
    // A case that stands alone is alone at its time.
    let namespace = match (histories, case.labels.get("namespace")) {
        (Histories::Together, Some(namespace)) => format!(",namespace=\"{namespace}\""),
        _ => String::new(),
    };
    let query = format!("last_over_time({{__name__!~\"up|\"{namespace}}}[{FRESH}])");
    let asked = reqwest::Client::new().get(format!("{url}/api/v1/query"));
    let answer = asked.query(&[("query", query), ("time", at.to_string())]).send().await?.error_for_status()?;
    let answer: Answer = answer.json().await?;
    let mut lines = Vec::new();
    for Row { mut metric, value: (_, value) } in answer.data.result {
        let name = metric.remove("__name__").unwrap_or_default();
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels = metric.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        lines.push(format!("{name}{{{}}} {value}\n", labels.collect::<Vec<_>>().join(",")));
    }
    lines.sort_unstable();
    Ok(lines.concat())
}

#[derive(Deserialize)]
struct Answer {
    data: Rows,
}

#[derive(Deserialize)]
struct Rows {
    result: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}
