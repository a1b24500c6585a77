//! Incidents for programs: what they get of one, and the search page by page, which the pages have too.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::incident_question::{IncidentQuestion, IncidentSearch, cursor_after};
use super::{Fleet, QuestionError};
use findings::{Diagnosis, SymptomVerdict, Verdict};
use knowledge::alert::{Alert, AlertStatus, Labels};
use knowledge::clock;
use knowledge::incident::Impact;
use notify::{cleaned_incident, learn, stored_view};
use redact::Redactor;
use render::Phrases;
use store::{Incident, Store, StoreError};

/// Maximum number of incidents that a search in their content reads per page; the next page continues there.
const LOOKED_AT: usize = 400;
/// Maximum number of incidents that are read at once.
const BATCH: u32 = 50;

/// Maximum number of alerts, the firing and critical ones first, from which the headline of a list is made.
const HEADLINE_ALERTS: usize = 20;

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
    pub started_at: Timestamp,
    /// The time of the first notification.
    pub opened_at: Timestamp,
    /// The time of its end; `null` while it is open.
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
    /// Builds the summary of a cleaned incident with this headline, as of `now`.
    fn of(incident: &Incident, headline: String, now: Timestamp) -> Self {
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

/// A list of incidents without secrets.
#[derive(Debug)]
pub struct IncidentSummaries {
    /// The incidents, newest first.
    pub incidents: Vec<IncidentSummary>,
    /// The number of incidents that were read for it.
    pub looked_at: usize,
    /// The cursor of the next page; `None` if there is none.
    pub next: Option<String>,
}

/// Returns a page of the incidents that match. What is in the content of an incident is compared one by one, because
/// its text is in JSON without an index, and as readers see it: else a search would tell hidden values letter by letter.
///
/// # Errors
/// When the store fails.
pub async fn search(
    store: &Store,
    words: &Phrases,
    redactor: &Redactor,
    wanted: &IncidentSearch,
) -> Result<IncidentPage, StoreError> {
    let IncidentSearch { query, filter, severity, most } = wanted;
    let batch = if wanted.needs_content() { BATCH } else { BATCH.min(most.saturating_add(1)) };
    let (mut page, mut query) = (IncidentPage::default(), query.clone());
    loop {
        let read = store.listed(&query, batch).await?;
        let is_last = read.len() < batch as usize;
        let with_severity: Option<BTreeSet<String>> = match severity.as_str() {
            "" => None,
            severity => Some(store.with_severity(&read, query.state, severity).await?),
        };
        for incident in read {
            if page.incidents.len() >= *most as usize || page.looked_at >= LOOKED_AT {
                page.next = Some(query.before);
                return Ok(page);
            }
            page.looked_at += 1;
            query.before.clone_from(&incident.id);
            let matches = || {
                let shown = searchable(&redactor.with_same_numbers(), &incident);
                let view = stored_view(&shown);
                filter.matches(&view, &render::incident_message(&view, words).headline)
            };
            let found = with_severity.as_ref().is_none_or(|ids| ids.contains(&incident.id));
            if found && (!filter.needs_content() || matches()) {
                page.incidents.push(incident);
            }
        }
        if is_last {
            return Ok(page);
        }
    }
}

/// Returns an incident whose labels are without secrets: what filters and headlines read of it. Equal labels are cleaned
/// once, whatever is searched for, so that the time tells nothing either.
fn searchable(redactor: &Redactor, incident: &Incident) -> Incident {
    learn(redactor, incident);
    let mut known: HashMap<(String, String), (String, String)> = HashMap::new();
    let mut clean = |labels: &Labels| -> Labels {
        let one = |(name, value): (&String, &String)| {
            let cleaned =
                || (redactor.text("search", name).into_owned(), redactor.label("search", name, value).into_owned());
            known.entry((name.clone(), value.clone())).or_insert_with(cleaned).clone()
        };
        labels.iter().map(one).collect()
    };
    let mut shown = incident.clone();
    shown.alerts.iter_mut().for_each(|alert| alert.labels = clean(&alert.labels));
    if let Some(diagnosis) = &mut shown.diagnosis {
        diagnosis.scope.labels = clean(&diagnosis.scope.labels);
    }
    shown.because = shown.because.map(|because| redactor.text("search", &because).into_owned());
    shown
}

impl Fleet<'_> {
    /// Lists incidents; `unless` is their number unless the question has one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn incidents(
        &self,
        store: &Store,
        question: &IncidentQuestion,
        unless: u32,
    ) -> Result<IncidentSummaries, QuestionError> {
        let (redactor, wanted) = (self.redactor(), question.search(unless));
        let IncidentPage { incidents, looked_at, next } = search(store, self.words, &redactor, &wanted).await?;
        // The search reads a few alerts of each; the headline is that of all. One after the other: an incident may have
        // thousands.
        let mut summaries = Vec::with_capacity(incidents.len());
        for found in incidents {
            if let Some(incident) = store.incident(&found.id).await? {
                summaries.push(self.summary(incident).await);
            }
        }
        Ok(IncidentSummaries { incidents: summaries, looked_at, next: next.as_deref().map(cursor_after) })
    }

    /// Returns an incident without secrets, and its summary.
    ///
    /// # Errors
    /// When its diagnosis cannot be cleaned.
    pub async fn cleaned_incident(&self, incident: &Incident) -> Result<(IncidentSummary, Incident), QuestionError> {
        let redactor = self.redactor();
        // A field of the diagnosis may name as a secret what an annotation repeats.
        redactor.learn_from(&incident.diagnosis);
        let mut cleaned = cleaned_incident(&redactor, incident).await;
        if incident.diagnosis.is_some() && cleaned.diagnosis.is_none() {
            return Err(QuestionError::unclean(&format!("the diagnosis of {} cannot be read again", incident.id)));
        }
        cleaned.group_key = redactor.text("incident", &cleaned.group_key).into_owned();
        let headline = render::incident_message(&stored_view(&cleaned), self.words).headline;
        Ok((IncidentSummary::of(&cleaned, headline, clock::now()), cleaned))
    }

    /// Returns the summary of an incident without secrets. Of its alerts only those that a headline reads are cleaned,
    /// and before it is rendered: what it clips would not be recognised.
    async fn summary(&self, mut incident: Incident) -> IncidentSummary {
        let redactor = self.redactor();
        learn(&redactor, &incident);
        redactor.learn_from(&incident.diagnosis);
        incident.alerts.sort_by_key(|alert| (alert.status != AlertStatus::Firing, !alert.is_critical()));
        incident.alerts.truncate(HEADLINE_ALERTS);
        let mut shown = cleaned_incident(&redactor, &incident).await;
        shown.group_key = redactor.text("incident", &shown.group_key).into_owned();
        let headline = render::incident_message(&stored_view(&shown), self.words).headline;
        IncidentSummary::of(&shown, headline, clock::now())
    }
}
