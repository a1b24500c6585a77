//! What each method does to the state.

use serde_json::{Value, json};

use super::blocks::{Rule, Violation, validate};
use super::options::TEAM;
use super::state::{Breach, Content, Message, State, direct};
use super::{directory, files, history, views};

/// Characters of text that chat.update takes: <https://docs.slack.dev/reference/methods/chat.update>.
const MAX_UPDATE_TEXT: usize = 4000;
const MAX_TEXT: usize = super::blocks::MAX_TEXT;
pub(super) const APP: &str = "A0LAB";
const BOT: &str = "B0LAB";
pub(super) const BOT_USER: &str = "U0LAB";

/// An `ok: false` answer.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) error: String,
    pub(super) messages: Vec<String>,
}

impl From<&str> for Refusal {
    fn from(error: &str) -> Self {
        Self { error: error.into(), messages: Vec::new() }
    }
}

pub(super) type Answer = Result<Value, Refusal>;

/// Runs a method on behalf of the bot.
pub(super) fn run(state: &mut State, method: &str, args: &Value) -> Answer {
    match method {
        "api.test" => Ok(json!({ "args": args })),
        "auth.test" => Ok(json!({
            "url": "https://lab.slack.com/", "team": "Lab", "user": "llm-diagnose",
            "team_id": TEAM, "user_id": BOT_USER, "bot_id": BOT, "is_enterprise_install": false,
        })),
        "chat.postMessage" => post(state, args),
        "chat.postEphemeral" => post_ephemeral(state, args),
        "chat.update" => update(state, args),
        "chat.delete" => delete(state, args),
        "views.open" | "views.publish" | "views.push" | "views.update" => views::run(state, method, args),
        "files.getUploadURLExternal" => files::announce(state, args),
        "files.completeUploadExternal" => files::complete(state, args),
        "files.delete" => files::delete(state, args),
        "conversations.history" | "conversations.replies" => history::run(state, method, args),
        _ => directory::run(state, method, args),
    }
}

/// The channel's id, if the bot may write there.
pub(super) fn writable(state: &State, args: &Value, key: &str) -> Result<String, Refusal> {
    let name = text_of(args, key);
    // A user's id stands for the direct message with them.
    let channel = match state.channel(name) {
        Some(channel) => channel,
        None if state.user(name).is_some() => return Ok(direct(name)),
        None => return Err("channel_not_found".into()),
    };
    if channel.is_restricted {
        return Err("restricted_action".into());
    }
    if channel.is_archived {
        return Err("is_archived".into());
    }
    if !channel.is_member && !state.options.scopes.iter().any(|scope| scope == "chat:write.public") {
        return Err("not_in_channel".into());
    }
    Ok(channel.id.clone())
}

pub(super) fn text_of<'a>(args: &'a Value, key: &str) -> &'a str {
    args[key].as_str().unwrap_or_default()
}

/// The thread to reply in, if one is named and exists.
pub(super) fn thread(state: &State, channel: &str, args: &Value) -> Result<Option<String>, Refusal> {
    let thread_ts = match &args["thread_ts"] {
        Value::Null => return Ok(None),
        Value::String(ts) => ts,
        other => return Err(invalid_thread(other)),
    };
    let is_ts = thread_ts.split_once('.').is_some_and(|(seconds, rest)| {
        [seconds, rest].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    });
    if !is_ts {
        return Err(invalid_thread(&args["thread_ts"]));
    }
    // A deleted parent keeps its thread only if it already has replies.
    let is_known = state.messages.iter().any(|m| {
        let is_parent = m.ts == *thread_ts && !m.is_deleted;
        m.channel == channel && (is_parent || (m.thread_ts.as_ref() == Some(thread_ts) && !m.is_deleted))
    });
    if !is_known {
        return Err("thread_not_found".into());
    }
    Ok(Some(thread_ts.clone()))
}

fn invalid_thread(given: &Value) -> Refusal {
    Refusal { error: "invalid_thread_ts".into(), messages: vec![format!("[ERROR] {given} is not a valid thread_ts")] }
}

