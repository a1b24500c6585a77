//! The form that selects a target from the pools in Prometheus, with a time and a playbook.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::command::{CommandError, parse};
use super::forms::{ModalMetadata, OPTION_CHARS, input, modal, plain, text_box};
use super::intent::{PICK_TARGET, TARGET_FORM};
use super::reply::Reply;
use super::wording::misuse;
use knowledge::clock;
use knowledge::playbook::{Library, Playbook};
use message::{Block, Button, Message, Tone};
use prom::Prometheus;
use render::{Phrases, cut};
use service::questions::Fleet;
use service::questions::pools::{PoolList, TargetMatch};
use slack::{Choice, RequestPlace, Slack};

/// The menus' `action_id`s.
const TARGET: &str = "target";
const PLAYBOOK: &str = "playbook";
const AT: &str = "at";
const LAST: &str = "last";
/// Slack's limit for an option's value, in characters.
const VALUE_CHARS: usize = 150;
/// Slack's limit for the options of a menu.
const CHOICES: usize = 100;
/// Timeout for the list of pools, within Slack's limit of 3 seconds.
const LIST_WITHIN: Duration = Duration::from_millis(1_800);

/// Builds the button that opens the form.
pub(super) fn button(words: &Phrases) -> Button {
    render::button(PICK_TARGET, words.text("targets-pick", &[]), "pick")
}

/// Opens the form while the trigger is valid; otherwise replies with a button that opens it.
pub(super) async fn offer(slack: &Slack, words: &Phrases, reply: &Reply<'_>) {
    let opened = match &reply.place.trigger {
        Some(trigger) => slack.open_view(trigger, &form(words, reply.place)).await.is_ok(),
        None => false,
    };
    if !opened {
        let parts = vec![Block::Buttons(vec![button(words)])];
        let headline = words.text("target-missing", &[]);
        reply.send_message(&Message { tone: Tone::Unknown, headline, parts }).await;
    }
}

fn form(words: &Phrases, place: &RequestPlace) -> Value {
    let label = |key: &str| words.text(key, &[]);
    let about = ModalMetadata {
        channel: place.channel.clone(),
        thread: place.thread.clone(),
        response_url: place.response_url.clone(),
        ..ModalMetadata::default()
    };
    let text = |id: &str, name: &str, hint: &str| {
        let mut block = input(id, &label(name), true, text_box(id, false, 40, ""));
        block["hint"] = plain(&label(hint), 2_000);
        block
    };
    let menu = |id: &str, name: &str, hint: &str, optional: bool| {
        let hint = plain(&label(hint), 150);
        let menu = json!({ "type": "external_select", "action_id": id, "min_query_length": 0, "placeholder": hint });
        input(id, &label(name), optional, menu)
    };
    let blocks = vec![
        menu(TARGET, "form-target", "form-target-hint", false),
        text(AT, "form-at", "form-at-hint"),
        text(LAST, "form-last", "form-last-hint"),
        menu(PLAYBOOK, "form-playbook", "form-playbook-hint", true),
    ];
    modal(words, &label("form-title"), Some(&label("form-submit")), TARGET_FORM, &about, blocks)
}

/// Returns the options of the form's menus; none for other menus.
pub(super) async fn suggest(fleet: &Fleet<'_>, action: &str, typed: &str) -> Vec<Choice> {
    match action {
        TARGET => targets(fleet, typed).await,
        PLAYBOOK => playbooks(fleet.library, typed),
        _ => Vec::new(),
    }
}

/// Returns the pools and pods of all Prometheus servers that match the typed text; all pools if it is empty.
async fn targets(fleet: &Fleet<'_>, typed: &str) -> Vec<Choice> {
    let clients: Vec<&Prometheus> = fleet.prometheus.iter().map(|(prometheus, _)| prometheus).collect();
    let at = clock::floor(clock::now(), Duration::from_secs(5));
    let list = PoolList::of(fleet.library, &clients, at, Instant::now() + LIST_WITHIN).await;
    let names: Vec<String> = match typed.trim() {
        "" => list.places.iter().map(|(_, place)| place.name()).collect(),
        typed => list.find(typed).iter().flatten().map(TargetMatch::name).collect(),
    };
    let mut choices: Vec<Choice> = Vec::new();
    for name in names {
        // A part of a name selects it as well, but the ellipsis is not part of the name.
        let value = cut(&name, VALUE_CHARS).trim_end_matches('…').to_owned();
        if !value.trim().is_empty() && !choices.iter().any(|choice| choice.value == value) {
            choices.push(Choice { label: cut(&middle(&name), OPTION_CHARS), value });
        }
    }
    choices.truncate(CHOICES);
    choices
}

fn playbooks(library: &Library, typed: &str) -> Vec<Choice> {
    let fitting = matching(library, typed.trim()).into_iter();
    let choices = fitting.map(|p| Choice {
        label: cut(&format!("{} · {}", p.playbook, p.title), OPTION_CHARS),
        value: p.playbook.clone(),
    });
    choices.take(CHOICES).collect()
}

/// Shortens a long name in the middle: names differ at their ends as much as at their beginnings.
fn middle(name: &str) -> String {
    let n = name.chars().count();
    if n <= OPTION_CHARS {
        return name.to_owned();
    }
    let half = OPTION_CHARS / 2;
    let end: String = name.chars().skip(n - half).collect();
    format!("{}…{end}", name.chars().take(OPTION_CHARS - half - 1).collect::<String>())
}

/// Returns the place where the form was opened, which is the place of the answer.
pub(super) fn read_place(about: &str) -> RequestPlace {
    let ModalMetadata { channel, thread, response_url, .. } = serde_json::from_str(about).unwrap_or_default();
    RequestPlace { channel, thread, response_url, ..RequestPlace::default() }
}

/// Converts the form's fields to a command line; the error holds the messages by field.
pub(super) fn command_line(
    words: &Phrases,
    values: &BTreeMap<String, String>,
) -> Result<String, BTreeMap<String, String>> {
    let value = |id: &str| values.get(id).map(|value| value.trim()).filter(|value| !value.is_empty());
    let mut errors = BTreeMap::new();
    let mut line = vec!["diagnose".to_owned()];
    match value(TARGET) {
        Some(target) => line.push(target.to_owned()),
        None => _ = errors.insert(TARGET.to_owned(), words.text("target-missing", &[])),
    }
    for id in [AT, LAST, PLAYBOOK] {
        let Some(text) = value(id) else { continue };
        let option = format!("--{id}={text}");
        let alone = shlex::try_join(["diagnose", "x", &option]).unwrap_or_default();
        match parse(&alone) {
            Ok(_) => line.push(option),
            Err(CommandError::Wrong { why, .. }) => {
                _ = errors.insert(id.to_owned(), cut(&misuse(words, &why).text(), VALUE_CHARS))
            }
            Err(_) => _ = errors.insert(id.to_owned(), words.text("command-too-long", &[])),
        }
    }
    match errors.is_empty() {
        true => Ok(shlex::try_join(line.iter().map(String::as_str)).unwrap_or_default()),
        false => Err(errors),
    }
}

/// Returns the playbooks whose id or title contains the text.
fn matching<'a>(library: &'a Library, typed: &str) -> Vec<&'a Playbook> {
    let typed = typed.to_lowercase();
    let matches = |p: &&Playbook| p.playbook.contains(&typed) || p.title.to_lowercase().contains(&typed);
    library.playbooks.values().filter(matches).collect()
}
