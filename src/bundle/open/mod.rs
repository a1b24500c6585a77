//! Opening a bundle: loads its series into a local Prometheus and replays its diagnosis.
//!
//! A bundle comes from outside the trust boundary: see [`unpack`].

mod examine;
mod server;
mod unpack;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use examine::{Examined, Fault, differences, examine};

use diagnose::{ExtraSources, LogSources, diagnose_with};
use findings::{Baseline, Diagnosis, Request};
use knowledge::playbook::Library;
use logs::Log;
use prom::{PromError, Prometheus};
use report::Report;
use server::Server;
use unpack::Unpacked;

/// The deadline of the diagnosis; this Prometheus has no other clients.
const DEADLINE: Duration = Duration::from_secs(60);

/// The reason why a bundle cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, or the directory for unpacking, cannot be used.
    #[error("cannot use {0}: {1}")]
    Disk(String, #[source] std::io::Error),
    /// The file is not a bundle, or is damaged.
    #[error("{0} is no whole bundle of llm-diagnose: {1}")]
    NoBundle(String, String),
    /// The file contains something harmful.
    #[error("{0} is refused, nothing of it was used: {1}")]
    Harmful(String, String),
    /// The bundle was written by a newer version.
    #[error("the bundle is of a kind that this version does not know ({0}, expected {SCHEMA}): take a newer llm-diagnose", SCHEMA = report::SCHEMA)]
    Newer(String),
    /// The bundle holds no series.
    #[error("the bundle holds no series to load{0}; its report.html and summary.json can be read all the same")]
    NoSeries(String),
    /// A program is not installed.
    #[error(
        "`{0}` was not found: series are looked at in a Prometheus on this machine. Install it with its promtool \
         (`apt install prometheus`, `brew install prometheus`, https://prometheus.io/download/), or pass \
         --prometheus-binary"
    )]
    Missing(String),
    /// A program failed.
    #[error("{0}: {1}")]
    Program(String, String),
    /// The Prometheus client cannot be created.
    #[error(transparent)]
    Client(#[from] PromError),
    /// The user stopped it.
    #[error("stopped")]
    Stopped,
}

/// An opened bundle; stops its Prometheus and removes the unpacked files on drop.
#[derive(Debug)]
pub struct Opened {
    /// The bundle's report.
    pub report: Report,
    /// The URL of the local Prometheus.
    pub url: String,
    client: Prometheus,
    server: Server,
    logs: Vec<Log>,
}

/// Unpacks a bundle, loads its series, and waits until they can be queried; `stop` ends that early.
///
/// `binary` is the Prometheus to run, else the one in `PATH`; its promtool is beside it or in `PATH`.
///
/// # Errors
/// If the file is not a bundle, holds no series or something harmful, or Prometheus cannot be run.
pub async fn open(file: &Path, binary: Option<&Path>, stop: &CancellationToken) -> Result<Opened, OpenError> {
    let dir = server::private_directory()?;
    let (from, into, stopped) = (file.to_owned(), dir.path().to_owned(), stop.clone());
    // The thread checks `stop` itself, so that it never writes into a removed directory.
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
    /// Replays the bundle's diagnosis from its series and logs; `None` if the bundle holds no diagnosis.
    pub async fn replay(&self, library: &Library) -> Option<Diagnosis> {
        let request = request(&self.report)?;
        let logs = LogSources { files: self.logs.clone(), ..LogSources::default() };
        let beside = ExtraSources { exporters: None, logs: Some(&logs) };
        Some(diagnose_with(library, &self.client, &request, beside).await)
    }

    /// Waits until Prometheus ends by itself; returns the end of its log.
    pub async fn ended(&mut self) -> String {
        self.server.ended().await
    }

    /// Stops Prometheus and removes the unpacked files.
    pub async fn close(self) {
        self.server.stop().await;
    }
}

/// Reconstructs the request of the bundle's diagnosis from the report.
pub fn request(report: &Report) -> Option<Request> {
    let diagnosis = report.diagnosis.as_ref().filter(|diagnosis| !diagnosis.symptom.playbook.is_empty())?;
    // A screening is replayed from its start, not from the symptom that it found.
    let playbook = match &diagnosis.screening {
        Some(screening) => screening.asked.clone().unwrap_or_default(),
        None => diagnosis.symptom.playbook.clone(),
    };
    let window = Duration::from_secs(diagnosis.window_seconds.max(1));
    Some(Request {
        playbook,
        screen: diagnosis.screening.is_some(),
        since: report.asked.since,
        baseline: report.asked.baseline_seconds.map_or(Baseline::Off, |by| Baseline::Earlier(Duration::from_secs(by))),
        ..Request::without_past(diagnosis.scope.again(), diagnosis.at, window, DEADLINE)
    })
}

/// Returns true if two diagnoses have the same root cause, or both have none.
pub fn same_root(first: &Diagnosis, other: &Diagnosis) -> bool {
    first.root().map(|root| &root.id) == other.root().map(|root| &root.id)
}

/// Returns the path of a program: beside the given Prometheus, else its name for lookup in `PATH`.
fn program(name: &str, prometheus: Option<&Path>) -> PathBuf {
    let beside = prometheus.and_then(Path::parent).map(|dir| dir.join(name)).filter(|path| path.is_file());
    beside.unwrap_or_else(|| name.into())
}
