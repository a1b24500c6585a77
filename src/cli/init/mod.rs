//! `init`: asks what a configuration needs, writes it with what Alertmanager and Slack need, and examines it.

mod answers;
mod files;

use std::fs;
use std::io::{IsTerminal, stdin};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::args::{DoctorArgs, HealthOutput};
use super::backup::quoted;
use super::{doctor, output};
use crate::cli::output::outln;
use answers::{ChosenTransport, Database};
use service::check::Level;

/// The arguments of `init`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 written, whatever the examination finds; 2 wrong use, or a file exists.\n\
Examples:\n  llm-diagnose init --into /etc/llm-diagnose\n  \
llm-diagnose init --yes --into . --prometheus http://prometheus:9090 --slack-channel '#llm-alerts' --slack-transport socket")]
pub struct InitArgs {
    /// The directory for the files; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "llm-diagnose")]
    into: PathBuf,
    /// Prometheus, or anything with its API [default: http://127.0.0.1:9090].
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL", value_parser = answers::address)]
    prometheus: Option<String>,
    /// The Slack channel, `#name` or its id; an empty one prints messages instead [default: empty].
    #[arg(long, value_name = "CHANNEL", env = "SLACK_CHANNEL", value_parser = answers::channel)]
    slack_channel: Option<String>,
    /// The transport of Slack's buttons and commands: `socket` needs no public address, `http` calls --public-url [default:
    /// socket].
    #[arg(long, value_name = "socket|http", value_parser = answers::choice::<ChosenTransport>)]
    slack_transport: Option<ChosenTransport>,
    /// The database: `file` is SQLite, for one process; `postgresql` is for replicas [default: file].
    #[arg(long, value_name = "file|postgresql", value_parser = answers::choice::<Database>)]
    database: Option<Database>,
    /// The address under which people and Slack reach the service; empty for none [default: empty].
    #[arg(long, value_name = "URL", value_parser = answers::public_url)]
    public_url: Option<String>,
    /// The address under which Alertmanager reaches the service; never asked for.
    #[arg(long, value_name = "URL", default_value = "http://llm-diagnose:9098", value_parser = answers::address)]
    webhook_url: String,
    /// Ask nothing: what no flag says gets its default.
    #[arg(long)]
    yes: bool,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: InitArgs) -> anyhow::Result<ExitCode> {
    // The service may be started in another directory.
    let dir = std::path::absolute(&args.into).with_context(|| format!("cannot use {}", args.into.display()))?;
    ensure!(dir.to_str().is_some(), "{} is no UTF-8, so no file can name it: pass another --into DIR", dir.display());
    let files = files::paths(&dir);
    // All are checked before the first question and the first write.
    for path in &files {
        output::check(path)?;
        if path.exists() && !args.force {
            bail!("{} exists, nothing was written: pass --force to replace it, or another --into DIR", path.display());
        }
    }
    let asks = !args.yes && stdin().is_terminal();
    if !args.yes && !asks {
        answers::complete(&args)?;
    }
    let setup = answers::setup(&args, asks)?;
    let secrets = dir.join(files::SECRETS);
    let made = fs::create_dir_all(&dir).and_then(|()| match secrets.is_dir() {
        true => Ok(()),
        false => fs::DirBuilder::new().mode(0o700).create(&secrets),
    });
    made.with_context(|| format!("cannot create {}", secrets.display()))?;
    for (path, text) in files.iter().zip(files::texts(&setup, &dir)) {
        output::write(path, text.as_bytes())?;
        outln!("wrote {}", path.display());
    }
    let [config, alertmanager, manifest] = &files;
    outln!(
        "\nNo secret was asked for or written. Each goes into a file that the service's user can read and others cannot:"
    );
    for (file, what) in files::secrets(&setup, &dir) {
        outln!("  {}\n      {what}", quoted(&file)?);
    }
    outln!("Alertmanager: add the routes, receivers and inhibit rule of {}", quoted(alertmanager)?);
    outln!("      it sends to {}; --webhook-url names another address", setup.webhook_url);
    if !setup.channel.is_empty() {
        outln!("Slack: make the app from the manifest {} at https://api.slack.com/apps", quoted(manifest)?);
    }
    examine(config)
}

/// Runs `doctor` on the written configuration, and prints the next command.
fn examine(config: &Path) -> anyhow::Result<ExitCode> {
    let examination = DoctorArgs {
        config: Some(config.to_owned()),
        prometheus: None,
        playbooks: None,
        names: Vec::new(),
        signals: false,
        coverage: false,
        output: HealthOutput::Text,
    };
    outln!("\nllm-diagnose doctor --config {}", quoted(config)?);
    let findings = doctor::examine(&examination)?;
    doctor::print(&findings);
    // `serve` starts without Prometheus and Slack, but not without its secrets.
    let failed = findings.checks.iter().filter(|finding| finding.level == Level::Fail).count();
    match failed {
        0 => outln!("\nNext:\n  llm-diagnose serve --config {}", quoted(config)?),
        _ => outln!("\nNext, after fixing each FAIL:\n  llm-diagnose doctor --config {}", quoted(config)?),
    }
    Ok(ExitCode::SUCCESS)
}
