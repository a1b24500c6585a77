//! The state of a backtest: a file of JSON lines, one for each finished part, so that an interrupted run can go on.
//!
//! The first line names the arguments and the range; a file of other arguments is not used. Results are in it as they
//! are printed, without secrets.

use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cli::output;
use crate::report::backtest::{DiagnosedFiring, ThresholdLadder, UnalertedSymptom};

/// The version of the file.
const SCHEMA: &str = "llm-diagnose/backtest-state/v1";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StateHead {
    schema: String,
    /// The hash of the arguments.
    key: String,
    from: Timestamp,
    to: Timestamp,
}

/// A finished part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FinishedPart {
    /// A diagnosed firing.
    Firing(Box<DiagnosedFiring>),
    /// A pool whose history was read.
    Pool(Box<FinishedPool>),
}

/// The findings about a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FinishedPool {
    /// The hash of the pool's labels: the labels themselves may be redacted.
    pub(super) id: String,
    /// The symptoms that held without a firing.
    pub(super) unalerted: Vec<UnalertedSymptom>,
    /// The number of times at which symptoms held while an alert fired.
    pub(super) alerted_times: usize,
    /// Its thresholds.
    pub(super) ladders: Vec<ThresholdLadder>,
    /// The limits of these findings, as sentences.
    pub(super) limits: Vec<String>,
}

/// The state of a run.
#[derive(Debug)]
pub(super) struct BacktestState {
    /// The range: of the run that goes on, else the given one.
    pub(super) range: (Timestamp, Timestamp),
    /// The parts that an earlier run finished.
    pub(super) finished: Vec<FinishedPart>,
    file: Option<(PathBuf, File)>,
    /// True if the file has a finished part.
    has_parts: bool,
}

impl BacktestState {
    /// Opens the file, or begins a new one; without a path nothing is kept.
    ///
    /// # Errors
    /// If the path is no file, or it cannot be written.
    pub(super) fn open(path: Option<&Path>, key: &str, range: (Timestamp, Timestamp)) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self { range, finished: Vec::new(), file: None, has_parts: false }) };
        output::check(path)?;
        // Of another run that writes it now; the lock ends with the process.
        if let Ok(other) = File::open(path)
            && matches!(other.try_lock(), Err(TryLockError::WouldBlock))
        {
            bail!("another run writes the state file {}: wait for its end, or name another by --state", path.display());
        }
        let (range, finished) = match read(path) {
            // Without a finished part nothing is lost by the range of now.
            Some((head, finished)) if head.key == key && !finished.is_empty() => ((head.from, head.to), finished),
            None if std::fs::metadata(path).is_ok_and(|file| file.len() > 0) => {
                bail!("{} is no state of a backtest: name another file by --state", path.display())
            }
            _ => (range, Vec::new()),
        };
        let head = StateHead { schema: SCHEMA.to_owned(), key: key.to_owned(), from: range.0, to: range.1 };
        // Written anew, without a line that a killed run left half.
        let mut text = serde_json::to_string(&head)? + "\n";
        for part in &finished {
            text.push_str(&(serde_json::to_string(part)? + "\n"));
        }
        output::write(path, text.as_bytes())?;
        let file = File::options().append(true).open(path);
        let file = file.with_context(|| format!("cannot write the state file {}", path.display()))?;
        // A file system without locks has none.
        let _ = file.try_lock();
        Ok(Self { range, has_parts: !finished.is_empty(), finished, file: Some((path.to_owned(), file)) })
    }

    /// Adds a finished part.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn add(&mut self, part: &FinishedPart) -> anyhow::Result<()> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let line = serde_json::to_string(part)? + "\n";
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write the state file {}", path.display()))?;
        self.has_parts = true;
        Ok(())
    }

    /// Tells how to go on with a run that ended early; a file without a finished part is removed.
    pub(super) fn close(self) {
        match &self.file {
            Some(_) if !self.has_parts => self.remove(),
            Some((path, _)) => {
                anstream::eprintln!("what is done is kept in {}: the same command goes on from there", path.display());
            }
            None => anstream::eprintln!("nothing is kept: pass --state or --html to go on after an interruption"),
        }
    }

    /// Removes the file: the run is complete.
    pub(super) fn remove(self) {
        if let Some((path, _)) = self.file
            && let Err(error) = std::fs::remove_file(&path)
        {
            anstream::eprintln!("cannot remove the state file {}: {error}", path.display());
        }
    }
}

/// Reads a state; `None` if there is none. Lines from the first unreadable one on are left out.
fn read(path: &Path) -> Option<(StateHead, Vec<FinishedPart>)> {
    let mut lines = BufReader::new(File::open(path).ok()?).lines();
    let head: StateHead = serde_json::from_str(&lines.next()?.ok()?).ok()?;
    if head.schema != SCHEMA {
        return None;
    }
    let finished = lines.map_while(Result::ok).map_while(|line| serde_json::from_str(&line).ok()).collect();
    Some((head, finished))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_behind_the_last_whole_line_of_the_same_arguments() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.jsonl");
        let [from, to, later] = [1, 2, 3].map(|n| Timestamp::from_second(n).unwrap());
        let mut state = BacktestState::open(Some(&path), "a", (from, to)).unwrap();
        let part =
            |id: &str| FinishedPart::Pool(Box::new(FinishedPool { id: id.to_owned(), ..FinishedPool::default() }));
        state.add(&part("one")).unwrap();
        state.add(&part("two")).unwrap();
        drop(state);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let state = BacktestState::open(Some(&path), "a", (from, later)).unwrap();
        assert_eq!((state.range, state.finished.clone()), ((from, to), vec![part("one")]));
        let error = BacktestState::open(Some(&path), "a", (from, to)).unwrap_err();
        assert!(error.to_string().starts_with("another run writes the state file"), "{error}");
        drop(state);
        let other = BacktestState::open(Some(&path), "b", (from, later)).unwrap();
        assert_eq!((other.range, other.finished.len()), ((from, later), 0));
        drop(other);
        let unpinned = BacktestState::open(Some(&path), "b", (from, to)).unwrap();
        assert_eq!(unpinned.range, (from, to), "nothing is lost without a finished part");
        unpinned.close();
        assert!(!path.exists());
        std::fs::write(&path, "my notes\n").unwrap();
        let error = BacktestState::open(Some(&path), "a", (from, to)).unwrap_err();
        assert!(error.to_string().contains("is no state of a backtest"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
    }
}
