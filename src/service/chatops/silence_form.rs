//! "Silence": a modal that shows the matchers before the silence is created, and asks again if it would silence more than
//! the incident.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::attempt::{begin_act, open_incident_form, reply_incident_ended};
use super::forms::{self, ModalMetadata, OPTION_CHARS, OPTIONS, input, option, text_box};
use super::intent::IncidentForm;
use super::{Desk, silences};
use knowledge::clock::human_duration;
use knowledge::incident::Act;
use message::{Block, Line};
use render;
use slack::{Ack, SlackRequest};
use sources::alertmanager::{self, SHORTEST, SilenceMatcher};
use sources::redact::Redactor;
use store::{AuditResult, Incident};

/// The fixed durations, each with the key of its phrase.
const DURATIONS: [(&str, Duration, &str); 2] =
    [("1h", Duration::from_secs(3_600), "silence-1h"), ("4h", Duration::from_secs(4 * 3_600), "silence-4h")];
/// The option for a duration that the user types.
const CUSTOM: &str = "custom";
/// A number of other alerts that Alertmanager does not tell, in a confirmation.
const UNKNOWN: &str = "?";
/// The longest comment, in characters.
const COMMENT_CHARS: usize = 1_000;
/// The timeout of the count of other alerts: Slack closes a form whose answer takes 3 seconds.
const COUNT_WITHIN: Duration = Duration::from_millis(1_000);
/// The title and the button of the form, as keys of phrases.
const TITLES: [&str; 2] = ["silence-title", "silence-send"];

/// The content of the form's fields.
struct Fields {
    matchers: Vec<SilenceMatcher>,
    duration: String,
    custom: String,
    comment: String,
}

/// A silence that matches more than the incident's own alerts, or perhaps does.
struct Excess {
    /// The number of other alerts; the error if Alertmanager cannot be asked.
    others: Result<usize, String>,
    matchers: Vec<SilenceMatcher>,
}

/// Opens the form: shows the matchers, asks for a duration, filled with `wanted`, and a comment.
pub(super) async fn open_form(desk: &Desk, inbound: &SlackRequest, id: &str, wanted: Option<Duration>) {
    let Some(incident) = &begin_act(desk, inbound, Act::Silence, id).await else { return };
    let offered = selectable(incident);
    if !incident.open || alertmanager::shared(&incident.alerts).is_empty() {
        return reply_incident_ended(desk, inbound, Act::Silence).await;
    }
    let common = alertmanager::common(&incident.alerts);
    if offered.is_empty() || alertmanager::chosen(&desk.alertmanagers, &common).is_empty() {
        desk.metrics.act(Act::Silence.as_str(), AuditResult::Failed.as_str());
        return super::replies::send_ephemeral_phrase(desk, inbound, "silence-no-alertmanager").await;
    }
    // Without the alert names the other labels would silence the whole pool, so the user must choose the labels.
    let named = alertmanager::preselected(&incident.alerts).is_ok();
    let fixed = durations(desk).find(|(_, duration, _)| wanted.is_none_or(|wanted| wanted == *duration));
    let custom = wanted.filter(|_| fixed.is_none()).map(|wanted| humantime::format_duration(wanted).to_string());
    let fields = Fields {
        matchers: if named { offered.clone() } else { Vec::new() },
        duration: fixed.map_or(CUSTOM, |(value, ..)| value).to_owned(),
        custom: custom.unwrap_or_default(),
        comment: String::new(),
    };
    let redactor = silences::silence_redactor(desk, Some(incident), &offered);
    let mut parts = explanation(desk, &redactor, &offered);
    if !named {
        parts.push(Block::Paragraph(desk.words.line("silence-whole-pool", &[])));
    }
    let mut blocks = render::slack_blocks(&parts);
    blocks.extend(inputs(desk, &redactor, &offered, &fields));
    open_incident_form(desk, inbound, &incident.id, IncidentForm::Silence, TITLES, blocks).await;
}

/// Handles the submitted form of [`open_form`] or [`confirmation`].
pub(super) async fn submit(
    desk: &Arc<Desk>,
    inbound: SlackRequest,
    incident: Incident,
    values: BTreeMap<String, String>,
    slot: OwnedSemaphorePermit,
) -> Ack {
    let value = |name: &str| values.get(name).map(|value| value.trim()).unwrap_or_default();
    let wrong = |field: &str, text: String| Ack::Errors([(field.to_owned(), text)].into());
    let words = &desk.words;
    let offered = selectable(&incident);
    let mut matchers = Vec::new();
    let mut unknown = Vec::new();
    // A key holds the value too: alerts fired or resolved while the form was open, so a name may have another value.
    for key in value("labels").split(',').filter(|key| !key.is_empty()) {
        match offered.iter().find(|matcher| matcher.key() == key) {
            Some(matcher) => matchers.push(matcher.clone()),
            None => unknown.push(key.rsplit_once(' ').map_or(key, |(name, _)| name)),
        }
    }
    if !unknown.is_empty() {
        let labels = forms::cut(&unknown.join(", "), OPTION_CHARS);
        return wrong("labels", words.text("silence-not-offered", &[("labels", labels.into())]));
    }
    if matchers.is_empty() {
        return wrong("labels", words.text("silence-no-label", &[]));
    }
    let chosen = value("duration");
    let (field, text) = if chosen == CUSTOM { ("custom", value("custom")) } else { ("duration", chosen) };
    let longest = desk.config.slack.silence_max;
    let duration = match humantime::parse_duration(text) {
        Ok(duration) if (SHORTEST..=longest).contains(&duration) => duration,
        _ => {
            let longest = [("longest", human_duration(longest).into())];
            return wrong(field, words.text("silence-wrong-duration", &longest));
        }
    };
    let comment = forms::cut(value("comment"), COMMENT_CHARS);
    let excess = Excess { others: others(desk, &incident, &matchers).await, matchers };
    if !excess.is_confirmed_by(value("confirm")) {
        let fields = Fields {
            matchers: excess.matchers.clone(),
            duration: chosen.into(),
            custom: value("custom").into(),
            comment,
        };
        return Ack::View(confirmation(desk, &inbound, &incident, &offered, &fields, &excess));
    }
    let shared = Arc::clone(desk);
    desk.tasks.spawn(async move {
        silences::create(&shared, &inbound, &incident, &excess.matchers, duration, &comment).await;
        drop(slot);
    });
    Ack::Received
}

