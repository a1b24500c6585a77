//! The arguments of `backtest`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::args::{HealthOutput, baseline, label, window};
use findings::Baseline;
use knowledge::clock::TimeArgument;

/// The arguments of `backtest`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 it saw everything and there is nothing to change, 1 findings (a rule that is noise, a symptom without a rule), \
or it did not see everything or ended early, 2 wrong use, 3 Prometheus did not answer, from the start or midway.\n\
Examples:\n  llm-diagnose backtest --since 30d --prometheus http://prometheus:9090 --html backtest.html\n  \
llm-diagnose backtest --firings webhooks.jsonl --labels causes.yaml --output json\n\
A file of --labels names a firing by its id, or by its alert and a time: `LLMHighTTFT 2026-11-20T03:05:00Z: traffic-surge`; \
the cause is an id, `none` or `other`."
)]
pub struct BacktestArgs {
    /// The length of the range.
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = window)]
    pub since: Duration,
    /// The end of the range [default: now].
    #[arg(long, value_name = "TIME", value_parser = TimeArgument::parse)]
    pub until: Option<TimeArgument>,
    /// Past firings as JSON: webhook bodies of Alertmanager or single alerts, one after the other; `-` reads standard
    /// input. Without it they are read from Prometheus' series `ALERTS`.
    #[arg(long, value_name = "FILE|-")]
    pub firings: Option<String>,
    /// Only firings and pools with this label; repeat for more. `model`, `namespace` and `cluster` fit each spelling of the
    /// label; with another label, the pools of its firings count.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub only: Vec<(String, String)>,
    /// The true causes of firings, as YAML.
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Take true causes from users' feedback too; needs the service's configuration, for its store.
    #[arg(long, requires = "config")]
    pub feedback: bool,
    /// Maximum number of diagnosed firings; the newest of each rule count.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_firings: u32,
    /// Maximum number of pools whose history is read; those with the most firings count.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub max_pools: u32,
    /// Maximum number of queries; it stops when they are used up.
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_queries: u32,
    /// Maximum number of queries that run at the same time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub concurrency: u32,
    /// A pause after each diagnosis, and after each day of a pool's history.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = pause)]
    pub pause: Duration,
    /// Write a page with pictures, which works without a server.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The file that keeps the finished parts until the end, so that the same command goes on after an interruption
    /// [default: beside the file of --html; without either nothing is kept].
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Prometheus, or anything with its API. Of several configured ones, the first that fits --label is asked.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its Prometheus, store and playbooks.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The rate window [default: the configuration's, else 5m].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub window: Option<Duration>,
    /// The time offset of the baseline, `none` for no baseline [default: the configuration's, else 1d].
    #[arg(long, value_name = "DURATION|none", value_parser = baseline)]
    pub baseline: Option<Baseline>,
    /// The time limit for the answers to one diagnosis [default: the configuration's, else 10s; longer where --concurrency is
    /// less than the service's, twice as long with 4].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// Print no progress.
    #[arg(long, short)]
    pub quiet: bool,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

fn pause(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(pause) if pause <= Duration::from_secs(60) => Ok(pause),
        Ok(_) => Err("expected at most 60s".to_owned()),
        Err(_) => Err("expected a duration such as 0s, 200ms, 1s".to_owned()),
    }
}
