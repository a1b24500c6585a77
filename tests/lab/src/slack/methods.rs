//! What each method does to the state.

use serde_json::{Value, json};

use super::blocks::{Rule, Violation, validate};
use super::files;
use super::state::{Breach, Content, Message, State};

/// Characters of text that chat.update takes: <https://docs.slack.dev/reference/methods/chat.update>.
const MAX_UPDATE_TEXT: usize = 4000;
const MAX_TEXT: usize = super::blocks::MAX_TEXT;
const BOT: &str = "B0LAB";
const BOT_USER: &str = "U0LAB";
const TEAM: &str = "T0LAB";

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
        "conversations.info" => info(state, args),
        "files.getUploadURLExternal" => files::announce(state, args),
        "files.completeUploadExternal" => files::complete(state, args),
        _ => Err("unknown_method".into()),
    }
}

/// The channel's id, if the bot may write there.
pub(super) fn writable(state: &State, args: &Value, key: &str) -> Result<String, Refusal> {
    let channel = state.channel(text_of(args, key)).ok_or("channel_not_found")?;
    if channel.is_archived {
        return Err("is_archived".into());
    }
    if !channel.is_member {
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
        ts: state.new_ts(),
        channel,
        thread_ts,
        content,
        history: Vec::new(),
        is_broadcast: args["reply_broadcast"].as_bool().unwrap_or_default(),
        only_for: None,
        files: Vec::new(),
        metadata: args.get("metadata").cloned(),
        is_deleted: false,
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
        return Err("user_not_in_channel".into());
    }
    let content = content(state, "chat.postEphemeral", args)?;
    let thread_ts = thread(state, &channel, args)?;
    let ts = state.new_ts();
    state.messages.push(Message {
        channel,
        ts: ts.clone(),
        thread_ts,
        content,
        history: Vec::new(),
        is_broadcast: false,
        only_for: Some(user),
        files: Vec::new(),
        metadata: None,
        is_deleted: false,
    });
    Ok(json!({ "message_ts": ts }))
}

fn update(state: &mut State, args: &Value) -> Answer {
    // Unlike chat.postMessage it takes ids only.
    let channel = text_of(args, "channel").to_owned();
    if !state.options.channels.iter().any(|known| known.id == channel) {
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
    let message = state.message_mut(&channel, &ts).ok_or("message_not_found")?;
    if message.only_for.is_some() {
        return Err("cant_update_message".into());
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
    state.message_mut(&channel, ts).ok_or("message_not_found")?.is_deleted = true;
    Ok(json!({ "channel": channel, "ts": ts }))
}

fn info(state: &State, args: &Value) -> Answer {
    let id = text_of(args, "channel");
    let channel = state.options.channels.iter().find(|channel| channel.id == id).ok_or("channel_not_found")?;
    Ok(json!({ "channel": {
        "id": channel.id, "name": channel.name, "name_normalized": channel.name, "created": 1_700_000_000,
        "creator": BOT_USER, "is_channel": true, "is_group": false, "is_im": false, "is_private": false,
        "is_archived": channel.is_archived, "is_general": false, "is_member": channel.is_member, "is_mpim": false,
    } }))
}

/// Records the rules that a message breaks, and reads its content unless Slack would refuse it.
fn content(state: &mut State, method: &str, args: &Value) -> Result<Content, Refusal> {
    if !matches!(args["blocks"], Value::Null | Value::Array(_)) {
        return Err("invalid_blocks_format".into());
    }
    let violations = validate(args);
    let refusal = refusal(&violations);
    record(state, method, violations);
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let list = |key: &str| args[key].as_array().cloned().unwrap_or_default();
    let text = String::from_utf16_lossy(&text_of(args, "text").encode_utf16().take(MAX_TEXT).collect::<Vec<_>>());
    Ok(Content { text, blocks: list("blocks"), attachments: list("attachments") })
}

fn record(state: &mut State, method: &str, violations: Vec<Violation>) {
    let allowed = |violation: &Violation| {
        violation.rule == Rule::Mention
            && state.options.allowed_mentions.iter().any(|name| violation.message.contains(&format!("`{name}`")))
    };
    let breaches: Vec<_> = violations.into_iter().filter(|violation| !allowed(violation)).collect();
    state.breaches.extend(breaches.into_iter().map(|violation| Breach { method: method.into(), violation }));
}

/// The error that Slack gives for these, if it refuses the message.
fn refusal(violations: &[Violation]) -> Option<Refusal> {
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
fn wire(message: &Message) -> Value {
    let mut wire = json!({
        "type": "message", "subtype": "bot_message", "ts": message.ts, "text": message.content.text,
        "user": BOT_USER, "bot_id": BOT, "app_id": "A0LAB", "team": TEAM,
    });
    let lists = [("blocks", &message.content.blocks), ("attachments", &message.content.attachments)];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        wire[key] = Value::Array(list.clone());
    }
    if let Some(thread_ts) = &message.thread_ts {
        wire["thread_ts"] = thread_ts.as_str().into();
    }
    if let Some(metadata) = &message.metadata {
        wire["metadata"] = metadata.clone();
    }
    if !message.history.is_empty() {
        wire["edited"] = json!({ "user": BOT_USER, "ts": message.ts });
    }
    wire
}
