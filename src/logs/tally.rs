//! Occurrences of a finding, and readings of a number, in constant memory.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use knowledge::playbook::{LogFinding, LogRank};
use knowledge::signal::Unit;

use super::errors::SAME_FAULT_WITHIN;
use super::forms::printable;
use super::moment::LogTime;
use super::unknown_line::UnknownLine;
use super::{LogMatch, LogValueSummary};

/// The time within which repetitions are counted together, for lines that are harmless in small numbers.
const REPETITION_WINDOW: Duration = Duration::from_secs(600);
/// Maximum readings retained for a median; beyond it every second one is dropped.
pub(super) const READINGS: usize = 4_096;
/// The assumed time between two lines without a timestamp.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// The number of a line, and its time if one is known.
type LineTime = (u64, Option<Timestamp>);

/// A line with a finding.
#[derive(Debug)]
pub(super) struct Occurrence<'a> {
    pub(super) number: u64,
    pub(super) at: Option<LogTime>,
    pub(super) text: &'a str,
    /// True if its program wrote it as information or a warning.
    pub(super) is_warning: bool,
    /// True if it follows from the end of its process.
    pub(super) is_harmless: bool,
}

/// The occurrences of a finding.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    pub(super) finding: &'a LogFinding,
    count: u64,
    /// Number of those that did no harm.
    harmless: u64,
    /// Number of those that were written as information or a warning.
    warnings: u64,
    /// The line of the first one.
    pub(super) line: u64,
    first: Option<LogTime>,
    last: Option<LogTime>,
    pub(super) text: String,
    /// The exception, if the finding explains its place or another line of its record.
    pub(super) raised: Option<UnknownLine>,
    /// The finding whose meaning and steps hold, if they are not its own.
    pub(super) meant: Option<&'a LogFinding>,
    pub(super) lately: VecDeque<Timestamp>,
    /// The line from which on they are too many to be harmless.
    harmful_from: Option<LineTime>,
}

/// The readings of a number.
#[derive(Debug)]
pub(super) struct Readings<'a> {
    title: &'a str,
    unit: Unit,
    count: u64,
    min: f64,
    max: f64,
    last: f64,
    pub(super) readings: Vec<f64>,
    every: u64,
}

impl<'a> Tally<'a> {
    pub(super) fn new(finding: &'a LogFinding) -> Self {
        Self {
            finding,
            count: 0,
            harmless: 0,
            warnings: 0,
            line: 0,
            first: None,
            last: None,
            text: String::new(),
            raised: None,
            meant: None,
            lately: VecDeque::new(),
            harmful_from: None,
        }
    }

    pub(super) fn add(&mut self, occurrence: Occurrence<'_>) {
        let Occurrence { number, at, text, is_warning, is_harmless } = occurrence;
        // The first one that does harm is the one to read.
        if self.count == self.harmless && !is_harmless {
            *self = Self::new(self.finding);
        }
        if self.count == 0 {
            (self.line, self.first) = (number, at.clone());
            self.text = printable(text);
        }
        self.count += 1;
        self.harmless += u64::from(is_harmless);
        self.warnings += u64::from(is_warning);
        // A line without a timestamp gets a time from its line number.
        let untimed = || Timestamp::from_second(i64::try_from(number * LINE_INTERVAL.as_secs()).unwrap_or(i64::MAX));
        let when = at.as_ref().and_then(|m| m.at).or_else(|| untimed().ok());
        if let Some(when) = when {
            self.lately.push_back(when);
            while self.lately.front().is_some_and(|first| knowledge::clock::between(*first, when) > REPETITION_WINDOW)
                || self.lately.len() > READINGS
            {
                self.lately.pop_front();
            }
            if self.harmful_from.is_none() && self.lately.len() as u64 > self.finding.harmless_up_to {
                self.harmful_from = Some((number, at.as_ref().and_then(|moment| moment.at)));
            }
        }
        self.last = at;
    }

