//! Analysis of an engine's log: root errors, consequences, harmless lines, and reported numbers.
//!
//! Pure over lines; a log of any length is read once, in constant memory.

mod errors;
pub mod files;
mod line;
mod log;
mod moment;
mod patterns;
mod record;
pub mod start;
mod story;
pub mod stream;
mod unknown_line;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use errors::UnclassifiedErrors;
use errors::{Errors, Failed};
use knowledge::playbook::{Direction, LogFinding, LogNumbers, LogRank, pattern_matched};
use knowledge::signal::Unit;
use line::LogLine;
pub use log::{HEAD_BYTES, Log, joined};
use moment::LogTime;
use patterns::PatternMeaning;
pub use patterns::Patterns;
pub use start::Start;
pub use story::{LogEvent, first, in_order};
pub use unknown_line::UnknownLine;

/// Maximum bytes of a line that are analysed; the rest of a longer line is ignored.
pub const LINE_BYTES: usize = 16 << 10;
/// The time within which repetitions are counted together, for lines that are harmless in small numbers.
const REPETITION_WINDOW: Duration = Duration::from_secs(600);
/// Maximum readings retained for a median; beyond it every second one is dropped.
const READINGS: usize = 4_096;
/// Maximum characters of a quoted line.
const SHOWN_CHARS: usize = 300;
/// The assumed time between two lines without a timestamp.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// The analysis of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogAnalysis {
    /// The engine that wrote it; `null` if no line was recognised.
    pub engine: Option<String>,
    /// Number of lines.
    pub lines: u64,
    /// The first timestamp, as written.
    pub from: Option<String>,
    /// The last timestamp, as written.
    pub to: Option<String>,
    /// The findings, in order of their first line.
    pub findings: Vec<LogMatch>,
    /// Error lines that match no finding.
    pub unknown: UnclassifiedErrors,
    /// The id of the first finding with the rank root.
    pub first_root: Option<String>,
    /// Numbers from periodic lines.
    pub statistics: Vec<LogValueSummary>,
    /// Numbers from start-up lines.
    pub startup: Vec<LogValueSummary>,
    /// The engine's configuration.
    pub start: Start,
}

/// The analysis of one of several logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedLogAnalysis {
    /// The file's name.
    pub name: String,
    /// The pod, if known from the name.
    pub pod: Option<String>,
    /// The container, if known.
    pub container: Option<String>,
    /// True if a part was not read; always false for a log that is read as a stream.
    pub cut: bool,
    /// The analysis.
    #[serde(flatten)]
    pub report: LogAnalysis,
}

/// A finding with its occurrences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogMatch {
    /// Its id in `logs/<engine>.yaml`.
    pub id: String,
    /// The title, as a clause.
    pub title: String,
    /// The explanation.
    pub meaning: String,
    /// Root, sign, secondary or benign, depending on the number of repetitions.
    pub rank: LogRank,
    /// The action to take.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The direction in which to change the flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The playbook or cause that it supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The signal that counts such lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tells: Option<String>,
    /// The time of the first occurrence, if the line has a timestamp.
    #[serde(skip)]
    pub at: Option<Timestamp>,
    /// Number of occurrences.
    pub count: u64,
    /// The line number of the first occurrence.
    pub line: u64,
    /// The time of the first occurrence, as written.
    pub first: Option<String>,
    /// The time of the last occurrence, as written.
    pub last: Option<String>,
    /// The first line, truncated.
    pub text: String,
    /// The reference of the finding.
    pub source: String,
}

/// The summary of a number over the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogValueSummary {
    /// The name of a signal, or a name of its own.
    pub name: String,
    /// The title.
    pub title: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Number of readings.
    pub count: u64,
    /// The minimum.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The maximum.
    pub max: f64,
    /// The last reading.
    pub last: f64,
}

/// A line-by-line analyser of a log.
#[derive(Debug)]
pub struct LogReader<'a> {
    patterns: &'a Patterns<'a>,
    within: Option<[Timestamp; 2]>,
    now: Option<LogTime>,
    known_lines: BTreeMap<&'a str, u64>,
    lines: u64,
    from: Option<LogTime>,
    to: Option<LogTime>,
    tallies: BTreeMap<(&'a str, &'a str), Tally<'a>>,
    numbers: BTreeMap<(&'a str, bool, &'a str), Series<'a>>,
    starts: BTreeMap<&'a str, Start>,
    errors: Errors,
}

#[derive(Debug)]
struct Tally<'a> {
    finding: &'a LogFinding,
    count: u64,
    line: u64,
    first: Option<LogTime>,
    last: Option<LogTime>,
    text: String,
    lately: VecDeque<Timestamp>,
    most_together: u64,
}

#[derive(Debug)]
struct Series<'a> {
    title: &'a str,
    unit: Unit,
    count: u64,
    min: f64,
    max: f64,
    last: f64,
    readings: Vec<f64>,
    every: u64,
}

