//! What can be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::clock;
use crate::diagnose::Baseline;

/// Diagnoses alerts of LLM serving fleets: alert in, cause chain with evidence and fix steps out.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service: Alertmanager's webhook in, living messages out.
    Serve(ServeArgs),
    /// Diagnose an alert, or a playbook for some labels, and print the answer.
    Diagnose(DiagnoseArgs),
    /// Lint playbooks and signals.
    Check(DataArgs),
    /// Run the verdict tests that stand beside the playbooks.
    Test(DataArgs),
    /// Make Prometheus rules, or the schema of the data files.
    Generate(GenerateArgs),
    /// Print a playbook's whole tree: symptom, causes, evidence, fixes.
    Explain(ExplainArgs),
}

/// How `serve` is started; every flag overrides the file.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration; without it flags and environment suffice.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// Address and port to listen on [default: 127.0.0.1:9098].
    #[arg(long, value_name = "ADDRESS", env = "LLM_DIAGNOSE_LISTEN")]
    pub listen: Option<String>,
    /// The directory of the database [default: $STATE_DIRECTORY, else ~/.local/state/llm-diagnose].
    #[arg(long, value_name = "DIR", env = "LLM_DIAGNOSE_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// The Slack channel; the bot token comes from SLACK_BOT_TOKEN. Without a channel messages are printed.
    #[arg(long, value_name = "CHANNEL", env = "SLACK_CHANNEL")]
    pub slack_channel: Option<String>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

/// How `diagnose` is asked.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 diagnosed, 2 wrong use, 3 Prometheus could not be asked (the degraded answer is printed all the same).\n\
Examples:\n  llm-diagnose diagnose --playbook high-ttft --label namespace=llm --prometheus http://prometheus:9090\n  \
llm-diagnose diagnose --alert webhook.json --at 2026-11-20T03:05:00Z --output json"
)]
pub struct DiagnoseArgs {
    /// An Alertmanager webhook payload (version 4) or one alert, as a file; `-` reads standard input.
    #[arg(long, value_name = "FILE|-", required_unless_present = "playbook")]
    pub alert: Option<String>,
    /// The playbook to enter; overrides the one that the alert would choose.
    #[arg(long, value_name = "ID")]
    pub playbook: Option<String>,
    /// A label of the pool: namespace, model_name, cluster; repeat for more.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its Prometheus and playbooks.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Judge this moment: RFC 3339 or unix seconds; now unless told.
    #[arg(long, value_name = "TIME", value_parser = clock::parse_time)]
    pub at: Option<Timestamp>,
    /// The rate window; short incidents and 1-second scrapes need 30s to 1m [default: the configuration's, else 5m].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub window: Option<Duration>,
    /// How much earlier its normal lies, `none` to compare with nothing [default: the configuration's, else 1d].
    #[arg(long, value_name = "DURATION|none", value_parser = baseline)]
    pub baseline: Option<Baseline>,
    /// Read engines and GPU exporters themselves too, in place of what Prometheus says of now.
    #[arg(long, conflicts_with = "at")]
    pub fresh: bool,
    /// When to stop waiting for Prometheus [default: the configuration's, else 10s].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// The documented, versioned schema.
    Json,
    /// The Slack message's JSON.
    Slack,
}

/// What `generate` makes.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// What to make.
    #[command(subcommand)]
    pub what: GenerateCommand,
}

/// What can be generated.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Prometheus alerting rules for every playbook that has alerts.
    Rules {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// The rate window.
        #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = window)]
        window: Duration,
        /// How long every alert must hold, instead of its own `for`.
        #[arg(long = "for", value_name = "DURATION", value_parser = window)]
        hold: Option<Duration>,
        /// Where the runbook pages stand.
        #[arg(
            long,
            value_name = "URL",
            default_value = "https://github.com/llm-diagnose/llm-diagnose/blob/main/docs/runbooks"
        )]
        runbook_base: String,
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
    /// A runbook page for every playbook, which the rules' `runbook_url` points to.
    Runbooks {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// The directory to write into; pages that belong to no playbook are left alone.
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// The JSON schema of playbooks, causes and signals, for editors.
    Schema {
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
}

/// Which data `check` and `test` read.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// A directory on top of the shipped data; without it the shipped data alone.
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// What `explain` prints.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A playbook or cause.
    #[arg(value_name = "ID")]
    pub id: String,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as namespace=llm".to_owned()),
    }
}

/// A duration of at least a second.
pub(super) fn window(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(d) if d >= Duration::from_secs(1) && d <= Duration::from_secs(31 * 86_400) => Ok(d),
        Ok(_) => Err("expected between 1s and 31d".to_owned()),
        Err(_) => Err("expected a duration such as 30s, 5m, 1d".to_owned()),
    }
}

fn baseline(text: &str) -> Result<Baseline, String> {
    match text {
        "none" => Ok(Baseline::Off),
        text => window(text).map(Baseline::Earlier),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
