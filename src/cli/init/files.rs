//! The files that `init` writes, from the answers: our configuration, Alertmanager's, and the Slack app's manifest.

use std::path::{Path, PathBuf};

use super::answers::{ChosenTransport, Database, Setup};

/// The directory of the secrets' files, below that of the configuration.
pub(super) const SECRETS: &str = "secrets";

/// The shipped file for Alertmanager, which tests run on a real one.
const ALERTMANAGER: &str = include_str!("../../../config/alertmanager/llm-diagnose.yaml");
/// The address of the service in that file.
const SHIPPED_URL: &str = "http://llm-diagnose:9098";
/// The shipped manifest, for Socket Mode.
const MANIFEST: &str = include_str!("../../../config/slack/manifest.yaml");
/// The public address in that manifest's comments.
const SHIPPED_PUBLIC_URL: &str = "https://llm-diagnose.example.com";

/// Returns the paths of the files: configuration, Alertmanager's, manifest.
pub(super) fn paths(dir: &Path) -> [PathBuf; 3] {
    ["llm-diagnose.yaml", "alertmanager.yaml", "slack-manifest.yaml"].map(|name| dir.join(name))
}

/// Returns the texts of the files, in the order of [`paths`].
pub(super) fn texts(setup: &Setup, dir: &Path) -> [String; 3] {
    let alertmanager = ALERTMANAGER.replace(SHIPPED_URL, &setup.webhook_url);
    [configuration(setup, dir), alertmanager, manifest(setup)]
}

/// Returns the file of each secret that the configuration names, with how to get the secret.
pub(super) fn secrets(setup: &Setup, dir: &Path) -> Vec<(PathBuf, &'static str)> {
    let token = ("webhook-token", "`openssl rand -hex 32`; Alertmanager's `credentials_file` holds the same");
    let bot = ("slack-bot-token", "xoxb-…, from OAuth & Permissions");
    let transport = match setup.transport {
        ChosenTransport::Socket => {
            ("slack-app-token", "xapp-…, from Basic Information, App-Level Tokens, with connections:write")
        }
        ChosenTransport::Http => ("slack-signing-secret", "from Basic Information, App Credentials"),
    };
    let database = ("database-url", "postgres://user:password@host:5432/database?sslmode=verify-full");
    let has_slack = !setup.channel.is_empty();
    [(token, true), (bot, has_slack), (transport, has_slack), (database, setup.database == Database::Postgresql)]
        .into_iter()
        .filter(|(_, is_needed)| *is_needed)
        .map(|((name, what), _)| (dir.join(SECRETS).join(name), what))
        .collect()
}

fn configuration(setup: &Setup, dir: &Path) -> String {
    let secret = |name: &str| text(&dir.join(SECRETS).join(name).to_string_lossy());
    let mut out = format!(
        "# The configuration of `llm-diagnose serve`, made by `llm-diagnose init`. Every key that is not here has its default:\n\
         # https://github.com/llm-diagnose/llm-diagnose/blob/main/config/llm-diagnose.example.yaml\n\
         listen: 0.0.0.0:9098\n\
         # For the links in messages.\n\
         public_url: {public}\n\
         webhook:\n  \
           # What Alertmanager sends as `Authorization: Bearer`.\n  \
           bearer_token_file: {token}\n\
         # The pages /incidents and /health are closed until somebody may open them:\n\
         # pages: {{ username: sre, password_file: {pages} }}\n\
         prometheus:\n  \
           - url: {prometheus}\n",
        public = text(&setup.public_url),
        token = secret("webhook-token"),
        pages = secret("pages-password"),
        prometheus = text(&setup.prometheus),
    );
    out.push_str(&match setup.database {
        Database::File => "# The database is SQLite in `state_dir`: of systemd's StateDirectory, else in ~/.local/state/llm-diagnose.\n\
                           # state_dir: /var/lib/llm-diagnose\n"
            .to_owned(),
        Database::Postgresql => format!("database:\n  url_file: {}\n", secret("database-url")),
    });
    let (transport, transport_file) = match setup.transport {
        ChosenTransport::Socket => ("socket", format!("app_token_file: {}", secret("slack-app-token"))),
        ChosenTransport::Http => ("http", format!("signing_secret_file: {}", secret("slack-signing-secret"))),
    };
    let bot = secret("slack-bot-token");
    out.push_str(&match setup.channel.as_str() {
        "" => format!(
            "# Without a channel, messages are printed.\n# slack:\n#   channel: \"#llm-alerts\"\n#   transport: {transport}\n\
             #   bot_token_file: {bot}\n#   {transport_file}\n"
        ),
        channel => format!(
            "slack:\n  channel: {}\n  transport: {transport}\n  \
             # Without these two lines: the environment's SLACK_BOT_TOKEN, and {}.\n  bot_token_file: {bot}\n  {transport_file}\n",
            text(channel),
            match setup.transport {
                ChosenTransport::Socket => "SLACK_APP_TOKEN",
                ChosenTransport::Http => "SLACK_SIGNING_SECRET",
            }
        ),
    });
    out.push_str(
        "# Once an alert that always fires arrives at /webhook/alertmanager/main, a silent Alertmanager is noticed:\n\
         # watchdog: { sources: [main], within: 15m }\n",
    );
    out
}

/// Writes a text as a YAML scalar: a JSON string is one.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The shipped manifest, with the lines that its comments hold for HTTP in force.
fn manifest(setup: &Setup) -> String {
    if setup.transport == ChosenTransport::Socket {
        return MANIFEST.to_owned();
    }
    let mut out = String::new();
    for line in MANIFEST.lines().filter(|line| !line.trim_end().ends_with("# HTTP only, both lines:")) {
        match line.split_once(SHIPPED_PUBLIC_URL) {
            Some((key, path)) => {
                let key = key.replace("# HTTP only: ", "").replace("# ", "");
                out.push_str(&format!("{key}{}{path}\n", setup.public_url));
            }
            None if line.trim_start().starts_with("# Slack connects through a WebSocket") => {}
            None => {
                out.push_str(&format!("{}\n", line.replace("socket_mode_enabled: true", "socket_mode_enabled: false")))
            }
        }
    }
    out
}
