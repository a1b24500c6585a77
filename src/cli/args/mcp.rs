//! The arguments of `mcp`.

use std::path::PathBuf;

use clap::Args;

use super::{SourceArgs, StateArgs};

/// The sources of the answers.
#[derive(Debug, Args)]
#[command(after_help = "Example of a client's configuration:\n  \
    { \"mcpServers\": { \"llm-diagnose\": { \"command\": \"llm-diagnose\", \"args\": [\"mcp\", \"--prometheus\", \"http://prometheus:9090\"] } } }")]
pub struct McpArgs {
    /// Prometheus, or anything with its API [default: the configuration's].
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// More sources.
    #[command(flatten)]
    pub sources: SourceArgs,
    /// The store; with it there are the tools about incidents.
    #[command(flatten)]
    pub state: StateArgs,
}
