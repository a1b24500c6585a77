//! Checks that one version back runs: `upgrade NEW OLD`, two binaries of the product, one after the other on one store.
//!
//! The new one makes and uses the store, the old one takes over and edits the new one's message, and the new one takes
//! over again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use llm_diagnose_lab::slack::{FakeSlack, Options};
use llm_diagnose_lab::stack::Service;
use serde_json::json;

const CHANNEL: &str = "#llm-alerts";
/// How long something that must come may take.
const SOON: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let binaries: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [new, old] = binaries.as_slice() else { bail!("usage: upgrade NEW OLD") };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let site = Site {
        slack: FakeSlack::start(Options::unlimited()).await?,
        state: tempfile::tempdir().context("cannot make the state directory")?,
        http: reqwest::Client::new(),
    };

    let mut service = site.serve(new).await.context("the new version on an empty directory")?;
    site.send(&service, "One", "firing").await?;
    site.send(&service, "Two", "firing").await?;
    site.shows(2, "One", "WARNING").await.context("the new version's first message")?;
    site.shows(2, "Two", "WARNING").await.context("the new version's second message")?;
    service.terminate(SOON).await?;

    let mut service = site.serve(old).await.context("the old version on the new one's store")?;
    site.send(&service, "Three", "firing").await?;
    site.shows(3, "Three", "WARNING").await.context("a message of the old version")?;
    site.send(&service, "One", "resolved").await?;
    site.shows(3, "One", "RESOLVED").await.context("the old version edits the new one's message")?;
    service.terminate(SOON).await?;

    let mut service = site.serve(new).await.context("the new version after the old one")?;
    for name in ["Two", "Three"] {
        site.send(&service, name, "resolved").await?;
        site.shows(3, name, "RESOLVED").await.with_context(|| format!("the new version edits {name}"))?;
    }
    service.terminate(SOON).await?;
    println!("upgrade: the previous version runs on this one's store, and this one after it");
    Ok(())
}

struct Site {
    slack: FakeSlack,
    state: tempfile::TempDir,
    http: reqwest::Client,
}

impl Site {
    async fn serve(&self, binary: &Path) -> anyhow::Result<Service> {
        let config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: {}\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
             slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\" }}\n",
            self.state.path().display(),
            self.slack.base_url
        );
        let token = [("SLACK_BOT_TOKEN", self.slack.token.as_str())];
        let binary = binary.canonicalize().with_context(|| format!("there is no {}", binary.display()))?;
        Service::start(&binary, &["serve", "--config", "$CONFIG"], &token, &config).await
    }

    async fn send(&self, service: &Service, name: &str, status: &str) -> anyhow::Result<()> {
        let ends = if status == "resolved" { "2026-11-20T03:10:00Z" } else { "0001-01-01T00:00:00Z" };
        let group = json!({
            "version": "4", "groupKey": format!("{{}}:{{alertname=\"{name}\"}}"), "status": status, "receiver": "r",
            "truncatedAlerts": 0, "groupLabels": { "alertname": name }, "commonLabels": {}, "commonAnnotations": {},
            "externalURL": "http://alertmanager", "alerts": [{
                "status": status, "labels": { "alertname": name, "namespace": "llm", "severity": "warning" },
                "annotations": {}, "startsAt": "2026-11-20T03:00:00Z", "endsAt": ends, "generatorURL": "",
                "fingerprint": name,
            }],
        });
        let url = format!("{}/webhook/alertmanager", service.url);
        let answer = self.http.post(url).json(&group).send().await?;
        ensure!(answer.status().is_success(), "the webhook answered {}\n{}", answer.status(), service.stderr());
        Ok(())
    }

    /// Waits until the channel holds so many messages, and the one of that name says this.
    async fn shows(&self, messages: usize, name: &str, what: &str) -> anyhow::Result<()> {
        let shown = |message: &llm_diagnose_lab::slack::Message| {
            let content = &message.content;
            let whole = format!("{} {}", content.text, json!(content.attachments));
            whole.contains(name) && whole.contains(what)
        };
        let found = |state: &llm_diagnose_lab::slack::State| {
            let tops: Vec<_> = state.messages(CHANNEL).filter(|message| message.thread_ts.is_none()).collect();
            tops.len() == messages && tops.into_iter().any(shown)
        };
        self.slack.wait_for(found, SOON).await
    }
}
