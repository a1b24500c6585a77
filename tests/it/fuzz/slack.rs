//! Slack's payloads: a request of somebody, with bounded texts, or a reason why there is none.

use chat::command;
use proptest::prelude::*;
use serde_json::Value;
use slack::payload::Payload;
use slack::{SlackAction, SlackRequest, payload};

use super::mutation::{mutated_json, mutated_text};
use super::{corpus, holds};

const KINDS: [&str; 4] = ["slash_commands", "interactive", "events_api", "hello"];

/// Every text of a request.
fn texts(request: &SlackRequest) -> Vec<&str> {
    let place = &request.place;
    let mut all = vec![&request.id, &request.who.user, &request.who.team, &place.channel];
    all.extend([&place.thread, &place.message, &place.response_url, &place.trigger].into_iter().flatten());
    match &request.what {
        SlackAction::Command { text } | SlackAction::Mention { text } => all.push(text),
        SlackAction::Press { action, value } => all.extend([action, value]),
        SlackAction::Submit { form, about, values } => {
            all.extend([form, about].into_iter().chain(values.keys()).chain(values.values()));
        }
        SlackAction::Suggest { action, typed } => all.extend([action, typed]),
        SlackAction::Joined | SlackAction::Home => {}
    }
    all.into_iter().map(String::as_str).collect()
}

fn is_of_somebody_and_bounded(found: &Payload) -> Result<(), TestCaseError> {
    match found {
        Payload::Inbound(request) => {
            prop_assert!(!request.who.user.is_empty(), "nobody: {:?}", request);
            for text in texts(request) {
                prop_assert!(text.chars().count() <= 4_000 && !text.contains('\0'), "{:?}", text);
            }
        }
        Payload::Challenge(text) => prop_assert!(text.chars().count() <= 4_000),
        Payload::Nothing(why) => prop_assert!(!why.is_empty()),
    }
    Ok(())
}

#[test]
fn a_payload_is_a_request_of_somebody_with_bounded_texts_or_is_ignored_for_a_reason() {
    let kind = proptest::sample::select(KINDS.to_vec());
    holds((kind, mutated_json(corpus("fuzz/slack", "json")), any::<String>()), |(kind, value, id)| {
        is_of_somebody_and_bounded(&payload::envelope(kind, &value, &id))?;
        // The same comes by HTTP as the field of a form.
        let text = value.to_string();
        let escaped: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let form = payload::form(format!("payload={escaped}").as_bytes());
        prop_assert_eq!(form["payload"].as_str(), Some(&*text));
        Ok(())
    });
}

#[test]
fn a_request_without_a_user_is_ignored_whatever_else_it_has() {
    holds(mutated_json(corpus("fuzz/slack", "json")), |mut value| {
        for place in ["/user", "/user_id", "/event/user"] {
            if let Some(user) = value.pointer_mut(place) {
                *user = Value::Null;
            }
        }
        for kind in KINDS {
            let found = payload::envelope(kind, &value, "id");
            prop_assert!(matches!(found, Payload::Nothing(_)), "{:?}", found);
        }
        Ok(())
    });
}

#[test]
fn mutated_forms_and_command_lines_are_read_or_refused_without_a_panic() {
    let lines = [
        "diagnose llm/chat at 14:05",
        "silence 4F2A 2h alertname=A \"known problem\"",
        "explain log 'CUDA error'",
        "incidents --all",
        "why?",
        "capacity llm --gpu h100",
        "user_id=U1&text=health&trigger_id=1",
        "bundle 01KAJ8Z3S1",
    ];
    let tokens = &[
        "\"", "'", "\\", "--", "-h", "&", "=", "%00", "%", "+", "<@U1>", "&lt;", "“", "\u{202e}", "\0", "\n", "?", " ",
    ];
    let corpus = lines.map(|line| line.as_bytes().to_vec()).to_vec();
    holds(mutated_text(corpus, tokens), |text| {
        is_of_somebody_and_bounded(&payload::command(&payload::form(text.as_bytes()), "id"))?;
        // A line is a command or an error; both can be shown.
        let shown = format!("{:?}", command::parse(&text));
        prop_assert!(shown.chars().count() < 40_000, "{}", shown);
        Ok(())
    });
}
