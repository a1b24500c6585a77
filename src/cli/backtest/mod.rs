//! `backtest`: past firings, each diagnosed as it was at that time, and what follows from all of them.

mod args;
mod firing;
mod firings;
mod key;
mod labels;
mod pools;
mod progress;
mod read;
mod run;
mod state;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::HealthOutput;
use super::store::block_on;
use super::{NOT_ANSWERED, ask, configuration, configured_library, output};
use crate::cli::output::{out, outln};
pub(super) use args::BacktestArgs;
use knowledge::alert::{Alert, AlertStatus, Labels};
use knowledge::clip::format_count;
use knowledge::clock;
use service::config::Config;

use ::backtest::{BacktestFindings, BacktestLoad, concluded};
use app::stop_signals::StopSignals;
use knowledge::playbook::Library;
use labels::TrueCauses;
use progress::BacktestProgress;
use prom::{Prometheus, QueryProgress, choose};
use redact::Redactor;
use render::Phrases;
use report::redaction_of;
use state::BacktestState;

/// The unit of the range's borders, so that steps and ids are the same in each run.
const MINUTE: Duration = Duration::from_secs(60);
/// Queries over long ranges get this multiple of a diagnosis' own time.
const PATIENCE: u32 = 6;

/// The reason why a run ended early.
#[derive(Debug)]
pub(super) enum Stopped {
    /// Ctrl-C, or SIGTERM.
    Interrupted,
    /// The queries of `--max-queries` are used up.
    Queries(usize),
    /// Prometheus does not answer.
    Prometheus(String),
    /// A file or the store cannot be read or written.
    Failed(anyhow::Error),
}

/// The data, the clients, the range and the limits of a run.
pub(super) struct Setting<'a> {
    pub(super) library: &'a Library,
    pub(super) prometheus: &'a Prometheus,
    pub(super) config: &'a diagnose::Config,
    pub(super) words: &'a Phrases,
    pub(super) redactor: &'a Redactor,
    /// The start and the end of the range.
    pub(super) range: (Timestamp, Timestamp),
    pub(super) pause: Duration,
    queries: Arc<QueryProgress>,
    most_queries: usize,
}

impl Setting<'_> {
    /// Returns the number of queries so far.
    pub(super) fn queries(&self) -> usize {
        self.queries.seen().1
    }

    /// Fails once the queries are used up.
    pub(super) fn has_queries_left(&self) -> Result<(), Stopped> {
        if self.queries() < self.most_queries { Ok(()) } else { Err(Stopped::Queries(self.most_queries)) }
    }

    /// Fails with this reason if Prometheus does not answer to the smallest query either: then it is not the query.
    pub(super) async fn still_answers(&self, why: String) -> Result<(), Stopped> {
        let answer = self.prometheus.ping(self.range.1, self.config.deadline).await;
        answer.map_err(|_| Stopped::Prometheus(why))
    }

    /// Returns the time limit of a query over a long range.
    pub(super) fn long_deadline(&self) -> Duration {
        self.config.deadline * PATIENCE
    }

    /// Returns a value without secrets.
    pub(super) fn cleaned<T: Serialize + DeserializeOwned>(&self, value: &T) -> anyhow::Result<T> {
        let redactor = self.redactor.with_same_numbers();
        redactor.learn_from(value);
        redactor.cleaned("output", value).context("cannot clean the answer of secrets")
    }
}

/// A run.
struct Work<'a> {
    args: &'a BacktestArgs,
    setting: &'a Setting<'a>,
    causes: &'a TrueCauses,
    state: &'a mut BacktestState,
    progress: &'a mut BacktestProgress,
    findings: &'a mut BacktestFindings,
    /// The labels that this Prometheus adds to what it sends; `ALERTS` has none of them.
    external: &'a Labels,
}

