//! The process beside a Slack that delivers, repeats, renews and breaks off as Slack does.

use std::path::Path;
use std::time::Duration;

use llm_diagnose_lab::slack::{Failure, FakeSlack, Forgery, Options};
use llm_diagnose_lab::stack::Service;
use serde_json::Value;

use crate::running::{BINARY, CHANNEL, SOON, tls};

const ACK: Duration = Duration::from_secs(3);

struct Live {
    slack: FakeSlack,
    service: Service,
}

async fn start(extra: &str, environment: &[(&str, &str)], prepare: impl FnOnce(&FakeSlack)) -> Live {
    tls();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    prepare(&slack);
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\"{extra} }}\n",
        slack.base_url
    );
    let token = slack.token.clone();
    let environment: Vec<(&str, &str)> =
        environment.iter().copied().chain([("SLACK_BOT_TOKEN", token.as_str())]).collect();
    let service =
        Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &environment, &config).await.unwrap();
    Live { slack, service }
}

/// With both connections up.
async fn by_socket() -> Live {
    let live = start("", &[("SLACK_APP_TOKEN", "xapp-lab")], |_| {}).await;
    live.connected(2).await;
    live
}

async fn by_http() -> Live {
    let live = start("", &[("SLACK_SIGNING_SECRET", "lab-signing-secret")], |_| {}).await;
    let url = format!("{}/slack", live.service.url);
    live.slack.configure(|options| options.request_url = Some(url));
    live
}

impl Live {
    async fn page(&self, path: &str) -> String {
        reqwest::get(format!("{}{path}", self.service.url)).await.unwrap().text().await.unwrap()
    }

