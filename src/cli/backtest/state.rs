//! The state of a backtest: a file of JSON lines, one for each finished part, so that an interrupted run can go on.
//!
//! The first line names the arguments and the range; a file of other arguments is not used. Results are in it as they
//! are printed, without secrets.

use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cli::output;
use ::backtest::{BacktestFindings, DiagnosedFiring, ThresholdLadder, UnalertedSymptom, add_ladders};
use knowledge::clip::format_count;
use knowledge::clock;

/// The version of the file.
const SCHEMA: &str = "llm-diagnose/backtest-state/v1";
/// The age of a range, or its length if that is shorter, from which a run begins anew.
const OUTDATED: Duration = Duration::from_secs(86_400);

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
    /// True if an answer was late, so that another try may see more; such a pool is not kept as finished.
    #[serde(skip)]
    pub(super) is_open: bool,
}

impl FinishedPool {
    /// Adds the findings to those about other pools.
    pub(super) fn add_to(self, findings: &mut BacktestFindings) {
        findings.unalerted.extend(self.unalerted);
        findings.alerted_times += self.alerted_times;
        findings.limits.extend(self.limits);
        add_ladders(&mut findings.ladders, self.ladders);
    }
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
    /// True if parts had no answer, so that the same command tries them again.
    pub(super) has_open_parts: bool,
}

impl BacktestState {
    /// Opens the file, or begins a new one; without a path nothing is kept.
    ///
    /// # Errors
    /// If the path is no file, another run writes it, or it cannot be written.
    pub(super) fn open(path: Option<&Path>, key: &str, range: (Timestamp, Timestamp)) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { range, finished: Vec::new(), file: None, has_parts: false, has_open_parts: false });
        };
        output::check(path)?;
        let cannot = || format!("cannot write the state file {}", path.display());
        let mut file = File::options().read(true).append(true).create(true).open(path).with_context(cannot)?;
        // The lock ends with the process. A file system without locks has none.
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&file, path) {
            bail!("another run writes the state file {}: wait for its end, or name another by --state", path.display());
        }
        let begun = match read(&file) {
            Some(state) => Some(state),
            None if file.metadata().is_ok_and(|file| file.len() > 0) => {
                bail!("{} is no state of a backtest: name another file by --state", path.display())
            }
            None => None,
        };
        // Without a finished part nothing is lost by the range of now.
        let (range, finished) = match begun.filter(|state| !state.finished.is_empty()) {
            Some(state) if state.head.key != key => {
                let parts = format_count(state.finished.len(), "finished part");
                anstream::eprintln!(
                    "{} was of other arguments: its {parts} are lost, this run begins anew",
                    path.display()
                );
                (range, Vec::new())
            }
            Some(state) if is_outdated(&state.head, range) => {
                let to = state.head.to;
                anstream::eprintln!("{} is about the time until {to:.0}: this run begins anew", path.display());
                (range, Vec::new())
            }
            Some(state) => {
                // Without the line that a killed run left half.
                file.set_len(state.bytes).with_context(cannot)?;
                ((state.head.from, state.head.to), state.finished)
            }
            None => (range, Vec::new()),
        };
        if finished.is_empty() {
            let head = StateHead { schema: SCHEMA.to_owned(), key: key.to_owned(), from: range.0, to: range.1 };
            file.set_len(0).with_context(cannot)?;
            file.write_all((serde_json::to_string(&head)? + "\n").as_bytes()).with_context(cannot)?;
        }
        let (has_parts, file) = (!finished.is_empty(), Some((path.to_owned(), file)));
        Ok(Self { range, finished, file, has_parts, has_open_parts: false })
    }

    /// Returns the findings of the parts that an earlier run finished.
    pub(super) fn findings(&self) -> BacktestFindings {
        let mut findings = BacktestFindings::default();
        for part in &self.finished {
            match part {
                FinishedPart::Firing(firing) => findings.firings.push((**firing).clone()),
                FinishedPart::Pool(pool) => pool.as_ref().clone().add_to(&mut findings),
            }
        }
        findings
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
                anstream::eprintln!(
                    "finished results are kept in {}: the same command continues from there",
                    path.display()
                );
            }
            None => {
                anstream::eprintln!("results are not kept: pass --state or --html to continue after an interruption")
            }
        }
    }

    /// Removes the file: the run is complete. Another file that has its name by now stays.
    pub(super) fn remove(self) {
        if let Some((path, file)) = self.file
            && is_at(&file, &path)
            && let Err(error) = std::fs::remove_file(&path)
        {
            anstream::eprintln!("cannot remove the state file {}: {error}", path.display());
        }
    }
}

/// Returns true if an open file still has this path.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |file: std::fs::Metadata| (file.dev(), file.ino());
    file.metadata().is_ok_and(|own| std::fs::metadata(path).is_ok_and(|there| place(own) == place(there)))
}

/// Returns true if a range ended so long before the one of now that its result is no longer wanted.
fn is_outdated(head: &StateHead, (from, to): (Timestamp, Timestamp)) -> bool {
    clock::between(head.to, to) > clock::between(from, to).min(OUTDATED)
}

/// The readable part of a file.
struct KeptState {
    head: StateHead,
    finished: Vec<FinishedPart>,
    /// The length of the readable lines.
    bytes: u64,
}

/// Reads a state; `None` if there is none. Lines from the first unreadable one on are left out.
fn read(file: &File) -> Option<KeptState> {
    let mut lines = BufReader::new(file);
    let mut bytes = 0;
    let mut next = || -> Option<String> {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        line.ends_with('\n').then_some(line)
    };
    let first = next()?;
    let head: StateHead = serde_json::from_str(&first).ok().filter(|head: &StateHead| head.schema == SCHEMA)?;
    bytes += first.len() as u64;
    let mut finished = Vec::new();
    while let Some(line) = next() {
        let Ok(part) = serde_json::from_str(&line) else { break };
        finished.push(part);
        bytes += line.len() as u64;
    }
    Some(KeptState { head, finished, bytes })
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

    #[test]
    fn a_range_of_yesterday_is_not_pinned_and_a_file_of_the_same_name_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.jsonl");
        let hour = |n: i64| Timestamp::from_second(n * 3_600).unwrap();
        let open = |from: i64, to: i64| BacktestState::open(Some(&path), "a", (hour(from), hour(to))).unwrap();
        let mut state = open(0, 720);
        state.add(&FinishedPart::Pool(Box::default())).unwrap();
        drop(state);
        assert_eq!(open(24, 744).range, (hour(0), hour(720)), "a day later");
        assert_eq!(open(25, 745).range, (hour(25), hour(745)), "more than a day later");
        let mut state = open(30, 750);
        state.add(&FinishedPart::Pool(Box::default())).unwrap();
        drop(state);
        let short = open(758, 760);
        assert_eq!((short.range, short.finished.len()), ((hour(758), hour(760)), 0), "longer ago than its length");
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        std::fs::write(&path, "a result").unwrap();
        short.remove();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a result");
    }
}
