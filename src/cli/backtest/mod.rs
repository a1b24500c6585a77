//! `backtest`: past firings diagnosed as of then, and what follows from all of them.

mod firing;
mod labels;
mod pools;
mod progress;
mod read;
mod state;
mod work;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::{BacktestArgs, HealthOutput};
use super::{NOT_ANSWERED, ask, library, output, redactor};
use crate::cli::output::{out, outln};
use crate::clip::format_count;
use crate::clock;
use crate::config::Config;
use crate::diagnose;
use crate::playbook::Library;
use crate::prom::{Prometheus, QueryProgress};
use crate::redact::{self, Redactor};
use crate::render::{self, Phrases};
use crate::report::backtest::{
    Backtest, BacktestLoad, DiagnosedFiring, LeftOutFirings, OutcomeCounts, SCHEMA, ThresholdLadder, UnalertedSymptom,
    accuracy, by_pool, by_rule,
};
use labels::TrueCauses;
use progress::BacktestProgress;
use state::BacktestState;

/// Characters of an id: enough for a few thousand firings, and short enough to be typed.
const ID: usize = 12;

/// The reason why a run ended early.
#[derive(Debug)]
pub(super) enum Stopped {
    /// Ctrl-C, or SIGTERM.
    Interrupted,
    /// The queries are used up.
    Budget(usize),
    /// Prometheus does not answer.
    Prometheus(String),
    /// Anything else: a file that cannot be written.
    Failed(anyhow::Error),
}

/// The constants of a run.
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
        if self.queries() < self.most_queries { Ok(()) } else { Err(Stopped::Budget(self.most_queries)) }
    }

    /// Returns a value without secrets.
    pub(super) fn cleaned<T: Serialize + DeserializeOwned>(&self, value: &T) -> anyhow::Result<T> {
        let redactor = self.redactor.with_same_numbers();
        redactor.learn_from(value);
        redactor.cleaned("output", value).context("cannot clean the answer of secrets")
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct BacktestFindings {
    pub(super) firings: Vec<DiagnosedFiring>,
    pub(super) unalerted: Vec<UnalertedSymptom>,
    pub(super) ladders: Vec<ThresholdLadder>,
    pub(super) left_out: LeftOutFirings,
    pub(super) problems: Vec<String>,
    /// The number of firings that an earlier run diagnosed.
    pub(super) resumed: usize,
}

pub(super) fn run(args: &BacktestArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let mut config = args.config.as_deref().map(Config::load).transpose()?.unwrap_or_default();
    let dir = args.playbooks.clone().or(config.playbooks.dir.clone());
    let mut library = match library(dir.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    config.extend_library(&mut library)?;
    if let Some(html) = &args.html {
        output::check(html)?;
    }
    config.diagnose.window = args.window.unwrap_or(config.diagnose.window);
    config.diagnose.baseline = args.baseline.unwrap_or(config.diagnose.baseline);
    config.diagnose.deadline = args.deadline.unwrap_or(config.diagnose.deadline);
    let mut causes = TrueCauses::default();
    if let Some(path) = &args.labels {
        causes.read(&library, path)?;
    }
    let mut selected = ask::prometheus(&config, args.prometheus.as_deref(), None);
    selected.concurrency = args.concurrency as usize;
    let queries = Arc::new(QueryProgress::default());
    let prometheus = Prometheus::new(&selected)?.watched(Arc::clone(&queries));
    let now = clock::now();
    let to = args.until.map_or(now, |until| until.resolve(now)).min(now);
    let to = clock::floor(to, Duration::from_secs(60));
    let mut state = BacktestState::open(
        state_file(args).as_deref(),
        &key(args, &config, &selected.url)?,
        (clock::before(to, args.since), to),
    )?;
    if !state.finished.is_empty() && !args.quiet {
        let (from, to) = state.range;
        let parts = format_count(state.finished.len(), "finished part");
        anstream::eprintln!("going on with the run about {from:.0} to {to:.0}, of which there are {parts}");
    }
    let words = Phrases::load(dir.as_deref())?;
    let setting = Setting {
        library: &library,
        prometheus: &prometheus,
        config: &config.diagnose,
        words: &words,
        redactor: &redactor(&library)?,
        range: state.range,
        pause: args.pause,
        queries,
        most_queries: args.max_queries as usize,
    };
    let mut progress = BacktestProgress::new(args.quiet);
    let mut findings = BacktestFindings::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let stopped = runtime.block_on(async {
        if args.feedback {
            causes.read_feedback(&library, &config).await?;
        }
        let work = work::run(args, &setting, &causes, &mut state, &mut progress, &mut findings);
        anyhow::Ok(tokio::select! {
            ended = work => ended.err(),
            () = interrupted() => Some(Stopped::Interrupted),
        })
    })?;
    progress.end();
    let (stopped, code) = match stopped {
        None => (None, ExitCode::SUCCESS),
        Some(Stopped::Failed(error)) => return Err(error),
        Some(Stopped::Prometheus(why)) if findings.firings.is_empty() => {
            anstream::eprintln!("error: {}: {why}", redact::address(&prometheus.url));
            return Ok(ExitCode::from(NOT_ANSWERED));
        }
        Some(Stopped::Prometheus(why)) => (Some(why), ExitCode::from(NOT_ANSWERED)),
        Some(Stopped::Interrupted) => (Some("it was interrupted".to_owned()), ExitCode::FAILURE),
        Some(Stopped::Budget(most)) => {
            (Some(format!("its {most} queries are used up: pass more by --max-queries")), ExitCode::FAILURE)
        }
    };
    let load = BacktestLoad {
        queries: setting.queries(),
        most_queries: setting.most_queries,
        took_seconds: started.elapsed().as_secs_f64(),
        resumed: findings.resumed,
    };
    let backtest = setting.cleaned(&concluded(findings, setting.range, stopped, load))?;
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&backtest)?),
        HealthOutput::Text => out!("{}", render::backtest(&backtest, &words)),
    }
    if let Some(path) = &args.html {
        output::write(path, render::backtest_page(&backtest, &words).as_bytes())?;
    }
    match (&backtest.stopped, state.path()) {
        (None, _) => state.remove(),
        (Some(_), Some(path)) => {
            anstream::eprintln!("what is done is kept in {}: the same command goes on from there", path.display());
        }
        (Some(_), None) => {
            anstream::eprintln!("nothing is kept: pass --state or --html to go on after an interruption")
        }
    }
    Ok(if code == ExitCode::SUCCESS && backtest.has_findings() { ExitCode::FAILURE } else { code })
}

