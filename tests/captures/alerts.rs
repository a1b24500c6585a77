//! Alerts by other people's rules, on captures that stand beside each other under other labels: whose trouble is it, and what?

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use anyhow::Context;
use llm_diagnose_lab::stack;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::names::Names;
use crate::run;
use crate::stretch::{self, FAULT, Scrapes};

/// The first set's fault begins here, in Unix seconds; each set lies two days after the one before it.
const EPOCH: i64 = 1_760_000_400;
const APART: i64 = 2 * 86_400;
/// What a healthy H100 shows, beside its utilisation and its Xid.
const GPU: [(&str, u32); 5] = [
    ("DCGM_FI_DEV_FB_USED", 73_000),
    ("DCGM_FI_DEV_FB_FREE", 7_000),
    ("DCGM_FI_DEV_GPU_TEMP", 61),
    ("DCGM_FI_DEV_POWER_USAGE", 512),
    ("DCGM_FI_DEV_SM_CLOCK", 1_830),
];

type Texts = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sets: BTreeMap<String, Set>,
    alerts: Vec<Alert>,
}

/// What stands in a Prometheus at one time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    captures: Vec<Placed>,
    #[serde(default)]
    gpus: Vec<Gpu>,
    /// The beginning of metric names, and what stands there instead.
    #[serde(default)]
    spelling: Option<(String, String)>,
}

/// A capture under other labels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Placed {
    id: String,
    place: Texts,
}

/// A GPU of dcgm-exporter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gpu {
    labels: Texts,
    /// Percent.
    busy: u32,
    /// The Xid that its gauge shows from the fault's beginning on.
    #[serde(default)]
    xid: u32,
    /// True if it does no work from then on.
    #[serde(default)]
    stops: bool,
}

/// An alert with its truth.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    set: String,
    /// The rule's expression.
    expr: String,
    labels: Texts,
    /// The root causes that are right; none where nothing is wrong.
    #[serde(default)]
    right: Vec<String>,
    /// For an alert that names no pool: the namespaces that are told apart.
    #[serde(default)]
    pools: Vec<String>,
}

impl Gpu {
    fn write(&self, started: i64, out: &mut String) {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let moving = [("DCGM_FI_DEV_GPU_UTIL", self.busy), ("DCGM_FI_DEV_XID_ERRORS", 0)];
        let day = 86_400;
        for (name, value) in GPU.into_iter().chain(moving) {
            for span in [started - day - 1_800..started - day + 1_800, started - 2_700..started + FAULT] {
                for time in span.step_by(15) {
                    let value = match name {
                        "DCGM_FI_DEV_XID_ERRORS" if time >= started => self.xid,
                        "DCGM_FI_DEV_GPU_UTIL" if time >= started && self.stops => 0,
                        _ => value,
                    };
                    writeln!(out, "{name}{{{}}} {value} {time}", labels.join(",")).unwrap();
                }
            }
        }
    }
}

/// Writes a set's series, grouped by name as the format wants it.
fn history(set: &Set, started: i64, names: Option<&Names>) -> anyhow::Result<String> {
    let mut text = String::new();
    for placed in &set.captures {
        let place: Vec<(&str, &str)> = placed.place.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let capture = run::capture(&run::directory(), &placed.id, names)?.placed(&place);
        stretch::incident(&capture, Scrapes { started, step: 15 }, &mut text);
    }
    set.gpus.iter().for_each(|gpu| gpu.write(started, &mut text));
    let spelt = |line: &str| match &set.spelling {
        Some((from, to)) if line.starts_with(from.as_str()) => line.replacen(from.as_str(), to, 1),
        _ => line.to_owned(),
    };
    let mut families: BTreeMap<String, String> = BTreeMap::new();
    // Two series of a capture may have become one; the first of them counts.
    let (mut written, mut last, mut is_new) = (BTreeSet::new(), String::new(), false);
    for line in text.lines().map(spelt) {
        let series = line.rsplitn(3, ' ').last().unwrap_or_default();
        if series != last {
            let mut labels: Vec<&str> = series.split(['{', '}']).flat_map(|part| part.split("\",")).collect();
            labels.sort_unstable();
            // An empty label is none.
            let told = labels.iter().map(|label| label.trim_end_matches('"')).filter(|label| !label.ends_with('='));
            is_new = written.insert(told.collect::<Vec<_>>().join(","));
            last = series.to_owned();
        }
        if is_new {
            let name = series.split('{').next().unwrap_or_default().to_owned();
            writeln!(families.entry(name).or_default(), "{line}").unwrap();
        }
    }
    Ok(families.into_values().chain(["# EOF\n".to_owned()]).collect())
}

