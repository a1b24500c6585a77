//! `doctor`: prints the checks of everything that the service needs, and the signals that are there.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use super::args::{DoctorArgs, HealthOutput};
use super::store::block_on;
use super::{FINDINGS, NOT_ANSWERED};
use crate::cli::output::{out, outln};
use app::doctor::{Findings, run_checks};
use findings::health::SignalAvailability;
use knowledge::clip::format_error;
use service::check::{Level, ServiceCheck};
use service::config::Config;

pub(super) fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let mut findings = examine(&args)?;
    if !args.signals {
        findings.coverage.clear();
    }
    if !args.coverage {
        findings.studies.clear();
    }
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&findings)?),
        HealthOutput::Text => print(&findings),
    }
    let missing = findings.coverage.iter().flat_map(|c| &c.signals).any(|s| s.answer == SignalAvailability::Missing);
    let has_findings = missing || findings.checks.iter().any(|check| !check.is_ok());
    Ok(match (findings.prometheus_unavailable, has_findings) {
        (true, _) => ExitCode::from(NOT_ANSWERED),
        (false, true) => ExitCode::from(FINDINGS),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Runs the checks.
pub(super) fn examine(args: &DoctorArgs) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let config = configuration(&mut findings, args);
    let dir = args.playbooks.clone().or_else(|| config.as_ref()?.playbooks.dir.clone());
    let prometheuses = match (&args.prometheus, &config) {
        (Some(url), _) => vec![prom::Config { url: url.clone(), ..prom::Config::default() }],
        (None, Some(config)) => config.prometheus.clone(),
        (None, None) => Vec::new(),
    };
    let signals = args.signals;
    let signals = signals || args.coverage;
    block_on(async {
        run_checks(&mut findings, config.as_ref(), dir.as_deref(), &prometheuses, signals, &args.names).await;
        Ok(findings)
    })
}

fn configuration(findings: &mut Findings, args: &DoctorArgs) -> Option<Config> {
    let Some(path) = &args.config else {
        findings.ok("configuration", "no file: flags, environment and defaults".to_owned());
        return Some(Config::default());
    };
    match Config::load(path) {
        Ok(config) => {
            findings.ok("configuration", format!("{} is valid", path.display()));
            Some(config)
        }
        Err(error) => {
            let todo = "correct the line; config/llm-diagnose.example.yaml has every key";
            findings.say("configuration", Level::Fail, format_error(&error), todo);
            None
        }
    }
}

/// Prints the findings for people.
pub(super) fn print(findings: &Findings) {
    let width = findings.checks.iter().map(|f| f.name.chars().count()).max().unwrap_or_default();
    for ServiceCheck { name, level, found, todo } in &findings.checks {
        let (word, colour) = match level {
            Level::Ok => ("ok", AnsiColor::Green),
            Level::Warn => ("warn", AnsiColor::Yellow),
            Level::Fail => ("FAIL", AnsiColor::Red),
        };
        let tone = Style::new().bold().fg_color(Some(colour.into()));
        let gap = " ".repeat(width + 7);
        let found = found.lines().collect::<Vec<_>>().join(&format!("\n{gap}"));
        outln!("{tone}{word:<4}{tone:#}  {name:<width$} {found}");
        if let Some(todo) = todo {
            outln!("{gap}→ {todo}");
        }
    }
    let words = render::Phrases::english();
    findings.coverage.iter().for_each(|coverage| out!("{}", render::coverage(coverage, &words)));
    findings.studies.iter().for_each(|studies| out!("{}", render::studies(studies, &words)));
}
