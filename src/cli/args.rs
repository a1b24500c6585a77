//! The arguments and options of the commands.

mod sources;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

pub(super) use sources::SourceArgs;
pub(super) use state::StateArgs;

use chat::command;
use findings::Baseline;
pub(super) use knowledge::clock::span as window;
use service::config::Authentication;

/// The arguments of `serve`; every flag overrides the file.
#[derive(Debug, Clone, Args)]
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
    /// `none` takes alerts without credentials, from everybody who reaches that address.
    #[arg(long, value_name = "required|none", env = "LLM_DIAGNOSE_WEBHOOK_AUTHENTICATION")]
    pub webhook_authentication: Option<Authentication>,
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

/// The arguments of `diagnose`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 diagnosed, 1 saturated (with --fail-on), 2 wrong use, 3 Prometheus could not be asked (the degraded answer is printed all the same), or no engine answered.\n\
Examples:\n  llm-diagnose diagnose --playbook high-ttft --label namespace=llm --prometheus http://prometheus:9090\n  \
llm-diagnose diagnose --alert webhook.json --at 2026-11-20T03:05:00Z --output json\n  llm-diagnose diagnose http://localhost:8000"
)]
pub struct DiagnoseArgs {
    /// An Alertmanager webhook payload (version 4) or one alert, as a file; `-` reads standard input. Without --at, an
    /// alert that fires and began within the last hour is diagnosed as of now. An older one, or one that has ended, is
    /// diagnosed as of one minute after it began.
    #[arg(long, value_name = "FILE|-", required_unless_present_any = ["playbook", "target"], conflicts_with = "target")]
    pub alert: Option<String>,
    /// The pool, the time, and the playbook.
    #[command(flatten)]
    pub what: command::Diagnose,
    /// More addresses of engines and gateways, or the second saved page of metrics. With an address such as http://host:8000,
    /// or a file, as TARGET no Prometheus is asked: the pages are read several times, some seconds apart. One file may also be
    /// AIPerf's record of the servers' pages during a benchmark, `server_metrics_export.jsonl`; or files are the reports of a
    /// load test: GuideLLM's `benchmarks.json`, or one of llm-d-benchmark for each stage.
    #[arg(value_name = "URL|FILE", requires = "target")]
    pub more: Vec<String>,
    /// Diagnose those addresses again and again, after this pause, until Ctrl-C.
    #[arg(long, value_name = "DURATION", value_parser = window, num_args = 0..=1, require_equals = true, default_missing_value = "10s", requires = "target")]
    pub watch: Option<Duration>,
    /// The time between two saved pages [default: that between the changes of the files].
    #[arg(long, value_name = "DURATION", value_parser = window, requires = "more")]
    pub apart: Option<Duration>,
    /// A label of the pool: namespace, model_name, cluster; repeat for more.
    #[arg(long = "label", alias = "scope", value_name = "NAME=VALUE", value_parser = label)]
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
    /// The time offset of the baseline, `none` for no baseline [default: the configuration's, else 1d].
    #[arg(long, value_name = "DURATION|none", value_parser = baseline)]
    pub baseline: Option<Baseline>,
    /// Read engines and GPU exporters directly too, instead of Prometheus' current values.
    #[arg(long, conflicts_with = "at")]
    pub fresh: bool,
    /// Sources beside Prometheus.
    #[command(flatten)]
    pub sources: SourceArgs,
    /// The time limit for answers [default: the configuration's, else 10s; 20s for addresses of engines].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// End with status 1 if the reported load test has this result, with 3 if it cannot be told.
    #[arg(long, value_enum, value_name = "RESULT", requires = "target")]
    pub fail_on: Option<FailOn>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// The result of a load test that fails a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// From a step on more load brought no more throughput.
    Saturated,
}

/// The output format of a diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// The documented, versioned schema.
    Json,
    /// The Slack message's JSON.
    Slack,
    /// The queries of the diagnosis, as plain PromQL.
    Queries,
}

