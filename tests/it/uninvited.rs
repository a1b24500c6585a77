//! A channel that does not take messages: what belongs there waits, is shown elsewhere, and everybody hears of it once.

use std::path::Path;
use std::time::Duration;

use llm_diagnose_lab::slack::{Channel, FakeSlack, Options, State};
use llm_diagnose_lab::stack::Service;
use serde_json::Value;

use crate::running::{BINARY, CHANNEL, SOON, group, tls, whole};

const CRITICAL: &str = "#critical";

struct Uninvited {
    slack: FakeSlack,
    service: Service,
}

impl Uninvited {
    /// A service with Socket Mode whose bot is in none of `away`.
    async fn start(away: &[&str]) -> Self {
        tls();
        let mut options = Options::unlimited().channel(Channel::new("C0CRIT", "critical"));
        let away = |channel: &Channel| away.iter().any(|name| name.trim_start_matches('#') == channel.name);
        options.channels.iter_mut().for_each(|channel| channel.is_member = !away(channel));
        let slack = FakeSlack::start(options).await.unwrap();
        let config = format!(
            "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
             slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", act: {{ users: [U0BEN] }}, escalate: S0ONCALL, \
             routes: [{{ labels: {{ severity: page }}, channel: \"{CRITICAL}\" }}] }}\n",
            slack.base_url
        );
        let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
        let service =
            Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config).await.unwrap();
        slack.wait_for(|state| state.connections() == 2, SOON).await.unwrap();
        Self { slack, service }
    }

    async fn page(&self, path: &str) -> String {
        reqwest::get(format!("{}{path}", self.service.url)).await.unwrap().text().await.unwrap()
    }

    async fn send(&self, name: &str, status: &str) {
        let url = format!("{}/webhook/alertmanager", self.service.url);
        let body = group(name, status, "page", &["a"]);
        reqwest::Client::new().post(url).json(&body).send().await.unwrap().error_for_status().unwrap();
    }

    async fn until(&self, met: impl FnMut(&State) -> bool) {
        let seen = self.slack.wait_for(met, SOON).await;
        seen.unwrap_or_else(|error| panic!("{error}\n{}", self.service.stderr()));
    }

    /// Waits until a page says something.
    async fn page_says(&self, path: &str, wanted: &str) {
        let seen = async { while !self.page(path).await.contains(wanted) {} };
        let seen = tokio::time::timeout(SOON, seen).await;
        assert!(seen.is_ok(), "{wanted} is not in {}", self.page(path).await);
    }

    async fn check(&self, name: &str) -> (bool, String) {
        let answer: Value = serde_json::from_str(&self.page("/readyz").await).unwrap();
        let checks = answer["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{answer:#}"));
        (check["ok"] == true, check["detail"].as_str().unwrap_or_default().to_owned())
    }
}

/// How many messages of a channel, threads left out, say this.
fn shown(state: &State, channel: &str, wanted: &str) -> usize {
    state.messages(channel).filter(|m| m.thread_ts.is_none() && whole(m).contains(wanted)).count()
}

