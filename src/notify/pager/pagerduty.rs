//! PagerDuty's Events API v2: the triage goes onto the page that Alertmanager raised.
//!
//! Same routing key and same dedup key, so PagerDuty adds the event to the open alert. Source: PagerDuty/api-schema,
//! reference/events-v2; the dedup key is SHA-256 of the group key in hex (Alertmanager, `notify.Key.Hash`).
//!
//! An event that is added to an open alert calls nobody. So an escalation raises a page of ours, named by the incident.

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use super::client::{Call, News};
use super::{Pager, PagerOn};
use crate::render::{Line, Message, Part, Tone};
use crate::store::Incident;

/// Where events go, unless configured otherwise (the EU's service region has another).
pub(super) const URL: &str = "https://events.pagerduty.com/v2/enqueue";
/// Of a summary's 1,024 characters.
const SUMMARY_CHARS: usize = 1_024;
/// Of one detail; an event may have 512 kB in all.
const DETAIL_CHARS: usize = 4_000;

/// What was told of a page that has ended.
const RESOLVED: &str = "resolved";

/// The event for what is known now; none when there is nothing new. An alert that Alertmanager raised is also resolved by
/// Alertmanager: a late event of ours would raise it anew, so nothing is told once what the pager hears of is over. A page
/// of ours is resolved by us.
pub(super) fn call(routing_key: &str, config: &Pager, news: &News<'_>) -> Option<Call> {
    let incident = news.incident;
    let open_page = news.posted.filter(|(_, said)| said != RESOLVED);
    let ours = |key: &str| config.on == PagerOn::Escalation || key == incident.id;
    let own_page = open_page.filter(|(key, _)| ours(key));
    let own = news.escalation.is_some() || config.on == PagerOn::Escalation || own_page.is_some();
    let key = match (own, own_page) {
        (true, Some((key, _))) => key.clone(),
        (true, None) => incident.id.clone(),
        (false, _) => dedup_key(&incident.group_key),
    };
    let body = match (incident.open, own) {
        (false, true) if own_page.is_some() => {
            let body = json!({ "routing_key": routing_key, "event_action": "resolve", "dedup_key": key });
            return Some(Call::new(key, RESOLVED.to_owned(), body.to_string(), Vec::new()));
        }
        (false, _) => return None,
        (true, false) if !config.takes(&incident.firing()) => return None,
        (true, _) => trigger(routing_key, &key, incident, news.message, news.page),
    };
    let gist = gist(incident);
    let told = news.posted.is_some_and(|(before, said)| *before == key && *said == gist);
    (!told || news.escalation.is_some()).then(|| Call::new(key, gist, body.to_string(), Vec::new()))
}

/// What is worth another event: the cause, that it fires again, that it has become critical.
fn gist(incident: &Incident) -> String {
    let mut gist = match incident.diagnosis.as_ref().and_then(|d| d.root()) {
        Some(cause) => format!("{:?} {}", cause.verdict, cause.chain.join(">")),
        None => "open".to_owned(),
    };
    if incident.refired > 0 {
        gist.push_str(&format!(" again {}", incident.refired));
    }
    if let Some(at) = incident.critical_at.filter(|_| incident.critical) {
        gist.push_str(&format!(" critical {at}"));
    }
    gist
}

/// As Alertmanager names a group at PagerDuty.
pub(super) fn dedup_key(group_key: &str) -> String {
    digest(&SHA256, group_key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn trigger(routing_key: &str, key: &str, incident: &Incident, message: &Message, page: Option<&str>) -> Value {
    let severity = match message.tone {
        Tone::Critical => "critical",
        // Somebody is to be called: what nobody graded is not put below a warning.
        Tone::Warning | Tone::Firing => "warning",
        Tone::Good | Tone::Unknown => "info",
    };
    let source = incident.diagnosis.as_ref().map(|d| {
        let labels = ["cluster", "namespace", "model"].iter().filter_map(|name| d.scope.labels.get(*name).cloned());
        labels.collect::<Vec<_>>().join("/")
    });
    let mut event = json!({
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": key,
        "client": "llm-diagnose",
        "payload": {
            "summary": clip(&message.headline, SUMMARY_CHARS),
            "source": source.filter(|s| !s.is_empty()).unwrap_or_else(|| "llm-diagnose".to_owned()),
            "severity": severity,
            "timestamp": incident.started_at.to_string(),
            "component": incident.playbook,
            "custom_details": details(message),
        },
    });
    if let Some(page) = page {
        event["client_url"] = page.into();
        event["links"] = json!([{ "href": page, "text": "Incident" }]);
    }
    event
}

/// Every titled part as a detail, in the order of the message; PagerDuty shows them under the page.
fn details(message: &Message) -> Value {
    let mut out = Map::new();
    let joined = |lines: &[Line]| lines.iter().map(Line::text).collect::<Vec<_>>().join("\n");
    for (i, part) in message.parts.iter().enumerate() {
        let (title, text) = match part {
            Part::Paragraph(line) | Part::Beside(line, _) => (format!("{}. ", i + 1), line.text()),
            Part::Section(title, lines) | Part::Steps(title, lines) => (format!("{}. {title}", i + 1), joined(lines)),
            Part::Note(_) | Part::Buttons(_) | Part::Picture { .. } => continue,
        };
        out.insert(title.trim_end_matches(". ").to_owned(), clip(&text, DETAIL_CHARS).into());
    }
    Value::Object(out)
}

fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most.saturating_sub(1)) {
        Some((at, _)) if text.chars().count() > most => format!("{}…", &text[..at]),
        _ => text.to_owned(),
    }
}
