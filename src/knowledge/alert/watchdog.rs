//! The always-firing alert of an expected Alertmanager, and the alert about one that is silent.

use jiff::Timestamp;

use super::{Alert, AlertGroup, AlertStatus, Labels, never};

/// The name of the alert about an Alertmanager that is silent.
pub(super) const ALERTMANAGER_SILENT: &str = "LLMDiagnoseAlertmanagerSilent";

impl AlertGroup {
    /// The group key of the groups that [`Self::alertmanager_silent`] builds; with the source it identifies the incident.
    pub const SILENT_KEY: &str = "llm-diagnose: watchdog";

    /// Builds the group that reports a silent Alertmanager: one critical alert that began with its last notification.
    pub fn alertmanager_silent(source: &str, since: Timestamp, summary: String) -> Self {
        let labels = [("alertname", ALERTMANAGER_SILENT), ("severity", "critical"), ("alertmanager", source)];
        let alert = Alert {
            status: AlertStatus::Firing,
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            annotations: Labels::from([("summary".to_owned(), summary)]),
            starts_at: since,
            ends_at: never(),
            generator_url: String::new(),
            fingerprint: ALERTMANAGER_SILENT.to_owned(),
        };
        Self::alertmanager_told(source, alert)
    }

    /// Builds the group that ends what [`Self::alertmanager_silent`] reported, from its stored alert.
    pub fn alertmanager_heard(source: &str, alert: &Alert, now: Timestamp) -> Self {
        Self::alertmanager_told(source, Alert { status: AlertStatus::Resolved, ends_at: now, ..alert.clone() })
    }

    fn alertmanager_told(source: &str, alert: Alert) -> Self {
        Self { group_key: Self::SILENT_KEY.to_owned(), sender: Some(source.to_owned()), ..Self::of_alert(alert) }
    }

    /// Removes the alerts with this name, the always-firing one, and returns whether one of them fires; `None` if there
    /// is none. Where all other alerts were left out, it stays: it represents them.
    pub fn take_watchdog(&mut self, name: &str) -> Option<bool> {
        let fires = self.alerts.iter().filter(|alert| alert.name() == name).map(|a| a.status == AlertStatus::Firing);
        let fires = fires.reduce(|one, other| one || other)?;
        let is_listed_alone = self.alerts.iter().all(|alert| alert.name() == name);
        if !is_listed_alone || (self.truncated_alerts == 0 && self.left_out.is_empty()) {
            self.alerts.retain(|alert| alert.name() != name);
        }
        Some(fires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(alerts: &[(&str, &str)]) -> AlertGroup {
        let alert = |(name, status): &(&str, &str)| serde_json::json!({ "status": status, "labels": { "alertname": name }, "startsAt": "2026-11-20T03:00:00Z" });
        let alerts: Vec<_> = alerts.iter().map(alert).collect();
        let body = serde_json::json!({
            "version": "4", "groupKey": "g", "status": "firing", "receiver": "r", "groupLabels": {},
            "commonAnnotations": {}, "externalURL": "", "alerts": alerts,
        });
        AlertGroup::from_webhook(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_watchdog_is_taken_out_of_a_group_and_the_rest_stays() {
        let mut alone = group(&[("Watchdog", "firing")]);
        assert_eq!((alone.take_watchdog("Watchdog"), alone.is_empty()), (Some(true), true));
        let mut mixed = group(&[("Watchdog", "resolved"), ("LLMHighTTFT", "firing")]);
        assert_eq!((mixed.take_watchdog("Watchdog"), mixed.alerts.len()), (Some(false), 1));
        assert_eq!((mixed.take_watchdog("Watchdog"), mixed.is_empty()), (None, false));
        let mut replaced = group(&[("Watchdog", "resolved"), ("Watchdog", "firing")]);
        assert_eq!(replaced.take_watchdog("Watchdog"), Some(true), "one Prometheus of a pair is enough");
        let mut truncated = AlertGroup { truncated_alerts: 5, ..group(&[("Watchdog", "firing")]) };
        assert_eq!((truncated.take_watchdog("Watchdog"), truncated.alerts.len()), (Some(true), 1), "somebody is shown");
    }
}
