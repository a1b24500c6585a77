//! Modals: who sees which, and what opens them.
//!
//! <https://docs.slack.dev/surfaces/modals/>

use std::time::Instant;

use serde_json::{Value, json};

use super::blocks::validate_view;
use super::methods::{APP, Answer, Refusal, name_blocks, pictures, record, refusal, text_of};
use super::options::TEAM;
use super::state::State;

/// Modals on top of each other.
const MAX_STACK: usize = 3;

/// A right to open one modal.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// Who did something.
    pub user: String,
    /// Where, if in a channel.
    pub channel: Option<String>,
    /// The modal in which it was done.
    pub view: Option<String>,
    /// When.
    pub made: Instant,
    /// Whether it was used.
    pub is_used: bool,
}

/// A modal.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// `V…`
    pub id: String,
    /// Who sees it.
    pub user: String,
    /// The channel it was opened from.
    pub channel: Option<String>,
    /// The modal below it.
    pub previous: Option<String>,
    /// The first of the stack.
    pub root: String,
    /// Changes with every update.
    pub hash: String,
    /// The view as sent, with `block_id`s.
    pub content: Value,
    /// What is shown as wrong, by `block_id`.
    pub errors: Value,
    /// Whether it was neither closed nor replaced.
    pub is_open: bool,
    /// By `action_id`: options that a menu was offered.
    pub offers: Vec<(String, Vec<Value>)>,
}

impl View {
    /// As in payloads, with the state of its fields.
    pub(super) fn wire(&self, values: &Value) -> Value {
        let mut wire = self.content.clone();
        let fixed = json!({
            "id": self.id, "team_id": TEAM, "app_id": APP, "bot_id": "B0LAB", "app_installed_team_id": TEAM,
            "root_view_id": self.root, "previous_view_id": self.previous, "hash": self.hash,
            "state": { "values": values },
        });
        let defaults = json!({
            "private_metadata": "", "callback_id": "", "external_id": "", "clear_on_close": false,
            "notify_on_close": false, "close": null, "submit": null,
        });
        for (name, value) in defaults.as_object().into_iter().flatten() {
            if wire.get(name).is_none() {
                wire[name] = value.clone();
            }
        }
        for (name, value) in fixed.as_object().into_iter().flatten() {
            wire[name] = value.clone();
        }
        wire
    }
}

pub(super) fn run(state: &mut State, method: &str, args: &Value) -> Answer {
    let view = &args["view"];
    let id = match method {
        "views.publish" => return publish(state, method, args),
        "views.update" => {
            let id = text_of(args, "view_id");
            let external = text_of(args, "external_id");
            let known = state.views.iter().find(|view| {
                view.is_open && (view.id == id || (!external.is_empty() && view.content["external_id"] == external))
            });
            let (id, hash) = known.map(|view| (view.id.clone(), view.hash.clone())).ok_or("not_found")?;
            if args["hash"].as_str().is_some_and(|given| given != hash) {
                return Err("hash_conflict".into());
            }
            replace(state, method, &id, view)?;
            id
        }
        _ => {
            let trigger = exchange(state, text_of(args, "trigger_id"))?;
            let below = if method == "views.push" { Some(trigger.view.ok_or("invalid_trigger_id")?) } else { None };
            open(state, method, &trigger.user, trigger.channel, below, view)?
        }
    };
    let view = state.views.iter().find(|view| view.id == id).ok_or("not_found")?;
    Ok(json!({ "view": view.wire(&json!({})) }))
}

/// Shows a view in a user's Home, in place of the one before.
fn publish(state: &mut State, method: &str, args: &Value) -> Answer {
    let (user, view) = (text_of(args, "user_id").to_owned(), &args["view"]);
    if state.user(&user).is_none() {
        return Err("user_not_found".into());
    }
    if view["type"] != "home" {
        return Err("invalid_arguments".into());
    }
    // Its blocks are those of a modal, which needs a title besides.
    let mut modal = view.clone();
    (modal["type"], modal["title"]) = (json!("modal"), json!({ "type": "plain_text", "text": "Home" }));
    accepted(state, method, &modal)?;
    state.homes.insert(user, view.clone());
    Ok(json!({ "view": view }))
}

/// A trigger opens one thing, within three seconds.
fn exchange(state: &mut State, id: &str) -> Result<Trigger, Refusal> {
    let life = state.options.trigger_life;
    let trigger = state.triggers.get_mut(id).ok_or("invalid_trigger_id")?;
    if trigger.made.elapsed() > life {
        return Err("expired_trigger_id".into());
    }
    if std::mem::replace(&mut trigger.is_used, true) {
        return Err("exchanged_trigger_id".into());
    }
    Ok(trigger.clone())
}

/// Checks a view, records what is wrong with it and returns it with `block_id`s.
fn accepted(state: &mut State, method: &str, view: &Value) -> Result<Value, Refusal> {
    let mut violations = validate_view(view);
    pictures(state, view, "", &mut violations);
    let refused = refusal(&violations);
    record(state, method, violations);
    if let Some(refused) = refused {
        return Err(Refusal { error: "invalid_arguments".into(), ..refused });
    }
    let mut view = view.clone();
    name_blocks(view["blocks"].as_array_mut().into_iter().flatten(), "b");
    Ok(view)
}

pub(super) fn open(
    state: &mut State,
    method: &str,
    user: &str,
    channel: Option<String>,
    below: Option<String>,
    view: &Value,
) -> Result<String, Refusal> {
    let content = accepted(state, method, view)?;
    let id = state.new_id("V");
    let root = match &below {
        None => id.clone(),
        Some(below) => state.views.iter().find(|v| v.id == *below).ok_or("not_found")?.root.clone(),
    };
    if state.views.iter().filter(|view| view.is_open && view.root == root).count() >= MAX_STACK {
        return Err("push_limit_reached".into());
    }
    let hash = state.new_id("1700000000.");
    let (user, errors, offers) = (user.to_owned(), Value::Null, Vec::new());
    let view =
        View { id: id.clone(), user, channel, previous: below, root, hash, content, errors, is_open: true, offers };
    state.views.push(view);
    Ok(id)
}

pub(super) fn replace(state: &mut State, method: &str, id: &str, view: &Value) -> Result<(), Refusal> {
    let content = accepted(state, method, view)?;
    let hash = state.new_id("1700000000.");
    let view = state.views.iter_mut().find(|view| view.id == id).ok_or("not_found")?;
    view.content = content;
    view.hash = hash;
    view.errors = Value::Null;
    Ok(())
}

/// Closes a modal, or all of its stack.
pub(super) fn close(state: &mut State, id: &str, all: bool) {
    let root = state.views.iter().find(|view| view.id == id).map(|view| view.root.clone()).unwrap_or_default();
    for view in state.views.iter_mut().filter(|view| view.id == id || (all && view.root == root)) {
        view.is_open = false;
    }
}
