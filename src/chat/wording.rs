//! Small messages, lines and buttons that several answers share.

use jiff::Timestamp;

use super::command::ArgumentError;
use super::intent::ASK;
use findings::Diagnosis;
use message::{Block, Button, ButtonStyle, Line, Message, Tone};
use notify::Notifier;
use prom::Prometheus;
use render::Phrases;

/// The longest command line of a button; Slack accepts values of 2,000 characters.
const LINE_CHARS: usize = 1_900;

/// Builds a message of one sentence.
pub(super) fn sentence(tone: Tone, line: Line) -> Message {
    Message { tone, headline: line.text(), parts: Vec::new() }
}

/// Appends a part to a message.
pub(super) fn with(mut message: Message, part: Block) -> Message {
    message.parts.push(part);
    message
}

/// Builds a button that runs a command line.
pub(super) fn command_button(n: usize, label: &str, line: &str) -> Button {
    let line: String = line.chars().take(LINE_CHARS).collect();
    let style = if n == 0 { ButtonStyle::Primary } else { ButtonStyle::Plain };
    Button { style, ..render::button(&format!("{ASK}{n}"), label.to_owned(), &line) }
}

/// Quotes a name, so that it is one word of a line.
pub(super) fn quoted(name: &str) -> String {
    shlex::try_quote(name).map_or_else(|_| name.to_owned(), std::borrow::Cow::into_owned)
}

/// Describes an error in the arguments in one sentence.
pub(super) fn misuse(words: &Phrases, misuse: &ArgumentError) -> Line {
    let code = |text: &str| Line::default().code(text).into();
    match misuse {
        ArgumentError::Value { given, what, why } => {
            words.line("misuse-value", &[("given", code(given)), ("what", code(what)), ("why", Line::of(why).into())])
        }
        ArgumentError::Choice { given, choices } => {
            words.line("misuse-choice", &[("given", code(given)), ("choices", choices.join(", ").into())])
        }
        ArgumentError::Unexpected(word) => words.line("misuse-unexpected", &[("word", code(word))]),
        ArgumentError::Missing(what) => words.line("misuse-missing", &[("what", code(what))]),
        ArgumentError::Other => words.line("misuse-other", &[]),
    }
}

/// Builds the answer instead of one that cannot be cleaned of secrets.
pub(super) fn uncleaned(words: &Phrases) -> Message {
    sentence(Tone::Unknown, words.line("answer-uncleaned", &[]))
}

/// Builds the message of a diagnosis that a user requested, without secrets.
pub(super) fn diagnosis_message(
    notifier: &Notifier,
    diagnosis: &Diagnosis,
    prometheus: Option<&Prometheus>,
) -> Message {
    let Some(diagnosis) = notifier.cleaned_answer(diagnosis) else { return uncleaned(&notifier.words) };
    render::diagnosis_message(&diagnosis, prometheus.map(|prometheus| prometheus.url.as_str()), &notifier.words)
}

/// Adds the judged moment to an answer that is not about now.
pub(super) fn dated(words: &Phrases, message: Message, at: Option<Timestamp>) -> Message {
    match at {
        Some(at) => with(message, Block::Note(words.line("answer-at", &[("time", full_time(at).into())]))),
        None => message,
    }
}

/// Formats a time as `14:05 (2026-11-20 14:05 UTC)`, the first in the reader's time zone.
pub(super) fn full_time(at: Timestamp) -> Line {
    Line::default().time(at).plain(format!(" ({})", at.strftime("%Y-%m-%d %H:%M UTC")))
}
