//! Assembly of a [`Report`] from the findings of all sources.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::timeline::happened;
use super::{AnalyzedLog, Report, ReportSubject, SCHEMA, SourceFindings, answers, incident_timeline};
use findings::facts::{HappenedKind, TimelineEvent};
use findings::{Diagnosis, Fix};

/// Builds the report. `parts`, `complete` and `redacted` are set by the caller.
pub fn build(about: ReportSubject<'_>, findings: SourceFindings, made_at: Timestamp) -> Report {
    let timeline = timeline(&about, &findings);
    let answers = answers::answers(&about, &findings, &timeline);
    let facts = findings.facts.unwrap_or_default();
    Report {
        schema: SCHEMA.to_owned(),
        made_at,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        window: about.window,
        headline: about.headline.to_owned(),
        incident: about.incident,
        alerts: about.alerts.to_vec(),
        diagnosis: about.diagnosis.cloned().map(with_steps_once),
        asked: about.asked,
        answers,
        timeline,
        logs: findings
            .logs
            .into_iter()
            .map(|(log, report)| AnalyzedLog { name: log.name(), file: String::new(), report })
            .collect(),
        topology: facts.replicas,
        rules: facts.rules,
        complete: true,
        parts: Vec::new(),
        redacted: Vec::new(),
    }
}

/// Removes duplicate steps and keeps the first: diagnoses by the site's own playbooks may have a step under two causes, with
/// other line breaks.
fn with_steps_once(mut diagnosis: Diagnosis) -> Diagnosis {
    let mut actions = BTreeSet::new();
    let mut is_new = |fix: &Fix| {
        let words: Vec<&str> = fix.action.split_whitespace().collect();
        actions.insert(words.join(" ").trim_end_matches('.').to_lowercase())
    };
    diagnosis.fix.now.retain(&mut is_new);
    diagnosis.fix.lasting.retain(&mut is_new);
    diagnosis
}

/// Lists all events, oldest first; events with the same time and text are listed once.
fn timeline(about: &ReportSubject<'_>, findings: &SourceFindings) -> Vec<TimelineEvent> {
    // Covers pools without a stored incident, and diagnoses made just now.
    let mut timeline = incident_timeline(about.alerts, about.diagnosis, &[], &[]);
    timeline.extend(findings.facts.iter().flat_map(|facts| facts.happened.iter().cloned()));
    if let Some(kubernetes) = &findings.kubernetes {
        let warnings = kubernetes.events.iter().filter(|event| event.warning).filter_map(|event| {
            let often = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
            let what = format!("{}: {} {}{often}", event.about, event.reason, event.message);
            Some(happened(event.at?, HappenedKind::Event, what, "kubernetes"))
        });
        timeline.extend(warnings);
        for (pod, container) in kubernetes.pods.iter().flat_map(|pod| pod.containers.iter().map(move |of| (pod, of))) {
            let Some(ended) = container.ended.as_ref() else { continue };
            let what = format!(
                "container {} of {} ended: {} (exit status {})",
                container.name, pod.name, ended.reason, ended.exit_code
            );
            timeline.extend(ended.at.map(|at| happened(at, HappenedKind::Restart, what, "kubernetes")));
        }
    }
    timeline.retain(|happened| happened.at <= about.window.to && happened.at >= about.window.from);
    // Events from the store are included even outside the window.
    timeline.extend(about.happened.iter().cloned());
    timeline.sort_by(|a, b| (a.at, a.kind, &a.what).cmp(&(b.at, b.kind, &b.what)));
    timeline.dedup_by(|a, b| a.at == b.at && a.what == b.what);
    timeline
}
