//! The beginning of a failure, by the log: the first error, known or not, and what it led to.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::errors::SAME_FAULT_WITHIN;
use super::moment::without_year;
use super::unknown_line::UnknownLine;
use super::{LogAnalysis, LogMatch, LogValueSummary, NamedLogAnalysis};
use knowledge::clock::between;
use knowledge::playbook::LogRank;

/// An error of a log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LogEvent<'a> {
    /// A finding explains it.
    Known(&'a LogMatch),
    /// No finding explains it.
    Unknown(&'a UnknownLine),
}

impl LogEvent<'_> {
    /// Returns the line number.
    pub fn line(&self) -> u64 {
        match self {
            Self::Known(found) => found.line,
            Self::Unknown(unknown) => unknown.line,
        }
    }

    /// Returns the time.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Known(found) => found.at,
            Self::Unknown(unknown) => unknown.at,
        }
    }

    /// Returns the time as written.
    pub fn when(&self) -> Option<&str> {
        match self {
            Self::Known(found) => found.first.as_deref(),
            Self::Unknown(unknown) => unknown.first.as_deref(),
        }
    }
}

/// Returns the first root error of the failure that ended the engine, else the first of all; a warning only where there is no
/// error, because what ends an engine is written as one.
pub(super) fn root(findings: &[LogMatch]) -> Option<&LogMatch> {
    let roots = findings.iter().filter(|found| found.rank == LogRank::Root);
    roots.min_by_key(|root| (root.is_warning, is_long_before(root, findings), root.line))
}

/// Returns true if a root error was last written long before the engine ended: single requests may fail for hours before.
pub(super) fn is_long_before(root: &LogMatch, findings: &[LogMatch]) -> bool {
    let ends = findings.iter().filter(|found| found.rank == LogRank::Secondary).filter_map(|found| found.at);
    // One writer of a log may leave out the year.
    let times = ends.map(without_year).max().zip(root.last_at.map(without_year));
    times.is_some_and(|(ended, last)| last < ended && between(last, ended) > SAME_FAULT_WITHIN)
}

/// Time within which a warning and an error are of one moment.
const SAME_MOMENT: Duration = Duration::from_secs(2);

/// Minimum length of a message by which an error is known as the announcement of another one.
const MESSAGE: usize = 10;

/// Returns true if an error only says that another one was raised: it ends with that one's message.
fn announces(error: &UnknownLine, found: &LogMatch) -> bool {
    let message = found.raised.as_ref().and_then(|raised| raised.said.split_once(": ")).map(|(_, message)| message);
    let message = message.filter(|message| message.len() >= MESSAGE);
    message
        .and_then(|message| error.said.strip_suffix(message))
        .is_some_and(|before| before.ends_with(": ") || before.ends_with(" - "))
}

impl LogAnalysis {
    /// Returns the number of requests that ran or waited at the end of a log of which half of the numbers, and the last,
    /// tell of no token.
    pub fn standing_still(&self) -> Option<u64> {
        let find = |name: &str| self.statistics.iter().find(|value| value.name == name);
        let is_still = |value: &LogValueSummary| value.last == 0.0 && value.median == 0.0;
        let is_idle = is_still(find("generation_token_rate")?) && find("prompt_throughput").is_none_or(is_still);
        let held: f64 =
            ["requests_running", "requests_waiting"].into_iter().filter_map(|name| Some(find(name)?.last)).sum();
        (is_idle && held > 0.0).then_some(held.round() as u64)
    }

    /// Returns the root error that a finding explains.
    pub fn root(&self) -> Option<&LogMatch> {
        let strong = self.unknown.began.as_ref().filter(|began| !began.weak);
        // A warning just before an error that nothing explains is its reason.
        let is_before = |root: &LogMatch, began: &UnknownLine| {
            let times = root.at.zip(began.at);
            root.line < began.line && times.is_some_and(|(root, began)| between(root, began) <= SAME_MOMENT)
        };
        let first = root(&self.findings)?;
        match strong.filter(|_| first.is_warning || is_long_before(first, &self.findings)) {
            None => Some(first),
            Some(began) => {
                let roots = self.findings.iter().filter(|found| found.rank == LogRank::Root);
                roots.filter(|root| is_before(root, began)).max_by_key(|root| root.line)
            }
        }
    }

