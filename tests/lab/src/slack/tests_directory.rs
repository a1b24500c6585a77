//! Who and what there is, what the bot may not, and how often.

use std::time::Duration;

use serde_json::{Value, json};

use super::tests::{Bot, CHANNEL};
use super::{Channel, Group, Options, Outcome, User};

#[tokio::test]
async fn a_method_without_its_scope_says_which_one_it_needs() {
    let bot =
        Bot::start(Options { scopes: vec!["chat:write".into(), "commands".into()], ..Options::unlimited() }).await;
    for (method, needed) in [
        ("users.info", "users:read"),
        ("usergroups.users.list", "usergroups:read"),
        ("conversations.info", "channels:read"),
        ("conversations.open", "im:write"),
        ("files.getUploadURLExternal", "files:write"),
        ("reactions.add", "reactions:write"),
    ] {
        let answer = bot.call(method, json!({})).await;
        let told = (&answer["error"], &answer["needed"], &answer["provided"]);
        assert_eq!(told, (&json!("missing_scope"), &json!(needed), &json!("chat:write,commands")), "{method}");
    }
    assert!(bot.slack.calls().iter().all(|call| call.outcome == Outcome::Error("missing_scope".into())));
    bot.post(json!({ "channel": CHANNEL, "text": "t" })).await;
    let refused = bot.slack.mention("U0ANN", CHANNEL, None, "hi").await.unwrap_err().to_string();
    assert!(refused.contains("app_mentions:read"), "{refused}");
}

#[tokio::test]
async fn tiers_limit_each_method_by_itself() {
    let bot = Bot::start(Options { tiers: Some([1, 2, 3, 4]), ..Options::default() }).await;
    for (method, calls) in [("usergroups.list", 2), ("conversations.list", 2), ("users.conversations", 3)] {
        for _ in 0..calls {
            assert_eq!(bot.call(method, json!({})).await["ok"], true, "{method}");
        }
        let limited = bot.request(method).bearer_auth("xoxb-lab").send().await.unwrap();
        let wait: u64 = limited.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!(limited.status() == 429 && (1..=60).contains(&wait), "{method}: {wait}");
    }
    for _ in 0..4 {
        assert_eq!(bot.error("users.info", json!({ "user": "U0NONE" })).await, "user_not_found");
    }
    assert_eq!(bot.error("users.info", json!({ "user": "U0NONE" })).await, "ratelimited");
}

#[tokio::test]
async fn a_message_may_be_edited_only_for_so_long_and_only_ones_own() {
    let bot = Bot::start(Options::unlimited()).await;
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "t" })).await;
    let update = |ts: &str| json!({ "channel": CHANNEL, "ts": ts, "text": "u" });
    bot.slack.configure(|options| options.edit_window = Some(Duration::ZERO));
    assert_eq!(bot.error("chat.update", update(&ts)).await, "edit_window_closed");
    bot.slack.configure(|options| options.edit_window = Some(Duration::from_secs(3_600)));
    assert_eq!(bot.call("chat.update", update(&ts)).await["ok"], true);
    let ephemeral = json!({ "channel": CHANNEL, "user": "U0ANN", "text": "psst" });
    let secret = bot.call("chat.postEphemeral", ephemeral).await["message_ts"].as_str().unwrap().to_owned();
    assert_eq!(bot.error("chat.update", update(&secret)).await, "cant_update_message");
    assert_eq!(bot.error("chat.postEphemeral", json!({ "channel": CHANNEL, "text": "t" })).await, "invalid_arguments");
}

#[tokio::test]
async fn a_channel_for_few_refuses_the_bot() {
    let announcements = Channel { is_restricted: true, ..Channel::new("C0NEWS", "news") };
    let bot = Bot::start(Options::unlimited().channel(announcements)).await;
    assert_eq!(bot.error("chat.postMessage", json!({ "channel": "#news", "text": "t" })).await, "restricted_action");
    assert_eq!(
        bot.error("chat.update", json!({ "channel": "C0NEWS", "ts": "1.1", "text": "t" })).await,
        "restricted_action"
    );
}

#[tokio::test]
async fn a_file_is_no_larger_than_allowed_and_a_picture_must_be_there() {
    let bot = Bot::start(Options { max_file_bytes: 10, ..Options::unlimited() }).await;
    let announce = |length: Value| json!({ "filename": "b.png", "length": length });
    assert_eq!(bot.error("files.getUploadURLExternal", announce(json!(11))).await, "file_upload_size_restricted");
    for wrong in [json!(0), json!("x"), Value::Null] {
        assert_eq!(bot.error("files.getUploadURLExternal", announce(wrong)).await, "invalid_arguments");
    }
    let announced = bot.call("files.getUploadURLExternal", announce(json!("3"))).await;
    let (url, id) = (announced["upload_url"].as_str().unwrap(), announced["file_id"].clone());
    let short = bot.http.post(url).body("ab").send().await.unwrap();
    assert_eq!(short.status(), 400, "another length than announced");
    let picture = json!({ "channel": CHANNEL, "text": "t", "blocks": [
        { "type": "image", "alt_text": "a", "slack_file": { "id": id } },
    ] });
    assert_eq!(bot.error("chat.postMessage", picture.clone()).await, "invalid_blocks");
    assert_eq!(bot.http.post(url).body("abc").send().await.unwrap().status(), 200);
    assert_eq!(bot.error("chat.postMessage", picture.clone()).await, "invalid_blocks", "it is not complete yet");
    let nowhere = json!({ "files": [{ "id": id }], "channel_id": "C0NONE" });
    assert_eq!(bot.error("files.completeUploadExternal", nowhere).await, "channel_not_found");
    assert!(bot.slack.files().iter().all(|file| !file.is_complete), "what is refused has no effect");
    assert_eq!(bot.error("files.completeUploadExternal", json!({ "files": [] })).await, "invalid_arguments");
    assert_eq!(bot.call("files.completeUploadExternal", json!({ "files": [{ "id": id }] })).await["ok"], true);
    assert!(bot.slack.messages(CHANNEL).is_empty(), "without a channel it is shared nowhere");
    bot.post(picture).await;
    assert_eq!(bot.slack.messages(CHANNEL).len(), 1);
}

