//! The seven answers of a report.

use super::super::Phrases;
use super::{code, fence, line, plain, table};
use crate::render::facts::length;
use crate::report::{DeploymentInfo, Distribution, Goal, Hardware, ModelInfo, Question, Workload};
use crate::signal::{Unit, format_value};

/// Maximum number of pods named for a command line.
const NAMED: usize = 5;
/// Maximum number of settings shown; engines have hundreds.
const SETTINGS: usize = 80;

pub(super) fn goal(goal: &Goal, words: &Phrases) -> String {
    let mut out = String::new();
    if let Some(since) = goal.since {
        let at = since.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        out.push_str(&format!("{}\n\n", line(&words.line("doc-begun", &[("at", at.into())]))));
    }
    let head = ["doc-what", "doc-expected", "doc-actual", "doc-limit", "doc-source"].map(|key| words.text(key, &[]));
    let rows: Vec<Vec<String>> = goal
        .expected
        .iter()
        .map(|one| {
            let expected = one.expected.clone().unwrap_or_else(|| words.text("expected-unknown", &[]));
            let limit = if one.limit.is_empty() { String::new() } else { code(&one.limit) };
            vec![plain(&one.title), plain(&expected), plain(&one.actual), limit, plain(&one.source)]
        })
        .collect();
    out.push_str(&table(&head, &rows));
    if !goal.changed.is_empty() {
        out.push_str(&format!("{}\n\n", line(&words.line("doc-changed", &[]))));
        goal.changed.iter().for_each(|change| out.push_str(&format!("- {}\n", plain(change))));
        out.push('\n');
    }
    out
}

pub(super) fn model(model: &ModelInfo, words: &Phrases) -> String {
    let mut out = String::new();
    for (key, list) in [("doc-served-as", &model.names), ("doc-weights", &model.weights)] {
        if !list.is_empty() {
            let names: Vec<String> = list.iter().map(|name| code(name)).collect();
            out.push_str(&format!("- {}: {}\n", words.text(key, &[]), names.join(", ")));
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    for arguments in &model.arguments {
        let of = names(&arguments.of);
        let pieces = [("n", arguments.of.len().into()), ("source", arguments.source.as_str().into())];
        out.push_str(&format!("{} ({of})\n\n", line(&words.line("doc-arguments", &pieces))));
        out.push_str(&fence(&command(&arguments.words)));
        out.push('\n');
    }
    let rows: Vec<Vec<String>> = model
        .settings
        .iter()
        .take(SETTINGS)
        .map(|(name, values)| vec![code(name), values.iter().map(|v| code(v)).collect::<Vec<_>>().join(" ")])
        .collect();
    out.push_str(&table(&["doc-setting", "doc-value"].map(|key| words.text(key, &[])), &rows));
    out
}

fn names(list: &[String]) -> String {
    let shown: Vec<String> = list.iter().take(NAMED).map(|name| code(name)).collect();
    match list.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} +{more}", shown.join(", ")),
    }
}

/// Renders a command line that can be pasted: quoted, and wrapped before its options.
pub(super) fn command(words: &[String]) -> String {
    let quoted =
        words.iter().map(|word| shlex::try_quote(word).map_or_else(|_| word.clone(), std::borrow::Cow::into_owned));
    let mut out = String::new();
    for word in quoted {
        match (out.is_empty(), word.starts_with('-')) {
            (true, _) => {}
            (false, true) => out.push_str(" \\\n  "),
            (false, false) => out.push(' '),
        }
        out.push_str(&word);
    }
    out
}

pub(super) fn hardware(hardware: &Hardware, words: &Phrases) -> String {
    let mut out = String::new();
    for gpu in &hardware.gpus {
        out.push_str(&format!("- {} × {} ({})\n", gpu.count, plain(&gpu.kind), plain(&gpu.source)));
    }
    if let Some(interconnect) = &hardware.interconnect {
        out.push_str(&format!("- {}: {}\n", words.text("doc-interconnect", &[]), plain(interconnect)));
    }
    for (node, told) in &hardware.nodes {
        let told: Vec<String> = told.iter().map(|fact| code(fact)).collect();
        out.push_str(&format!("- {}: {}\n", code(node), told.join(" ")));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

pub(super) fn workload(workload: &Workload, words: &Phrases) -> String {
    let head = ["doc-lengths", "doc-requests", "doc-mean", "doc-half", "doc-nine", "doc-all", "doc-earlier"];
    let row = |key, of: &Distribution| {
        let tokens = |value: f64| format_value(value, Unit::Tokens);
        let range = |quantile| length(of, quantile, words);
        let earlier = of.earlier.map(|(mean, p50)| format!("{} / {}", tokens(mean), range(p50))).unwrap_or_default();
        let mut row = vec![words.text(key, &[]), format_value(of.count, Unit::Requests), tokens(of.mean)];
        row.extend([of.p50, of.p90, of.p99].map(range));
        row.push(earlier);
        row
    };
    let rows: Vec<Vec<String>> = [("doc-input", &workload.input), ("doc-output", &workload.output)]
        .into_iter()
        .filter_map(|(key, of)| Some(row(key, of.as_ref()?)))
        .collect();
    let mut out = table(&head.map(|key| words.text(key, &[])), &rows);
    out.push_str(&super::tables::metrics(&workload.load, words));
    out
}

pub(super) fn deployment(deployment: &DeploymentInfo, words: &Phrases) -> String {
    let mut out = String::new();
    if !deployment.mode.is_empty() {
        let because: Vec<String> = deployment.because.iter().map(|fact| code(fact)).collect();
        out.push_str(&format!("- {} ({})\n", plain(&deployment.mode), because.join(", ")));
    }
    if let Some((wanted, ready)) = deployment.replicas {
        let pieces = [("ready", ready.into()), ("wanted", wanted.into())];
        out.push_str(&format!("- {}\n", line(&words.line("doc-ready", &pieces))));
    }
    if !deployment.engines.is_empty() {
        out.push_str(&format!("- {}: {}\n", words.text("doc-engines", &[]), plain(&deployment.engines.join(", "))));
    }
    deployment.objects.iter().for_each(|object| out.push_str(&format!("- {}\n", code(object))));
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

pub(super) fn open(open: &[(Question, String)]) -> String {
    let mut out: String = open.iter().map(|(_, how)| format!("- {}\n", line(&super::Line::of(how)))).collect();
    if !out.is_empty() {
        out.push('\n');
    }
    out
}
