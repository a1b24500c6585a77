//! The timeline of an incident from the store's records. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use findings::Diagnosis;
use findings::facts::{HappenedKind, TimelineEvent};
use knowledge::alert::{Alert, AlertStatus};
use knowledge::incident::{Act, Note};
use knowledge::playbook::condition_text;
use knowledge::signal::format_value;

/// Maximum entries; of a longer timeline, as of an incident that flaps for days, one entry counts the middle ones.
const MAX_ENTRIES: usize = 400;

/// An entry of an incident's event log in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged<'a> {
    /// The time.
    pub at: Timestamp,
    /// The kind of event: `notified`, `diagnosed`, `posted`.
    pub what: &'a str,
    /// Details: of a diagnosis the title of its cause, its id if that is unknown, or `none`.
    pub detail: &'a str,
}

/// Builds the timeline of alerts, onsets, our messages and users' actions, oldest first.
pub fn incident_timeline(
    alerts: &[Alert],
    diagnosis: Option<&Diagnosis>,
    logged: &[Logged<'_>],
    notes: &[Note],
) -> Vec<TimelineEvent> {
    let mut out = of_alerts(alerts);
    out.extend(diagnosis.into_iter().flat_map(onsets));
    out.extend(of_log(logged));
    out.extend(notes.iter().flat_map(of_note));
    out.sort_by_key(|happened| happened.at);
    if out.len() > MAX_ENTRIES {
        let middle = MAX_ENTRIES / 2..out.len() - MAX_ENTRIES / 2 + 1;
        let what = format!("{} more entries are left out", middle.len());
        let left_out = happened(out[middle.start].at, HappenedKind::Message, what, "llm-diagnose");
        out.splice(middle, [left_out]);
    }
    out
}

/// Builds an event.
pub(super) fn happened(at: Timestamp, kind: HappenedKind, what: String, source: &str) -> TimelineEvent {
    TimelineEvent { at, kind, what, source: source.to_owned() }
}

/// Counts alerts with the same name that start or end in the same second as one event.
fn of_alerts(alerts: &[Alert]) -> Vec<TimelineEvent> {
    let mut counted: BTreeMap<(i64, bool, &str), (Timestamp, usize)> = BTreeMap::new();
    for alert in alerts {
        let mut count = |at: Timestamp, fires| {
            counted.entry((at.as_second(), fires, alert.name())).or_insert((at, 0)).1 += 1;
        };
        count(alert.starts_at, true);
        if alert.status == AlertStatus::Resolved && alert.ends_at > alert.starts_at {
            count(alert.ends_at, false);
        }
    }
    let event = |((_, fires, name), (at, n))| {
        let what = match (fires, n) {
            (true, 1) => format!("the alert {name} fires"),
            (true, n) => format!("the alert {name} fires for {n} series"),
            (false, 1) => format!("the alert {name} ended"),
            (false, n) => format!("the alert {name} ended for {n} series"),
        };
        happened(at, HappenedKind::Alert, what, "alertmanager")
    };
    counted.into_iter().map(event).collect()
}

fn onsets(diagnosis: &Diagnosis) -> Vec<TimelineEvent> {
    let event = |onset: &findings::Onset| {
        let e = &onset.evidence;
        let value = e.value.map_or_else(|| "?".to_owned(), |value| format_value(value, e.unit));
        let what = format!("{} reached {value} (condition: {})", e.title, condition_text(&e.when, e.unit));
        happened(onset.at, HappenedKind::Onset, what, "prometheus")
    };
    diagnosis.timeline.iter().map(event).collect()
}

/// Converts log entries; omits repetitions of a diagnosis.
fn of_log(logged: &[Logged<'_>]) -> Vec<TimelineEvent> {
    let mut cause = None;
    let mut out = Vec::new();
    for line in logged {
        let detail = line.detail;
        let what = match line.what {
            "notified" => match detail {
                "first" => "Alertmanager reported it".to_owned(),
                "new_alerts" => "Alertmanager reported new alerts".to_owned(),
                "fewer_alerts" => "Alertmanager reported that some alerts ended".to_owned(),
                "refired" => "Alertmanager reported that it fires again".to_owned(),
                "resolved" => "Alertmanager reported that nothing fires any more".to_owned(),
                _ => continue,
            },
            "digested" => "many fire at once: it joined a digest".to_owned(),
            "diagnosed" if cause == Some(detail) => continue,
            "diagnosed" => {
                cause = Some(detail);
                match detail {
                    "none" => "diagnosed: no cause stands out".to_owned(),
                    title => format!("diagnosed: {title}"),
                }
            }
            "posted" => format!("its message was posted: {detail}"),
            "message gone" => "its message was deleted by somebody".to_owned(),
            "delivery failed" | "post failed" => format!("a message was given up: {detail}"),
            _ => continue,
        };
        let (kind, source) = match line.what {
            "notified" => (HappenedKind::Alert, "alertmanager"),
            _ => (HappenedKind::Message, "llm-diagnose"),
        };
        out.push(happened(line.at, kind, what, source));
    }
    out
}

/// Converts a user's action; nothing for actions that only show data or create a bundle.
fn of_note(note: &Note) -> Vec<TimelineEvent> {
    let (kind, did) = match note.act {
        Act::Acknowledge => (HappenedKind::Act, "somebody took it on"),
        Act::Snooze => (HappenedKind::Act, "somebody snoozed it until it gets worse"),
        Act::Unsnooze => (HappenedKind::Act, "somebody ended the snooze"),
        Act::Again => (HappenedKind::Act, "somebody had it diagnosed again"),
        Act::Note => (HappenedKind::Note, "somebody noted"),
        Act::Right => (HappenedKind::Act, "somebody found the cause right"),
        Act::Wrong => (HappenedKind::Act, "somebody found the cause wrong"),
        Act::Silence => (HappenedKind::Silence, "somebody silenced it"),
        Act::Expire => (HappenedKind::Silence, "somebody ended a silence"),
        Act::Escalate => (HappenedKind::Act, "somebody escalated it"),
        Act::Done => (HappenedKind::Act, "somebody did a step"),
        Act::Verify => (HappenedKind::Act, "a fix was checked again"),
        Act::Evidence | Act::Digest => return Vec::new(),
        Act::Bundle => return Vec::new(),
    };
    let who = match (note.who.as_str(), note.who.strip_prefix("page:")) {
        ("", _) => "llm-diagnose".to_owned(),
        (_, Some(name)) => format!("{name} (page)"),
        (id, None) => format!("@{id}"),
    };
    match (note.act, note.detail.trim()) {
        (_, "") => vec![happened(note.at, kind, did.to_owned(), &who)],
        // What a colleague writes is a note, which does not leave the organisation; that they did is none.
        (Act::Wrong, detail) => vec![
            happened(note.at, kind, did.to_owned(), &who),
            happened(note.at, HappenedKind::Note, format!("somebody said what it was ({detail})"), &who),
        ],
        (_, detail) => vec![happened(note.at, kind, format!("{did} ({detail})"), &who)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_timeline_counts_what_it_leaves_out_in_its_middle() {
        let at = |second: usize| Timestamp::from_second(1_700_000_000 + i64::try_from(second).unwrap()).unwrap();
        let logged: Vec<Logged<'_>> =
            (0..1_000).map(|n| Logged { at: at(n), what: "notified", detail: "refired" }).collect();
        let events = incident_timeline(&[], None, &logged, &[]);
        assert_eq!(events.len(), MAX_ENTRIES);
        assert_eq!((events[0].at, events[MAX_ENTRIES - 1].at), (at(0), at(999)));
        let middle = &events[MAX_ENTRIES / 2];
        assert_eq!((middle.at, middle.what.as_str()), (at(200), "601 more entries are left out"));
    }

    #[test]
    fn repetitions_are_told_once_and_everything_is_in_order() {
        let at = |second: i64| Timestamp::from_second(1_700_000_000 + second).unwrap();
        let line = |second, what, detail| Logged { at: at(second), what, detail };
        let logged = [
            line(9, "diagnosed", "none"),
            line(1, "notified", "first"),
            line(12, "diagnosed", "none"),
            line(13, "notified", "still_firing"),
            line(15, "diagnosed", "prompts got longer"),
        ];
        let note = |act, detail: &str| Note { who: "U1".into(), at: at(11), act, detail: detail.into() };
        let notes = [note(Act::Wrong, "it was the **router**"), note(Act::Evidence, "")];
        let texts: Vec<String> = incident_timeline(&[], None, &logged, &notes).into_iter().map(|h| h.what).collect();
        assert_eq!(
            texts,
            [
                "Alertmanager reported it",
                "diagnosed: no cause stands out",
                "somebody found the cause wrong",
                "somebody said what it was (it was the **router**)",
                "diagnosed: prompts got longer",
            ]
        );
    }
}
