//! The meanings of one line by the patterns: the engine that wrote it, findings, numbers, and marks of stages.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::forms;
use super::line::{LineLevel, LogLine};
use super::patterns::{PatternMeaning, Patterns};
use knowledge::playbook::{LogFact, LogFinding, LogNumbers, LogRank, LogStage, pattern_matched};
use knowledge::signal::Unit;

/// The meanings of a line by the patterns of all files.
#[derive(Debug, Default)]
pub(super) struct LineMeanings<'a> {
    /// The engine that names itself in it.
    pub(super) engine: Option<&'a str>,
    /// The best finding of each file, with the length of its pattern.
    pub(super) findings: BTreeMap<&'a str, (usize, &'a LogFinding)>,
    /// The marks of stages, each with its file.
    pub(super) marks: Vec<(&'a str, &'a str, LogStage)>,
    /// The files whose engine writes such a line while it works.
    pub(super) works: Vec<&'a str>,
    /// True for the access line of an answer that an engine made.
    pub(super) is_answer: bool,
    /// The numbers in it; true for those of a start.
    pub(super) numbers: Vec<(&'a str, bool, &'a LogNumbers)>,
    /// The facts of a start in it.
    pub(super) facts: Vec<(&'a str, &'a LogFact)>,
    /// True for a piece of printed advice, which is no message.
    pub(super) is_advice: bool,
}

/// The ranks by which a line is explained as an error.
#[derive(Debug, Default)]
pub(super) struct Explanation<'a> {
    /// The rank of its finding.
    pub(super) known: Option<LogRank>,
    /// The rank of a finding that any log may hold.
    pub(super) general: Option<LogRank>,
    /// The engines by whose files it has a finding, while the log's engine is not recognised.
    pub(super) doubted: Vec<&'a str>,
}

impl<'a> LineMeanings<'a> {
    /// Reads a line; findings and periodic numbers only of one that `counts`.
    pub(super) fn of(patterns: &Patterns<'a>, line: &LogLine<'_>, counts: bool) -> Self {
        let text: &str = &line.text;
        // A prompt in a log may hold any text.
        let is_prompt = text.contains("prompt: ");
        let mut read = Self {
            is_advice: is_advice(&line.body),
            is_answer: !is_prompt && ANSWERED.as_ref().is_some_and(|answered| answered.is_match(text)),
            ..Self::default()
        };
        // A line of code that a traceback quotes is no message either.
        let is_message = !read.is_advice && !line.body.trim_start().starts_with("raise ");
        let explains = counts && is_message && !(is_prompt && line.level == LineLevel::Lower);
        let is_quote = forms::quotes(&line.body);
        let mut written_by: Option<(usize, &'a str)> = None;
        let mut lower = None;
        for (of, meaning) in patterns.of(text) {
            match meaning {
                // A pod may be named after its engine.
                PatternMeaning::Known(_) if is_quote && !patterns.anywhere(of) => {}
                // A line may quote another engine; its own name stands first.
                PatternMeaning::Known(known) => {
                    let at = text.find(known).map(|at| (at, of));
                    written_by = written_by.into_iter().chain(at).min();
                }
                PatternMeaning::Stage(_, _) if is_prompt => {}
                PatternMeaning::Stage(mark, stage) => read.marks.push((of, mark, stage)),
                PatternMeaning::Statistics(numbers) => {
                    read.works.extend(shows_work(numbers, text).then_some(of));
                    read.numbers.extend(counts.then_some((of, false, numbers)));
                }
                PatternMeaning::Startup(numbers) => read.numbers.push((of, true, numbers)),
                PatternMeaning::Fact(fact) => read.facts.push((of, fact)),
                PatternMeaning::Finding(_, place) if place.starts_with("File \"") => {}
                PatternMeaning::Finding(finding, pattern) if explains && (!is_quote || patterns.anywhere(of)) => {
                    let lower = lower.get_or_insert_with(|| text.to_ascii_lowercase());
                    // The longest pattern is the most specific; of equal ones the last wins.
                    if let Some(length) = pattern_matched(pattern, lower)
                        && read.findings.get(of).is_none_or(|(longest, _)| length >= *longest)
                    {
                        read.findings.insert(of, (length, finding));
                    }
                }
                PatternMeaning::Finding(..) => {}
            }
        }
        read.engine = written_by.map(|(_, of)| of);
        read
    }

    /// Keeps one finding of the log's `engine` or of any log, and while it is not recognised those of every engine. Of what
    /// any log may hold, the longest text says most; it counts until an engine is known.
    pub(super) fn explain(&mut self, patterns: &Patterns<'a>, engine: Option<&str>) -> Explanation<'a> {
        let anywhere = |of: &str| patterns.anywhere(of);
        let own = |of: &str| engine.is_none_or(|engine| engine == of) || anywhere(of);
        let found = || self.findings.iter().map(|(of, (length, finding))| (*of, *length, finding.rank));
        let closest = found().filter(|(of, ..)| own(of)).max_by_key(|(of, length, _)| (*length, !anywhere(of)));
        let general = found().filter(|(of, ..)| anywhere(of)).max_by_key(|(_, length, _)| *length);
        let explanation = Explanation {
            known: closest.map(|(.., rank)| rank),
            general: general.map(|(.., rank)| rank),
            doubted: found().map(|(of, ..)| of).filter(|of| engine.is_none() && !anywhere(of)).collect(),
        };
        if let Some((closest, ..)) = closest {
            let general = general.map(|(of, ..)| of).filter(|_| engine.is_none());
            self.findings.retain(|of, _| {
                *of == closest || general == Some(*of) || (!anywhere(of) && (engine.is_none() || !own(of)))
            });
        }
        explanation
    }
}

/// The access line about an answer that the engine made; other paths the API server answers alone.
static ANSWERED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#""POST /(?:v\d/)?(?:(?:chat/)?completions|responses|messages|embeddings|rerank|score|classify|generate)\b\S* HTTP/[\d.]+" 200\b"#,
    )
    .ok()
});

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
