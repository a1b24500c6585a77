//! What every source saw ─▶ [`Report`].

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Asked, Happened, HappenedKind, Incident, LogSeen, Report, SCHEMA, Seen, Window, answers, story};
use crate::alert::Alert;
use crate::diagnose::{Diagnosis, Fix};

/// What a report is about.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// The first sentence.
    pub headline: &'a str,
    /// The incident.
    pub incident: Option<Incident>,
    /// Its alerts.
    pub alerts: &'a [Alert],
    /// The diagnosis.
    pub diagnosis: Option<&'a Diagnosis>,
    /// What was asked.
    pub asked: Asked,
    /// The time.
    pub window: Window,
    /// What the store knows to have happened.
    pub happened: &'a [Happened],
}

/// Puts the report together. `parts`, `complete` and `redacted` are for whoever writes it down.
pub fn build(about: About<'_>, seen: Seen, made_at: Timestamp) -> Report {
    let timeline = timeline(&about, &seen);
    let answers = answers::answers(&about, &seen, &timeline);
    let facts = seen.facts.unwrap_or_default();
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
        logs: seen
            .logs
            .into_iter()
            .map(|(log, report)| LogSeen { name: log.name(), file: String::new(), report })
            .collect(),
        topology: facts.replicas,
        rules: facts.rules,
        complete: true,
        parts: Vec::new(),
        redacted: Vec::new(),
    }
}

/// A step stands once, first as what to do now: diagnoses that were made by other versions or of own playbooks may have
/// it under two causes, broken into other lines.
fn with_steps_once(mut diagnosis: Diagnosis) -> Diagnosis {
    let mut said = BTreeSet::new();
    let mut is_new = |fix: &Fix| {
        let words: Vec<&str> = fix.action.split_whitespace().collect();
        said.insert(words.join(" ").trim_end_matches('.').to_lowercase())
    };
    diagnosis.fix.now.retain(&mut is_new);
    diagnosis.fix.lasting.retain(&mut is_new);
    diagnosis
}

/// Everything that happened, oldest first; what several sources tell at the same time in the same words stands once.
fn timeline(about: &About<'_>, seen: &Seen) -> Vec<Happened> {
    // What is known of a pool without a store, and of a diagnosis that was made just now.
    let mut timeline = story(about.alerts, about.diagnosis, &[], &[]);
    timeline.extend(seen.facts.iter().flat_map(|facts| facts.happened.iter().cloned()));
    if let Some(kubernetes) = &seen.kubernetes {
        let told = kubernetes.events.iter().filter(|event| event.warning).filter_map(|event| {
            let often = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
            let what = format!("{}: {} {}{often}", event.about, event.reason, event.message);
            Some(Happened { at: event.at?, kind: HappenedKind::Event, what, source: "kubernetes".to_owned() })
        });
        timeline.extend(told);
        for pod in &kubernetes.pods {
            for container in &pod.containers {
                let Some(ended) = container.ended.as_ref() else { continue };
                let what = format!(
                    "container {} of {} ended: {} (exit status {})",
                    container.name, pod.name, ended.reason, ended.exit_code
                );
                let at = ended.at.map(|at| Happened {
                    at,
                    kind: HappenedKind::Restart,
                    what,
                    source: "kubernetes".to_owned(),
                });
                timeline.extend(at);
            }
        }
    }
    timeline.retain(|happened| happened.at <= about.window.to && happened.at >= about.window.from);
    // What people did with it belongs to it, however late.
    timeline.extend(about.happened.iter().cloned());
    timeline.sort_by(|a, b| (a.at, a.kind, &a.what).cmp(&(b.at, b.kind, &b.what)));
    timeline.dedup_by(|a, b| a.at == b.at && a.what == b.what);
    timeline
}