/// The arguments of `health`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status, as monitoring plugins have it and unlike the other commands: 0 healthy, 1 warning, 2 critical, \
3 unknown (Prometheus could not be asked, no pool was found, wrong use).\n\
Examples:\n  llm-diagnose health --prometheus http://prometheus:9090\n  \
llm-diagnose health --scope namespace=llm,model=llama --output json"
)]
pub struct HealthArgs {
    /// The pools.
    #[command(flatten)]
    pub what: command::HealthOf,
    /// Only pools with this cluster, namespace or model, by the label names that `diagnose` takes; none for all.
    #[arg(long, value_name = "NAME=VALUE,…", value_delimiter = ',', value_parser = label)]
    pub scope: Vec<(String, String)>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// The service's configuration, for its Prometheus and playbooks; every Prometheus is queried.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The rate window [default: the configuration's, else 5m].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub window: Option<Duration>,
    /// The time limit for Prometheus' answers [default: the configuration's, else 10s].
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub deadline: Option<Duration>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

/// The arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 all fine, 1 findings, 2 wrong use, 3 Prometheus could not be asked.")]
pub struct DoctorArgs {
    /// The service's configuration; defaults apply without it.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Prometheus, or anything with its API.
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub prometheus: Option<String>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// Also query every signal: which have data, which playbooks lack signals, and how to enable them.
    #[arg(long)]
    pub signals: bool,
    /// Also say how many incidents of published studies could be named with the signals that are there, and what to add.
    #[arg(long)]
    pub coverage: bool,
    /// A file with rules or a dashboard: which metrics it reads that newer engines no longer have; repeat for more.
    #[arg(long, value_name = "FILE")]
    pub names: Vec<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

/// The output format of `health` and `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HealthOutput {
    /// For people.
    Text,
    /// The documented, versioned schema.
    Json,
}

/// The default base URL of the runbook pages.
const RUNBOOKS: &str = "https://github.com/llm-diagnose/llm-diagnose/blob/main/docs/runbooks";

/// The arguments of `generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The file to generate.
    #[command(subcommand)]
    pub what: GenerateCommand,
}

/// The files that can be generated.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Prometheus rules: engine-neutral `llm:*` series, and the alerts of the playbooks.
    Rules {
        /// A plain rule file, or a PrometheusRule for prometheus-operator.
        #[arg(long, value_name = "KIND", value_enum, default_value = "prometheus")]
        kind: RuleKind,
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// A configuration, whose `slo:` sets the limits of its pools and adds alerts on their error budgets.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The engines in use, `vllm,dcgm,kubernetes`: series and alerts of other engines are left out, which makes the file short.
        #[arg(long, value_name = "ENGINES", value_delimiter = ',')]
        engines: Vec<String>,
        /// The labels that name cluster, namespace and model in your series, `cluster,namespace,model_name`: other spellings
        /// are left out.
        #[arg(long, value_name = "LABELS", value_delimiter = ',')]
        labels: Vec<String>,
        /// The rate window.
        #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = window)]
        window: Duration,
        /// The time for which every alert must hold, instead of its own `for`.
        #[arg(long = "for", value_name = "DURATION", value_parser = window)]
        hold: Option<Duration>,
        /// The base URL of the runbook pages.
        #[arg(long, value_name = "URL", default_value = RUNBOOKS)]
        runbook_base: String,
        /// The output.
        #[command(flatten)]
        output: OutputFile,
    },
    /// A Grafana dashboard of the recorded series, from user-visible signals to single replicas.
    Dashboard {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// A configuration, whose `slo:` adds a row of error budgets.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The base URL of the runbook pages.
        #[arg(long, value_name = "URL", default_value = RUNBOOKS)]
        runbook_base: String,
        /// The output.
        #[command(flatten)]
        output: OutputFile,
    },
    /// A runbook page for every playbook, which the rules' `runbook_url` points to.
    Runbooks {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
        /// The output directory; pages that belong to no playbook are not changed.
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// The JSON schema of the generic webhook's payload; docs/webhook.md describes it.
    WebhookSchema(OutputFile),
    /// The JSON schema of `summary.json`, the report in every bundle.
    ReportSchema(OutputFile),
    /// The OpenAPI document of the HTTP API, which `/api/v1/openapi.json` serves too.
    Openapi(OutputFile),
    /// The JSON schema of the output of `backtest`.
    BacktestSchema(OutputFile),
    /// A manual page for every command: `man llm-diagnose`, `man llm-diagnose-serve`.
    Man {
        /// The output directory.
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// The page that documents the Slack commands.
    Commands(OutputFile),
    /// The page with every key of playbooks, causes, signals and the other data files.
    Format(OutputFile),
    /// The page with every lint of `check` and `test`: an example, and how to mend it.
    Lints(OutputFile),
    /// The JSON schema of playbooks, causes and signals, for editors.
    Schema {
        /// The kind of file; all by default.
        #[arg(long, value_name = "KIND", value_parser = data_file_kinds())]
        of: Option<String>,
        /// The output.
        #[command(flatten)]
        output: OutputFile,
    },
}

/// The output of a generated file.
#[derive(Debug, Args)]
pub struct OutputFile {
    /// The output file; `-` is standard output.
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    pub output: String,
}

fn data_file_kinds() -> clap::builder::PossibleValuesParser {
    authoring::generate::KINDS.iter().map(|kind| kind.name).into()
}

/// The format of generated rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RuleKind {
    /// For `rule_files:`.
    Prometheus,
    /// For prometheus-operator.
    PrometheusRule,
}

