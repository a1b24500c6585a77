//! The text of a file, and what is wrong in it: every problem has a file, a line and, where possible, a hint.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;

use serde::de::DeserializeOwned;
use unicode_width::UnicodeWidthStr;

use super::{Lint, PlaybookKind};

/// Maximum characters of a line in an excerpt.
const EXCERPT_CHARS: usize = 120;
/// The word that marks a value or a comment as unfinished.
const TODO: &str = "TODO";
/// Maximum characters of a message: parsers repeat values of any length.
const MESSAGE_CHARS: usize = 400;

/// A YAML file with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The path as the user would name it.
    pub path: String,
    /// The text; a shipped one is a part of the program, and takes no memory of its own.
    pub text: Cow<'static, str>,
    /// True if it is a user's own, and not shipped.
    pub own: bool,
    /// The kind of playbook of its folder.
    pub folder: Option<PlaybookKind>,
}

impl SourceFile {
    /// Creates a shipped file; a byte order mark, which editors on Windows write, is removed.
    pub fn new(path: String, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let text = text.strip_prefix('\u{feff}').map(|text| text.to_owned().into()).unwrap_or(text);
        Self { path, text, own: false, folder: None }
    }

    /// Returns the 1-based number of the first line that contains `needle` as a whole word; 1 if none does.
    pub fn line_of(&self, needle: &str) -> usize {
        self.line_with(needle).unwrap_or(1)
    }

    /// As [`Self::line_of`]; `None` if no line does.
    pub(super) fn line_with(&self, needle: &str) -> Option<usize> {
        let is_key_line = |line: &str| {
            line.match_indices(needle).any(|(at, _)| {
                let edge = |c: Option<char>| c.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == '-'));
                edge(line[..at].chars().next_back()) && edge(line[at + needle.len()..].chars().next())
            })
        };
        self.text.lines().position(is_key_line).map(|i| i + 1)
    }
}

/// An error in the data, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The lint that found it.
    pub lint: Lint,
    /// The file as the user would name it.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based character in the line; 0 if the whole line is meant.
    pub column: usize,
    /// The text of the line.
    pub excerpt: String,
    /// The description of the error.
    pub message: String,
    /// The action that fixes it.
    pub hint: Option<String>,
}

impl Problem {
    /// Creates a problem at the first line of `file` that contains `needle`.
    pub fn at(lint: Lint, file: &SourceFile, needle: &str, message: String, hint: Option<String>) -> Self {
        Self::on_line(lint, file, file.line_of(needle), message, hint)
    }

    /// Creates a problem at a 1-based line of `file`.
    pub fn on_line(lint: Lint, file: &SourceFile, line: usize, message: String, hint: Option<String>) -> Self {
        let excerpt = file.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
        Self { lint, file: file.path.clone(), line, column: 0, excerpt, message, hint }
    }

    /// Creates a problem from an error of the JSON parser, with its location.
    pub fn of_json(path: &str, text: &str, error: &serde_json::Error) -> Self {
        let file = SourceFile::new(path.to_owned(), text.to_owned());
        let problem = Self::on_line(Lint::JsonShape, &file, error.line().max(1), error.to_string(), None);
        // The JSON parser counts bytes.
        let column = problem.excerpt.char_indices().take_while(|(at, _)| *at < error.column()).count();
        Self { column, ..problem }
    }

