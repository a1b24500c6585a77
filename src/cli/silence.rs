//! `silence`: lists, creates and ends silences through Alertmanager.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};

use super::args::{HealthOutput, window};
use super::audit::acting;
use super::configuration;
use super::store::block_on;
use crate::cli::output::outln;
use knowledge::clock;
use render::clean;
use service::config::visit_store;
use sources::alertmanager;
use sources::alertmanager::{Alertmanager, SilenceError, SilenceParameters};
use store::{AuditEntry, AuditResult, Store, StoreAccess};

/// The arguments of `silence`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 done, 1 an Alertmanager could not be asked, 2 wrong use.")]
pub struct SilenceArgs {
    /// The service's configuration, for its `alertmanagers` and its store.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG", global = true)]
    pub config: Option<PathBuf>,
    /// The subcommand.
    #[command(subcommand)]
    pub what: SilenceCommand,
}

/// The subcommands of `silence`.
#[derive(Debug, Subcommand)]
pub enum SilenceCommand {
    /// Print the active and pending silences.
    List {
        /// The output format.
        #[arg(long, value_enum, default_value_t = HealthOutput::Text)]
        output: HealthOutput,
    },
    /// End a silence.
    Expire {
        /// Its id.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Silence an incident by the labels that all its firing alerts share, including their names.
    Create {
        /// The incident's id.
        #[arg(value_name = "INCIDENT")]
        incident: String,
        /// The duration: 1m to `slack.silence_max` of the configuration.
        #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = window)]
        duration: Duration,
        /// Only these labels; repeat for more. Needed if the alerts have more than 8 names.
        #[arg(long = "label", value_name = "NAME")]
        labels: Vec<String>,
        /// The reason.
        #[arg(long, value_name = "TEXT", default_value = "")]
        comment: String,
        /// Silence alerts that are not of the incident too, and also if Alertmanager cannot tell which.
        #[arg(long)]
        others: bool,
    },
}

pub(super) fn run(args: SilenceArgs) -> anyhow::Result<ExitCode> {
    let config = configuration(args.config.as_deref())?;
    if config.alertmanagers.is_empty() {
        bail!("no Alertmanager is configured: set `alertmanagers` in the configuration and pass it with --config");
    }
    let alertmanagers = config.alertmanagers.iter().map(Alertmanager::new).collect::<Result<Vec<_>, _>>()?;
    block_on(async {
        match args.what {
            SilenceCommand::List { output } => list(&alertmanagers, output).await,
            SilenceCommand::Expire { id } => {
                let store = visit_store(&config, StoreAccess::Write).await?;
                expire(&store, &alertmanagers, &id).await
            }
            SilenceCommand::Create { incident, duration, labels, comment, others } => {
                let store = visit_store(&config, StoreAccess::Write).await?;
                let who = acting();
                let parameters = SilenceParameters { who, comment, duration, longest: config.slack.silence_max };
                create(&store, &alertmanagers, &incident, &labels, &parameters, others).await
            }
        }
    })
}

async fn list(alertmanagers: &[Alertmanager], output: HealthOutput) -> anyhow::Result<ExitCode> {
    let (silences, problems) = alertmanager::list(alertmanagers).await;
    match output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&silences)?),
        HealthOutput::Text => {
            for silence in &silences {
                let matchers: Vec<String> = silence.matchers.iter().map(ToString::to_string).collect();
                outln!(
                    "{}  until {}  {}\n    by {}: {}",
                    clean(&silence.id),
                    silence.ends_at.strftime("%Y-%m-%d %H:%M UTC"),
                    clean(&matchers.join(" ")),
                    clean(&silence.created_by),
                    clean(&silence.comment),
                );
            }
            if silences.is_empty() && problems.is_empty() {
                outln!("there are no silences");
            }
        }
    }
    for problem in &problems {
        anstream::eprintln!("{problem}");
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

async fn expire(store: &Store, alertmanagers: &[Alertmanager], id: &str) -> anyhow::Result<ExitCode> {
    let mut entry = AuditEntry::new_attempt(&acting(), "cli", "expire", None, clock::now());
    id.clone_into(&mut entry.target);
    store.audit(&entry).await?;
    let result = alertmanager::expire(alertmanagers, id).await;
    finish(store, entry, &result.as_ref().map(|_| String::new())).await?;
    if let Err(error) = result {
        return unanswered(alertmanagers, error);
    }
    outln!("ended silence {id}");
    Ok(ExitCode::SUCCESS)
}

async fn create(
    store: &Store,
    alertmanagers: &[Alertmanager],
    id: &str,
    names: &[String],
    parameters: &SilenceParameters,
    others: bool,
) -> anyhow::Result<ExitCode> {
    let Some(incident) = store.incident(id).await? else {
        bail!("there is no incident `{id}`: `llm-diagnose incidents` or the pages list them");
    };
    let mut matchers = findings::silence::shared(&incident.alerts);
    if let Some(unknown) = names.iter().find(|name| !matchers.iter().any(|matcher| matcher.name == **name)) {
        let names: Vec<&str> = matchers.iter().map(|matcher| matcher.name.as_str()).collect();
        bail!("the firing alerts do not agree on a label `{unknown}`: they do on {}", names.join(", "));
    }
    match names {
        [] => {
            let preselected = findings::silence::preselected(&incident.alerts);
            matchers = preselected.map_err(|error| anyhow!("{error} with `--label NAME`"))?;
        }
        names => matchers.retain(|matcher| names.contains(&matcher.name)),
    }
    let entry = AuditEntry::new_attempt(&parameters.who, "cli", "silence", Some(id), clock::now());
    store.audit(&entry).await?;
    // Without matchers nothing is created, and every alert would count as another one.
    if !others && !matchers.is_empty() {
        match alertmanager::others(alertmanagers, &incident.alerts, &matchers).await {
            Ok(0) => {}
            Ok(n) => {
                let refusal = format!("alerts that are not of the incident would be silenced too ({n} now)");
                finish(store, entry, &Err(&refusal)).await?;
                bail!("{refusal}: choose more labels with `--label NAME`, or pass `--others`");
            }
            Err(error) => {
                finish(store, entry, &Err(&error)).await?;
                if let SilenceError::Alertmanager(why) = &error
                    && !why.is_down()
                {
                    anstream::eprintln!(
                        "it is not known which other alerts would be silenced: `--others` silences them all the same"
                    );
                }
                return unanswered(alertmanagers, error);
            }
        }
    }
    let created = alertmanager::create(alertmanagers, &incident.alerts, &matchers, parameters, clock::now()).await;
    if let Err(error @ SilenceError::Unsure(_)) = created {
        store.audit(&AuditEntry { detail: error.to_string(), ..entry }).await?;
        return unanswered(alertmanagers, error);
    }
    let summary = |created: &alertmanager::CreatedSilence| {
        let matchers: Vec<String> = created.matchers.iter().map(ToString::to_string).collect();
        format!("until {}: {}", created.until.strftime("%Y-%m-%d %H:%M UTC"), matchers.join(" "))
    };
    let target = created.as_ref().map(|created| created.id.clone()).unwrap_or_default();
    finish(store, AuditEntry { target, ..entry }, &created.as_ref().map(summary)).await?;
    let created = match created {
        Ok(created) => created,
        Err(error) => return unanswered(alertmanagers, error),
    };
    store.touch(id).await?;
    outln!("{}  {}", created.id, summary(&created));
    Ok(ExitCode::SUCCESS)
}

/// Returns exit status 1 if an Alertmanager is down, with its address, which the error itself does not contain, and what
/// to do if it may have created the silence.
fn unanswered(alertmanagers: &[Alertmanager], error: SilenceError) -> anyhow::Result<ExitCode> {
    match &error {
        SilenceError::Alertmanager(why) if why.is_down() => {
            let urls: Vec<&str> = alertmanagers.iter().map(|alertmanager| alertmanager.url.as_str()).collect();
            anstream::eprintln!("error: {error}: asked {}", urls.join(", "));
            Ok(ExitCode::FAILURE)
        }
        SilenceError::Unsure(_) => {
            anstream::eprintln!("error: {error}: look at `llm-diagnose silence list` before you ask for it again");
            Ok(ExitCode::FAILURE)
        }
        _ => Err(error.into()),
    }
}

async fn finish<E: std::fmt::Display>(
    store: &Store,
    entry: AuditEntry,
    result: &Result<String, E>,
) -> anyhow::Result<()> {
    let (result, detail) = match result {
        Ok(detail) => (AuditResult::Done, detail.clone()),
        Err(error) => (AuditResult::Failed, error.to_string()),
    };
    Ok(store.audit(&AuditEntry { result, detail, ..entry }).await?)
}
