//! The words that come from Alertmanager: alerts, groups, episodes.
//!
//! Reads the webhook payload version "4" leniently (others' payloads grow fields) and nothing else:
//! what an alert means is decided by [`crate::playbook::select`], what is stored by [`crate::incident`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Label or annotation names to values; sorted, so that output is the same every time.
pub type Labels = BTreeMap<String, String>;

/// The webhook payload version this service reads.
/// Source: Alertmanager, `notify/webhook`, `Message.Version`.
pub const PAYLOAD_VERSION: &str = "4";

/// Whether one alert, or a whole notification, says firing or resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertStatus {
    /// The condition holds.
    Firing,
    /// The condition has ended.
    Resolved,
}

/// One alert of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// Firing or resolved.
    pub status: AlertStatus,
    /// The alert's labels; `alertname` may be absent, names may be any UTF-8.
    #[serde(default)]
    pub labels: Labels,
    /// Free text for people.
    #[serde(default)]
    pub annotations: Labels,
    /// When it began to fire: with the fingerprint, the identity of an episode.
    #[schemars(with = "String")]
    pub starts_at: Timestamp,
    /// When it ended; the year 0001 while it fires.
    #[serde(default = "never")]
    #[schemars(with = "String")]
    pub ends_at: Timestamp,
    /// Link to the rule's graph; may be empty.
    #[serde(default, rename = "generatorURL")]
    pub generator_url: String,
    /// Alertmanager's hash of the labels, 16 hex digits; empty when a caller made the alert by hand.
    #[serde(default)]
    pub fingerprint: String,
}

fn never() -> Timestamp {
    // Go's zero time, which Alertmanager sends as `0001-01-01T00:00:00Z`.
    Timestamp::from_second(-62_135_596_800).unwrap_or(Timestamp::MIN)
}

impl Alert {
    /// The alert's name, or `unnamed alert` when the label is absent or empty.
    pub fn name(&self) -> &str {
        match self.labels.get("alertname").map(String::as_str) {
            None | Some("") => "unnamed alert",
            Some(name) => name,
        }
    }

    /// Whether its severity calls for somebody at once.
    pub fn is_critical(&self) -> bool {
        matches!(self.labels.get("severity").map(String::as_str), Some("critical" | "page"))
    }

    /// The episode's key inside its group: fingerprint and start.
    /// A hand-made alert without a fingerprint is told apart by its labels.
    pub fn episode(&self) -> (String, Timestamp) {
        let id = match self.fingerprint.as_str() {
            "" => self.labels.iter().map(|(k, v)| format!("{k}={v:?},")).collect(),
            fingerprint => fingerprint.to_owned(),
        };
        (id, self.starts_at)
    }
}

/// One notification for one alert group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertGroup {
    /// Always [`PAYLOAD_VERSION`].
    #[serde(default)]
    pub version: String,
    /// Alertmanager's identity of the group; unbounded length, any UTF-8.
    pub group_key: String,
    /// What Alertmanager says of the whole; not to be believed when alerts were truncated.
    pub status: AlertStatus,
    /// The receiver's name in Alertmanager's configuration.
    #[serde(default)]
    pub receiver: String,
    /// The alerts that fit `max_alerts`.
    pub alerts: Vec<Alert>,
    /// How many alerts were left out.
    #[serde(default)]
    pub truncated_alerts: u64,
    /// Labels of the grouping.
    #[serde(default)]
    pub group_labels: Labels,
    /// Annotations that all alerts share.
    #[serde(default)]
    pub common_annotations: Labels,
    /// Where this Alertmanager is reached by people.
    #[serde(default, rename = "externalURL")]
    pub external_url: String,
    /// Why Alertmanager sent it, from 0.32 on: "all alerts resolved" is the one we rely on.
    #[serde(default, rename = "notification_reason")]
    pub notification_reason: Option<String>,
    /// What is configured for the sender; never read from the body.
    #[serde(skip)]
    pub sender: Option<String>,
}

/// Why a body is no alert group.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// Not JSON, or a field is missing or of the wrong type.
    #[error("the body is no Alertmanager webhook payload: {0}")]
    Shape(#[from] serde_json::Error),
    /// Another payload version.
    #[error("payload version is {0:?}, expected \"{PAYLOAD_VERSION}\"")]
    Version(String),
    /// A group without alerts says nothing.
    #[error("the payload has no alerts")]
    Empty,
}

