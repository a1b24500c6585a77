//! Pagers and webhooks that get the triage.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// An entry of `pagers:`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pager {
    /// Its name: in logs, metrics, and for `slack.escalate`.
    pub name: String,
    /// What it speaks.
    pub kind: PagerKind,
    /// Labels on which all firing alerts must agree; empty takes every incident.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its address; of PagerDuty's Events API unless told.
    #[serde(default)]
    pub url: Option<String>,
    /// A file with PagerDuty's routing key (the one that Alertmanager uses), or the webhook's HMAC secret.
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
