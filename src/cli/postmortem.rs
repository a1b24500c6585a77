//! `postmortem`: prints the draft of an incident's post-mortem.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::args::StateArgs;
use super::store::with_store;
use super::{library, redactor};
use crate::cli::output::outln;
use chat::named_id;
use knowledge::clock;
use notify::stored_view;
use render::Phrases;
use service::Subject;

/// Maximum number of events in the timeline.
const EVENTS: u32 = 10_000;

/// The arguments of `postmortem`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 done, 2 wrong use.\n\
Example:\n  llm-diagnose postmortem 4XQ7 --config /etc/llm-diagnose/llm-diagnose.yaml >postmortem.md")]
pub struct PostmortemArgs {
    /// The incident's id or its end; without it the newest incident.
    #[arg(value_name = "INCIDENT")]
    pub incident: Option<String>,
    /// The store.
    #[command(flatten)]
    pub state: StateArgs,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

pub(super) fn run(args: PostmortemArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    let playbooks = args.playbooks.as_ref().or(config.playbooks.dir.as_ref());
    let library = library(playbooks.map(PathBuf::as_path))?;
    let words = Phrases::load(config.playbooks.dir.as_deref())?;
    let now = clock::now();
    let subject = with_store(&config, async |store| {
        let ids = match &args.incident {
            Some(name) => named_id(store, name).await?,
            None => store.recent(1).await?,
        };
        let incident = match ids.as_slice() {
            [id] => store.incident_with_related(id).await?,
            [] => None,
            ids => bail!("several incidents are called so: {}", ids.join(", ")),
        };
        let Some(incident) = incident else { bail!("there is no such incident: `incidents all` lists them") };
        let events = store.events(&incident.id, EVENTS).await?;
        let headline = render::incident_message(&stored_view(&incident), &words).headline;
        let (diagnosing, margin) = (&config.diagnose, config.bundle.margin);
        Ok(Subject::of_incident(&library, incident, headline, &events, diagnosing, margin, now))
    })?;
    outln!("{}", service::postmortem(&library, &redactor(&library)?, &words, &subject, now)?);
    Ok(ExitCode::SUCCESS)
}