impl AlertGroup {
    /// Reads a webhook body.
    ///
    /// # Errors
    /// When the body is not JSON of that shape, has another version, or no alerts.
    pub fn from_webhook(body: &[u8]) -> Result<Self, PayloadError> {
        let group: Self = serde_json::from_slice(&without_nul(body))?;
        if group.version != PAYLOAD_VERSION {
            return Err(PayloadError::Version(group.version));
        }
        if group.alerts.is_empty() {
            return Err(PayloadError::Empty);
        }
        Ok(group)
    }

    /// Reads what a person passes on the command line: a webhook body, or one alert.
    ///
    /// # Errors
    /// As [`AlertGroup::from_webhook`]; for a lone alert, when it lacks status or start.
    pub fn from_file(body: &[u8]) -> Result<Self, PayloadError> {
        let value: serde_json::Value = serde_json::from_slice(body)?;
        if value.get("alerts").is_some() {
            return Self::from_webhook(body);
        }
        Ok(Self::of_alert(serde_json::from_value(value)?))
    }

    /// A group of one alert, as if Alertmanager had grouped by all labels.
    pub fn of_alert(alert: Alert) -> Self {
        Self {
            version: PAYLOAD_VERSION.to_owned(),
            group_key: format!("{{}}:{:?}", alert.labels),
            status: alert.status,
            receiver: String::new(),
            group_labels: alert.labels.clone(),
            common_annotations: alert.annotations.clone(),
            truncated_alerts: 0,
            external_url: String::new(),
            notification_reason: None,
            sender: None,
            alerts: vec![alert],
        }
    }

    /// Who sent it: what is configured for the sender, else the `cluster` on which all alerts agree, else empty. With the
    /// group key the identity of the group. Not the external URL: the members of a highly available pair differ in it.
    pub fn source(&self) -> String {
        let cluster = || common_labels(&self.alerts.iter().collect::<Vec<_>>()).remove("cluster");
        self.sender.clone().or_else(cluster).unwrap_or_default()
    }

    /// The alerts that fire in this notification, or all when none does.
    pub fn active(&self) -> Vec<&Alert> {
        active(&self.alerts)
    }
}

/// No label means a NUL, and PostgreSQL keeps none: a replacement character stands for it.
fn without_nul(json: &[u8]) -> Cow<'_, [u8]> {
    const NUL: &[u8] = br"\u0000";
    if !json.windows(NUL.len()).any(|part| part == NUL) {
        return json.into();
    }
    let mut json = json.to_vec();
    let mut at = 0;
    while at < json.len() {
        if json[at..].starts_with(NUL) {
            json[at + 2..at + 6].copy_from_slice(b"fffd");
        }
        // What a backslash escapes begins no escape itself.
        at += if json[at] == b'\\' { 2 } else { 1 };
    }
    json.into()
}

/// The firing ones of `alerts`, or all when none fires.
pub fn active(alerts: &[Alert]) -> Vec<&Alert> {
    let firing: Vec<&Alert> = alerts.iter().filter(|a| a.status == AlertStatus::Firing).collect();
    if firing.is_empty() { alerts.iter().collect() } else { firing }
}

/// The labels on which all `alerts` agree.
pub fn common_labels(alerts: &[&Alert]) -> Labels {
    let Some((first, rest)) = alerts.split_first() else {
        return Labels::new();
    };
    first
        .labels
        .iter()
        .filter(|(name, value)| rest.iter().all(|alert| alert.labels.get(*name) == Some(value)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_version_is_refused_with_both_versions_named() {
        let body = br#"{"version":"3","groupKey":"g","status":"firing","alerts":[]}"#;
        let error = AlertGroup::from_webhook(body).unwrap_err();
        assert_eq!(error.to_string(), r#"payload version is "3", expected "4""#);
    }

    #[test]
    fn a_lone_alert_is_a_group_of_one() {
        let body = br#"{"status":"firing","labels":{"alertname":"LLMHighTTFT"},"startsAt":"2026-11-20T03:00:00Z"}"#;
        let group = AlertGroup::from_file(body).unwrap();
        assert_eq!((group.alerts.len(), group.alerts[0].name()), (1, "LLMHighTTFT"));
    }
}
