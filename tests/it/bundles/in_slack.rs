//! The button and the command, on the real service: a file in Slack, or a link where Slack has none.

use std::path::Path;

use llm_diagnose_lab::slack::{Failure, FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::Service;

use super::summary;
use crate::running::{BINARY, CHANNEL, SOON, choose, group, tls, whole, without_authentication};

pub(super) const ANN: &str = "U0ANN";

/// The service with a Slack that people use, and an incident.
pub(super) struct Stage {
    pub(super) service: Service,
    pub(super) slack: FakeSlack,
    pub(super) incident: String,
    http: reqwest::Client,
}

impl Stage {
    pub(super) async fn set(options: Options, keys: &str, extra: &str) -> Self {
        Self::beside("http://127.0.0.1:1", options, keys, extra).await
    }

    /// The same in a pod, as far as a program can tell, that has no token.
    pub(super) async fn in_a_pod() -> Self {
        let variables = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
        Self::with("http://127.0.0.1:1", Options::unlimited(), "", "", &variables).await
    }

    /// The same with a Prometheus.
    pub(super) async fn beside(prometheus: &str, options: Options, keys: &str, extra: &str) -> Self {
        Self::with(prometheus, options, keys, extra, &[]).await
    }

    /// The same with variables of its environment.
    pub(super) async fn with(
        prometheus: &str,
        options: Options,
        keys: &str,
        extra: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        tls();
        let slack = FakeSlack::start(options).await.unwrap();
        let keys =
            if keys.contains("act:") { keys.to_owned() } else { format!("act: {{ users: [{ANN}, U0BEN] }}, {keys}") };
        let config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nprometheus: [{{ url: \"{prometheus}\" }}]\n\
             slack: {{ {keys} api_url: \"{}\", channel: \"{CHANNEL}\", posts_per_second: 100, posts_burst: 100, \
             updates_per_minute: 1000, commands_per_minute: [600, 600, 600] }}\n{extra}\n",
            slack.base_url
        );
        let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
        let variables = [&secrets, variables].concat();
        let config = without_authentication(&config);
        let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &variables, &config);
        let service = service.await.unwrap();
        slack.wait_for(|state| state.connections() == 2, SOON).await.unwrap();
        let http = reqwest::Client::new();
        let body = group("LLMHighTTFT", "firing", "warning", &["a", "b"]);
        let answer = http.post(format!("{}/webhook/alertmanager", service.url)).json(&body).send().await.unwrap();
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

    /// Has a bundle made and uploaded; its summary.
    pub(super) async fn bundle(&self) -> serde_json::Value {
        self.slack.command(ANN, CHANNEL, "bundle").await.unwrap();
        self.said("The bundle of ").await;
        summary(self.slack.files().remove(0).bytes.as_deref().unwrap())
    }

    /// What the audit log says.
    pub(super) async fn audit(&self) -> String {
        let config = self.service.directory().join("config.yaml");
        let mut command = tokio::process::Command::new(BINARY);
        let output = command.arg("audit").arg("--config").arg(config).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
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
    choose(&stage.slack, ANN, &message, "bundle").await;
    let answer = whole(&stage.said("The bundle of ").await);
    assert!(answer.contains("The file is uploaded"), "{answer}");
    let file = stage.slack.files().remove(0);
    assert!(file.is_complete && file.name.starts_with(&format!("llm-diagnose-{}-", stage.incident)), "{}", file.name);
    let summary = summary(file.bytes.as_deref().unwrap());
    assert_eq!(summary["incident"]["id"], stage.incident.as_str());
    assert_eq!(summary["alerts"].as_array().map(Vec::len), Some(2));
    let shared = stage.slack.messages(CHANNEL).into_iter().find(|message| !message.files.is_empty()).unwrap();
    assert_eq!(shared.thread_ts, Some(message.ts));
    let audit = stage.audit().await;
    assert!(audit.contains("U0ANN") && audit.contains("bundle") && audit.contains(&stage.incident), "{audit}");
    assert_eq!(stage.slack.violations(), []);
}

#[tokio::test]
async fn a_draft_of_the_post_mortem_is_uploaded_into_the_thread_and_printed_by_the_command_line() {
    let stage = Stage::set(Options::unlimited(), "", "").await;
    let message = stage.slack.messages(CHANNEL).remove(0);
    stage.slack.press(ANN, CHANNEL, &message.ts, "acknowledge").await.unwrap();
    let acknowledged = |state: &State| state.messages(CHANNEL).any(|m| whole(m).contains("Acknowledged by"));
    stage.slack.wait_for(acknowledged, SOON).await.unwrap();
    stage.slack.command(ANN, CHANNEL, "postmortem").await.unwrap();
    stage.said("The draft is in the thread").await;
    let file = stage.slack.files().remove(0);
    let draft = String::from_utf8(file.bytes.clone().unwrap()).unwrap();
    assert!(file.is_complete && file.name.starts_with("postmortem-") && file.name.ends_with(".md"), "{}", file.name);
    for part in ["## Summary", "## Timeline", "somebody took it on", "@U0ANN", "one owner and a date"] {
        assert!(draft.contains(part), "{part}: {draft}");
    }
    let shared = stage.slack.messages(CHANNEL).into_iter().find(|message| !message.files.is_empty()).unwrap();
    assert_eq!(shared.thread_ts, Some(message.ts));
    let config = stage.service.directory().join("config.yaml");
    let mut command = tokio::process::Command::new(BINARY);
    let output = command.args(["postmortem", &stage.incident, "--config"]).arg(config).output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("## Timeline") && printed.contains("somebody took it on"), "{printed}");
    assert!(stage.audit().await.contains("postmortem"));
}

/// A bundle holds logs and arguments: it needs the power to act, by the button and by the command.
#[tokio::test]
async fn who_may_only_look_and_who_is_none_of_us_gets_no_bundle_by_button_nor_command() {
    let stage = Stage::set(Options::unlimited(), "act: { users: [U0ANN] },", "").await;
    let message = stage.slack.messages(CHANNEL).remove(0);
    let refused = ["U0BEN", "U0GUEST", "U0STRANGER", "U0ROBOT"];
    for user in refused {
        choose(&stage.slack, user, &message, "bundle").await;
        stage.slack.command(user, CHANNEL, "bundle").await.unwrap();
    }
    // Those who may not even look are refused the command before it is known which.
    let lines = |audit: &str, user: &str| audit.lines().filter(|l| l.contains("refused") && l.contains(user)).count();
    let until = std::time::Instant::now() + SOON;
    let audit = loop {
        let audit = stage.audit().await;
        if refused.iter().all(|user| lines(&audit, user) == 2) {
            break audit;
        }
        assert!(std::time::Instant::now() < until, "{audit}");
    };
    assert_eq!(audit.matches(": bundle").count(), 5, "four buttons, and the command of whoever may look: {audit}");
    assert!(!audit.contains("done"), "{audit}");
    let told: Vec<_> = stage.slack.messages(CHANNEL).into_iter().filter(|m| m.ts != message.ts).collect();
    assert!(told.iter().all(|message| message.only_for.is_some()), "nobody else reads it: {told:?}");
    assert_eq!(stage.slack.files().len(), 0);
    assert!(!stage.service.directory().join("state/bundles").read_dir().unwrap().any(|_| true));
}

#[tokio::test]
async fn while_nobody_is_named_nobody_gets_one() {
    let stage = Stage::set(Options::unlimited(), "act: {},", "").await;
    stage.slack.command("U0GUEST", CHANNEL, "bundle").await.unwrap();
    stage.said("Guests may not ask").await;
    stage.slack.command("U0BEN", CHANNEL, "bundle").await.unwrap();
    stage.said("slack.act").await;
    assert_eq!(stage.slack.files().len(), 0);
}

#[tokio::test]
async fn at_the_level_debug_no_secret_is_logged() {
    let hidden = "Zq7LEAKx9aBcD3fGh1JkLmN0pQrStUv";
    let prometheus = format!("http://ops:{hidden}@127.0.0.1:1/prom");
    let extra = format!(
        "public_url: http://127.0.0.1:$PORT\nbundle: {{ upload_bytes: 1 }}\n\
         loki: [{{ url: \"http://ops:{hidden}@127.0.0.1:1\", headers: {{ X-Token: \"{hidden}\" }} }}]\n\
         exporters: {{ targets: [{{ engine: vllm, url: \"http://127.0.0.1:1/metrics?api_key={hidden}\" }}] }}\n"
    );
    let level = [("LLM_DIAGNOSE_LOG", "debug")];
    let stage = Stage::with(&prometheus, Options::unlimited(), "", &extra, &level).await;
    let link = stage.link().await;
    assert_eq!(reqwest::get(&link).await.unwrap().status(), 200);
    let (log, signature) = (stage.service.stderr(), link.split_once("signature=").unwrap().1);
    assert!(log.contains("DEBUG") && log.contains("made a bundle") && log.contains("somebody downloads"), "{log}");
    for secret in [hidden, signature, stage.slack.token.as_str(), "xapp-lab"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
    let bytes = reqwest::get(&link).await.unwrap().bytes().await.unwrap();
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    for index in 0..archive.len() {
        let (mut entry, mut text) = (archive.by_index(index).unwrap(), Vec::new());
        std::io::Read::read_to_end(&mut entry, &mut text).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("LEAK"), "entry {index}");
    }
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
