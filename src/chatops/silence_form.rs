//! "Silence": a modal that shows the matchers before, and what becomes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::acts::{open, over};
use super::forms::{self, About, OPTION_CHARS, OPTIONS, input, modal, option, text_box};
use super::{Desk, silences};
use crate::alert::Labels;
use crate::alertmanager;
use crate::render::{self, Act, Line, Part};
use crate::slack::{Ack, Inbound};
use crate::store::{AuditResult, Incident};

/// The choices beside a custom duration.
const DURATIONS: [(&str, &str); 2] = [("1h", "silence-1h"), ("4h", "silence-4h")];
/// The choice of a duration that is written.
const CUSTOM: &str = "custom";
/// Of a comment, in characters.
const COMMENT_CHARS: usize = 1_000;

/// Shows what would be silenced, and asks how long and why.
pub(super) async fn ask(desk: &Desk, inbound: &Inbound, incident: &Incident) {
    let common = selectable(incident);
    if !incident.open || alertmanager::common(&incident.alerts).is_empty() {
        return over(desk, inbound, Act::Silence).await;
    }
    if common.is_empty() || alertmanager::chosen(&desk.alertmanagers, &common).is_empty() {
        desk.metrics.act(Act::Silence.as_str(), AuditResult::Failed.as_str());
        return super::talk::say(desk, inbound, "silence-no-alertmanager").await;
    }
    let words = &desk.words;
    let shown = |(name, value): (&String, &String)| option(&format!("{name} = {value}"), name);
    let labels: Vec<Value> = common.iter().map(shown).collect();
    let menu = json!({
        "type": "multi_static_select", "action_id": "labels", "options": labels, "initial_options": labels,
        "placeholder": forms::plain(&words.text("silence-which", &[]), 150),
    });
    let mut durations: Vec<Value> = DURATIONS.iter().map(|(value, key)| option(&words.text(key, &[]), value)).collect();
    durations.push(option(&words.text("silence-custom", &[]), CUSTOM));
    let duration = json!({ "type": "static_select", "action_id": "duration", "options": durations, "initial_option": durations[0] });
    let matchers = common.iter().map(|(name, value)| Line::default().code(format!("{name}={value:?}"))).collect();
    let mut blocks = render::slack_blocks(&[
        Part::Paragraph(words.line("silence-what", &[])),
        Part::Section(words.text("silence-matchers", &[]), matchers),
    ]);
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
    let (title, send) = (words.text("silence-title", &[]), words.text("silence-send", &[]));
    let view = modal(words, &title, Some(&send), "silence", &About::of(&incident.id, inbound), blocks);
    open(desk, inbound, Act::Silence.as_str(), &view).await;
}

/// The form that [`ask`] opened was sent.
pub(super) fn submit(
    desk: &Arc<Desk>,
    inbound: Inbound,
    incident: Incident,
    values: BTreeMap<String, String>,
    slot: OwnedSemaphorePermit,
) -> Ack {
    let value = |name: &str| values.get(name).map(|value| value.trim()).unwrap_or_default();
    let wrong = |field: &str, key: &str| Ack::Errors([(field.to_owned(), desk.words.text(key, &[]))].into());
    let common = selectable(&incident);
    let names: Vec<&str> = value("labels").split(',').filter(|name| !name.is_empty()).collect();
    let labels: Labels = common.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect();
    if labels.is_empty() {
        return wrong("labels", "silence-no-label");
    }
    // Alerts joined or ended while the form was open: a silence without a chosen label would be a wider one.
    if labels.len() < names.len() {
        return wrong("labels", "silence-changed");
    }
    let chosen = value("duration");
    let (field, text) = if chosen == CUSTOM { ("custom", value("custom")) } else { ("duration", chosen) };
    let duration = match humantime::parse_duration(text) {
        Ok(duration) if duration >= Duration::from_secs(60) && duration <= alertmanager::LONGEST => duration,
        _ => return wrong(field, "silence-wrong-duration"),
    };
    let comment = forms::cut(value("comment"), COMMENT_CHARS);
    let this = Arc::clone(desk);
    desk.tasks.spawn(async move {
        silences::make(&this, &inbound, &incident, &labels, duration, &comment).await;
        drop(slot);
    });
    Ack::Received
}

/// The labels that a menu can hold.
fn selectable(incident: &Incident) -> Labels {
    let common = alertmanager::common(&incident.alerts);
    let fits = |name: &String| !name.contains(',') && name.encode_utf16().count() <= OPTION_CHARS;
    common.into_iter().filter(|(name, _)| fits(name)).take(OPTIONS).collect()
}
