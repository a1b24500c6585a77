//! Reads a webhook body of any length in bounded memory.
//!
//! Alertmanager puts no limit on a group (`max_alerts: 0`), and names the group after its alerts. So alerts are read one
//! by one: the most severe are kept whole, of the others only who they are and whether they fire.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use super::{Alert, AlertGroup, AlertStatus, Labels, LeftOut, PAYLOAD_VERSION, PayloadError, never};

/// Alerts of one group that are kept whole at most.
pub const KEPT_ALERTS: usize = 2_000;
/// Bytes of text that the kept alerts have together at most.
const KEPT_BYTES: usize = 4 << 20;
/// Bytes that the identities of the other alerts may take; of those on top only the number is known.
const LEFT_OUT_BYTES: usize = 16 << 20;
/// What an identity takes beside its text.
const IDENTITY_BYTES: usize = 64;
/// Bytes of one alert, or of everything that stands beside the alerts, at most.
const ELEMENT_BYTES: usize = 4 << 20;
/// Names of alerts under which a group is looked for that was too large to be read.
const TOO_LARGE_NAMES: usize = 20;
/// What the reader says of such an element.
const TOO_LONG: &str = "one of its elements is larger than 4 MiB";

/// The body's shape, as far as we read it.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    #[serde(default)]
    version: String,
    group_key: String,
    status: AlertStatus,
    #[serde(default)]
    receiver: String,
    alerts: Alerts,
    #[serde(default)]
    truncated_alerts: u64,
    #[serde(default)]
    group_labels: Labels,
    #[serde(default)]
    common_annotations: Labels,
    #[serde(default, rename = "externalURL")]
    external_url: String,
    #[serde(default, rename = "notification_reason")]
    notification_reason: Option<String>,
}

impl AlertGroup {
    /// Reads a webhook body.
    ///
    /// # Errors
    /// When the body is not JSON of that shape, has another version, or no alerts.
    pub fn from_webhook(body: &[u8]) -> Result<Self, PayloadError> {
        Self::from_payload(serde_json::from_slice(body)?)
    }

    /// Reads a webhook body as it comes; blocks. Beside the result it never holds more than some 30 MB, however long the
    /// body is.
    ///
    /// # Errors
    /// As [`Self::from_webhook`]; [`PayloadError::TooLong`] when one element alone is larger than 4 MiB.
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
        if payload.version != PAYLOAD_VERSION {
            return Err(PayloadError::Version(payload.version));
        }
        let (alerts, left_out, uncounted) = payload.alerts.finish();
        if alerts.is_empty() {
            return Err(PayloadError::Empty);
        }
        let mut group = Self {
            version: payload.version,
            group_key: payload.group_key,
            status: payload.status,
            receiver: payload.receiver,
            alerts,
            left_out,
            truncated_alerts: payload.truncated_alerts.saturating_add(uncounted),
            group_labels: payload.group_labels,
            common_annotations: payload.common_annotations,
            external_url: payload.external_url,
            notification_reason: payload.notification_reason,
            sender: None,
        };
        group.replace_nul();
        Ok(group)
    }

    /// No label means a NUL, and PostgreSQL keeps none: a replacement character stands for it.
    fn replace_nul(&mut self) {
        let texts = [&mut self.group_key, &mut self.receiver, &mut self.external_url];
        texts.into_iter().chain(&mut self.notification_reason).for_each(text_without_nul);
        labels_without_nul(&mut self.group_labels);
        labels_without_nul(&mut self.common_annotations);
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

    /// What can be told of a body that is too large to be read, from its beginning: an alert that says so, with the labels
    /// of the first alert, so that it goes where that one would go. It is over when the group is, whose status stands before
    /// its alerts in what Alertmanager sends. With `max_alerts` the status speaks only for the alerts that were sent; the
    /// next notification corrects it. None when no alert stands there.
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

    /// The group keys under which a body of this group was told that was too large to be read, some at most.
    pub fn too_large_keys(&self) -> BTreeSet<String> {
        let names: BTreeSet<&str> = self.alerts.iter().map(Alert::name).collect();
        let names = names.into_iter().take(TOO_LARGE_NAMES);
        names.map(|name| too_large_key(&self.receiver, name)).filter(|key| *key != self.group_key).collect()
    }
}

fn too_large_key(receiver: &str, name: &str) -> String {
    format!("too large to read: {receiver}/{name:?}")
}

/// Where a part of a JSON text stands first.
fn find(json: &[u8], part: &[u8]) -> Option<usize> {
    json.windows(part.len()).position(|window| window == part)
}

/// The value after the first `key` in a part of a JSON text.
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

/// The alerts of a body, while they are read.
#[derive(Default)]
struct Alerts {
    /// With their place in the body.
    kept: Vec<(usize, Alert)>,
    kept_bytes: usize,
    seen: usize,
    left_out: Vec<LeftOut>,
    left_out_bytes: usize,
    uncounted: u64,
}

impl Alerts {
    fn add(&mut self, alert: Alert) {
        self.kept_bytes += size(&alert);
        self.kept.push((self.seen, alert));
        self.seen += 1;
        // Twice as many as are kept, so that they are not sorted for each alert.
        if self.kept.len() >= 2 * KEPT_ALERTS || self.kept_bytes >= 2 * KEPT_BYTES {
            self.trim();
        }
    }

    /// Keeps the most severe, at least one.
    fn trim(&mut self) {
        self.kept.sort_by(|(_, a), (_, b)| by_severity(a, b));
        let mut bytes = 0;
        let fits = |(_, alert): &(usize, Alert)| {
            bytes += size(alert);
            bytes <= KEPT_BYTES
        };
        let keep = self.kept.iter().take(KEPT_ALERTS).map(fits).take_while(|fits| *fits).count().max(1);
        for (_, alert) in self.kept.drain(keep.min(self.kept.len())..) {
            self.kept_bytes -= size(&alert);
            let episode = alert.episode();
            self.left_out_bytes += episode.0.len() + IDENTITY_BYTES;
            match self.left_out_bytes <= LEFT_OUT_BYTES {
                true => self.left_out.push(LeftOut { episode, status: alert.status }),
                false => self.uncounted += 1,
            }
        }
    }

    /// The kept alerts in the body's order, the identities of the others, and how many have not even those.
    fn finish(mut self) -> (Vec<Alert>, Vec<LeftOut>, u64) {
        if self.kept.len() > KEPT_ALERTS || self.kept_bytes > KEPT_BYTES {
            self.trim();
        }
        self.kept.sort_by_key(|(place, _)| *place);
        (self.kept.into_iter().map(|(_, alert)| alert).collect(), self.left_out, self.uncounted)
    }
}

/// Bytes of an alert's text.
fn size(alert: &Alert) -> usize {
    let labels = alert.labels.iter().chain(&alert.annotations).map(|(name, value)| name.len() + value.len());
    labels.sum::<usize>() + alert.generator_url.len() + alert.fingerprint.len()
}

/// Firing before resolved, critical first, then the oldest; the same alerts are kept each time.
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
                while let Some(alert) = list.next_element()? {
                    alerts.add(alert);
                }
                Ok(alerts)
            }
        }
        deserializer.deserialize_seq(OneByOne)
    }
}

/// A JSON text whose elements, down to those of a list in the outermost object, have a bounded length.
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
        // Only in one piece: more alerts than that limit has bytes are read.
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
