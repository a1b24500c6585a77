//! What was said in a channel or a thread: `conversations.history`, `conversations.replies`.
//!
//! <https://docs.slack.dev/reference/methods/conversations.history>

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::methods::{Answer, text_of, wire};
use super::state::{Message, State};

/// Messages on a page when nobody asks for another number.
const PAGE: usize = 100;

pub(super) fn run(state: &State, method: &str, args: &Value) -> Answer {
    // Unlike chat.postMessage it takes ids only.
    let id = text_of(args, "channel");
    let channel = state.channel(id).filter(|channel| channel.id == id).ok_or("channel_not_found")?;
    if !channel.is_member {
        return Err("not_in_channel".into());
    }
    let thread = text_of(args, "ts");
    let of_thread = method == "conversations.replies";
    let oldest: f64 = text_of(args, "oldest").parse().unwrap_or_default();
    let wanted = |m: &&Message| {
        let there = match of_thread {
            true => m.ts == thread || m.thread_ts.as_deref() == Some(thread),
            false => m.thread_ts.is_none() || m.is_broadcast,
        };
        there && m.only_for.is_none() && (posted_at(m) >= oldest || (of_thread && m.ts == thread))
    };
    let mut found: Vec<&Message> = state.messages(id).filter(wanted).collect();
    if of_thread && found.is_empty() {
        return Err("thread_not_found".into());
    }
    if !of_thread {
        found.reverse();
    }
    let number = |key: &str| args[key].as_u64().or_else(|| text_of(args, key).parse().ok());
    let limit = number("limit").and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(PAGE);
    let from: usize = text_of(args, "cursor").parse().unwrap_or_default();
    let with_metadata = args["include_all_metadata"] == true || args["include_all_metadata"] == "true";
    let shown = found.iter().skip(from).take(limit).map(|message| {
        let mut wire = wire(message);
        if !with_metadata {
            wire.as_object_mut().map(|fields| fields.remove("metadata"));
        }
        wire
    });
    let shown: Vec<Value> = shown.collect();
    let has_more = from + limit < found.len();
    let next = if has_more { (from + limit).to_string() } else { String::new() };
    Ok(json!({ "messages": shown, "has_more": has_more, "response_metadata": { "next_cursor": next } }))
}

/// Unix seconds: a `ts` of the fake is no time.
#[expect(clippy::disallowed_methods, reason = "a caller compares with the wall clock")]
fn posted_at(message: &Message) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    now.saturating_sub(message.posted.elapsed()).as_secs_f64()
}
