//! The answers that a configuration is made of: from flags, from a terminal, or the defaults.

use std::io::{BufRead, stdin};

use anyhow::{Context, anyhow, bail, ensure};
use clap::ValueEnum;
use url::Url;

use super::InitArgs;
use crate::cli::output::{out, outln};

/// The number of answers that a question waits for.
const TRIES: usize = 5;
/// The default address of Prometheus.
const PROMETHEUS: &str = "http://127.0.0.1:9090";

/// The transport of Slack's requests to us, as far as it is chosen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ChosenTransport {
    /// WebSockets that we open.
    Socket,
    /// Signed requests to the public address.
    Http,
}

/// The database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Database {
    /// SQLite in the state directory.
    File,
    /// A PostgreSQL that replicas share.
    #[value(alias = "postgres")]
    Postgresql,
}

/// All answers, checked: what is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setup {
    /// The address of Prometheus.
    pub(super) prometheus: String,
    /// The Slack channel; empty for none.
    pub(super) channel: String,
    /// The transport of Slack's requests to us, as far as it is chosen here.
    pub(super) transport: ChosenTransport,
    /// The database.
    pub(super) database: Database,
    /// The public address without a slash at its end; empty for none.
    pub(super) public_url: String,
    /// The address under which Alertmanager reaches us, without a slash at its end.
    pub(super) webhook_url: String,
}

/// Checks that each answer has its flag: nobody is there who could be asked.
///
/// # Errors
/// When a flag is missing.
pub(super) fn complete(args: &InitArgs) -> anyhow::Result<()> {
    let missing: Vec<&str> = [
        ("--prometheus", args.prometheus.is_none()),
        ("--slack-channel", args.slack_channel.is_none()),
        ("--slack-transport", args.slack_transport.is_none()),
        ("--database", args.database.is_none()),
        ("--public-url", args.public_url.is_none()),
    ]
    .into_iter()
    .filter_map(|(flag, is_missing)| is_missing.then_some(flag))
    .collect();
    ensure!(
        missing.is_empty(),
        "standard input is no terminal, so nothing is asked: pass {}, or --yes for the defaults",
        missing.join(", ")
    );
    Ok(())
}

/// Takes each answer from its flag, else from the terminal if `asks`, else the default.
///
/// # Errors
/// When standard input ends, an answer stays wrong, or the answers contradict each other.
pub(super) fn setup(args: &InitArgs, asks: bool) -> anyhow::Result<Setup> {
    let text = "Address of Prometheus, or of anything with its API";
    let prometheus = answer(args.prometheus.clone(), asks, text, PROMETHEUS, address)?;
    let text = "Slack channel, #name or its id; empty prints messages instead";
    let channel = answer(args.slack_channel.clone(), asks, text, "", channel)?;
    let text = "How Slack reaches us: socket (no public address needed) or http";
    let transport = answer(args.slack_transport, asks, text, "socket", choice)?;
    let text = "Database: file (one process) or postgresql (for replicas)";
    let database = answer(args.database, asks, text, "file", choice)?;
    let text = "Address under which people open its pages; empty for none";
    let public_url = answer(args.public_url.clone(), asks, text, "", |text| {
        let url = public_url(text)?;
        if asks { is_reachable(transport, &url).map(|()| url) } else { Ok(url) }
    })?;
    is_reachable(transport, &public_url).map_err(|error| anyhow!("--public-url: {error}"))?;
    Ok(Setup { prometheus, channel, transport, database, public_url, webhook_url: args.webhook_url.clone() })
}

fn answer<T>(
    given: Option<T>,
    asks: bool,
    text: &str,
    default: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> anyhow::Result<T> {
    match given {
        Some(given) => Ok(given),
        None if asks => question(text, default, parse),
        None => parse(default).map_err(anyhow::Error::msg),
    }
}

/// Asks one question on the terminal, again after a wrong answer.
fn question<T>(text: &str, default: &str, parse: impl Fn(&str) -> Result<T, String>) -> anyhow::Result<T> {
    for _ in 0..TRIES {
        out!("{text} [{default}]: ");
        let mut line = String::new();
        let read = stdin().lock().read_line(&mut line).context("cannot read the answer")?;
        ensure!(read > 0, "the answers ended at `{text}`: nothing was written");
        let answer = line.trim();
        match parse(if answer.is_empty() { default } else { answer }) {
            Ok(value) => return Ok(value),
            Err(error) => outln!("  {error}"),
        }
    }
    bail!("{TRIES} answers to `{text}` were wrong: nothing was written")
}

/// Parses an address of HTTP into one without a slash at its end, safe for YAML.
pub(super) fn address(text: &str) -> Result<String, String> {
    address_like(text, "http://prometheus:9090")
}

fn address_like(text: &str, example: &str) -> Result<String, String> {
    let url = Url::parse(text.trim()).ok().filter(|url| {
        let is_http = matches!(url.scheme(), "http" | "https");
        is_http && url.has_host() && url.query().is_none() && url.fragment().is_none()
    });
    let url = url.ok_or_else(|| format!("`{text}` is no address: write it like {example}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address here has no user and no password: they would be written into the file".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Parses a Slack channel: `#name`, an id, or nothing.
pub(super) fn channel(text: &str) -> Result<String, String> {
    let text = text.trim();
    // https://docs.slack.dev/reference/methods/conversations.create: lower-case letters of any script, digits, `-`, `_`.
    let is_name = |name: &str| {
        let is_allowed = |c: char| (c.is_alphanumeric() && !c.is_uppercase()) || matches!(c, '-' | '_' | '.');
        (1..=80).contains(&name.chars().count()) && name.chars().all(is_allowed)
    };
    let is_id = |id: &str| {
        id.len() >= 9 && id.starts_with(['C', 'G']) && id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    };
    match text {
        "" => Ok(String::new()),
        name if name.strip_prefix('#').is_some_and(is_name) || is_id(name) => Ok(name.to_owned()),
        name if is_name(name) => Err(format!("`{name}` is no channel: write `#{name}`")),
        other => {
            Err(format!("`{other}` is no channel: write its name, like `#llm-alerts`, or its id, like C0123456789"))
        }
    }
}

/// Parses one of a few words.
pub(super) fn choice<T: ValueEnum>(text: &str) -> Result<T, String> {
    let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let names: Vec<String> = names.map(|value| format!("`{}`", value.get_name())).collect();
    T::from_str(text.trim(), false)
        .map_err(|_| format!("`{}` is not known: expected {}", text.trim(), names.join(" or ")))
}

/// Parses the public address, or nothing.
pub(super) fn public_url(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Ok(String::new()),
        text => address_like(text, "https://llm-diagnose.example.org"),
    }
}

/// Checks that Slack can reach us: by HTTP it calls our public address, by TLS only.
fn is_reachable(transport: ChosenTransport, public_url: &str) -> Result<(), String> {
    match transport {
        ChosenTransport::Http if !public_url.starts_with("https://") => {
            Err("with `http`, Slack calls an https address: write it like https://llm-diagnose.example.org".to_owned())
        }
        ChosenTransport::Socket | ChosenTransport::Http => Ok(()),
    }
}
