//! What people do: commands, presses, mentions, direct messages.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::deliver::{Ack, Kind, deliver};
use super::methods::{APP, BOT_USER, content, name_blocks, wire};
use super::options::{TEAM, User};
use super::respond::{address, say};
use super::state::{Content, Message, State, direct};
use super::views::Trigger;
use super::{FakeSlack, sign};

/// A press of a button, or a choice in a menu.
#[derive(Debug, Clone, Default)]
pub struct Press {
    pub(super) action: String,
    pub(super) value: Option<String>,
    pub(super) is_confirmed: bool,
}

impl Press {
    /// Of the only element with this `action_id`.
    pub fn new(action: &str) -> Self {
        Self { action: action.into(), ..Self::default() }
    }

    /// Of the button with this value, or of this option of a menu.
    #[must_use]
    pub fn value(self, value: &str) -> Self {
        Self { value: Some(value.into()), ..self }
    }

    /// With "yes" to the question that the element asks.
    #[must_use]
    pub fn confirmed(self) -> Self {
        Self { is_confirmed: true, ..self }
    }
}

impl From<&str> for Press {
    fn from(action: &str) -> Self {
        Self::new(action)
    }
}

impl FakeSlack {
    /// Types `/llm-diagnose TEXT` in a channel (id, name, or a user's own id for the direct message with the bot).
    ///
    /// # Errors
    /// When the app does not acknowledge, or a person could not do this; here and below.
    pub async fn command(&self, user: &str, channel: &str, text: &str) -> anyhow::Result<Ack> {
        let (payload, channel) = {
            let mut state = self.hub.lock();
            state.granted("commands")?;
            let (person, channel) = state.person_in(user, channel)?;
            let name = state.channel(&channel).map(|channel| channel.name.clone()).unwrap_or_default();
            let name = if channel.starts_with('D') { "directmessage".into() } else { name };
            let payload = json!({
                "token": "verification-token", "team_id": person.team, "team_domain": "lab", "channel_id": channel,
                "channel_name": name, "user_id": user, "user_name": person.name, "command": state.options.command,
                "text": text, "api_app_id": APP, "is_enterprise_install": state.options.is_org.to_string(),
                "response_url": address(&mut state, &channel, user, None),
                "trigger_id": state.trigger(user, Some(&channel), None),
            });
            (payload, channel)
        };
        let ack = deliver(&self.hub, Kind::Command, payload).await?;
        if let Some(body) = &ack.body {
            let mut state = self.hub.lock();
            if let Ok(content) = content(&mut state, "command", body) {
                say(&mut state, &channel, user, body, content).ok();
            }
            drop(state);
            self.hub.tell();
        }
        Ok(ack)
    }

    /// Presses a button of a message as it stands now; a question that it asks must be answered with
    /// [`Press::confirmed`].
    ///
    /// # Errors
    /// See [`Self::command`].
    pub async fn press(&self, user: &str, channel: &str, ts: &str, press: impl Into<Press>) -> anyhow::Result<Ack> {
        let payload = self.hub.lock().pressed(user, channel, ts, &press.into(), "button")?;
        deliver(&self.hub, Kind::Interaction, payload).await
    }

    /// Chooses an option of a message's menu, by the option's value.
    ///
    /// # Errors
    /// See [`Self::command`].
    pub async fn choose(&self, user: &str, channel: &str, ts: &str, action: &str, option: &str) -> anyhow::Result<Ack> {
        let press = Press::new(action).value(option).confirmed();
        let payload = self.hub.lock().pressed(user, channel, ts, &press, "menu")?;
        deliver(&self.hub, Kind::Interaction, payload).await
    }

    /// Writes `@llm-diagnose TEXT` in a channel or one of its threads.
    ///
    /// # Errors
    /// See [`Self::command`].
    pub async fn mention(&self, user: &str, channel: &str, thread: Option<&str>, text: &str) -> anyhow::Result<Ack> {
        let text = format!("<@{BOT_USER}> {text}");
        let payload = self.hub.lock().written("app_mention", "app_mentions:read", user, channel, thread, &text)?;
        self.hub.tell();
        deliver(&self.hub, Kind::Event, payload).await
    }

    /// Invites the bot into a channel, and tells it.
    ///
    /// # Errors
    /// See [`Self::command`].
    pub async fn invite(&self, user: &str, channel: &str) -> anyhow::Result<()> {
        let payload = {
            let mut state = self.hub.lock();
            let id = state.channel(channel).with_context(|| format!("there is no channel {channel}"))?.id.clone();
            state.options.channels.iter_mut().filter(|c| c.id == id).for_each(|c| c.is_member = true);
            let event = json!({
                "type": "member_joined_channel", "user": BOT_USER, "channel": id, "channel_type": "C", "team": TEAM,
                "inviter": user, "event_ts": state.new_ts(),
            });
            state.event(event)
        };
        self.hub.tell();
        deliver(&self.hub, Kind::Event, payload).await.map(drop)
    }

