//! The reader of a log: line by line, in constant memory, to its analysis.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::{Captures, Regex};

use super::engine_errors::EngineErrors;
use super::errors::{Errors, Failed, SAME_FAULT_WITHIN};
use super::life::{Life, StageLine};
use super::line::{LineLevel, LogLine};
use super::meanings::LineMeanings;
use super::moment::{self, LogTime};
use super::patterns::{PatternMeaning, Patterns};
use super::tally::{Occurrence, Readings, Tally};
use super::{LINE_BYTES, LogAnalysis, LogMatch, LogValueSummary, Start, UnknownLine, story};
use knowledge::playbook::{LogFinding, LogNumbers, LogRank, LogStage, pattern_matched};

/// Minimum length of a message by which another line is known to repeat it.
const MESSAGE: usize = 24;

/// A line-by-line analyser of a log.
#[derive(Debug)]
pub struct LogReader<'a> {
    patterns: &'a Patterns<'a>,
    within: Option<[Timestamp; 2]>,
    now: Option<LogTime>,
    known_lines: BTreeMap<&'a str, u64>,
    pub(super) lines: u64,
    from: Option<LogTime>,
    to: Option<LogTime>,
    pub(super) tallies: BTreeMap<(&'a str, &'a str), Tally<'a>>,
    pub(super) numbers: BTreeMap<(&'a str, bool, &'a str), Readings<'a>>,
    starts: BTreeMap<&'a str, Start>,
    life: Life,
    errors: EngineErrors<'a>,
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
            life: Life::default(),
            errors: EngineErrors::default(),
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
        let plain = without_colours(line);
        let line: &str = &plain;
        let parsed = LogLine::of(line);
        let near = self.within.map(|[_, to]| to);
        let texts = [parsed.time.as_deref().unwrap_or_default(), line, &parsed.text];
        if let Some(at) = texts.iter().find_map(|text| moment::of(text, near)).or_else(|| moment::epoch(line)) {
            self.from.get_or_insert_with(|| at.clone());
            self.to = Some(at.clone());
            self.now = Some(at);
        }
        let at = self.now.clone();
        let when = at.as_ref().and_then(|moment| moment.at);
        let counts = self.within.zip(when).is_none_or(|([from, to], when)| from <= when && when <= to);
        let mut read = LineMeanings::of(self.patterns, &parsed, counts);
        if let Some(engine) = read.engine {
            *self.known_lines.entry(engine).or_default() += 1;
        }
        for (of, fact) in &read.facts {
            self.starts.entry(of).or_default().read(fact, &parsed.text);
        }
        for (of, is_startup, numbers) in &read.numbers {
            self.add_numbers(of, *is_startup, numbers, &parsed.text);
        }
        // Another engine's words explain nothing here.
        let engine = self.engine().filter(|engine| !self.patterns.anywhere(engine));
        if engine.is_some() {
            self.errors.settle(engine);
        }
        let explanation = read.explain(self.patterns, engine);
        if self.life.is_mixed_with(&parsed.pod) {
            self.errors.all().for_each(Errors::forget_survived);
        }
        self.count(&read, &parsed, at.as_ref());
        self.live(&read, engine, when);
        if counts && !read.is_advice {
            self.errors.line(&parsed, self.lines, at.as_ref(), &explanation);
        }
    }

    /// Adds a line to the tallies of its findings.
    fn count(&mut self, read: &LineMeanings<'a>, line: &LogLine<'_>, at: Option<&LogTime>) {
        // A line without a level may be another program's, the kernel's for example, which no end of an engine explains.
        let stopped_at = self.life.stopped_at(at.and_then(|moment| moment.at));
        let is_stopping = stopped_at.is_some() && line.level != LineLevel::None;
        let is_ending = self.life.stage().is_some_and(|stage| stage >= LogStage::Stopping);
        let is_refused = REFUSED.as_ref().is_some_and(|refused| refused.is_match(&line.text));
        for (of, (_, finding)) in &read.findings {
            let tally = self.tallies.entry((of, &finding.id)).or_insert_with(|| Tally::new(finding));
            // Connections that break and memory that is left behind belong to any end.
            let follows = is_ending && finding.rank == LogRank::Secondary;
            // No signal explains a fault of the hardware.
            let is_hardware = finding.tells.as_deref() == Some("log_gpu_fault");
            tally.add(Occurrence {
                number: self.lines,
                at: at.cloned(),
                text: &line.text,
                is_warning: line.level == LineLevel::Lower && !is_refused,
                is_harmless: (follows || is_stopping) && !is_hardware,
            });
        }
    }

    /// Follows the stages of the process; one that serves has survived the errors of its start.
    fn live(&mut self, read: &LineMeanings<'a>, engine: Option<&'a str>, at: Option<Timestamp>) {
        let anywhere = |of: &str| self.patterns.anywhere(of);
        // What any log may hold begins no stage of an engine.
        let of_engine = |of: &str| engine == Some(of) || (!anywhere(of) && engine.is_none_or(anywhere));
        let marks = read.marks.iter().filter(|(of, ..)| of_engine(of)).map(|(_, text, stage)| (*text, *stage));
        let mark = marks.max_by_key(|(_, stage)| *stage);
        let works = read.is_answer || read.works.iter().any(|of| of_engine(of));
        let since = self.life.since().0;
        let has_failed = (mark.is_some() || works)
            && self.tallies.iter().any(|((of, _), tally)| tally.has_failed(since, !anywhere(of)));
        let begun = self.life.line(StageLine { number: self.lines, at, mark, works, has_failed });
        if begun == Some(LogStage::Serving) {
            let (since, marked) = self.life.since();
            self.errors.all().for_each(|errors| errors.survived(since..self.lines, marked));
            self.tallies.values_mut().for_each(|tally| tally.survived(since));
        }
        let stopped = self.life.stopped_at(at);
        self.errors.all().for_each(|errors| errors.stopped_at = stopped);
    }

    /// Tells the innermost exceptions of records that findings explain by another line.
    fn add_innermost(&mut self) {
        for tally in self.tallies.values_mut().filter(|tally| tally.finding.rank <= LogRank::Sign) {
            let Some(raised) = self.errors.settled.explained.get(&tally.line) else { continue };
            let message = raised.said.split_once(": ").map_or(raised.said.as_str(), |(_, message)| message);
            if raised.place.is_some() || !tally.text.contains(message) {
                tally.raised.get_or_insert_with(|| raised.clone());
            }
        }
    }

    /// Explains errors that no text explains by the part of the program that raised them.
    fn explain_by_place(&mut self, engine: Option<&'a str>) {
        let patterns = self.patterns;
        let own = |of: &str| engine.is_none_or(|engine| engine == of) || patterns.anywhere(of);
        let explained = |frame: &str| {
            let places = patterns.of(frame).into_iter().filter_map(|(of, text)| match text {
                PatternMeaning::Finding(finding, pattern) if pattern.starts_with("File \"") && own(of) => {
                    Some((pattern_matched(pattern, &frame.to_ascii_lowercase())?, of, finding))
                }
                _ => None,
            });
            places.max_by_key(|(length, ..)| *length)
        };
        for (error, (_, of, finding)) in self.errors.settled.take_placed(explained) {
            let at = error.first.clone().map(|text| LogTime { text, at: error.at });
            let (number, is_harmless) = (error.line, error.harmless);
            let tally = self.tallies.entry((of, &finding.id)).or_insert_with(|| Tally::new(finding));
            tally.add(Occurrence { number, at, text: &error.text, is_warning: false, is_harmless });
            tally.repeat(error.count.saturating_sub(1), is_harmless);
            if tally.raised.is_none() {
                let own_fault = finding.own_fault.as_deref().filter(|_| error.is_own_fault());
                tally.meant = own_fault.and_then(|id| patterns.finding(of, id));
                tally.raised = Some(error);
            }
        }
    }

    fn add_numbers(&mut self, of: &'a str, startup: bool, numbers: &'a LogNumbers, line: &str) {
        for (name, value) in numbers.read(line).into_iter().flatten() {
            let Some((name, spec)) = numbers.values.get_key_value(name) else { continue };
            let series = self.numbers.entry((of, startup, name));
            series.or_insert_with(|| Readings::new(&spec.title, spec.unit)).add(value);
        }
    }

    /// Returns the analysis.
    pub fn finish(mut self) -> LogAnalysis {
        let recognised = self.engine_or_finder();
        self.errors.settle(recognised.0);
        self.explain_by_place(recognised.0);
        self.add_innermost();
        // Frames tell the engine too.
        let (engine, ambiguous) = if recognised.0.is_some() { recognised } else { self.engine_or_finder() };
        let own = || self.tallies.iter().filter(|((of, _), _)| Some(*of) == engine);
        let own_ids: BTreeSet<&str> = own().map(|((_, id), _)| *id).collect();
        let own_lines: BTreeSet<u64> = own().map(|(_, tally)| tally.line).collect();
        // What an engine's own file says of a line replaces what holds for every engine.
        let is_new = |id: &str, tally: &Tally<'_>| !own_ids.contains(id) && !own_lines.contains(&tally.line);
        let shown = |of: &str, id: &str, tally: &Tally<'_>| {
            Some(of) == engine || (self.patterns.anywhere(of) && is_new(id, tally))
        };
        let tallies = self.tallies.into_iter().filter(|((of, id), tally)| shown(of, id, tally)).map(|(_, tally)| tally);
        let mut findings = in_place(tallies.collect(), self.life.since().0);
        if ambiguous {
            // Flags and variables of the wrong engine would mislead.
            let has_flag = |action: &String| action.contains("--") || action.contains('_');
            findings.iter_mut().for_each(|finding| {
                finding.action = finding.action.take().filter(|action| !has_flag(action));
                finding.direction = None;
            });
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
        for root in findings.iter().filter(|found| found.rank == LogRank::Root) {
            let message = root.text.split_once(": ").map(|(_, message)| message);
            if let Some(message) = message.filter(|message| message.len() >= MESSAGE) {
                self.errors.settled.drop_repeated((root.line, root.at), message);
            }
        }
        let root = story::root(&findings).filter(|root| !story::is_long_before(root, &findings));
        let failed = root.or_else(|| findings.iter().find(|found| found.rank == LogRank::Secondary));
        // A warning is the root only where no error stands.
        let failed = failed.map(|f| Failed { line: f.line, at: f.at, root: f.rank == LogRank::Root && !f.is_warning });
        let follows = |cut: &UnknownLine| {
            let is_near = |found: &LogMatch| {
                let times = found.at.zip(cut.at);
                times.is_none_or(|(sign, cut)| knowledge::clock::between(sign, cut) <= SAME_FAULT_WITHIN)
            };
            findings.iter().any(|found| found.rank == LogRank::Sign && found.line < cut.line && is_near(found))
        };
        let unknown = self.errors.settled.into_summary(failed, follows);
        let mut analysis = LogAnalysis {
            start: engine.and_then(|engine| self.starts.remove(engine)).unwrap_or_default(),
            first_root: None,
            statistics: summaries(false),
            startup: summaries(true),
            engine: engine.map(str::to_owned),
            lines: self.lines,
            stage: self.life.stage(),
            from: time_text(self.from),
            to: time_text(self.to),
            findings,
            unknown,
        };
        analysis.first_root = analysis.root().map(|root| root.id.clone());
        analysis
    }

    /// Returns the engine that most lines name by their own text; lines that may be in any log count last. It is
    /// the one that a person named, if one did.
    fn engine(&self) -> Option<&'a str> {
        let most = || self.known_lines.iter().max_by_key(|(of, n)| (!self.patterns.anywhere(of), **n));
        self.patterns.named.or_else(|| most().map(|(of, _)| *of))
    }

    /// Returns the engine, else the one with findings or start-up facts, and whether several have such findings.
    fn engine_or_finder(&self) -> (Option<&'a str>, bool) {
        let known = self.engine().filter(|engine| !self.patterns.anywhere(engine));
        let found: BTreeSet<&'a str> =
            self.tallies.keys().map(|(of, _)| *of).filter(|of| !self.patterns.anywhere(of)).collect();
        // Of words that several engines have in common, the one that names itself decides.
        let serves = |of: &&str| {
            self.patterns.files.iter().any(|file| file.logs == **of && file.stages.texts().next().is_some())
        };
        let known = known.or_else(|| self.engine().filter(|of| found.len() > 1 && serves(of)));
        let started = || self.starts.iter().find(|(_, start)| **start != Start::default()).map(|(of, _)| *of);
        let engine = known.or_else(|| found.first().copied()).or_else(started).or_else(|| self.engine());
        let engine = engine.or_else(|| self.tallies.keys().next().map(|(of, _)| *of));
        (engine, known.is_none() && found.len() > 1)
    }
}

