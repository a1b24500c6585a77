//! `new`: writes the skeleton of a signal, a cause, a playbook, or a change to what is shipped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;

use super::backup::quoted;
use super::{output, whole_library};
use crate::cli::output::outln;
use authoring::generate::skeleton::{NewFile, NewSignal};
use authoring::generate::{skeleton, skeleton_change};
use knowledge::playbook::PlaybookKind;
use knowledge::signal::Unit;
use render::own_phrases;

/// The arguments of `new`.
#[derive(Debug, Args)]
#[command(after_help = "What is to be filled in is marked with TODO; `llm-diagnose check DIR` lists it.\n\
Examples:\n  llm-diagnose new playbook chat-slow --into DIR\n  llm-diagnose new override kv-cache-full --into DIR\n  \
llm-diagnose new phrase do-now --into DIR\n  \
llm-diagnose new signal kv_offload_rate --engine vllm --query 'sum by ($by) (rate(vllm:kv_offload_total{$scope}[$window]))' --into DIR")]
pub struct NewArgs {
    /// The skeleton.
    #[command(subcommand)]
    what: NewCommand,
    /// A directory of playbooks: your own, or that of a checkout; created if it does not exist.
    #[arg(long, global = true, value_name = "DIR", default_value = "playbooks")]
    into: PathBuf,
}

/// The skeletons.
#[derive(Debug, Subcommand)]
enum NewCommand {
    /// A signal with the query of one engine; for a known signal the query alone.
    Signal {
        /// The name: lower-case words joined by `_`.
        id: String,
        /// The engine that exports it.
        #[arg(long, value_name = "ENGINE")]
        engine: String,
        /// PromQL with `$scope` (last in its braces) for the pool's matchers, `$window` for the rate window, `$by` for a replica's labels.
        #[arg(long, value_name = "PROMQL", value_parser = not_blank)]
        query: String,
        /// The unit of its value, such as `seconds`.
        #[arg(long, value_name = "UNIT", value_parser = word::<Unit>)]
        unit: Option<Unit>,
        /// The title: a few words that fit into a sentence.
        #[arg(long, value_name = "TEXT", value_parser = not_blank)]
        title: Option<String>,
        /// Put the query in the place of the engine's own; what is read directly from the engine stays.
        #[arg(long)]
        replace: bool,
    },
    /// A leaf that several playbooks share.
    Cause {
        /// The id: lower-case words joined by `-`.
        id: String,
    },
    /// A playbook and its verdict test.
    Playbook {
        /// The id: lower-case words joined by `-`.
        id: String,
        /// `symptom` is what users feel, `mechanism` a link between symptoms and leaves.
        #[arg(long, value_name = "symptom|mechanism", value_parser = word::<PlaybookKind>, default_value = "symptom")]
        kind: PlaybookKind,
    },
    /// Changes to a shipped playbook or cause: conditions, steps, further causes and names of alerts.
    Override {
        /// The id of a playbook, of a cause, or of a leaf inside a playbook.
        id: String,
    },
    /// A shipped sentence, to be said differently.
    Phrase {
        /// The name, as in `playbooks/phrases/en`.
        key: String,
    },
}

pub(super) fn run(args: NewArgs) -> anyhow::Result<ExitCode> {
    let dir = args.into.as_path();
    let library = whole_library(dir.exists().then_some(dir))?;
    let dir_argument = quoted(dir)?;
    let (files, explain) = match &args.what {
        NewCommand::Playbook { id, kind } => (
            skeleton::playbook(&library, id, *kind),
            Some(format!("llm-diagnose explain {id} --playbooks {dir_argument}")),
        ),
        // `explain` knows a cause by the playbooks that list it.
        NewCommand::Cause { id } => (skeleton::cause(&library, id), None),
        NewCommand::Override { id } => (
            skeleton_change::override_of(&library, id),
            library.playbook(id).map(|p| format!("llm-diagnose explain {} --playbooks {dir_argument}", p.playbook)),
        ),
        NewCommand::Phrase { key } => {
            let own = own_phrases(dir);
            if let Some(problem) = own.unreadable.first() {
                bail!("{} {}", problem.file, problem.message);
            }
            (skeleton_change::phrase(&own.files, dir, key), None)
        }
        NewCommand::Signal { id, engine, query, unit, title, replace } => {
            let new = NewSignal { id, engine, query, unit: *unit, title: title.as_deref(), replace: *replace };
            let explain = format!("llm-diagnose explain --queries {id} --playbooks {dir_argument}");
            (skeleton::signal(&library, new), Some(explain))
        }
    };
    // All are checked before the first is written: a file that exists leaves no half of a skeleton.
    let files = files?;
    let mut fresh = files.iter().filter(|file| !file.grown).map(|file| dir.join(&file.path));
    if let Some(path) = fresh.find(|path| path.exists()) {
        bail!("{} exists: nothing was written", path.display());
    }
    for file in &files {
        let path = write(dir, file)?;
        outln!("{} {}", if file.grown { "added to" } else { "wrote" }, path.display());
    }
    outln!("\nNext; `check` lists each TODO that is left:");
    let commands = [format!("llm-diagnose check {dir_argument}"), format!("llm-diagnose test {dir_argument}")];
    for command in commands.into_iter().chain(explain) {
        outln!("  {command}");
    }
    // Only the project's own data has generated files beside it.
    if dir.join("schema.json").exists() {
        outln!("  make generate");
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file: a fresh one never replaces another, a grown one replaces the old text as a whole. Returns its path.
fn write(dir: &Path, file: &NewFile) -> anyhow::Result<PathBuf> {
    let path = dir.join(&file.path);
    let failed = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(failed)?;
    }
    if file.grown {
        output::write(&path, file.text.as_bytes())?;
    } else {
        let fresh = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        fresh.and_then(|mut open| open.write_all(file.text.as_bytes())).with_context(failed)?;
    }
    Ok(path)
}

/// Parses one of the words of the data.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// Parses a text with something to read in it.
fn not_blank(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}
