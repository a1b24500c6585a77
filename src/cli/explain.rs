//! `explain`: prints the explanation of a term.

use std::process::ExitCode;

use anyhow::bail;

use super::args::ExplainArgs;
use super::store::with_store;
use super::{USAGE, library};
use crate::cli::output::out;
use authoring::explain::{explain, queries_about, queries_of};
use knowledge::playbook::Library;

pub(super) fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let library = library(args.playbooks.as_deref())?;
    if args.queries {
        return queries(&args, &library);
    }
    match explain(&library, &args.what.id, args.what.name.as_deref()) {
        Ok(text) => {
            out!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            anstream::eprintln!("error: {problem}");
            Ok(ExitCode::from(USAGE))
        }
    }
}

/// Prints the queries of a named item of the data, else those of an incident's diagnosis.
fn queries(args: &ExplainArgs, library: &Library) -> anyhow::Result<ExitCode> {
    let id = &args.what.id;
    if let Some(text) = queries_about(library, id, &args.labels) {
        if text.is_empty() {
            bail!("`{id}` has no queries: nothing of it is read from Prometheus");
        }
        out!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    // An incident's id is a ULID of 26 characters; any other text is a mistyped name.
    if id.len() != 26 {
        match explain(library, id, None) {
            Ok(_) => bail!("`{id}` has no queries"),
            Err(problem) => bail!("{problem}"),
        }
    }
    if !args.labels.is_empty() {
        bail!("--label narrows a playbook, cause or signal: the queries of an incident have their labels already");
    }
    let incident = with_store(&args.state.config()?, async |store| Ok(store.incident(id).await?))?;
    match incident.map(|incident| incident.diagnosis) {
        Some(Some(diagnosis)) => out!("{}", queries_of(&diagnosis)),
        Some(None) => {
            bail!(
                "nothing was asked for the incident `{id}`: no playbook knows its alerts and their labels name no pool, or it is not diagnosed yet"
            )
        }
        None => bail!("there is no incident `{id}`: `llm-diagnose incidents all` lists them"),
    }
    Ok(ExitCode::SUCCESS)
}
