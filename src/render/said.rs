//! Sentences that stand in data, in the language of whoever reads them.
//!
//! What is stored and what `--output json` prints is English, whoever reads it. `phrases/en/said.ftl` has the shapes of
//! those sentences; one that fits a shape is said anew in the language of the team, any other is shown as it is.

use fluent_bundle::FluentResource;
use fluent_syntax::ast::{Entry, Expression, InlineExpression, PatternElement};

use super::words::{Piece, Words};
use super::{Line, Span};

/// The file whose English phrases are shapes.
pub(super) const FILE: &str = "/said.ftl";
/// Sentences inside of sentences.
const DEPTH: usize = 3;
/// What is put in under these names is a sentence of its own.
const SENTENCES: [&str; 3] = ["why", "what", "enable"];

/// The shape of a sentence: what stands fixed in it, and what is put in between.
#[derive(Debug)]
pub(super) struct Shape {
    key: String,
    parts: Vec<Part>,
    /// Of several shapes that fit, one whose end is known is meant, then the one that says most.
    says: (bool, usize),
}

#[derive(Debug)]
enum Part {
    Fixed(String),
    Put(String),
}

/// The shapes in a file of phrases without plurals.
pub(super) fn shapes(resource: &FluentResource) -> Vec<Shape> {
    let messages = resource.entries().filter_map(|entry| match entry {
        Entry::Message(message) => Some((message.id.name, message.value.as_ref()?)),
        _ => None,
    });
    messages
        .map(|(key, pattern)| {
            let parts: Vec<Part> = pattern
                .elements
                .iter()
                .filter_map(|element| match element {
                    PatternElement::TextElement { value } => Some(Part::Fixed((*value).to_owned())),
                    PatternElement::Placeable {
                        expression: Expression::Inline(InlineExpression::VariableReference { id }),
                    } => Some(Part::Put(id.name.to_owned())),
                    PatternElement::Placeable { .. } => None,
                })
                .collect();
            let fixed = parts.iter().map(|part| if let Part::Fixed(text) = part { text.len() } else { 0 }).sum();
            let closed = matches!(parts.last(), Some(Part::Fixed(_)));
            Shape { key: key.to_owned(), parts, says: (closed, fixed) }
        })
        .collect()
}

impl Shape {
    /// What is put in, when the text has this shape.
    fn read<'a>(&self, text: &'a str) -> Option<Vec<(&str, &'a str)>> {
        let mut rest = text;
        let mut put: Option<&str> = None;
        let mut read = Vec::new();
        for (i, part) in self.parts.iter().enumerate() {
            match part {
                Part::Put(name) => put = Some(name),
                Part::Fixed(fixed) => {
                    let at = match (put, i + 1 == self.parts.len()) {
                        (None, _) => rest.starts_with(fixed.as_str()).then_some(0),
                        (Some(_), true) => rest.ends_with(fixed.as_str()).then(|| rest.len() - fixed.len()),
                        (Some(_), false) => rest.find(fixed.as_str()),
                    }?;
                    read.extend(put.take().map(|name| (name, &rest[..at])));
                    rest = &rest[at + fixed.len()..];
                }
            }
        }
        match put {
            Some(name) => read.push((name, rest)),
            None if !rest.is_empty() => return None,
            None => {}
        }
        Some(read)
    }
}

impl Words {
    /// A sentence out of data, in this language.
    pub fn said(&self, text: &str) -> Line {
        self.said_within(text, DEPTH).unwrap_or_else(|| Line::of(text))
    }

    /// [`Words::said`] where code is marked by back-ticks.
    pub fn said_text(&self, text: &str) -> String {
        let spans = self.said(text).0.into_iter().map(|span| match span {
            Span::Code(text) => format!("`{text}`"),
            other => other.text(),
        });
        spans.collect()
    }

    fn said_within(&self, text: &str, depth: usize) -> Option<Line> {
        let depth = depth.checked_sub(1)?;
        let fitting = self.shapes().iter().filter_map(|shape| Some((shape, shape.read(text)?)));
        let Some((shape, read)) = fitting.max_by_key(|(shape, _)| shape.says) else {
            // Who it is about stands before what is said of it.
            let (who, what) = text.split_once(": ")?;
            return Some(Line::of(who).plain(": ").then(self.said_within(what, depth)?));
        };
        let pieces: Vec<(&str, Piece)> = read
            .into_iter()
            .map(|(name, value)| {
                let piece = match value.parse::<usize>() {
                    Ok(n) if n.to_string() == value => n.into(),
                    _ if SENTENCES.contains(&name) => {
                        self.said_within(value, depth).unwrap_or_else(|| Line::of(value)).into()
                    }
                    // Code within it stays code.
                    _ if value.contains('`') => Line::of(value).into(),
                    _ => value.into(),
                };
                (name, piece)
            })
            .collect();
        Some(self.line(&shape.key, &pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_read_back_by_its_shape() {
        let text = "a = { $n } of { $of } queries timed out\nb = no series\nc = { $why } ({ $n } queries)\nd = only { $why }\n";
        let shapes = shapes(&FluentResource::try_new(text.to_owned()).expect("well-formed"));
        let read = |text| {
            let fitting = shapes.iter().filter_map(|shape| Some((shape.key.as_str(), shape.read(text)?)));
            fitting.collect::<Vec<_>>()
        };
        assert_eq!(read("3 of 7 queries timed out"), [("a", vec![("n", "3"), ("of", "7")])]);
        assert_eq!(read("no series"), [("b", vec![])]);
        assert_eq!(read("x (y) (2 queries)"), [("c", vec![("why", "x"), ("n", "y) (2")])]);
        assert_eq!(read("only "), [("d", vec![("why", "")])]);
        assert!(read("no series at all").is_empty() && read("").is_empty());
    }
}
