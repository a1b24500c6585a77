//! Slack's secrets, and the transport for Slack's requests that they allow.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use secrecy::SecretString;

use super::{Config, secret};
use slack::{self, Transport};

/// The transport by which commands and button presses in Slack reach this service.
#[derive(Debug)]
pub enum SlackInlet {
    /// Socket Mode, with the app-level token.
    Socket(SecretString),
    /// Signed HTTP requests, with the signing secret.
    Http(SecretString),
    /// No transport, with a hint on how to enable one.
    Off(&'static str),
}

/// Reads a secret from the file, or else from the environment variable; `None` if neither is set.
fn find(file: Option<&Path>, variable: &str) -> anyhow::Result<Option<SecretString>> {
    match file {
        Some(path) => secret(path).map(Some),
        None => Ok(std::env::var(variable).ok().map(|v| v.trim().to_owned()).filter(|v| !v.is_empty()).map(Into::into)),
    }
}

impl Config {
    /// Returns the files with secrets that the service reads when it starts.
    pub fn secret_files(&self) -> Vec<&Path> {
        let Self { webhook, pages, slack, database, bundle, kubernetes, .. } = self;
        let oidc_secret = pages.oidc.as_ref().map_or(&None, |oidc| &oidc.client_secret_file);
        let single = [
            &webhook.bearer_token_file,
            &webhook.password_file,
            &pages.bearer_token_file,
            &pages.password_file,
            oidc_secret,
            &slack.bot_token_file,
            &slack.app_token_file,
            &slack.signing_secret_file,
            &database.url_file,
            &bundle.link_key_file,
            &kubernetes.kubeconfig,
        ];
        let single = single.into_iter().flatten();
        let sources = webhook.sources.iter().map(|source| &source.bearer_token_file);
        let prometheus = self.prometheus.iter().filter_map(|one| one.bearer_token_file.as_ref());
        let loki = self.loki.iter().filter_map(|one| one.bearer_token_file.as_ref());
        let alertmanagers =
            self.alertmanagers.iter().flat_map(|one| [&one.bearer_token_file, &one.password_file]).flatten();
        let pagers = self.pagers.iter().map(|pager| &pager.key_file);
        let several = sources.chain(prometheus).chain(loki).chain(alertmanagers).chain(pagers);
        single.chain(several).map(PathBuf::as_path).collect()
    }
}

/// Reads the bot token.
///
/// # Errors
/// When the token is not set or its file cannot be read.
pub fn bot_token(config: &slack::Config) -> anyhow::Result<SecretString> {
    find(config.bot_token_file.as_deref(), "SLACK_BOT_TOKEN")?
        .context("Slack needs a bot token: set SLACK_BOT_TOKEN or `slack.bot_token_file`")
}

/// Chooses the transport: the configured one, or else the one whose secret is set; Socket Mode is preferred.
///
/// # Errors
/// When the configured transport lacks its secret, or a file cannot be read.
pub fn inlet(config: &slack::Config) -> anyhow::Result<SlackInlet> {
    let app_token = || find(config.app_token_file.as_deref(), "SLACK_APP_TOKEN");
    let signing = || find(config.signing_secret_file.as_deref(), "SLACK_SIGNING_SECRET");
    match config.transport {
        Some(Transport::Off) => {
            Ok(SlackInlet::Off("`slack.transport` is off: take the line out for buttons and commands"))
        }
        Some(Transport::Socket) => match app_token()? {
            Some(token) => Ok(SlackInlet::Socket(token)),
            None => bail!(
                "`slack.transport: socket` needs an app-level token (`xapp-…`): set SLACK_APP_TOKEN or \
                 `slack.app_token_file`"
            ),
        },
        Some(Transport::Http) => match signing()? {
            Some(secret) => Ok(SlackInlet::Http(secret)),
            None => bail!(
                "`slack.transport: http` needs the app's signing secret: set SLACK_SIGNING_SECRET or \
                 `slack.signing_secret_file`"
            ),
        },
        None => Ok(match (app_token()?, signing()?) {
            (Some(token), _) => SlackInlet::Socket(token),
            (None, Some(secret)) => SlackInlet::Http(secret),
            (None, None) => SlackInlet::Off(
                "set SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP) for buttons and commands",
            ),
        }),
    }
}
