//! `make demo`: a fault from its injection to the resolved incident, on one machine and in two minutes.
//!
//! A simulated fleet is scraped by a real Prometheus, whose alerts go through a real Alertmanager to the product's own
//! binary; its messages are shown between the story's lines. Nothing is staged: the rules are the generated ones, the
//! verdict is read from the service's API. Slack needs a workspace, so only [`Options::pictures`] has one, the fake.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use llm_diagnose_lab::demo::{self, Options};
//! let options = Options::read(std::iter::empty(), |name| std::env::var(name).ok())?;
//! let ended = demo::run(&options, &demo::place()?).await?;
//! # Ok(()) }
//! ```

mod figures;
mod incidents;
mod narrator;
mod options;
mod pictures;
mod scenario;
mod site;
mod story;
#[cfg(test)]
mod tests;
mod tour;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use options::{Options, help};
pub use scenario::Scenario;

use narrator::Narrator;
use site::Site;

/// How a demo came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The expected cause was found in time and the incident resolved.
    Passed,
    /// It was not; the story said what was seen.
    Failed,
    /// Somebody stopped it before it was decided.
    Interrupted,
}

/// The variable that hands the place of all files from the first to the second start of the program.
const PLACE: &str = "LLM_DIAGNOSE_DEMO_PLACE";

/// Where a demo may keep its files, for [`run`]. Nothing is there yet.
///
/// The programs that it starts must write there too, and promtool obeys only `TMPDIR`. A running process had better not
/// change its environment, so this one starts anew, as itself and in its place; the second time this returns.
///
/// # Errors
/// When the program cannot be started again.
pub fn place() -> anyhow::Result<PathBuf> {
    if let Some(place) = std::env::var_os(PLACE) {
        return Ok(place.into());
    }
    let place = std::env::temp_dir().join(format!("llm-diagnose-demo-{}", site::token()?));
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let mut again = std::process::Command::new(program);
    again.args(std::env::args_os().skip(1)).env(PLACE, &place).env("TMPDIR", &place);
    Err(again.exec()).context("cannot start again with a directory for temporary files")
}

/// Tells the whole story on standard output, with every file in the directory `place`, which it makes.
///
/// Whatever ends it (its end, an error, a panic, Ctrl-C, SIGTERM, a hang-up), every program it started is killed and
/// the directory is deleted before it returns.
///
/// # Errors
/// When a program is missing or does not start, or stops answering.
pub async fn run(options: &Options, place: &Path) -> anyhow::Result<Ended> {
    // First of all, so that a signal during the start does not leave anything behind.
    let mut signals = Signals::listen()?;
    let root = make(place).with_context(|| format!("cannot make the directory {}", place.display()))?;
    let mut passed = None;
    let told = tokio::select! {
        biased;
        () = signals.any() => None,
        told = tell(options, root.path(), &mut passed) => Some(told),
    };
    delete(root).await;
    match (told, passed) {
        (Some(Err(error)), _) => Err(error),
        (_, Some(true)) => Ok(Ended::Passed),
        (_, Some(false)) => Ok(Ended::Failed),
        (_, None) => Ok(Ended::Interrupted),
    }
}

fn make(place: &Path) -> anyhow::Result<TempDir> {
    let (parent, name) = (place.parent().context("it has no parent")?, place.file_name().context("it has no name")?);
    Ok(tempfile::Builder::new().prefix(name).rand_bytes(0).tempdir_in(parent)?)
}

/// Builds the site, tells the story on it, and stays if that is wanted.
async fn tell(options: &Options, directory: &Path, passed: &mut Option<bool>) -> anyhow::Result<()> {
    let narrator = Narrator::new();
    let site = match options.tour {
        Some(stops) => {
            let (site, as_expected) = tour::tell(options, stops, directory, &narrator).await?;
            *passed = Some(as_expected);
            site
        }
        None => {
            let mut site = Site::start(options, directory, &narrator).await?;
            *passed = Some(story::tell(options, &mut site, &narrator).await?);
            site
        }
    };
    if options.keep {
        if let (Some(_), Some(true)) = (options.tour, *passed) {
            narrator.say(&next(options));
        }
        narrator.say("everything stays up until Ctrl-C; open the pages");
        if options.tour.is_none() {
            narrator.note("or break something else:");
            narrator.note(&format!("curl -X POST   {}/faults/slot-limit", site.fleet_url));
            narrator.note(&format!("curl -X DELETE {}/faults", site.fleet_url));
        }
        std::future::pending::<()>().await;
    }
    site.stop(&narrator).await;
    if *passed == Some(true) {
        narrator.say(&next(options));
    }
    Ok(())
}

/// What to look at after a demo that went well.
fn next(options: &Options) -> String {
    match options.tour {
        Some(_) => {
            let program = options.binary.display();
            format!("next, your own fleet, read-only: {program} diagnose NAME --prometheus http://prometheus:9090")
        }
        None => "next: `make demo MODE=tour` shows eight faults, an incident's page and a bundle in three minutes"
            .to_owned(),
    }
}

/// Deletes a directory into which a program that was just killed may still be writing its last.
async fn delete(root: TempDir) {
    let path = root.path().to_path_buf();
    drop(root);
    for _ in 0..20 {
        if !path.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::fs::remove_dir_all(&path).ok();
    }
}

/// The signals that ask for an end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the first of them.
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
