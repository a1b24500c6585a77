//! Configuration: the pagers and webhooks that get the triage of incidents.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use http_client::address;
use knowledge::alert::Alert;

/// An entry of `pagers:`.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pager {
    /// The name: in logs, metrics, and for `slack.escalate`.
    pub name: String,
    /// The protocol.
    pub kind: PagerKind,
    /// The trigger of a call.
    #[serde(default)]
    pub on: PagerOn,
    /// Labels that a firing alert must have; empty takes every incident.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The address; optional for PagerDuty.
    #[serde(default)]
    pub url: Option<String>,
    /// A file with PagerDuty's routing key (the one that Alertmanager uses), or the webhook's signing secret.
    pub key_file: PathBuf,
}

/// The protocol of a pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PagerKind {
    /// PagerDuty's Events API v2.
    Pagerduty,
    /// Our own signed JSON.
    Webhook,
}

/// The trigger of a call to a pager.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PagerOn {
    /// Every incident in which an alert with these labels fires.
    #[default]
    Alert,
    /// An escalation by a user; the page is then raised and resolved by us.
    Escalation,
}

/// Hides the secrets of the address.
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
    /// Returns true if the pager gets an incident with these firing alerts without an escalation.
    pub fn takes(&self, firing: &[&Alert]) -> bool {
        let has = |alert: &Alert| self.labels.iter().all(|(name, value)| alert.labels.get(name) == Some(value));
        self.on == PagerOn::Alert && firing.iter().any(|alert| has(alert))
    }
}
