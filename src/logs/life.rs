//! The life of the process that writes a log: it starts, serves, and is told to stop.

use std::time::Duration;

use jiff::Timestamp;
use knowledge::clock::between;
use knowledge::playbook::LogStage;

/// Number of lines within which several marks are those of one start.
const ONE_START: u64 = 50;
/// Time after a stop signal within which errors follow from it; longer than any engine drains.
const STOPS_WITHIN: Duration = Duration::from_secs(900);

/// The stage of an engine, line by line; unknown where several pods write into one log.
#[derive(Debug, Default)]
pub(super) struct Life {
    pod: String,
    is_mixed: bool,
    stage: Option<LogStage>,
    /// The first line of the present process; 0 if the log's first.
    since: u64,
    /// The marks of its start, and the line of the last one.
    started: (u64, Vec<String>),
    /// The line of the first mark of its start.
    marked: Option<u64>,
    /// The first mark of its end, and its time.
    stopped: (u64, Option<Timestamp>),
}

/// A line that may begin a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct StageLine<'a> {
    pub(super) number: u64,
    pub(super) at: Option<Timestamp>,
    /// The text in the line that marks a stage, and the stage.
    pub(super) mark: Option<(&'a str, LogStage)>,
    /// True if an engine writes such a line while it works.
    pub(super) works: bool,
    /// True if an error before it has ended the process.
    pub(super) has_failed: bool,
}

impl Life {
    /// Takes note of a line's pod, and returns true if several pods are known from it on.
    pub(super) fn is_mixed_with(&mut self, pod: &str) -> bool {
        if self.pod.is_empty() {
            pod.clone_into(&mut self.pod);
        }
        self.is_mixed |= !pod.is_empty() && self.pod != pod;
        self.is_mixed
    }

    /// Processes a line, and returns the stage that begins with it.
    pub(super) fn line(&mut self, line: StageLine<'_>) -> Option<LogStage> {
        let StageLine { number, at, mark, works, has_failed } = line;
        let before = self.stage;
        let (text, stage) = match (mark, before) {
            _ if self.is_mixed => return None,
            (Some(mark), _) => mark,
            // What works without a mark of the start is no sign that the lines before were a start.
            (None, None) if works => {
                self.stage = Some(LogStage::Serving);
                return None;
            }
            // One that is stopping works until its last request is answered, and after a failure another rank may go on.
            (None, Some(LogStage::Starting)) if works && !has_failed => ("", LogStage::Serving),
            (None, _) => return None,
        };
        match stage {
            LogStage::Starting => {
                let (last, marks) = &self.started;
                let again = !marks.is_empty() && (number > last + ONE_START || marks.iter().any(|mark| mark == text));
                // What stands before the first mark of a log is mostly the same process: it loads libraries.
                if again || before.is_some_and(|stage| stage != LogStage::Starting) {
                    (self.since, self.marked) = (number, None);
                    self.started.1.clear();
                }
                self.marked.get_or_insert(number);
                self.started.0 = number;
                self.started.1.push(text.to_owned());
            }
            _ if before == Some(stage) => return None,
            // Another process, whose start left no mark.
            LogStage::Serving if before.is_some_and(|stage| stage >= LogStage::Stopping) => {
                (self.since, self.marked) = (self.stopped.0, None);
            }
            LogStage::Serving => {}
            // An engine that fails ends its other processes by signals.
            LogStage::Stopping if has_failed => return None,
            LogStage::Ending if before == Some(LogStage::Stopping) => return None,
            LogStage::Stopping | LogStage::Ending => self.stopped = (number, at),
        }
        self.stage = Some(stage);
        self.stage
    }

    /// Returns the stage at the last line.
    pub(super) fn stage(&self) -> Option<LogStage> {
        self.stage.filter(|_| !self.is_mixed)
    }

    /// Returns the line of the stop signal from which follows what is written now.
    pub(super) fn stopped_at(&self, now: Option<Timestamp>) -> Option<u64> {
        let (number, at) = self.stopped;
        let recent = at.zip(now).is_none_or(|(stopped, now)| between(stopped, now) <= STOPS_WITHIN);
        (self.stage() == Some(LogStage::Stopping) && recent).then_some(number)
    }

    /// Returns the first line of the present process, 0 if it is the log's first, and the first that is known to belong to
    /// its start.
    pub(super) fn since(&self) -> (u64, Option<u64>) {
        (self.since, self.marked)
    }
}