    /// Returns where the first one is.
    pub(super) fn began(&self) -> LineTime {
        (self.line, self.first.as_ref().and_then(|moment| moment.at))
    }

    /// Counts an occurrence `times` more, which came later.
    pub(super) fn repeat(&mut self, times: u64, is_harmless: bool) {
        self.count += times;
        self.harmless += if is_harmless { times } else { 0 };
    }

    /// Counts warnings as harmless: the process that began at the line `since` serves now.
    pub(super) fn survived(&mut self, since: u64) {
        // A sign of the start tells how it serves: without a template, without room for the longest request.
        if self.finding.rank != LogRank::Sign && self.line >= since && self.warnings == self.count {
            self.harmless = self.count;
        }
    }

    /// Returns true if it tells of a failure of the engine that began at the line `since`. `of_engine` is false for findings
    /// of any program, of which connections that break follow from most things.
    pub(super) fn has_failed(&self, since: u64, of_engine: bool) -> bool {
        let fails = self.finding.rank == LogRank::Root || (self.finding.rank == LogRank::Secondary && of_engine);
        fails && self.line >= since && self.harmless < self.count && self.warnings < self.count
    }

    /// `led` is where a finding begins that it may follow from: lines that were too many only after it, and of the same
    /// fault, do no harm of their own.
    pub(super) fn into_match(self, led: Option<LineTime>) -> LogMatch {
        let finding = self.finding;
        let follows =
            finding.harmless_up_to > 0 && self.harmful_from.zip(led).is_some_and(|(from, led)| follows(from, led));
        let harmless = self.harmful_from.is_none() || follows || self.harmless == self.count;
        let meant = self.meant.unwrap_or(finding);
        LogMatch {
            id: finding.id.clone(),
            title: finding.title.clone(),
            raised: self.raised,
            meaning: meant.meaning.clone(),
            rank: if harmless { LogRank::Benign } else { finding.rank },
            action: meant.action.clone().filter(|_| !harmless),
            direction: finding.direction,
            cause: finding.cause.clone().filter(|_| !harmless),
            tells: finding.tells.clone().filter(|_| !harmless),
            at: self.first.as_ref().and_then(|m| m.at),
            last_at: self.last.as_ref().and_then(|m| m.at),
            is_warning: self.warnings == self.count,
            count: self.count,
            line: self.line,
            first: self.first.map(|m| m.text),
            last: self.last.map(|m| m.text),
            text: self.text,
            source: finding.source.clone(),
        }
    }
}

/// Returns true if a line stands after another one and belongs to the same fault.
fn follows((line, at): LineTime, (led, led_at): LineTime) -> bool {
    let times = at.zip(led_at);
    line > led && times.is_none_or(|(at, led)| knowledge::clock::between(led, at) <= SAME_FAULT_WITHIN)
}

impl<'a> Readings<'a> {
    pub(super) fn new(title: &'a str, unit: Unit) -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { title, unit, count: 0, min, max, last: 0.0, readings: Vec::new(), every: 1 }
    }

    pub(super) fn add(&mut self, value: f64) {
        if self.count.is_multiple_of(self.every) {
            self.readings.push(value);
        }
        if self.readings.len() >= READINGS {
            let mut keep = false;
            self.readings.retain(|_| {
                keep = !keep;
                keep
            });
            self.every *= 2;
        }
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.last = value;
    }

    pub(super) fn numbers(&self, name: &str) -> LogValueSummary {
        let mut sorted = self.readings.clone();
        sorted.sort_by(f64::total_cmp);
        LogValueSummary {
            name: name.to_owned(),
            title: self.title.to_owned(),
            unit: self.unit,
            count: self.count,
            min: self.min,
            median: sorted.get(sorted.len() / 2).copied().unwrap_or(self.last),
            max: self.max,
            last: self.last,
        }
    }
}
