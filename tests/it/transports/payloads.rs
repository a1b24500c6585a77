//! Slack's payloads, as its documentation and its users' reports show them, and what we make of each.

use serde_json::{Value, json};
use slack::payload::Payload;
use slack::{SlackAction, SlackRequest, payload};

fn inbound(found: Payload) -> SlackRequest {
    match found {
        Payload::Inbound(inbound) => *inbound,
        other => panic!("{other:?}"),
    }
}

fn press(action: Value) -> Value {
    json!({
        "type": "block_actions", "team": null, "enterprise": { "id": "E1" }, "is_enterprise_install": true,
        "user": { "id": "U1", "team_id": "T1" }, "trigger_id": "13.37.ab", "channel": { "id": "C1", "name": "llm" },
        "container": { "type": "message", "message_ts": "1.2", "channel_id": "C1" },
        "message": { "ts": "1.2", "thread_ts": "1.0" }, "response_url": "https://hooks.slack.com/actions/T1/1/x",
        "actions": [action],
    })
}

#[test]
fn a_command_is_the_same_by_socket_and_by_http() {
    let body = b"token=x&team_id=T1&channel_id=C1&user_id=U1&command=%2Fllm-diagnose&text=+llm%2Fchat+at+14%3A05+\
                 &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F1&trigger_id=1.2.3&api_app_id=A1";
    let form = payload::form(body);
    let by_http = inbound(payload::command(&form, "v0=signature"));
    assert_eq!(by_http, inbound(payload::envelope("slash_commands", &form, "envelope")));
    assert_eq!(by_http.what, SlackAction::Command { text: "llm/chat at 14:05".into() });
    assert_eq!((by_http.id.as_str(), by_http.who.user.as_str(), by_http.who.team.as_str()), ("1.2.3", "U1", "T1"));
    assert_eq!(by_http.place.response_url.as_deref(), Some("https://hooks.slack.com/commands/1"));
    let untriggered = json!({ "user_id": "U1", "text": "help" });
    assert_eq!(inbound(payload::command(&untriggered, "v0=signature")).id, "v0=signature");
    assert_eq!(payload::command(&json!({ "ssl_check": "1" }), ""), Payload::Nothing("ssl_check"));
}

#[test]
fn a_press_tells_what_was_chosen_whatever_the_element_and_without_a_team() {
    for (action, value) in [
        (json!({ "action_id": "a", "type": "button", "value": "01J" }), "01J"),
        (json!({ "action_id": "a", "type": "static_select", "selected_option": { "value": "1h" } }), "1h"),
        (
            json!({ "action_id": "a", "type": "external_select", "selected_option": { "value": "llm/chat" } }),
            "llm/chat",
        ),
        (json!({ "action_id": "a", "type": "overflow", "selected_option": { "value": "x|y" } }), "x|y"),
        (json!({ "action_id": "a", "type": "users_select", "selected_user": "U9" }), "U9"),
        (json!({ "action_id": "a", "type": "datepicker", "selected_date": "2026-11-21" }), "2026-11-21"),
        (json!({ "action_id": "a", "type": "datetimepicker", "selected_date_time": 1_700_000_000 }), "1700000000"),
        (
            json!({ "action_id": "a", "type": "checkboxes", "selected_options": [{ "value": "p" }, { "value": "q" }] }),
            "p,q",
        ),
        (json!({ "action_id": "a", "type": "button" }), ""),
    ] {
        let found = inbound(payload::interaction(&press(action.clone()), "e1"));
        assert_eq!(found.what, SlackAction::Press { action: "a".into(), value: value.into() }, "{action}");
        assert_eq!((found.id.as_str(), found.who.team.as_str()), ("13.37.ab", "T1"));
        let place = found.place;
        assert_eq!(
            (place.channel.as_str(), place.message.as_deref(), place.thread.as_deref()),
            ("C1", Some("1.2"), Some("1.0"))
        );
        assert!(place.response_url.is_some() && place.trigger.as_deref() == Some("13.37.ab"));
    }
}

#[test]
fn an_ephemeral_message_begins_no_thread() {
    let mut pressed = press(json!({ "action_id": "bundle", "type": "button", "value": "01J" }));
    pressed["message"] = Value::Null;
    pressed["container"]["is_ephemeral"] = json!(true);
    let place = inbound(payload::interaction(&pressed, "e1")).place;
    assert_eq!((place.channel.as_str(), place.message, place.thread), ("C1", None, None));
}

#[test]
fn a_form_tells_its_fields_by_action_and_a_menu_what_was_typed() {
    let form = json!({
        "type": "view_submission", "team": { "id": "T1" }, "user": { "id": "U1" }, "trigger_id": "9.9.9",
        "view": {
            "callback_id": "wrong_cause", "private_metadata": "01J",
            "state": { "values": {
                "b1": { "cause": { "type": "external_select", "selected_option": { "value": "kv-cache" } } },
                "b2": { "note": { "type": "plain_text_input", "value": "seen <before>" } },
                "b3": { "empty": { "type": "plain_text_input", "value": null } },
            } },
        },
        "response_urls": [{ "channel_id": "C7", "response_url": "https://hooks.slack.com/app/1" }],
    });
    let found = inbound(payload::interaction(&form, "e1"));
    let SlackAction::Submit { form, about, values } = &found.what else { panic!("{found:?}") };
    assert_eq!((form.as_str(), about.as_str()), ("wrong_cause", "01J"));
    assert_eq!(values["cause"], "kv-cache");
    assert_eq!(values["note"], "seen <before>");
    assert_eq!(values["empty"], "");
    assert_eq!((found.place.channel.as_str(), found.id.as_str()), ("C7", "9.9.9"));
    let typing = json!({
        "type": "block_suggestion", "user": { "id": "U1" }, "team": { "id": "T1" }, "action_id": "target", "value": "lla",
    });
    let found = inbound(payload::interaction(&typing, "e2"));
    assert_eq!(found.what, SlackAction::Suggest { action: "target".into(), typed: "lla".into() });
    assert_eq!(found.id, "", "the same letters are asked for again and again");
}

