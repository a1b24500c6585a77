//! PagerDuty's Events API v2: adds the triage to the page that Alertmanager raised.
//!
//! With the same routing key and dedup key PagerDuty adds the event to the open alert. Source: PagerDuty/api-schema,
//! reference/events-v2; the dedup key is SHA-256 of the group key in hex (Alertmanager, `notify.Key.Hash`).
//!
//! An event that is added to an open alert notifies nobody. So an escalation raises a page of its own, with the
//! incident's id as dedup key.

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use super::{Call, Pager, PagerOn, PagerUpdate};
use knowledge::clip::clip;
use message::{Block, Line, Message, Tone};
use store::Incident;

/// The default address for events; the EU service region has another.
pub(super) const URL: &str = "https://events.pagerduty.com/v2/enqueue";
/// PagerDuty's limit for a summary.
const SUMMARY_CHARS: usize = 1_024;
/// Maximum number of characters of one detail; an event may have 512 kB in all.
const DETAIL_CHARS: usize = 4_000;

/// The summary of a call that resolved a page.
const RESOLVED: &str = "resolved";

/// Builds the event for the current state; `None` if there is nothing new. Alertmanager itself resolves an alert that
/// it raised, and a later event of ours would raise it again; so nothing is sent once the pager's alerts are resolved.
/// Our own pages are resolved by us.
pub(super) fn call(routing_key: &str, config: &Pager, news: &PagerUpdate<'_>) -> Option<Call> {
    let incident = news.incident;
    let open_page = news.posted.filter(|(_, summary)| summary != RESOLVED);
    let is_own = |key: &str| config.on == PagerOn::Escalation || key == incident.id;
    let own_page = open_page.filter(|(key, _)| is_own(key));
    let use_own_key = news.escalation.is_some() || config.on == PagerOn::Escalation || own_page.is_some();
    let key = match (use_own_key, own_page) {
        (true, Some((key, _))) => key.clone(),
        (true, None) => incident.id.clone(),
        (false, _) => dedup_key(&incident.group_key),
    };
    let body = match (incident.open, use_own_key) {
        (false, true) if own_page.is_some() => {
            let body = json!({ "routing_key": routing_key, "event_action": "resolve", "dedup_key": key });
            let (summary, body) = (RESOLVED.to_owned(), body.to_string());
            return Some(Call { key, summary, body, headers: Vec::new() });
        }
        (false, _) => return None,
        (true, false) if !config.takes(&incident.firing()) => return None,
        (true, _) => trigger(routing_key, &key, incident, news.message, news.page),
    };
    let gist = gist(incident);
    let already_sent = news.posted.is_some_and(|(posted_key, summary)| *posted_key == key && *summary == gist);
    (!already_sent || news.escalation.is_some()).then(|| Call {
        key,
        summary: gist,
        body: body.to_string(),
        headers: Vec::new(),
    })
}

/// Summarises the changes that justify another event: the cause, a new firing, becoming critical.
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

/// Returns Alertmanager's dedup key of a group.
pub(super) fn dedup_key(group_key: &str) -> String {
    digest(&SHA256, group_key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn trigger(routing_key: &str, key: &str, incident: &Incident, message: &Message, page: Option<&str>) -> Value {
    let severity = match message.tone {
        Tone::Critical => "critical",
        // The page exists to call somebody, so an alert without a severity is not below `warning`.
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

/// Returns every titled part as a detail, in the order of the message; PagerDuty shows them under the page.
fn details(message: &Message) -> Value {
    let mut out = Map::new();
    let joined = |lines: &[Line]| lines.iter().map(Line::text).collect::<Vec<_>>().join("\n");
    for (i, part) in message.parts.iter().enumerate() {
        let (title, text) = match part {
            Block::Paragraph(line) | Block::Gap(line) | Block::Beside(line, _) => (format!("{}. ", i + 1), line.text()),
            Block::Section(title, lines) | Block::Steps(title, lines) => (format!("{}. {title}", i + 1), joined(lines)),
            Block::Note(_) | Block::Buttons(_) | Block::Document(_) => continue,
        };
        out.insert(title.trim_end_matches(". ").to_owned(), clip(&text, DETAIL_CHARS).into());
    }
    Value::Object(out)
}
