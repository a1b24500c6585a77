//! Converts Slack's payloads, from a WebSocket or over HTTP, to a [`SlackRequest`].
//!
//! Parsed tolerantly as JSON and not with slack-morphism's types, which reject a whole payload for one field that is
//! null or unknown. All of it is untrusted: texts are truncated, and unknown payloads are named and ignored.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::inbound::{RequestPlace, SlackAction, SlackActor, SlackRequest};

/// The longest text, in characters; Slack's own inputs accept 4,000 and more.
const TEXT: usize = 4_000;
/// The longest id, in characters; Slack allows 255.
const ID: usize = 255;
/// The longest value of an option, in characters; Slack allows 150.
const OPTION: usize = 150;
/// Maximum number of fields of a form, and of chosen options; Slack allows 100 blocks, and 100 options.
const FIELDS: usize = 100;

/// A parsed payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// A user's request.
    Inbound(Box<SlackRequest>),
    /// Slack verifies that the address is ours; the answer must be this text.
    Challenge(String),
    /// Nothing to handle, for this reason.
    Nothing(&'static str),
}

impl Payload {
    fn of(id: &str, who: SlackActor, place: RequestPlace, what: SlackAction) -> Self {
        Self::Inbound(Box::new(SlackRequest { id: cut(id, ID), who, place, what }))
    }
}

/// Parses the fields of a form to JSON; the last one wins if a field is repeated.
pub fn form(body: &[u8]) -> Value {
    let fields = url::form_urlencoded::parse(body);
    Value::Object(
        fields.map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect::<Map<_, _>>(),
    )
}

/// Parses the payload of a Socket Mode envelope, by the envelope's `type`; `id` is the envelope's.
pub fn envelope(kind: &str, payload: &Value, id: &str) -> Payload {
    match kind {
        "slash_commands" => command(payload, id),
        "interactive" => interaction(payload, id),
        "events_api" => event(payload, id),
        _ => Payload::Nothing("unknown"),
    }
}

/// Parses a slash command; `id` is the fallback if Slack sends no trigger.
pub fn command(fields: &Value, id: &str) -> Payload {
    if text(fields, "ssl_check") == "1" {
        return Payload::Nothing("ssl_check");
    }
    let trigger = optional(fields, "trigger_id");
    let place = RequestPlace {
        channel: short(fields, "channel_id"),
        thread: optional(fields, "thread_ts"),
        message: None,
        response_url: optional(fields, "response_url"),
        trigger: trigger.clone(),
    };
    let who = SlackActor { user: short(fields, "user_id"), team: short(fields, "team_id"), is_bot: false };
    if who.user.is_empty() {
        return Payload::Nothing("malformed");
    }
    let what = SlackAction::Command { text: cut(plain(text(fields, "text")).trim(), TEXT) };
    Payload::of(trigger.as_deref().unwrap_or(id), who, place, what)
}

/// Parses a press, a form, or a menu's request for options; `id` is the fallback if Slack sends no trigger.
pub fn interaction(payload: &Value, id: &str) -> Payload {
    let user = &payload["user"];
    let team =
        [&user["team_id"], &payload["team"]["id"], &payload["enterprise"]["id"]].into_iter().find_map(Value::as_str);
    let who = SlackActor {
        user: short(user, "id"),
        team: cut(team.unwrap_or_default(), ID),
        is_bot: user["is_bot"].as_bool().unwrap_or_default(),
    };
    let kind = text(payload, "type");
    let what = match kind {
        "block_actions" => pressed(payload),
        "view_submission" => Some(submitted(&payload["view"])),
        "block_suggestion" => {
            Some(SlackAction::Suggest { action: short(payload, "action_id"), typed: cut(text(payload, "value"), TEXT) })
        }
        "view_closed" | "shortcut" | "message_action" => return Payload::Nothing("not_ours"),
        _ => return Payload::Nothing("unknown"),
    };
    let (Some(what), false) = (what, who.user.is_empty()) else { return Payload::Nothing("malformed") };
    let place = place(payload);
    // A menu's request has no trigger and is never a repetition, so its id is empty.
    let id = match (&what, &place.trigger) {
        (SlackAction::Suggest { .. }, _) => String::new(),
        (_, Some(trigger)) => trigger.clone(),
        (_, None) => id.to_owned(),
    };
    Payload::of(&id, who, place, what)
}

