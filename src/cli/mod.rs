//! The command line: parsing, and one file per command.

mod args;
mod ask;
mod audit;
mod backtest;
mod backup;
mod bundle;
mod capacity;
mod check;
mod command;
mod completions;
mod diagnose;
mod doctor;
mod engines;
mod explain;
mod feedback;
mod generate;
pub(crate) mod health;
mod init;
mod input;
mod load_test;
mod logs;
mod mcp;
mod new;
mod output;
mod past;
mod postmortem;
mod printed_diagnosis;
mod saved;
mod selftest;
mod serve;
mod silence;
mod store;
mod weekly;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use command::Cli;

use knowledge::clip::{format_count, format_error};
use knowledge::playbook::{Library, Lint, Problem, load as loaded};
use redact::Redactor;
use report::redaction;
use service::config::Config;

/// Exit status when there are findings.
const FINDINGS: u8 = 1;
/// Exit status of wrong usage.
const USAGE: u8 = 2;
/// Exit status of `health` for wrong usage: to a monitoring system 2 means critical.
const UNKNOWN: u8 = 3;

/// Exit status when neither Prometheus nor an engine could be read.
const NOT_ANSWERED: u8 = 3;

/// Compiles the rules of redaction.
fn redactor(library: &Library) -> anyhow::Result<Redactor> {
    Redactor::new(&redaction(library), false).context("cannot read the rules of redaction")
}

/// Returns a value that is printed without secrets: a terminal is often copied into a ticket.
fn cleaned<T: Serialize + DeserializeOwned>(library: &Library, value: &T) -> anyhow::Result<T> {
    let redactor = redactor(library)?;
    redactor.learn_from(value);
    redactor.cleaned("output", value).context("cannot clean the answer of secrets")
}

/// Parses the arguments, runs the command, and returns its exit status.
pub fn main() -> ExitCode {
    let wrong = match std::env::args_os().nth(1) {
        Some(command) if command == "health" => UNKNOWN,
        _ => USAGE,
    };
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) => {
            // The terminal may be closed; then the message has no reader.
            let _ = help.print();
            return if help.use_stderr() { ExitCode::from(wrong) } else { ExitCode::SUCCESS };
        }
    };
    match cli.command.run() {
        Ok(_) if output::failed() => ExitCode::from(wrong),
        Ok(code) => code,
        Err(error) => match error.downcast_ref() {
            Some(Printed(code)) => ExitCode::from(code.unwrap_or(wrong)),
            None => {
                anstream::eprintln!("error: {}", format_error(&error));
                ExitCode::from(wrong)
            }
        },
    }
}

/// Problems of the playbooks that are printed already; the exit status is that of wrong usage, or this one.
#[derive(Debug, Clone, Copy)]
struct Printed(Option<u8>);

impl std::fmt::Display for Printed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the playbooks cannot be used")
    }
}

impl std::error::Error for Printed {}

/// Loads the library, or prints its problems; tells in a line what of the user's changes is left out.
fn library(dir: Option<&Path>) -> Result<Library, Printed> {
    let library = loaded(dir).map_err(|problems| printed(&problems, None))?;
    if let (Some(first), Some(dir)) = (library.left_out.first(), dir) {
        let (count, dir) = (format_count(library.left_out.len(), "change"), dir.display());
        let (file, line, message) = (&first.file, first.line, &first.message);
        anstream::eprintln!(
            "warning: {count} to the shipped data left out, first {file}:{line}: {message}; run `llm-diagnose check {dir}`\n"
        );
    }
    Ok(library)
}

/// As [`library`], with the configuration's pools; without a directory that of the configuration is used.
fn configured_library(dir: Option<&Path>, config: &Config) -> anyhow::Result<Library> {
    let mut library = library(dir.or(config.playbooks.dir.as_deref()))?;
    config.extend_library(&mut library)?;
    Ok(library)
}

/// Loads a command's configuration, or the defaults without one.
fn configuration(file: Option<&Path>) -> anyhow::Result<Config> {
    Ok(file.map(Config::load).transpose()?.unwrap_or_default())
}

/// As [`library`], for what must not be made of half of the user's changes.
fn whole_library(dir: Option<&Path>) -> Result<Library, Printed> {
    let library = loaded(dir).map_err(|problems| printed(&problems, Some(FINDINGS)))?;
    // A step that is to be filled in is no change yet.
    let unfit: Vec<Problem> = library.left_out.iter().filter(|p| p.lint != Lint::FilesTodo).cloned().collect();
    if unfit.is_empty() { Ok(library) } else { Err(printed(&unfit, Some(FINDINGS))) }
}

fn printed(problems: &[Problem], code: Option<u8>) -> Printed {
    for problem in problems {
        anstream::eprintln!("{problem}\n");
    }
    anstream::eprintln!("{} in the playbooks", format_count(problems.len(), "problem"));
    Printed(code)
}