/// What Alertmanager sends of an alert with these labels, and with its rule's expression if that is known.
pub(crate) fn webhook(labels: &Value, expr: Option<&str>, at: i64) -> Value {
    let query = expr.map(|expr| format!("?g0.expr={}&g0.tab=1", form_urlencoded(expr))).unwrap_or_default();
    let starts = jiff::Timestamp::from_second(at - 240).unwrap().to_string();
    let firing = json!({
        "status": "firing", "labels": labels, "annotations": {}, "startsAt": starts,
        "endsAt": "0001-01-01T00:00:00Z", "fingerprint": "0123456789abcdef",
        "generatorURL": format!("http://prometheus-0:9090/graph{query}"),
    });
    json!({
        "version": "4", "status": "firing", "receiver": "llm-diagnose", "groupKey": "{}:{alertname=\"a\"}",
        "groupLabels": { "alertname": labels["alertname"] }, "commonLabels": labels, "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093", "truncatedAlerts": 0, "alerts": [firing],
    })
}

fn form_urlencoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(encoded).collect()
}

/// Says what is wrong with an answer; `None` if it is right.
fn wrong(alert: &Alert, answer: &Value) -> Option<String> {
    let root = answer["causes"][0]["id"].as_str();
    let sure = answer["causes"][0]["verdict"].as_str() == Some("likely");
    if !alert.pools.is_empty() {
        let told = answer["pools"].to_string();
        let missing = alert.pools.iter().find(|pool| !told.contains(&format!("\"{pool}\"")));
        return missing.map(|pool| format!("pool {pool} is not told apart: {told}"));
    }
    let is_right = match (alert.right.as_slice(), root) {
        ([], root) => root.is_none() || !sure,
        (right, Some(root)) => {
            let chain = answer["causes"][0]["chain"].to_string();
            right.iter().any(|right| right == root || chain.contains(&format!("\"{right}\"")))
        }
        (_, None) => false,
    };
    (!is_right).then(|| format!("expected {:?}, found {}", alert.right, answer["causes"][0]["chain"]))
}

/// Asks the program about every alert; returns what is wrong.
pub(crate) async fn wrong_answers(names: Option<&Names>) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(run::directory().join("alerts.yaml"))?;
    let file: File = serde_saphyr::from_str(&text).context("in alerts.yaml")?;
    let scratch = tempfile::tempdir()?;
    let mut builder = stack::Prometheus::builder();
    let mut times: BTreeMap<&str, i64> = BTreeMap::new();
    for ((name, set), place) in file.sets.iter().zip(0..) {
        let started = EPOCH + place * APART;
        let path = scratch.path().join(format!("{name}.om"));
        std::fs::write(&path, history(set, started, names)?)?;
        builder = builder.backfill(path);
        times.insert(name, started + FAULT);
    }
    let server = builder.start().await?;
    let mut out = Vec::new();
    for alert in &file.alerts {
        let at = times[alert.set.as_str()];
        let path = scratch.path().join("webhook.json");
        std::fs::write(&path, webhook(&json!(alert.labels), Some(&alert.expr), at).to_string())?;
        let mut ask = Command::new(env!("CARGO_BIN_EXE_llm-diagnose"));
        ask.args(["diagnose", "--output", "json", "--prometheus", &server.url, "--at", &at.to_string(), "--alert"]);
        let output = ask.arg(&path).output()?;
        let answer: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let name = format!("{} ({})", alert.labels["alertname"], alert.set);
        out.extend(wrong(alert, &answer).map(|wrong| format!("{name}: {wrong}")));
    }
    Ok(out)
}