    async fn counted(&self, kind: &str, result: &str) -> u64 {
        let series = format!("llm_diagnose_slack_inbound_total{{kind=\"{kind}\",result=\"{result}\"}} ");
        let page = self.page("/metrics").await;
        page.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until so many of that kind ended so.
    async fn until_counted(&self, kind: &str, result: &str, wanted: u64) {
        let seen = async { while self.counted(kind, result).await < wanted {} };
        if tokio::time::timeout(SOON, seen).await.is_err() {
            let page = self.page("/metrics").await;
            let counts: Vec<_> = page.lines().filter(|line| line.starts_with("llm_diagnose_slack_")).collect();
            panic!("{wanted} of {kind} {result} are missing: {counts:#?}\n{}", self.service.stderr());
        }
    }

    /// Waits for so many connections on Slack's side, and a hello on ours.
    async fn connected(&self, wanted: usize) {
        self.slack.wait_for(|state| state.connections() == wanted, SOON).await.unwrap();
        let gauge = format!("llm_diagnose_slack_connections {wanted}");
        let seen = async { while !self.page("/metrics").await.contains(&gauge) {} };
        tokio::time::timeout(SOON, seen).await.unwrap_or_else(|_| panic!("{}", self.service.stderr()));
    }

    /// The named check of `/readyz`, and the whole state.
    async fn ready(&self, name: &str) -> (bool, String, String) {
        let answer: Value = serde_json::from_str(&self.page("/readyz").await).unwrap();
        let checks = answer["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{answer:#}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (check["ok"] == true, text(&check["detail"]), text(&answer["status"]))
    }

    /// Waits until that check is as told.
    async fn until(&self, name: &str, ok: bool) {
        let seen = async { while self.ready(name).await.0 != ok {} };
        tokio::time::timeout(SOON, seen).await.unwrap_or_else(|_| panic!("{}", self.service.stderr()));
    }
}

#[tokio::test]
async fn everything_that_people_do_is_acknowledged_in_time_by_socket_and_by_http() {
    for live in [by_socket().await, by_http().await] {
        for (user, text) in [("U0ANN", "help"), ("U0GUEST", ""), ("U0ANN", "\u{202e}`*<!channel>")] {
            let ack = live.slack.command(user, CHANNEL, text).await.unwrap();
            assert!(ack.delay < ACK && ack.retries == 0, "{ack:?}");
        }
        let ack = live.slack.mention("U0BEN", CHANNEL, None, "why?").await.unwrap();
        assert!(ack.delay < ACK && ack.body.is_none(), "{ack:?}");
        assert!(live.slack.dm("U0ANN", "health").await.unwrap().delay < ACK);
        // What programs write is nobody's question.
        live.slack.mention("U0ROBOT", CHANNEL, None, "loop").await.unwrap();
        assert_eq!(live.counted("event", "bot").await, 1);
        assert_eq!(live.slack.violations(), []);
    }
}

#[tokio::test]
async fn what_slack_sends_twice_is_done_once() {
    let live = by_socket().await;
    live.slack.duplicate_next();
    live.slack.command("U0ANN", CHANNEL, "help").await.unwrap();
    live.slack.replay(0).await.unwrap();
    live.until_counted("command", "repeated", 2).await;
    let live = by_http().await;
    live.slack.command("U0ANN", CHANNEL, "help").await.unwrap();
    assert_eq!(live.slack.replay(0).await.unwrap(), Some(200));
    assert_eq!(live.counted("command", "repeated").await, 1);
}

#[tokio::test]
async fn lost_sockets_come_back_and_garbage_between_does_no_harm() {
    let live = by_socket().await;
    assert!(live.ready("slack socket").await.0);
    live.slack.drop_sockets();
    live.slack.wait_for(|state| state.count("apps.connections.open") >= 4, SOON).await.unwrap();
    live.connected(2).await;
    assert!(live.slack.command("U0ANN", CHANNEL, "help").await.unwrap().delay < ACK);
    for garbage in ["", "{", "[1]", r#"{"type":"interactive","envelope_id":"","payload":null}"#] {
        live.slack.send_raw(garbage);
    }
    assert!(live.slack.command("U0ANN", CHANNEL, "help").await.unwrap().delay < ACK);
    // The command went over one of the two, so the other one may still be reading.
    live.until_counted("frame", "malformed", 8).await;
    assert_eq!(live.slack.connections(), 2);
    assert_eq!(live.slack.violations(), []);
}

#[tokio::test]
async fn a_renewed_connection_loses_nothing_and_both_connections_are_used() {
    let ask = async |live: &Live, times: usize| {
        for number in 0..times {
            let ack = live.slack.mention("U0ANN", CHANNEL, None, &format!("why {number}?")).await.unwrap();
            assert!(ack.retries == 0 && ack.delay < ACK, "{ack:?}");
        }
    };
    let renewed = async |reason: &str| {
        let live = by_socket().await;
        assert_eq!(live.slack.disconnect(reason), 1);
        ask(&live, 8).await;
        // The old one is still open while its successor is there, which takes its turn.
        live.slack.wait_for(|state| state.connections() == 3, SOON).await.unwrap();
        ask(&live, 2).await;
        live.slack.wait_for(|state| state.connections() == 2, SOON).await.unwrap();
        let used: std::collections::BTreeSet<_> =
            live.slack.with(|state| state.deliveries().iter().map(|delivery| delivery.connection).collect());
        assert!(used.len() >= 2, "{used:?}");
        assert_eq!(live.counted("mention", "repeated").await, 0);
        assert_eq!(live.slack.violations(), []);
    };
    tokio::join!(renewed("warning"), renewed("refresh_requested"));
}

#[tokio::test]
async fn a_forged_request_is_refused_and_slacks_question_answered() {
    let live = by_http().await;
    assert!(live.slack.verify_url().await.unwrap());
    let forgeries = [
        (Forgery::WrongSecret, "forged", 1),
        (Forgery::OtherBody, "forged", 2),
        (Forgery::Stale, "stale", 1),
        (Forgery::Early, "stale", 2),
        (Forgery::Unsigned, "unsigned", 1),
    ];
    for (forgery, result, times) in forgeries {
        assert_eq!(live.slack.forge(forgery).await.unwrap(), 401, "{forgery:?}");
        assert_eq!(live.counted("command", result).await, times, "{forgery:?}");
    }
}

#[tokio::test]
async fn without_a_socket_messages_still_go_out_and_readiness_says_why_buttons_do_nothing() {
    let live = start("", &[("SLACK_APP_TOKEN", "xapp-lab")], |slack| {
        slack.fail_next("apps.connections.open", Failure::Error("token_revoked".into()), 2);
    })
    .await;
    live.until("slack socket", false).await;
    let told = async { while !live.ready("slack socket").await.1.contains("token_revoked") {} };
    tokio::time::timeout(SOON, told).await.unwrap();
    let (_, detail, state) = live.ready("slack socket").await;
    assert!(detail.contains("SLACK_APP_TOKEN") && state == "degraded", "{state}: {detail}");
    let log = live.service.stderr();
    assert!(log.contains("ERROR") && !log.contains("xapp-lab"), "{log}");

    let live = by_socket().await;
    live.slack.disconnect("link_disabled");
    live.until("slack socket", false).await;
    assert!(live.ready("slack socket").await.1.contains("Socket Mode is off"), "{}", live.service.stderr());
}

#[tokio::test]
async fn the_transport_that_is_told_is_taken_and_needs_its_secret() {
    let both = [("SLACK_APP_TOKEN", "xapp-lab"), ("SLACK_SIGNING_SECRET", "lab-signing-secret")];
    let live = start(", transport: http", &both, |_| {}).await;
    let url = format!("{}/slack", live.service.url);
    live.slack.configure(|options| options.request_url = Some(url));
    assert!(live.slack.verify_url().await.unwrap());
    assert_eq!(live.slack.connections(), 0);
    let live = start(", transport: off", &both, |_| {}).await;
    assert!(live.service.stderr().contains("Slack shows messages only"), "{}", live.service.stderr());
}
