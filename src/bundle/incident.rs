//! The stored incident as a document, for `raw/incident.json`.

use serde_json::{Value, json};

use service::Subject;

/// Builds the document of everything that the store holds about an incident, with every query of its diagnosis; `None`
/// for a pool without one. Readers may rely on the field names. None of its values can fail to be serialised: maps have
/// strings as keys.
pub fn incident_json(subject: &Subject) -> Option<Value> {
    let incident = subject.incident.as_ref()?;
    Some(json!({
        "schema": "llm-diagnose/incident/v1",
        "incident": {
            "id": incident.id,
            "group_key": incident.group_key,
            "open": incident.open,
            "playbook": incident.playbook,
            "because": incident.because,
            "reason": incident.reason.as_str(),
            "started_at": incident.started_at,
            "opened_at": incident.opened_at,
            "resolved_at": incident.resolved_at,
            "refired": incident.refired,
            "truncated": incident.truncated,
        },
        "alerts": incident.alerts,
        "diagnosis": subject.diagnosis,
        "notes": incident.notes,
        "happened": subject.happened,
    }))
}
