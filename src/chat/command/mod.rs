//! The commands, in Slack and in a shell: one definition generates the parser, the help, docs/commands.md and the shell
//! completion. The command line flattens the same arguments beside its own.

mod capacity;
mod help;
mod parser;
mod slack_text;

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use knowledge::alert::Labels;
use knowledge::clock::{TimeArgument, span};

pub use capacity::CapacityOf;
pub use help::{Topic, document, topics};
pub use parser::{ArgumentError, CommandError, ParsedCommand, parse};

/// A command.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum ChatCommand {
    /// Diagnose a pool: symptom, causes and steps; now or at another time.
    #[command(visible_alias = "d")]
    Diagnose(Diagnose),
    /// Show the health of every pool: healthy, warning, critical or unknown, by the alert thresholds of the playbooks.
    Health(HealthOf),
    /// Explain a playbook, a cause, a code, an Xid, a flag, a line of a log, a signal or an engine.
    Explain(Explain),
    /// List incidents with their causes.
    #[command(alias = "incident")]
    Incidents(Incidents),
    /// Show why an incident's cause was named: everything that was checked.
    #[command(alias = "evidence")]
    Why(OfIncident),
    /// Show the current state of an incident.
    Status(OfIncident),
    /// Diagnose an incident once more: now while it is open, else as of its last diagnosis.
    #[command(alias = "rerun")]
    Again(OfIncident),
    /// Build one file of everything known about an incident, to hand over.
    Bundle(OfIncident),
    /// Upload the draft of an incident's post-mortem, as Markdown, into its thread.
    Postmortem(OfIncident),
    /// List silences, end one, or silence an incident's alerts.
    #[command(alias = "silences")]
    Silence(SilenceArguments),
    /// List maintenance windows, begin one, or end one: their alerts mention nobody and call no pager.
    Maintenance(MaintenanceArguments),
    /// Compare a pool's capacity with its use: KV cache, memory, requests.
    Capacity(CapacityOf),
    /// List the playbooks.
    Playbooks,
    /// Show how often named causes were right: as measured, and by feedback of users here.
    Accuracy,
    /// Check the service's surroundings: Prometheus, Slack, store, playbooks, and missing signals.
    Doctor,
    /// Explain the commands.
    Help(Help),
}

/// The arguments of `diagnose`: target, time and playbook.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Diagnose {
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// The time range.
    #[command(flatten)]
    pub when: When,
    /// The playbook to enter, instead of the one chosen by the failing checks.
    #[arg(long, value_name = "ID")]
    pub playbook: Option<String>,
}

/// A moment, and the length of the range that ends there.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct When {
    /// The moment to judge: 14:05 (the most recent one, UTC), 10m ago, RFC 3339 or unix seconds; defaults to now.
    #[arg(long, value_name = "TIME", value_parser = TimeArgument::parse)]
    pub at: Option<TimeArgument>,
    /// The period up to then, judged as a whole and compared with the time before it.
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub last: Option<Duration>,
}

/// The arguments of `health`.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct HealthOf {
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name; none for all pools.
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// The moment to judge: 14:05 (the most recent one, UTC), 10m ago, RFC 3339 or unix seconds; defaults to now.
    #[arg(long, value_name = "TIME", value_parser = TimeArgument::parse)]
    pub at: Option<TimeArgument>,
}

/// The arguments of `explain`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Explain {
    /// A playbook, cause, signal or engine; or a kind: xid, litellm, flag, log, signal, engine.
    #[arg(value_name = "ID")]
    pub id: String,
    /// The name within a kind: 79, 429, --swap-space, "a line of the log", kv_cache_usage, sglang.
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    pub name: Option<String>,
}

/// The arguments of `incidents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct Incidents {
    /// The incidents to list.
    #[arg(value_enum, default_value_t = Which::Open)]
    pub which: Which,
}

/// The incidents of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Incidents with firing alerts.
    Open,
    /// Incidents of the last 24 hours.
    Today,
    /// The newest incidents, open or resolved.
    All,
}

/// The argument that selects an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct OfIncident {
    /// The incident's id or its end; defaults to the incident of the thread, else the newest.
    #[arg(value_name = "INCIDENT")]
    pub incident: Option<String>,
}

