//! `logs`: diagnoses engines' logs on a laptop.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::args::{HealthOutput, LogsArgs};
use super::{FINDINGS, USAGE, cleaned, library};
use crate::cli::output::{out, outln};
use knowledge::gap::Gap;
use knowledge::playbook::suggestion;
use logs::{NamedLogAnalysis, Patterns, files, first, stream};
use render::{Phrases, clean};

/// The version of the JSON output; a breaking change gets another version.
const SCHEMA: &str = "llm-diagnose/logs/v1";

#[derive(Serialize)]
struct LogsOutput<'a> {
    schema: &'static str,
    /// The log with the earliest root error.
    first: Option<&'a str>,
    logs: &'a [NamedLogAnalysis],
    /// Files that could not be read, each with the reason.
    missing: &'a [Gap],
}

pub(super) fn run(args: LogsArgs) -> anyhow::Result<ExitCode> {
    let library = library(args.playbooks.as_deref())?;
    let engines: Vec<&str> = library.logs.keys().map(String::as_str).collect();
    let patterns = match &args.engine {
        None => Patterns::new(library.logs.values()),
        Some(engine) if library.logs.contains_key(engine) => Patterns::of_engine(library.logs.values(), engine),
        Some(engine) => {
            let hint = suggestion(engine, engines.iter().copied()).unwrap_or_default();
            bail!("no log of `{engine}` is known, only of {} {hint}", engines.join(", "));
        }
    };
    let (piped, paths): (Vec<PathBuf>, Vec<PathBuf>) = args.files.iter().cloned().partition(|f| f == Path::new("-"));
    let mut logs = Vec::new();
    if !piped.is_empty() {
        logs.push(standard_input(&patterns)?);
    }
    let (log_files, mut missing) = files::find(&paths);
    for (path, meta) in &log_files {
        let bar = bar(meta.len());
        let analysis = files::stream(path, meta, &patterns, |file| bar.wrap_read(file));
        bar.finish_and_clear();
        match analysis {
            Ok(analysis) => logs.push(analysis),
            Err(why) => missing.push(Gap::failed(clean(&path.to_string_lossy()), why)),
        }
    }
    if !args.raw {
        let (shown, gaps) = cleaned(&library, &(logs.clone(), missing))?;
        logs = std::iter::zip(shown, &logs).map(|(shown, log)| shown.in_time_with(log)).collect();
        missing = gaps;
    }
    let first = first(&logs);
    match args.output {
        HealthOutput::Json => {
            let first = first.map(|log| log.name.as_str());
            let answer = LogsOutput { schema: SCHEMA, first, logs: &logs, missing: &missing };
            outln!("{}", serde_json::to_string_pretty(&answer)?);
        }
        HealthOutput::Text => {
            missing.iter().for_each(|gap| anstream::eprintln!("error: {} {}", gap.what, gap.reason.as_str()));
            if !logs.is_empty() {
                out!("{}", render::terminal(&render::logs(&logs, &engines, &Phrases::english())));
            }
        }
    }
    let has_failed = logs.iter().any(|log| log.report.tells_of_failure());
    Ok(match (has_failed, missing.is_empty()) {
        (true, _) => ExitCode::from(FINDINGS),
        (false, false) => ExitCode::from(USAGE),
        (false, true) => ExitCode::SUCCESS,
    })
}

fn standard_input(patterns: &Patterns<'_>) -> anyhow::Result<NamedLogAnalysis> {
    let read = stream::read(patterns, std::io::stdin().lock());
    let report = read.context("cannot read standard input to its end")?;
    Ok(NamedLogAnalysis { name: "standard input".to_owned(), pod: None, container: None, cut: false, report })
}

/// Creates a progress bar for a file; it draws only on a terminal. For a `.gz` it counts compressed bytes.
fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:30} {bytes} / {total_bytes}  {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
