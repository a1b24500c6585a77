//! The arguments of `bundle`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::open::OpenArgs;
use super::verify::VerifyArgs;
use crate::cli::args::{SourceArgs, label, window};
use chat::command::When;
use knowledge::clock::TimeArgument;

/// The arguments of `bundle`: create a bundle, or open one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BundleCommand {
    /// The subcommand.
    #[command(subcommand)]
    pub open: Option<BundleOpen>,
    /// The arguments for creating a bundle.
    #[command(flatten)]
    pub make: BundleArgs,
}

/// The subcommands for an existing bundle.
#[derive(Debug, Subcommand)]
pub enum BundleOpen {
    /// Load a bundle's series into a Prometheus on this machine, and repeat its diagnosis.
    Open(OpenArgs),
    /// Check that a bundle is as it was made and signed, and that its diagnosis comes out again.
    Verify(VerifyArgs),
}

/// The subject, time range, sources and output of a bundle.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 complete, 1 made but not complete, 2 wrong use or not made, 3 Prometheus could not be asked \
(made all the same).\n\
Examples:\n  llm-diagnose bundle 4XQ7 --config llm-diagnose.yaml\n  \
llm-diagnose bundle --playbook high-ttft --label namespace=llm --prometheus http://prometheus:9090\n  \
llm-diagnose bundle llm/llama --at 14:05 --window 2h --logs vllm.log --anonymize"
)]
pub struct BundleArgs {
    /// The incident's id or its end; else a model, namespace, namespace/workload or pod. Without it the newest
    /// incident.
    #[arg(value_name = "INCIDENT|TARGET", conflicts_with = "alert")]
    pub what: Option<String>,
    /// An Alertmanager webhook payload (version 4) or one alert, as a file; `-` reads standard input. Without --at, an
    /// alert that fires and began within the last hour is diagnosed as of now. An older one, or one that has ended, is
    /// diagnosed as of one minute after it began.
    #[arg(long, value_name = "FILE|-")]
    pub alert: Option<String>,
    /// The playbook to enter, instead of the one that is found.
    #[arg(long, value_name = "ID")]
    pub playbook: Option<String>,
    /// A label of the pool: namespace, model_name, cluster; repeat for more.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// The time.
    #[command(flatten)]
    pub when: When,
    /// The time range: a margin before and after, or FROM..TO (14:00..15:30) [default: the configuration's, else 30m].
    #[arg(long, value_name = "DURATION|FROM..TO", value_parser = span)]
    pub window: Option<BundleSpan>,
    /// Sources beside Prometheus.
    #[command(flatten)]
    pub sources: SourceArgs,
    /// The receiver of a ticket, whatever the cause: vllm, sglang, nvidia, cloud, platform, or your own; repeat for
    /// more.
    #[arg(long = "ticket", value_name = "RECEIVER")]
    pub tickets: Vec<String>,
    /// The output; `-` is standard output [default: llm-diagnose-<incident or pool>-<time>.zip in the current directory].
    #[arg(long, short, value_name = "FILE|DIR")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long)]
    pub force: bool,
    /// Replace the names of pods, nodes, namespaces and hosts by pseudonyms, consistently.
    #[arg(long, conflicts_with = "no_redact")]
    pub anonymize: bool,
    /// Do not remove tokens, passwords and prompts; has to be confirmed.
    #[arg(long)]
    pub no_redact: bool,
    /// Confirms --no-redact without a terminal.
    #[arg(long, requires = "no_redact")]
    pub yes_with_secrets: bool,
    /// The time limit for all sources [default: the configuration's, else 60s].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// Print no progress, and only errors at the end.
    #[arg(long, short)]
    pub quiet: bool,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its state directory, sources and playbooks.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The directory of the database [default: the configuration's, as `serve` has it].
    #[arg(long, value_name = "DIR", env = "LLM_DIAGNOSE_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

/// The time range of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleSpan {
    /// A margin before and after.
    Around(Duration),
    /// Start and end.
    Between(TimeArgument, TimeArgument),
}

fn span(text: &str) -> Result<BundleSpan, String> {
    match text.split_once("..") {
        Some((from, to)) => Ok(BundleSpan::Between(TimeArgument::parse(from)?, TimeArgument::parse(to)?)),
        None => {
            window(text).map(BundleSpan::Around).map_err(|error| format!("{error}, or a time such as 14:00..15:30"))
        }
    }
}