#[tokio::test]
async fn what_a_channel_refuses_is_shown_in_the_default_channel_and_there_once_the_app_is_invited() {
    let run = Uninvited::start(&[CRITICAL]).await;
    run.send("LLMHighTTFT", "firing").await;
    run.send("LLMHighITL", "firing").await;
    run.until(|s| shown(s, CHANNEL, "CRITICAL") == 2).await;

    let (ok, detail) = run.check("slack channel #critical").await;
    assert!(!ok && detail.contains("not_in_channel") && detail.contains("/invite @llm-diagnose"), "{detail}");
    assert_eq!(run.check("slack channel #llm-alerts").await, (true, String::new()));
    run.page_says("/metrics", "slack_channel_refused{channel=\"#critical\",code=\"not_in_channel\"} 1").await;
    run.until(|s| shown(s, "D0ANN", "cannot post") == 1 && shown(s, "D0BEN", "cannot post") == 1).await;
    let direct = run.slack.with(|s| whole(s.messages("D0BEN").next().unwrap()));
    for said in ["#critical", "not_in_channel", "#llm-alerts", "/invite @llm-diagnose"] {
        assert!(direct.contains(said), "{said}: {direct}");
    }
    // The doctor in Slack sees it as the one at the command line does.
    run.slack.command("U0ANN", CHANNEL, "doctor").await.unwrap();
    run.until(|s| {
        s.messages(CHANNEL)
            .any(|m| whole(m).contains("slack channel #critical") && whole(m).contains("not in the channel"))
    })
    .await;

    run.slack.invite("U0ANN", CRITICAL).await.unwrap();
    run.until(|s| shown(s, CRITICAL, "CRITICAL") == 2).await;
    assert!(run.check("slack channel #critical").await.0);
    for name in ["LLMHighTTFT", "LLMHighITL"] {
        run.send(name, "resolved").await;
    }
    run.until(|s| shown(s, CRITICAL, "RESOLVED") == 2 && shown(s, CHANNEL, "RESOLVED") == 2).await;
    let told = run.slack.with(|s| shown(s, "D0ANN", "cannot post") + shown(s, "D0BEN", "cannot post"));
    assert_eq!(told, 2, "once for a problem, not for an incident");
}

#[tokio::test]
async fn a_default_channel_without_the_app_gives_nothing_up() {
    let run = Uninvited::start(&[CRITICAL, CHANNEL]).await;
    run.send("LLMHighTTFT", "firing").await;
    run.page_says("/readyz", "slack channel #llm-alerts\",\"ok\":false").await;
    assert!(run.page("/readyz").await.contains("degraded"));
    run.until(|s| shown(s, "D0BEN", "shown nowhere until") == 1).await;
    run.slack.invite("U0ANN", CHANNEL).await.unwrap();
    run.until(|s| shown(s, CHANNEL, "CRITICAL") == 1).await;
    assert!(!run.service.stderr().contains("gave up"), "{}", run.service.stderr());
}

#[tokio::test]
async fn an_invitation_that_nobody_tells_of_is_noticed_by_trying_again() {
    let run = Uninvited::start(&[CRITICAL]).await;
    run.send("LLMHighTTFT", "firing").await;
    run.until(|s| shown(s, CHANNEL, "CRITICAL") == 1).await;
    run.slack.configure(|options| options.channels.iter_mut().for_each(|channel| channel.is_member = true));
    let posted = run.slack.wait_for(|s| shown(s, CRITICAL, "CRITICAL") == 1, Duration::from_secs(60)).await;
    posted.unwrap_or_else(|error| panic!("{error}\n{}", run.service.stderr()));
}

#[tokio::test]
async fn an_answer_to_a_mention_survives_a_429_a_500_and_a_reset_and_is_given_once() {
    use llm_diagnose_lab::slack::Failure;
    let run = Uninvited::start(&[]).await;
    for failure in [Failure::RateLimited(1), Failure::Status(500), Failure::Reset] {
        run.slack.fail_next("chat.postMessage", failure.clone(), 1);
        let before = run.slack.messages(CHANNEL).len();
        run.slack.mention("U0BEN", CHANNEL, None, "help").await.unwrap();
        let answers = |s: &State| s.messages(CHANNEL).skip(before).filter(|m| m.user.is_none()).count();
        run.until(|s| {
            answers(s) > 0
                && s.calls().last().is_some_and(|call| {
                    call.method != "chat.postMessage" || call.outcome == llm_diagnose_lab::slack::Outcome::Ok
                })
        })
        .await;
        assert_eq!(run.slack.with(answers), 1, "{failure:?}");
    }
    run.slack.fail_next("response_url", Failure::Status(500), 1);
    run.slack.command("U0ANN", CHANNEL, "help").await.unwrap();
    run.until(|s| s.messages(CHANNEL).any(|m| m.only_for.as_deref() == Some("U0ANN"))).await;
}