fn place(payload: &Value) -> RequestPlace {
    let (container, message) = (&payload["container"], &payload["message"]);
    let response = &payload["response_urls"][0];
    let channel = [&payload["channel"]["id"], &container["channel_id"], &response["channel_id"]];
    let thread = [&message["thread_ts"], &container["thread_ts"]];
    let pressed = [&message["ts"], &container["message_ts"]];
    let answer = [&payload["response_url"], &response["response_url"]];
    let first_text = |candidates: &[&Value], most: usize| {
        candidates.iter().find_map(|v| v.as_str()).filter(|v| !v.is_empty()).map(|v| cut(v, most))
    };
    RequestPlace {
        channel: first_text(&channel, ID).unwrap_or_default(),
        thread: first_text(&thread, ID),
        // An ephemeral message has a timestamp, but it cannot begin a thread.
        message: first_text(&pressed, ID).filter(|_| container["is_ephemeral"] != true),
        response_url: first_text(&answer, TEXT),
        trigger: optional(payload, "trigger_id"),
    }
}

/// Parses the first action: Slack sends one request per press.
fn pressed(payload: &Value) -> Option<SlackAction> {
    let action = payload["actions"].get(0)?;
    Some(SlackAction::Press { action: short(action, "action_id"), value: value(action) })
}

fn submitted(view: &Value) -> SlackAction {
    let blocks = view["state"]["values"].as_object().into_iter().flat_map(Map::values);
    let fields = blocks.filter_map(Value::as_object).flatten().take(FIELDS);
    let values: BTreeMap<String, String> = fields.map(|(action, element)| (cut(action, ID), value(element))).collect();
    SlackAction::Submit { form: short(view, "callback_id"), about: cut(text(view, "private_metadata"), TEXT), values }
}

/// Returns the value of a button, or the selected or typed value of any other element; several are joined with commas.
fn value(element: &Value) -> String {
    let keys =
        ["value", "selected_user", "selected_channel", "selected_conversation", "selected_date", "selected_time"];
    if let Some(value) = keys.iter().find_map(|key| element[*key].as_str()) {
        return cut(value, TEXT);
    }
    if let Some(value) = element["selected_option"]["value"].as_str() {
        return cut(value, TEXT);
    }
    if let Some(at) = element["selected_date_time"].as_i64() {
        return at.to_string();
    }
    let several = element["selected_options"].as_array().into_iter().flatten().filter_map(|o| o["value"].as_str());
    several.take(FIELDS).map(|value| cut(value, OPTION)).collect::<Vec<_>>().join(",")
}

/// Parses an event in its Events API envelope; `id` is the fallback if the envelope has none.
pub fn event(payload: &Value, id: &str) -> Payload {
    match text(payload, "type") {
        "url_verification" => return Payload::Challenge(cut(text(payload, "challenge"), TEXT)),
        "app_rate_limited" => return Payload::Nothing("rate_limited"),
        _ => {}
    }
    let event = &payload["event"];
    let kind = text(event, "type");
    let direct = text(event, "channel_type") == "im";
    let own_user = payload["authorizations"][0]["user_id"].as_str();
    match kind {
        "app_mention" => {}
        "member_joined_channel" => return joined(payload, own_user, id),
        "app_home_opened" => return home(payload, id),
        "message" if direct => {}
        "message" => return Payload::Nothing("not_ours"),
        _ => return Payload::Nothing("unknown"),
    }
    // Answers to bots, including ourselves, would never end. Edits and joins are messages with a subtype.
    let user = short(event, "user");
    let is_bot_message =
        !text(event, "bot_id").is_empty() || event["bot_profile"].is_object() || own_user == Some(&user);
    if is_bot_message {
        return Payload::Nothing("bot");
    }
    if !text(event, "subtype").is_empty() || event["hidden"] == true || event["edited"].is_object() {
        return Payload::Nothing("edit");
    }
    if user.is_empty() {
        return Payload::Nothing("malformed");
    }
    let team = [&event["user_team"], &event["team"], &payload["team_id"]].into_iter().find_map(Value::as_str);
    let who = SlackActor { user, team: cut(team.unwrap_or_default(), ID), is_bot: false };
    let place = RequestPlace {
        channel: short(event, "channel"),
        thread: optional(event, "thread_ts"),
        message: optional(event, "ts"),
        ..RequestPlace::default()
    };
    let typed = cut(text(event, "text"), TEXT);
    let what = SlackAction::Mention { text: unlinked(&without_mention(&typed, own_user)).trim().to_owned() };
    let event_id = text(payload, "event_id");
    Payload::of(if event_id.is_empty() { id } else { event_id }, who, place, what)
}

