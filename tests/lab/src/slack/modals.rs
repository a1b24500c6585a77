//! What people do in modals.

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::blocks::Rule;
use super::deliver::{Ack, Kind, deliver};
use super::people::{Press, element};
use super::state::State;
use super::views::{self, View};
use super::{FakeSlack, fields};

const MAX_OPTIONS: usize = 100;

impl FakeSlack {
    /// The modal that a person sees on top.
    pub fn view(&self, user: &str) -> Option<View> {
        self.hub.lock().views.iter().rev().find(|view| view.is_open && view.user == user).cloned()
    }

    /// Types into an external menu; returns the options' labels and values, which may then be chosen.
    ///
    /// # Errors
    /// See [`FakeSlack::command`].
    pub async fn suggest(
        &self,
        user: &str,
        view: &str,
        action: &str,
        typed: &str,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let payload = {
            let state = self.hub.lock();
            let seen = state.seen(user, view)?;
            let block = block_of(&seen.content, action)?;
            let menu = element_of(&block, action).with_context(|| format!("no menu {action:?}"))?;
            let is_external = matches!(menu["type"].as_str(), Some("external_select" | "multi_external_select"));
            ensure!(is_external, "{action:?} is no external menu");
            let least = menu["min_query_length"].as_u64().unwrap_or(3);
            ensure!(typed.chars().count() as u64 >= least, "{action:?} asks only from {least} characters on");
            let person = state.user(user).context("no such user")?;
            let mut payload = state.interaction("block_suggestion", person);
            payload["container"] = json!({ "type": "view", "view_id": view });
            payload["view"] = seen.wire(&json!({}));
            payload["action_id"] = action.into();
            payload["block_id"] = block["block_id"].clone();
            payload["value"] = typed.into();
            payload
        };
        let ack = deliver(&self.hub, Kind::Interaction, payload).await?;
        let mut state = self.hub.lock();
        let options = offered(&mut state, &ack);
        if let Some(view) = state.views.iter_mut().find(|known| known.id == view) {
            view.offers.retain(|(known, _)| known != action);
            view.offers.push((action.to_owned(), options.clone()));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(options.iter().map(|option| (text(&option["text"]["text"]), text(&option["value"]))).collect())
    }

    /// Sends a modal with these values, by `action_id`; several options of one field are separated by commas.
    ///
    /// # Errors
    /// See [`FakeSlack::command`].
    pub async fn submit(&self, user: &str, view: &str, values: &[(&str, &str)]) -> anyhow::Result<Ack> {
        let payload = {
            let mut state = self.hub.lock();
            let seen = state.seen(user, view)?.clone();
            ensure!(seen.content["submit"].is_object(), "the modal has no button to send it");
            let values = fields::values(&seen.content, values, &seen.offers)?;
            let person = state.user(user).context("no such user")?.clone();
            let mut payload = state.interaction("view_submission", &person);
            payload["view"] = seen.wire(&values);
            payload["trigger_id"] = state.trigger(user, seen.channel.as_deref(), Some(view)).into();
            payload["response_urls"] = json!([]);
            payload
        };
        let ack = deliver(&self.hub, Kind::Interaction, payload).await?;
        answered(&mut self.hub.lock(), view, ack.body.as_ref());
        self.hub.tell();
        Ok(ack)
    }

    /// Presses a button or chooses from a menu inside a modal.
    ///
    /// # Errors
    /// See [`FakeSlack::command`].
    pub async fn press_in_view(&self, user: &str, view: &str, press: impl Into<Press>) -> anyhow::Result<Ack> {
        let press = press.into();
        let payload = {
            let mut state = self.hub.lock();
            let seen = state.seen(user, view)?.clone();
            let blocks = &seen.content["blocks"];
            let action = match element(blocks, &press, "button")? {
                Some(action) => action,
                None => element(blocks, &press, "menu")?.with_context(|| format!("no element {:?}", press.action))?,
            };
            let person = state.user(user).context("no such user")?.clone();
            let mut payload = state.interaction("block_actions", &person);
            payload["container"] = json!({ "type": "view", "view_id": view });
            payload["view"] = seen.wire(&json!({}));
            payload["trigger_id"] = state.trigger(user, seen.channel.as_deref(), Some(view)).into();
            payload["actions"] = json!([action]);
            payload
        };
        deliver(&self.hub, Kind::Interaction, payload).await
    }

    /// Cancels a modal; tells the app if it asked for that.
    ///
    /// # Errors
    /// See [`FakeSlack::command`].
    pub async fn cancel(&self, user: &str, view: &str) -> anyhow::Result<()> {
        let payload = {
            let mut state = self.hub.lock();
            let seen = state.seen(user, view)?.clone();
            views::close(&mut state, view, false);
            let person = state.user(user).context("no such user")?;
            let mut payload = state.interaction("view_closed", person);
            payload["view"] = seen.wire(&json!({}));
            payload["is_cleared"] = false.into();
            (seen.content["notify_on_close"] == true).then_some(payload)
        };
        self.hub.tell();
        match payload {
            Some(payload) => deliver(&self.hub, Kind::Interaction, payload).await.map(drop),
            None => Ok(()),
        }
    }
}

impl State {
    fn seen(&self, user: &str, view: &str) -> anyhow::Result<&View> {
        let found = self.views.iter().find(|known| known.id == view && known.is_open && known.user == user);
        found.with_context(|| format!("{user} sees no modal {view}"))
    }
}

fn element_of<'a>(block: &'a Value, action: &str) -> Option<&'a Value> {
    let inside = block["elements"].as_array().into_iter().flatten();
    inside.chain([&block["element"], &block["accessory"]]).find(|element| element["action_id"] == action)
}

