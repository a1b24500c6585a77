//! Modals: what opens them, what is put into them, and what their answers do.

use serde_json::{Value, json};

use super::blocks::Rule;
use super::tests::{Bot, CHANNEL};
use super::tests_socket::Socket;
use super::{Options, Press};

fn plain(text: &str) -> Value {
    json!({ "type": "plain_text", "text": text })
}

fn option(value: &str) -> Value {
    json!({ "text": plain(value), "value": value })
}

fn input(action: &str, element: Value) -> Value {
    let mut element = element;
    element["action_id"] = action.into();
    json!({ "type": "input", "block_id": format!("{action}-block"), "label": plain(action), "element": element })
}

fn view(title: &str) -> Value {
    json!({
        "type": "modal", "title": plain(title), "submit": plain("Send"), "close": plain("Cancel"),
        "callback_id": "form", "private_metadata": "{}", "notify_on_close": true,
        "blocks": [
            input("why", json!({ "type": "plain_text_input", "max_length": 5 })),
            input("which", json!({ "type": "external_select", "min_query_length": 2 })),
            input("labels", json!({ "type": "checkboxes", "options": [option("a"), option("b")] })),
            { "type": "actions", "elements": [
                { "type": "button", "text": plain("More"), "action_id": "more", "value": "1" },
            ] },
        ],
    })
}

/// A workspace in which a person has pressed something; the trigger.
async fn pressed(options: Options) -> (Bot, Socket, String) {
    let bot = Bot::start(options).await;
    let mut socket = Socket::open(&bot).await;
    let trigger = trigger(&bot, &mut socket).await;
    (bot, socket, trigger)
}

async fn trigger(bot: &Bot, socket: &mut Socket) -> String {
    let (ack, envelope) = tokio::join!(bot.slack.command("U0ANN", CHANNEL, ""), socket.take(Value::Null));
    ack.unwrap();
    envelope["payload"]["trigger_id"].as_str().unwrap().to_owned()
}

async fn open(bot: &Bot, trigger: &str, title: &str) -> String {
    let answer = bot.call("views.open", json!({ "trigger_id": trigger, "view": view(title) })).await;
    assert_eq!(answer["ok"], true, "{answer}");
    answer["view"]["id"].as_str().unwrap().to_owned()
}

/// A modal that offers `x1` and `x2`.
async fn offered(bot: &Bot, socket: &mut Socket, id: &str) {
    let options = json!({ "options": [option("x1"), option("x2")] });
    let (found, envelope) = tokio::join!(bot.slack.suggest("U0ANN", id, "which", "x"), async { Value::Null });
    assert!(found.unwrap_err().to_string().contains("2 characters") && envelope.is_null());
    let (found, envelope) = tokio::join!(bot.slack.suggest("U0ANN", id, "which", "xy"), socket.take(options));
    assert_eq!(found.unwrap(), [("x1".to_owned(), "x1".to_owned()), ("x2".to_owned(), "x2".to_owned())]);
    let asked = &envelope["payload"];
    assert_eq!(
        (&asked["type"], &asked["value"], &asked["action_id"]),
        (&json!("block_suggestion"), &json!("xy"), &json!("which"))
    );
}

const FILLED: [(&str, &str); 3] = [("why", "so"), ("which", "x1"), ("labels", "a,b")];

#[tokio::test]
async fn a_trigger_opens_one_modal_and_not_for_long() {
    let (bot, mut socket, first) = pressed(Options::unlimited()).await;
    let id = open(&bot, &first, "One").await;
    let seen = bot.slack.view("U0ANN").unwrap();
    assert_eq!((&seen.id, &seen.content["title"]["text"]), (&id, &json!("One")));
    assert!(bot.slack.view("U0BEN").is_none());
    let again = json!({ "trigger_id": first, "view": view("Two") });
    assert_eq!(bot.error("views.open", again).await, "exchanged_trigger_id");
    assert_eq!(
        bot.error("views.open", json!({ "trigger_id": "1.2.3", "view": view("X") })).await,
        "invalid_trigger_id"
    );
    bot.slack.configure(|options| options.trigger_life = std::time::Duration::ZERO);
    let late = trigger(&bot, &mut socket).await;
    assert_eq!(bot.error("views.open", json!({ "trigger_id": late, "view": view("X") })).await, "expired_trigger_id");
    assert_eq!(bot.slack.violations(), []);
    bot.slack.configure(|options| options.trigger_life = std::time::Duration::from_secs(60));
    let next = trigger(&bot, &mut socket).await;
    let wrong =
        json!({ "trigger_id": next, "view": { "type": "modal", "title": plain(&"x".repeat(25)), "blocks": [] } });
    assert_eq!(bot.error("views.open", wrong).await, "invalid_arguments");
    assert!(!bot.slack.violations().is_empty());
}

