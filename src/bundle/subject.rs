//! An incident of the store ─▶ what its bundle is about. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::Subject;
use crate::clock;
use crate::diagnose::{self, Scope};
use crate::facts::Windows;
use crate::report::{Logged, Window, story};
use crate::store::{Event, Incident};

impl Subject {
    /// The bundle of an incident as it stands at `now`, with `margin` before and after it. An incident that is over is
    /// looked at as it was when it was diagnosed last: later the evidence has faded.
    pub fn of_incident(
        incident: Incident,
        headline: String,
        events: &[Event],
        diagnosing: &diagnose::Config,
        margin: Duration,
        now: Timestamp,
    ) -> Self {
        let end = incident.resolved_at.unwrap_or(now);
        // What is kept of the series is what that diagnosis read, so that it can be made again.
        let at = incident.diagnosis.as_ref().map_or(end, |diagnosis| diagnosis.at);
        let logged: Vec<Logged<'_>> =
            events.iter().map(|event| Logged { at: event.at, what: &event.what, detail: &event.detail }).collect();
        let playbook = incident.entered().unwrap_or_default();
        Self {
            headline,
            request: diagnosing.request(playbook, &incident.alerts, incident.started_at, at),
            diagnosis: incident.diagnosis.clone(),
            window: around(incident.started_at, end, margin, now),
            happened: story(&incident.alerts, incident.diagnosis.as_ref(), &logged, &incident.notes),
            alerts: incident.alerts.clone(),
            payload: None,
            incident: Some(incident),
        }
    }

    /// Before it began, from the first alert to its end or to the moment that was judged, and after that. What still fires
    /// has no after.
    pub fn windows(&self) -> Windows {
        let Window { from, to } = self.window;
        // Alerts fire late: what was wrong already is not how it was before.
        let onset = self.diagnosis.iter().flat_map(|diagnosis| &diagnosis.timeline).map(|onset| onset.at).min();
        let alerted = self.request.since.unwrap_or(self.request.at);
        let since = onset.map_or(alerted, |onset| onset.min(alerted)).max(from).min(to);
        // Without an alert's start it lasted since its onset.
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

    /// The name of what it is about, for a file: the incident's id, else the pool's or the playbook's.
    pub fn of(&self) -> String {
        let pool = || {
            let Scope { dimensions, .. } = &self.request.scope;
            let known = ["namespace", "model", "cluster"].iter().filter_map(|dimension| dimensions.get(*dimension));
            let words = known.map(String::as_str).chain([self.request.playbook.as_str()]);
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

/// From so much before the first to so much after the second moment, but not into the future.
pub fn around(from: Timestamp, to: Timestamp, margin: Duration, now: Timestamp) -> Window {
    let to = clock::after(to, margin).min(now);
    Window { from: clock::before(from, margin).min(to), to }
}