impl<'a> LogReader<'a> {
    /// Creates a reader; the engine is recognised among the files of the patterns.
    pub fn new(patterns: &'a Patterns<'a>) -> Self {
        Self {
            patterns,
            within: None,
            now: None,
            known_lines: BTreeMap::new(),
            lines: 0,
            from: None,
            to: None,
            tallies: BTreeMap::new(),
            numbers: BTreeMap::new(),
            starts: BTreeMap::new(),
            errors: Errors::default(),
        }
    }

    /// Restricts findings and statistics to a time range. A line without a timestamp has the time of the line before
    /// it, and is included if no earlier line has a time. Start-up facts are always included.
    pub fn within(mut self, from: Timestamp, to: Timestamp) -> Self {
        self.within = Some([from, to]);
        self
    }

    /// Reads a whole log.
    pub fn text(mut self, text: &str) -> LogAnalysis {
        text.lines().for_each(|line| self.line(line));
        self.finish()
    }

    /// Reads the next line.
    pub fn line(&mut self, line: &str) {
        self.lines += 1;
        // Windows editors may write a byte order mark at the start of a file.
        let line = line[..line.floor_char_boundary(LINE_BYTES)].trim_start_matches('\u{feff}');
        // ANSI colour codes would split words.
        let plain = line.contains('\u{1b}').then(|| anstream::adapter::strip_str(line).to_string());
        let line = plain.as_deref().unwrap_or(line);
        let parsed = LogLine::of(line);
        let near = self.within.map(|[_, to]| to);
        if let Some(at) =
            moment::of(line, near).or_else(|| moment::of(&parsed.text, near)).or_else(|| moment::epoch(line))
        {
            self.from.get_or_insert_with(|| at.clone());
            self.to = Some(at.clone());
            self.now = Some(at);
        }
        let at = self.now.clone();
        let when = at.as_ref().and_then(|moment| moment.at);
        let counts = self.within.zip(when).is_none_or(|([from, to], when)| from <= when && when <= to);
        let line: &str = &parsed.text;
        let (mut lower, mut best) = (None, BTreeMap::<&'a str, (usize, &'a LogFinding)>::new());
        let mut written_by: Option<(usize, &'a str)> = None;
        for (of, text) in self.patterns.of(line) {
            match text {
                // A line may quote another engine; its own name stands first.
                PatternMeaning::Known(known) => {
                    let at = line.find(known).map(|at| (at, of));
                    written_by = written_by.into_iter().chain(at).min();
                }
                PatternMeaning::Statistics(numbers) if counts => self.add_numbers(of, false, numbers, line),
                PatternMeaning::Startup(numbers) => self.add_numbers(of, true, numbers, line),
                PatternMeaning::Fact(fact) => self.starts.entry(of).or_default().read(fact, line),
                PatternMeaning::Finding(finding, pattern) if counts => {
                    let lower = lower.get_or_insert_with(|| line.to_ascii_lowercase());
                    // The longest pattern is the most specific; of equal ones the last wins.
                    if let Some(length) = pattern_matched(pattern, lower)
                        && best.get(of).is_none_or(|(longest, _)| length >= *longest)
                    {
                        best.insert(of, (length, finding));
                    }
                }
                PatternMeaning::Statistics(_) | PatternMeaning::Finding(..) => {}
            }
        }
        if let Some((_, of)) = written_by {
            *self.known_lines.entry(of).or_default() += 1;
        }
        // Another engine's words explain nothing here.
        let engine = self.engine();
        let own = |of: &str| engine.is_none_or(|engine| engine == of || self.patterns.anywhere(of));
        let anywhere = |of: &str| self.patterns.anywhere(of);
        let closest = best.iter().filter(|(of, _)| own(of)).max_by_key(|(of, (length, _))| (*length, !anywhere(of)));
        let known = closest.map(|(_, (_, finding))| finding.rank);
        // One meaning for a line; of what any log may hold, the longest text says most.
        if let Some((closest, _)) = closest.map(|(of, found)| (*of, found)) {
            best.retain(|of, _| *of == closest || (!anywhere(of) && (engine.is_none() || !own(of))));
        }
        let number = self.lines;
        for (of, (_, finding)) in best {
            let tally = self.tallies.entry((of, &finding.id));
            tally.or_insert_with(|| Tally::new(finding, number, at.clone(), line)).add(at.clone(), number);
        }
        if counts {
            self.errors.line(&parsed, self.lines, at.as_ref(), known);
        }
    }

    fn add_numbers(&mut self, of: &'a str, startup: bool, numbers: &'a LogNumbers, line: &str) {
        for (name, value) in numbers.read(line).into_iter().flatten() {
            let Some((name, spec)) = numbers.values.get_key_value(name) else { continue };
            let series = self.numbers.entry((of, startup, name));
            series.or_insert_with(|| Series::new(&spec.title, spec.unit)).add(value);
        }
    }

