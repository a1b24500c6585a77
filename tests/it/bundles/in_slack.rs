//! The button and the command, on the real service: a file in Slack, or a link where Slack has none.

use std::path::Path;

use llm_diagnose_lab::slack::{Failure, FakeSlack, Message, Options};
use llm_diagnose_lab::stack::Service;

use super::summary;
use crate::running::{BINARY, CHANNEL, SOON, group, tls, whole};

const ANN: &str = "U0ANN";

/// The service with a Slack that people use, and an incident.
pub(super) struct Stage {
    pub(super) service: Service,
    pub(super) slack: FakeSlack,
    pub(super) incident: String,
    http: reqwest::Client,
}

impl Stage {
    pub(super) async fn set(options: Options, keys: &str, extra: &str) -> Self {
        tls();
        let slack = FakeSlack::start(options).await.unwrap();
        let config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
             slack: {{ {keys} api_url: \"{}\", channel: \"{CHANNEL}\", posts_per_second: 100, posts_burst: 100, \
             updates_per_minute: 1000, commands_per_minute: [600, 600, 600] }}\n{extra}\n",
            slack.base_url
        );
        let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
        let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config);
        let service = service.await.unwrap();
        slack.wait_for(|state| state.connections() == 2, SOON).await.unwrap();
        let http = reqwest::Client::new();
        let body = serde_json::to_vec(&group("LLMHighTTFT", "firing", "warning", &["a", "b"])).unwrap();
        let answer = http.post(format!("{}/webhook/alertmanager", service.url)).body(body).send().await.unwrap();
        let answer: serde_json::Value = answer.json().await.unwrap();
        let incident = answer["incident"].as_str().unwrap().to_owned();
        let stage = Self { service, slack, incident, http };
        stage.slack.wait_for(|state| state.messages(CHANNEL).next().is_some(), SOON).await.unwrap();
        stage
    }

    pub(super) async fn get(&self, path: &str) -> reqwest::Response {
        self.http.get(format!("{}{path}", self.service.url)).send().await.unwrap()
    }

    /// The next message that says something.
    async fn said(&self, wanted: &str) -> Message {
        let mut found = None;
        let shown = self.slack.wait_for(
            |state| {
                found = state.messages(CHANNEL).skip(1).find(|message| whole(message).contains(wanted)).cloned();
                found.is_some()
            },
            SOON,
        );
        if let Err(error) = shown.await {
            panic!("{error}\n{}", self.service.stderr());
        }
        found.unwrap()
    }

    /// Asks by the command; the link in the answer.
    pub(super) async fn link(&self) -> String {
        self.slack.command(ANN, CHANNEL, "bundle").await.unwrap();
        let answer = whole(&self.said("Download the bundle").await).replace("&amp;", "&");
        let end = answer.find("|Download the bundle>").unwrap();
        let start = answer[..end].rfind('<').unwrap() + 1;
        answer[start..end].to_owned()
    }
}

#[tokio::test]
async fn the_button_puts_the_bundle_into_the_incidents_thread_and_it_is_written_down() {
    let stage = Stage::set(Options::unlimited(), "", "").await;
    let message = stage.slack.messages(CHANNEL).remove(0);
    stage.slack.press(ANN, CHANNEL, &message.ts, "bundle").await.unwrap();
    let answer = whole(&stage.said("The bundle of ").await);
    assert!(answer.contains("The file is uploaded"), "{answer}");
    let file = stage.slack.files().remove(0);
    assert!(file.is_complete && file.name.starts_with(&format!("llm-diagnose-{}-", stage.incident)), "{}", file.name);
    let summary = summary(file.bytes.as_deref().unwrap());
    assert_eq!(summary["incident"]["id"], stage.incident.as_str());
    assert_eq!(summary["alerts"].as_array().map(Vec::len), Some(2));
    let shared = stage.slack.messages(CHANNEL).into_iter().find(|message| !message.files.is_empty()).unwrap();
    assert_eq!(shared.thread_ts, Some(message.ts));
    let config = stage.service.directory().join("config.yaml");
    let audit = tokio::process::Command::new(BINARY).arg("audit").arg("--config").arg(config).output().await.unwrap();
    let audit = String::from_utf8(audit.stdout).unwrap();
    assert!(audit.contains("U0ANN") && audit.contains("bundle") && audit.contains(&stage.incident), "{audit}");
    assert_eq!(stage.slack.violations(), []);
}

#[tokio::test]
async fn whoever_may_only_look_gets_no_bundle() {
    let stage = Stage::set(Options::unlimited(), "act: { users: [U0ANN] },", "").await;
    stage.slack.command("U0BEN", CHANNEL, "bundle").await.unwrap();
    let refused = stage.said("may").await;
    assert_eq!(refused.only_for.as_deref(), Some("U0BEN"));
    assert_eq!(stage.slack.files().len(), 0);
    assert!(!stage.service.directory().join("state/bundles").read_dir().unwrap().any(|_| true));
}

#[tokio::test]
async fn what_slack_does_not_take_is_linked_whichever_step_fails() {
    let error = |code: &str| Failure::Error(code.to_owned());
    for (method, failure, said) in [
        ("files.getUploadURLExternal", error("file_upload_size_restricted"), "file_upload_size_restricted"),
        ("upload", Failure::Status(500), "HTTP 500 from the upload address"),
        ("files.completeUploadExternal", error("internal_error"), "internal_error"),
    ] {
        let stage = Stage::set(Options::unlimited(), "", "public_url: http://127.0.0.1:$PORT").await;
        stage.slack.fail_next(method, failure, 1);
        let link = stage.link().await;
        let answer = whole(&stage.said("Slack did not take the file").await);
        assert!(answer.contains(said), "{method}: {answer}");
        let bytes = reqwest::get(&link).await.unwrap().error_for_status().unwrap().bytes().await.unwrap();
        assert_eq!(summary(&bytes)["incident"]["id"], stage.incident.as_str(), "{method}");
    }
}

#[tokio::test]
async fn without_an_address_the_answer_says_where_the_file_lies() {
    let stage = Stage::set(Options { max_file_bytes: 10, ..Options::unlimited() }, "", "").await;
    stage.slack.mention(ANN, CHANNEL, None, "bundle").await.unwrap();
    let answer = whole(&stage.said("public_url").await);
    let bundles = stage.service.directory().join("state/bundles");
    assert!(answer.contains(&bundles.display().to_string()), "{answer}");
    assert_eq!(bundles.read_dir().unwrap().count(), 1);
}
