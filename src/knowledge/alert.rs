//! The types of Alertmanager's data: alerts, groups, episodes.
//!
//! Parses the webhook payload version "4", tolerates unknown fields (other tools add some), and nothing else:
//! [`crate::playbook::select`] decides what an alert means, [`crate::incident`] what is stored.

mod own;
mod payload;
mod watchdog;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use own::{OwnAlert, SELF_TEST, SELF_TEST_CHANNEL, SELF_TEST_POOL};
pub use payload::{KEPT_ALERTS, PANEL_ANNOTATION, SILENCE_ANNOTATION};

/// Label or annotation names with their values; sorted, so that output is deterministic.
pub type Labels = BTreeMap<String, String>;

/// The webhook payload version of Alertmanager.
/// Source: Alertmanager, `notify/webhook`, `Message.Version`.
pub const PAYLOAD_VERSION: &str = "4";

/// The webhook payload version of Grafana's own Alertmanager, with the same fields and some more.
/// Source: <https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/>.
pub const GRAFANA_VERSION: &str = "1";

/// The status of one alert or of a whole notification.
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
    /// The time at which the alert began to fire; with the fingerprint, the identity of an episode.
    pub starts_at: Timestamp,
    /// The time at which the alert ended; the year 0001 while it fires.
    #[serde(default = "never")]
    pub ends_at: Timestamp,
    /// Link to the rule's graph; may be empty.
    #[serde(default, rename = "generatorURL")]
    pub generator_url: String,
    /// Alertmanager's hash of the labels, 16 hex digits; empty if the alert was written by hand.
    #[serde(default)]
    pub fingerprint: String,
}

fn never() -> Timestamp {
    // Go's zero time, which Alertmanager sends as `0001-01-01T00:00:00Z`.
    Timestamp::from_second(-62_135_596_800).unwrap_or(Timestamp::MIN)
}

impl Alert {
    /// Returns the alert's name, or `unnamed alert` if the label is absent or empty.
    pub fn name(&self) -> &str {
        match self.labels.get("alertname").map(String::as_str) {
            None | Some("") => "unnamed alert",
            Some(name) => name,
        }
    }

    /// Returns true if the severity is `critical` or `page`, so that people must be called at once.
    pub fn is_critical(&self) -> bool {
        matches!(self.labels.get("severity").map(String::as_str), Some("critical" | "page"))
    }

    /// Returns the episode's key inside its group: fingerprint and start. The labels replace a missing fingerprint.
    pub fn episode(&self) -> (String, Timestamp) {
        let id = match self.fingerprint.as_str() {
            "" => self.labels.iter().map(|(k, v)| format!("{k}={v:?},")).collect(),
            fingerprint => fingerprint.to_owned(),
        };
        (id, self.starts_at)
    }
}

/// The identity and status of an alert that is not stored in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedAlert {
    /// The key that [`Alert::episode`] returns.
    pub episode: (String, Timestamp),
    /// Firing or resolved.
    pub status: AlertStatus,
}

/// One notification of one alert group.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertGroup {
    /// Alertmanager's identity of the group; unbounded length, any UTF-8.
    pub group_key: String,
    /// The receiver's name in Alertmanager's configuration.
    pub receiver: String,
    /// The stored alerts; if there are more than [`KEPT_ALERTS`], the most severe.
    pub alerts: Vec<Alert>,
    /// The received alerts that are not stored in full.
    pub left_out: Vec<OmittedAlert>,
    /// Number of alerts that Alertmanager left out (`max_alerts`), or of which only the count is known.
    pub truncated_alerts: u64,
    /// The labels by which Alertmanager grouped.
    pub group_labels: Labels,
    /// The public address of this Alertmanager.
    pub external_url: String,
    /// Alertmanager's reason for the notification, from 0.32 on; the service relies only on "all alerts resolved".
    pub notification_reason: Option<String>,
    /// The configured name of the sender; never read from the body.
    pub sender: Option<String>,
}

/// A body that is not a valid alert group.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The body is not JSON, or a field is missing or of the wrong type.
    #[error("the body is no Alertmanager webhook payload: {0}")]
    Shape(#[from] serde_json::Error),
    /// One element is larger than any alert may be.
    #[error("one alert of the body is larger than 4 MiB")]
    TooLong,
    /// The payload version is not supported.
    #[error(
        "payload version is {0:?}, expected \"{PAYLOAD_VERSION}\" of Alertmanager, or \"{GRAFANA_VERSION}\" of Grafana"
    )]
    Version(String),
    /// The group contains no alerts.
    #[error("the payload has no alerts")]
    Empty,
}

impl AlertGroup {
    /// Parses a file from the command line: a webhook body, or a single alert.
    ///
    /// # Errors
    /// As [`AlertGroup::from_webhook`]; for a single alert, when status or start is missing.
    pub fn from_file(body: &[u8]) -> Result<Self, PayloadError> {
        // Editors on Windows add a byte order mark, which JSON does not allow.
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let value: serde_json::Value = serde_json::from_slice(body)?;
        if value.get("alerts").is_some() {
            return Self::from_webhook(body);
        }
        Ok(Self::of_alert(serde_json::from_value(value)?))
    }

    /// Builds a group of one alert, as if Alertmanager had grouped by all labels.
    pub fn of_alert(alert: Alert) -> Self {
        Self {
            group_key: format!("{{}}:{:?}", alert.labels),
            receiver: String::new(),
            group_labels: alert.labels.clone(),
            truncated_alerts: 0,
            external_url: String::new(),
            notification_reason: None,
            sender: None,
            alerts: vec![alert],
            left_out: Vec::new(),
        }
    }

    /// Returns true if the group has no alert, neither stored nor left out.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty() && self.left_out.is_empty() && self.truncated_alerts == 0
    }

    /// Returns the source of the group: the configured name of the sender, or else the `cluster` label that all alerts
    /// share, or else empty. Source and group key identify the group. The external URL does not, because the members of
    /// a highly available pair differ in it.
    pub fn source(&self) -> String {
        let cluster = || common_labels(&self.alerts.iter().collect::<Vec<_>>()).remove("cluster");
        self.sender.clone().or_else(cluster).unwrap_or_default()
    }

    /// Returns the firing alerts of this notification, or all alerts if none fires.
    pub fn active(&self) -> Vec<&Alert> {
        active(&self.alerts)
    }
}

/// Returns the firing alerts, or all alerts if none fires.
pub fn active(alerts: &[Alert]) -> Vec<&Alert> {
    let firing: Vec<&Alert> = alerts.iter().filter(|a| a.status == AlertStatus::Firing).collect();
    if firing.is_empty() { alerts.iter().collect() } else { firing }
}

/// Returns the labels that all `alerts` share with the same value.
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
        let expected = r#"payload version is "3", expected "4" of Alertmanager, or "1" of Grafana"#;
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_lone_alert_is_a_group_of_one_even_behind_a_byte_order_mark() {
        let body = br#"{"status":"firing","labels":{"alertname":"LLMHighTTFT"},"startsAt":"2026-11-20T03:00:00Z"}"#;
        let group = AlertGroup::from_file(body).unwrap();
        assert_eq!((group.alerts.len(), group.alerts[0].name()), (1, "LLMHighTTFT"));
        let marked = [b"\xef\xbb\xbf", body.as_slice()].concat();
        assert_eq!(AlertGroup::from_file(&marked).unwrap(), group);
    }
}
