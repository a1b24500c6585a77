//! `diagnose benchmarks.json`: the verdict on a load test, from the report of what its clients saw at each step of the load.

mod read;
mod text;
mod verdict;

use std::process::ExitCode;

use anyhow::{Context, ensure};

use super::args::{DiagnoseArgs, FailOn, Output};
use super::output::{out, outln};
use super::{FINDINGS, NOT_ANSWERED, cleaned};
use knowledge::playbook::Library;
use render::Phrases;
use service::config::Config;
use verdict::{LoadState, judge};

/// Judges the reports with these names; `None` if the first of them is none.
///
/// # Errors
/// If one cannot be read or has no finished step, or a flag contradicts them.
pub(super) fn run(
    args: &DiagnoseArgs,
    config: &Config,
    library: &Library,
    names: &[&str],
) -> anyhow::Result<Option<ExitCode>> {
    let Some(steps) = read::steps(names)? else {
        ensure!(args.fail_on.is_none(), "--fail-on reads the report of a load test, of GuideLLM or llm-d-benchmark");
        return Ok(None);
    };
    ensure!(
        args.watch.is_none() && args.apart.is_none() && matches!(args.output, Output::Text | Output::Json),
        "the report of a load test takes --output text or json, and neither --watch nor --apart"
    );
    let verdict = cleaned(library, &judge(steps))?;
    let words = Phrases::load(config.playbooks.dir.as_deref())?;
    match args.output {
        Output::Json => outln!("{}", serde_json::to_string_pretty(&verdict).context("cannot print the verdict")?),
        _ => out!("{}", text::text(&verdict, &words)),
    }
    Ok(Some(match (args.fail_on, verdict.state) {
        (Some(FailOn::Saturated), LoadState::Saturated) => ExitCode::from(FINDINGS),
        (Some(FailOn::Saturated), LoadState::Unknown) => ExitCode::from(NOT_ANSWERED),
        _ => ExitCode::SUCCESS,
    }))
}
