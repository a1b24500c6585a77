//! A bundle opened again: its series in a Prometheus of its own on this machine, and its diagnosis made once more.
//!
//! A bundle comes from somebody else and is not trusted: see [`unpack`].

mod server;
mod unpack;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::diagnose::{Baseline, Beside, Diagnosis, LogSources, Request, Scope, diagnose_with};
use crate::logs::Log;
use crate::playbook::Library;
use crate::prom::{self, PromError, Prometheus};
use crate::report::Report;
use server::Server;
use unpack::Unpacked;

/// How long the questions of a diagnosis may take; nobody else asks this Prometheus.
const DEADLINE: Duration = Duration::from_secs(60);

/// Why a bundle cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, or the directory that it is unpacked into, cannot be used.
    #[error("cannot use {0}: {1}")]
    Disk(String, #[source] std::io::Error),
    /// It is something else, or broken.
    #[error("{0} is no whole bundle of llm-diagnose: {1}")]
    NoBundle(String, String),
    /// Something in it would do harm.
    #[error("{0} is refused, nothing of it was used: {1}")]
    Harmful(String, String),
    /// It was made by a newer version.
    #[error("the bundle is of a kind that this version does not know ({0}, expected {SCHEMA}): take a newer llm-diagnose", SCHEMA = crate::report::SCHEMA)]
    Newer(String),
    /// There is nothing to load.
    #[error("the bundle holds no series to load{0}; its report.html and summary.json can be read all the same")]
    NoSeries(String),
    /// A program is not installed.
    #[error(
        "`{0}` was not found: series are looked at in a Prometheus on this machine. Install it with its promtool \
         (`apt install prometheus`, `brew install prometheus`, https://prometheus.io/download/), or pass \
         --prometheus-binary"
    )]
    Missing(String),
    /// A program did not do what it should.
    #[error("{0}: {1}")]
    Program(String, String),
    /// The client for it cannot be made.
    #[error(transparent)]
    Client(#[from] PromError),
    /// Somebody ended it.
    #[error("stopped")]
    Stopped,
}

/// An opened bundle; ends its Prometheus and removes what was unpacked.
#[derive(Debug)]
pub struct Opened {
    /// What it is about.
    pub report: Report,
    /// Where its series are.
    pub url: String,
    client: Prometheus,
    server: Server,
    logs: Vec<Log>,
}

/// Unpacks a bundle, loads its series, and waits until they can be asked; `stop` ends that early.
///
/// `binary` is the Prometheus to run, else the one in the path; its promtool is beside it or in the path.
///
/// # Errors
/// When the file is no bundle, holds no series or something harmful, or Prometheus cannot be run.
pub async fn open(file: &Path, binary: Option<&Path>, stop: &CancellationToken) -> Result<Opened, OpenError> {
    let dir = server::Dir::create()?;
    let (from, into, stopped) = (file.to_owned(), dir.path().to_owned(), stop.clone());
    // It looks at `stop` itself, so that nothing is written into a directory that is gone.
    let unpacked = tokio::task::spawn_blocking(move || unpack::unpack(&from, &into, &|| stopped.is_cancelled())).await;
    let Unpacked { report, series, logs } = unpacked.unwrap_or(Err(OpenError::Stopped))?;
    let server = tokio::select! {
        server = Server::start(dir, &series, binary) => server?,
        () = stop.cancelled() => return Err(OpenError::Stopped),
    };
    let url = server.url();
    let client = Prometheus::new(&prom::Config { url: url.clone(), ..prom::Config::default() })?;
    Ok(Opened { report, url, client, server, logs })
}

impl Opened {
    /// The bundle's diagnosis made once more from its series and the logs that it read; none when it holds none.
    pub async fn replay(&self, library: &Library) -> Option<Diagnosis> {
        let request = request(&self.report)?;
        let logs = LogSources { files: self.logs.clone(), ..LogSources::default() };
        let beside = Beside { exporters: None, logs: Some(&logs) };
        Some(diagnose_with(library, &self.client, &request, beside).await)
    }

    /// When its Prometheus has ended by itself; the last it said.
    pub async fn ended(&mut self) -> String {
        self.server.ended().await
    }

    /// Ends the Prometheus and removes what was unpacked.
    pub async fn close(self) {
        self.server.stop().await;
    }
}

/// What was asked when the bundle's diagnosis was made, as far as the report tells it.
pub fn request(report: &Report) -> Option<Request> {
    let diagnosis = report.diagnosis.as_ref().filter(|diagnosis| !diagnosis.symptom.playbook.is_empty())?;
    // A screening is made again from where it began, not from the symptom that it found.
    let playbook = match &diagnosis.screening {
        Some(screening) => screening.asked.clone().unwrap_or_default(),
        None => diagnosis.symptom.playbook.clone(),
    };
    Some(Request {
        playbook,
        screen: diagnosis.screening.is_some(),
        rules: Vec::new(),
        scope: Scope {
            dimensions: diagnosis.scope.labels.clone(),
            replicas: diagnosis.scope.named.iter().cloned().collect(),
        },
        at: diagnosis.at,
        since: report.asked.since,
        window: Duration::from_secs(diagnosis.window_seconds.max(1)),
        baseline: report.asked.baseline_seconds.map_or(Baseline::Off, |by| Baseline::Earlier(Duration::from_secs(by))),
        deadline: DEADLINE,
    })
}

/// Whether two diagnoses name the same root cause, or both none.
pub fn same_root(one: &Diagnosis, other: &Diagnosis) -> bool {
    one.root().map(|root| &root.id) == other.root().map(|root| &root.id)
}

/// Where a program is: beside the given Prometheus, else wherever the path leads.
fn program(name: &str, prometheus: Option<&Path>) -> PathBuf {
    let beside = prometheus.and_then(Path::parent).map(|dir| dir.join(name)).filter(|path| path.is_file());
    beside.unwrap_or_else(|| name.into())
}
