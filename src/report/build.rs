//! What every source saw ─▶ [`Report`].

use jiff::Timestamp;

use super::{Answers, Happened, Incident, LogSeen, Report, SCHEMA, Seen, Window};
use crate::alert::Alert;
use crate::diagnose::Diagnosis;

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
    /// The time.
    pub window: Window,
    /// What the store knows to have happened.
    pub happened: &'a [Happened],
}

/// Puts the report together. `parts`, `complete` and `redacted` are for whoever writes it down.
pub fn build(about: About<'_>, seen: Seen, made_at: Timestamp) -> Report {
    let facts = seen.facts.unwrap_or_default();
    let mut timeline = about.happened.to_vec();
    timeline.extend(facts.happened);
    timeline.sort_by_key(|happened| happened.at);
    Report {
        schema: SCHEMA.to_owned(),
        made_at,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        window: about.window,
        headline: about.headline.to_owned(),
        incident: about.incident,
        alerts: about.alerts.to_vec(),
        diagnosis: about.diagnosis.cloned(),
        answers: Answers::default(),
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