#[tokio::test]
async fn a_modal_is_replaced_by_its_id_unless_somebody_else_was_faster() {
    let (bot, mut socket, first) = pressed(Options::unlimited()).await;
    let id = open(&bot, &first, "One").await;
    let hash = bot.slack.view("U0ANN").unwrap().hash;
    let update = |hash: &str, title: &str| json!({ "view_id": id, "hash": hash, "view": view(title) });
    assert_eq!(bot.call("views.update", update(&hash, "Two")).await["ok"], true);
    assert_eq!(bot.error("views.update", update(&hash, "Three")).await, "hash_conflict");
    assert_eq!(bot.error("views.update", json!({ "view_id": "V0NONE", "view": view("X") })).await, "not_found");
    assert_eq!(bot.slack.view("U0ANN").unwrap().content["title"]["text"], "Two");
    // A trigger from outside pushes nothing; one from inside does, up to three.
    let outside = trigger(&bot, &mut socket).await;
    assert_eq!(
        bot.error("views.push", json!({ "trigger_id": outside, "view": view("X") })).await,
        "invalid_trigger_id"
    );
    for (title, expected) in [("Below", None), ("Top", None), ("Much", Some("push_limit_reached"))] {
        let seen = bot.slack.view("U0ANN").unwrap().id;
        let (ack, envelope) =
            tokio::join!(bot.slack.press_in_view("U0ANN", &seen, Press::new("more")), socket.take(Value::Null));
        ack.unwrap();
        assert_eq!(envelope["payload"]["container"]["view_id"], *seen);
        let push = json!({ "trigger_id": envelope["payload"]["trigger_id"], "view": view(title) });
        match expected {
            None => assert_eq!(bot.call("views.push", push).await["view"]["previous_view_id"], *seen),
            Some(error) => assert_eq!(bot.error("views.push", push).await, error),
        }
    }
    let top = bot.slack.view("U0ANN").unwrap();
    assert_eq!((&top.content["title"]["text"], &top.root), (&json!("Top"), &id));
    let (closed, envelope) = tokio::join!(bot.slack.cancel("U0ANN", &top.id), socket.take(Value::Null));
    closed.unwrap();
    assert_eq!(envelope["payload"]["type"], "view_closed");
    assert_eq!(bot.slack.view("U0ANN").unwrap().content["title"]["text"], "Below");
    assert!(bot.slack.cancel("U0ANN", &top.id).await.is_err(), "it is closed");
}

#[tokio::test]
async fn what_slack_itself_would_not_send_is_not_sent() {
    let (bot, mut socket, first) = pressed(Options::unlimited()).await;
    let id = open(&bot, &first, "One").await;
    offered(&bot, &mut socket, &id).await;
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("which", "x1"), ("labels", "a")], "must be filled in"),
        (&[("why", "far too long"), ("which", "x1"), ("labels", "a")], "too many"),
        (&[("why", "so"), ("which", "x3"), ("labels", "a")], "offers no option"),
        (&[("why", "so"), ("which", "x1"), ("labels", "c")], "offers no option"),
        (&[("why", "so"), ("which", "x1"), ("labels", "")], "must be filled in"),
        (&[("why", "so"), ("which", "x1"), ("labels", "a"), ("no", "x")], "has no field"),
    ];
    for (values, expected) in cases {
        let error = bot.slack.submit("U0ANN", &id, values).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{values:?}: {error}");
    }
    assert!(bot.slack.submit("U0BEN", &id, &FILLED).await.unwrap_err().to_string().contains("sees no modal"));
    let (ack, envelope) = tokio::join!(bot.slack.submit("U0ANN", &id, &FILLED), socket.take(Value::Null));
    ack.unwrap();
    let values = &envelope["payload"]["view"]["state"]["values"];
    assert_eq!(values["why-block"]["why"]["value"], "so");
    assert_eq!(values["which-block"]["which"]["selected_option"]["value"], "x1");
    assert_eq!(values["labels-block"]["labels"]["selected_options"].as_array().unwrap().len(), 2);
    assert!(bot.slack.view("U0ANN").is_none(), "an empty answer closes it");
    assert_eq!(bot.slack.violations(), []);
}

