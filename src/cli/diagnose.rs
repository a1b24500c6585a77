//! `diagnose`: the service's brain on a laptop.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::{DiagnoseArgs, Output};
use super::{library, target};
use crate::alert::{AlertGroup, Labels};
use crate::clock;
use crate::config::Config;
use crate::diagnose::{Beside, Exporters, LogSources, Request, Scope, diagnose_with};
use crate::exporter::Reader;
use crate::health::{Triage, triage};
use crate::playbook::{select, suggestion};
use crate::prom::{self, Prometheus};
use crate::render::{self, Words};

/// Exit status when Prometheus could not be asked.
const NO_PROMETHEUS: u8 = 3;
/// Of the largest file with an alert that is read.
const FILE_BYTES: u64 = 64 << 20;

pub(super) fn run(args: DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.as_deref().map(Config::load).transpose()?.unwrap_or_default();
    let mut library = match library(args.playbooks.as_deref().or(config.playbooks.dir.as_deref())) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    library.put_first(&config.engines).map_err(anyhow::Error::msg).context("in the configuration")?;
    let group = args.alert.as_deref().map(read).transpose()?;
    let labels: Labels = args.labels.iter().cloned().collect();
    let playbook = match (&args.what.playbook, &group) {
        (Some(id), _) => id.clone(),
        // What is wrong there is found out below.
        (None, None) if args.what.target.is_some() => String::new(),
        (None, Some(group)) => match select(&library, &group.alerts) {
            Some(selection) => selection.playbook,
            None => bail!(
                "no playbook matches alert `{}`: pass --playbook, or add the name to a playbook's `matches`",
                group.alerts.first().map(|a| a.name()).unwrap_or_default()
            ),
        },
        (None, None) => bail!("pass --alert or --playbook"),
    };
    if !playbook.is_empty() && !library.playbooks.contains_key(&playbook) {
        let hint = suggestion(&playbook, library.playbooks.keys().map(String::as_str)).unwrap_or_default();
        bail!("there is no playbook `{playbook}` {hint}");
    }
    let mut scope = group.as_ref().map(|g| Scope::of_alerts(&g.alerts)).unwrap_or_default();
    let given = Scope::of_labels(&labels);
    scope.dimensions.extend(given.dimensions);
    scope.replicas.extend(given.replicas);
    let now = clock::now();
    let at = args.what.when.at.map_or(now, |at| at.resolve(now));
    let mut request = Request {
        playbook,
        scope,
        at,
        since: match args.what.when.last {
            Some(last) => Some(clock::before(at, last)),
            None => group.as_ref().and_then(|g| g.alerts.iter().map(|a| a.starts_at).min()),
        },
        window: args.what.when.last.or(args.window).unwrap_or(config.diagnose.window),
        baseline: args.baseline.unwrap_or(config.diagnose.baseline),
        deadline: args.deadline.unwrap_or(config.diagnose.deadline),
    };
    let chosen = match args.prometheus {
        Some(url) => prom::Config { url, ..prom::Config::default() },
        None => {
            let alerts = group.map(|g| g.alerts).unwrap_or_default();
            let several: Vec<_> = config.prometheus.into_iter().map(|p| (p.clone(), p.labels)).collect();
            prom::choose(&several, &alerts).cloned().unwrap_or_default()
        }
    };
    let prometheus = Prometheus::new(&chosen)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let reader = Reader::new(&config.exporters.allow).context("cannot prepare the HTTP client for exporters")?;
    let targets = config.exporters.given().collect();
    let exporters = Exporters { reader, targets, learn: config.exporters.learn, fresh: args.fresh };
    // Pages tell of now only.
    let exporters = Some(&exporters).filter(|_| args.what.when.at.is_none());
    let (files, unread) = super::logs::files(&args.logs);
    if let Some((file, why)) = unread.first() {
        bail!("cannot read the log {file}: {why}");
    }
    let logs = LogSources { files, ..LogSources::default() };
    let beside = Beside { exporters, logs: Some(&logs) };
    let source = (&prometheus, &chosen.labels);
    let answer = runtime.block_on(async {
        if let Some(typed) = &args.what.target {
            let found = target::find(&library, &[source], typed, request.at, request.deadline).await?;
            let (_, place, pod) = target::only(found, typed)?;
            let given = std::mem::take(&mut request.scope);
            request.scope = place.scope(pod.as_deref());
            request.scope.dimensions.extend(given.dimensions);
        }
        anyhow::Ok(match request.playbook.is_empty() {
            true => triage(&library, source, &request, beside).await,
            false => {
                let diagnosis = diagnose_with(&library, &prometheus, &request, beside).await;
                Triage::Found(Box::new(diagnosis), Vec::new())
            }
        })
    })?;
    let words = Words::load(&config.language, config.playbooks.dir.as_deref())?;
    let diagnosis = match answer {
        Triage::Found(diagnosis, beside) => {
            if !beside.is_empty() {
                anstream::eprintln!("also wrong there: {}", beside.join(", "));
            }
            diagnosis
        }
        Triage::Quiet(health) => {
            anstream::eprintln!("nothing that an alert would fire for: pass --playbook to look deeper");
            match args.output {
                Output::Text => anstream::print!("{}", render::health(&health, &words)),
                Output::Json | Output::Slack => anstream::println!("{}", serde_json::to_string_pretty(&health)?),
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    match args.output {
        Output::Json => anstream::println!("{}", serde_json::to_string_pretty(&diagnosis)?),
        Output::Slack => {
            let message = render::diagnosis_message(&diagnosis, Some(&prometheus.url), &words);
            anstream::println!("{}", serde_json::to_string_pretty(&render::slack(&message))?);
        }
        Output::Text => {
            let message = render::diagnosis_message(&diagnosis, Some(&prometheus.url), &words);
            anstream::print!("{}", render::terminal(&message));
        }
    }
    Ok(if diagnosis.degraded { ExitCode::from(NO_PROMETHEUS) } else { ExitCode::SUCCESS })
}

fn read(path: &str) -> anyhow::Result<AlertGroup> {
    let mut body = Vec::new();
    let shown = if path == "-" { "standard input" } else { path };
    let source: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(std::fs::File::open(path).with_context(|| format!("cannot read the alert from {path}"))?),
    };
    source.take(FILE_BYTES).read_to_end(&mut body).with_context(|| format!("cannot read the alert from {shown}"))?;
    AlertGroup::from_file(&body).with_context(|| format!("{shown} holds no alert"))
}