/// Counts the alerts that these matchers meet besides the incident's own; the error says why Alertmanager does not tell.
async fn others(desk: &Desk, incident: &Incident, matchers: &[SilenceMatcher]) -> Result<usize, String> {
    let count = alertmanager::others(&desk.alertmanagers, &incident.alerts, matchers);
    match tokio::time::timeout(COUNT_WITHIN, count).await {
        Ok(count) => count.map_err(|error| error.to_string()),
        Err(_) => Err(alertmanager::AlertmanagerError::Late.to_string()),
    }
}

impl Excess {
    /// Returns the value of the box that confirms it: the digest of the matchers, and the number of other alerts or [`UNKNOWN`].
    fn confirmation(&self) -> String {
        let others = self.others.as_ref().map_or(UNKNOWN.to_owned(), ToString::to_string);
        format!("{} {others}", alertmanager::digest(&self.matchers))
    }

    /// Returns true if nothing has to be confirmed, or the user confirmed these matchers with at least this number of
    /// other alerts, an unknown one only as unknown.
    fn is_confirmed_by(&self, confirmed: &str) -> bool {
        let (digest, others) = confirmed.split_once(' ').unwrap_or_default();
        let is_same = digest == alertmanager::digest(&self.matchers);
        match self.others {
            Ok(0) => true,
            Ok(n) => is_same && others.parse::<usize>().is_ok_and(|confirmed| n <= confirmed),
            Err(_) => is_same && others == UNKNOWN,
        }
    }
}

/// Builds the form once more, with what was chosen, what it silences too, and a box that confirms that.
fn confirmation(
    desk: &Desk,
    inbound: &SlackRequest,
    incident: &Incident,
    offered: &[SilenceMatcher],
    fields: &Fields,
    excess: &Excess,
) -> Value {
    let words = &desk.words;
    let (warning, known) = match &excess.others {
        Ok(n) => {
            let n = [("n", (*n).into())];
            (words.line("silence-others", &n), words.text("silence-confirm-others", &n))
        }
        Err(error) => {
            let error = [("error", Line::of(error).into())];
            (words.line("silence-others-unknown", &error), words.text("silence-confirm-unknown", &[]))
        }
    };
    let redactor = silences::silence_redactor(desk, Some(incident), offered);
    let mut parts = explanation(desk, &redactor, offered);
    parts.push(Block::Paragraph(warning));
    let mut blocks = render::slack_blocks(&parts);
    blocks.extend(inputs(desk, &redactor, offered, fields));
    let value = excess.confirmation();
    let boxes = json!({ "type": "checkboxes", "action_id": "confirm", "options": [option(&known, &value)] });
    // Slack keeps the state of a block with the same id, so what was ticked for other matchers must have another one.
    blocks.push(input(&format!("confirm {value}"), &words.text("silence-confirm", &[]), true, boxes));
    let about = ModalMetadata::of(&incident.id, inbound);
    let [title, send] = TITLES.map(|key| words.text(key, &[]));
    forms::modal(words, &title, Some(&send), IncidentForm::Silence.as_str(), &about, blocks)
}

fn explanation(desk: &Desk, redactor: &Redactor, offered: &[SilenceMatcher]) -> Vec<Block> {
    let line = |matcher| Line::default().code(silences::shown_matcher(redactor, matcher).to_string());
    let lines = offered.iter().map(line).collect();
    vec![
        Block::Paragraph(desk.words.line("silence-what", &[])),
        Block::Section(desk.words.text("silence-matchers", &[]), lines),
    ]
}

/// Builds the inputs, filled with `fields`.
fn inputs(desk: &Desk, redactor: &Redactor, offered: &[SilenceMatcher], fields: &Fields) -> [Value; 4] {
    let words = &desk.words;
    let label =
        |matcher: &SilenceMatcher| option(&matcher_text(&silences::shown_matcher(redactor, matcher)), &matcher.key());
    let mut menu = json!({
        "type": "multi_static_select", "action_id": "labels",
        "options": offered.iter().map(label).collect::<Vec<_>>(),
        "placeholder": forms::plain(&words.text("silence-which", &[]), 150),
    });
    if !fields.matchers.is_empty() {
        menu["initial_options"] = fields.matchers.iter().map(label).collect();
    }
    let mut options: Vec<Value> = durations(desk).map(|(value, _, key)| option(&words.text(key, &[]), value)).collect();
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

/// Returns the fixed durations that are allowed.
fn durations(desk: &Desk) -> impl Iterator<Item = (&'static str, Duration, &'static str)> {
    let longest = desk.config.slack.silence_max;
    DURATIONS.into_iter().filter(move |(_, duration, _)| *duration <= longest)
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