#[tokio::test]
async fn an_answer_shows_errors_replaces_pushes_or_clears() {
    let (bot, mut socket, first) = pressed(Options::unlimited()).await;
    let id = open(&bot, &first, "One").await;
    offered(&bot, &mut socket, &id).await;
    let mut answer = async |view: &str, answer: Value| {
        let (ack, _) = tokio::join!(bot.slack.submit("U0ANN", view, &FILLED), socket.take(answer));
        ack.unwrap();
        bot.slack.view("U0ANN")
    };
    let seen = answer(&id, json!({ "response_action": "errors", "errors": { "why-block": "no" } })).await.unwrap();
    assert_eq!(seen.errors, json!({ "why-block": "no" }));
    let seen = answer(&id, json!({ "response_action": "update", "view": view("Two") })).await.unwrap();
    assert_eq!((&seen.id, &seen.content["title"]["text"], &seen.errors), (&id, &json!("Two"), &Value::Null));
    let seen = answer(&id, json!({ "response_action": "push", "view": view("Three") })).await.unwrap();
    assert_eq!((seen.previous.as_ref(), &seen.content["title"]["text"]), (Some(&id), &json!("Three")));
    assert_eq!(bot.slack.violations(), []);
    let below = seen.previous.unwrap();
    for wrong in [
        json!({ "response_action": "explode" }),
        json!({ "response_action": "errors", "errors": {} }),
        json!({ "response_action": "errors", "errors": { "nowhere": "x" } }),
        json!({ "response_action": "update", "view": { "type": "modal" } }),
    ] {
        let before = bot.slack.violations().len();
        assert!(answer(&below, wrong.clone()).await.is_some(), "{wrong}");
        let breaches = bot.slack.violations();
        assert!(breaches[before..].iter().any(|b| b.violation.rule == Rule::Acknowledgement), "{wrong}: {breaches:?}");
    }
    assert!(answer(&below, json!({ "response_action": "clear" })).await.is_none());
}

#[tokio::test]
async fn wrong_suggestions_are_recorded() {
    let (bot, mut socket, first) = pressed(Options::unlimited()).await;
    let id = open(&bot, &first, "One").await;
    for (action, expected) in [("why", "no external menu"), ("gone", "no element")] {
        let error = bot.slack.suggest("U0ANN", &id, action, "xyz").await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let many: Vec<Value> = (0..101).map(|i| option(&i.to_string())).collect();
    let long = json!({ "options": [{ "text": plain(&"x".repeat(76)), "value": "v" }] });
    for (answer, expected) in
        [(Value::Null, "without `options`"), (json!({ "options": many }), "101 options"), (long, "1 to 75")]
    {
        let (found, _) = tokio::join!(bot.slack.suggest("U0ANN", &id, "which", "xyz"), socket.take(answer));
        found.unwrap();
        let last = bot.slack.violations().pop().unwrap().violation;
        assert!(last.rule == Rule::Acknowledgement && last.message.contains(expected), "{last:?}");
    }
    let grouped = json!({ "option_groups": [{ "label": plain("g"), "options": [option("deep")] }] });
    let (found, _) = tokio::join!(bot.slack.suggest("U0ANN", &id, "which", "xyz"), socket.take(grouped));
    assert_eq!(found.unwrap(), [("deep".to_owned(), "deep".to_owned())]);
}

#[tokio::test]
async fn a_menu_of_a_message_takes_only_what_it_offers() {
    let (bot, mut socket, _) = pressed(Options::unlimited()).await;
    let menu = json!({ "type": "static_select", "action_id": "snooze", "placeholder": plain("How long"),
        "options": [option("1h"), option("4h")] });
    let blocks = json!([{ "type": "actions", "elements": [menu] }]);
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "t", "blocks": blocks })).await;
    let error = bot.slack.choose("U0ANN", CHANNEL, &ts, "snooze", "2h").await.unwrap_err().to_string();
    assert!(error.contains("offers no option"), "{error}");
    assert!(bot.slack.choose("U0ANN", CHANNEL, &ts, "gone", "1h").await.is_err());
    assert!(bot.slack.press("U0ANN", CHANNEL, &ts, "snooze").await.is_err(), "it is no button");
    let (ack, envelope) =
        tokio::join!(bot.slack.choose("U0ANN", CHANNEL, &ts, "snooze", "4h"), socket.take(Value::Null));
    ack.unwrap();
    assert_eq!(envelope["payload"]["actions"][0]["selected_option"]["value"], "4h");
}