/// The access line about an error of the server, which programs log as information.
static REFUSED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""POST /\S+ HTTP/[\d.]+" 5\d\d\b"#).ok());

/// Returns a line without the codes of colours, which would split words; a pasted log may have lost their first character.
fn without_colours(line: &str) -> Cow<'_, str> {
    static CODE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\[(\d{1,3})(?:;\d{1,3})*m(\]?)").ok());
    // The range of a query, `[5m]`, is none; behind the end of a colour a bracket is text.
    let kept = |code: &Captures<'_>| match &code[1] {
        "0" => code[2].to_owned(),
        _ if code[2].is_empty() => String::new(),
        _ => code[0].to_owned(),
    };
    match (line.contains('\u{1b}'), CODE.as_ref()) {
        (true, _) => anstream::adapter::strip_str(line).to_string().into(),
        (false, Some(code)) if line.contains("[0m") => code.replace_all(line, kept),
        (false, _) => line.into(),
    }
}

/// Returns what the findings say of their lines; one that follows from another of the same fault, before it or at the same
/// time, is its consequence. The present process began at the line `since`.
fn in_place(tallies: Vec<Tally<'_>>, since: u64) -> Vec<LogMatch> {
    let begun: Vec<_> = tallies.iter().map(|tally| (&tally.finding.id, tally.began())).collect();
    let read = tallies.into_iter().map(|tally| {
        let leads = begun.iter().filter(|(id, (line, _))| *line >= since && tally.finding.follows.contains(id));
        let led = leads.map(|(_, began)| *began).min();
        (tally.finding, tally.into_match(led))
    });
    let read: Vec<(&LogFinding, LogMatch)> = read.collect();
    let is_before = |root: &LogMatch, found: &LogMatch| match root.at.zip(found.at) {
        Some((root, found)) if root > found => false,
        Some((root, found)) => knowledge::clock::between(root, found) <= SAME_FAULT_WITHIN,
        None => root.line < found.line,
    };
    let roots = || read.iter().map(|(_, root)| root).filter(|root| root.rank == LogRank::Root);
    let follows = |(finding, found): &(&LogFinding, LogMatch)| {
        roots().any(|root| finding.follows.contains(&root.id) && is_before(root, found))
    };
    let consequences: Vec<bool> = read.iter().map(follows).collect();
    let ranked = read.into_iter().zip(consequences).map(|((_, found), is_consequence)| match is_consequence {
        true => LogMatch { rank: LogRank::Secondary, ..found },
        false => found,
    });
    ranked.collect()
}
