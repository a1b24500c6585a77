//! `diagnose`: the diagnosis of the service, on a laptop.

use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::{DiagnoseArgs, Output};
use super::ask;
use super::load_test;
use super::printed_diagnosis::print_diagnosis;
use super::{NOT_ANSWERED, cleaned, configuration, configured_library, engines, health};
use crate::cli::output::{out, outln};
use diagnose::health::Triage;
use diagnose::{Exporters, ExtraSources};
use prom::Prometheus;
use sources::exporter::ExporterReader;

use render::Phrases;

pub(super) fn run(args: DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let mut config = configuration(args.config.as_deref())?;
    args.sources.put_into(&mut config);
    let library = configured_library(args.playbooks.as_deref(), &config)?;
    if let Some(names) = engines::named(&args)? {
        if let Some(status) = load_test::run(&args, &config, &library, &names)? {
            return Ok(status);
        }
        return engines::run(&args, &config, &library, &names);
    }
    if args.fail_on.is_some() {
        bail!("--fail-on reads the report of a load test: name its file");
    }
    if args.watch.is_some() {
        bail!("--watch reads addresses of engines: name one such as http://host:8000");
    }
    let group = args.alert.as_deref().map(ask::read).transpose()?;
    let diagnose = &mut config.diagnose;
    diagnose.window = args.window.unwrap_or(diagnose.window);
    diagnose.baseline = args.baseline.unwrap_or(diagnose.baseline);
    diagnose.deadline = args.deadline.unwrap_or(diagnose.deadline);
    let (playbook, target) = (args.what.playbook.as_deref(), args.what.target.as_deref());
    let mut request = ask::request(&library, &config, playbook, target, &args.labels, &args.what.when, group.as_ref())?;
    let selected = ask::prometheus(&config, args.prometheus.as_deref(), group.as_ref())?;
    let prometheus = Prometheus::new(&selected)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let reader =
        ExporterReader::new(&config.exporters.allow).context("cannot prepare the HTTP client for exporters")?;
    let known = Exporters::known(&config.exporters, &reader, &prometheus, None);
    let exporters = Exporters { fresh: args.fresh, ..known };
    // Exporters' pages show only the current state.
    if args.fresh && !ask::is_now(&request) {
        bail!(
            "--fresh reads what engines say now, but the alert is judged at {}: leave --fresh out, or name the pool \
             instead of the alert",
            request.at
        );
    }
    let exporters = Some(&exporters).filter(|_| ask::is_now(&request));
    let logs = runtime.block_on(ask::logs(&config, &args.sources.logs))?;
    let extra = ExtraSources { exporters, logs: Some(&logs) };
    let source = (&prometheus, &selected.labels);
    let target = args.what.target.as_deref();
    let answer = runtime.block_on(ask::answer(&library, source, &mut request, target, &args.labels, extra))?;
    let answer = match answer {
        Triage::Found(diagnosis) => Triage::Found(Box::new(cleaned(&library, &*diagnosis)?)),
        Triage::Quiet(screening) => Triage::Quiet(Box::new(cleaned(&library, &*screening)?)),
    };
    let words = Phrases::load(config.playbooks.dir.as_deref())?;
    let diagnosis = match answer {
        Triage::Found(diagnosis) => diagnosis,
        Triage::Quiet(health_report) => {
            if let Some(alert) = group.as_ref().and_then(|group| group.alerts.first()) {
                anstream::eprintln!("no playbook knows the alert `{}`", render::clean(alert.name()));
            }
            anstream::eprintln!("no alert threshold is exceeded: pass --playbook to look deeper");
            match args.output {
                Output::Text => {
                    let flags = health::flags(
                        [
                            ("prometheus", args.prometheus.as_deref().map(http_client::address)),
                            ("config", args.config.as_deref().map(health::path_value)),
                            ("playbooks", args.playbooks.as_deref().map(health::path_value)),
                            ("at", args.what.when.at.map(|_| health_report.at.to_string())),
                            ("window", args.window.map(health::duration)),
                            ("deadline", args.deadline.map(health::duration)),
                        ],
                        &args.labels,
                    );
                    out!("{}", render::health(&health_report, &flags, &words));
                }
                // Without a symptom there is no diagnosis and there are no queries; stderr says so.
                Output::Queries => {}
                Output::Json | Output::Slack => outln!("{}", serde_json::to_string_pretty(&health_report)?),
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    print_diagnosis(&diagnosis, Some(&prometheus.url), args.output, &words)?;
    Ok(if diagnosis.degraded { ExitCode::from(NOT_ANSWERED) } else { ExitCode::SUCCESS })
}
