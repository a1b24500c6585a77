//! `mcp`: the Model Context Protocol over standard input and output, for a language model's client on this machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;

use super::args::{SourceArgs, StateArgs};
use super::{ask, configured_library, redactor};
use prom::Prometheus;
use render::Phrases;
use service::config::{Config, visit_store};
use service::questions::Turns;
use sources::exporter::ExporterReader;
use store::StoreAccess;
use web::mcp::{McpServer, McpSources};

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

pub(super) fn run(args: McpArgs) -> anyhow::Result<ExitCode> {
    let mut config = args.state.config()?;
    args.sources.put_into(&mut config);
    if let Some(url) = &args.prometheus {
        config.prometheus = vec![prom::Config { url: url.clone(), ..prom::Config::default() }];
    }
    let library = configured_library(args.playbooks.as_deref(), &config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let sources = sources(&args, config, library).await?;
        McpServer::new(sources).serve_stdio().await
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn sources(args: &McpArgs, config: Config, library: knowledge::playbook::Library) -> anyhow::Result<McpSources> {
    let prometheus = Prometheus::sharing(&config.prometheus)?;
    let has_store = args.state.config.is_some() || args.state.state_dir.is_some();
    let store = match has_store {
        true => visit_store(&config, StoreAccess::ReadOnly).await.map(Some),
        false => Ok(None),
    };
    // A configuration is of use on a machine without the service, too.
    let store = store.unwrap_or_else(|error| {
        anstream::eprintln!("there are no tools about incidents: {error:#}");
        None
    });
    Ok(McpSources {
        prometheus,
        reader: ExporterReader::new(&config.exporters.allow).context("cannot prepare the HTTP client for exporters")?,
        logs: ask::logs(&config, &args.sources.logs).await?,
        store,
        redactor: redactor(&library)?,
        words: Arc::new(Phrases::load(config.playbooks.dir.as_deref())?),
        bundles: None,
        turns: Turns::default(),
        library: Arc::new(library),
        config,
    })
}
