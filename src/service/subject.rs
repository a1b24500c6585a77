//! The subject of a report: an incident of the store, or a pool.

use std::time::Duration;

use jiff::Timestamp;

use findings::facts::{TimelineEvent, Window, Windows};
use findings::{Baseline, Diagnosis, Request};
use knowledge::alert::Alert;
use knowledge::clock;
use knowledge::playbook::Library;
use report::{DiagnosisParameters, Logged, ReportIncident, ReportSubject, incident_timeline};
use store::{Incident, IncidentEvent};

/// The subject of a report, and of a bundle: an incident or a pool.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The incident as stored; `None` for a pool without an incident.
    pub incident: Option<Incident>,
    /// The first sentence of the incident's message.
    pub headline: String,
    /// The diagnosis request: pool, time, playbook.
    pub request: Request,
    /// The diagnosis to show; `None` to run a new one.
    pub diagnosis: Option<Diagnosis>,
    /// The time window that the report covers.
    pub window: Window,
    /// The events of the incident from the store.
    pub happened: Vec<TimelineEvent>,
    /// The incident's alerts, or those given by the user.
    pub alerts: Vec<Alert>,
}

impl Subject {
    /// Builds the subject of an incident as of `now`, with `margin` before and after it. A resolved incident is shown
    /// as of its last diagnosis: later the evidence has faded. The library has the titles of the causes in `events`.
    pub fn of_incident(
        library: &Library,
        incident: Incident,
        headline: String,
        events: &[IncidentEvent],
        diagnosing: &diagnose::Config,
        margin: Duration,
        now: Timestamp,
    ) -> Self {
        let end = incident.resolved_at.unwrap_or(now);
        // The exported series are those that the diagnosis read, so that it can be replayed.
        let at = incident.diagnosis.as_ref().map_or(end, |diagnosis| diagnosis.at);
        let logged = events.iter().map(|event| {
            let cause = (event.what == "diagnosed").then(|| library.node_by_id(&event.detail)).flatten();
            let detail = cause.map_or(event.detail.as_str(), |(node, _)| node.title);
            Logged { at: event.at, what: &event.what, detail }
        });
        let logged: Vec<Logged<'_>> = logged.collect();
        let playbook = incident.entered().unwrap_or_default();
        Self {
            headline,
            request: diagnosing.request(playbook, &incident.alerts, incident.started_at, at),
            diagnosis: incident.diagnosis.clone(),
            window: around(incident.started_at, end, margin, now),
            happened: incident_timeline(&incident.alerts, incident.diagnosis.as_ref(), &logged, &incident.notes),
            alerts: incident.alerts.clone(),
            incident: Some(incident),
        }
    }

    /// Returns the subject of the report.
    pub fn about(&self) -> ReportSubject<'_> {
        let incident = self.incident.as_ref().map(|incident| ReportIncident {
            id: incident.id.clone(),
            group_key: incident.group_key.clone(),
            open: incident.open,
            playbook: incident.playbook.clone(),
            because: incident.because.clone(),
            started_at: incident.started_at,
            opened_at: incident.opened_at,
            resolved_at: incident.resolved_at,
            refired: incident.refired,
            truncated: incident.truncated,
            seen_before: incident.seen_before,
            external_url: incident.external_url.clone(),
            acknowledged: incident.acknowledged.clone(),
            impact: incident.impact,
            related: incident.related.clone(),
        });
        ReportSubject {
            headline: &self.headline,
            incident,
            alerts: &self.alerts,
            diagnosis: self.diagnosis.as_ref(),
            asked: DiagnosisParameters {
                since: self.request.since,
                baseline_seconds: match self.request.baseline {
                    Baseline::Earlier(by) => Some(by.as_secs()),
                    Baseline::Off => None,
                },
            },
            window: self.window,
            happened: &self.happened,
        }
    }

    /// Returns the windows before, during and after the incident. `during` lasts from the first alert to the
    /// resolution, or to the diagnosed moment. There is no `after` while the incident still fires.
    pub fn windows(&self) -> Windows {
        let Window { from, to } = self.window;
        // Alerts fire with a delay: the time from the onset on does not count as before.
        let onset = self.diagnosis.iter().flat_map(|diagnosis| &diagnosis.timeline).map(|onset| onset.at).min();
        let alerted = self.request.since.unwrap_or(self.request.at);
        let since = onset.map_or(alerted, |onset| onset.min(alerted)).max(from).min(to);
        // Without the start of an alert, the incident lasts since its onset.
        let began = self.request.since.map_or(since, |alerted| alerted.max(from).min(to));
        let resolved = self.incident.as_ref().and_then(|incident| incident.resolved_at);
        let end = resolved.unwrap_or(self.request.at).max(began).min(to);
        let fires = self.incident.is_some() && resolved.is_none();
        Windows {
            before: Window { from, to: since },
            during: Window { from: began, to: end },
            after: (end < to && !fires).then_some(Window { from: end, to }),
        }
    }
}

/// Returns the window from `margin` before `from` to `margin` after `to`, but not into the future.
pub fn around(from: Timestamp, to: Timestamp, margin: Duration, now: Timestamp) -> Window {
    let to = clock::after(to, margin).min(now);
    Window { from: clock::before(from, margin).min(to), to }
}
