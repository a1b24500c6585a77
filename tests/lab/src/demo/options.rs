//! What the demo is asked for: a few arguments, and the environment that `make` passes on.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};

use super::scenario::Scenario;
use super::tour::MOST_STOPS;
use crate::sim::Fault;

/// A bad one has five peers, and some are left when most are lost.
const REPLICAS: usize = 6;

/// What to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What goes wrong, and what should be found.
    pub scenario: Scenario,
    /// Serving pods of the fleet, at least 4.
    pub replicas: usize,
    /// Whether everything stays up after the story.
    pub keep: bool,
    /// Stops of a tour through several faults, instead of the story of one.
    pub tour: Option<usize>,
    /// A directory for pictures of the incident's message and page, with which the story ends; none takes none.
    pub pictures: Option<PathBuf>,
    /// The product's binary.
    pub binary: PathBuf,
    /// Whether somebody asked for the help text only.
    pub help: bool,
}

impl Options {
    /// Reads arguments (without the program's name) and the variables `FAULT`, `MODE`, `KEEP` and `LLM_DIAGNOSE`.
    ///
    /// # Errors
    /// With what would have been right: an unknown fault comes with the list of all.
    pub fn read(
        mut arguments: impl Iterator<Item = String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let mut fault = variable("FAULT");
        let mut keep = variable("KEEP").is_some_and(|value| !matches!(value.trim(), "0" | "no" | "false"));
        let mut tour = match variable("MODE").as_deref().map(str::trim) {
            None => None,
            Some("tour") => Some(MOST_STOPS),
            Some(other) => bail!("MODE={other}: expected `tour`, or nothing for the story of one fault"),
        };
        let (mut replicas, mut pictures, mut help) = (None, None, false);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--keep" => keep = true,
                "--help" | "-h" => help = true,
                "--tour" => tour = Some(tour.unwrap_or(MOST_STOPS)),
                "--stops" => {
                    let number = arguments.next().context("--stops needs a number")?;
                    tour = Some(number.parse().with_context(|| format!("--stops {number}: expected a number"))?);
                }
                "--fault" => fault = Some(arguments.next().context("--fault needs a name")?),
                "--pictures" => pictures = Some(arguments.next().context("--pictures needs a directory")?.into()),
                "--replicas" => {
                    let number = arguments.next().context("--replicas needs a number")?;
                    let number = number.parse().with_context(|| format!("--replicas {number}: expected a number"))?;
                    replicas = Some(number);
                }
                other if other.starts_with('-') => bail!("unknown argument `{other}`\n\n{}", self::help()),
                name => fault = Some(name.to_owned()),
            }
        }
        ensure!(
            tour.is_none_or(|stops| (1..=MOST_STOPS).contains(&stops)),
            "--stops: expected 1 to {MOST_STOPS} of them"
        );
        ensure!(
            tour.is_none() || (fault.is_none() && replicas.is_none() && pictures.is_none()),
            "a tour has faults and fleets of its own: leave out FAULT, --replicas and --pictures, or the tour"
        );
        let replicas = replicas.unwrap_or(REPLICAS);
        ensure!((4..=32).contains(&replicas), "--replicas {replicas}: expected 4 to 32");
        let fault = fault.unwrap_or_else(|| "longer-prompts".to_owned());
        let scenario = Scenario::read(fault.trim(), replicas).map_err(|error| error.context(faults()))?;
        let binary = variable("LLM_DIAGNOSE").map(PathBuf::from).map_or_else(beside, Ok)?;
        Ok(Self { scenario, replicas, keep, tour, pictures, binary, help })
    }
}

/// `llm-diagnose` in the directory of the running program, where cargo puts both.
fn beside() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(own.with_file_name("llm-diagnose"))
}

/// The help text.
pub fn help() -> String {
    format!(
        "A fault from its injection to the resolved incident, on a simulated fleet with real Prometheus and Alertmanager.\n\n\
         demo [FAULT] [--keep] [--replicas N] [--pictures DIR]\n\
         demo --tour [--stops N] [--keep]\n\n\
         FAULT, also as a variable: name, or name:key=value,key=value as in longer-prompts:factor=3\n\
         --keep, or KEEP=1: stay up afterwards until Ctrl-C\n\
         --tour, or MODE=tour: eight faults, an incident's page and its bundle in about three minutes; --stops: only the first N\n\
         --pictures: post to a fake Slack too, and draw its message and page into DIR instead of a repair\n\
         LLM_DIAGNOSE: the binary, else the one beside this program\n\n{}\n\n\
         Exit status: 0 the cause was found in time and the incident resolved, 1 not, 2 wrong use, 130 interrupted.",
        faults()
    )
}

/// Every fault with what it does.
fn faults() -> String {
    let lines = Fault::ALL.iter().map(|fault| format!("  {:<22} {}", fault.name(), fault.description()));
    format!("the faults are:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
