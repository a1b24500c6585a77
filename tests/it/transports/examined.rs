//! `doctor` says of a Slack app what is missing, and what to do.

use std::process::Command;

use llm_diagnose_lab::slack::{Channel, FakeSlack, Options};
use serde_json::Value;

use crate::running::{BINARY, tls};

struct Findings(Value);

impl Findings {
    #[track_caller]
    fn line(&self, name: &str) -> (&str, String) {
        let lines = self.0["checks"].as_array().unwrap();
        let line = lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {name}: {:#}", self.0));
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        (text("level"), format!("{} → {}", text("found"), text("todo")))
    }

    #[track_caller]
    fn assert(&self, name: &str, level: &str, said: &[&str]) {
        let (found, line) = self.line(name);
        assert!(found == level && said.iter().all(|said| line.contains(said)), "{name}: {found}, {line}");
    }
}

async fn examine(slack: &FakeSlack, extra: &str, environment: &[(&str, &str)]) -> Findings {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("llm-diagnose.yaml");
    let config = format!(
        "state_dir: {}\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\nslack: {{ api_url: \"{}\", {extra} }}\n",
        directory.path().join("state").display(),
        slack.base_url
    );
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["doctor", "--output", "json", "--config"]).arg(&file).env_remove("PROMETHEUS_URL");
    command.env("SLACK_BOT_TOKEN", &slack.token).envs(environment.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    Findings(serde_json::from_slice(&output.stdout).unwrap())
}

async fn app(scopes: &[&str]) -> FakeSlack {
    tls();
    let options = Options::unlimited()
        .channel(Channel { is_member: false, ..Channel::new("C0AWAY", "away") })
        .channel(Channel { is_archived: true, ..Channel::new("C0OLD", "old") });
    let slack = FakeSlack::start(options).await.unwrap();
    slack.configure(|options| options.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect());
    slack
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_made_of_the_manifest_has_no_findings() {
    let slack = app(&slack::scopes::scopes()).await;
    let config = "channel: \"#llm-alerts\", mention: S0ONCALL, act: { groups: [S0ONCALL], users: [U0BEN] }, \
                  routes: [{ labels: { team: a }, channel: C0LLMALERTS, mention: U0ANN }]";
    let found = examine(&slack, config, &[("SLACK_APP_TOKEN", "xapp-lab")]).await;
    for name in [
        "slack",
        "slack scopes",
        "slack clock",
        "slack channel #llm-alerts",
        "slack channel C0LLMALERTS",
        "slack group S0ONCALL",
        "slack user U0ANN",
        "slack user U0BEN",
        "slack socket",
    ] {
        found.assert(name, "ok", &[]);
    }
    slack.wait_for(|state| state.connections() == 0, crate::running::SOON).await.unwrap();
    assert_eq!(slack.violations(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_in_an_app_is_named_with_what_to_do() {
    let slack = app(&["chat:write", "channels:read", "users:read", "usergroups:read"]).await;
    let config = "channel: \"#away\", mention: S0NOBODY, act: { users: [U0GONE] }, routes: [{ labels: { a: b }, \
                  channel: C0OLD }, { labels: { a: c }, channel: \"#nowhere\" }, { labels: {}, channel: C0NONE }]";
    let found = examine(&slack, config, &[("SLACK_APP_TOKEN", "xapp-wrong")]).await;
    found.assert("slack scopes", "warn", &["commands", "app_mentions:read", "config/slack/manifest.yaml", "reinstall"]);
    found.assert("slack channel #away", "fail", &["not in the channel", "/invite @llm-diagnose"]);
    found.assert("slack channel C0OLD", "fail", &["archived"]);
    found.assert("slack channel #nowhere", "fail", &["no such channel", "/invite"]);
    found.assert("slack channel C0NONE", "fail", &["no such channel"]);
    found.assert("slack group S0NOBODY", "fail", &["no such user group", "Copy group ID"]);
    found.assert("slack user U0GONE", "fail", &["no such user", "Copy member ID"]);
    found.assert("slack socket", "fail", &["invalid_auth", "connections:write", "SLACK_APP_TOKEN"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_in_is_looked_at_whichever_it_is() {
    let slack = app(&["channels:read"]).await;
    let found = examine(&slack, "channel: C0LLMALERTS", &[]).await;
    found.assert("slack scopes", "fail", &["chat:write"]);
    found.assert("slack history", "warn", &["channels:history", "may stand twice", "or leave it so"]);
    found.assert("slack transport", "ok", &["messages only", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"]);
    let found = examine(&slack, "channel: C0LLMALERTS, transport: socket", &[]).await;
    found.assert("slack transport", "fail", &["xapp-", "Basic Information"]);
    let found = examine(&slack, "channel: C0LLMALERTS", &[("SLACK_SIGNING_SECRET", "s")]).await;
    found.assert("slack http", "ok", &["/slack/commands"]);
    let found = examine(&slack, "channel: C0LLMALERTS, transport: http", &[("SLACK_APP_TOKEN", "xapp-lab")]).await;
    found.assert("slack transport", "fail", &["signing secret"]);
}
