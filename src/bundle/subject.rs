//! The subject of a bundle, derived from a stored incident. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::Subject;
use findings::Scope;
use findings::facts::{Window, Windows};
use knowledge::clock;
use knowledge::playbook::Library;
use report::{Logged, incident_timeline};
use store::{Incident, IncidentEvent};

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
            payload: None,
            incident: Some(incident),
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

    /// Returns a name for the file: the incident's id, else the names of the pool or the playbook.
    pub fn of(&self) -> String {
        let pool = || {
            let Scope { dimensions, .. } = &self.request.scope;
            let values = ["namespace", "model", "cluster"].iter().filter_map(|dimension| dimensions.get(*dimension));
            let words = values.map(String::as_str).chain([self.request.playbook.as_str()]);
            words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
        };
        let of = self.incident.as_ref().map_or_else(pool, |incident| incident.id.clone());
        let fine = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let of: String = of.chars().map(fine).take(60).collect();
        match of.trim_matches('-') {
            "" => "pool".to_owned(),
            of => of.to_owned(),
        }
    }
}

/// Returns the window from `margin` before `from` to `margin` after `to`, but not into the future.
pub fn around(from: Timestamp, to: Timestamp, margin: Duration, now: Timestamp) -> Window {
    let to = clock::after(to, margin).min(now);
    Window { from: clock::before(from, margin).min(to), to }
}
