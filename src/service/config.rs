//! The configuration file: combines the configuration of all components; every key has a default.

mod bundle;
mod oidc;
mod secrets;
mod server;
mod state;
mod watchdog;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

pub use bundle::Config as BundleConfig;
use knowledge::clock::duration;
use knowledge::playbook::{DeclaredPool, Library, Slo, SourceFile, parse};
use knowledge::signal::OwnLabels;
pub use oidc::OidcConfig;
pub use secrets::{SlackInlet, bot_token, inlet};
pub use server::{ANYBODY, Authentication, PagesConfig, ServerLimits};
use sources::{alertmanager, exporter, kubernetes, loki};
pub use state::{state_directory, visit_store};
pub use watchdog::WatchdogConfig;

/// The configuration of `serve`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port to listen on.
    pub listen: String,
    /// The directory of the database; if empty, $STATE_DIRECTORY, or else ~/.local/state/llm-diagnose.
    pub state_dir: PathBuf,
    /// A database that several replicas share, instead of `state_dir`.
    pub database: store::Config,
    /// The public address of the incident pages; if empty, messages do not link to them.
    pub public_url: String,
    /// Authentication and limits of the webhook.
    pub webhook: Webhook,
    /// Connection limits of the HTTP server.
    pub http: ServerLimits,
    /// Authentication of the pages.
    pub pages: PagesConfig,
    /// Prometheus servers that provide the evidence; the first whose labels match the alerts is used.
    pub prometheus: Vec<prom::Config>,
    /// Exporters that are read directly when Prometheus has no data.
    pub exporters: exporter::Config,
    /// The Kubernetes API: pods, events, logs.
    pub kubernetes: kubernetes::Config,
    /// Loki servers with the logs; the first whose labels match the alerts is used.
    pub loki: Vec<loki::Config>,
    /// Slack; not used if no channel is set.
    pub slack: slack::Config,
    /// Alertmanagers, for silences; the first whose labels match the alerts is used.
    pub alertmanagers: Vec<alertmanager::Config>,
    /// Times in which alerts with some labels mention nobody and call no pager.
    pub maintenance: Vec<notify::MaintenanceConfig>,
    /// Pagers and webhooks that receive the triage.
    pub pagers: Vec<notify::Pager>,
    /// A dashboard for the links in messages; `{namespace}`, `{model}`, `{cluster}`, `{from}`, `{to}` (unix ms) are
    /// replaced.
    pub dashboard_url: String,
    /// True if messages are also printed to standard output; by default only if no Slack channel is set.
    pub console: Option<bool>,
    /// The user's own playbooks.
    pub playbooks: Playbooks,
    /// The labels that an engine's series have at this site, by engine; they are tried before those of its signal file.
    pub engines: BTreeMap<String, OwnLabels>,
    /// Service level objectives of pools; of the entries that match a pool, the one with the most labels counts.
    pub slo: Vec<Slo>,
    /// Kinds of pools, instead of those that their data tells; of the entries that match a pool, the one with the most labels
    /// counts. The kinds are in `playbooks/kinds.yaml`.
    pub pools: Vec<DeclaredPool>,
    /// Settings of diagnoses.
    pub diagnose: diagnose::Config,
    /// Diagnostic bundles: files with all data about an incident.
    pub bundle: bundle::Config,
    /// Rules by which notifications become incidents.
    pub incident: IncidentConfig,
    /// The always-firing alert that Alertmanagers send, so that their silence is noticed.
    pub watchdog: WatchdogConfig,
    /// The log format: `text` or `json`.
    pub log: LogFormat,
    /// Interval at which the files of the configuration are compared with those in force; defaults to 30s, 0s leaves it
    /// to SIGHUP.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub reload_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:9098".to_owned(),
            state_dir: PathBuf::new(),
            database: store::Config::default(),
            public_url: String::new(),
            webhook: Webhook::default(),
            http: ServerLimits::default(),
            pages: PagesConfig::default(),
            prometheus: vec![prom::Config::default()],
            exporters: exporter::Config::default(),
            kubernetes: kubernetes::Config::default(),
            loki: Vec::new(),
            slack: slack::Config::default(),
            alertmanagers: Vec::new(),
            maintenance: Vec::new(),
            pagers: Vec::new(),
            dashboard_url: String::new(),
            console: None,
            playbooks: Playbooks::default(),
            engines: BTreeMap::new(),
            slo: Vec::new(),
            pools: Vec::new(),
            diagnose: diagnose::Config::default(),
            bundle: bundle::Config::default(),
            incident: IncidentConfig::default(),
            watchdog: WatchdogConfig::default(),
            log: LogFormat::default(),
            reload_interval: Duration::from_secs(30),
        }
    }
}

/// The key `webhook:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Webhook {
    /// `required`, or `none`: everybody who reaches `listen` can send alerts.
    pub authentication: Authentication,
    /// A file with the token that Alertmanager sends as `Authorization: Bearer`.
    pub bearer_token_file: Option<PathBuf>,
    /// User name for basic authentication, instead of a token.
    pub username: Option<String>,
    /// A file with the password for basic authentication.
    pub password_file: Option<PathBuf>,
    /// Senders with tokens of their own; groups with the same key from different sources stay separate. The path
    /// `/webhook/alertmanager/<source>` names a source too.
    pub sources: Vec<SourceConfig>,
    /// The largest body in bytes; a group of 1,000 alerts has about 0.8 MB. The body is parsed as a stream, so a large
    /// one costs time, not memory.
    pub body_limit: usize,
    /// Maximum number of webhooks that wait to be stored; more are answered 503.
    pub queue: usize,
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            authentication: Authentication::default(),
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
pub struct SourceConfig {
    /// The name of the source: 1 to 100 letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// A file with the token that the source sends as `Authorization: Bearer`.
    pub bearer_token_file: PathBuf,
}

