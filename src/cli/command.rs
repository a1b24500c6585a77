//! The command line: every command with its arguments.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::args::{
    DataArgs, DiagnoseArgs, DoctorArgs, ExplainArgs, GenerateArgs, HealthArgs, LogsArgs, ServeArgs, StateArgs,
};
use super::*;
use chat::command::about;

/// Diagnoses alerts of LLM serving fleets: alert in, cause chain with evidence and fix steps out.
#[derive(Debug, Parser)]
#[command(version = service::version(), about, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Declares the commands: of each its help, its arguments and the function that runs it.
macro_rules! commands {
    ($($(#[$help:meta])* $name:ident($args:ty) => $run:path,)*) => {
        /// The commands.
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$help])* $name($args),)*
        }

        impl Command {
            pub(super) fn run(self) -> anyhow::Result<ExitCode> {
                match self {
                    $(Self::$name(args) => $run(args),)*
                }
            }
        }
    };
}

commands! {
    /// Write a configuration, with the files for Alertmanager and Slack, and examine it.
    Init(init::InitArgs) => init::run,
    /// Run the service: Alertmanager's webhook in, diagnoses out, kept up to date.
    Serve(ServeArgs) => serve::run,
    /// Print the symptom, its causes and the fix steps.
    #[command(about = about("diagnose"))]
    Diagnose(DiagnoseArgs) => diagnose::run,
    /// Print the state of every pool.
    #[command(about = about("health"))]
    Health(HealthArgs) => health::run,
    /// Diagnose past firings, each as it was at that time: noisy rules, symptoms without a rule, the effect of other thresholds.
    Backtest(Box<backtest::BacktestArgs>) => backtest::run,
    /// Check the service's surroundings: configuration, Prometheus, Slack, store, playbooks.
    Doctor(DoctorArgs) => doctor::run,
    /// Send a synthetic alert through the running service into Slack, and print when each stage was reached.
    Selftest(selftest::SelftestArgs) => selftest::run,
    /// Lint playbooks, signals and phrases.
    Check(DataArgs) => check::check,
    /// Run the verdict tests beside the playbooks.
    Test(DataArgs) => check::test,
    /// Write the skeleton of a signal, a cause or a playbook, to be filled in.
    New(new::NewArgs) => new::run,
    /// Generate files from the playbooks: Prometheus rules, dashboard, runbook pages, schemas.
    Generate(GenerateArgs) => generate::run,
    /// Explain a term.
    #[command(about = about("explain"))]
    Explain(ExplainArgs) => explain::run,
    /// Read an engine's log: the root error, its consequences, harmless lines, and the numbers in it.
    Logs(LogsArgs) => logs::run,
    /// Answer a language model's client over standard input and output (MCP): diagnoses, health, incidents; read-only.
    Mcp(mcp::McpArgs) => mcp::run,
    /// Compute from a model's config.json the requests that fit on GPUs, and compare them with the running pool.
    Capacity(Box<capacity::CapacityArgs>) => capacity::run,
    /// List incidents.
    #[command(about = about("incidents"))]
    Incidents(past::IncidentsArgs) => past::incidents,
    /// Print the weekly summary of a channel: incidents, times, returning causes, missing data.
    Weekly(weekly::WeeklyArgs) => weekly::run,
    /// Pack everything about an incident or a pool into one file.
    #[command(about = about("bundle"))]
    Bundle(bundle::BundleCommand) => bundle::run,
    /// Print the draft of an incident's post-mortem, as Markdown, to be filled in.
    Postmortem(postmortem::PostmortemArgs) => postmortem::run,
    /// List the playbooks.
    #[command(about = about("playbooks"))]
    Playbooks(past::PlaybooksArgs) => past::playbooks,
    /// Print the accuracy of the diagnoses.
    #[command(about = about("accuracy"))]
    Accuracy(StateArgs) => past::accuracy,
    /// Print a script that completes commands, options and playbooks, for the shell to source.
    Completions(completions::CompletionsArgs) => completions::run,
    /// List, create and end silences through Alertmanager.
    Silence(silence::SilenceArgs) => silence::run,
    /// Print the audit log: user, action, time, target, result.
    Audit(audit::AuditArgs) => audit::run,
    /// Print users' feedback on the named causes, and export verdict tests.
    Feedback(feedback::FeedbackArgs) => feedback::run,
    /// Copy the service's store into a file; the service may run meanwhile.
    Backup(backup::BackupArgs) => backup::backup,
    /// Replace the service's store by a backup; the old store is kept; the service must not run.
    Restore(backup::BackupArgs) => backup::restore,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
