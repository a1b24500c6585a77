//! The sections that are tables.

use super::super::Phrases;
use super::super::facts::{measured, moved_by};
use super::{code, plain, table};
use crate::alert::AlertStatus;
use crate::redact::RedactionCount;
use crate::report::{HappenedKind, Measured, Report, Stage, TimelineEvent, Version};
use crate::signal::format_value;

/// Maximum number of rows of a table; summary.json has all.
const ROWS: usize = 60;

fn head<const N: usize>(keys: [&str; N], words: &Phrases) -> [String; N] {
    keys.map(|key| words.text(key, &[]))
}

/// Renders a table, with a note if rows are left out.
fn bounded(head: &[String], rows: Vec<Vec<String>>, words: &Phrases) -> String {
    let more = rows.len().saturating_sub(ROWS);
    let mut out = table(head, &rows[..rows.len() - more]);
    if more > 0 {
        out.push_str(&format!("{}\n\n", super::line(&words.line("doc-more-rows", &[("n", more.into())]))));
    }
    out
}

pub(super) fn metrics(metrics: &[Measured], words: &Phrases) -> String {
    let rows = metrics.iter().filter(|one| one.before.or(one.during).or(one.after).is_some());
    let rows = rows.map(|one| {
        let shown = |value: Option<f64>| measured(one, value, words);
        vec![plain(&one.title), shown(one.before), shown(one.during), shown(one.after), moved_by(one)]
    });
    let head = head(["doc-what", "doc-before", "doc-during", "doc-after", "doc-change"], words);
    bounded(&head, rows.collect(), words)
}

pub(super) fn versions(versions: &[Version], words: &Phrases) -> String {
    let rows = versions.iter().map(|one| vec![plain(&one.what), code(&one.version), plain(&one.source)]);
    bounded(&head(["doc-what", "doc-version", "doc-source"], words), rows.collect(), words)
}

pub(super) fn timeline(timeline: &[TimelineEvent], words: &Phrases) -> String {
    let rows = timeline.iter().map(|one| {
        let at = one.at.strftime("%m-%d %H:%M:%S").to_string();
        vec![at, kind(one.kind, words), plain(&one.what), plain(&one.source)]
    });
    bounded(&head(["doc-when", "doc-kind", "doc-what", "doc-source"], words), rows.collect(), words)
}

/// Returns the word for the kind of an event.
fn kind(kind: HappenedKind, words: &Phrases) -> String {
    let key = match kind {
        HappenedKind::Alert => "doc-kind-alert",
        HappenedKind::Onset => "doc-kind-onset",
        HappenedKind::Restart => "doc-kind-restart",
        HappenedKind::Presence => "doc-kind-presence",
        HappenedKind::Rollout => "doc-kind-rollout",
        HappenedKind::Silence => "doc-kind-silence",
        HappenedKind::Message => "doc-kind-message",
        HappenedKind::Act => "doc-kind-act",
        HappenedKind::Log => "doc-kind-log",
        HappenedKind::Event => "doc-kind-event",
    };
    words.text(key, &[])
}

pub(super) fn topology(report: &Report, words: &Phrases) -> String {
    let affected = report.diagnosis.as_ref().and_then(|d| d.root()).map(|root| root.replicas.affected.as_slice());
    let affected = affected.unwrap_or_default();
    let rows = report.topology.iter().map(|replica| {
        let mark = if affected.contains(&replica.name) { "**!**" } else { "" };
        let gpus: Vec<String> = replica.gpus.iter().map(|gpu| code(gpu)).collect();
        let node = replica.node.as_deref().map(code).unwrap_or_default();
        vec![mark.to_owned(), code(&replica.name), node, gpus.join(" "), plain(&replica.role), plain(&replica.state)]
    });
    let keys = ["doc-affected", "doc-replica", "doc-node", "doc-gpus", "doc-role", "doc-state"];
    bounded(&head(keys, words), rows.collect(), words)
}

pub(super) fn alerts(report: &Report, words: &Phrases) -> String {
    let rows = report.alerts.iter().map(|alert| {
        let state = match alert.status {
            AlertStatus::Firing => words.text("doc-firing", &[]),
            AlertStatus::Resolved => words.text("doc-over", &[]),
        };
        let labels = alert.labels.iter().filter(|(name, _)| *name != "alertname");
        let labels: Vec<String> = labels.map(|(name, value)| code(&format!("{name}={value}"))).collect();
        let at = alert.starts_at.strftime("%m-%d %H:%M:%S").to_string();
        vec![at, plain(alert.name()), state, labels.join(" ")]
    });
    let mut out = bounded(&head(["doc-when", "doc-alert", "doc-state", "doc-labels"], words), rows.collect(), words);
    let rules = report.rules.iter().map(|rule| {
        let hold =
            crate::clock::human_duration(std::time::Duration::try_from_secs_f64(rule.for_seconds).unwrap_or_default());
        vec![plain(&rule.name), plain(&rule.state), hold, code(&rule.query)]
    });
    out.push_str(&bounded(&head(["doc-rule", "doc-state", "doc-hold", "doc-query"], words), rules.collect(), words));
    out
}

pub(super) fn parts(report: &Report, words: &Phrases) -> String {
    let rows = report.parts.iter().map(|part| {
        let seconds = format_value(part.took_seconds, crate::signal::Unit::Seconds);
        vec![plain(&part.name), stage(part.stage, words), plain(&part.note), seconds]
    });
    bounded(&head(["doc-part", "doc-state", "doc-what", "doc-took"], words), rows.collect(), words)
}

/// Returns the word for the stage of a part.
fn stage(stage: Stage, words: &Phrases) -> String {
    let key = match stage {
        Stage::Waiting => "stage-waiting",
        Stage::Running => "stage-running",
        Stage::Done => "stage-done",
        Stage::Partial => "stage-partial",
        Stage::Failed => "stage-failed",
        Stage::Skipped => "stage-skipped",
    };
    words.text(key, &[])
}

pub(super) fn redacted(redacted: &[RedactionCount], words: &Phrases) -> String {
    let rows = redacted.iter().map(|one| vec![code(&one.place), plain(&one.rule), one.count.to_string()]);
    bounded(&head(["doc-file", "doc-rule", "doc-count"], words), rows.collect(), words)
}
