//! How diagnoses are made.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{Baseline, Request, Scope};
use crate::alert::Alert;
use crate::clock::{self, duration};
use crate::playbook::without_expression;

/// While an alert is this young, now is judged.
const YOUNG: Duration = Duration::from_secs(3_600);
/// So long after its beginning an older one is judged: when the service would have looked first.
const FIRST_LOOK: Duration = Duration::from_secs(60);

/// The moment that is judged of alerts where nobody names one: now while they fire and are young, else their beginning.
pub fn moment(began: Timestamp, ended: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match ended {
        None if clock::between(began, now) <= YOUNG => now,
        ended => clock::after(began, FIRST_LOOK).min(ended.unwrap_or(now)).min(now),
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
    /// How much earlier its normal lies, or `none`; defaults to 1d.
    #[serde(deserialize_with = "baseline")]
    #[schemars(with = "String")]
    pub baseline: Baseline,
    /// When to stop waiting for Prometheus; defaults to 10s.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub deadline: Duration,
    /// How often an open incident is looked at again; defaults to 1m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub refresh: Duration,
    /// Diagnoses at once; defaults to 4.
    pub concurrency: u32,
    /// How long the first message waits for its diagnosis; defaults to 500ms.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(300),
            baseline: Baseline::Earlier(Duration::from_secs(86_400)),
            deadline: Duration::from_secs(10),
            refresh: Duration::from_secs(60),
            concurrency: 4,
            grace: Duration::from_millis(500),
        }
    }
}

impl Config {
    /// How long a worker may keep a diagnosis before another worker takes it over.
    pub fn lease(&self) -> Duration {
        self.deadline.saturating_add(Duration::from_secs(30))
    }

    /// What is asked about an incident: its alerts' pool at `at`, with what lies before its first alert as its normal.
    pub fn request(&self, playbook: &str, alerts: &[Alert], since: Timestamp, at: Timestamp) -> Request {
        let scope = Scope::of_alerts(alerts);
        Request {
            playbook: playbook.to_owned(),
            // Without a pool's name all pools would be screened as one.
            screen: scope.names_pool(),
            rules: if playbook.is_empty() { without_expression(alerts) } else { Vec::new() },
            scope,
            at,
            since: Some(since),
            window: self.window,
            baseline: self.baseline,
            deadline: self.deadline,
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
