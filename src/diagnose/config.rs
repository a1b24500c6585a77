//! The configuration of diagnoses, and the time that is evaluated.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use findings::request::USUAL_WINDOW;
use findings::{AlertCondition, Baseline, Request, Scope};
use knowledge::alert::Alert;
use knowledge::clock::{self, duration};
use knowledge::playbook::without_expression;

/// Maximum age of a firing alert that is evaluated at the current time.
const MAX_CURRENT_AGE: Duration = Duration::from_secs(3_600);
/// Delay after the start of an older alert at which it is evaluated: the time of the service's first diagnosis.
const FIRST_DIAGNOSIS_DELAY: Duration = Duration::from_secs(60);

/// Returns the time to evaluate if none is given: now while the alert fires and is young, else shortly after its
/// start.
pub fn moment(began: Timestamp, ended: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match ended {
        None if clock::between(began, now) <= MAX_CURRENT_AGE => now,
        ended => clock::after(began, FIRST_DIAGNOSIS_DELAY).min(ended.unwrap_or(now)).min(now),
    }
}

/// The key `diagnose:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The rate window; defaults to 5m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub window: Duration,
    /// The distance to the past that counts as normal, or `none`; defaults to 1d.
    #[serde(deserialize_with = "baseline")]
    #[schemars(with = "String")]
    pub baseline: Baseline,
    /// The time limit for Prometheus' answers; defaults to 10s.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub deadline: Duration,
    /// Time between two diagnoses of an open incident; defaults to 1m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub refresh: Duration,
    /// Diagnoses that run at the same time; defaults to 4.
    pub concurrency: u32,
    /// The time that the first message waits for its diagnosis; defaults to 100ms.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: USUAL_WINDOW,
            baseline: Baseline::Earlier(Duration::from_secs(86_400)),
            deadline: Duration::from_secs(10),
            refresh: Duration::from_secs(60),
            concurrency: 4,
            grace: Duration::from_millis(100),
        }
    }
}

impl Config {
    /// Returns the time that a worker may hold a diagnosis before another worker takes it over.
    pub fn lease(&self) -> Duration {
        self.deadline.saturating_add(Duration::from_secs(30))
    }

    /// Builds the request for an incident: its alerts' pool at `at`; the time before its first alert counts as
    /// normal.
    pub fn request(&self, playbook: &str, alerts: &[Alert], since: Timestamp, at: Timestamp) -> Request {
        let scope = Scope::of_alerts(alerts);
        Request {
            playbook: playbook.to_owned(),
            screen: true,
            rules: if playbook.is_empty() { without_expression(alerts) } else { Vec::new() },
            conditions: AlertCondition::of_alerts(alerts),
            scope,
            at,
            since: Some(since),
            window: self.window,
            is_young: false,
            baseline: self.baseline,
            deadline: self.deadline,
        }
    }

    /// Builds the request of somebody who names a scope: by a playbook, which is then not replaced by another, or else by
    /// any symptom; at a moment, or the time of this length up to then.
    pub fn asked(&self, playbook: Option<&str>, scope: Scope, at: Timestamp, last: Option<Duration>) -> Request {
        Request {
            playbook: playbook.unwrap_or_default().to_owned(),
            screen: playbook.is_none(),
            since: last.map(|last| clock::before(at, last)),
            baseline: self.baseline,
            ..Request::without_past(scope, at, last.unwrap_or(self.window), self.deadline)
        }
    }
}

fn baseline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Baseline, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == "none" {
        return Ok(Baseline::Off);
    }
    humantime::parse_duration(&text)
        .map(Baseline::Earlier)
        .map_err(|_| serde::de::Error::custom(format!("`{text}` is no duration: write it like 1d, or `none`")))
}
