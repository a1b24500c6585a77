//! "Silence": a modal that shows the matchers before the silence is created, and asks again if it would silence more than
//! the incident.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::attempt::{not_done, open_incident_form};
use super::forms::{self, ModalMetadata, input, option, text_box};
use super::replies::Caller;
use super::{Desk, silences};
use crate::acts::silence::{self, CUSTOM, Excess, Silencer};
use findings::silence::SilenceMatcher;
use knowledge::incident::Act;
use message::{Block, Line};
use redact::Redactor;
use render::{self, Phrases, cut};
use slack::{Ack, SlackRequest};
use sources::alertmanager::{self, COMMENT_CHARS};
use store::Incident;

/// The title and the button of the form, as keys of phrases.
const TITLES: [&str; 2] = ["silence-title", "silence-send"];

/// The content of the form's fields.
struct Fields {
    matchers: Vec<SilenceMatcher>,
    duration: String,
    custom: String,
    comment: String,
}

/// Opens the form: shows the matchers, asks for a duration, filled with `wanted`, and a comment.
pub(super) async fn open_form(caller: Caller<'_>, silencer: Silencer<'_>, id: &str, wanted: Option<Duration>) {
    let words = &caller.notifier.words;
    let Some(incident) = &caller.begin_act(Act::Silence, id).await else { return };
    let offered = silence::selectable(incident);
    if !incident.open || findings::silence::shared(&incident.alerts).is_empty() {
        return not_done(caller, Act::Silence, "act-over").await;
    }
    let common = findings::silence::common(&incident.alerts);
    if offered.is_empty() || alertmanager::chosen(silencer.alertmanagers, &common).is_empty() {
        return not_done(caller, Act::Silence, "silence-no-alertmanager").await;
    }
    // Without the alert names the other labels would silence the whole pool, so the user must choose the labels.
    let named = findings::silence::preselected(&incident.alerts).is_ok();
    let fixed =
        silence::durations(silencer.longest).find(|(_, duration, _)| wanted.is_none_or(|wanted| wanted == *duration));
    let custom = wanted.filter(|_| fixed.is_none()).map(|wanted| humantime::format_duration(wanted).to_string());
    let fields = Fields {
        matchers: if named { offered.clone() } else { Vec::new() },
        duration: fixed.map_or(CUSTOM, |(value, ..)| value).to_owned(),
        custom: custom.unwrap_or_default(),
        comment: String::new(),
    };
    let redactor = silence::redactor(caller.notifier, Some(incident), &offered);
    let mut parts = explanation(words, &redactor, &offered);
    if !named {
        parts.push(Block::Paragraph(words.line("silence-whole-pool", &[])));
    }
    let mut blocks = render::slack_blocks(&parts);
    blocks.extend(inputs(words, silencer.longest, &redactor, &offered, &fields));
    open_incident_form(caller, &incident.id, Act::Silence, TITLES, blocks).await;
}

/// Handles the submitted form of [`open_form`] or [`confirmation`].
pub(super) async fn submit(
    desk: &Arc<Desk>,
    inbound: SlackRequest,
    incident: Incident,
    values: BTreeMap<String, String>,
    slot: OwnedSemaphorePermit,
) -> Ack {
    let (silencer, words) = (desk.silencer(), &desk.service.words);
    let value = |name: &str| values.get(name).map(|value| value.trim()).unwrap_or_default();
    let wrong = |field: &str, text: String| Ack::Errors([(field.to_owned(), text)].into());
    let offered = silence::selectable(&incident);
    let matchers = match silence::matchers_of(words, &offered, value("labels").split(',')) {
        Ok(matchers) => matchers,
        Err(text) => return wrong("labels", text),
    };
    let chosen = value("duration");
    let (field, text) = if chosen == CUSTOM { ("custom", value("custom")) } else { ("duration", chosen) };
    let duration = match silence::duration_of(words, silencer.longest, text) {
        Ok(duration) => duration,
        Err(text) => return wrong(field, text),
    };
    let comment = value("comment").to_owned();
    let excess = Excess::of(silencer.alertmanagers, &incident, matchers).await;
    if !excess.is_confirmed_by(value("confirm")) {
        let fields = Fields {
            matchers: excess.matchers.clone(),
            duration: chosen.into(),
            custom: value("custom").into(),
            comment: cut(&comment, COMMENT_CHARS),
        };
        return Ack::View(confirmation(silencer, &inbound, &incident, &offered, &fields, &excess));
    }
    let shared = Arc::clone(desk);
    desk.tasks.spawn(async move {
        let caller = shared.caller(&inbound);
        silences::create(caller, shared.silencer(), &incident, (&excess.matchers, duration, &comment)).await;
        drop(slot);
    });
    Ack::Received
}

