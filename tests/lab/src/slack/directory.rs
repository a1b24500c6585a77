//! Who and what there is: users, user groups, channels, links, reactions; and what a method may be called for.

use serde_json::{Value, json};

use super::methods::{Answer, BOT_USER, text_of};
use super::options::{Channel, User};
use super::state::{State, direct};

pub(super) fn run(state: &mut State, method: &str, args: &Value) -> Answer {
    match method {
        "apps.connections.open" => {
            let ticket = state.new_id("ticket-");
            Ok(json!({ "url": state.sockets.ticket(ticket) }))
        }
        "conversations.info" => {
            let id = text_of(args, "channel");
            let channel = state.channel(id).filter(|channel| channel.id == id).ok_or("channel_not_found")?;
            Ok(json!({ "channel": conversation(channel) }))
        }
        "conversations.list" => Ok(page(state, |_| true)),
        "users.conversations" => Ok(page(state, |channel| channel.is_member)),
        "conversations.open" => {
            let user = text_of(args, "users");
            state.user(user).ok_or("user_not_found")?;
            Ok(json!({ "channel": { "id": direct(user) } }))
        }
        "users.info" => {
            let user = state.user(text_of(args, "user")).ok_or("user_not_found")?;
            Ok(json!({ "user": person(user) }))
        }
        "usergroups.list" => {
            let groups = state.options.groups.iter().map(|group| {
                json!({ "id": group.id, "handle": group.handle, "name": group.handle, "is_usergroup": true,
                        "user_count": group.users.len() })
            });
            Ok(json!({ "usergroups": groups.collect::<Vec<_>>() }))
        }
        "usergroups.users.list" => {
            let id = text_of(args, "usergroup");
            let group = state.options.groups.iter().find(|group| group.id == id).ok_or("no_such_subteam")?;
            Ok(json!({ "users": group.users }))
        }
        "chat.getPermalink" => {
            let channel = state.channel(text_of(args, "channel")).ok_or("channel_not_found")?.id.clone();
            let ts = text_of(args, "message_ts");
            state.message_mut(&channel, ts).ok_or("message_not_found")?;
            let permalink = format!("https://lab.slack.com/archives/{channel}/p{}", ts.replace('.', ""));
            Ok(json!({ "channel": channel, "permalink": permalink }))
        }
        "reactions.add" => {
            let channel = state.channel(text_of(args, "channel")).ok_or("channel_not_found")?.id.clone();
            let reaction = (text_of(args, "timestamp").to_owned(), text_of(args, "name").to_owned());
            state.message_mut(&channel, &reaction.0).ok_or("message_not_found")?;
            if state.reactions.contains(&reaction) {
                return Err("already_reacted".into());
            }
            state.reactions.push(reaction);
            Ok(json!({}))
        }
        _ => Err("unknown_method".into()),
    }
}

fn page(state: &State, wanted: impl Fn(&Channel) -> bool) -> Value {
    let channels = state.options.channels.iter().filter(|channel| !channel.id.starts_with('D') && wanted(channel));
    json!({ "channels": channels.map(conversation).collect::<Vec<_>>(), "response_metadata": { "next_cursor": "" } })
}

fn conversation(channel: &Channel) -> Value {
    let is_im = channel.id.starts_with('D');
    json!({
        "id": channel.id, "name": channel.name, "name_normalized": channel.name, "created": 1_700_000_000,
        "creator": BOT_USER, "is_channel": !is_im, "is_group": false, "is_im": is_im, "is_private": is_im,
        "is_archived": channel.is_archived, "is_general": false, "is_member": channel.is_member, "is_mpim": false,
    })
}

fn person(user: &User) -> Value {
    json!({
        "id": user.id, "team_id": user.team, "name": user.name, "real_name": user.name, "deleted": user.is_deleted,
        "is_bot": user.is_bot, "is_restricted": user.is_restricted, "is_app_user": false,
        "is_ultra_restricted": user.is_ultra_restricted, "is_stranger": user.is_stranger, "tz": "Etc/UTC",
        "profile": { "display_name": user.name, "real_name": user.name },
    })
}

/// The scope that a method needs, as its page under <https://docs.slack.dev/reference/methods> says.
pub(super) fn scope(method: &str) -> Option<&'static str> {
    Some(match method {
        "chat.postMessage" | "chat.postEphemeral" | "chat.update" | "chat.delete" => "chat:write",
        "conversations.info" | "conversations.list" | "users.conversations" => "channels:read",
        "conversations.history" | "conversations.replies" => "channels:history",
        "conversations.open" => "im:write",
        "users.info" => "users:read",
        "usergroups.list" | "usergroups.users.list" => "usergroups:read",
        "files.getUploadURLExternal" | "files.completeUploadExternal" | "files.delete" => "files:write",
        "reactions.add" => "reactions:write",
        _ => return None,
    })
}

/// A method's rate tier, 1 to 4; those with rules of their own have none.
pub(super) fn tier(method: &str) -> Option<usize> {
    Some(match method {
        "conversations.list" | "usergroups.list" | "usergroups.users.list" => 2,
        "apps.connections.open"
        | "chat.delete"
        | "conversations.history"
        | "conversations.info"
        | "conversations.open"
        | "conversations.replies"
        | "files.delete"
        | "users.conversations"
        | "reactions.add" => 3,
        "chat.postEphemeral"
        | "users.info"
        | "views.open"
        | "views.publish"
        | "views.push"
        | "views.update"
        | "files.getUploadURLExternal"
        | "files.completeUploadExternal" => 4,
        _ => return None,
    })
}