fn block_of(view: &Value, action: &str) -> anyhow::Result<Value> {
    let blocks = view["blocks"].as_array().into_iter().flatten();
    match blocks.into_iter().find(|block| element_of(block, action).is_some()) {
        Some(block) => Ok(block.clone()),
        None => bail!("the modal has no element {action:?}"),
    }
}

/// The options of an answer, checked.
fn offered(state: &mut State, ack: &Ack) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let body = ack.body.clone().unwrap_or_default();
    let groups = list(&body["option_groups"]);
    let options: Vec<_> =
        list(&body["options"]).into_iter().chain(groups.iter().flat_map(|g| list(&g["options"]))).collect();
    let mut wrong = |message: String| state.breach("block_suggestion", Rule::Acknowledgement, message);
    if !body["options"].is_array() && !body["option_groups"].is_array() {
        wrong("answered without `options` or `option_groups`".into());
    }
    if options.len() > MAX_OPTIONS {
        wrong(format!("{} options, no more than {MAX_OPTIONS} allowed", options.len()));
    }
    for option in &options {
        let length = |value: &Value| value.as_str().map_or(0, |text| text.encode_utf16().count());
        let (label, value) = (length(&option["text"]["text"]), length(&option["value"]));
        if !(1..=75).contains(&label) || !(1..=150).contains(&value) || option["text"]["type"] != "plain_text" {
            wrong(format!("an option's text must be plain with 1 to 75 characters, its value 1 to 150: {option}"));
        }
    }
    options
}

/// Does to a modal what its submission was answered with.
fn answered(state: &mut State, id: &str, body: Option<&Value>) {
    let Some(body) = body else { return views::close(state, id, false) };
    let wrong = match body["response_action"].as_str() {
        Some("clear") => return views::close(state, id, true),
        Some("update") => views::replace(state, "response_action", id, &body["view"]).err(),
        Some("push") => match state.views.iter().find(|view| view.id == id).cloned() {
            None => None,
            Some(below) => {
                let user = below.user.clone();
                views::open(state, "response_action", &user, below.channel, Some(below.id), &body["view"]).err()
            }
        },
        Some("errors") => {
            let view = state.views.iter_mut().find(|view| view.id == id);
            let errors = body["errors"].as_object().cloned().unwrap_or_default();
            let unknown = view.and_then(|view| {
                let inputs = view.content["blocks"].as_array().cloned().unwrap_or_default();
                let is_input = |name: &String| inputs.iter().any(|b| b["type"] == "input" && b["block_id"] == **name);
                let unknown = errors.keys().find(|name| !is_input(name)).cloned();
                view.errors = Value::Object(errors.clone());
                unknown
            });
            if errors.is_empty() || unknown.is_some() {
                let message = format!("`errors` must name input blocks of the modal: {unknown:?}");
                state.breach("view_submission", Rule::Acknowledgement, message);
            }
            None
        }
        other => {
            let message = format!("unknown response_action {other:?}");
            return state.breach("view_submission", Rule::Acknowledgement, message);
        }
    };
    if let Some(refusal) = wrong {
        state.breach("view_submission", Rule::Acknowledgement, format!("refused: {}", refusal.error));
    }
}
