//! `selftest`: prints the stages that a synthetic alert reached on its way through the service.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::FINDINGS;
use super::args::{HealthOutput, StateArgs, window};
use super::store::block_on;
use crate::cli::output::outln;
use app::selftest::{SelfTestStage, selftest};
use render::clean;

/// The arguments of `selftest`.
#[derive(Debug, Args)]
#[command(
    after_help = "The service's store must be readable from here: run it beside the service, e.g. by kubectl exec.\n\
Exit status: 0 every stage was reached, 1 one was not, 2 wrong use.\n\
Examples:\n  llm-diagnose selftest --config /etc/llm-diagnose/llm-diagnose.yaml\n  \
kubectl exec -n monitoring deploy/llm-diagnose -- llm-diagnose selftest --channel '#llm-pages'"
)]
pub struct SelftestArgs {
    /// The service's store.
    #[command(flatten)]
    pub state: StateArgs,
    /// The channel of the message, one of the configuration's [default: `slack.channel`].
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// The address of the service [default: the configuration's `listen`].
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A file with the webhook's bearer token [default: the configuration's credentials].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The time limit until the message is posted, and again until it is green.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = window)]
    pub deadline: Duration,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

pub(super) fn run(args: SelftestArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    let (channel, url, token_file) = (args.channel.as_deref(), args.url.as_deref(), args.token_file.as_deref());
    let report = block_on(selftest(&config, channel, url, token_file, args.deadline))?;
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&report)?),
        HealthOutput::Text => report.stages.iter().for_each(print),
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) })
}

fn print(stage: &SelfTestStage) {
    let word = if stage.ok { "ok" } else { "FAIL" };
    outln!("{word:<4}  {:<9}  {:>7.2} s  {}", stage.name.as_str(), stage.seconds, clean(&stage.found));
    if let Some(todo) = &stage.todo {
        outln!("      → {todo}");
    }
}
