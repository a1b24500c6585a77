//! `weekly`: prints the summary of a channel's week, as the service posts it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::args::{HealthOutput, StateArgs};
use super::store::with_store;
use super::{cleaned, library};
use crate::cli::output::outln;
use knowledge::clock;
use knowledge::clock::TimeArgument;
use knowledge::incident::WEEK;
use notify::weekly::summary;
use render::Phrases;
use store::{SummaryPeriod, SummaryPost};

/// The arguments of `weekly`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 done, 2 wrong use.\n\
Example:\n  llm-diagnose weekly --config /etc/llm-diagnose/llm-diagnose.yaml --channel '#llm-alerts'")]
pub struct WeeklyArgs {
    /// The channel, as the configuration has it [default: `slack.channel`].
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// The end of the week: RFC 3339, or a time of day in UTC [default: now].
    #[arg(long, value_name = "TIME", value_parser = TimeArgument::parse)]
    pub until: Option<TimeArgument>,
    /// The store.
    #[command(flatten)]
    pub state: StateArgs,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

pub(super) fn run(args: WeeklyArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    let Some(channel) = args.channel.as_ref().or(Some(&config.slack.channel)).filter(|name| !name.is_empty()) else {
        bail!("no channel: name one with --channel, as `slack.channel` or `slack.routes` have it");
    };
    let playbooks = args.playbooks.as_ref().or(config.playbooks.dir.as_ref());
    let library = library(playbooks.map(PathBuf::as_path))?;
    let now = clock::now();
    let until = args.until.map_or(now, |until| until.resolve(now));
    let weekly = SummaryPost::new(SummaryPeriod::Week, channel, [clock::before(until, WEEK), until]);
    let summary = with_store(&config, async |store| Ok(summary(store, &library, &weekly).await?))?;
    let known = config.slack.channels().any(|known| known == channel);
    if summary.incidents == 0 && !known && args.state.config.is_some() {
        anstream::eprintln!(
            "the configuration sends no incident to {channel}: channels are compared as they are written"
        );
    }
    let summary = cleaned(&library, &summary)?;
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&summary)?),
        HealthOutput::Text => {
            let url = config.public_url.trim_end_matches('/');
            let pages = (!url.is_empty()).then(|| format!("{url}/incidents"));
            let words = Phrases::load(config.playbooks.dir.as_deref())?;
            outln!("{}", render::terminal(&render::weekly_message(&summary, pages.as_deref(), &words)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
