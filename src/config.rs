//! The configuration file: composes the components' own parts, with defaults for every key.

mod secrets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::clock::duration;
use crate::playbook::{Library, Slo, SourceFile, parse};
use crate::signal::OwnLabels;
use crate::{
    alertmanager, bundle, diagnose, exporter, kubernetes, loki, notify, prom, redact, render, server, slack, store,
};
pub use secrets::{Inlet, bot_token, inlet};

/// Everything that `serve` needs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port to listen on.
    pub listen: String,
    /// The directory of the database; empty takes $STATE_DIRECTORY, else ~/.local/state/llm-diagnose.
    pub state_dir: PathBuf,
    /// A database that several replicas share, instead of that directory.
    pub database: store::Config,
    /// Where people reach the incident pages; empty leaves the links out.
    pub public_url: String,
    /// How the webhook is protected.
    pub webhook: Webhook,
    /// What callers may take of us.
    pub http: server::Limits,
    /// How the pages are protected.
    pub pages: server::Config,
    /// Where evidence is asked; the first whose labels match the alerts is used.
    pub prometheus: Vec<prom::Config>,
    /// Which exporters are read directly when Prometheus cannot tell.
    pub exporters: exporter::Config,
    /// The cluster's API: pods, events, logs.
    pub kubernetes: kubernetes::Config,
    /// Where logs are kept; the first whose labels match the alerts is used.
    pub loki: Vec<loki::Config>,
    /// Slack; not used when no channel is set.
    pub slack: slack::Config,
    /// Alertmanagers, for silences; the first whose labels match the alerts is used.
    pub alertmanagers: Vec<alertmanager::Config>,
    /// Pagers and webhooks that get the triage.
    pub pagers: Vec<notify::Pager>,
    /// Earlier versions had a choice; only `en` is still accepted.
    #[schemars(skip)]
    pub language: Option<String>,
    /// A dashboard for the links in messages; `{namespace}`, `{model}`, `{cluster}`, `{from}`, `{to}` (unix ms) are filled in.
    pub dashboard_url: String,
    /// Also print messages to standard output.
    pub console: Option<bool>,
    /// Where own playbooks stand.
    pub playbooks: Playbooks,
    /// Engine to the labels that its series have at this site; they come before those of its signal file.
    pub engines: BTreeMap<String, OwnLabels>,
    /// What is promised of pools; of the entries that fit a pool, the one with the most labels counts.
    pub slo: Vec<Slo>,
    /// How diagnoses are made.
    pub diagnose: diagnose::Config,
    /// Files of everything about an incident.
    pub bundle: bundle::Config,
    /// How notifications become incidents.
    pub incident: Incident,
    /// `text` or `json`.
    pub log: LogFormat,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:9098".to_owned(),
            state_dir: PathBuf::new(),
            database: store::Config::default(),
            public_url: String::new(),
            webhook: Webhook::default(),
            http: server::Limits::default(),
            pages: server::Config::default(),
            prometheus: vec![prom::Config::default()],
            exporters: exporter::Config::default(),
            kubernetes: kubernetes::Config::default(),
            loki: Vec::new(),
            slack: slack::Config::default(),
            alertmanagers: Vec::new(),
            pagers: Vec::new(),
            language: None,
            dashboard_url: String::new(),
            console: None,
            playbooks: Playbooks::default(),
            engines: BTreeMap::new(),
            slo: Vec::new(),
            diagnose: diagnose::Config::default(),
            bundle: bundle::Config::default(),
            incident: Incident::default(),
            log: LogFormat::default(),
        }
    }
}

/// The key `webhook:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Webhook {
    /// A file with the token that Alertmanager sends as `Authorization: Bearer`.
    pub bearer_token_file: Option<PathBuf>,
    /// Basic authentication instead: the user.
    pub username: Option<String>,
    /// Basic authentication instead: a file with the password.
    pub password_file: Option<PathBuf>,
    /// Senders that have tokens of their own; what they send is told apart from other sources' groups of the same key. A
    /// path, `/webhook/alertmanager/<source>`, names a source too.
    pub sources: Vec<Source>,
    /// The largest body in bytes; a group of 1,000 alerts has about 0.8 MB. It is read as it comes, so it costs time only.
    pub body_limit: usize,
    /// Webhooks that may wait to be stored; more are answered 503.
    pub queue: usize,
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            bearer_token_file: None,
            username: None,
            password_file: None,
            sources: Vec::new(),
            body_limit: 256 << 20,
            queue: 1_024,
        }
    }
}

/// An entry of `webhook.sources`: one Alertmanager, or a highly available group of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name: 1 to 100 letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// A file with the token that it sends as `Authorization: Bearer`.
    pub bearer_token_file: PathBuf,
}

/// Whether it can name a source.
pub fn is_source(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=100).contains(&name.chars().count()) && name.chars().all(fits)
}

/// The key `playbooks:`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Playbooks {
    /// A directory laid out like the shipped one; the same path replaces, another adds.
    pub dir: Option<PathBuf>,
}