    /// Returns the analysis.
    pub fn finish(mut self) -> LogAnalysis {
        let (engine, ambiguous) = self.engine_or_finder();
        let own_ids: BTreeSet<&str> =
            self.tallies.keys().filter(|(of, _)| Some(*of) == engine).map(|(_, id)| *id).collect();
        // What an engine's own file says of a line replaces what holds for every engine.
        let shown = |of: &str, id: &str| Some(of) == engine || (self.patterns.anywhere(of) && !own_ids.contains(id));
        let tallies = self.tallies.into_iter().filter(|((of, id), _)| shown(of, id));
        let mut findings: Vec<LogMatch> = tallies.map(|(_, tally)| tally.into_match()).collect();
        if ambiguous {
            // Flags of the wrong engine would mislead.
            findings.iter_mut().for_each(|finding| (finding.action, finding.direction) = (None, None));
        }
        let engine = engine.filter(|_| !ambiguous);
        findings.sort_by_key(|finding| finding.line);
        let time_text = |moment: Option<LogTime>| moment.map(|m| m.text);
        let summaries = |of_startup: bool| -> Vec<LogValueSummary> {
            let of_engine =
                self.numbers.iter().filter(|((of, startup, _), _)| Some(*of) == engine && *startup == of_startup);
            let mut numbers: Vec<LogValueSummary> =
                of_engine.map(|((_, _, name), series)| series.numbers(name)).collect();
            // Ordered as in the data, and within a line as the engine writes them.
            let file = self.patterns.files.iter().find(|file| Some(file.logs.as_str()) == engine);
            let listed = file.into_iter().flat_map(|file| if of_startup { &file.startup } else { &file.statistics });
            let order: Vec<&str> = listed.flat_map(LogNumbers::in_order).collect();
            numbers.sort_by_key(|summary| order.iter().position(|name| *name == summary.name));
            numbers
        };
        let of_rank = |rank| findings.iter().find(|found| found.rank == rank);
        let failed = of_rank(LogRank::Root).or_else(|| of_rank(LogRank::Secondary));
        let failed = failed.map(|f| Failed { line: f.line, at: f.at, root: f.rank == LogRank::Root });
        let unknown = self.errors.into_summary(failed);
        LogAnalysis {
            start: engine.and_then(|engine| self.starts.remove(engine)).unwrap_or_default(),
            first_root: findings.iter().find(|f| f.rank == LogRank::Root).map(|f| f.id.clone()),
            statistics: summaries(false),
            startup: summaries(true),
            engine: engine.map(str::to_owned),
            lines: self.lines,
            from: time_text(self.from),
            to: time_text(self.to),
            findings,
            unknown,
        }
    }

    /// Returns the engine that most lines name by their own text; lines that may be in any log count last.
    fn engine(&self) -> Option<&'a str> {
        let most = self.known_lines.iter().max_by_key(|(of, n)| (!self.patterns.anywhere(of), **n));
        most.map(|(of, _)| *of)
    }

    /// Returns the engine, else the one with findings or start-up facts, and whether several have such findings.
    fn engine_or_finder(&self) -> (Option<&'a str>, bool) {
        let known = self.engine().filter(|engine| !self.patterns.anywhere(engine));
        let found: BTreeSet<&'a str> =
            self.tallies.keys().map(|(of, _)| *of).filter(|of| !self.patterns.anywhere(of)).collect();
        let started = || self.starts.iter().find(|(_, start)| **start != Start::default()).map(|(of, _)| *of);
        let engine = known.or_else(|| found.first().copied()).or_else(started).or_else(|| self.engine());
        let engine = engine.or_else(|| self.tallies.keys().next().map(|(of, _)| *of));
        (engine, known.is_none() && found.len() > 1)
    }
}

impl<'a> Tally<'a> {
    fn new(finding: &'a LogFinding, line: u64, first: Option<LogTime>, text: &str) -> Self {
        let printable: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        let lately = VecDeque::new();
        Self { finding, count: 0, line, first, last: None, text: printable, lately, most_together: 0 }
    }

    fn add(&mut self, at: Option<LogTime>, number: u64) {
        self.count += 1;
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
            self.most_together = self.most_together.max(self.lately.len() as u64);
        }
        self.last = at;
    }

    fn into_match(self) -> LogMatch {
        let finding = self.finding;
        let harmless = self.most_together <= finding.harmless_up_to;
        LogMatch {
            id: finding.id.clone(),
            title: finding.title.clone(),
            meaning: finding.meaning.clone(),
            rank: if harmless { LogRank::Benign } else { finding.rank },
            action: finding.action.clone().filter(|_| !harmless),
            direction: finding.direction,
            cause: finding.cause.clone().filter(|_| !harmless),
            tells: finding.tells.clone().filter(|_| !harmless),
            at: self.first.as_ref().and_then(|m| m.at),
            count: self.count,
            line: self.line,
            first: self.first.map(|m| m.text),
            last: self.last.map(|m| m.text),
            text: self.text,
            source: finding.source.clone(),
        }
    }
}

impl<'a> Series<'a> {
    fn new(title: &'a str, unit: Unit) -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { title, unit, count: 0, min, max, last: 0.0, readings: Vec::new(), every: 1 }
    }

    fn add(&mut self, value: f64) {
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

    fn numbers(&self, name: &str) -> LogValueSummary {
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