fn post(state: &mut State, args: &Value) -> Answer {
    let channel = writable(state, args, "channel")?;
    let content = content(state, "chat.postMessage", args)?;
    let thread_ts = thread(state, &channel, args)?;
    let message = Message {
        is_broadcast: args["reply_broadcast"].as_bool().unwrap_or_default(),
        metadata: args.get("metadata").cloned(),
        ..Message::new(channel, state.new_ts(), thread_ts, content)
    };
    let mut answer = json!({ "channel": message.channel, "ts": message.ts, "message": wire(&message) });
    if message.content.text.is_empty() && !message.content.blocks.is_empty() {
        answer["warning"] = "missing_text_in_message".into();
        answer["response_metadata"] = json!({ "warnings": ["missing_text_in_message"] });
    }
    state.messages.push(message);
    Ok(answer)
}

fn post_ephemeral(state: &mut State, args: &Value) -> Answer {
    let channel = writable(state, args, "channel")?;
    let user = text_of(args, "user").to_owned();
    if user.is_empty() {
        return Err("invalid_arguments".into());
    }
    let content = content(state, "chat.postEphemeral", args)?;
    let thread_ts = thread(state, &channel, args)?;
    let ts = state.new_ts();
    let message = Message::new(channel, ts.clone(), thread_ts, content);
    state.messages.push(Message { only_for: Some(user), ..message });
    Ok(json!({ "message_ts": ts }))
}

fn update(state: &mut State, args: &Value) -> Answer {
    // Unlike chat.postMessage it takes ids only.
    let channel = text_of(args, "channel").to_owned();
    if state.channel(&channel).is_none_or(|known| known.id != channel) {
        return Err("channel_not_found".into());
    }
    writable(state, args, "channel")?;
    if text_of(args, "text").encode_utf16().count() > MAX_UPDATE_TEXT {
        let message = format!("must be less than {} characters in chat.update", MAX_UPDATE_TEXT + 1);
        let violation = Violation { pointer: "/text".into(), rule: Rule::TooLong, message };
        record(state, "chat.update", vec![violation]);
        return Err("msg_too_long".into());
    }
    let new = content(state, "chat.update", args)?;
    let ts = text_of(args, "ts").to_owned();
    let window = state.options.edit_window;
    let message = state.message_mut(&channel, &ts).ok_or("message_not_found")?;
    if message.only_for.is_some() || message.user.is_some() {
        return Err("cant_update_message".into());
    }
    if window.is_some_and(|window| message.posted.elapsed() > window) {
        return Err("edit_window_closed".into());
    }
    let is_given = |key: &str| !args[key].is_null();
    let old = message.content.clone();
    // Without blocks, a new text takes the place of the old blocks; attachments stay until they are named.
    message.content = Content {
        text: if is_given("text") { new.text } else { old.text.clone() },
        blocks: if is_given("blocks") || is_given("text") { new.blocks } else { old.blocks.clone() },
        attachments: if is_given("attachments") { new.attachments } else { old.attachments.clone() },
    };
    message.history.push(old);
    Ok(json!({ "channel": channel, "ts": ts, "text": message.content.text, "message": wire(message) }))
}

fn delete(state: &mut State, args: &Value) -> Answer {
    let channel = state.channel(text_of(args, "channel")).ok_or("channel_not_found")?.id.clone();
    let ts = text_of(args, "ts");
    let message = state.message_mut(&channel, ts).ok_or("message_not_found")?;
    if message.user.is_some() {
        return Err("cant_delete_message".into());
    }
    message.is_deleted = true;
    Ok(json!({ "channel": channel, "ts": ts }))
}

/// Records the rules that a message breaks, and reads its content unless Slack would refuse it.
pub(super) fn content(state: &mut State, method: &str, args: &Value) -> Result<Content, Refusal> {
    if !matches!(args["blocks"], Value::Null | Value::Array(_)) {
        return Err("invalid_blocks_format".into());
    }
    let mut violations = validate(args);
    pictures(state, args, "", &mut violations);
    let refusal = refusal(&violations);
    record(state, method, violations);
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let list = |key: &str| args[key].as_array().cloned().unwrap_or_default();
    let text = String::from_utf16_lossy(&text_of(args, "text").encode_utf16().take(MAX_TEXT).collect::<Vec<_>>());
    Ok(Content { text, blocks: list("blocks"), attachments: list("attachments") })
}

