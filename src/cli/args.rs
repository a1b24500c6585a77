//! What can be typed.

mod beside;
mod bundle;
mod capacity;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(super) use beside::BesideArgs;
pub(super) use bundle::{BundleArgs, Span};
pub(super) use capacity::{CapacityArgs, Format};

use super::open::OpenArgs;
use super::past::{IncidentsArgs, StateArgs};
use crate::chatops::command::{self, about};
use crate::diagnose::Baseline;

/// Diagnoses alerts of LLM serving fleets: alert in, cause chain with evidence and fix steps out.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service: Alertmanager's webhook in, living messages out.
    Serve(ServeArgs),
    /// What is wrong, why, what to do.
    #[command(about = about("diagnose"))]
    Diagnose(DiagnoseArgs),
    /// How every pool stands.
    #[command(about = about("health"))]
    Health(HealthArgs),
    /// Check what the service needs: configuration, Prometheus, Slack, store, playbooks.
    Doctor(DoctorArgs),
    /// Lint playbooks, signals and phrases.
    Check(DataArgs),
    /// Run the verdict tests that stand beside the playbooks.
    Test(DataArgs),
    /// Make what comes from the playbooks: Prometheus rules, dashboard, runbook pages, schemas.
    Generate(GenerateArgs),
    /// What something means.
    #[command(about = about("explain"))]
    Explain(ExplainArgs),
    /// Read an engine's log: what went wrong first, what only followed, what is harmless, and the numbers it tells.
    Logs(LogsArgs),
    /// Compute from a model's config.json what fits on GPUs, and compare it with the running pool.
    Capacity(Box<CapacityArgs>),
    /// Which incidents there are.
    #[command(about = about("incidents"))]
    Incidents(IncidentsArgs),
    /// Everything known of one.
    #[command(about = about("bundle"))]
    Bundle(BundleCommand),
    /// Which playbooks there are.
    #[command(about = about("playbooks"))]
    Playbooks {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
    },
    /// How good it is.
    #[command(about = about("accuracy"))]
    Accuracy(StateArgs),
    /// Print a script that completes commands, options and playbooks, for the shell to source.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// List, make and end silences through Alertmanager.
    Silence(super::silence::SilenceArgs),
    /// Print who did what, when, on what, with which result.
    Audit(super::audit::AuditArgs),
    /// Print what people said of named causes, and export verdict tests.
    Feedback(super::feedback::FeedbackArgs),
    /// Copy the service's store into a file; the service may run meanwhile.
    Backup(super::backup::BackupArgs),
    /// Put a backup in the place of the service's store, which is kept; the service must not run.
    Restore(super::backup::BackupArgs),
}

/// How `serve` is started; every flag overrides the file.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration; without it flags and environment suffice.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// Address and port to listen on [default: 127.0.0.1:9098].
    #[arg(long, value_name = "ADDRESS", env = "LLM_DIAGNOSE_LISTEN")]
    pub listen: Option<String>,
    /// The directory of the database [default: $STATE_DIRECTORY, else ~/.local/state/llm-diagnose].
    #[arg(long, value_name = "DIR", env = "LLM_DIAGNOSE_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// The Slack channel; the bot token comes from SLACK_BOT_TOKEN. Without a channel messages are printed.
    #[arg(long, value_name = "CHANNEL", env = "SLACK_CHANNEL")]
    pub slack_channel: Option<String>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

/// A bundle made, or opened.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BundleCommand {
    /// What else.
    #[command(subcommand)]
    pub open: Option<BundleOpen>,
    /// How it is made.
    #[command(flatten)]
    pub make: BundleArgs,
}

/// What can be done with a bundle that was made.
#[derive(Debug, Subcommand)]
pub enum BundleOpen {
    /// Look at a bundle's series in a Prometheus on this machine, and make its diagnosis again.
    Open(OpenArgs),
}

