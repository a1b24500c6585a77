//! Reads an engine's log: what went wrong first, what only followed, what is harmless, and the numbers it tells.
//!
//! Pure over lines; a log of any length is read once, in memory that does not grow with it.

mod errors;
pub mod files;
mod log;
mod moment;
mod patterns;
pub mod start;
pub mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::playbook::{Direction, LogFinding, LogNumbers, LogRank, pattern_matched};
use crate::signal::Unit;
use errors::Errors;
pub use errors::{Unknown, UnknownLine};
pub use log::{HEAD_BYTES, Log, joined};
use moment::Moment;
pub use patterns::Patterns;
use patterns::Text;
pub use start::Start;

/// Of one line, what is looked at; the rest of a longer one is left out.
pub const LINE_BYTES: usize = 16 << 10;
/// How long repetitions are counted together, for lines that are harmless now and then.
const TOGETHER: Duration = Duration::from_secs(600);
/// Of the statistics, how many readings are kept for the medians; beyond, every second one is dropped.
const READINGS: usize = 4_096;
/// Of a line that is shown.
const SHOWN_CHARS: usize = 300;
/// Lines without a known time count as so far apart where times decide.
const UNTIMED: Duration = Duration::from_secs(1);

/// What a log says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Whose log it is; none when nothing in it was known.
    pub engine: Option<String>,
    /// Lines read.
    pub lines: u64,
    /// The first time that a line tells, as it is written.
    pub from: Option<String>,
    /// The last.
    pub to: Option<String>,
    /// What was found, in the order of its first line.
    pub findings: Vec<Found>,
    /// Lines of an error that no finding knows.
    #[serde(default)]
    pub unknown: Unknown,
    /// The id of the first finding that is a root.
    pub first_root: Option<String>,
    /// What periodic lines tell.
    pub statistics: Vec<Numbers>,
    /// What start-up lines tell.
    pub startup: Vec<Numbers>,
    /// How the engine was started.
    #[serde(default)]
    pub start: Start,
}

/// What one of several logs says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Told {
    /// The file's name.
    pub name: String,
    /// The pod, when the name tells.
    pub pod: Option<String>,
    /// The container.
    pub container: Option<String>,
    /// A part of it was not read; a log that is read as a stream is read whole.
    pub cut: bool,
    /// All that it says.
    #[serde(flatten)]
    pub report: Report,
}

/// The log whose root error is the earliest; one without a time counts only where none has one.
pub fn first(logs: &[Told]) -> Option<&Told> {
    let began = |log: &Told| log.report.root().map(|root| (root.at.is_none(), root.at));
    let rooted = logs.iter().filter_map(|log| Some((began(log)?, log)));
    rooted.min_by_key(|(began, _)| *began).map(|(_, log)| log)
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Its id in `logs/<engine>.yaml`.
    pub id: String,
    /// A clause.
    pub title: String,
    /// What happened.
    pub meaning: String,
    /// Root, sign, secondary or benign: what it is here, with its number of repetitions.
    pub rank: LogRank,
    /// What to do.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Which way the flag must go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The playbook or cause that it speaks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The signal that counts such lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tells: Option<String>,
    /// When it was first said, as a time; as far as the log tells.
    #[serde(skip)]
    pub at: Option<Timestamp>,
    /// How often.
    pub count: u64,
    /// The number of its first line.
    pub line: u64,
    /// When, as the log writes it.
    pub first: Option<String>,
    /// When it was last said.
    pub last: Option<String>,
    /// The first line itself, cut.
    pub text: String,
    /// Where it was read.
    pub source: String,
}

/// One number over the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    /// A signal's name, or one of its own.
    pub name: String,
    /// For people.
    pub title: String,
    /// Of the values.
    pub unit: Unit,
    /// How often it was told.
    pub count: u64,
    /// The lowest.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The highest.
    pub max: f64,
    /// The last one told.
    pub last: f64,
}

/// Reads lines one by one.
#[derive(Debug)]
pub struct Reader<'a> {
    patterns: &'a Patterns<'a>,
    within: Option<[Timestamp; 2]>,
    now: Option<Moment>,
    seen: BTreeMap<&'a str, u64>,
    lines: u64,
    from: Option<Moment>,
    to: Option<Moment>,
    found: BTreeMap<(&'a str, &'a str), Tally<'a>>,
    numbers: BTreeMap<(&'a str, bool, &'a str), Series<'a>>,
    starts: BTreeMap<&'a str, Start>,
    errors: Errors,
}

