use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Channel, Failure, FakeSlack, Options, Outcome};

pub(super) const CHANNEL: &str = "C0LLMALERTS";
pub(super) const SOON: Duration = Duration::from_secs(5);

pub(super) struct Bot {
    pub(super) slack: FakeSlack,
    pub(super) http: reqwest::Client,
}

impl Bot {
    pub(super) async fn start(options: Options) -> Self {
        Self { slack: FakeSlack::start(options).await.unwrap(), http: crate::stack::http().unwrap() }
    }

    pub(super) fn request(&self, method: &str) -> reqwest::RequestBuilder {
        self.http.post(format!("{}/{method}", self.slack.base_url))
    }

    pub(super) async fn call(&self, method: &str, args: Value) -> Value {
        self.request(method).bearer_auth(&self.slack.token).json(&args).send().await.unwrap().json().await.unwrap()
    }

    pub(super) async fn post(&self, args: Value) -> String {
        let answer = self.call("chat.postMessage", args).await;
        assert_eq!(answer["ok"], true, "{answer}");
        answer["ts"].as_str().unwrap().into()
    }

    pub(super) async fn error(&self, method: &str, args: Value) -> String {
        let answer = self.call(method, args).await;
        assert_eq!(answer["ok"], false, "{answer}");
        answer["error"].as_str().unwrap().into()
    }
}

pub(super) fn block(text: &str) -> Value {
    json!([{ "type": "section", "text": { "type": "mrkdwn", "text": text } }])
}

#[tokio::test]
async fn only_the_right_token_is_let_in() {
    let bot = Bot::start(Options::default()).await;
    let answer: Value = bot.request("auth.test").send().await.unwrap().json().await.unwrap();
    assert_eq!(answer, json!({ "ok": false, "error": "not_authed" }));
    let answer: Value = bot.request("auth.test").bearer_auth("stale").send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["error"], "invalid_auth");
    let answer = bot.request("auth.test").bearer_auth("xoxb-lab").send().await.unwrap();
    assert!(answer.headers()["x-oauth-scopes"].to_str().unwrap().contains("chat:write"));
    assert_eq!(answer.json::<Value>().await.unwrap()["ok"], true);
}

#[tokio::test]
async fn a_form_is_as_good_as_json_and_the_token_is_not_kept() {
    let bot = Bot::start(Options::default()).await;
    let form = [("token", "xoxb-lab"), ("channel", "#llm-alerts"), ("blocks", &block("hi").to_string()), ("text", "t")];
    let answer: Value = bot.request("chat.postMessage").form(&form).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["channel"], CHANNEL, "{answer}");
    assert_eq!(bot.slack.transcript("llm-alerts"), "hi");
    assert_eq!(bot.slack.calls()[0].args.get("token"), None);
    let answer: Value = bot
        .request("chat.postMessage")
        .body("{")
        .header("content-type", "application/json")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(answer["error"], "invalid_json");
}

#[tokio::test]
async fn a_channel_refuses_as_slack_would() {
    let archived = Channel { is_archived: true, ..Channel::new("C0OLD", "old") };
    let foreign = Channel { is_member: false, ..Channel::new("C0NEW", "new") };
    let bot = Bot::start(Options::default().channel(archived).channel(foreign)).await;
    for (channel, error) in [("C0NONE", "channel_not_found"), ("old", "is_archived"), ("#new", "not_in_channel")] {
        assert_eq!(bot.error("chat.postMessage", json!({ "channel": channel, "text": "t" })).await, error);
    }
    let info = bot.call("conversations.info", json!({ "channel": "C0NEW" })).await;
    assert_eq!(info["channel"]["is_member"], false);
    assert_eq!(bot.error("chat.postMessage", json!({ "channel": CHANNEL })).await, "no_text");
    assert_eq!(bot.error("chat.explode", json!({})).await, "unknown_method");
}

#[tokio::test]
async fn a_message_that_breaks_the_rules_is_refused_and_recorded() {
    let bot = Bot::start(Options::unlimited()).await;
    let answer =
        bot.call("chat.postMessage", json!({ "channel": CHANNEL, "text": "t", "blocks": [{ "type": "no" }] })).await;
    assert_eq!(answer["error"], "invalid_blocks");
    assert!(answer["response_metadata"]["messages"][0].as_str().unwrap().contains("[json-pointer:/blocks/0/type]"));
    let attached = json!({ "channel": CHANNEL, "text": "t", "attachments": [{ "blocks": [{ "type": "no" }] }] });
    assert_eq!(bot.error("chat.postMessage", attached).await, "invalid_attachments");
    let long = json!({ "channel": CHANNEL, "text": "t", "blocks": vec![block(&"x".repeat(2900))[0].clone(); 5] });
    assert_eq!(bot.error("chat.postMessage", long).await, "msg_blocks_too_long");
    assert_eq!(bot.slack.violations().len(), 3);
    assert!(bot.slack.messages(CHANNEL).is_empty());
}

