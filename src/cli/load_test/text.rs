//! The verdict on a load test as text for a terminal.

use std::fmt::Write;

use super::verdict::{LoadLimit, LoadState, LoadStep, LoadVerdict};
use knowledge::signal::{Unit, format_value};
use render::Phrases;

/// Renders the verdict, what helps, and the steps.
pub(super) fn text(verdict: &LoadVerdict, words: &Phrases) -> String {
    let last = verdict.steps.last().cloned().unwrap_or_default();
    let at = verdict.saturated_at.and_then(|at| verdict.steps.get(at)).unwrap_or(&last);
    let shown = [
        ("requests", rate(at.requests).into()),
        ("concurrency", number(at.concurrency).into()),
        ("tokens", value(at.tokens, Unit::TokensPerSecond).into()),
        ("more", number(last.concurrency).into()),
        ("before", value(at.ttft, Unit::Seconds).into()),
        ("after", value(last.ttft, Unit::Seconds).into()),
        ("used", value(last.kv_cache, Unit::Ratio).into()),
        ("waiting", value(last.waiting, Unit::Requests).into()),
    ];
    let mut lines = vec![match verdict.state {
        LoadState::Saturated => "load-saturated",
        LoadState::NotSaturated => "load-not-saturated",
        LoadState::Unknown => "load-unknown",
    }];
    lines.extend(match verdict.limit {
        Some(LoadLimit::KvCache) => Some("load-kv-cache"),
        Some(LoadLimit::RunningRequests) => Some("load-running-requests"),
        Some(LoadLimit::FirstTokens) => Some("load-first-tokens"),
        Some(LoadLimit::Batch) => Some("load-batch"),
        Some(LoadLimit::Unknown) => Some("load-limit-unknown"),
        None => None,
    });
    if !verdict.has_servers && verdict.state == LoadState::Saturated {
        lines.push("load-clients-only");
    }
    let mut out: String = lines.iter().map(|key| words.text(key, &shown) + "\n").collect();
    let columns = words.text("load-columns", &[]);
    let _ = writeln!(out, "\n{}", aligned(columns.split('|')));
    for (i, step) in verdict.steps.iter().enumerate() {
        let mark = if verdict.saturated_at == Some(i) { words.text("load-mark", &[]) } else { String::new() };
        let _ = writeln!(out, "{}{mark}", row(step));
    }
    out
}

fn row(step: &LoadStep) -> String {
    let cells = [
        step.rate.map_or("–".to_owned(), rate),
        number(step.concurrency),
        rate(step.requests),
        value(step.tokens, Unit::TokensPerSecond),
        value(step.ttft, Unit::Seconds),
        value(step.itl, Unit::Seconds),
        format_value(step.failed, Unit::Ratio),
        value(step.waiting, Unit::Requests),
        value(step.kv_cache, Unit::Ratio),
    ];
    aligned(cells.iter().map(String::as_str))
}

fn aligned<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.map(|cell| format!("{cell:>14}")).collect()
}

fn value(value: Option<f64>, unit: Unit) -> String {
    value.map_or("–".to_owned(), |value| format_value(value, unit))
}

fn rate(value: f64) -> String {
    format_value(value, Unit::RequestsPerSecond)
}

fn number(value: f64) -> String {
    format_value(value, Unit::Count)
}
