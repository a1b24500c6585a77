//! Error lines and tracebacks that no finding explains, counted by shape, so that the first can be told with its exception.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use knowledge::playbook::LogRank;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::forms::{CHARS, QUOTED, has};
use super::moment::{LogTime, without_year};
use super::record::Records;
use super::unknown_line::UnknownLine;

/// Maximum shapes; beyond it the rarer half is dropped, except the first.
const SHAPES: usize = 256;
/// Number of shapes in a report, beside the first.
const MAX_QUOTED_SHAPES: usize = 3;
/// Time before a known failure within which an unknown error belongs to it: what a time-out notices began earlier.
pub(super) const SAME_FAULT_WITHIN: Duration = Duration::from_secs(900);
/// Time, and lines where no times are, within which a warning may lead to what only follows from an error.
const LEADS_WITHIN: Duration = Duration::from_secs(60);
const LEADS_WITHIN_LINES: u64 = 20;

/// Error lines that match no finding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnclassifiedErrors {
    /// Their number.
    pub count: u64,
    /// True if none of them did harm: their process went on to serve, or had been told to stop.
    #[serde(default)]
    pub harmless: bool,
    /// The most frequent lines and the first, in order of first occurrence.
    pub lines: Vec<UnknownLine>,
    /// The first error of the failure, if no finding explains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<UnknownLine>,
}

/// The counter of error lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Errors {
    count: u64,
    /// The line at which the present process was told to stop.
    pub(super) stopped_at: Option<u64>,
    /// The lines of its start, once it serves, and the first of them that is known to belong to it.
    survived: (Range<u64>, Option<u64>),
    records: Records,
    /// The first traceback that ends before its exception.
    cut: Option<UnknownLine>,
    /// The innermost exceptions of records of which another line is explained, by that line.
    pub(super) explained: BTreeMap<u64, UnknownLine>,
    shapes: BTreeMap<String, UnknownLine>,
}

impl Errors {
    /// Processes the next line; `known` is the rank of what a finding says of it.
    pub(super) fn line(
        &mut self,
        line: &super::line::LogLine<'_>,
        number: u64,
        at: Option<&LogTime>,
        known: Option<LogRank>,
    ) {
        for failure in self.records.line(line, number, at, known) {
            self.add(failure);
        }
    }

    /// Marks errors of these lines as harmless: their process serves now. Before the first mark of its start, `marked`, a log
    /// may hold the end of another process, whose errors are no mere words of failure.
    pub(super) fn survived(&mut self, lines: Range<u64>, marked: Option<u64>) {
        self.survived = (lines, marked);
        let survived = &self.survived;
        self.shapes.values_mut().filter(|one| is_survived(one, survived)).for_each(|one| one.harmless = true);
    }

    /// Forgets which lines a process survived: several pods write this log.
    pub(super) fn forget_survived(&mut self) {
        self.survived = Default::default();
    }

    fn add(&mut self, mut failure: UnknownLine) {
        if failure.cut {
            self.cut.get_or_insert(failure);
            return;
        }
        if let Some(line) = failure.explained_by {
            if self.explained.len() < SHAPES {
                self.explained.insert(line, failure);
            }
            return;
        }
        self.count += 1;
        // The kernel's lines are no engine's.
        let follows = |stopped: u64| failure.line > stopped && !failure.text.contains("NVRM: ");
        failure.harmless = is_survived(&failure, &self.survived) || self.stopped_at.is_some_and(follows);
        let shape = shape(&failure.said);
        if self.shapes.len() >= SHAPES && !self.shapes.contains_key(&shape) {
            self.forget();
        }
        let kind = self.shapes.entry(shape).or_insert_with(|| failure.clone());
        // The first one that does harm is the one to read.
        if (kind.harmless && !failure.harmless) || (kind.suspect && !failure.suspect) {
            *kind = UnknownLine { count: kind.count, ..failure.clone() };
        }
        kind.count += 1;
        kind.fatal |= failure.fatal;
    }

    /// Drops the rarer half, but never the first: a frequent shape may begin after many rare ones.
    fn forget(&mut self) {
        let first = self.shapes.values().map(|one| one.line).min();
        let mut ranks: Vec<_> = self.shapes.values().map(|one| (rank(one), one.line)).collect();
        ranks.sort_unstable();
        let last = ranks.get(SHAPES / 2).copied();
        self.shapes.retain(|_, one| Some((rank(one), one.line)) < last || Some(one.line) == first);
    }

    /// Takes out the errors of which `explained` knows the innermost frame.
    pub(super) fn take_placed<T>(&mut self, explained: impl Fn(&str) -> Option<T>) -> Vec<(UnknownLine, T)> {
        for failure in self.records.finish() {
            self.add(failure);
        }
        // What fails while modules are loaded is the installation's fault, not that of the part which is loaded.
        let is_import = |frame: &str| frame.ends_with(", in <module>");
        let found =
            |one: &UnknownLine| one.frames.iter().filter(|frame| !is_import(frame)).find_map(|frame| explained(frame));
        let mut placed: Vec<_> = self.shapes.values().filter_map(|one| Some((one.clone(), found(one)?))).collect();
        placed.sort_by_key(|(one, _)| one.line);
        placed.iter().for_each(|(one, _)| self.count -= one.count);
        self.shapes.retain(|_, one| !placed.iter().any(|(placed, _)| placed.line == one.line));
        placed
    }

