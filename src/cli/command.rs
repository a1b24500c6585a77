//! The command line: every command with its arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::args::{
    BacktestArgs, BundleArgs, CapacityArgs, DataArgs, DiagnoseArgs, DoctorArgs, ExplainArgs, GenerateArgs, HealthArgs,
    LogsArgs, McpArgs, ServeArgs, StateArgs,
};
use super::audit::AuditArgs;
use super::backup::BackupArgs;
use super::feedback::FeedbackArgs;
use super::init::InitArgs;
use super::new::NewArgs;
use super::open::OpenArgs;
use super::past::IncidentsArgs;
use super::selftest::SelftestArgs;
use super::silence::SilenceArgs;
use super::weekly::WeeklyArgs;
use chat::command::about;

/// Diagnoses alerts of LLM serving fleets: alert in, cause chain with evidence and fix steps out.
#[derive(Debug, Parser)]
#[command(version = version(), about, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Returns the version, with the commit where the build was told it by `LLM_DIAGNOSE_COMMIT`: `make release` does. A build from
/// an archive of the sources needs no git, and a new commit alone makes nothing stale.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("LLM_DIAGNOSE_COMMIT").unwrap_or_default() {
        "" => version.to_owned(),
        commit => format!("{version} ({commit})"),
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a configuration, with the files for Alertmanager and Slack, and examine it.
    Init(InitArgs),
    /// Run the service: Alertmanager's webhook in, diagnoses out, kept up to date.
    Serve(ServeArgs),
    /// Print what is wrong, why, and what to do.
    #[command(about = about("diagnose"))]
    Diagnose(DiagnoseArgs),
    /// Print the state of every pool.
    #[command(about = about("health"))]
    Health(HealthArgs),
    /// Diagnose past firings, each as it was at that time: which rules are noise, which symptoms had no rule, what thresholds would do.
    Backtest(Box<BacktestArgs>),
    /// Check what the service needs: configuration, Prometheus, Slack, store, playbooks.
    Doctor(DoctorArgs),
    /// Send a synthetic alert through the running service into Slack, and print when each stage was reached.
    Selftest(SelftestArgs),
    /// Lint playbooks, signals and phrases.
    Check(DataArgs),
    /// Run the verdict tests that stand beside the playbooks.
    Test(DataArgs),
    /// Write the skeleton of a signal, a cause or a playbook, to be filled in.
    New(NewArgs),
    /// Generate files from the playbooks: Prometheus rules, dashboard, runbook pages, schemas.
    Generate(GenerateArgs),
    /// Explain a term.
    #[command(about = about("explain"))]
    Explain(ExplainArgs),
    /// Read an engine's log: the root error, its consequences, harmless lines, and the numbers in it.
    Logs(LogsArgs),
    /// Answer a language model's client over standard input and output (MCP): diagnoses, health, incidents; read-only.
    Mcp(McpArgs),
    /// Compute from a model's config.json what fits on GPUs, and compare it with the running pool.
    Capacity(Box<CapacityArgs>),
    /// List incidents.
    #[command(about = about("incidents"))]
    Incidents(IncidentsArgs),
    /// Print the weekly summary of a channel: what happened, how fast, which causes return, what is still blind.
    Weekly(WeeklyArgs),
    /// Pack everything about an incident or a pool into one file.
    #[command(about = about("bundle"))]
    Bundle(BundleCommand),
    /// List the playbooks.
    #[command(about = about("playbooks"))]
    Playbooks {
        /// A directory of playbooks on top of the shipped ones.
        #[arg(long, value_name = "DIR")]
        playbooks: Option<PathBuf>,
    },
    /// Print the accuracy of the diagnoses.
    #[command(about = about("accuracy"))]
    Accuracy(StateArgs),
    /// Print a script that completes commands, options and playbooks, for the shell to source.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// List, create and end silences through Alertmanager.
    Silence(SilenceArgs),
    /// Print the audit log: user, action, time, target, result.
    Audit(AuditArgs),
    /// Print users' feedback on the named causes, and export verdict tests.
    Feedback(FeedbackArgs),
    /// Copy the service's store into a file; the service may run meanwhile.
    Backup(BackupArgs),
    /// Replace the service's store by a backup; the old store is kept; the service must not run.
    Restore(BackupArgs),
}

/// The arguments of `bundle`: create a bundle, or open one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BundleCommand {
    /// The subcommand.
    #[command(subcommand)]
    pub open: Option<BundleOpen>,
    /// The arguments for creating a bundle.
    #[command(flatten)]
    pub make: BundleArgs,
}

/// The subcommands for an existing bundle.
#[derive(Debug, Subcommand)]
pub enum BundleOpen {
    /// Load a bundle's series into a Prometheus on this machine, and repeat its diagnosis.
    Open(OpenArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
