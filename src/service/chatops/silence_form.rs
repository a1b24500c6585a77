//! "Silence": a modal that shows the matchers before the silence is created.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::attempt::{begin_act, open_incident_form, reply_incident_ended};
use super::forms::{self, OPTION_CHARS, OPTIONS, input, option, text_box};
use super::intent::IncidentForm;
use super::{Desk, silences};
use knowledge::incident::Act;
use message::{Block, Line};
use render;
use slack::{Ack, SlackRequest};
use sources::alertmanager::{self, SilenceMatcher};
use store::{AuditResult, Incident};

/// The fixed durations, each with the key of its phrase.
const DURATIONS: [(&str, &str); 2] = [("1h", "silence-1h"), ("4h", "silence-4h")];
/// The option for a duration that the user types.
const CUSTOM: &str = "custom";
/// The longest comment, in characters.
const COMMENT_CHARS: usize = 1_000;

/// Opens the form: shows the matchers, asks for a duration and a comment.
pub(super) async fn open_form(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Silence, id).await else { return };
    let matchers = selectable(incident);
    if !incident.open || alertmanager::shared(&incident.alerts).is_empty() {
        return reply_incident_ended(desk, inbound, Act::Silence).await;
    }
    let common = alertmanager::common(&incident.alerts);
    if matchers.is_empty() || alertmanager::chosen(&desk.alertmanagers, &common).is_empty() {
        desk.metrics.act(Act::Silence.as_str(), AuditResult::Failed.as_str());
        return super::replies::send_ephemeral_phrase(desk, inbound, "silence-no-alertmanager").await;
    }
    let words = &desk.words;
    let labels: Vec<Value> = matchers.iter().map(|matcher| option(&matcher_text(matcher), &matcher.name)).collect();
    let mut menu = json!({
        "type": "multi_static_select", "action_id": "labels", "options": labels,
        "placeholder": forms::plain(&words.text("silence-which", &[]), 150),
    });
    // Without the alert names the other labels would silence the whole pool, so the user must choose the labels.
    let named = alertmanager::preselected(&incident.alerts).is_ok();
    if named {
        menu["initial_options"] = labels.into();
    }
    let mut durations: Vec<Value> = DURATIONS.iter().map(|(value, key)| option(&words.text(key, &[]), value)).collect();
    durations.push(option(&words.text("silence-custom", &[]), CUSTOM));
    let duration = json!({ "type": "static_select", "action_id": "duration", "options": durations, "initial_option": durations[0] });
    let lines = matchers.iter().map(|matcher| Line::default().code(matcher.to_string())).collect();
    let mut parts = vec![
        Block::Paragraph(words.line("silence-what", &[])),
        Block::Section(words.text("silence-matchers", &[]), lines),
    ];
    if !named {
        parts.push(Block::Paragraph(words.line("silence-whole-pool", &[])));
    }
    let mut blocks = render::slack_blocks(&parts);
    blocks.extend([
        input("labels", &words.text("silence-labels", &[]), false, menu),
        input("duration", &words.text("silence-duration", &[]), false, duration),
        input(
            "custom",
            &words.text("silence-custom-duration", &[]),
            true,
            text_box("custom", false, 40, "90m, 2h, 1d"),
        ),
        input("comment", &words.text("form-comment", &[]), true, text_box("comment", true, COMMENT_CHARS, "")),
    ]);
    open_incident_form(desk, inbound, &incident.id, IncidentForm::Silence, ["silence-title", "silence-send"], blocks)
        .await;
}

/// Handles the submitted form of [`open_form`].
pub(super) fn submit(
    desk: &Arc<Desk>,
    inbound: SlackRequest,
    incident: Incident,
    values: BTreeMap<String, String>,
    slot: OwnedSemaphorePermit,
) -> Ack {
    let value = |name: &str| values.get(name).map(|value| value.trim()).unwrap_or_default();
    let wrong = |field: &str, key: &str| Ack::Errors([(field.to_owned(), desk.words.text(key, &[]))].into());
    let names: Vec<&str> = value("labels").split(',').filter(|name| !name.is_empty()).collect();
    let mut matchers = selectable(&incident);
    matchers.retain(|matcher| names.contains(&matcher.name.as_str()));
    if matchers.is_empty() {
        return wrong("labels", "silence-no-label");
    }
    // Alerts fired or resolved while the form was open: without one of the chosen labels the silence would be wider.
    if matchers.len() < names.len() {
        return wrong("labels", "silence-changed");
    }
    let chosen = value("duration");
    let (field, text) = if chosen == CUSTOM { ("custom", value("custom")) } else { ("duration", chosen) };
    let duration = match humantime::parse_duration(text) {
        Ok(duration) if duration >= Duration::from_secs(60) && duration <= alertmanager::LONGEST => duration,
        _ => return wrong(field, "silence-wrong-duration"),
    };
    let comment = forms::cut(value("comment"), COMMENT_CHARS);
    let shared = Arc::clone(desk);
    desk.tasks.spawn(async move {
        silences::create(&shared, &inbound, &incident, &matchers, duration, &comment).await;
        drop(slot);
    });
    Ack::Received
}

/// Returns the matchers that the firing alerts share, as far as they fit into a menu.
fn selectable(incident: &Incident) -> Vec<SilenceMatcher> {
    let fits_option = |name: &str| !name.contains(',') && name.encode_utf16().count() <= OPTION_CHARS;
    alertmanager::shared(&incident.alerts)
        .into_iter()
        .filter(|matcher| fits_option(&matcher.name))
        .take(OPTIONS)
        .collect()
}

/// Formats a matcher for the menu: `namespace = llm`, `alertname = HighTTFT | HighITL`.
fn matcher_text(matcher: &SilenceMatcher) -> String {
    match matcher.is_regex {
        true => format!("{} = {}", matcher.name, matcher.value.replace('|', " | ")),
        false => format!("{} = {}", matcher.name, matcher.value),
    }
}
