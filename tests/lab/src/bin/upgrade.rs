//! Checks that one version back runs: `upgrade NEW OLD`, two binaries of the product, one after the other on one store;
//! once on SQLite, once on PostgreSQL.
//!
//! The new one makes the store and uses what it has added: sources, a channel that refuses messages. The old one takes
//! over and edits the new one's messages, and the new one takes over again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use llm_diagnose_lab::slack::{Channel, FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::{Postgres, Service};
use serde_json::json;

const CHANNEL: &str = "#llm-alerts";
/// One to which the bot is not invited.
const CLOSED: &str = "closed";
/// What the webhook asks for.
const TOKEN: &str = "upgrade-lab";
/// How long something that must come may take.
const SOON: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let binaries: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [new, old] = binaries.as_slice() else { bail!("usage: upgrade NEW OLD") };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let postgres = Postgres::start()?;
    let address = postgres.file(&postgres.url())?;
    for (named, database) in
        [("SQLite", String::new()), ("PostgreSQL", format!("database: {{ url_file: {} }}\n", address.path().display()))]
    {
        back_and_forth(new, old, database).await.with_context(|| format!("on {named}"))?;
        println!("upgrade: on {named} the previous version runs on this one's store, and this one after it");
    }
    Ok(())
}

async fn back_and_forth(new: &Path, old: &Path, database: String) -> anyhow::Result<()> {
    let closed = Channel { is_member: false, ..Channel::new("C0CLOSED", CLOSED) };
    let site = Site {
        slack: FakeSlack::start(Options::unlimited().channel(closed)).await?,
        state: tempfile::tempdir().context("cannot make the state directory")?,
        token: tempfile::NamedTempFile::new().context("cannot make the token's file")?,
        http: reqwest::Client::new(),
        database,
    };
    std::fs::write(site.token.path(), TOKEN).context("cannot write the token's file")?;

    let mut service = site.serve(new).await.context("the new version on an empty store")?;
    for (name, cluster) in [("One", "eu"), ("Two", "eu"), ("Same", "eu"), ("Same", "us"), ("Refused", "eu")] {
        site.send(&service, name, cluster, "firing").await?;
    }
    for name in ["One", "Two", "Same", "Refused"] {
        site.shows(5, name, "WARNING").await.with_context(|| format!("the new version's message of {name}"))?;
    }
    service.terminate(SOON).await?;

    let mut service = site.serve(old).await.context("the old version on the new one's store")?;
    site.send(&service, "Three", "eu", "firing").await?;
    site.shows(6, "Three", "WARNING").await.context("a message of the old version")?;
    // It knows no sources: whichever of both incidents it takes, it takes the alert.
    for cluster in ["eu", "us"] {
        site.send(&service, "Same", cluster, "firing").await?;
    }
    for name in ["One", "Refused"] {
        site.send(&service, name, "eu", "resolved").await?;
        site.shows(6, name, "RESOLVED").await.with_context(|| format!("the old version edits {name}"))?;
    }
    service.terminate(SOON).await?;

    let mut service = site.serve(new).await.context("the new version after the old one")?;
    for (name, cluster) in [("Two", "eu"), ("Three", "eu"), ("Same", "eu"), ("Same", "us")] {
        site.send(&service, name, cluster, "resolved").await?;
    }
    for name in ["Two", "Three", "Same"] {
        site.shows(6, name, "RESOLVED").await.with_context(|| format!("the new version edits {name}"))?;
    }
    service.terminate(SOON).await?;
    Ok(())
}

struct Site {
    slack: FakeSlack,
    state: tempfile::TempDir,
    /// The file of the webhook's token.
    token: tempfile::NamedTempFile,
    http: reqwest::Client,
    /// The configuration's lines for the database; empty for SQLite in the state directory.
    database: String,
}

impl Site {
    async fn serve(&self, binary: &Path) -> anyhow::Result<Service> {
        let config = format!(
            "listen: 127.0.0.1:$PORT\nwebhook: {{ bearer_token_file: {} }}\nstate_dir: {}\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
             slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", \
             routes: [{{ labels: {{ alertname: Refused }}, channel: \"#{CLOSED}\" }}] }}\n{}",
            self.token.path().display(),
            self.state.path().display(),
            self.slack.base_url,
            self.database
        );
        let token = [("SLACK_BOT_TOKEN", self.slack.token.as_str())];
        let binary = binary.canonicalize().with_context(|| format!("there is no {}", binary.display()))?;
        Service::start(&binary, &["serve", "--config", "$CONFIG"], &token, &config).await
    }

    async fn send(&self, service: &Service, name: &str, cluster: &str, status: &str) -> anyhow::Result<()> {
        let ends = if status == "resolved" { "2026-11-20T03:10:00Z" } else { "0001-01-01T00:00:00Z" };
        let group = json!({
            "version": "4", "groupKey": format!("{{}}:{{alertname=\"{name}\"}}"), "status": status, "receiver": "r",
            "truncatedAlerts": 0, "groupLabels": { "alertname": name }, "commonLabels": {}, "commonAnnotations": {},
            "externalURL": "http://alertmanager", "alerts": [{
                "status": status, "labels": { "alertname": name, "cluster": cluster, "severity": "warning" },
                "annotations": {}, "startsAt": "2026-11-20T03:00:00Z", "endsAt": ends, "generatorURL": "",
                "fingerprint": format!("{name}-{cluster}"),
            }],
        });
        let url = format!("{}/webhook/alertmanager", service.url);
        let answer = self.http.post(url).bearer_auth(TOKEN).json(&group).send().await?;
        ensure!(answer.status().is_success(), "the webhook answered {}\n{}", answer.status(), service.stderr());
        Ok(())
    }

    /// Waits until the channel holds so many messages, and all of that name say this.
    async fn shows(&self, messages: usize, name: &str, what: &str) -> anyhow::Result<()> {
        let whole = |message: &Message| format!("{} {}", message.content.text, json!(message.content.attachments));
        let found = |state: &State| {
            let tops = state.messages(CHANNEL).filter(|message| message.thread_ts.is_none()).map(whole);
            let tops: Vec<String> = tops.collect();
            let mut named = tops.iter().filter(|text| text.contains(name)).peekable();
            tops.len() == messages && named.peek().is_some() && named.all(|text| text.contains(what))
        };
        self.slack.wait_for(found, SOON).await
    }
}