    /// Opens the app's Home.
    ///
    /// # Errors
    /// See [`Self::command`].
    pub async fn open_home(&self, user: &str) -> anyhow::Result<Ack> {
        let payload = {
            let mut state = self.hub.lock();
            let event = json!({
                "type": "app_home_opened", "user": user, "channel": format!("D{user}"), "tab": "home",
                "event_ts": state.new_ts(),
            });
            state.event(event)
        };
        self.hub.tell();
        deliver(&self.hub, Kind::Event, payload).await
    }

    /// Writes to the bot directly.
    ///
    /// # Errors
    /// See [`Self::command`].
    pub async fn dm(&self, user: &str, text: &str) -> anyhow::Result<Ack> {
        let payload = self.hub.lock().written("message", "im:history", user, user, None, text)?;
        self.hub.tell();
        deliver(&self.hub, Kind::Event, payload).await
    }

    /// Tells the app of its own last message in a direct message, as Slack does.
    ///
    /// # Errors
    /// See [`Self::command`].
    pub async fn echo(&self, user: &str) -> anyhow::Result<Ack> {
        let payload = {
            let mut state = self.hub.lock();
            let channel = direct(user);
            let message = state.messages(&channel).filter(|message| message.user.is_none()).last();
            let mut event = wire(message.with_context(|| format!("the bot wrote nothing to {user}"))?);
            event["channel"] = channel.into();
            event["channel_type"] = "im".into();
            event["event_ts"] = event["ts"].clone();
            state.event(event)
        };
        deliver(&self.hub, Kind::Event, payload).await
    }
}

impl State {
    pub(super) fn granted(&self, scope: &str) -> anyhow::Result<()> {
        ensure!(self.options.scopes.iter().any(|granted| granted == scope), "the app lacks the scope {scope}");
        Ok(())
    }

    /// A user, and the channel they mean.
    fn person_in(&self, user: &str, channel: &str) -> anyhow::Result<(User, String)> {
        let person = self.user(user).with_context(|| format!("there is no user {user}"))?.clone();
        if channel == user {
            return Ok((person, direct(user)));
        }
        let channel = self.channel(channel).with_context(|| format!("there is no channel {channel}"))?;
        ensure!(!channel.is_archived, "{} is archived: nobody can write there", channel.name);
        Ok((person, channel.id.clone()))
    }

    pub(super) fn trigger(&mut self, user: &str, channel: Option<&str>, view: Option<&str>) -> String {
        let id = self.new_id("13345224609.738474920.");
        let (user, channel, view) = (user.to_owned(), channel.map(str::to_owned), view.map(str::to_owned));
        self.triggers.insert(id.clone(), Trigger { user, channel, view, made: Instant::now(), is_used: false });
        id
    }

    /// What every interaction says of who did it.
    pub(super) fn interaction(&self, kind: &str, person: &User) -> Value {
        let team = json!({ "id": TEAM, "domain": "lab" });
        json!({
            "type": kind, "api_app_id": APP, "token": "verification-token", "is_enterprise_install": self.options.is_org,
            "team": if self.options.is_org { Value::Null } else { team },
            "enterprise": if self.options.is_org { json!({ "id": "E0LAB", "name": "Lab" }) } else { Value::Null },
            "user": { "id": person.id, "username": person.name, "name": person.name, "team_id": person.team },
        })
    }

