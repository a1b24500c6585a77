//! Error lines that match no finding, counted by shape, so that the most frequent and the first can be quoted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::moment::LogTime;

/// Maximum shapes; beyond it the rarer half is dropped, except the first.
const SHAPES: usize = 256;
/// Number of shapes in a report, beside the first.
const MAX_QUOTED_SHAPES: usize = 3;
/// Maximum characters of a shape and of a quoted line.
const CHARS: usize = 300;
/// Characters of a line in which a level is searched.
const LEVEL_WITHIN: usize = 160;
/// Error levels, as engines and gateways write them.
const LEVELS: [&str; 3] = ["ERROR", "CRITICAL", "FATAL"];
/// Keys of the level in JSON lines. Sources: <https://docs.litellm.ai/docs/proxy/debugging>,
/// <https://docs.rs/tracing-subscriber/latest/tracing_subscriber/fmt/format/struct.Json.html>.
const LEVEL_KEYS: [&str; 4] = ["\"level\"", "\"levelname\"", "\"severity\"", "\"lvl\""];

/// Error lines that match no finding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnclassifiedErrors {
    /// Their number.
    pub count: u64,
    /// The most frequent lines and the first, in order of first occurrence.
    pub lines: Vec<UnknownLine>,
}

/// Error lines that differ only in numbers and ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownLine {
    /// Their number.
    pub count: u64,
    /// The line number of the first.
    pub line: u64,
    /// The time of the first, as written in the log.
    pub first: Option<String>,
    /// The first line, truncated.
    pub text: String,
}

/// The counter of error lines.
#[derive(Debug, Default)]
pub(super) struct Errors {
    count: u64,
    shapes: BTreeMap<String, UnknownLine>,
    /// True inside a traceback.
    traced: bool,
    /// True if the traceback belongs to an error already counted.
    counted: bool,
}

impl Errors {
    /// Processes the next line; it is not counted if a finding matches it (`known`).
    pub(super) fn line(&mut self, line: &str, number: u64, at: Option<&LogTime>, is_known: bool) {
        let (level, body) = (is_error(line), body(line));
        let frame = body.starts_with(char::is_whitespace) || body.is_empty();
        if body.starts_with("Traceback (most recent call last)") {
            (self.traced, self.counted) = (true, self.counted || level);
            return;
        }
        if (self.traced || level) && frame {
            return;
        }
        // The line that ends a traceback names the exception.
        let raised = std::mem::take(&mut self.traced) && !level;
        if (level || (raised && !self.counted)) && !is_known {
            self.add(line, body, number, at);
        }
        self.counted = level;
    }

    fn add(&mut self, line: &str, body: &str, number: u64, at: Option<&LogTime>) {
        self.count += 1;
        let shape = shape(body);
        if self.shapes.len() >= SHAPES && !self.shapes.contains_key(&shape) {
            self.forget();
        }
        let printable = || line.chars().filter(|c| !c.is_control()).take(CHARS).collect();
        let first = || at.map(|moment| moment.text.clone());
        let kind = self.shapes.entry(shape).or_insert_with(|| UnknownLine {
            count: 0,
            line: number,
            first: first(),
            text: printable(),
        });
        kind.count += 1;
    }

    /// Drops the rarer half, but never the first: a frequent shape may begin after many rare ones.
    fn forget(&mut self) {
        let first = self.shapes.values().map(|one| one.line).min();
        let mut ranks: Vec<_> = self.shapes.values().map(|one| (std::cmp::Reverse(one.count), one.line)).collect();
        ranks.sort_unstable();
        let last = ranks.get(SHAPES / 2).copied();
        let rank = |one: &UnknownLine| (std::cmp::Reverse(one.count), one.line);
        self.shapes.retain(|_, one| Some(rank(one)) < last || Some(one.line) == first);
    }

    pub(super) fn into_summary(self) -> UnclassifiedErrors {
        let mut lines: Vec<UnknownLine> = self.shapes.into_values().collect();
        let first = lines.iter().map(|one| one.line).min();
        lines.sort_by_key(|one| (std::cmp::Reverse(one.count), one.line));
        let mut rank = 0;
        lines.retain(|one| {
            rank += 1;
            rank <= MAX_QUOTED_SHAPES || Some(one.line) == first
        });
        lines.sort_by_key(|one| one.line);
        UnclassifiedErrors { count: self.count, lines }
    }
}

/// Returns true if a line has an error level.
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

/// Returns the text after time, level and source location: `ERROR 11-20 18:27:35 [async_llm.py:906] …`.
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

/// Returns the words of a line with variable parts replaced.
fn shape(body: &str) -> String {
    let word = |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    let words: Vec<String> = body.split_whitespace().map(word).collect();
    words.join(" ").chars().take(CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> UnclassifiedErrors {
        let mut errors = Errors::default();
        text.lines().zip(1..).for_each(|(line, number)| errors.line(line, number, None, line.contains("known")));
        errors.into_summary()
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
        let errors = read(text);
        assert_eq!(errors.count, 4);
        assert_eq!(errors.lines[0].count, 2, "{errors:?}");
        assert!(errors.lines[0].text.contains("request 17"));
    }

    #[test]
    fn a_traceback_counts_once_with_its_last_line() {
        let alone =
            "Traceback (most recent call last):\n  File \"a.py\", line 1\n    x()\nValueError: no such thing\nbye\n";
        let errors = read(alone);
        assert_eq!((errors.count, errors.lines[0].text.as_str()), (1, "ValueError: no such thing"));
        let errors = read(&format!("12:00:00 - LiteLLM Proxy:ERROR: x.py:1 - failed\n{alone}"));
        assert_eq!((errors.count, errors.lines[0].line), (1, 1));
        let levelled = "(A pid=1) ERROR 11-20 18:27:35 [a.py:9] failed\n\
                        (A pid=1) ERROR 11-20 18:27:35 [a.py:9] Traceback (most recent call last):\n\
                        (A pid=1) ERROR 11-20 18:27:35 [a.py:9]   File \"a.py\", line 1\n";
        assert_eq!(read(levelled).count, 1);
    }

    #[test]
    fn endless_shapes_take_no_more_memory() {
        let text: String = (0..2_000).map(|n| format!("ERROR {}\n", "x".repeat(n % 1_000 + 1))).collect();
        let errors = read(&text);
        assert_eq!(errors.count, 2_000);
        assert!(errors.lines.len() <= MAX_QUOTED_SHAPES + 1);
    }

    #[test]
    fn a_frequent_error_that_begins_behind_many_rare_ones_is_quoted() {
        let rare = |from: usize| (from..from + 400).map(|n| format!("ERROR {}\n", "x".repeat(n % 280 + 1)));
        let frequent = (0..50).map(|n| format!("ERROR request {n} failed\n"));
        let text: String = rare(0).chain(frequent).chain(rare(100)).collect();
        let errors = read(&text);
        assert_eq!((errors.count, errors.lines[0].line), (850, 1), "the first is kept");
        let one = errors.lines.iter().find(|one| one.text == "ERROR request 0 failed").unwrap();
        assert_eq!(one.count, 50);
    }
}