pub(super) fn record(state: &mut State, method: &str, violations: Vec<Violation>) {
    let allowed = |violation: &Violation| {
        violation.rule == Rule::Mention
            && state.options.allowed_mentions.iter().any(|name| violation.message.contains(&format!("`{name}`")))
    };
    let breaches: Vec<_> = violations.into_iter().filter(|violation| !allowed(violation)).collect();
    state.breaches.extend(breaches.into_iter().map(|violation| Breach { method: method.into(), violation }));
}

/// The error that Slack gives for these, if it refuses the message.
pub(super) fn refusal(violations: &[Violation]) -> Option<Refusal> {
    let refused: Vec<_> = violations.iter().filter(|violation| violation.rule.is_refused()).collect();
    let first = refused.first()?;
    let error = match first.rule {
        Rule::NoText => "no_text",
        Rule::BlocksTooLong => "msg_blocks_too_long",
        Rule::TooMany if first.pointer == "/attachments" => "too_many_attachments",
        _ if first.pointer.starts_with("/attachments") => "invalid_attachments",
        _ => "invalid_blocks",
    };
    Some(Refusal { error: error.into(), messages: refused.iter().map(ToString::to_string).collect() })
}

/// A message as the API shows it.
pub(super) fn wire(message: &Message) -> Value {
    let mut wire = json!({
        "type": "message", "ts": message.ts, "text": message.content.text, "team": TEAM,
        "user": message.user.as_deref().unwrap_or(BOT_USER),
    });
    if message.user.is_none() {
        wire["subtype"] = "bot_message".into();
        wire["bot_id"] = BOT.into();
        wire["app_id"] = APP.into();
    }
    let mut blocks = message.content.blocks.clone();
    let mut attachments = message.content.attachments.clone();
    name_blocks(blocks.iter_mut(), "b");
    for (index, attachment) in attachments.iter_mut().enumerate() {
        attachment["id"] = (index + 1).into();
        let attached = attachment["blocks"].as_array_mut().into_iter().flatten();
        name_blocks(attached, &format!("a{index}b"));
    }
    let lists = [("blocks", blocks), ("attachments", attachments)];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        wire[key] = Value::Array(list);
    }
    if let Some(thread_ts) = &message.thread_ts {
        wire["thread_ts"] = thread_ts.as_str().into();
    }
    if let Some(metadata) = &message.metadata {
        wire["metadata"] = metadata.clone();
    }
    if !message.shared.is_empty() {
        let files = message.shared.iter().zip(&message.files);
        wire["files"] = files.map(|((id, name), title)| json!({ "id": id, "name": name, "title": title })).collect();
    }
    if !message.history.is_empty() {
        wire["edited"] = json!({ "user": BOT_USER, "ts": message.ts });
    }
    wire
}

/// Gives a `block_id` to the blocks that have none, as Slack does.
pub(super) fn name_blocks<'a>(blocks: impl Iterator<Item = &'a mut Value>, prefix: &str) {
    for (index, block) in blocks.enumerate().filter(|(_, block)| block["block_id"].is_null()) {
        block["block_id"] = format!("{prefix}{index}").into();
    }
}

/// Reports pictures of files that are not there.
pub(super) fn pictures(state: &State, value: &Value, pointer: &str, out: &mut Vec<Violation>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pictures(state, item, &format!("{pointer}/{index}"), out);
            }
        }
        Value::Object(fields) => {
            if let Some(id) = fields.get("slack_file").and_then(|file| file["id"].as_str())
                && !state.files.iter().any(|file| file.id == id && file.is_complete)
            {
                let pointer = format!("{pointer}/slack_file");
                let message = format!("invalid slack file: `{id}` was not uploaded");
                out.push(Violation { pointer, rule: Rule::InvalidValue, message });
            }
            for (name, field) in fields {
                pictures(state, field, &format!("{pointer}/{name}"), out);
            }
        }
        _ => {}
    }
}