#[tokio::test]
async fn mentions_are_recorded_unless_they_are_wanted() {
    let bot = Bot::start(Options { allowed_mentions: vec!["!here".into()], ..Options::default() }).await;
    bot.post(json!({ "channel": CHANNEL, "text": "<!here> down" })).await;
    assert_eq!(bot.slack.violations(), []);
    bot.post(json!({ "channel": CHANNEL, "text": "<!channel> down" })).await;
    assert_eq!(bot.slack.violations()[0].violation.message, "notifies people: `!channel`");
}

#[tokio::test]
async fn an_edit_keeps_the_place_and_remembers_what_was() {
    let bot = Bot::start(Options::default()).await;
    let attachments = json!([{ "color": "danger", "blocks": block("firing") }]);
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "t1", "attachments": attachments })).await;
    bot.call("chat.update", json!({ "channel": CHANNEL, "ts": ts, "text": "t2" })).await;
    let message = &bot.slack.messages(CHANNEL)[0];
    assert_eq!((message.edits(), message.content.text.as_str(), message.history[0].text.as_str()), (1, "t2", "t1"));
    assert_eq!(message.content.attachments, *attachments.as_array().unwrap(), "attachments stay until they are named");
    let gone = json!([{ "color": "good", "blocks": block("resolved") }]);
    bot.call("chat.update", json!({ "channel": CHANNEL, "ts": ts, "text": "t3", "attachments": gone })).await;
    assert_eq!(bot.slack.transcript(CHANNEL), "t3\ngreen | resolved\n(edited 2×)");
}

#[tokio::test]
async fn an_edit_that_cannot_be_is_refused() {
    let bot = Bot::start(Options::unlimited()).await;
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "x".repeat(4001) })).await;
    let update = |ts: &str, text: &str| json!({ "channel": CHANNEL, "ts": ts, "text": text });
    assert_eq!(bot.error("chat.update", update(&ts, &"x".repeat(4001))).await, "msg_too_long");
    assert_eq!(bot.error("chat.update", update("1.1", "t")).await, "message_not_found");
    let by_name = json!({ "channel": "#llm-alerts", "ts": ts, "text": "t" });
    assert_eq!(bot.error("chat.update", by_name).await, "channel_not_found");
    assert!(bot.slack.delete("#llm-alerts", &ts));
    assert_eq!(bot.error("chat.update", update(&ts, "t")).await, "message_not_found");
    assert!(!bot.slack.delete("#llm-alerts", &ts));
}

#[tokio::test]
async fn replies_go_to_threads_that_exist() {
    let bot = Bot::start(Options::unlimited()).await;
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "parent" })).await;
    let reply = |thread_ts: Value| json!({ "channel": CHANNEL, "text": "reply", "thread_ts": thread_ts });
    bot.post(reply(json!(ts))).await;
    assert_eq!(bot.error("chat.postMessage", reply(json!("1.2"))).await, "thread_not_found");
    assert_eq!(bot.error("chat.postMessage", reply(json!(1.2))).await, "invalid_thread_ts");
    bot.call("chat.delete", json!({ "channel": CHANNEL, "ts": ts })).await;
    assert_eq!(bot.slack.transcript(CHANNEL), "(deleted)\n  ↳ reply");
}

#[tokio::test]
async fn posting_too_fast_is_answered_429_with_a_delay_per_channel() {
    let bot = Bot::start(Options::default().channel(Channel::new("C0QUIET", "quiet"))).await;
    for _ in 0..5 {
        bot.post(json!({ "channel": CHANNEL, "text": "t" })).await;
    }
    let args = json!({ "channel": "#llm-alerts", "text": "t" });
    let answer = bot.request("chat.postMessage").bearer_auth("xoxb-lab").json(&args).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(answer.json::<Value>().await.unwrap(), json!({ "ok": false, "error": "ratelimited" }));
    assert_eq!(bot.slack.calls()[5].outcome, Outcome::RateLimited(1));
    bot.post(json!({ "channel": "#quiet", "text": "t" })).await;
}

#[tokio::test]
async fn edits_share_fifty_a_minute_over_the_workspace() {
    let bot = Bot::start(Options::default()).await;
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "t" })).await;
    let args = json!({ "channel": CHANNEL, "ts": ts, "text": "t" });
    for _ in 0..50 {
        assert_eq!(bot.call("chat.update", args.clone()).await["ok"], true);
    }
    assert_eq!(bot.error("chat.update", args).await, "ratelimited");
}

#[tokio::test]
async fn planned_failures_come_in_order_and_then_end() {
    let bot = Bot::start(Options::unlimited()).await;
    bot.slack.fail_next("chat.postMessage", Failure::Error("fatal_error".into()), 2);
    bot.slack.fail_next("*", Failure::Status(503), 1);
    let args = json!({ "channel": CHANNEL, "text": "t" });
    for _ in 0..2 {
        assert_eq!(bot.error("chat.postMessage", args.clone()).await, "fatal_error");
    }
    let answer = bot.request("auth.test").bearer_auth("xoxb-lab").send().await.unwrap();
    assert_eq!(answer.status(), 503);
    bot.post(args).await;
}

