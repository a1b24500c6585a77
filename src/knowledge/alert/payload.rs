//! Parses a webhook body of any length in bounded memory.
//!
//! Alertmanager does not limit the size of a group (`max_alerts: 0`), and sends the group's name after its alerts. So
//! alerts are parsed one by one: the most severe are stored in full; of the others only identity and status.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use super::{
    Alert, AlertGroup, AlertStatus, GRAFANA_VERSION, Labels, OmittedAlert, PAYLOAD_VERSION, PayloadError, never,
};

/// Maximum number of alerts of one group that are stored in full.
pub const KEPT_ALERTS: usize = 2_000;
/// The annotation with the panel that Grafana links to an alert.
pub const PANEL_ANNOTATION: &str = "grafana_panel_url";
/// The annotation with Grafana's form for a silence of one alert.
pub const SILENCE_ANNOTATION: &str = "grafana_silence_url";
/// Maximum size of the text of these alerts together, in bytes.
const KEPT_BYTES: usize = 4 << 20;
/// Maximum size of the identities of the other alerts, in bytes; beyond it alerts are only counted.
const LEFT_OUT_BYTES: usize = 16 << 20;
/// Memory of one identity besides its text, in bytes.
const IDENTITY_BYTES: usize = 64;
/// Maximum size of one alert, or of everything outside the alerts, in bytes.
const ELEMENT_BYTES: usize = 4 << 20;
/// Maximum number of alert names by which incidents of earlier, too large notifications are found.
const TOO_LARGE_NAMES: usize = 20;
/// The error text for an element that is too large.
const TOO_LONG: &str = "one of its elements is larger than 4 MiB";

/// The fields of the body that are parsed.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    #[serde(default)]
    version: String,
    group_key: String,
    #[serde(default)]
    receiver: String,
    alerts: Alerts,
    #[serde(default)]
    truncated_alerts: u64,
    #[serde(default)]
    group_labels: Labels,
    #[serde(default, rename = "externalURL")]
    external_url: String,
    #[serde(default, rename = "notification_reason")]
    notification_reason: Option<String>,
}

impl AlertGroup {
    /// Parses a webhook body.
    ///
    /// # Errors
    /// When the body is not a valid payload, has another version, or contains no alerts.
    pub fn from_webhook(body: &[u8]) -> Result<Self, PayloadError> {
        Self::from_payload(serde_json::from_slice(body)?)
    }

    /// Parses a webhook body from a blocking reader. Besides the result it uses at most about 30 MB, whatever the
    /// length of the body.
    ///
    /// # Errors
    /// As [`Self::from_webhook`]; [`PayloadError::TooLong`] when a single element is larger than 4 MiB.
    pub fn from_reader(body: impl Read) -> Result<Self, PayloadError> {
        let body = io::BufReader::with_capacity(1 << 16, Elements::new(body));
        Self::from_payload(serde_json::from_reader(body).map_err(|error| {
            match error.is_io() && is_too_long(&error) {
                true => PayloadError::TooLong,
                false => PayloadError::Shape(error),
            }
        })?)
    }

    fn from_payload(payload: Payload) -> Result<Self, PayloadError> {
        if ![PAYLOAD_VERSION, GRAFANA_VERSION].contains(&payload.version.as_str()) {
            return Err(PayloadError::Version(payload.version));
        }
        let (alerts, left_out, uncounted) = payload.alerts.finish();
        if alerts.is_empty() {
            return Err(PayloadError::Empty);
        }
        let mut group = Self {
            group_key: payload.group_key,
            receiver: payload.receiver,
            alerts,
            left_out,
            truncated_alerts: payload.truncated_alerts.saturating_add(uncounted),
            group_labels: payload.group_labels,
            external_url: payload.external_url,
            notification_reason: payload.notification_reason,
            sender: None,
        };
        group.replace_nul();
        Ok(group)
    }