pub(super) fn run(args: Box<BacktestArgs>) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let mut config = configuration(args.config.as_deref())?;
    let library = configured_library(args.playbooks.as_deref(), &config)?;
    let state_path = key::state_path(&args);
    if let Some(html) = &args.html {
        output::check(html)?;
        if state_path.as_ref().is_some_and(|state| key::is_same_file(state, html)) {
            bail!("--state and --html name the same file, {}", html.display());
        }
    }
    config.diagnose.window = args.window.unwrap_or(config.diagnose.window);
    config.diagnose.baseline = args.baseline.unwrap_or(config.diagnose.baseline);
    let mut causes = TrueCauses::default();
    if let Some(path) = &args.labels {
        causes.read(&library, path)?;
    }
    // Before the runtime starts: reading standard input would block it, and its signals.
    let file = args.firings.as_deref().map(read::FiringsFile::read).transpose()?;
    let (mut selected, not_asked) = select_prometheus(&args, &config)?;
    // Waiting for a turn counts: where fewer queries run at once than in the service, a diagnosis takes longer.
    let turns = selected.concurrency.div_ceil(args.concurrency as usize).max(1);
    let usual = config.diagnose.deadline * u32::try_from(turns).unwrap_or(1);
    config.diagnose.deadline = args.deadline.unwrap_or(usual);
    selected.concurrency = args.concurrency as usize;
    let queries = Arc::new(QueryProgress::default());
    let prometheus = Prometheus::new(&selected)?.watched(Arc::clone(&queries));
    let now = clock::now();
    let to = clock::floor(args.until.map_or(now, |until| until.resolve(now)).min(now), MINUTE);
    let range = (clock::floor(clock::before(to, args.since), MINUTE), to);
    let key = key::hash_of_run(&args, &config, &selected, &library, file.as_ref());
    let mut state = BacktestState::open(state_path.as_deref(), &key, range)?;
    if !state.finished.is_empty() {
        let (from, to) = state.range;
        let parts = format_count(state.finished.len(), "finished part");
        anstream::eprintln!("going on with the run about {from:.0} to {to:.0}, of which there are {parts}");
    }
    let words = Phrases::load(args.playbooks.as_deref().or(config.playbooks.dir.as_deref()))?;
    let setting = Setting {
        library: &library,
        prometheus: &prometheus,
        config: &config.diagnose,
        words: &words,
        redactor: &Redactor::new(&redaction_of(&library, &[::backtest::schema()]), false)
            .context("cannot read the rules of redaction")?,
        range: state.range,
        pause: args.pause,
        queries,
        most_queries: args.max_queries as usize,
    };
    let mut progress = BacktestProgress::new(args.quiet);
    let mut findings = state.findings();
    let resumed = findings.firings.len();
    findings.limits.extend(not_asked);
    let stopped = block_on(async {
        let mut stop = StopSignals::new()?;
        let run = async {
            if args.feedback {
                causes.read_feedback(&library, &config).await.map_err(Stopped::Failed)?;
            }
            let mut work = Work {
                args: &args,
                setting: &setting,
                causes: &causes,
                state: &mut state,
                progress: &mut progress,
                findings: &mut findings,
                external: &selected.labels,
            };
            work.run(file).await
        };
        Ok(tokio::select! {
            ended = run => ended.err(),
            () = stop.recv() => Some(Stopped::Interrupted),
        })
    })?;
    progress.end();
    let is_empty = findings.firings.is_empty() && findings.ladders.is_empty();
    let mut failed = None;
    let (stopped, code) = match stopped {
        None => (None, ExitCode::SUCCESS),
        Some(Stopped::Failed(error)) if is_empty => return Err(error),
        Some(Stopped::Failed(error)) => (Some(format!("{:#}", failed.insert(error))), ExitCode::FAILURE),
        Some(Stopped::Prometheus(why)) if is_empty => {
            let (address, why) = (http_client::address(&prometheus.url), setting.cleaned(&why)?);
            anstream::eprintln!("error: {}: {}", render::clean(&address), render::clean(&why));
            state.close();
            return Ok(ExitCode::from(NOT_ANSWERED));
        }
        Some(Stopped::Prometheus(why)) => (Some(why), ExitCode::from(NOT_ANSWERED)),
        Some(Stopped::Interrupted) => (Some("it was interrupted".to_owned()), ExitCode::FAILURE),
        Some(Stopped::Queries(most)) => {
            (Some(format!("its {most} queries are used up: pass more by --max-queries")), ExitCode::FAILURE)
        }
    };
    let load = BacktestLoad {
        queries: setting.queries(),
        most_queries: setting.most_queries,
        took_seconds: started.elapsed().as_secs_f64(),
        resumed,
    };
    let step = pools::step(setting.range).as_secs();
    let backtest = setting.cleaned(&concluded(findings, setting.range, step, stopped, load))?;
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&backtest)?),
        HealthOutput::Text => out!("{}", ::backtest::text(&backtest, &words)),
    }
    if let Some(path) = &args.html {
        output::write(path, ::backtest::page(&backtest, &words).as_bytes())?;
    }
    match &backtest.stopped {
        // A result that could not be printed can be had again.
        None if !output::failed() && !state.has_open_parts => state.remove(),
        _ => state.close(),
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let is_good = backtest.is_complete() && !backtest.has_findings();
    Ok(if code == ExitCode::SUCCESS && !is_good { ExitCode::FAILURE } else { code })
}

/// Selects the Prometheus that is asked: the argument's, else the configured one that fits `--label`, as for an alert with
/// these labels. Returns a sentence as well if others are not asked and `--label` did not choose.
///
/// # Errors
/// If `--label` has labels of the configured ones, and none fits.
fn select_prometheus(args: &BacktestArgs, config: &Config) -> anyhow::Result<(prom::Config, Option<String>)> {
    if args.prometheus.is_some() || config.prometheus.len() < 2 {
        let url = args.prometheus.as_deref();
        return Ok((ask::prometheus(config, url, None)?, None));
    }
    let alert = Alert {
        status: AlertStatus::Firing,
        labels: args.only.iter().cloned().collect(),
        annotations: Labels::new(),
        starts_at: Timestamp::MIN,
        ends_at: Timestamp::MIN,
        generator_url: String::new(),
        fingerprint: String::new(),
    };
    let configured: Vec<_> = config.prometheus.iter().map(|one| (one.clone(), one.labels.clone())).collect();
    let selects = |(name, _): &(String, String)| configured.iter().any(|(_, labels)| labels.contains_key(name));
    let chosen = match choose(&configured, &[alert]) {
        Some(chosen) => chosen,
        None if args.only.iter().any(selects) => {
            let names: Vec<&str> = configured.iter().map(|(one, _)| one.name.as_str()).collect();
            bail!(
                "no entry of `prometheus:` fits --label; there is {}: correct it, or pass --prometheus",
                names.join(", ")
            );
        }
        None => &configured[0].0,
    };
    if args.only.iter().any(|(name, value)| chosen.labels.get(name) == Some(value)) {
        return Ok((chosen.clone(), None));
    }
    let others = format_count(configured.len() - 1, "more configured Prometheus");
    let why =
        format!("only Prometheus `{}` was asked: run it for {others} too, by --prometheus or --label", chosen.name);
    Ok((chosen.clone(), Some(why)))
}