/// Parses a join of a channel; only our own matters.
fn joined(payload: &Value, own_user: Option<&str>, id: &str) -> Payload {
    let event = &payload["event"];
    let user = short(event, "user");
    if user.is_empty() || own_user != Some(&user) {
        return Payload::Nothing("not_ours");
    }
    let who = SlackActor { user, team: short(payload, "team_id"), is_bot: true };
    let place = RequestPlace { channel: short(event, "channel"), ..RequestPlace::default() };
    let event_id = text(payload, "event_id");
    Payload::of(if event_id.is_empty() { id } else { event_id }, who, place, SlackAction::Joined)
}

/// Parses the opening of the app's Home; its tab of messages needs nothing.
fn home(payload: &Value, id: &str) -> Payload {
    let event = &payload["event"];
    let user = short(event, "user");
    if text(event, "tab") != "home" {
        return Payload::Nothing("not_ours");
    }
    if user.is_empty() {
        return Payload::Nothing("malformed");
    }
    let who = SlackActor { user, team: short(payload, "team_id"), is_bot: false };
    let event_id = text(payload, "event_id");
    Payload::of(if event_id.is_empty() { id } else { event_id }, who, RequestPlace::default(), SlackAction::Home)
}

/// Removes the mention of the app: the first of our own id, or a mention at the beginning if our id is unknown.
fn without_mention(text: &str, own_user: Option<&str>) -> String {
    let text = text.trim_start();
    let mention = |text: &str| -> Option<usize> {
        let inner = text.strip_prefix("<@")?;
        let end = inner.find('>')?;
        let id = inner[..end].split('|').next()?;
        own_user.is_none_or(|own_user| own_user == id).then_some(end + 3)
    };
    let mut rest = text;
    while let Some(at) = rest.find("<@") {
        let before = text.len() - rest.len() + at;
        match mention(&text[before..]) {
            Some(length) if own_user.is_some() || before == 0 => {
                let (left, right) = (text[..before].trim_end(), text[before + length..].trim_start());
                return [left, right].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ");
            }
            _ => rest = &text[before + 2..],
        }
    }
    text.trim_end().to_owned()
}

/// Removes the links that Slack makes of text like an address, `<http://pod-1.example|pod-1.example>`.
fn unlinked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find('>') else { break };
        let inner = &rest[1..end];
        let is_link = ["http://", "https://", "mailto:", "tel:"].iter().any(|scheme| inner.starts_with(scheme));
        out.push_str(if is_link { inner.rsplit('|').next().unwrap_or(inner) } else { &rest[..=end] });
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    plain(&out)
}

/// Unescapes the three characters that Slack escapes in messages.
fn plain(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn short(value: &Value, key: &str) -> String {
    cut(text(value, key), ID)
}

fn optional(value: &Value, key: &str) -> Option<String> {
    Some(text(value, key)).filter(|v| !v.is_empty()).map(|v| cut(v, TEXT))
}

/// Truncates text and removes NUL, which PostgreSQL cannot store.
fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}
