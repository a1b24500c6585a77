//! `incidents`, `accuracy` and `playbooks`: print data of the store and the library, without other sources.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::args::StateArgs;
use super::store::with_store;
use super::{cleaned, library};
use crate::cli::output::outln;
use chat::command::Which;
use chat::{command, listed, measured};
use knowledge::alert::{Labels, active, common_labels};
use knowledge::clock;
use knowledge::playbook::PlaybookKind;
use render::clean;
use store::Incident;

/// Maximum number of listed incidents.
const LISTED: u32 = 100;
/// One day.
const TODAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// The arguments of `incidents`.
#[derive(Debug, Args)]
pub struct IncidentsArgs {
    /// The filter.
    #[command(flatten)]
    pub what: command::Incidents,
    /// The store.
    #[command(flatten)]
    pub state: StateArgs,
}

pub(super) fn incidents(args: IncidentsArgs) -> anyhow::Result<ExitCode> {
    let which = args.what.which;
    let config = args.state.config()?;
    let library = library(config.playbooks.dir.as_deref())?;
    let since = (which == Which::Today).then(|| clock::before(clock::now(), TODAY));
    let incidents = with_store(&config, async |store| Ok(listed(store, which, since, LISTED).await?))?;
    if incidents.is_empty() {
        anstream::eprintln!("no such incident");
    }
    let labels: Vec<Labels> =
        incidents.iter().map(|incident| common_labels(&incident.alerts.iter().collect::<Vec<_>>())).collect();
    let labels = cleaned(&library, &labels)?;
    incidents.iter().zip(&labels).for_each(|(incident, labels)| line(incident, labels));
    Ok(ExitCode::SUCCESS)
}

/// Prints a line: `01K… open  2026-11-20 14:05 UTC  high-ttft ← longer-prompts (likely)  namespace=llm`; `labels` are
/// those that all alerts share, without secrets.
fn line(incident: &Incident, labels: &Labels) {
    let state = if incident.open { "open" } else { "over" };
    let story = match incident.diagnosis.as_ref().map(|d| (&d.symptom, d.root())) {
        Some((symptom, Some(root))) => format!("{} ← {}", symptom.title, root.title),
        Some((symptom, None)) => symptom.title.clone(),
        None => active(&incident.alerts).first().map(|alert| alert.name().to_owned()).unwrap_or_default(),
    };
    let labels: Vec<String> = labels
        .iter()
        .filter(|(name, _)| name.as_str() != "alertname" && name.as_str() != "severity")
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let since = incident.started_at.strftime("%Y-%m-%d %H:%M UTC");
    let text = format!("{}  {state}  {since}  {story}  {}", incident.id, labels.join(","));
    outln!("{}", clean(&text));
}

/// The arguments of `playbooks`.
#[derive(Debug, Args)]
pub struct PlaybooksArgs {
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

pub(super) fn playbooks(args: PlaybooksArgs) -> anyhow::Result<ExitCode> {
    let library = library(args.playbooks.as_deref())?;
    let bold = anstyle::Style::new().bold();
    let width = library.playbooks.keys().map(String::len).max().unwrap_or_default();
    for (kind, title) in [(PlaybookKind::Symptom, "Symptoms"), (PlaybookKind::Mechanism, "Mechanisms")] {
        outln!("{bold}{title}{bold:#}");
        for playbook in library.of_kind(kind) {
            outln!("  {:<width$}  {}", playbook.playbook, playbook.title);
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn accuracy(args: StateArgs) -> anyhow::Result<ExitCode> {
    let Some([mechanism, root, three, wrong, healthy]) = measured() else { bail!("docs/accuracy.md has no figures") };
    outln!("measured on simulated fleets (docs/accuracy.md)");
    for (label, figure) in [
        ("root cause right", root),
        ("mechanism right", mechanism),
        ("root among the first three", three),
        ("confident and wrong", wrong),
        ("blamed a healthy fleet", healthy),
    ] {
        outln!("  {label:<28}{figure}");
    }
    let ratings = args.config().and_then(|config| with_store(&config, async |store| Ok(store.found_right().await?)));
    match ratings {
        Ok((yes, no)) => outln!("as people here found: {yes} right, {no} wrong"),
        Err(error) => anstream::eprintln!("people's feedback on causes is not known: {error:#}"),
    }
    Ok(ExitCode::SUCCESS)
}