/// How `diagnose` is asked.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 diagnosed, 2 wrong use, 3 Prometheus could not be asked (the degraded answer is printed all the same).\n\
Examples:\n  llm-diagnose diagnose --playbook high-ttft --label namespace=llm --prometheus http://prometheus:9090\n  \
llm-diagnose diagnose --alert webhook.json --at 2026-11-20T03:05:00Z --output json"
)]
pub struct DiagnoseArgs {
    /// An Alertmanager webhook payload (version 4) or one alert, as a file; `-` reads standard input. Without --at, an
    /// alert that fires and began within the last hour is judged now. An older one, or one that has ended, is judged as it was
    /// one minute after it began.
    #[arg(long, value_name = "FILE|-", required_unless_present_any = ["playbook", "target"], conflicts_with = "target")]
    pub alert: Option<String>,
    /// Which pool, when, and where to begin.
    #[command(flatten)]
    pub what: command::Diagnose,
    /// A label of the pool: namespace, model_name, cluster; repeat for more.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its Prometheus and playbooks.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The rate window; short incidents and 1-second scrapes need 30s to 1m [default: the configuration's, else 5m].
    #[arg(long, value_name = "DURATION", value_parser = window, conflicts_with = "last")]
    pub window: Option<Duration>,
    /// How much earlier its normal lies, `none` to compare with nothing [default: the configuration's, else 1d].
    #[arg(long, value_name = "DURATION|none", value_parser = baseline)]
    pub baseline: Option<Baseline>,
    /// Read engines and GPU exporters themselves too, in place of what Prometheus says of now.
    #[arg(long, conflicts_with = "at")]
    pub fresh: bool,
    /// What is read beside.
    #[command(flatten)]
    pub beside: BesideArgs,
    /// When to stop waiting for Prometheus [default: the configuration's, else 10s].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// The documented, versioned schema.
    Json,
    /// The Slack message's JSON.
    Slack,
    /// What was asked, as plain PromQL.
    Queries,
}

