//! Past firings, from Prometheus' series `ALERTS` or from a file of Alertmanager's webhook bodies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::{Setting, Stopped};
use crate::cli::input;
use ::backtest::{AlertSamples, Firing, same_firings};
use knowledge::alert::{Alert, AlertStatus, Labels};
use knowledge::clock;
use knowledge::clock::Range;
use knowledge::playbook::AlertRule;
use prom::{AlertingRule, PromError};

/// The step at which `ALERTS` is read.
const STEP: Duration = Duration::from_secs(60);
/// The time before the range in which firings that last into it may have begun.
const MARGIN: Duration = Duration::from_secs(86_400);
/// The longest range of one query: Prometheus answers with at most 11,000 samples of a series.
const PIECE: Duration = Duration::from_secs(4 * 86_400);
/// The range below which an answer that is too large is an error.
const SMALLEST_PIECE: Duration = Duration::from_secs(3_600);
/// Maximum bytes of a file of firings.
const FILE_BYTES: u64 = 256 << 20;

/// Reads the firings of the range from Prometheus, and of the day before it, so that one that began there is known to have;
/// and the server's words about a part of the data in which more may be.
pub(super) async fn from_prometheus(setting: &Setting<'_>) -> Result<(Vec<Firing>, Option<String>), Stopped> {
    let (from, to) = (clock::before(setting.range.0, MARGIN), setting.range.1);
    let query = "ALERTS{alertstate=~\"firing|pending\"}";
    let (mut samples, mut incomplete) = (AlertSamples::new(STEP), None);
    // A stack, the oldest piece on top; a piece with too large an answer is halved.
    let mut pieces = Vec::new();
    let mut end = to;
    while end > from {
        let begin = clock::before(end, PIECE).max(from);
        pieces.push((begin, end));
        end = clock::before(begin, STEP);
    }
    while let Some((begin, end)) = pieces.pop() {
        setting.has_queries_left()?;
        let range = Range { from: begin, to: end, step_seconds: i64::try_from(STEP.as_secs()).unwrap_or(60) };
        match setting.prometheus.query_range(query, range, Instant::now() + setting.long_deadline()).await {
            Ok(series) => {
                incomplete = incomplete.or(series.incomplete().map(str::to_owned));
                for series in series.iter() {
                    samples.add(&series.labels, series.samples.iter().map(|(at, _)| *at));
                }
            }
            Err(error) if is_too_large(&error) && clock::between(begin, end) > SMALLEST_PIECE => {
                let steps = clock::between(begin, end).as_secs() / STEP.as_secs() / 2;
                let middle = clock::after(begin, STEP * u32::try_from(steps).unwrap_or(u32::MAX));
                pieces.extend([(clock::after(middle, STEP), end), (begin, middle)]);
            }
            Err(error) => return Err(Stopped::Prometheus(error.to_string())),
        }
    }
    Ok((samples.firings(to), incomplete))
}

fn is_too_large(error: &PromError) -> bool {
    matches!(error, PromError::TooLarge { .. } | PromError::TooLong { .. } | PromError::NoMemory { .. })
        || error.is_too_much()
}

/// The firings of a file.
#[derive(Debug)]
pub(super) struct FiringsFile {
    /// The firings, by start.
    pub(super) firings: Vec<Firing>,
    /// The hash of the file's text.
    pub(super) hash: String,
}

impl FiringsFile {
    /// Reads a file, or standard input for `-`: JSON values one after the other, each a webhook body, an alert, or a list of
    /// alerts.
    ///
    /// # Errors
    /// If it cannot be read, or a value is none of these.
    pub(super) fn read(path: &str) -> anyhow::Result<Self> {
        let (source, text) = input::text(path, "the firings", FILE_BYTES)?;
        let mut all: BTreeMap<(Labels, Timestamp), Firing> = BTreeMap::new();
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        for (i, value) in values.enumerate() {
            let value = value.with_context(|| format!("{source} is no list of JSON values"))?;
            let alerts = alerts(value).with_context(|| {
                format!("value {} of {source} is neither a webhook body of Alertmanager nor an alert", i + 1)
            })?;
            // A body has no time; it was sent after the last start in it.
            let sent = alerts.iter().map(|alert| alert.starts_at).max().unwrap_or(Timestamp::MIN);
            for alert in alerts {
                add(&mut all, alert, sent);
            }
        }
        Ok(Self { firings: same_firings(all.into_values().collect()), hash: hash(&text) })
    }
}

fn alerts(mut value: Value) -> serde_json::Result<Vec<Alert>> {
    match value.get_mut("alerts").map(Value::take) {
        Some(alerts) => serde_json::from_value(alerts),
        None if value.is_array() => serde_json::from_value(value),
        None => serde_json::from_value(value).map(|alert| vec![alert]),
    }
}

