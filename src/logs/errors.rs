//! Lines of an error that no finding knows: counted by their shape, so that the most frequent and the first can be quoted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::moment::Moment;

/// Shapes that are told apart; when there are more, the rarer half is forgotten, but for the first.
const SHAPES: usize = 256;
/// Shapes that a report quotes, beside the first line.
const QUOTED: usize = 3;
/// Of a line, what its shape is made of and what is quoted.
const CHARS: usize = 300;
/// A level stands near the beginning of its line.
const LEVEL_WITHIN: usize = 160;
/// Levels of an error, as engines and gateways write them.
const LEVELS: [&str; 3] = ["ERROR", "CRITICAL", "FATAL"];
/// Keys of the level in lines of JSON. Sources: <https://docs.litellm.ai/docs/proxy/debugging>,
/// <https://docs.rs/tracing-subscriber/latest/tracing_subscriber/fmt/format/struct.Json.html>.
const LEVEL_KEYS: [&str; 4] = ["\"level\"", "\"levelname\"", "\"severity\"", "\"lvl\""];

/// Lines of an error that no finding knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// How many.
    pub count: u64,
    /// The most frequent ones, and the first, in the order of their first line.
    pub lines: Vec<UnknownLine>,
}

/// Error lines that differ in numbers and ids only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownLine {
    /// How often.
    pub count: u64,
    /// The number of its first line.
    pub line: u64,
    /// When, as the log writes it.
    pub first: Option<String>,
    /// The first line itself, cut.
    pub text: String,
}

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct Errors {
    count: u64,
    shapes: BTreeMap<String, UnknownLine>,
    /// Lines of a traceback are being read.
    traced: bool,
    /// It belongs to an error that was counted already.
    told: bool,
}

impl Errors {
    /// The next line, which a finding may know.
    pub(super) fn line(&mut self, line: &str, number: u64, at: Option<&Moment>, known: bool) {
        let (level, body) = (is_error(line), body(line));
        let frame = body.starts_with(char::is_whitespace) || body.is_empty();
        if body.starts_with("Traceback (most recent call last)") {
            (self.traced, self.told) = (true, self.told || level);
            return;
        }
        if (self.traced || level) && frame {
            return;
        }
        // What ends a traceback names the exception.
        let raised = std::mem::take(&mut self.traced) && !level;
        if (level || (raised && !self.told)) && !known {
            self.add(line, body, number, at);
        }
        self.told = level;
    }

    fn add(&mut self, line: &str, body: &str, number: u64, at: Option<&Moment>) {
        self.count += 1;
        let shape = shape(body);
        if self.shapes.len() >= SHAPES && !self.shapes.contains_key(&shape) {
            self.forget();
        }
        let shown = || line.chars().filter(|c| !c.is_control()).take(CHARS).collect();
        let first = || at.map(|moment| moment.text.clone());
        let kind = self.shapes.entry(shape).or_insert_with(|| UnknownLine {
            count: 0,
            line: number,
            first: first(),
            text: shown(),
        });
        kind.count += 1;
    }

    /// A frequent shape may begin behind many rare ones.
    fn forget(&mut self) {
        let first = self.shapes.values().map(|one| one.line).min();
        let mut ranks: Vec<_> = self.shapes.values().map(|one| (std::cmp::Reverse(one.count), one.line)).collect();
        ranks.sort_unstable();
        let last = ranks.get(SHAPES / 2).copied();
        let rank = |one: &UnknownLine| (std::cmp::Reverse(one.count), one.line);
        self.shapes.retain(|_, one| Some(rank(one)) < last || Some(one.line) == first);
    }

    pub(super) fn told(self) -> Unknown {
        let mut lines: Vec<UnknownLine> = self.shapes.into_values().collect();
        let first = lines.iter().map(|one| one.line).min();
        lines.sort_by_key(|one| (std::cmp::Reverse(one.count), one.line));
        let mut rank = 0;
        lines.retain(|one| {
            rank += 1;
            rank <= QUOTED || Some(one.line) == first
        });
        lines.sort_by_key(|one| one.line);
        Unknown { count: self.count, lines }
    }
}