    /// Replaces NUL with the replacement character: PostgreSQL cannot store NUL, and no label needs it.
    fn replace_nul(&mut self) {
        let texts = [&mut self.group_key, &mut self.receiver, &mut self.external_url];
        texts.into_iter().chain(&mut self.notification_reason).for_each(text_without_nul);
        labels_without_nul(&mut self.group_labels);
        for alert in &mut self.alerts {
            text_without_nul(&mut alert.generator_url);
            text_without_nul(&mut alert.fingerprint);
            labels_without_nul(&mut alert.labels);
            labels_without_nul(&mut alert.annotations);
        }
        for other in &mut self.left_out {
            text_without_nul(&mut other.episode.0);
        }
    }

    /// Builds a group from the beginning of a body that is too large to parse: one alert that reports this, with the
    /// labels of the first alert, so that it is routed like that alert. The alert is resolved if the group's status is,
    /// which Alertmanager sends before the alerts. With `max_alerts` the status covers only the alerts that were sent;
    /// the next notification corrects it. `None` if the beginning contains no alert.
    ///
    /// Source of the order: <https://github.com/prometheus/alertmanager/blob/main/template/template.go>, `Data`.
    pub fn too_large(beginning: &[u8]) -> Option<Self> {
        let labels: Labels = first(beginning, br#""labels":"#)?;
        let receiver: String = first(beginning, br#""receiver":"#).unwrap_or_default();
        let summary = "Too large to read: of this notification only the first alert is known. Set max_alerts in \
                       Alertmanager, or raise webhook.body_limit here.";
        let alerts = find(beginning, br#""alerts":"#).unwrap_or_default();
        let alert = Alert {
            status: first(&beginning[..alerts], br#""status":"#).unwrap_or(AlertStatus::Firing),
            annotations: Labels::from([("summary".to_owned(), summary.to_owned())]),
            starts_at: first(beginning, br#""startsAt":"#)?,
            ends_at: never(),
            generator_url: String::new(),
            fingerprint: "too large".to_owned(),
            labels,
        };
        let mut group = Self::of_alert(alert);
        group.group_key = too_large_key(&receiver, group.alerts[0].name());
        group.receiver = receiver;
        group.replace_nul();
        Some(group)
    }

    /// Returns the group keys under which a too large body of this group may have been stored; at most
    /// [`TOO_LARGE_NAMES`].
    pub fn too_large_keys(&self) -> BTreeSet<String> {
        let names: BTreeSet<&str> = self.alerts.iter().map(Alert::name).collect();
        let names = names.into_iter().take(TOO_LARGE_NAMES);
        names.map(|name| too_large_key(&self.receiver, name)).filter(|key| *key != self.group_key).collect()
    }
}

fn too_large_key(receiver: &str, name: &str) -> String {
    format!("too large to read: {receiver}/{name:?}")
}

/// Returns the position of the first `part` in a JSON text.
fn find(json: &[u8], part: &[u8]) -> Option<usize> {
    json.windows(part.len()).position(|window| window == part)
}

/// Parses the value after the first `key` in a fragment of a JSON text.
fn first<T: for<'de> Deserialize<'de>>(json: &[u8], key: &[u8]) -> Option<T> {
    let at = find(json, key)? + key.len();
    serde_json::Deserializer::from_slice(&json[at..]).into_iter().next()?.ok()
}

fn text_without_nul(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

fn labels_without_nul(labels: &mut Labels) {
    if labels.iter().any(|(name, value)| name.contains('\0') || value.contains('\0')) {
        let clean = |text: String| text.replace('\0', "\u{fffd}");
        *labels = std::mem::take(labels).into_iter().map(|(name, value)| (clean(name), clean(value))).collect();
    }
}

/// An alert as it was sent.
#[derive(serde::Deserialize)]
struct ReceivedAlert {
    #[serde(flatten)]
    alert: Alert,
    #[serde(flatten)]
    links: GrafanaLinks,
}

/// The links that Grafana adds to an alert; its `values` have only the letters of the rule's queries as names.
/// Source: as of [`GRAFANA_VERSION`].
#[derive(serde::Deserialize)]
struct GrafanaLinks {
    #[serde(default, rename = "panelURL")]
    panel: Option<String>,
    #[serde(default, rename = "silenceURL")]
    silence: Option<String>,
}

impl GrafanaLinks {
    /// Keeps them as annotations, which are stored, cleaned and shown as such.
    fn into_annotations(self, mut alert: Alert) -> Alert {
        for (name, link) in [(PANEL_ANNOTATION, self.panel), (SILENCE_ANNOTATION, self.silence)] {
            if let Some(link) = link.filter(|link| !link.is_empty()) {
                alert.annotations.entry(name.to_owned()).or_insert(link);
            }
        }
        alert
    }
}

/// Collects the alerts of a body while it is parsed.
#[derive(Default)]
struct Alerts {
    /// The alerts to store, with their positions in the body.
    alerts: Vec<(usize, Alert)>,
    kept_bytes: usize,
    received: usize,
    left_out: Vec<OmittedAlert>,
    left_out_bytes: usize,
    uncounted: u64,
}

impl Alerts {
    fn add(&mut self, alert: Alert) {
        self.kept_bytes += size(&alert);
        self.alerts.push((self.received, alert));
        self.received += 1;
        // Twice the limit, so that the alerts are not sorted after each addition.
        if self.alerts.len() >= 2 * KEPT_ALERTS || self.kept_bytes >= 2 * KEPT_BYTES {
            self.trim();
        }
    }

    /// Reduces the alerts to the most severe ones within the limits, at least one.
    fn trim(&mut self) {
        self.alerts.sort_by(|(_, a), (_, b)| by_severity(a, b));
        let mut bytes = 0;
        let fits = |(_, alert): &(usize, Alert)| {
            bytes += size(alert);
            bytes <= KEPT_BYTES
        };
        let keep = self.alerts.iter().take(KEPT_ALERTS).map(fits).take_while(|fits| *fits).count().max(1);
        for (_, alert) in self.alerts.drain(keep.min(self.alerts.len())..) {
            self.kept_bytes -= size(&alert);
            let episode = alert.episode();
            self.left_out_bytes += episode.0.len() + IDENTITY_BYTES;
            match self.left_out_bytes <= LEFT_OUT_BYTES {
                true => self.left_out.push(OmittedAlert { episode, status: alert.status }),
                false => self.uncounted += 1,
            }
        }
    }

    /// Returns the alerts to store in the order of the body, the identities of the others, and the number of alerts
    /// that are only counted.
    fn finish(mut self) -> (Vec<Alert>, Vec<OmittedAlert>, u64) {
        if self.alerts.len() > KEPT_ALERTS || self.kept_bytes > KEPT_BYTES {
            self.trim();
        }
        self.alerts.sort_by_key(|(place, _)| *place);
        (self.alerts.into_iter().map(|(_, alert)| alert).collect(), self.left_out, self.uncounted)
    }
}

/// Returns the size of an alert's text, in bytes.
fn size(alert: &Alert) -> usize {
    let labels = alert.labels.iter().chain(&alert.annotations).map(|(name, value)| name.len() + value.len());
    labels.sum::<usize>() + alert.generator_url.len() + alert.fingerprint.len()
}

/// Orders alerts: firing before resolved, then critical first, then the oldest first; deterministic.
fn by_severity(a: &Alert, b: &Alert) -> Ordering {
    let rank = |alert: &Alert| (alert.status, !alert.is_critical(), alert.starts_at);
    rank(a).cmp(&rank(b)).then_with(|| a.fingerprint.cmp(&b.fingerprint)).then_with(|| a.labels.cmp(&b.labels))
}

impl<'de> Deserialize<'de> for Alerts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneByOne;
        impl<'de> Visitor<'de> for OneByOne {
            type Value = Alerts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of alerts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Alerts, A::Error> {
                let mut alerts = Alerts::default();
                while let Some(ReceivedAlert { alert, links }) = list.next_element()? {
                    alerts.add(links.into_annotations(alert));
                }
                Ok(alerts)
            }
        }
        deserializer.deserialize_seq(OneByOne)
    }
}

/// A reader of JSON text that limits the length of each element, down to those of a list in the outermost object.
struct Elements<R> {
    inner: R,
    depth: usize,
    in_string: bool,
    escaped: bool,
    length: usize,
}

impl<R> Elements<R> {
    fn new(inner: R) -> Self {
        Self { inner, depth: 0, in_string: false, escaped: false, length: 0 }
    }

    fn follow(&mut self, byte: u8) {
        self.length += 1;
        match (self.in_string, byte) {
            (true, _) if self.escaped => self.escaped = false,
            (true, b'\\') => self.escaped = true,
            (_, b'"') => self.in_string = !self.in_string,
            (false, b'{' | b'[') => self.depth += 1,
            (false, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth <= 2 {
                    self.length = 0;
                }
            }
            _ => {}
        }
    }
}

impl<R: Read> Read for Elements<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        for byte in &buffer[..n] {
            self.follow(*byte);
            if self.length > ELEMENT_BYTES {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, TOO_LONG));
            }
        }
        Ok(n)
    }
}

