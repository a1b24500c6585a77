//! Incidents for programs: what they get of one, and the search page by page, which the pages have too.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use ulid::Ulid;

use crate::notify::stored_view;
use diagnose::{Diagnosis, SymptomVerdict, Verdict};
use knowledge::alert::Alert;
use knowledge::clock;
use knowledge::incident::Impact;
use render::{IncidentFilter, Phrases};
use store::{Incident, IncidentQuery, Store, StoreError};

/// Maximum number of incidents that a search in their content reads per page; the next page continues there.
const LOOKED_AT: usize = 400;
/// Maximum number of incidents that are read at once.
const BATCH: u32 = 50;
/// The first character of a decoded cursor: the kind of its content.
const CURSOR: char = 'i';

/// Returns the opaque cursor after an incident.
pub fn cursor_after(id: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR}{id}"))
}

/// Reads a cursor as the id of the incident that it stands after.
///
/// # Errors
/// When no answer had it.
pub fn read_cursor(text: &str) -> Result<String, &'static str> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let id = decoded.as_deref().and_then(|decoded| decoded.strip_prefix(CURSOR));
    let id = id.filter(|id| Ulid::from_string(id).is_ok()).map(str::to_owned);
    id.ok_or("expected a cursor as an answer had it")
}

/// Reads a time, or a duration before `now`.
///
/// # Errors
/// When it is neither.
pub fn read_since(text: &str, now: Timestamp) -> Result<Timestamp, &'static str> {
    let ago = || humantime::parse_duration(text).ok().map(|ago| clock::before(now, ago));
    let since = text.parse().ok().or_else(ago);
    since.ok_or("expected a time as 2026-11-20T14:05:00Z (in an address `+` is %2B), or a duration such as 24h")
}

/// A page of incidents, newest first.
#[derive(Debug, Default)]
pub struct IncidentPage {
    /// The incidents; with a filter on their content maybe fewer than asked for, though there are more.
    pub incidents: Vec<Incident>,
    /// The number of incidents that were read for it.
    pub looked_at: usize,
    /// The id of the incident after which the next page begins; `None` if there is no next page.
    pub next: Option<String>,
}

/// An incident in a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct IncidentSummary {
    /// Its id; ids sort by time.
    pub id: String,
    /// True while an alert fires.
    pub open: bool,
    /// True if something critical fires, or fired until the end.
    pub critical: bool,
    /// Alertmanager's group key.
    pub group_key: String,
    /// The playbook that its alerts select; `null` if the pool is screened instead.
    pub playbook: Option<String>,
    /// The reason of the last change: `new`, `refired`, `resolved`, `stale`, …
    pub reason: String,
    /// The state, the symptom, the pool and the cause, in a line.
    pub headline: String,
    /// The verdict about the symptom; `null` without a diagnosis.
    pub symptom: Option<SymptomVerdict>,
    /// The id of the best cause; `null` if none is at least possible.
    pub root: Option<String>,
    /// The ids from the symptom to that cause.
    pub chain: Option<Vec<String>>,
    /// The verdict about that cause.
    pub verdict: Option<Verdict>,
    /// The start of the first alert.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// The time of the first notification.
    #[schemars(with = "String")]
    pub opened_at: Timestamp,
    /// The time of its end; `null` while it is open.
    #[schemars(with = "Option<String>")]
    pub resolved_at: Option<Timestamp>,
    /// The time since `opened_at`, for people: `2 h 5 min`. It does not change the ETag.
    pub age: String,
}

/// An incident with everything that is known of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct IncidentDetail {
    /// As in a list.
    #[serde(flatten)]
    pub summary: IncidentSummary,
    /// All alerts seen so far, as Alertmanager told them.
    pub alerts: Vec<Alert>,
    /// The newest diagnosis.
    pub diagnosis: Option<Diagnosis>,
    /// The requests that it has cost; `null` until it is over.
    pub impact: Option<Impact>,
}

impl IncidentSummary {
    /// Builds the summary with this headline as of `now`; it is not redacted.
    pub fn of(incident: &Incident, headline: String, now: Timestamp) -> Self {
        let root = incident.diagnosis.as_ref().and_then(Diagnosis::root);
        Self {
            id: incident.id.clone(),
            open: incident.open,
            critical: incident.critical,
            group_key: incident.group_key.clone(),
            playbook: incident.playbook.clone(),
            reason: incident.reason.as_str().to_owned(),
            headline,
            symptom: incident.diagnosis.as_ref().map(|d| d.symptom.verdict),
            root: root.map(|cause| cause.id.clone()),
            chain: root.map(|cause| cause.chain.clone()),
            verdict: root.map(|cause| cause.verdict),
            started_at: incident.started_at,
            opened_at: incident.opened_at,
            resolved_at: incident.resolved_at,
            age: clock::human_duration(clock::between(incident.opened_at, now)),
        }
    }
}

impl IncidentDetail {
    /// Adds to a summary what only an incident alone has.
    pub fn of(summary: IncidentSummary, incident: Incident) -> Self {
        let Incident { alerts, diagnosis, impact, .. } = incident;
        Self { summary, alerts, diagnosis, impact }
    }
}

/// Returns the first `most` incidents that match. What is in the content of an incident is compared one by one, because
/// its text is in JSON without an index.
///
/// # Errors
/// When the store fails.
pub async fn search(
    store: &Store,
    words: &Phrases,
    query: &IncidentQuery,
    find: &IncidentFilter,
    most: u32,
) -> Result<IncidentPage, StoreError> {
    let batch = if find.needs_content() { BATCH } else { BATCH.min(most.saturating_add(1)) };
    let (mut page, mut query) = (IncidentPage::default(), query.clone());
    loop {
        let read = store.listed(&query, batch).await?;
        let is_last = read.len() < batch as usize;
        for incident in read {
            if page.incidents.len() >= most as usize || page.looked_at >= LOOKED_AT {
                page.next = Some(query.before);
                return Ok(page);
            }
            page.looked_at += 1;
            query.before.clone_from(&incident.id);
            // Only searched, not shown, so it needs no redaction.
            let headline = || render::incident_message(&stored_view(&incident), words).headline;
            if !find.needs_content() || find.matches(&stored_view(&incident), &headline()) {
                page.incidents.push(incident);
            }
        }
        if is_last {
            return Ok(page);
        }
    }
}
