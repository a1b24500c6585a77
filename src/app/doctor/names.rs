//! `doctor`'s check of the user's own rules and dashboards: which metrics they read that newer engines no longer have.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

use super::{CALL, Findings};
use knowledge::clip::format_count;
use knowledge::playbook::Library;
use knowledge::signal::outdated;
use prom::Prometheus;
use service::check::Level;

/// Maximum number of places in a message.
const NAMED: usize = 6;

/// Checks the alerting rules that a Prometheus evaluates. A server without rules has none, and one without an API for them
/// (a query frontend, VictoriaMetrics without vmalert) does not tell them: that is no finding.
pub(super) async fn rules(findings: &mut Findings, name: &str, client: &Prometheus, library: &Library) {
    let Ok(rules) = client.alerting_rules(Instant::now() + CALL).await else { return };
    let expressions = rules.iter().map(|rule| (format!("alert {}", rule.name), rule.query.clone()));
    say(findings, &format!("{name} rules"), library, expressions);
}

/// Checks files with rules or dashboards: every text of YAML or JSON, and of what is neither, every line.
pub(super) fn files(findings: &mut Findings, library: &Library, files: &[PathBuf]) {
    for file in files {
        let name = format!("names in {}", file.display());
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => {
                findings.say(&name, Level::Fail, error.to_string(), "give a text file with rules or a dashboard");
                continue;
            }
        };
        // JSON is YAML, too. A template (Helm) is neither, and a file may be larger than the parser takes.
        let mut texts = Vec::new();
        match serde_saphyr::from_multiple::<Value>(&text) {
            Ok(parts) => parts.iter().for_each(|part| collect(part, "", &mut texts)),
            Err(_) => {
                texts.extend(text.lines().enumerate().map(|(n, line)| (format!("line {}", n + 1), line.to_owned())))
            }
        }
        match texts.is_empty() {
            true => {
                findings.say(&name, Level::Warn, "no text is in it".to_owned(), "give a file of rules or a dashboard")
            }
            false => say(findings, &name, library, texts.into_iter()),
        }
    }
}

/// Adds every text of a file, with the name of the rule or the title of the panel that it stands in.
fn collect(part: &Value, inside: &str, texts: &mut Vec<(String, String)>) {
    match part {
        // A ConfigMap holds a dashboard as text.
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(part @ (Value::Object(_) | Value::Array(_))) => collect(&part, inside, texts),
            _ => texts.push((inside.to_owned(), text.clone())),
        },
        Value::Array(items) => items.iter().for_each(|item| collect(item, inside, texts)),
        Value::Object(fields) => {
            let name = ["alert", "record", "title"].iter().find_map(|key| fields.get(*key)?.as_str());
            fields.values().for_each(|field| collect(field, name.unwrap_or(inside), texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Adds one check for all expressions, each with its place: what goes blind with which version, and what to write.
fn say(findings: &mut Findings, name: &str, library: &Library, expressions: impl Iterator<Item = (String, String)>) {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut read = 0_usize;
    for (place, expression) in expressions {
        read += 1;
        for (engine, metric) in outdated(library.engines.values(), &expression) {
            let instead = match metric.write.as_ref().or(metric.new.as_ref()) {
                Some(new) => format!("write `{new}`"),
                None => "no metric has its place".to_owned(),
            };
            let goes = format!("`{}` is not in {} {} and newer: {instead}", metric.old, engine.engine, metric.gone);
            places.entry(goes).or_default().push(place.clone());
        }
    }
    if read == 0 {
        return;
    }
    if places.is_empty() {
        return findings.ok(name, format!("{read} texts name no metric that newer engines lack"));
    }
    let lines = places.iter().map(|(goes, of)| {
        let mut of: Vec<&str> = of.iter().map(String::as_str).filter(|place| !place.is_empty()).collect();
        let more = of.len().saturating_sub(NAMED);
        of.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if of.is_empty() { goes.clone() } else { format!("{goes} ({}{more})", of.join(", ")) }
    });
    let found = format!("{}:\n{}", format_count(places.len(), "outdated name"), lines.collect::<Vec<_>>().join("\n"));
    let todo = "write the new name, or `new or old` while both versions run: what is gone gives no data and no error";
    findings.say(name, Level::Warn, found, todo);
}