#[tokio::test]
async fn users_groups_and_channels_are_as_they_were_chosen() {
    let gone = User { is_deleted: true, ..User::new("U0GONE", "gone") };
    let options = Options::unlimited().channel(Channel { is_member: false, ..Channel::new("C0OTHER", "other") });
    let bot = Bot::start(options).await;
    bot.slack.configure(|options| {
        options.users.push(gone);
        options.groups.push(Group { id: "S0NONE".into(), handle: "none".into(), users: Vec::new() });
    });
    let user = async |id: &str| bot.call("users.info", json!({ "user": id })).await["user"].clone();
    let flags = ["deleted", "is_bot", "is_restricted", "is_stranger"];
    for (id, expected) in [
        ("U0ANN", [false, false, false, false]),
        ("U0GONE", [true, false, false, false]),
        ("U0ROBOT", [false, true, false, false]),
        ("U0GUEST", [false, false, true, false]),
        ("U0STRANGER", [false, false, false, true]),
    ] {
        let user = user(id).await;
        assert_eq!(flags.map(|flag| user[flag] == true), expected, "{id}");
    }
    assert_eq!(user("U0STRANGER").await["team_id"], "T0OTHER");
    let members = async |id: &str| bot.call("usergroups.users.list", json!({ "usergroup": id })).await;
    assert_eq!(members("S0ONCALL").await["users"], json!(["U0ANN"]));
    assert_eq!(members("S0NONE").await["users"], json!([]));
    assert_eq!(members("S0GONE").await["error"], "no_such_subteam");
    let groups = bot.call("usergroups.list", json!({})).await;
    assert_eq!(
        (&groups["usergroups"][0]["handle"], &groups["usergroups"][0]["user_count"]),
        (&json!("oncall"), &json!(1))
    );
    let names =
        |answer: &Value| answer["channels"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&bot.call("conversations.list", json!({})).await), ["llm-alerts", "other"]);
    assert_eq!(names(&bot.call("users.conversations", json!({})).await), ["llm-alerts"]);
    assert_eq!(bot.error("conversations.info", json!({ "channel": "#llm-alerts" })).await, "channel_not_found");
    assert_eq!(bot.error("conversations.open", json!({ "users": "U0NONE" })).await, "user_not_found");
}

#[tokio::test]
async fn a_direct_message_is_written_answered_edited_and_linked_to() {
    let bot = Bot::start(Options::unlimited()).await;
    let opened = bot.call("conversations.open", json!({ "users": "U0ANN" })).await;
    let direct = opened["channel"]["id"].as_str().unwrap().to_owned();
    assert_eq!(direct, "D0ANN");
    assert_eq!(
        bot.call("chat.postMessage", json!({ "channel": "U0ANN", "text": "by the user's id" })).await["channel"],
        *direct
    );
    let ts = bot.post(json!({ "channel": direct, "text": "by the channel's" })).await;
    let edited = bot.call("chat.update", json!({ "channel": direct, "ts": ts, "text": "edited" })).await;
    assert_eq!(edited["ok"], true, "{edited}");
    let info = bot.call("conversations.info", json!({ "channel": direct })).await;
    assert_eq!(info["channel"]["is_im"], true, "{info}");
    let link = bot.call("chat.getPermalink", json!({ "channel": direct, "message_ts": ts })).await;
    assert!(link["permalink"].as_str().is_some_and(|link| link.contains("/archives/D0ANN/p")), "{link}");
    assert_eq!(bot.error("chat.postMessage", json!({ "channel": "D0NONE", "text": "t" })).await, "channel_not_found");
    assert_eq!(bot.call("chat.delete", json!({ "channel": direct, "ts": ts })).await["ok"], true);
}

#[tokio::test]
async fn a_reaction_stands_once_and_a_link_leads_to_what_is_there() {
    let bot = Bot::start(Options::unlimited()).await;
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "t" })).await;
    let react = |ts: &str| json!({ "channel": CHANNEL, "timestamp": ts, "name": "eyes" });
    assert_eq!(bot.call("reactions.add", react(&ts)).await["ok"], true);
    assert_eq!(bot.error("reactions.add", react(&ts)).await, "already_reacted");
    assert_eq!(bot.error("reactions.add", react("1.1")).await, "message_not_found");
    let link = |ts: &str| json!({ "channel": CHANNEL, "message_ts": ts });
    let permalink = bot.call("chat.getPermalink", link(&ts)).await["permalink"].clone();
    assert_eq!(permalink, format!("https://lab.slack.com/archives/{CHANNEL}/p{}", ts.replace('.', "")));
    assert_eq!(bot.error("chat.getPermalink", link("1.1")).await, "message_not_found");
}
