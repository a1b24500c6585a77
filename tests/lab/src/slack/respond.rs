//! `response_url`: 5 answers within 30 minutes.
//!
//! <https://docs.slack.dev/interactivity/handling-user-interaction#message_responses>

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::methods::{Answer, Refusal, content, text_of, thread};
use super::state::{Content, Message, State};

const MAX_USES: usize = 5;
const LIFE: Duration = Duration::from_secs(30 * 60);

/// What an address answers to.
#[derive(Debug, Clone)]
pub struct ResponseUrl {
    /// The channel.
    pub channel: String,
    /// Who gets ephemeral answers.
    pub user: String,
    /// The message that was pressed.
    pub ts: Option<String>,
    /// How often it was used.
    pub uses: usize,
    /// When it was given out.
    pub made: Instant,
}

/// Gives out an address.
pub(super) fn address(state: &mut State, channel: &str, user: &str, ts: Option<&str>) -> String {
    let id = state.new_id("R");
    let (channel, user, ts) = (channel.to_owned(), user.to_owned(), ts.map(str::to_owned));
    let url = format!("{}/respond/{id}", state.base_url.trim_end_matches("/api"));
    state.urls.insert(id, ResponseUrl { channel, user, ts, uses: 0, made: Instant::now() });
    url
}

/// Takes one answer.
pub(super) fn respond(state: &mut State, id: &str, args: &Value) -> Answer {
    let url = state.urls.get_mut(id).ok_or("no_such_url")?;
    if url.made.elapsed() > LIFE {
        return Err("expired_url".into());
    }
    if url.uses >= MAX_USES {
        return Err("used_url".into());
    }
    url.uses += 1;
    let url = url.clone();
    let original = url.ts.as_deref();
    if args["delete_original"] == true {
        let ts = original.ok_or("message_not_found")?;
        state.message_mut(&url.channel, ts).ok_or("message_not_found")?.is_deleted = true;
        return Ok(json!({}));
    }
    let content = content(state, "response_url", args)?;
    if args["replace_original"] == true
        && let Some(ts) = original
    {
        return replace(state, &url.channel, ts, content);
    }
    say(state, &url.channel, &url.user, args, content)
}

fn replace(state: &mut State, channel: &str, ts: &str, content: Content) -> Answer {
    let message = state.message_mut(channel, ts).ok_or("message_not_found")?;
    let old = std::mem::replace(&mut message.content, content);
    message.history.push(old);
    Ok(json!({}))
}

/// Shows what a command or a button answers.
pub(super) fn say(state: &mut State, channel: &str, user: &str, args: &Value, content: Content) -> Answer {
    let thread_ts: Result<_, Refusal> = thread(state, channel, args);
    let ts = state.new_ts();
    let is_open = text_of(args, "response_type") == "in_channel";
    let message = Message::new(channel.to_owned(), ts, thread_ts?, content);
    state.messages.push(Message { only_for: (!is_open).then(|| user.to_owned()), ..message });
    Ok(json!({}))
}