/// The key `incident:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Incident {
    /// The same notification within this time is a duplicate; defaults to 1m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub duplicate_within: Duration,
    /// Firing again within this time reopens the incident; defaults to 10m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub reopen_within: Duration,
    /// An open incident of which nothing is heard for this long is closed; above two of Alertmanager's
    /// `repeat_interval`, defaults to 12h.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub stale_after: Duration,
    /// How long resolved incidents are kept; defaults to 90d.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub keep: Duration,
}

impl Default for Incident {
    fn default() -> Self {
        Self {
            duplicate_within: Duration::from_secs(60),
            reopen_within: Duration::from_secs(600),
            stale_after: Duration::from_secs(12 * 3_600),
            keep: Duration::from_secs(90 * 86_400),
        }
    }
}

/// The key `log:`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// With file, line and the line's text when a key is unknown or a value is wrong.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        let file = SourceFile::new(path.display().to_string(), text);
        let config: Self = parse(&file).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        config.validate().with_context(|| format!("in {}", path.display()))?;
        Ok(config)
    }

    /// Gives the library what the configuration says about this site: its labels and what is promised of its pools.
    ///
    /// # Errors
    /// When an engine or a label is unknown.
    pub fn put_into(&self, library: &mut Library) -> anyhow::Result<()> {
        let told = library.put_first(&self.engines).and_then(|()| library.promise(&self.slo));
        told.map_err(anyhow::Error::msg).context("in the configuration")
    }

    /// What cannot be told from types alone.
    fn validate(&self) -> anyhow::Result<()> {
        if let Some(language) = self.language.as_ref().filter(|language| *language != render::ENGLISH) {
            bail!(
                "`language: {language}` is not offered: messages are in English only; remove the key `language`. \
                 Single sentences can be replaced in playbooks.dir/phrases/en/*.ftl"
            );
        }
        if self.prometheus.is_empty() {
            bail!("`prometheus:` is empty: name at least one");
        }
        for (i, slo) in self.slo.iter().enumerate() {
            slo.validate().map_err(|error| anyhow::anyhow!("`slo:` entry {}: {error}", i + 1))?;
        }
        if let Some(p) = self.prometheus.iter().find(|p| p.concurrency == 0) {
            bail!("`prometheus:` entry `{}`: `concurrency` is at least 1", p.name);
        }
        let address =
            |url: &str| url::Url::parse(url).is_ok_and(|url| url.scheme().starts_with("http") && url.has_host());
        if let Some(given) = self.exporters.targets.iter().find(|given| !address(&given.url)) {
            bail!(
                "`exporters.targets`: `{}` is no page's address: write it like http://10.0.0.7:9400/metrics",
                redact::address(&given.url)
            );
        }
        if self.webhook.bearer_token_file.is_some() && self.webhook.username.is_some() {
            bail!("`webhook:` takes a bearer token or basic authentication, not both");
        }
        if self.webhook.username.is_some() != self.webhook.password_file.is_some() {
            bail!("`webhook:` needs both `username` and `password_file`, or neither");
        }
        self.http.validate()?;
        let sources: std::collections::BTreeSet<&str> =
            self.webhook.sources.iter().map(|source| source.name.as_str()).collect();
        if sources.len() < self.webhook.sources.len() || !sources.iter().all(|name| is_source(name)) {
            bail!("`webhook.sources` have names of their own: 1 to 100 letters, digits, `.`, `_`, `-`");
        }
        self.pages.validate()?;
        if self.diagnose.window < Duration::from_secs(1) || self.diagnose.concurrency == 0 || self.webhook.queue == 0 {
            bail!("`diagnose.window` is at least 1s, `diagnose.concurrency` and `webhook.queue` are at least 1");
        }
        let names: std::collections::BTreeSet<&str> = self.pagers.iter().map(|pager| pager.name.as_str()).collect();
        if names.len() < self.pagers.len() {
            bail!("`pagers:` have names of their own: two are called the same");
        }
        if let Some(whom) = &self.slack.escalate
            && !slack::is_person(whom)
            && !names.contains(whom.as_str())
        {
            bail!(
                "`slack.escalate: {whom}` is neither the id of a user group or user (S…, U…) nor the name of one of `pagers`"
            );
        }
        if self.slack.commands_per_minute.contains(&0) {
            bail!("`slack.commands_per_minute` are at least 1");
        }
        if self.slack.posts_per_second == 0 || self.slack.posts_burst == 0 || self.slack.updates_per_minute == 0 {
            bail!("Slack's rates are at least 1");
        }
        if !(1..=10).contains(&self.slack.connections) {
            bail!("`slack.connections` is 1 to 10: Slack refuses more");
        }
        Ok(())
    }

    /// Whether messages are printed: told, or else when there is no Slack.
    pub fn prints(&self) -> bool {
        self.console.unwrap_or(self.slack.channel.is_empty())
    }
}

/// Reads a secret's file without its trailing newline.
///
/// # Errors
/// When it cannot be read or is empty.
pub fn secret(path: &Path) -> anyhow::Result<SecretString> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the secret in {}", path.display()))?;
    let text = text.trim();
    if text.is_empty() {
        bail!("the secret in {} is empty", path.display());
    }
    Ok(SecretString::from(text.to_owned()))
}
