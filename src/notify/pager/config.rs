//! Which pagers and webhooks get the triage of which incidents.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::alert::Alert;
use crate::redact::address;

/// An entry of `pagers:`.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pager {
    /// Its name: in logs, metrics, and for `slack.escalate`.
    pub name: String,
    /// What it speaks.
    pub kind: PagerKind,
    /// What makes it hear of an incident.
    #[serde(default)]
    pub on: PagerOn,
    /// Labels that a firing alert must have; empty takes every incident.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its address; PagerDuty's is known.
    #[serde(default)]
    pub url: Option<String>,
    /// A file with PagerDuty's routing key (the one that Alertmanager uses), or the webhook's signing secret.
    pub key_file: PathBuf,
}

/// What a pager speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PagerKind {
    /// PagerDuty's Events API v2.
    Pagerduty,
    /// Our own JSON, signed.
    Webhook,
}

/// What makes a pager hear of an incident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PagerOn {
    /// Every incident in which an alert with these labels fires.
    #[default]
    Alert,
    /// Somebody escalates; the page is ours then, and we resolve it.
    Escalation,
}

/// Shows no secret of the address.
impl fmt::Debug for Pager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pager")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("url", &self.url.as_deref().map(address))
            .finish_non_exhaustive()
    }
}

impl Pager {
    /// Whether it hears by itself of an incident in which these alerts fire.
    pub fn takes(&self, firing: &[&Alert]) -> bool {
        let has = |alert: &Alert| self.labels.iter().all(|(name, value)| alert.labels.get(name) == Some(value));
        self.on == PagerOn::Alert && firing.iter().any(|alert| has(alert))
    }
}