/// Draws the conclusions.
fn concluded(
    mut findings: BacktestFindings,
    (from, to): (Timestamp, Timestamp),
    stopped: Option<String>,
    load: BacktestLoad,
) -> Backtest {
    findings.firings.sort_by(|a, b| (a.starts_at, &a.id).cmp(&(b.starts_at, &b.id)));
    findings.unalerted.sort_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.pool.cmp(&b.pool)));
    let firings = findings.firings;
    Backtest {
        schema: SCHEMA.to_owned(),
        from,
        to,
        stopped,
        counts: OutcomeCounts::of(&firings),
        rules: by_rule(&firings),
        pools: by_pool(&firings),
        unalerted: findings.unalerted,
        ladders: findings.ladders,
        accuracy: accuracy(&firings),
        left_out: findings.left_out,
        load,
        problems: findings.problems,
        firings,
    }
}

/// Returns when somebody wants the program to end.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => _ = tokio::signal::ctrl_c().await,
    }
}

/// Returns the path of the state file; `None` if nothing is kept.
fn state_file(args: &BacktestArgs) -> Option<PathBuf> {
    let beside = || {
        let mut name = args.html.as_ref()?.clone().into_os_string();
        name.push(".state");
        Some(PathBuf::from(name))
    };
    args.state.clone().or_else(beside)
}

/// Returns the hash of the arguments that results depend on.
fn key(args: &BacktestArgs, config: &Config, url: &str) -> anyhow::Result<String> {
    let file = match args.firings.as_deref() {
        None | Some("-") => Vec::new(),
        Some(path) => std::fs::read(path).with_context(|| format!("cannot read the firings from {path}"))?,
    };
    let version = env!("CARGO_PKG_VERSION");
    let parts = (&args.since, &args.until, &args.only, args.max_firings, &args.playbooks, &config.diagnose);
    let text = format!("{version} {url} {} {parts:?}", hex(digest(&SHA256, &file).as_ref()));
    Ok(hex(digest(&SHA256, text.as_bytes()).as_ref()))
}

/// Returns the id of a firing, or of a pool: a hash of its labels and its start.
pub(super) fn id(labels: &BTreeMap<String, String>, start: Option<Timestamp>) -> String {
    let text = format!("{labels:?} {:?}", start.map(Timestamp::as_second));
    hex(digest(&SHA256, text.as_bytes()).as_ref()).chars().take(ID).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