/// Adds an alert of a notification that was sent after `sent`; a later notification of the same firing tells its end.
fn add(all: &mut BTreeMap<(Labels, Timestamp), Firing>, alert: Alert, sent: Timestamp) {
    let ended = (alert.status == AlertStatus::Resolved).then(|| alert.ends_at.max(alert.starts_at));
    let firing = all.entry((alert.labels.clone(), alert.starts_at)).or_insert_with(|| Firing {
        labels: alert.labels,
        condition_since: alert.starts_at,
        starts_at: alert.starts_at,
        ends_at: None,
        fired_until: alert.starts_at,
        generator_url: alert.generator_url,
    });
    firing.ends_at = firing.ends_at.max(ended);
    firing.fired_until = firing.fired_until.max(sent);
}

/// Sets the start of a condition that the samples did not show, by the rule's `for`: of Prometheus, else the shipped one.
pub(super) fn date_condition(firing: &mut Firing, rules: &[AlertingRule], shipped: &[&AlertRule]) {
    if firing.condition_since != firing.starts_at {
        return;
    }
    let severity = firing.labels.get("severity");
    let own = rules.iter().filter(|rule| rule.name == firing.rule());
    // Rules of one name differ in what they set.
    let own = own.filter(|rule| rule.labels.get("severity").is_none_or(|set| Some(set) == severity));
    let own = own.filter_map(|rule| Duration::try_from_secs_f64(rule.duration).ok()).next();
    let by_name = shipped.iter().filter(|rule| rule.alert == firing.rule());
    let of_severity = by_name.filter(|rule| severity.is_none_or(|s| *s == rule.severity.to_string()));
    let hold = own.or_else(|| of_severity.filter_map(|rule| humantime::parse_duration(&rule.hold).ok()).next());
    firing.condition_since = clock::before(firing.starts_at, hold.unwrap_or_default());
}

/// Returns the SHA-256 of a text, in hexadecimal digits.
pub(super) fn hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn read(text: &str) -> anyhow::Result<Vec<Firing>> {
        FiringsFile::read(file(text).path().to_str().unwrap()).map(|file| file.firings)
    }

    #[test]
    fn bodies_and_alerts_of_a_file_become_firings_with_their_ends() {
        let alert = |name: &str, status: &str, more: &str| {
            format!(
                r#"{{"status":"{status}","labels":{{"alertname":"{name}"}},"startsAt":"2026-11-20T03:00:00Z"{more}}}"#
            )
        };
        let ends = r#","endsAt":"2026-11-20T03:30:00Z""#;
        let text = format!(
            "{{\"version\":\"4\",\"alerts\":[{},{}]}}\n{}\n[{}]",
            alert("A", "firing", ""),
            alert("B", "firing", ""),
            alert("A", "resolved", ends),
            alert("C", "firing", r#","generatorURL":"http://p/graph?g0.expr=up""#),
        );
        let all = read(&text).unwrap();
        let told: Vec<_> = all.iter().map(|f| (f.rule(), f.ends_at.map(|at| at.to_string()))).collect();
        assert_eq!(told, [("A", Some("2026-11-20T03:30:00Z".to_owned())), ("B", None), ("C", None)]);
        assert_eq!(all[2].generator_url, "http://p/graph?g0.expr=up");
        let error = format!("{:#}", read("{\"a\": 1}").unwrap_err());
        assert!(error.starts_with("value 1 of ") && error.contains("nor an alert"), "{error}");
        assert!(format!("{:#}", read("no json").unwrap_err()).contains("is no list of JSON values"));
    }

    #[test]
    fn the_rule_tells_how_long_its_condition_held_before() {
        let library = knowledge::playbook::load(None).unwrap();
        let shipped: Vec<&AlertRule> = library.playbooks.values().flat_map(|playbook| &playbook.alerts).collect();
        let start: Timestamp = "2026-11-20T03:00:00Z".parse().unwrap();
        let firing = |name: &str| Firing {
            labels: Labels::from([("alertname".to_owned(), name.to_owned())]),
            condition_since: start,
            starts_at: start,
            ends_at: None,
            fired_until: start,
            generator_url: String::new(),
        };
        let rule = serde_json::from_value(serde_json::json!({ "name": "Own", "duration": 90.0 })).unwrap();
        let mut all = [firing("Own"), firing("LLMHighTTFT"), firing("Unknown")];
        let rules = [rule];
        all.iter_mut().for_each(|firing| date_condition(firing, &rules, &shipped));
        let held = all.map(|firing| clock::between(firing.condition_since, start).as_secs());
        assert_eq!(held, [90, 120, 0]);
    }
}