    fn pressed(&mut self, user: &str, channel: &str, ts: &str, press: &Press, what: &str) -> anyhow::Result<Value> {
        let (person, channel) = self.person_in(user, channel)?;
        let message = self.messages(&channel).find(|message| message.ts == ts);
        let message = message.with_context(|| format!("there is no message {ts} in {channel}"))?.clone();
        ensure!(message.only_for.as_deref().is_none_or(|only| only == user), "{user} does not see this message");
        let shown = wire(&message);
        let mut found = None;
        for (index, blocks) in [(0, &shown["blocks"])].into_iter().chain(
            shown["attachments"].as_array().into_iter().flatten().enumerate().map(|(i, a)| (i + 1, &a["blocks"])),
        ) {
            if let Some(action) = element(blocks, press, what)? {
                found = Some((index, action));
                break;
            }
        }
        let (attachment, mut action) = found.with_context(|| {
            format!("the message has no {what} {:?} with value {:?} as it stands", press.action, press.value)
        })?;
        action["action_ts"] = format!("{}.000001", sign::now()).into();
        let mut container = json!({
            "type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": message.only_for.is_some(),
        });
        if attachment > 0 {
            container["type"] = "message_attachment".into();
            container["attachment_id"] = attachment.into();
            container["is_app_unfurl"] = false.into();
        }
        if let Some(thread) = &message.thread_ts {
            container["thread_ts"] = thread.as_str().into();
        }
        let name = self.channel(&channel).map(|channel| channel.name.clone()).unwrap_or_default();
        let name = if channel.starts_with('D') { "directmessage".into() } else { name };
        let mut payload = self.interaction("block_actions", &person);
        payload["container"] = container;
        payload["trigger_id"] = self.trigger(user, Some(&channel), None).into();
        payload["channel"] = json!({ "id": channel, "name": name });
        // Ephemeral messages come without their content.
        if message.only_for.is_none() {
            payload["message"] = shown;
        }
        payload["state"] = json!({ "values": {} });
        payload["response_url"] = address(self, &channel, user, Some(ts)).into();
        payload["actions"] = json!([action]);
        Ok(payload)
    }

    fn written(
        &mut self,
        kind: &str,
        scope: &str,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        text: &str,
    ) -> anyhow::Result<Value> {
        self.granted(scope)?;
        let (person, channel) = self.person_in(user, channel)?;
        if let Some(thread) = thread {
            ensure!(self.messages(&channel).any(|message| message.ts == thread), "there is no thread {thread}");
        }
        let ts = self.new_ts();
        let words = Content { text: text.to_owned(), ..Content::default() };
        let message = Message::new(channel.clone(), ts.clone(), thread.map(str::to_owned), words);
        self.messages.push(Message { user: Some(user.to_owned()), ..message });
        let mut event = json!({
            "type": kind, "user": user, "ts": ts, "client_msg_id": self.new_id("cdef-"), "text": text,
            "team": person.team, "channel": channel, "event_ts": ts,
            "blocks": [{ "type": "rich_text", "block_id": "b0", "elements": [{ "type": "rich_text_section",
                "elements": [{ "type": "text", "text": text }] }] }],
        });
        if kind == "message" {
            event["channel_type"] = "im".into();
        }
        if let Some(thread) = thread {
            event["thread_ts"] = thread.into();
        }
        if person.is_bot {
            event["bot_id"] = format!("B{}", &person.id[1..]).into();
        }
        if person.team != TEAM {
            event["user_team"] = person.team.as_str().into();
            event["source_team"] = person.team.as_str().into();
        }
        Ok(self.event(event))
    }

    /// Wraps an event as the Events API does.
    pub(super) fn event(&mut self, event: Value) -> Value {
        json!({
            "token": "verification-token", "team_id": TEAM, "context_team_id": TEAM, "context_enterprise_id": null,
            "api_app_id": APP, "event": event, "type": "event_callback", "event_id": self.new_id("Ev"),
            "event_time": sign::now(), "event_context": "4-lab", "is_ext_shared_channel": false,
            "authorizations": [{ "enterprise_id": null, "team_id": TEAM, "user_id": BOT_USER, "is_bot": true,
                "is_enterprise_install": self.options.is_org }],
        })
    }
}

/// The element of these blocks that is meant, as `actions` tells of it.
pub(super) fn element(blocks: &Value, press: &Press, what: &str) -> anyhow::Result<Option<Value>> {
    let mut blocks = blocks.as_array().cloned().unwrap_or_default();
    name_blocks(blocks.iter_mut(), "b");
    for block in &blocks {
        let inside = block["elements"].as_array().into_iter().flatten();
        for element in inside.chain([&block["accessory"], &block["element"]]) {
            let is_button = matches!(element["type"].as_str(), Some("button" | "icon_button"));
            if element["action_id"] != press.action.as_str() || is_button != (what == "button") {
                continue;
            }
            if is_button && press.value.as_deref().is_some_and(|value| element["value"] != value) {
                continue;
            }
            if element["confirm"].is_object() && !press.is_confirmed {
                bail!("{:?} asks for a confirmation: {}", press.action, element["confirm"]["text"]["text"]);
            }
            let mut action = json!({
                "type": element["type"], "action_id": element["action_id"], "block_id": block["block_id"],
            });
            if is_button {
                for name in ["text", "value", "style", "url"] {
                    if let Some(value) = element.get(name) {
                        action[name] = value.clone();
                    }
                }
            } else {
                let value = press.value.as_deref().unwrap_or_default();
                for (name, chosen) in super::fields::chosen(element, value, &[])?.as_object().into_iter().flatten() {
                    action[name] = chosen.clone();
                }
            }
            return Ok(Some(action));
        }
    }
    Ok(None)
}
