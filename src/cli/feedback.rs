//! `feedback`: prints users' feedback on the named causes, and exports verdict tests from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::args::{HealthOutput, StateArgs};
use super::store::with_store;
use super::{library, output};
use crate::cli::output::outln;
use authoring::check::verdict_test;
use knowledge::clip::format_count;
use render::clean;
use store::{Feedback, Incident};

/// The arguments of `feedback`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 done, 2 wrong use.\n\
Each file of --export is a verdict test with the values that the diagnosis saw; `llm-diagnose test DIR` runs them.")]
pub struct FeedbackArgs {
    /// The store.
    #[command(flatten)]
    pub state: StateArgs,
    /// Write each incident with feedback as a verdict test into this directory.
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

pub(super) fn run(args: FeedbackArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    let library = library(config.playbooks.dir.as_deref())?;
    let (all, rated) = with_store(&config, async |store| {
        let all = store.feedback().await?;
        // The last feedback on an incident counts.
        let last: BTreeMap<&str, &Feedback> =
            all.iter().map(|feedback| (feedback.incident.as_str(), feedback)).collect();
        let mut rated: Vec<(Incident, Feedback)> = Vec::new();
        for (id, feedback) in last {
            let incident = store.each(&[id.to_owned()]).await?.pop();
            rated.extend(incident.map(|incident| (incident, feedback.clone())));
        }
        Ok((all, rated))
    })?;
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&all)?),
        HealthOutput::Text => {
            for feedback in &all {
                let word = if feedback.is_right { "right" } else { "wrong" };
                let line = format!(
                    "{}  {}  {word}: {} ─▶ {}  {} {}",
                    feedback.at.strftime("%Y-%m-%d %H:%M UTC"),
                    feedback.incident,
                    feedback.named,
                    feedback.cause,
                    feedback.who,
                    feedback.comment
                );
                outln!("{}", clean(line.trim_end()));
            }
        }
    }
    let right = all.iter().filter(|feedback| feedback.is_right).count();
    anstream::eprintln!("{} of {} said right", right, format_count(all.len(), "judgement"));
    if let Some(dir) = &args.export {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
        let mut written = 0_usize;
        for (incident, feedback) in &rated {
            match verdict_test(&library, incident, feedback) {
                Ok(text) => {
                    write(dir, &incident.id, &text)?;
                    written += 1;
                }
                Err(why) => anstream::eprintln!("left out {}: {why}", incident.id),
            }
        }
        anstream::eprintln!("wrote {} to {}", format_count(written, "verdict test"), dir.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn write(dir: &Path, id: &str, text: &str) -> anyhow::Result<()> {
    let path = dir.join(format!("incident-{}.test.yaml", id.to_ascii_lowercase()));
    output::write(&path, text.as_bytes())
}
