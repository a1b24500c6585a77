//! The stored incident as a document, for `raw/incident.json`.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::Subject;
use crate::alert::Alert;
use crate::diagnose::Diagnosis;
use crate::incident::Note;
use crate::report::TimelineEvent;

/// The document; readers may rely on the field names.
#[derive(Debug, Serialize)]
struct Record<'a> {
    schema: &'static str,
    incident: IncidentFields<'a>,
    alerts: &'a [Alert],
    /// Includes every query and its result.
    diagnosis: Option<&'a Diagnosis>,
    /// Actions of users on the incident.
    notes: &'a [Note],
    happened: &'a [TimelineEvent],
}

#[derive(Debug, Serialize)]
struct IncidentFields<'a> {
    id: &'a str,
    group_key: &'a str,
    open: bool,
    playbook: Option<&'a str>,
    because: Option<&'a str>,
    reason: &'a str,
    started_at: Timestamp,
    opened_at: Timestamp,
    resolved_at: Option<Timestamp>,
    refired: u32,
    truncated: u64,
}

/// Builds the document of everything that the store holds about an incident; `None` for a pool without one.
pub fn incident_json(subject: &Subject) -> Option<Value> {
    let incident = subject.incident.as_ref()?;
    let kept = IncidentFields {
        id: &incident.id,
        group_key: &incident.group_key,
        open: incident.open,
        playbook: incident.playbook.as_deref(),
        because: incident.because.as_deref(),
        reason: incident.reason.as_str(),
        started_at: incident.started_at,
        opened_at: incident.opened_at,
        resolved_at: incident.resolved_at,
        refired: incident.refired,
        truncated: incident.truncated,
    };
    let record = Record {
        schema: "llm-diagnose/incident/v1",
        incident: kept,
        alerts: &incident.alerts,
        diagnosis: subject.diagnosis.as_ref(),
        notes: &incident.notes,
        happened: &subject.happened,
    };
    serde_json::to_value(&record).ok()
}
