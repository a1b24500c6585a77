//! `audit`: prints the audit log.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::args::{HealthOutput, StateArgs, window};
use super::store::with_store;
use crate::cli::output::outln;
use knowledge::clock;
use render::clean;

/// The arguments of `audit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 done, 2 wrong use.\nThe log is kept as long as incidents are (`incident.keep`)."
)]
pub struct AuditArgs {
    /// The store.
    #[command(flatten)]
    pub state: StateArgs,
    /// The age of the oldest entry: 24h, 30d.
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = window)]
    pub since: Duration,
    /// Maximum number of entries, the newest.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub most: u32,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

pub(super) fn run(args: AuditArgs) -> anyhow::Result<ExitCode> {
    let since = clock::before(clock::now(), args.since);
    let entries = with_store(&args.state.config()?, async |store| Ok(store.audited(since, args.most).await?))?;
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&entries)?),
        HealthOutput::Text => {
            for entry in &entries {
                let on: Vec<&str> = [entry.incident.as_deref().unwrap_or_default(), &entry.target]
                    .into_iter()
                    .filter(|on| !on.is_empty())
                    .collect();
                let who = if entry.who.is_empty() { "(by itself)" } else { &entry.who };
                let line = format!(
                    "{}  {:8}  {who} in {}: {} {}  {}",
                    entry.at.strftime("%Y-%m-%d %H:%M:%S UTC"),
                    entry.result.as_str(),
                    entry.place,
                    entry.what,
                    on.join(" "),
                    entry.detail,
                );
                // Users' text must not add lines or terminal colours.
                outln!("{}", clean(line.trim_end()));
            }
            if entries.is_empty() {
                outln!("there are no acts");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the user of this terminal, for the audit log.
pub(super) fn acting() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    format!("cli:{}", user.as_deref().unwrap_or("unknown"))
}