    /// Drops the errors soon after a line that repeat its message.
    pub(super) fn drop_repeated(&mut self, (line, at): (u64, Option<Timestamp>), message: &str) {
        let is_near = |one: &UnknownLine| match at.zip(one.at) {
            Some((root, at)) => knowledge::clock::between(root, at) <= SAME_FAULT_WITHIN,
            None => one.line <= line + LEADS_WITHIN_LINES,
        };
        let is_new = |one: &UnknownLine| one.line <= line || !is_near(one) || !one.said.contains(message);
        self.count -= self.shapes.values().filter(|one| !is_new(one)).map(|one| one.count).sum::<u64>();
        self.shapes.retain(|_, one| is_new(one));
    }

    /// Returns the summary; `failed` is the line and the time of the first known failure, and whether it is a root error.
    /// `follows` is true for a traceback that ends before its exception and belongs to a symptom.
    pub(super) fn into_summary(
        mut self,
        failed: Option<Failed>,
        follows: impl Fn(&UnknownLine) -> bool,
    ) -> UnclassifiedErrors {
        for failure in self.records.finish() {
            self.add(failure);
        }
        let is_told =
            failed.is_none_or(|failed| failed.root) || self.shapes.values().any(|one| !one.suspect && !one.harmless);
        let is_kept =
            |one: &UnknownLine| !one.suspect || (!is_told && failed.is_some_and(|failed| failed.may_follow(one)));
        self.count -= self.shapes.values().filter(|one| !is_kept(one)).map(|one| one.count).sum::<u64>();
        self.shapes.retain(|_, one| is_kept(one));
        // It says only that something failed.
        let is_told = failed.is_none() && self.shapes.is_empty();
        if let Some(cut) = self.cut.take().filter(|cut| is_told && !follows(cut)) {
            self.add(UnknownLine { cut: false, ..cut });
        }
        let harmless = self.shapes.values().all(|one| one.harmless);
        let mut lines: Vec<UnknownLine> = self.shapes.into_values().collect();
        lines.sort_by_key(|one| one.line);
        let began = began(&lines, failed).cloned();
        let first = lines.first().map(|one| one.line);
        lines.sort_by_key(|one| (rank(one), one.line));
        let mut place = 0;
        lines.retain(|one| {
            place += 1;
            let told = began.as_ref().is_some_and(|began| began.line == one.line);
            place <= MAX_QUOTED_SHAPES || Some(one.line) == first || told
        });
        lines.sort_by_key(|one| one.line);
        UnclassifiedErrors { count: self.count, harmless, lines, began }
    }
}

/// The first failure that a finding explains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failed {
    pub(super) line: u64,
    pub(super) at: Option<jiff::Timestamp>,
    /// True if it is the root error, false if it only follows from one.
    pub(super) root: bool,
}

impl Failed {
    /// Returns true for a warning that may have led to it: one that quotes an exception, or another one just before it.
    fn may_follow(&self, one: &UnknownLine) -> bool {
        let quotes = has(&QUOTED, &one.said);
        match self.at.map(without_year).zip(one.at.map(without_year)) {
            Some((failed, at)) => {
                let within = if quotes { SAME_FAULT_WITHIN } else { LEADS_WITHIN };
                (at, one.line) < (failed, self.line) && knowledge::clock::between(at, failed) <= within
            }
            None => quotes || (one.line < self.line && self.line <= one.line + LEADS_WITHIN_LINES),
        }
    }
}

/// Ranks an error for quoting: the end of a process counts more than a frequent error, and that more than a warning.
fn rank(one: &UnknownLine) -> (bool, bool, std::cmp::Reverse<u64>) {
    (one.suspect, !one.fatal, std::cmp::Reverse(one.count))
}

/// Returns the first error that did harm: before the root error of the failure, or around what follows from it; else the
/// first of all.
fn began(lines: &[UnknownLine], failed: Option<Failed>) -> Option<&UnknownLine> {
    let belongs = |one: &&UnknownLine| {
        if one.harmless {
            return false;
        }
        let Some(failed) = failed else { return true };
        // One writer of a log may leave out the year.
        let times = failed.at.map(without_year).zip(one.at.map(without_year));
        let recent =
            times.is_none_or(|(failed, at)| at >= failed || knowledge::clock::between(at, failed) <= SAME_FAULT_WITHIN);
        recent && (!failed.root || (one.line < failed.line && !one.weak))
    };
    let strong = lines.iter().filter(belongs).find(|one| !one.weak);
    strong.or_else(|| lines.iter().find(belongs))
}

/// Returns true if the process of an error went on to serve.
fn is_survived(one: &UnknownLine, (lines, marked): &(Range<u64>, Option<u64>)) -> bool {
    !one.fatal && lines.contains(&one.line) && (one.weak || marked.is_some_and(|marked| one.line >= marked))
}

/// Returns the words of a line with variable parts replaced.
fn shape(body: &str) -> String {
    let word = |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    let words: Vec<String> = body.split_whitespace().map(word).collect();
    words.join(" ").chars().take(CHARS).collect()
}
