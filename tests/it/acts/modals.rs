//! Modals as a person sees them: pressed, filled in and sent over Socket Mode.

use std::path::Path;

use llm_diagnose_lab::slack::{FakeSlack, Options, State, View};
use llm_diagnose_lab::stack::{Alertmanager, Service};
use serde_json::json;

use crate::running::{BINARY, CHANNEL, SOON, group, label_options, tls, whole};

#[tokio::test]
async fn silence_shows_its_matchers_before_and_evidence_opens() {
    tls();
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let slack =
        FakeSlack::start(Options { allowed_mentions: vec!["@U0ANN".into()], ..Options::unlimited() }).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", act: {{ groups: [S0ONCALL] }} }}\n\
         alertmanagers: [{{ url: \"{}\" }}]\n",
        slack.base_url, alertmanager.url
    );
    let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
    let service =
        Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config).await.unwrap();
    let body = group("LLMHighTTFT", "firing", "warning", &["a", "b"]);
    let url = format!("{}/webhook/alertmanager", service.url);
    reqwest::Client::new().post(url).json(&body).send().await.unwrap().error_for_status().unwrap();
    slack.wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("\"silence\"")), SOON).await.unwrap();
    let ts = slack.messages(CHANNEL)[0].ts.clone();

    slack.press("U0ANN", CHANNEL, &ts, "silence").await.unwrap();
    let view = opened(&slack, "U0ANN").await;
    let shown = view.content.to_string();
    for matcher in ["alertname=", "namespace=", "severity="] {
        assert!(shown.contains(matcher), "{shown}");
    }
    assert!(!shown.contains("pod="), "the alerts do not agree on it: {shown}");
    let labels = label_options(&view.content, &["alertname", "namespace"]);
    let ack = slack.submit("U0ANN", &view.id, &[("labels", &labels), ("duration", "4h")]).await.unwrap();
    assert_eq!(ack.body, None, "{ack:?}");
    slack.wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("by <@U0ANN> until")), SOON).await.unwrap();
    let silence = alertmanager.silences().await.unwrap()[0].clone();
    let names: Vec<&str> =
        silence["matchers"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!((silence["status"]["state"].clone(), names), (json!("active"), vec!["alertname", "namespace"]));

    // The button comes with the diagnosis, which may be later.
    slack.wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("\"evidence\"")), SOON).await.unwrap();
    slack.press("U0ANN", CHANNEL, &ts, "evidence").await.unwrap();
    let evidence = opened(&slack, "U0ANN").await;
    assert_eq!(evidence.content["callback_id"], "evidence");
    slack.cancel("U0ANN", &evidence.id).await.unwrap();

    // A duration that is typed stands in the form.
    let message = whole(&slack.messages(CHANNEL)[0]);
    let id = message.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| word.len() == 26).unwrap();
    for (typed, option, custom) in [("4h", "4h", None), ("90m", "custom", Some("1h 30m"))] {
        slack.command("U0ANN", CHANNEL, &format!("silence {id} {typed}")).await.unwrap();
        let view = opened(&slack, "U0ANN").await;
        let of = |action: &str| {
            let blocks = view.content["blocks"].as_array().unwrap().iter();
            blocks.map(|block| &block["element"]).find(|element| element["action_id"] == action).unwrap()
        };
        assert_eq!(of("duration")["initial_option"]["value"], option);
        assert_eq!(of("custom")["initial_value"].as_str(), custom);
        slack.cancel("U0ANN", &view.id).await.unwrap();
    }
    assert_eq!(slack.violations(), []);
}

#[tokio::test]
async fn the_home_lists_open_incidents_and_ones_own_and_refuses_strangers() {
    tls();
    let options = Options { allowed_mentions: vec!["@U0ANN".into()], ..Options::unlimited() };
    let slack = FakeSlack::start(options).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", act: {{ groups: [S0ONCALL] }} }}\n",
        slack.base_url
    );
    let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
    let service =
        Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config).await.unwrap();
    let shows = async |user: &str, texts: &[&str]| {
        slack.open_home(user).await.unwrap();
        let shown = |s: &State| {
            let home = s.home(user).map(|home| home["blocks"].to_string()).unwrap_or_default();
            texts.iter().all(|text| home.contains(text))
        };
        let seen = slack.wait_for(shown, SOON).await;
        assert!(seen.is_ok(), "{:#?}\n{}", slack.with(|s| s.home(user).cloned()), service.stderr());
    };
    shows("U0ANN", &["*Yours (0)*", "*Open (0)*", "No incident is open."]).await;
    let client = reqwest::Client::new();
    for name in ["LLMHighTTFT", "LLMQueueBuildup"] {
        let url = format!("{}/webhook/alertmanager", service.url);
        let body = group(name, "firing", "warning", &["a"]);
        client.post(url).json(&body).send().await.unwrap().error_for_status().unwrap();
    }
    slack.wait_for(|s| s.messages(CHANNEL).count() >= 2, SOON).await.unwrap();
    let message = slack.messages(CHANNEL).into_iter().find(|m| whole(m).contains("LLMHighTTFT")).unwrap();
    slack.press("U0ANN", CHANNEL, &message.ts, "acknowledge").await.unwrap();
    let taken = |s: &State| s.messages(CHANNEL).any(|m| whole(m).contains("Acknowledged by"));
    slack.wait_for(taken, SOON).await.unwrap();
    shows("U0ANN", &["*Yours (1)*", "*Open (2)*", "<@U0ANN> is on it", "requests pile up"]).await;
    shows("U0BEN", &["*Yours (0)*", "*Open (2)*"]).await;
    shows("U0GUEST", &["Guests may not ask here"]).await;
    assert!(!slack.with(|s| s.home("U0GUEST").unwrap().to_string()).contains("requests pile up"));
    assert_eq!(slack.violations(), []);
}

async fn opened(slack: &FakeSlack, user: &str) -> View {
    slack.wait_for(|s| s.views().iter().any(|view| view.is_open && view.user == user), SOON).await.unwrap();
    slack.view(user).unwrap()
}