/// Builds the form once more, with what was chosen, what it silences too, and a box that confirms that.
fn confirmation(
    silencer: Silencer<'_>,
    inbound: &SlackRequest,
    incident: &Incident,
    offered: &[SilenceMatcher],
    fields: &Fields,
    excess: &Excess,
) -> Value {
    let words = &silencer.notifier.words;
    let (warning, known) = excess.warning(words);
    let redactor = silence::redactor(silencer.notifier, Some(incident), offered);
    let mut parts = explanation(words, &redactor, offered);
    parts.push(Block::Paragraph(warning));
    let mut blocks = render::slack_blocks(&parts);
    blocks.extend(inputs(words, silencer.longest, &redactor, offered, fields));
    let value = excess.confirmation();
    let boxes = json!({ "type": "checkboxes", "action_id": "confirm", "options": [option(&known, &value)] });
    // Slack keeps the state of a block with the same id, so what was ticked for other matchers must have another one.
    blocks.push(input(&format!("confirm {value}"), &words.text("silence-confirm", &[]), true, boxes));
    let about = ModalMetadata::of(&incident.id, inbound);
    let [title, send] = TITLES.map(|key| words.text(key, &[]));
    forms::modal(words, &title, Some(&send), Act::Silence.as_str(), &about, blocks)
}

fn explanation(words: &Phrases, redactor: &Redactor, offered: &[SilenceMatcher]) -> Vec<Block> {
    let line = |matcher| Line::default().code(silence::shown_matcher(redactor, matcher).to_string());
    let lines = offered.iter().map(line).collect();
    vec![Block::Paragraph(words.line("silence-what", &[])), Block::Section(words.text("silence-matchers", &[]), lines)]
}

/// Builds the inputs, filled with `fields`.
fn inputs(
    words: &Phrases,
    longest: Duration,
    redactor: &Redactor,
    offered: &[SilenceMatcher],
    fields: &Fields,
) -> [Value; 4] {
    let label =
        |matcher: &SilenceMatcher| option(&matcher_text(&silence::shown_matcher(redactor, matcher)), &matcher.key());
    let mut menu = json!({
        "type": "multi_static_select", "action_id": "labels",
        "options": offered.iter().map(label).collect::<Vec<_>>(),
        "placeholder": forms::plain(&words.text("silence-which", &[]), 150),
    });
    if !fields.matchers.is_empty() {
        menu["initial_options"] = fields.matchers.iter().map(label).collect();
    }
    let mut options: Vec<Value> =
        silence::durations(longest).map(|(value, _, key)| option(&words.text(key, &[]), value)).collect();
    options.push(option(&words.text("silence-custom", &[]), CUSTOM));
    let mut duration = json!({ "type": "static_select", "action_id": "duration", "options": options });
    if let Some(initial) = options.iter().find(|option| option["value"] == fields.duration.as_str()) {
        duration["initial_option"] = initial.clone();
    }
    let filled = |mut element: Value, text: &str| {
        if !text.is_empty() {
            element["initial_value"] = text.into();
        }
        element
    };
    let custom = filled(text_box("custom", false, 40, "90m, 2h, 1d"), &fields.custom);
    let comment = filled(text_box("comment", true, COMMENT_CHARS, ""), &fields.comment);
    [
        input("labels", &words.text("silence-labels", &[]), false, menu),
        input("duration", &words.text("silence-duration", &[]), false, duration),
        input("custom", &words.text("silence-custom-duration", &[]), true, custom),
        input("comment", &words.text("form-comment", &[]), true, comment),
    ]
}

/// Formats a matcher for the menu: `namespace = llm`, `alertname = HighTTFT | HighITL`.
fn matcher_text(matcher: &SilenceMatcher) -> String {
    match matcher.is_regex {
        true => format!("{} = {}", matcher.name, matcher.value.replace('|', " | ")),
        false => format!("{} = {}", matcher.name, matcher.value),
    }
}