/// Returns true if `name` is a valid name of a source.
pub fn is_source(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=100).contains(&name.chars().count()) && name.chars().all(is_allowed)
}

/// The key `playbooks:`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Playbooks {
    /// A directory with the layout of the shipped playbooks: a playbook with the same id, or another file with the same
    /// path, replaces the shipped one; any other is added.
    pub dir: Option<PathBuf>,
}

/// The key `incident:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IncidentConfig {
    /// Time within which the same notification counts as a duplicate; defaults to 1m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub duplicate_within: Duration,
    /// Time within which an incident that fires again is reopened; defaults to 10m.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub reopen_within: Duration,
    /// Time after which an open incident without notifications is closed; must be longer than two of Alertmanager's
    /// `repeat_interval`s, defaults to 12h.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub stale_after: Duration,
    /// Retention of resolved incidents; defaults to 90d.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub keep: Duration,
}

impl Default for IncidentConfig {
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
    /// Plain text for people.
    #[default]
    Text,
    /// JSON for log pipelines.
    Json,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// With file, line and the line's text if a key is unknown or a value is invalid.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        let file = SourceFile::new(path.display().to_string(), text);
        let config: Self = parse(&file).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        config.validate().with_context(|| format!("in {}", path.display()))?;
        Ok(config)
    }

    /// Adds the labels and service level objectives of this site to the library.
    ///
    /// # Errors
    /// When an engine or a label is unknown.
    pub fn extend_library(&self, library: &mut Library) -> anyhow::Result<()> {
        let result = library.put_first(&self.engines).and_then(|()| library.promise(&self.slo, &self.pools));
        result.map_err(anyhow::Error::msg).context("in the configuration")
    }

    /// Checks the rules that the types cannot express.
    fn validate(&self) -> anyhow::Result<()> {
        if (1..1_000).contains(&self.reload_interval.as_millis()) {
            bail!("`reload_interval` is 0s, which leaves it to SIGHUP, or at least 1s");
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
        if let Some(p) = self.prometheus.iter().find(|p| p.answer_bytes.is_some_and(|bytes| bytes < 1 << 20)) {
            bail!("`prometheus:` entry `{}`: `answer_bytes` is at least 1048576, 1 MiB", p.name);
        }
        let address =
            |url: &str| url::Url::parse(url).is_ok_and(|url| url.scheme().starts_with("http") && url.has_host());
        if let Some(target) = self.exporters.targets.iter().find(|target| !address(&target.url)) {
            bail!(
                "`exporters.targets`: `{}` is no page's address: write it like http://10.0.0.7:9400/metrics",
                http_client::address(&target.url)
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
        if let Some(callee) = &self.slack.escalate
            && !slack::is_person(callee)
            && !names.contains(callee.as_str())
        {
            bail!(
                "`slack.escalate: {callee}` is neither the id of a user group or user (S…, U…) nor the name of one of `pagers`"
            );
        }
        self.watchdog.validate(self.incident.stale_after).map_err(anyhow::Error::msg)?;
        if !(alertmanager::SHORTEST..=alertmanager::LONGEST).contains(&self.slack.silence_max) {
            bail!("`slack.silence_max` is 1m to 30d: longer silences belong into Alertmanager's configuration");
        }
        for window in &self.maintenance {
            window.validate().map_err(anyhow::Error::msg)?;
        }
        if let Some(weekly) = &self.slack.weekly {
            let channels: Vec<&str> = self.slack.channels().collect();
            weekly.validate(channels.iter().copied()).map_err(anyhow::Error::msg)?;
        }
        if self.slack.daily.is_some() && self.slack.least_severity.is_empty() {
            bail!("`slack.daily` needs `slack.least_severity`: it counts what gets no message because of its severity");
        }
        if let Some(daily) = &self.slack.daily {
            daily.moments(Timestamp::UNIX_EPOCH).map_err(anyhow::Error::msg)?;
        }
        if !self.slack.least_severity.is_empty() && self.slack.daily.is_none() {
            bail!("`slack.least_severity` needs `slack.daily`: nobody would hear of the incidents that get no message");
        }
        if let Some(name) = self.slack.least_severity.keys().find(|name| !self.slack.channels().any(|c| c == *name)) {
            bail!(
                "`slack.least_severity`: `{name}` gets no incidents: write a channel as `slack.channel` or one of \
                 `slack.routes` has it"
            );
        }
        if self.slack.remind.is_some_and(|remind| remind.after < Duration::from_secs(60) || remind.times == 0) {
            bail!("`slack.remind.after` is at least 1m, and `times` at least 1");
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

    /// Returns true if messages are printed: as configured by `console`, or by default if no Slack channel is set.
    pub fn prints(&self) -> bool {
        self.console.unwrap_or(self.slack.channel.is_empty())
    }
}

/// Reads a secret from a file and trims white space around it.
///
/// # Errors
/// When the file cannot be read or is empty.
pub fn secret(path: &Path) -> anyhow::Result<SecretString> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the secret in {}", path.display()))?;
    let text = text.trim();
    if text.is_empty() {
        bail!("the secret in {} is empty", path.display());
    }
    Ok(SecretString::from(text.to_owned()))
}
