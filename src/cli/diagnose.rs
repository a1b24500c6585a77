//! `diagnose`: the service's brain on a laptop.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::{DiagnoseArgs, Output};
use super::library;
use crate::alert::{AlertGroup, Labels};
use crate::clock;
use crate::config::Config;
use crate::diagnose::{Exporters, Request, Scope, diagnose_with};
use crate::exporter::Reader;
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
    let playbook = match (&args.playbook, &group) {
        (Some(id), _) => id.clone(),
        (None, Some(group)) => match select(&library, &group.alerts) {
            Some(selection) => selection.playbook,
            None => bail!(
                "no playbook matches alert `{}`: pass --playbook, or add the name to a playbook's `matches`",
                group.alerts.first().map(|a| a.name()).unwrap_or_default()
            ),
        },
        (None, None) => bail!("pass --alert or --playbook"),
    };
    if !library.playbooks.contains_key(&playbook) {
        let hint = suggestion(&playbook, library.playbooks.keys().map(String::as_str)).unwrap_or_default();
        bail!("there is no playbook `{playbook}` {hint}");
    }
    let mut scope = group.as_ref().map(|g| Scope::of_alerts(&g.alerts)).unwrap_or_default();
    let given = Scope::of_labels(&labels);
    scope.dimensions.extend(given.dimensions);
    scope.replicas.extend(given.replicas);
    let now = clock::now();
    let request = Request {
        playbook,
        scope,
        at: args.at.unwrap_or(now),
        since: group.as_ref().and_then(|g| g.alerts.iter().map(|a| a.starts_at).min()),
        window: args.window.unwrap_or(config.diagnose.window),
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
    let exporters = Some(&exporters).filter(|_| args.at.is_none());
    let diagnosis = runtime.block_on(diagnose_with(&library, &prometheus, &request, exporters));
    let words = Words::load(&config.language, config.playbooks.dir.as_deref())?;
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