#[derive(Debug)]
struct Tally<'a> {
    finding: &'a LogFinding,
    count: u64,
    line: u64,
    first: Option<Moment>,
    last: Option<Moment>,
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
    kept: Vec<f64>,
    every: u64,
}

impl<'a> Reader<'a> {
    /// A reader for one engine's log, or for whichever of the patterns' files it turns out to be.
    pub fn new(patterns: &'a Patterns<'a>) -> Self {
        Self {
            patterns,
            within: None,
            now: None,
            seen: BTreeMap::new(),
            lines: 0,
            from: None,
            to: None,
            found: BTreeMap::new(),
            numbers: BTreeMap::new(),
            starts: BTreeMap::new(),
            errors: Errors::default(),
        }
    }

    /// Counts findings and statistics between these two moments only; a line without a time has that of the line before
    /// it, and counts where nothing before it tells a time. What is told at the start counts whenever it was.
    pub fn within(mut self, from: Timestamp, to: Timestamp) -> Self {
        self.within = Some([from, to]);
        self
    }

    /// A whole log.
    pub fn text(mut self, text: &str) -> Report {
        text.lines().for_each(|line| self.line(line));
        self.finish()
    }

    /// The next line.
    pub fn line(&mut self, line: &str) {
        self.lines += 1;
        let mut end = line.len().min(LINE_BYTES);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        // Editors on Windows begin a file with a byte order mark.
        let line = line[..end].trim_start_matches('\u{feff}');
        // Colours are for terminals, and split words.
        let plain = line.contains('\u{1b}').then(|| anstream::adapter::strip_str(line).to_string());
        let line = plain.as_deref().unwrap_or(line);
        if let Some(at) = moment::of(line, self.within.map(|[_, to]| to)) {
            self.from.get_or_insert_with(|| at.clone());
            self.to = Some(at.clone());
            self.now = Some(at);
        }
        let at = self.now.clone();
        let when = at.as_ref().and_then(|moment| moment.at);
        let counts = self.within.zip(when).is_none_or(|([from, to], when)| from <= when && when <= to);
        let (mut lower, mut best) = (None, BTreeMap::<&str, (usize, &LogFinding)>::new());
        for (of, text) in self.patterns.of(line) {
            match text {
                Text::Known(known) if line.contains(known) => *self.seen.entry(of).or_default() += 1,
                Text::Statistics(numbers) if counts => self.add_numbers(of, false, numbers, line),
                Text::Startup(numbers) => self.add_numbers(of, true, numbers, line),
                Text::Fact(fact) => self.starts.entry(of).or_default().read(fact, line),
                Text::Finding(finding, pattern) if counts => {
                    let lower = lower.get_or_insert_with(|| line.to_ascii_lowercase());
                    // The longest pattern is the most specific one; of equal ones the last.
                    if let Some(length) = pattern_matched(pattern, lower)
                        && best.get(of).is_none_or(|(longest, _)| length >= *longest)
                    {
                        best.insert(of, (length, finding));
                    }
                }
                Text::Known(_) | Text::Statistics(_) | Text::Finding(..) => {}
            }
        }
        let (number, explained) = (self.lines, !best.is_empty());
        for (of, (_, finding)) in best {
            let tally = self.found.entry((of, &finding.id));
            tally.or_insert_with(|| Tally::new(finding, number, at.clone(), line)).add(at.clone(), number);
        }
        if counts {
            self.errors.line(line, self.lines, at.as_ref(), explained);
        }
    }

    fn add_numbers(&mut self, of: &'a str, startup: bool, numbers: &'a LogNumbers, line: &str) {
        for (name, value) in numbers.read(line).into_iter().flatten() {
            let Some((name, spec)) = numbers.values.get_key_value(name) else { continue };
            let series = self.numbers.entry((of, startup, name));
            series.or_insert_with(|| Series::new(&spec.title, spec.unit)).add(value);
        }
    }