    /// Returns the part of the line that is shown, and the terminal columns before the error in it.
    fn excerpt(&self) -> (String, usize) {
        let at = self.column.saturating_sub(1);
        let chars: Vec<char> = self.excerpt.chars().collect();
        let from = if chars.len() > EXCERPT_CHARS { at.saturating_sub(EXCERPT_CHARS / 2).min(chars.len()) } else { 0 };
        let to = (from + EXCERPT_CHARS).min(chars.len());
        // Tabs and control characters take one column here, so that the caret stands below the error.
        let printable = |c: &char| if c.is_control() { ' ' } else { *c };
        let text = |part: &[char]| part.iter().map(printable).collect::<String>();
        let dots = |cut: bool| if cut { "…" } else { "" };
        let before = format!("{}{}", dots(from > 0), text(&chars[from..at.clamp(from, to)]));
        let rest = format!("{}{}", text(&chars[at.clamp(from, to)..to]), dots(to < chars.len()));
        (format!("{before}{rest}"), before.width())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of a file stand in messages too.
        let printable = |text: &str| text.replace(|c: char| c.is_control() && c != '\n', " ");
        let message = printable(&self.message).replace('\n', " ");
        writeln!(f, "{}:{}: {message} ({})", self.file, self.line, self.lint)?;
        let (excerpt, before) = self.excerpt();
        write!(f, "  {:>4} | {excerpt}", self.line)?;
        if self.column > 0 {
            write!(f, "\n       | {}^", " ".repeat(before))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n       = hint: {}", printable(hint))?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Returns true if a text has the word `TODO`, which skeletons write where something is to be filled in.
pub fn is_unfinished(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word == TODO)
}

/// Returns ``did you mean `x`?`` if one of `candidates` is similar to `word`.
pub fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Letters in common say something about words, and nothing about sentences.
    let similarity = if word.contains(' ') { strsim::normalized_levenshtein } else { strsim::jaro_winkler };
    candidates
        .into_iter()
        .map(|candidate| (similarity(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// Returns the known words, the most similar to `word` first.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut candidates: Vec<&str> = candidates.into_iter().collect();
    let word = word.to_lowercase();
    // In millionths: fractions have no order.
    let likeness = |candidate: &str| (strsim::jaro_winkler(&word, &candidate.to_lowercase()) * 1e6) as u32;
    candidates.sort_by_cached_key(|candidate| (Reverse(likeness(candidate)), *candidate));
    candidates
}

/// Parses a YAML file strictly.
///
/// # Errors
/// The first problem, with its line and, for a misspelt key, a suggestion.
pub fn parse<T: DeserializeOwned>(file: &SourceFile) -> Result<T, Box<Problem>> {
    let budget = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 20_000, max_aliases: 0 },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(&file.text, budget).map_err(|error| {
        let (line, column) = error.location().map_or((1, 0), |at| (at.line() as usize, at.column() as usize));
        let message = error.to_string();
        let message: String = message.lines().next().unwrap_or_default().chars().take(MESSAGE_CHARS).collect();
        let hint = misspelt_key(&message);
        Box::new(Problem { column, ..Problem::on_line(Lint::YamlShape, file, line, message, hint) })
    })
}

/// Returns a suggestion for serde's "unknown field `x`, expected one of a, b".
fn misspelt_key(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unknown field `")?;
    let (wrong, rest) = rest.split_once('`')?;
    let expected = rest.split_once("expected")?.1.split(" at line").next()?;
    suggestion(wrong, expected.split([',', ' ', '`']).filter(|word| !word.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the column in the shown line that the caret points at, and the shown line.
    fn pointed(problem: &Problem) -> (usize, String) {
        let excerpt = problem.to_string();
        let mut lines = excerpt.lines().skip(1);
        let (line, caret) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(caret.ends_with('^') && caret.trim() != "^", "{excerpt}");
        (caret.len() - 1 - "       | ".len(), line.split_once("| ").unwrap().1.to_owned())
    }

    fn problem(text: &str) -> Problem {
        let file = SourceFile::new("a.yaml".to_owned(), text.to_owned());
        *parse::<BTreeMap<String, u32>>(&file).unwrap_err()
    }

    #[test]
    fn json_has_a_caret_below_its_place_too() {
        let text = "{\n  \"näme\": ☃\n}";
        let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
        let excerpt = Problem::of_json("a.json", text, &error).to_string();
        let lines: Vec<&str> = excerpt.lines().collect();
        assert_eq!(lines[0], "a.json:2: expected value at line 2 column 12 (json/shape)");
        assert_eq!(lines[1..], ["     2 |   \"näme\": ☃", "       |           ^"]);
        let cut = serde_json::from_str::<serde_json::Value>("").unwrap_err();
        assert!(Problem::of_json("a.json", "", &cut).to_string().starts_with("a.json:1: EOF while parsing"));
    }

    #[test]
    fn the_caret_stands_below_its_place_behind_tabs_wide_characters_and_a_byte_order_mark() {
        for (text, before) in [("a: 1\nb: x\n", "b: "), ("\u{feff}b: x\n", "b: "), ("{ \t b: x }", "{   b: ")] {
            let (column, line) = pointed(&problem(text));
            assert_eq!((column, &line[..column]), (before.len(), before), "{text:?}");
        }
        let (column, line) = pointed(&problem("{ 模型: x }"));
        assert_eq!((column, line.as_str()), ("{ 模型: ".width(), "{ 模型: x }"));
    }

    #[test]
    fn a_long_line_is_cut_around_its_place() {
        let long = format!("{{ {}: 1, b: x, {}: 1 }}", "c".repeat(500), "d".repeat(500));
        let (column, line) = pointed(&problem(&long));
        assert!(line.chars().count() <= EXCERPT_CHARS + 2 && line.starts_with('…') && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().nth(column), Some('x'), "{line}");
    }
}
