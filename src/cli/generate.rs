//! `generate`: rules, dashboard, runbooks, schemas and the format's reference from the playbooks and their types.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use serde::Serialize;

use super::args::{GenerateArgs, GenerateCommand, RuleKind};
use super::{Cli, configuration, output, whole_library};
use crate::cli::output::out;
use authoring::generate;
use chat::command::document;
use knowledge::playbook::Library;

pub(super) fn run(args: GenerateArgs) -> anyhow::Result<ExitCode> {
    let (text, output) = match args.what {
        GenerateCommand::Rules { kind, playbooks, config, engines, labels, window, hold, runbook_base, output } => {
            let mut library = configured(playbooks.as_deref(), config.as_deref())?;
            if !engines.is_empty() {
                generate::keep_engines(&mut library, &engines)?;
            }
            if !labels.is_empty() {
                generate::keep_labels(&mut library, &labels);
            }
            let options = generate::RuleOptions { window, hold, runbook_base };
            let text = match kind {
                RuleKind::Prometheus => generate::rules(&library, &options)?,
                RuleKind::PrometheusRule => generate::prometheus_rule(&library, &options)?,
            };
            (text, output)
        }
        GenerateCommand::Dashboard { playbooks, config, runbook_base, output } => {
            let library = configured(playbooks.as_deref(), config.as_deref())?;
            let dashboard = generate::dashboard(&library, &runbook_base);
            (json(&dashboard)?, output)
        }
        GenerateCommand::Runbooks { playbooks, output } => {
            let library = whole_library(playbooks.as_deref())?;
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
        GenerateCommand::WebhookSchema(output) => (json(&notify::webhook_schema())?, output),
        GenerateCommand::ReportSchema(output) => (json(&report::schema())?, output),
        GenerateCommand::Openapi(output) => (json(&web::openapi(""))?, output),
        GenerateCommand::BacktestSchema(output) => (json(&::backtest::schema())?, output),
        GenerateCommand::Commands(output) => (document(), output),
        GenerateCommand::Format(output) => (generate::format_reference(), output),
        GenerateCommand::Lints(output) => (authoring::explain::lints()?, output),
        GenerateCommand::Schema { of, output } => (json(&generate::schema(of.as_deref()))?, output),
    };
    match output.output.as_str() {
        "-" => out!("{text}"),
        path => output::write(Path::new(path), text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Loads the playbooks with what a configuration says about them.
fn configured(playbooks: Option<&Path>, config: Option<&Path>) -> anyhow::Result<Library> {
    let config = configuration(config)?;
    let mut library = whole_library(playbooks.or(config.playbooks.dir.as_deref()))?;
    config.extend_library(&mut library)?;
    Ok(library)
}
