//! The end of an incident's message: its alerts, its id, why it was sent, and links.

use std::collections::BTreeSet;

use super::facts::few;
use super::{IncidentView, Phrases, links_of};
use knowledge::alert::{AlertStatus, Labels, active, common_labels};
use knowledge::clip::clip;
use knowledge::incident::{AdmitReason, ChangeReason};
use message::{Block, Line, TextSpan};

/// Labels of alerts that other lines of the message already show.
const SHOWN_LABELS: [&str; 6] = ["alertname", "playbook", "severity", "cluster", "namespace", "model"];

pub(super) fn alerts(view: &IncidentView<'_>, words: &Phrases) -> Block {
    let firing = view.alerts.iter().filter(|a| a.status == AlertStatus::Firing).count();
    let active = active(view.alerts);
    let mut names: Vec<String> = active.iter().map(|a| clip(a.name(), 80)).collect();
    names.sort();
    names.dedup();
    let names = ("names", few(&names, words).into());
    // An alert that came back, or whose start was corrected, is one alert with several episodes.
    let all: BTreeSet<&Labels> = view.alerts.iter().map(|a| &a.labels).collect();
    let mut lines = vec![match view.resolved_at.is_some() {
        true => words.line("alerts-resolved", &[("n", all.len().into()), names]),
        false => words.line("alerts-firing", &[("n", firing.into()), names]),
    }];
    if view.truncated > 0 {
        lines.push(words.line("alerts-left-out", &[("n", view.truncated.into())]));
    }
    let summaries = active.iter().filter_map(|a| a.annotations.get("summary"));
    if let Some(summary) = summaries.into_iter().find(|s| !s.trim().is_empty()) {
        lines.push(Line::default().plain(clip(summary.trim(), 160)));
    }
    let whose: Vec<&String> = view.diagnosis.map(|d| d.scope.labels.values().collect()).unwrap_or_default();
    let labels: Vec<String> = common_labels(&active)
        .iter()
        .filter(|(name, value)| !SHOWN_LABELS.contains(&name.as_str()) && !whose.contains(value))
        .map(|(name, value)| format!("{}={}", clip(name, 40), clip(value, 60)))
        .collect();
    if !labels.is_empty() {
        lines.push(Line::default().code(clip(&labels.join(" "), 160)));
    }
    Block::Section(words.text("alerts", &[]), lines)
}

/// Builds the last line: id, start, reason of the last update, and links.
pub(super) fn line(view: &IncidentView<'_>, words: &Phrases) -> Line {
    let mut reason = reason(view.reason, words);
    if view.refired > 0 {
        reason = format!("{reason}, {}", words.text("refired", &[("n", view.refired.into())]));
    }
    let mut line = words.line(
        "since-reason",
        &[("id", view.id.into()), ("since", TextSpan::Time(view.started_at).into()), ("reason", reason.into())],
    );
    for (label, url) in links_of(view, words) {
        line = line.plain(" · ").link(label, url);
    }
    line
}

/// Returns the text for the reason of the last change.
fn reason(reason: Option<&ChangeReason>, words: &Phrases) -> String {
    let Some(reason) = reason else { return String::new() };
    let key = match reason {
        ChangeReason::Notification(AdmitReason::First) => "reason-first",
        ChangeReason::Notification(AdmitReason::NewAlerts) => "reason-new-alerts",
        ChangeReason::Notification(AdmitReason::FewerAlerts) => "reason-fewer-alerts",
        ChangeReason::Notification(AdmitReason::StillFiring) => "reason-still-firing",
        ChangeReason::Notification(AdmitReason::Resolved) => "reason-resolved",
        ChangeReason::Notification(AdmitReason::Refired) => "reason-refired",
        ChangeReason::Stale => "reason-stale",
        ChangeReason::Unreadable => "reason-unreadable",
        ChangeReason::ReadableAgain => "reason-readable-again",
        // These change nothing that a message shows, and the words of another version are its own.
        ChangeReason::Notification(AdmitReason::Duplicate | AdmitReason::Late | AdmitReason::ResolvedUnseen)
        | ChangeReason::Other(_) => return reason.as_str().replace('_', " "),
    };
    words.text(key, &[])
}
