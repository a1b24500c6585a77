//! `serve`: the service.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use super::args::ServeArgs;
use super::printed;
use app::reload;
use app::reload::Settings;
use knowledge::clip::format_count;
use knowledge::playbook;
use knowledge::playbook::{Library, Problem};
use service::config::{Config, LogFormat, state_directory};

pub(super) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let config = configuration(&args)?;
    let mut layers = vec![telemetry::log(config.log == LogFormat::Json)];
    let traces = telemetry::otlp::Traces::start();
    layers.extend(traces.layer());
    telemetry::start_logging(layers);
    traces.report();
    let library = playbook::load(config.playbooks.dir.as_deref());
    let library = library.map_err(|problems| printed(&problems, None))?;
    let first = settings(&args, config, library)?;
    let load = move || {
        let config = configuration(&args)?;
        let library = playbook::load(config.playbooks.dir.as_deref()).map_err(|problems| in_short(&problems))?;
        settings(&args, config, library)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let end = runtime.block_on(reload::serve(first, Arc::new(load)));
    // A file system that hangs must not keep the process.
    runtime.shutdown_background();
    traces.end();
    end.map(|()| ExitCode::SUCCESS)
}

/// Reads the configuration and puts the flags over it.
fn configuration(args: &ServeArgs) -> anyhow::Result<Config> {
    let ServeArgs { config, prometheus, listen, webhook_authentication, state_dir, slack_channel, playbooks } =
        args.clone();
    let mut settings = match &config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    if let Some(url) = prometheus {
        settings.prometheus = vec![prom::Config { url, ..prom::Config::default() }];
    }
    settings.listen = listen.unwrap_or(settings.listen);
    settings.webhook.authentication = webhook_authentication.unwrap_or(settings.webhook.authentication);
    settings.state_dir = match state_dir {
        Some(dir) => dir,
        None => state_directory(&settings),
    };
    settings.slack.channel = slack_channel.unwrap_or(settings.slack.channel);
    settings.playbooks.dir = playbooks.or(settings.playbooks.dir);
    Ok(settings)
}

fn settings(args: &ServeArgs, config: Config, mut library: Library) -> anyhow::Result<Settings> {
    config.extend_library(&mut library)?;
    Ok(Settings { config, library: Arc::new(library), file: args.config.clone() })
}

fn in_short(problems: &[Problem]) -> anyhow::Error {
    let first = problems.first().map(ToString::to_string).unwrap_or_default();
    anyhow::anyhow!("{} in the playbooks, the first: {first}", format_count(problems.len(), "problem"))
}