#[tokio::test]
async fn a_hanging_call_has_no_effect_and_a_lost_reply_has() {
    let bot = Bot::start(Options::unlimited()).await;
    bot.slack.fail_next("chat.postMessage", Failure::Hang, 1);
    bot.slack.fail_next("chat.postMessage", Failure::LostReply, 1);
    for expected in [0, 1] {
        let request = bot.request("chat.postMessage").bearer_auth("xoxb-lab");
        let request = request.json(&json!({ "channel": CHANNEL, "text": "t" })).timeout(Duration::from_millis(200));
        assert!(request.send().await.unwrap_err().is_timeout());
        assert_eq!(bot.slack.messages(CHANNEL).len(), expected);
    }
    let outcomes: Vec<_> = bot.slack.calls().into_iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [Outcome::Pending, Outcome::LostReply]);
}

#[tokio::test]
async fn waiting_ends_with_the_event_or_tells_what_there_was() {
    let bot = Bot::start(Options { latency: Duration::from_millis(100), ..Options::default() }).await;
    let started = Instant::now();
    let seen = bot.slack.wait_for(|state| state.count("chat.postMessage") == 1, SOON);
    let (seen, _) = tokio::join!(seen, bot.post(json!({ "channel": CHANNEL, "text": "here I am" })));
    seen.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(100), "the latency holds");
    let error = bot.slack.wait_for(|_| false, Duration::from_millis(10)).await.unwrap_err().to_string();
    assert!(error.contains("chat.postMessage: Ok") && error.contains("here I am"), "{error}");
}

#[tokio::test]
async fn a_file_is_announced_sent_and_shared() {
    let bot = Bot::start(Options::default()).await;
    let announced = bot.call("files.getUploadURLExternal", json!({ "filename": "b.tgz", "length": 3 })).await;
    let share = json!({ "files": [{ "id": announced["file_id"], "title": "Bundle" }], "channel_id": CHANNEL, "initial_comment": "for you" });
    assert_eq!(bot.error("files.completeUploadExternal", share.clone()).await, "file_not_found");
    let sent = bot.http.post(announced["upload_url"].as_str().unwrap()).body("abc").send().await.unwrap();
    assert_eq!(sent.text().await.unwrap(), "OK - 3");
    assert_eq!(bot.call("files.completeUploadExternal", share).await["ok"], true);
    assert_eq!(bot.slack.files()[0].bytes.as_deref(), Some(b"abc".as_slice()));
    assert_eq!(bot.slack.transcript(CHANNEL), "for you\n[file: Bundle]");
}

#[tokio::test]
async fn the_transcript_shows_what_a_person_reads() {
    let bot = Bot::start(Options::unlimited()).await;
    let plain = |text: &str| json!({ "type": "plain_text", "text": text });
    let mrkdwn = |text: &str| json!({ "type": "mrkdwn", "text": text });
    let blocks = json!([
        { "type": "header", "text": plain("KV cache is exhausted") },
        { "type": "section", "text": mrkdwn("*Why*\n&lt;pod&gt; ← <https://g/d|prompts doubled>"), "fields": [mrkdwn("now 0.97")] },
        { "type": "context", "elements": [mrkdwn("2 of 4 replicas"), plain("prod")] },
        { "type": "rich_text", "elements": [{ "type": "rich_text_preformatted", "elements": [{ "type": "text", "text": "a\nb" }] }] },
        { "type": "table", "rows": [[{ "type": "raw_text", "text": "pod" }, { "type": "raw_text", "text": "usage" }]] },
        { "type": "actions", "elements": [
            { "type": "button", "text": plain("Silence 1h"), "action_id": "s" },
            { "type": "static_select", "placeholder": plain("Feedback"), "options": [{ "text": plain("y"), "value": "y" }] },
        ] },
    ]);
    let ts = bot.post(json!({ "channel": CHANNEL, "text": "KV cache exhausted in prod", "attachments": [{ "color": "#E01E5A", "blocks": blocks }] })).await;
    bot.post(json!({ "channel": CHANNEL, "text": "line 1\nline 2", "thread_ts": ts })).await;
    bot.call("chat.postEphemeral", json!({ "channel": CHANNEL, "user": "U1", "text": "psst" })).await;
    let expected = "\
KV cache exhausted in prod
red | # KV cache is exhausted
red | *Why*
red | <pod> ← prompts doubled↗
red | · now 0.97
red | ~ 2 of 4 replicas ~ prod
red |     a
red |     b
red | pod | usage
red | [Silence 1h] [Feedback ▾]
  ↳ line 1
    line 2

(only visible to U1)
psst";
    assert_eq!(bot.slack.transcript(CHANNEL), expected);
    assert_eq!(bot.slack.violations(), []);
}
