//! The arguments of `capacity`: a model, GPUs, and the deployment.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use crate::cli::args::{HealthOutput, label, window};
use capacity::PlannedDeployment;
use knowledge::clock;

/// The arguments of `capacity`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 it fits or no GPU was given, 1 it does not fit, 2 wrong use, 3 Prometheus could not be asked.\n\
Nothing is downloaded: config.json is the model's file on Hugging Face, or in the engine's cache.\n\
Examples:\n  llm-diagnose capacity Llama-3.1-8B-Instruct/config.json --gpu H100 --max-model-len 32768\n  \
llm-diagnose capacity config.json --gpu 80GiB --tp 4 --kv-cache-dtype fp8 --label model_name=llama-70b --prometheus http://prometheus:9090\n  \
llm-diagnose capacity --label namespace=llm --prometheus http://prometheus:9090"
)]
pub struct CapacityArgs {
    /// The model's config.json; `-` reads standard input. Without it only the running pool is shown.
    #[arg(value_name = "FILE|-")]
    pub model: Option<String>,
    /// The deployment.
    #[command(flatten)]
    pub deployment: PlannedDeployment,
    /// A label of the running pool to compare with: namespace, model_name, cluster; repeat for more.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its Prometheus and playbooks.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The time of the comparison: RFC 3339 or unix seconds; defaults to now.
    #[arg(long, value_name = "TIME", value_parser = clock::parse_time)]
    pub at: Option<Timestamp>,
    /// The rate window [default: the configuration's, else 5m].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub window: Option<Duration>,
    /// The time limit for Prometheus' answers [default: the configuration's, else 10s].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}
