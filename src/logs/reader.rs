//! The reader of a log: line by line, in constant memory, to its analysis.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::{Captures, Regex};

use super::errors::{Errors, Failed, SAME_FAULT_WITHIN};
use super::life::{Life, StageLine};
use super::line::{LineLevel, LogLine};
use super::moment::{self, LogTime};
use super::patterns::{PatternMeaning, Patterns};
use super::tally::{Occurrence, Readings, Tally};
use super::{LINE_BYTES, LogAnalysis, LogMatch, LogValueSummary, Start, UnknownLine, forms, story};
use knowledge::playbook::{LogFinding, LogNumbers, LogRank, LogStage, pattern_matched};
use knowledge::signal::Unit;

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
    errors: Errors,
    /// The errors with the explanations of one file of an engine alone, for each that explained a line before the engine
    /// is recognised; `None` is without any.
    doubts: BTreeMap<Option<&'a str>, Errors>,
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
            errors: Errors::default(),
            doubts: BTreeMap::new(),
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
        let line: &str = &parsed.text;
        let (mut lower, mut best) = (None, BTreeMap::<&'a str, (usize, &'a LogFinding)>::new());
        let mut written_by: Option<(usize, &'a str)> = None;
        let (mut marks, mut works) = (Vec::new(), Vec::new());
        // Neither a line of code that a traceback quotes nor a piece of printed advice, `2. set …`, is a message.
        let is_advice = is_advice(&parsed.body);
        let is_code = parsed.body.trim_start().starts_with("raise ") || is_advice;
        let is_quote = forms::quotes(&parsed.body);
        // A prompt in a log may hold any text.
        let is_prompt = line.contains("prompt: ");
        let explains = counts && !is_code && !(is_prompt && parsed.level == LineLevel::Lower);
        for (of, text) in self.patterns.of(line) {
            match text {
                // A pod may be named after its engine.
                PatternMeaning::Known(_) if is_quote && !self.patterns.anywhere(of) => {}
                // A line may quote another engine; its own name stands first.
                PatternMeaning::Known(known) => {
                    let at = line.find(known).map(|at| (at, of));
                    written_by = written_by.into_iter().chain(at).min();
                }
                PatternMeaning::Stage(text, stage) => marks.push((of, text, stage)),
                PatternMeaning::Statistics(numbers) => {
                    if shows_work(numbers, line) {
                        works.push(of);
                    }
                    if counts {
                        self.add_numbers(of, false, numbers, line);
                    }
                }
                PatternMeaning::Startup(numbers) => self.add_numbers(of, true, numbers, line),
                PatternMeaning::Fact(fact) => self.starts.entry(of).or_default().read(fact, line),
                PatternMeaning::Finding(_, place) if place.starts_with("File \"") => {}
                PatternMeaning::Finding(finding, pattern) if explains && (!is_quote || self.patterns.anywhere(of)) => {
                    let lower = lower.get_or_insert_with(|| line.to_ascii_lowercase());
                    // The longest pattern is the most specific; of equal ones the last wins.
                    if let Some(length) = pattern_matched(pattern, lower)
                        && best.get(of).is_none_or(|(longest, _)| length >= *longest)
                    {
                        best.insert(of, (length, finding));
                    }
                }
                PatternMeaning::Finding(..) => {}
            }
        }
        if let Some((_, of)) = written_by {
            *self.known_lines.entry(of).or_default() += 1;
        }
        // Another engine's words explain nothing here.
        let engine = self.engine().filter(|engine| !self.patterns.anywhere(engine));
        if engine.is_some() {
            self.settle(engine);
        }
        let own = |of: &str| engine.is_none_or(|engine| engine == of || self.patterns.anywhere(of));
        let anywhere = |of: &str| self.patterns.anywhere(of);
        let closest = best.iter().filter(|(of, _)| own(of)).max_by_key(|(of, (length, _))| (*length, !anywhere(of)));
        let known = closest.map(|(_, (_, finding))| finding.rank);
        let in_doubt = |of: &&str| engine.is_none() && !anywhere(of);
        let doubted: Vec<&str> = best.keys().copied().filter(in_doubt).collect();
        for of in &doubted {
            self.doubts.entry(None).or_insert_with(|| self.errors.clone());
            // It explained nothing before.
            if !self.doubts.contains_key(&Some(*of)) {
                let without = self.doubts.get(&None).cloned().unwrap_or_default();
                self.doubts.insert(Some(*of), without);
            }
        }
        // One meaning for a line; of what any log may hold, the longest text says most. It counts until an engine is known.
        let general = best.iter().filter(|(of, _)| anywhere(of)).max_by_key(|(_, (length, _))| *length);
        let general = general.map(|(of, (_, finding))| (*of, finding.rank));
        if let Some((closest, _)) = closest.map(|(of, found)| (*of, found)) {
            let general = general.map(|(of, _)| of).filter(|_| engine.is_none());
            best.retain(|of, _| {
                *of == closest || general == Some(*of) || (!anywhere(of) && (engine.is_none() || !own(of)))
            });
        }
        let number = self.lines;
        if self.life.is_mixed_with(&parsed.pod) {
            self.all_errors().for_each(Errors::forget_survived);
        }
        // A line without a level may be another program's, the kernel's for example, which no end of an engine explains.
        let is_stopping = self.life.stopped_at(when).is_some() && parsed.level != LineLevel::None;
        let is_ending = self.life.stage().is_some_and(|stage| stage >= LogStage::Stopping);
        let is_warning =
            parsed.level == LineLevel::Lower && !REFUSED.as_ref().is_some_and(|refused| refused.is_match(line));
        // What any log may hold begins no stage of an engine.
        let of_engine = |of: &str| engine == Some(of) || (!anywhere(of) && engine.is_none_or(anywhere));
        let marks = if is_prompt { Vec::new() } else { marks };
        let mark = marks.into_iter().filter(|(of, ..)| of_engine(of)).map(|(_, text, stage)| (text, stage));
        let mark = mark.max_by_key(|(_, stage)| *stage);
        let works = works.into_iter().any(of_engine)
            || (!is_prompt && ANSWERED.as_ref().is_some_and(|answered| answered.is_match(line)));
        for (of, (_, finding)) in best {
            let tally = self.tallies.entry((of, &finding.id)).or_insert_with(|| Tally::new(finding));
            // Connections that break and memory that is left behind belong to any end.
            let follows = is_ending && finding.rank == LogRank::Secondary;
            // No signal explains a fault of the hardware.
            let is_hardware = finding.tells.as_deref() == Some("log_gpu_fault");
            let is_harmless = (follows || is_stopping) && !is_hardware;
            tally.add(Occurrence { number, at: at.clone(), text: line, is_warning, is_harmless });
        }
        let since = self.life.since().0;
        let has_failed = (mark.is_some() || works)
            && self.tallies.iter().any(|((of, _), tally)| tally.has_failed(since, !self.patterns.anywhere(of)));
        let begun = self.life.line(StageLine { number, at: when, mark, works, has_failed });
        if begun == Some(LogStage::Serving) {
            let (since, marked) = self.life.since();
            self.all_errors().for_each(|errors| errors.survived(since..number, marked));
            self.tallies.values_mut().for_each(|tally| tally.survived(since));
        }
        let stopped = self.life.stopped_at(when);
        self.all_errors().for_each(|errors| errors.stopped_at = stopped);
        if counts && !is_advice {
            self.errors.line(&parsed, number, at.as_ref(), known);
            for (of, errors) in &mut self.doubts {
                let own = known.filter(|_| doubted.is_empty() || of.is_some_and(|of| doubted.contains(&of)));
                errors.line(&parsed, number, at.as_ref(), own.or(general.map(|(_, rank)| rank)));
            }
        }
    }

    fn all_errors(&mut self) -> impl Iterator<Item = &mut Errors> {
        std::iter::once(&mut self.errors).chain(self.doubts.values_mut())
    }

    /// Takes back what the files of other engines explained.
    fn settle(&mut self, engine: Option<&'a str>) {
        let mut doubts = std::mem::take(&mut self.doubts);
        if let Some(errors) = doubts.remove(&engine).or_else(|| doubts.remove(&None)) {
            self.errors = errors;
        }
    }

    /// Tells the innermost exceptions of records that findings explain by another line.
    fn add_innermost(&mut self) {
        for tally in self.tallies.values_mut().filter(|tally| tally.finding.rank <= LogRank::Sign) {
            let Some(raised) = self.errors.explained.get(&tally.line) else { continue };
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
        for (error, (_, of, finding)) in self.errors.take_placed(explained) {
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
        self.settle(recognised.0);
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
                self.errors.drop_repeated((root.line, root.at), message);
            }
        }
        let root = story::root(&findings);
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
        let unknown = self.errors.into_summary(failed, follows);
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

/// The access line about an answer that the engine made; other paths the API server answers alone.
static ANSWERED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#""POST /(?:v\d/)?(?:(?:chat/)?completions|responses|messages|embeddings|rerank|score|classify|generate)\b\S* HTTP/[\d.]+" 200\b"#,
    )
    .ok()
});

/// The same about an error of the server, which programs log as information.
static REFUSED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""POST /\S+ HTTP/[\d.]+" 5\d\d\b"#).ok());

/// Returns true for a piece of a numbered list, as programs print it below an error whatever its cause was.
fn is_advice(body: &str) -> bool {
    let number = body.trim_start().split_once(". ").map(|(number, _)| number);
    number.is_some_and(|number| (1..=2).contains(&number.len()) && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Returns true if a line with numbers tells of work: engines write rates of zero while they stand still, too.
fn shows_work(numbers: &LogNumbers, line: &str) -> bool {
    let is_rate = |name: &str| numbers.values.get(name).is_some_and(|value| value.unit == Unit::TokensPerSecond);
    let read = numbers.read(line).unwrap_or_default();
    let mut rates = read.iter().filter(|(name, _)| is_rate(name)).map(|(_, rate)| *rate).peekable();
    rates.peek().is_none() || rates.any(|rate| rate > 0.0)
}

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