fn said(event: Value) -> Payload {
    let around = json!({
        "type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event,
        "authorizations": [{ "team_id": "T1", "user_id": "UBOT", "is_bot": true }],
    });
    payload::envelope("events_api", &around, "envelope")
}

#[test]
fn a_mention_arrives_without_itself_and_without_slacks_links() {
    for (text, expected) in [
        ("<@UBOT> why?", "why?"),
        ("  <@UBOT|llm-diagnose>   bundle ", "bundle"),
        ("hey <@UBOT> why &lt;now&gt; &amp; here", "hey why <now> & here"),
        ("<@U2> asks <@UBOT>", "<@U2> asks"),
        ("<@UBOT> <http://pod-1.example|pod-1.example> <https://x.y> <#C1|llm>", "pod-1.example https://x.y <#C1|llm>"),
        ("<@UBOT>", ""),
        ("<@UBOT> broken <http://", "broken <http://"),
    ] {
        let event = json!({
            "type": "app_mention", "user": "U1", "text": text, "ts": "2.0", "thread_ts": "1.0", "channel": "C1",
        });
        let found = inbound(said(event));
        assert_eq!(found.what, SlackAction::Mention { text: expected.into() }, "{text}");
        assert_eq!((found.id.as_str(), found.place.thread.as_deref()), ("Ev1", Some("1.0")));
    }
    let direct = json!({ "type": "message", "channel_type": "im", "user": "U1", "text": "health", "ts": "2.0", "channel": "D1" });
    assert_eq!(inbound(said(direct)).what, SlackAction::Mention { text: "health".into() });
}

#[test]
fn what_programs_say_and_what_is_edited_is_nothing_for_us() {
    let message = |more: Value| {
        let mut event =
            json!({ "type": "message", "channel_type": "im", "user": "U1", "text": "x", "ts": "1", "channel": "D1" });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        said(event)
    };
    assert!(matches!(message(json!({})), Payload::Inbound(_)));
    for (more, why) in [
        (json!({ "bot_id": "B1" }), "bot"),
        (json!({ "user": "UBOT" }), "bot"),
        (json!({ "bot_profile": { "id": "B1" } }), "bot"),
        (json!({ "subtype": "message_changed", "hidden": true }), "edit"),
        (json!({ "edited": { "user": "U1" } }), "edit"),
        (json!({ "channel_type": "channel" }), "not_ours"),
        (json!({ "user": null }), "malformed"),
        (json!({ "type": "reaction_added" }), "unknown"),
    ] {
        assert_eq!(message(more.clone()), Payload::Nothing(why), "{more}");
    }
}

#[test]
fn slacks_question_whether_the_address_is_ours_is_answered() {
    let asked = json!({ "type": "url_verification", "token": "x", "challenge": "3eZbrw1aB" });
    assert_eq!(payload::event(&asked, ""), Payload::Challenge("3eZbrw1aB".into()));
    assert_eq!(payload::event(&json!({ "type": "app_rate_limited" }), ""), Payload::Nothing("rate_limited"));
}

#[test]
fn any_json_at_all_is_survived_and_long_texts_are_cut() {
    let odd = [
        json!(null),
        json!([]),
        json!(1),
        json!("x"),
        json!({}),
        json!({ "type": 7 }),
        json!({ "type": "block_actions" }),
        json!({ "type": "block_actions", "user": { "id": "U" }, "actions": {} }),
        json!({ "type": "block_actions", "user": [], "actions": [null] }),
        json!({ "type": "view_submission", "user": { "id": "U" }, "view": { "state": { "values": [1, { "a": [] }] } } }),
        json!({ "type": "event_callback", "event": "x" }),
        json!({ "type": "dialog_submission", "user": { "id": "U" } }),
        json!({ "type": "shortcut", "user": { "id": "U" } }),
        json!({ "type": "message_action" }),
        json!({ "type": "view_closed", "user": { "id": "U" } }),
    ];
    for value in &odd {
        for kind in ["slash_commands", "interactive", "events_api", "hello", "", "tomorrow's"] {
            match payload::envelope(kind, value, "e") {
                Payload::Nothing(_) => {}
                Payload::Inbound(inbound) => assert_eq!(inbound.who.user, "U", "{kind} {value}"),
                Payload::Challenge(challenge) => panic!("{challenge}"),
            }
        }
    }
    let nul = inbound(payload::command(&json!({ "user_id": "U\u{0}1", "text": "a\u{0}b" }), "\u{0}e"));
    assert_eq!(
        (nul.who.user.as_str(), nul.id.as_str(), nul.what),
        ("U1", "e", SlackAction::Command { text: "ab".into() })
    );
    let flood = "ä\u{202e}".repeat(50_000);
    let long = inbound(payload::command(&json!({ "user_id": "U1", "text": flood, "trigger_id": flood }), ""));
    let SlackAction::Command { text } = &long.what else { panic!() };
    assert!(text.chars().count() == 4_000 && long.id.chars().count() <= 255);
    let long = inbound(payload::interaction(&press(json!({ "action_id": flood, "value": flood })), ""));
    let SlackAction::Press { action, value } = &long.what else { panic!() };
    assert!(action.chars().count() <= 255 && value.chars().count() == 4_000);
}
