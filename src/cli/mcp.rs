//! `mcp`: the Model Context Protocol over standard input and output, for a language model's client on this machine.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use super::args::McpArgs;
use super::{ask, configured_library, redactor};
use prom::Prometheus;
use render::Phrases;
use service::config::{Config, visit_store};
use service::questions::Turns;
use sources::exporter::ExporterReader;
use store::StoreAccess;
use web::mcp::{McpServer, McpSources};

pub(super) fn run(args: &McpArgs) -> anyhow::Result<ExitCode> {
    let mut config = args.state.config()?;
    args.sources.put_into(&mut config);
    if let Some(url) = &args.prometheus {
        config.prometheus = vec![prom::Config { url: url.clone(), ..prom::Config::default() }];
    }
    let library = configured_library(args.playbooks.as_deref(), &config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let sources = sources(args, config, library).await?;
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
