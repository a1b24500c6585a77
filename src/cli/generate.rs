//! `generate`: rules, dashboard, runbooks, schemas and the format's reference from the playbooks and their types.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use super::args::{GenerateArgs, GenerateCommand, RuleKind};
use super::{Cli, output, whole_library};
use crate::cli::output::out;
use authoring::generate;
use chat::command::document;
use knowledge::playbook::Library;
use service::config::Config;

pub(super) fn run(args: GenerateArgs) -> anyhow::Result<ExitCode> {
    let (text, output) = match args.what {
        GenerateCommand::Rules { kind, playbooks, config, window, hold, runbook_base, output } => {
            let library = match configured(playbooks.as_deref(), config.as_deref())? {
                Ok(library) => library,
                Err(code) => return Ok(code),
            };
            let options = generate::RuleOptions { window, hold, runbook_base };
            let text = match kind {
                RuleKind::Prometheus => generate::rules(&library, &options)?,
                RuleKind::PrometheusRule => generate::prometheus_rule(&library, &options)?,
            };
            (text, output)
        }
        GenerateCommand::Dashboard { playbooks, config, runbook_base, output } => {
            let library = match configured(playbooks.as_deref(), config.as_deref())? {
                Ok(library) => library,
                Err(code) => return Ok(code),
            };
            let dashboard = generate::dashboard(&library, &runbook_base);
            (format!("{}\n", serde_json::to_string_pretty(&dashboard)?), output)
        }
        GenerateCommand::Runbooks { playbooks, output } => {
            let library = match whole_library(playbooks.as_deref()) {
                Ok(library) => library,
                Err(code) => return Ok(code),
            };
            std::fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
            let runbooks = library.playbooks.values();
            let runbooks = runbooks.map(|p| (format!("{}.md", p.playbook), generate::runbook(&library, p)));
            for (name, text) in runbooks.chain(generate::tables(&library)) {
                let page = output.join(name);
                output::write(&page, text.as_bytes())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        GenerateCommand::Man { output } => {
            std::fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
            let written = clap_mangen::generate_to(Cli::command(), &output);
            written.with_context(|| format!("cannot write into {}", output.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        GenerateCommand::WebhookSchema { output } => {
            (format!("{}\n", serde_json::to_string_pretty(&notify::webhook_schema())?), output)
        }
        GenerateCommand::ReportSchema { output } => {
            (format!("{}\n", serde_json::to_string_pretty(&report::schema())?), output)
        }
        GenerateCommand::Openapi { output } => {
            (format!("{}\n", serde_json::to_string_pretty(&web::openapi(""))?), output)
        }
        GenerateCommand::BacktestSchema { output } => {
            (format!("{}\n", serde_json::to_string_pretty(&report::backtest::schema())?), output)
        }
        GenerateCommand::Commands { output } => (document(), output),
        GenerateCommand::Format { output } => (generate::format_reference(), output),
        GenerateCommand::Schema { of, output } => {
            (format!("{}\n", serde_json::to_string_pretty(&generate::schema(of.as_deref()))?), output)
        }
    };
    match output.as_str() {
        "-" => out!("{text}"),
        path => output::write(Path::new(path), text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads the playbooks with what a configuration says about them; else the exit status of playbooks that are wrong.
fn configured(playbooks: Option<&Path>, config: Option<&Path>) -> anyhow::Result<Result<Library, ExitCode>> {
    let config = config.map(Config::load).transpose()?.unwrap_or_default();
    Ok(match whole_library(playbooks.or(config.playbooks.dir.as_deref())) {
        Ok(mut library) => {
            config.extend_library(&mut library)?;
            Ok(library)
        }
        Err(code) => Err(code),
    })
}
