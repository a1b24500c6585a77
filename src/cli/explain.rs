//! `explain`: prints what something is.

use std::process::ExitCode;

use super::args::ExplainArgs;
use super::{USAGE, library};
use crate::explain::explain;

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.playbooks.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    match explain(&library, &args.what.id, args.what.name.as_deref()) {
        Ok(text) => {
            anstream::print!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            anstream::eprintln!("error: {problem}");
            Ok(ExitCode::from(USAGE))
        }
    }
}