/// How `health` is asked.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status, as monitoring plugins have it and unlike the other commands: 0 healthy, 1 warning, 2 critical, \
3 unknown (Prometheus could not be asked, no pool was found, wrong use).\n\
Examples:\n  llm-diagnose health --prometheus http://prometheus:9090\n  \
llm-diagnose health --scope namespace=llm,model=llama --output json"
)]
pub struct HealthArgs {
    /// Which pools.
    #[command(flatten)]
    pub what: command::HealthOf,
    /// Only pools with this cluster, namespace or model, by the label names that `diagnose` takes; none for all.
    #[arg(long, value_name = "NAME=VALUE,…", value_delimiter = ',', value_parser = label)]
    pub scope: Vec<(String, String)>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its Prometheus and playbooks; every Prometheus is asked.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The rate window [default: the configuration's, else 5m].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub window: Option<Duration>,
    /// When to stop waiting for Prometheus [default: the configuration's, else 10s].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

/// What `doctor` looks at.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 all fine, 1 findings, 2 wrong use, 3 Prometheus could not be asked.")]
pub struct DoctorArgs {
    /// The service's configuration; without it its defaults.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// Also ask for every signal: which answer, which playbooks are blind without the others, and what changes that.
    #[arg(long)]
    pub signals: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

/// How `health` and `doctor` print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HealthOutput {
    /// For people.
    Text,
    /// The documented, versioned schema.
    Json,
}

/// What `generate` makes.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// What to make.
    #[command(subcommand)]
    pub what: GenerateCommand,
}

/// What can be generated.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Prometheus rules: engine-neutral `llm:*` series, and an alert for every playbook that has some.
    Rules {
        /// A plain rule file, or a PrometheusRule for prometheus-operator.
        #[arg(long, value_name = "KIND", value_enum, default_value = "prometheus")]
        kind: RuleKind,
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// A configuration, whose `slo:` sets the limits of its pools.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The rate window.
        #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = window)]
        window: Duration,
        /// How long every alert must hold, instead of its own `for`.
        #[arg(long = "for", value_name = "DURATION", value_parser = window)]
        hold: Option<Duration>,
        /// Where the runbook pages stand.
        #[arg(
            long,
            value_name = "URL",
            default_value = "https://github.com/llm-diagnose/llm-diagnose/blob/main/docs/runbooks"
        )]
        runbook_base: String,
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
    /// A Grafana dashboard over the recorded series, from what users feel to single replicas.
    Dashboard {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// Where the runbook pages stand.
        #[arg(
            long,
            value_name = "URL",
            default_value = "https://github.com/llm-diagnose/llm-diagnose/blob/main/docs/runbooks"
        )]
        runbook_base: String,
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
    /// A runbook page for every playbook, which the rules' `runbook_url` points to.
    Runbooks {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// The directory to write into; pages that belong to no playbook are left alone.
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// The JSON schema of what the generic webhook sends; docs/webhook.md describes it.
    WebhookSchema {
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
    /// The JSON schema of `summary.json`, the report that stands in every bundle.
    ReportSchema {
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
    /// The page that explains the commands of Slack.
    Commands {
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
    /// The JSON schema of playbooks, causes and signals, for editors.
    Schema {
        /// Where to write; `-` is standard output.
        #[arg(long, value_name = "FILE|-", default_value = "-")]
        output: String,
    },
}

/// How rules are wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RuleKind {
    /// For `rule_files:`.
    Prometheus,
    /// For prometheus-operator.
    PrometheusRule,
}

/// Which data `check` and `test` read.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// A directory on top of the shipped data; without it the shipped data alone.
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// What `explain` prints.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Which thing.
    #[command(flatten)]
    pub what: command::Explain,
    /// Print plain PromQL, one query under the other: all of a playbook, cause or signal; of an incident, by its id, those
    /// that its diagnosis asked.
    #[arg(long, conflicts_with = "name")]
    pub queries: bool,
    /// With --queries of a playbook, cause or signal: a label of the pool, put into every query; repeat for more.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, requires = "queries")]
    pub labels: Vec<(String, String)>,
    /// With --queries of an incident: where the service keeps it.
    #[command(flatten)]
    pub state: StateArgs,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

/// Which log `logs` reads.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 nothing went wrong, 1 a root error was found, 2 wrong use or a log that cannot be read.\n\
Examples:\n  kubectl logs -n llm llama-0 --previous | llm-diagnose logs -\n  llm-diagnose logs llama-0.log llama-1.log.gz\n  \
llm-diagnose logs /var/log/engines --output json"
)]
pub struct LogsArgs {
    /// Logs, also as `.gz`, and directories of them; `-` reads standard input.
    #[arg(value_name = "FILE|DIR|-", required = true)]
    pub files: Vec<PathBuf>,
    /// Whose log it is; found out unless told.
    #[arg(long, value_name = "ENGINE", help = whose_log())]
    pub engine: Option<String>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

/// The help of `--engine`: what the shipped data knows.
fn whose_log() -> String {
    let names = crate::playbook::shipped();
    let known: Vec<&str> = names.keys().filter_map(|name| name.strip_prefix("logs/")?.strip_suffix(".yaml")).collect();
    format!("Whose log it is: {}; found out unless told", known.join(", "))
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as namespace=llm".to_owned()),
    }
}

/// A duration of at least a second.
pub(super) fn window(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(d) if d >= Duration::from_secs(1) && d <= Duration::from_secs(31 * 86_400) => Ok(d),
        Ok(_) => Err("expected between 1s and 31d".to_owned()),
        Err(_) => Err("expected a duration such as 30s, 5m, 1d".to_owned()),
    }
}

fn baseline(text: &str) -> Result<Baseline, String> {
    match text {
        "none" => Ok(Baseline::Off),
        text => window(text).map(Baseline::Earlier),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