    /// What it all says.
    pub fn finish(mut self) -> Report {
        // What the engine says of itself decides; two engines share words such as "CUDA out of memory".
        let anywhere: BTreeSet<&str> =
            self.patterns.files.iter().filter(|f| f.anywhere).map(|f| f.logs.as_str()).collect();
        let engine = self.seen.iter().max_by_key(|(of, n)| (!anywhere.contains(*of), **n)).map(|(engine, _)| *engine);
        let engine = engine.or_else(|| self.found.keys().next().map(|(engine, _)| *engine));
        let started = |(of, start): (&&'a str, &Start)| (*start != Start::default()).then_some(*of);
        let engine = engine.or_else(|| self.starts.iter().find_map(started));
        let own = |of: &str| Some(of) == engine || anywhere.contains(of);
        let mut findings: Vec<Found> =
            self.found.into_iter().filter(|((of, _), _)| own(of)).map(|(_, tally)| tally.found()).collect();
        findings.sort_by_key(|found| found.line);
        let shown = |moment: Option<Moment>| moment.map(|m| m.text);
        let told = |wanted: bool| -> Vec<Numbers> {
            let of_engine =
                self.numbers.iter().filter(|((of, startup, _), _)| Some(*of) == engine && *startup == wanted);
            let mut numbers: Vec<Numbers> = of_engine.map(|((_, _, name), series)| series.numbers(name)).collect();
            // As data lists them, and of one line as the engine writes them.
            let file = self.patterns.files.iter().find(|file| Some(file.logs.as_str()) == engine);
            let listed = file.into_iter().flat_map(|file| if wanted { &file.startup } else { &file.statistics });
            let order: Vec<&str> = listed.flat_map(LogNumbers::in_order).collect();
            numbers.sort_by_key(|told| order.iter().position(|name| *name == told.name));
            numbers
        };
        Report {
            start: engine.and_then(|engine| self.starts.remove(engine)).unwrap_or_default(),
            first_root: findings.iter().find(|f| f.rank == LogRank::Root).map(|f| f.id.clone()),
            statistics: told(false),
            startup: told(true),
            engine: engine.map(str::to_owned),
            lines: self.lines,
            from: shown(self.from),
            to: shown(self.to),
            findings,
            unknown: self.errors.told(),
        }
    }
}

impl Report {
    /// The first finding that is a root.
    pub fn root(&self) -> Option<&Found> {
        self.findings.iter().find(|found| found.rank == LogRank::Root)
    }

    /// The playbooks and causes that the findings speak for.
    pub fn causes(&self) -> BTreeSet<&str> {
        self.findings.iter().filter(|f| f.rank < LogRank::Secondary).filter_map(|f| f.cause.as_deref()).collect()
    }
}

impl<'a> Tally<'a> {
    fn new(finding: &'a LogFinding, line: u64, first: Option<Moment>, text: &str) -> Self {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        let lately = VecDeque::new();
        Self { finding, count: 0, line, first, last: None, text: shown, lately, most_together: 0 }
    }

    fn add(&mut self, at: Option<Moment>, number: u64) {
        self.count += 1;
        // A line without a time stands where it stands.
        let untimed = || Timestamp::from_second(i64::try_from(number * UNTIMED.as_secs()).unwrap_or(i64::MAX));
        let when = at.as_ref().and_then(|m| m.at).or_else(|| untimed().ok());
        if let Some(when) = when {
            self.lately.push_back(when);
            while self.lately.front().is_some_and(|first| crate::clock::between(*first, when) > TOGETHER)
                || self.lately.len() > READINGS
            {
                self.lately.pop_front();
            }
            self.most_together = self.most_together.max(self.lately.len() as u64);
        }
        self.last = at;
    }

    fn found(self) -> Found {
        let finding = self.finding;
        let harmless = self.most_together <= finding.harmless_up_to;
        Found {
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
        Self { title, unit, count: 0, min, max, last: 0.0, kept: Vec::new(), every: 1 }
    }

    fn add(&mut self, value: f64) {
        if self.count.is_multiple_of(self.every) {
            self.kept.push(value);
        }
        if self.kept.len() >= READINGS {
            let mut keep = false;
            self.kept.retain(|_| {
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

    fn numbers(&self, name: &str) -> Numbers {
        let mut sorted = self.kept.clone();
        sorted.sort_by(f64::total_cmp);
        Numbers {
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
