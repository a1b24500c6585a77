//! Lines of formatted text, independent of the medium.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Tone;

/// The style of a state: a colour, always with a sign and a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateStyle {
    /// Wrong.
    Bad,
    /// Needs attention.
    Warn,
    /// In order.
    Good,
    /// Without a judgement.
    Mute,
    /// A check that holds.
    Met,
    /// A check that does not hold.
    NotMet,
    /// A check without data.
    NoData,
}

impl StateStyle {
    /// Returns the style of a severity.
    pub fn of(tone: Tone) -> Self {
        match tone {
            Tone::Critical => Self::Bad,
            Tone::Warning => Self::Warn,
            Tone::Good => Self::Good,
            Tone::Firing | Tone::Unknown => Self::Mute,
        }
    }
}

/// A formatted piece of text; the content is raw, and each medium escapes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextSpan {
    /// Plain text.
    Plain(String),
    /// Emphasised text.
    Bold(String),
    /// Code: commands, flags, names.
    Code(String),
    /// A link: label and URL.
    Link(String, String),
    /// A time of day, in the reader's time zone if the medium knows it.
    Time(Timestamp),
    /// A user of the chat, by id; without a notification if the medium allows that.
    User(String),
    /// A group of the chat that is notified, by id.
    Group(String),
    /// A date with its time of day.
    Moment(Timestamp),
    /// A state, in colour where there is one.
    State(StateStyle, String),
    /// A remark on the text before it.
    Small(Line),
}

impl TextSpan {
    /// Returns the mention of a user or a group; ids of Slack's user groups begin with S.
    pub fn whom(id: &str) -> Self {
        match id.starts_with('S') {
            true => Self::Group(id.to_owned()),
            false => Self::User(id.to_owned()),
        }
    }

    /// Returns the text without formatting.
    pub fn text(&self) -> String {
        match self {
            Self::Plain(text) | Self::Bold(text) | Self::Code(text) => text.clone(),
            Self::Link(text, _) | Self::State(_, text) => text.clone(),
            Self::Time(at) => time_of_day(*at),
            Self::User(id) => match id.strip_prefix("page:") {
                // A visitor of the pages, whom no chat knows.
                Some(name) => format!("{name} (page)"),
                None => format!("@{id}"),
            },
            Self::Group(id) => format!("@{id}"),
            Self::Moment(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            Self::Small(line) => format!(" ({})", line.text()),
        }
    }
}

/// Formats a time of day for media without the reader's time zone: `14:02 UTC`.
pub fn time_of_day(at: Timestamp) -> String {
    at.strftime("%H:%M UTC").to_string()
}

/// A line of formatted text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line(pub Vec<TextSpan>);

impl Line {
    /// Parses plain text in which back-ticks mark code.
    pub fn of(text: &str) -> Self {
        let mut line = Self::default();
        for (i, part) in text.split('`').enumerate().filter(|(_, part)| !part.is_empty()) {
            line.0.push(if i % 2 == 1 { TextSpan::Code(part.to_owned()) } else { TextSpan::Plain(part.to_owned()) });
        }
        line
    }

    /// Appends plain text; nothing in it is markup.
    #[must_use]
    pub fn plain(mut self, text: impl Into<String>) -> Self {
        self.0.push(TextSpan::Plain(text.into()));
        self
    }

    /// Appends emphasised text.
    #[must_use]
    pub fn bold(mut self, text: impl Into<String>) -> Self {
        self.0.push(TextSpan::Bold(text.into()));
        self
    }

    /// Appends code.
    #[must_use]
    pub fn code(mut self, text: impl Into<String>) -> Self {
        self.0.push(TextSpan::Code(text.into()));
        self
    }

    /// Appends a link.
    #[must_use]
    pub fn link(mut self, label: impl Into<String>, url: impl Into<String>) -> Self {
        self.0.push(TextSpan::Link(label.into(), url.into()));
        self
    }

    /// Appends a time of day.
    #[must_use]
    pub fn time(mut self, at: Timestamp) -> Self {
        self.0.push(TextSpan::Time(at));
        self
    }

    /// Appends a date with its time of day.
    #[must_use]
    pub fn moment(mut self, at: Timestamp) -> Self {
        self.0.push(TextSpan::Moment(at));
        self
    }

    /// Appends a state.
    #[must_use]
    pub fn state(mut self, style: StateStyle, word: impl Into<String>) -> Self {
        self.0.push(TextSpan::State(style, word.into()));
        self
    }

    /// Appends a remark, if there is one.
    #[must_use]
    pub fn small(mut self, line: Self) -> Self {
        if !line.is_empty() {
            self.0.push(TextSpan::Small(line));
        }
        self
    }

    /// Returns the text without formatting.
    pub fn text(&self) -> String {
        self.0.iter().map(TextSpan::text).collect()
    }

    /// Returns the line with every text changed; addresses of links, ids and times stay.
    #[must_use]
    pub fn map_text(self, change: &impl Fn(String) -> String) -> Self {
        let span = |span| match span {
            TextSpan::Plain(text) => TextSpan::Plain(change(text)),
            TextSpan::Bold(text) => TextSpan::Bold(change(text)),
            TextSpan::Code(text) => TextSpan::Code(change(text)),
            TextSpan::Link(label, url) => TextSpan::Link(change(label), url),
            TextSpan::State(style, text) => TextSpan::State(style, change(text)),
            TextSpan::Small(line) => TextSpan::Small(line.map_text(change)),
            TextSpan::Time(_) | TextSpan::User(_) | TextSpan::Group(_) | TextSpan::Moment(_) => span,
        };
        Self(self.0.into_iter().map(span).collect())
    }

    /// Returns true if there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|span| span.text().is_empty())
    }

    /// Merges neighbouring plain spans and drops empty ones.
    #[must_use]
    pub fn joined(self) -> Self {
        let mut out: Vec<TextSpan> = Vec::with_capacity(self.0.len());
        for span in self.0 {
            match (out.last_mut(), span) {
                (_, TextSpan::Plain(text) | TextSpan::Bold(text) | TextSpan::Code(text)) if text.is_empty() => {}
                (Some(TextSpan::Plain(before)), TextSpan::Plain(text)) => before.push_str(&text),
                (_, span) => out.push(span),
            }
        }
        Self(out)
    }

    /// Appends another line's spans.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}
