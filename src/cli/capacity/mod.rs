//! `capacity`: computes what fits on the GPUs, and compares it with the running engine.

mod args;

use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::HealthOutput;
use super::store::block_on;
use super::{NOT_ANSWERED, configuration, input, library};
use crate::cli::output::{out, outln};

pub(super) use args::CapacityArgs;
use capacity::{CapacityReport, ModelSpec};
use diagnose::{ObserveResult, observe_signals};
use findings::Scope;
use knowledge::alert::Labels;
use knowledge::clock;
use prom::Prometheus;
use render::Phrases;
use service::config::Config;
use service::questions::target;

/// Maximum bytes of a `config.json`; real ones have a few KiB.
const FILE_BYTES: u64 = 4 << 20;

pub(super) fn run(args: Box<CapacityArgs>) -> anyhow::Result<ExitCode> {
    let config = configuration(args.config.as_deref())?;
    let words = Phrases::load(config.playbooks.dir.as_deref())?;
    let model = args.model.as_deref().map(read).transpose()?;
    if model.is_none() && args.deployment.gpu.is_some() {
        bail!("`--gpu` needs the model's config.json: pass its path, or `-` for standard input");
    }
    let computed = match &model {
        Some(model) => Some(capacity::plan(model, &args.deployment)?),
        None => None,
    };
    let reachable = args.prometheus.is_some() || args.config.is_some();
    let report = match computed {
        None if !reachable => bail!("pass a config.json, or `--prometheus` with the `--label`s of a pool, or both"),
        // An address in the environment alone does not request a comparison with the whole fleet.
        Some(report) if args.labels.is_empty() => {
            if reachable {
                anstream::eprintln!("Prometheus is not asked: name the pool to compare with by `--label`");
            }
            report
        }
        computed => {
            let labels: Labels = args.labels.iter().cloned().collect();
            target::known_labels(config.prometheus.iter().map(|prometheus| &prometheus.labels), &labels)?;
            let scope = Scope::of_labels(&labels);
            let observed = observe(&args, &config, &labels, &scope)?;
            ::capacity::compare(computed, &scope, &observed.observations, observed.remarks(), observed.degraded)
        }
    };
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&report)?),
        HealthOutput::Text => out!("{}", ::capacity::text(&report, &words).trim_start_matches('\n')),
    }
    Ok(status(&report))
}

fn status(report: &CapacityReport) -> ExitCode {
    if report.live.as_ref().is_some_and(|live| live.degraded) {
        ExitCode::from(NOT_ANSWERED)
    } else if report.fit.as_ref().is_some_and(|fit| !fit.fits) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn read(path: &str) -> anyhow::Result<ModelSpec> {
    let (source_name, text) = input::text(path, "the configuration", FILE_BYTES)?;
    ModelSpec::parse(&text).with_context(|| source_name)
}

fn observe(args: &CapacityArgs, config: &Config, labels: &Labels, scope: &Scope) -> anyhow::Result<ObserveResult> {
    let library = library(config.playbooks.dir.as_deref())?;
    let selected = match &args.prometheus {
        Some(url) => prom::Config { url: url.clone(), ..prom::Config::default() },
        None => {
            let labels_match = |p: &&prom::Config| p.labels.iter().all(|(name, value)| labels.get(name) == Some(value));
            let general = || config.prometheus.iter().find(|p| p.labels.is_empty()).or(config.prometheus.first());
            config.prometheus.iter().find(labels_match).or_else(general).cloned().unwrap_or_default()
        }
    };
    let prometheus = Prometheus::new(&selected)?;
    let at = args.at.unwrap_or_else(clock::now);
    let window = args.window.unwrap_or(config.diagnose.window);
    let deadline = args.deadline.unwrap_or(config.diagnose.deadline);
    block_on(async {
        target::known_values(&library, (&prometheus, &selected.labels), labels, at, deadline).await?;
        let signals = &::capacity::SIGNALS;
        Ok(observe_signals(&library, &prometheus, scope, signals, at, window, deadline).await)
    })
}
