//! `completions`: prints a completion script for the shell, from the definition of the parser.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::cli::output::out;
use knowledge::playbook;

pub(super) fn run(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_playbooks(Cli::command()), "llm-diagnose", &mut script);
    out!("{}", String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

/// Adds the shipped playbooks as values of `diagnose --playbook`.
fn with_playbooks(cli: Command) -> Command {
    let Ok(library) = playbook::load(None) else { return cli };
    let ids: Vec<String> = library.playbooks.into_keys().collect();
    cli.mut_subcommand("diagnose", |c| c.mut_arg("playbook", |arg| arg.value_parser(PossibleValuesParser::new(ids))))
}