/// The arguments of `silence`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SilenceArguments {
    /// `list`, `expire`, or the incident; in an incident's thread the duration alone.
    #[arg(value_name = "list|expire|INCIDENT", default_value = "list")]
    pub what: String,
    /// The id of the silence to end, or the duration of a new one: 1h, 4h.
    #[arg(value_name = "ID|DURATION")]
    pub which: Option<String>,
}

/// The arguments of `maintenance`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct MaintenanceArguments {
    /// `list`, `end`, or labels that all firing alerts of an incident have: namespace=llm,model_name=llama.
    #[arg(value_name = "list|end|LABELS", default_value = "list")]
    pub what: String,
    /// The id of the window to end, or the length of a new one: 2h, 1d.
    #[arg(value_name = "ID|DURATION")]
    pub which: Option<String>,
    /// The start of a new one: 22:00 (the next one, UTC), RFC 3339 or unix seconds; defaults to now.
    #[arg(long, value_name = "TIME", value_parser = TimeArgument::parse)]
    pub at: Option<TimeArgument>,
    /// The reason of a new one, in quotes.
    #[arg(long, value_name = "REASON")]
    pub because: Option<String>,
}

/// The arguments of `help`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Help {
    /// The command to explain; defaults to all.
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// An operation on silences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SilenceOperation {
    /// List the active silences.
    List,
    /// Expire a silence, by its id.
    Expire(String),
    /// Silence an incident's alerts; without an id, those of the thread's incident.
    Make(Option<String>, Duration),
}

impl SilenceArguments {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A sentence with the correct syntax.
    pub fn operation(&self) -> Result<SilenceOperation, String> {
        let long = |text: &str| span(text).map_err(|error| format!("`{text}`: {error}"));
        match (self.what.as_str(), self.which.as_deref()) {
            ("list", None) => Ok(SilenceOperation::List),
            ("expire", Some(id)) => Ok(SilenceOperation::Expire(id.to_owned())),
            ("expire", None) => Err("`silence expire` of which? `silence list` shows the ids".to_owned()),
            (incident, Some(duration)) => Ok(SilenceOperation::Make(Some(incident.to_owned()), long(duration)?)),
            (text, None) => match span(text) {
                Ok(duration) => Ok(SilenceOperation::Make(None, duration)),
                Err(_) => Err(format!("for how long? Write `silence {text} 1h`")),
            },
        }
    }
}

/// An operation on maintenance windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaintenanceOperation {
    /// List the windows that are not over.
    List,
    /// End a window, by its id or the end of it.
    End(String),
    /// Begin a window for alerts with these labels, of this length.
    Begin(Labels, Duration),
}

impl MaintenanceArguments {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A sentence with the correct syntax.
    pub fn operation(&self) -> Result<MaintenanceOperation, String> {
        match (self.what.as_str(), self.which.as_deref()) {
            ("list", None) => Ok(MaintenanceOperation::List),
            ("end", Some(id)) => Ok(MaintenanceOperation::End(id.to_owned())),
            ("end", None) => Err("`maintenance end` of which? `maintenance list` shows the ids".to_owned()),
            (labels, None) => Err(format!("for how long? Write `maintenance {labels} 2h`")),
            (labels, Some(long)) => {
                let pair = |pair: &str| {
                    let (name, value) =
                        pair.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty())?;
                    Some((name.trim().to_owned(), value.trim().to_owned()))
                };
                let labels: Option<Labels> = labels.split(',').map(pair).collect();
                let labels = labels.ok_or("which alerts? Write their labels: `maintenance namespace=llm 2h`")?;
                Ok(MaintenanceOperation::Begin(labels, span(long).map_err(|error| format!("`{long}`: {error}"))?))
            }
        }
    }
}

/// Returns the purpose of a command, as its help says it; empty if there is no such command.
pub fn about(command: &str) -> String {
    let all = definition();
    let about = all.find_subcommand(command).and_then(clap::Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}

/// Returns the clap definition of the Slack commands.
fn definition() -> clap::Command {
    ChatCommand::augment_subcommands(clap::Command::new("llm-diagnose").no_binary_name(true))
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .subcommand_required(true)
        .color(clap::ColorChoice::Never)
        .arg(
            clap::Arg::new(HERE)
                .long(HERE)
                .visible_alias("share")
                .global(true)
                .action(clap::ArgAction::SetTrue)
                .help("Show the answer to everybody in the channel"),
        )
}

/// The option that shows an answer to everybody.
const HERE: &str = "here";