fn is_too_long(error: &serde_json::Error) -> bool {
    error.io_error_kind() == Some(io::ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(n: usize, status: &str, severity: &str) -> String {
        format!(
            r#"{{"status":"{status}","labels":{{"alertname":"A","n":"{n}","severity":"{severity}"}},
                "startsAt":"2026-11-20T03:00:00Z","fingerprint":"{n:016x}"}}"#
        )
    }

    fn body(alerts: &[String]) -> String {
        format!(
            r#"{{"receiver":"r","status":"firing","alerts":[{}],"version":"4","groupKey":"g","truncatedAlerts":0}}"#,
            alerts.join(",")
        )
    }

    #[test]
    fn of_too_many_alerts_the_firing_and_critical_are_kept_and_all_are_known() {
        let status = |n: usize| if n.is_multiple_of(2) { "firing" } else { "resolved" };
        let severity = |n: usize| if n >= 4_990 { "critical" } else { "warning" };
        let alerts: Vec<String> = (0..5_000).map(|n| alert(n, status(n), severity(n))).collect();
        let group = AlertGroup::from_reader(body(&alerts).as_bytes()).unwrap();
        assert_eq!((group.alerts.len(), group.left_out.len(), group.truncated_alerts), (KEPT_ALERTS, 3_000, 0));
        assert!(group.alerts.iter().all(|a| a.status == AlertStatus::Firing));
        assert_eq!(group.alerts.iter().filter(|a| a.is_critical()).count(), 5);
        let firing = group.left_out.iter().filter(|other| other.status == AlertStatus::Firing).count();
        assert_eq!(firing, 500);
        assert_eq!(group, AlertGroup::from_webhook(body(&alerts).as_bytes()).unwrap(), "both readers agree");
    }

    #[test]
    fn one_endless_alert_is_refused_before_it_fills_the_memory() {
        let endless = io::Read::chain(&br#"{"alerts":[{"annotations":{"a":""#[..], io::repeat(b'x'));
        assert!(matches!(AlertGroup::from_reader(endless), Err(PayloadError::TooLong)));
        // The limit applies to one element; a body with more bytes in several alerts is accepted.
        let alerts: Vec<String> = (0..ELEMENT_BYTES / 100).map(|n| alert(n, "firing", "warning")).collect();
        let text = body(&alerts);
        assert!(text.len() > ELEMENT_BYTES && AlertGroup::from_reader(text.as_bytes()).is_ok());
    }

    #[test]
    fn the_beginning_of_a_body_tells_whose_it_is() {
        let text = body(&[alert(1, "firing", "critical"), alert(2, "firing", "critical")]);
        let group = AlertGroup::too_large(&text.as_bytes()[..text.len() - 150]).unwrap();
        assert_eq!((group.alerts[0].name(), group.receiver.as_str()), ("A", "r"));
        assert!(group.alerts[0].is_critical() && group.alerts[0].annotations["summary"].contains("Too large to read"));
        assert_eq!(AlertGroup::too_large(&[b' '; 1_000]), None);
    }

    #[test]
    fn a_nul_becomes_a_replacement_character_and_an_escaped_backslash_stays() {
        let text = body(&[alert(1, "firing", r"a\u0000b\\u0000")]);
        let group = AlertGroup::from_webhook(text.as_bytes()).unwrap();
        assert_eq!(group.alerts[0].labels["severity"], "a\u{fffd}b\\u0000");
    }
}