/// The data that `check` and `test` read.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// A directory on top of the shipped data; without it the shipped data alone.
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The term.
    #[command(flatten)]
    pub what: command::Explain,
    /// Print plain PromQL, one query after another: all queries of a playbook, cause or signal; for an incident, by its
    /// id, the queries of its diagnosis.
    #[arg(long, conflicts_with = "name")]
    pub queries: bool,
    /// With --queries of a playbook, cause or signal: a label of the pool for every query; repeat for more.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, requires = "queries")]
    pub labels: Vec<(String, String)>,
    /// With --queries of an incident: the service's store.
    #[command(flatten)]
    pub state: StateArgs,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

/// The arguments of `logs`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 nothing failed, 1 a log tells of a failure, 2 wrong use or a log that cannot be read.\n\
Examples:\n  kubectl logs -n llm llama-0 --previous | llm-diagnose logs -\n  llm-diagnose logs llama-0.log llama-1.log.gz\n  \
llm-diagnose logs /var/log/engines --output json"
)]
pub struct LogsArgs {
    /// Logs, also as `.gz`, and directories of them; `-` reads standard input.
    #[arg(value_name = "FILE|DIR|-", required = true)]
    pub files: Vec<PathBuf>,
    /// The engine of the log; detected by default.
    #[arg(long, value_name = "ENGINE", help = whose_log())]
    pub engine: Option<String>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
    /// Prints secrets too; without it they are redacted, because a terminal is often copied into a ticket.
    #[arg(long)]
    pub raw: bool,
    /// The output format.
    #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
    pub output: HealthOutput,
}

/// Returns the help of `--engine`, with the engines of the shipped data.
fn whose_log() -> String {
    let names = knowledge::playbook::shipped();
    let engines: Vec<&str> =
        names.keys().filter_map(|name| name.strip_prefix("logs/")?.strip_suffix(".yaml")).collect();
    format!("The engine of the log: {}; detected by default", engines.join(", "))
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as namespace=llm".to_owned()),
    }
}

pub(super) fn baseline(text: &str) -> Result<Baseline, String> {
    match text {
        "none" => Ok(Baseline::Off),
        text => window(text).map(Baseline::Earlier),
    }
}