/// Whether a line is of a level of errors.
fn is_error(line: &str) -> bool {
    let head = line.char_indices().nth(LEVEL_WITHIN).map_or(line, |(end, _)| &line[..end]);
    if line.starts_with('{') {
        return LEVEL_KEYS.iter().any(|key| {
            let value = line.split_once(key).map(|(_, rest)| rest.trim_start_matches([' ', ':', '"']));
            value.is_some_and(|value| {
                LEVELS.iter().any(|level| value.get(..level.len()).is_some_and(|own| own.eq_ignore_ascii_case(level)))
            })
        });
    }
    if head.contains("level=error") || head.contains("level=fatal") {
        return true;
    }
    LEVELS.iter().any(|level| {
        head.match_indices(level).any(|(at, _)| {
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'' || c == '"';
            !head[..at].ends_with(inside) && !head[at + level.len()..].starts_with(inside)
        })
    })
}

/// What is said behind the time, the level and the place in the code: `ERROR 11-20 18:27:35 [async_llm.py:906] …`.
fn body(line: &str) -> &str {
    if !line.starts_with(char::is_whitespace)
        && is_error(line)
        && let Some((head, body)) = line.split_once("] ")
        && head.len() < LEVEL_WITHIN
        && head.contains(".py:")
    {
        return body;
    }
    line
}

/// The words of a line without what differs from case to case.
fn shape(body: &str) -> String {
    let word = |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    let words: Vec<String> = body.split_whitespace().map(word).collect();
    words.join(" ").chars().take(CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Unknown {
        let mut errors = Errors::default();
        text.lines().zip(1..).for_each(|(line, number)| errors.line(line, number, None, line.contains("known")));
        errors.told()
    }

    #[test]
    fn error_lines_are_counted_by_shape_in_every_dress() {
        let text = "2025-05-30T00:35:01.153Z ERROR chat: dynamo_llm::http: request 17 failed\n\
                    2025-05-30T00:35:02.153Z ERROR chat: dynamo_llm::http: request 18 failed\n\
                    18:03:47 - LiteLLM Proxy:ERROR: x.py:159 - boom\n\
                    {\"time\":\"t\",\"level\":\"ERROR\",\"fields\":{\"message\":\"boom\"}}\n\
                    {\"time\":\"t\",\"level\":\"INFO\",\"fields\":{\"message\":\"ERROR no\"}}\n\
                    INFO: a word like errors or TERROR is none\n\
                    ERROR known\n";
        let told = read(text);
        assert_eq!(told.count, 4);
        assert_eq!(told.lines[0].count, 2, "{told:?}");
        assert!(told.lines[0].text.contains("request 17"));
    }

    #[test]
    fn a_traceback_counts_once_with_its_last_line() {
        let alone =
            "Traceback (most recent call last):\n  File \"a.py\", line 1\n    x()\nValueError: no such thing\nbye\n";
        let told = read(alone);
        assert_eq!((told.count, told.lines[0].text.as_str()), (1, "ValueError: no such thing"));
        let told = read(&format!("12:00:00 - LiteLLM Proxy:ERROR: x.py:1 - failed\n{alone}"));
        assert_eq!((told.count, told.lines[0].line), (1, 1));
        let levelled = "(A pid=1) ERROR 11-20 18:27:35 [a.py:9] failed\n\
                        (A pid=1) ERROR 11-20 18:27:35 [a.py:9] Traceback (most recent call last):\n\
                        (A pid=1) ERROR 11-20 18:27:35 [a.py:9]   File \"a.py\", line 1\n";
        assert_eq!(read(levelled).count, 1);
    }

    #[test]
    fn endless_shapes_take_no_more_memory() {
        let text: String = (0..2_000).map(|n| format!("ERROR {}\n", "x".repeat(n % 1_000 + 1))).collect();
        let told = read(&text);
        assert_eq!(told.count, 2_000);
        assert!(told.lines.len() <= QUOTED + 1);
    }

    #[test]
    fn a_frequent_error_that_begins_behind_many_rare_ones_is_quoted() {
        let rare = |from: usize| (from..from + 400).map(|n| format!("ERROR {}\n", "x".repeat(n % 280 + 1)));
        let frequent = (0..50).map(|n| format!("ERROR request {n} failed\n"));
        let text: String = rare(0).chain(frequent).chain(rare(100)).collect();
        let told = read(&text);
        assert_eq!((told.count, told.lines[0].line), (850, 1), "the first is kept");
        let one = told.lines.iter().find(|one| one.text == "ERROR request 0 failed").unwrap();
        assert_eq!(one.count, 50);
    }
}
