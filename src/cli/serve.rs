//! `serve`: the service.

use std::process::ExitCode;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::args::ServeArgs;
use super::library;
use crate::config::{Config, LogFormat, state_directory};
use crate::{app, prom, telemetry};

pub(super) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let ServeArgs { config, prometheus, listen, state_dir, slack_channel, playbooks } = args;
    let mut settings = match &config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    if let Some(url) = prometheus {
        settings.prometheus = vec![prom::Config { url, ..prom::Config::default() }];
    }
    settings.listen = listen.unwrap_or(settings.listen);
    settings.state_dir = match state_dir {
        Some(dir) => dir,
        None => state_directory(&settings),
    };
    settings.slack.channel = slack_channel.unwrap_or(settings.slack.channel);
    settings.playbooks.dir = playbooks.or(settings.playbooks.dir);
    telemetry::start_logging(settings.log == LogFormat::Json);
    let mut library = match library(settings.playbooks.dir.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    settings.extend_library(&mut library)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&settings.listen)
            .await
            .with_context(|| format!("cannot listen on {}: set `listen` to a free address", settings.listen))?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        app::run(settings, library, listener, stop).await
    })?;
    Ok(ExitCode::SUCCESS)
}