    /// Returns the first error, and if it is unknown the next known one: at most two, in the order of the log.
    pub fn story(&self) -> Vec<LogEvent<'_>> {
        let began = self.unknown.began.as_ref();
        let strong = began.filter(|began| !began.weak);
        let secondary = self.findings.iter().any(|found| found.rank == LogRank::Secondary);
        let sign = self
            .findings
            .iter()
            .filter(|f| f.rank == LogRank::Sign)
            .max_by_key(|f| (f.count, std::cmp::Reverse(f.line)));
        let fatal =
            self.unknown.lines.iter().find(|one| one.fatal && began.is_some_and(|began| began.line != one.line));
        let mut events: Vec<LogEvent<'_>> = match (self.root(), sign) {
            (Some(root), _) => {
                let before = strong.filter(|began| !announces(began, root));
                before.map(LogEvent::Unknown).into_iter().chain([LogEvent::Known(root)]).collect()
            }
            (None, Some(sign)) if !secondary => {
                let before = strong.filter(|began| !announces(began, sign));
                before.map(LogEvent::Unknown).into_iter().chain([LogEvent::Known(sign)]).collect()
            }
            // A warning that may have led to the end says less than a known symptom.
            (None, Some(sign)) if began.is_none_or(|began| began.suspect) => vec![LogEvent::Known(sign)],
            _ => began.into_iter().chain(fatal).map(LogEvent::Unknown).collect(),
        };
        events.sort_by_key(LogEvent::line);
        events
    }

    /// Returns the first error that is none of the signs.
    pub fn first_error(&self) -> Option<LogEvent<'_>> {
        let is_error = |event: &LogEvent<'_>| match event {
            LogEvent::Known(found) => found.rank == LogRank::Root,
            LogEvent::Unknown(_) => true,
        };
        self.story().into_iter().find(is_error)
    }

    /// Returns true if something failed, be it here or elsewhere; a sign that is only a warning is no failure.
    pub fn tells_of_failure(&self) -> bool {
        let fails = |event: &LogEvent<'_>| match event {
            LogEvent::Known(found) => found.rank == LogRank::Root || !found.is_warning,
            LogEvent::Unknown(_) => true,
        };
        let is_told = |found: &LogMatch| found.rank == LogRank::Secondary;
        self.story().iter().any(fails) || self.findings.iter().any(is_told) || self.standing_still().is_some()
    }

    /// Returns the playbooks and causes that the findings support.
    pub fn causes(&self) -> BTreeSet<&str> {
        self.findings.iter().filter(|f| f.rank < LogRank::Secondary).filter_map(|f| f.cause.as_deref()).collect()
    }
}

impl NamedLogAnalysis {
    /// Returns a cleaned copy with what it has lost, because it is never written: the times of the original, by which logs
    /// are put in order, and how sure its errors are.
    #[must_use]
    pub fn in_time_with(mut self, original: &Self) -> Self {
        let (own, of) = (&mut self.report, &original.report);
        for (one, of) in std::iter::zip(&mut own.findings, &of.findings) {
            (one.at, one.is_warning) = (of.at, of.is_warning);
        }
        let unknown = own.unknown.lines.iter_mut().chain(&mut own.unknown.began);
        for (one, of) in unknown.zip(of.unknown.lines.iter().chain(&of.unknown.began)) {
            (one.at, one.weak, one.suspect) = (of.at, of.weak, of.suspect);
        }
        self
    }
}

/// Returns the logs with an error of their own, the earliest error first; where a time is missing, a fault of the
/// hardware comes before what runs on it, and a log with times before one without.
pub fn in_order(logs: &[NamedLogAnalysis]) -> Vec<(&NamedLogAnalysis, LogEvent<'_>)> {
    let mut begun: Vec<_> = logs.iter().filter_map(|log| Some((log, log.report.first_error()?))).collect();
    let hardware = |event: &LogEvent<'_>| matches!(event, LogEvent::Known(found) if found.tells.as_deref() == Some("log_gpu_fault"));
    let timed = begun.iter().all(|(_, event)| event.at().is_some());
    // Engines write times without the year, the kernel with it.
    begun.sort_by_key(|(_, event)| {
        let at = event.at().map(without_year);
        (!timed && !hardware(event), at.is_none(), at)
    });
    begun
}

/// Returns the log in which it began.
pub fn first(logs: &[NamedLogAnalysis]) -> Option<&NamedLogAnalysis> {
    in_order(logs).first().map(|(log, _)| *log)
}
