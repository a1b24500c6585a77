//! `completions`: prints a completion script for the shell, from the definition of the parser.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::cli::output::out;
use knowledge::playbook;

/// The arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

pub(super) fn run(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_playbooks(Cli::command()), "llm-diagnose", &mut script);
    out!("{}", String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

/// Adds the shipped playbooks as values of `diagnose --playbook`.
fn with_playbooks(cli: Command) -> Command {
    let Ok(library) = playbook::load(None) else { return cli };
    let ids: Vec<String> = library.playbooks.into_keys().collect();
    cli.mut_subcommand("diagnose", |c| c.mut_arg("playbook", |arg| arg.value_parser(PossibleValuesParser::new(ids))))
}
