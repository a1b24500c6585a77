//! Diagnosis and incident ─▶ [`Message`] ─▶ Slack blocks, terminal text, or a page. Pure.
//!
//! A [`Message`] is independent of the medium, and so is the document of a report. The phrases are in
//! `playbooks/phrases`, the formatting is in one file per medium, and each medium escapes untrusted text itself.

mod blocks;
mod bundle;
mod buttons;
mod capacity;
pub mod chart;
mod compared;
mod coverage;
mod diagnosis_chart;
mod digest;
mod direct;
mod document;
mod evidence;
mod facts;
mod full_diagnosis;
mod health;
mod latency;
mod links;
mod logs;
mod markdown;
mod message;
mod notes;
mod page;
mod phrases;
mod readme;
mod report;
mod screened;
mod short;
mod text;
mod thread;
mod view;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use blocks::{MENU, SlackMessage, slack, slack_blocks, slack_line, slack_said};
pub use bundle::{BundleLocation, bundle_message, bundle_progress};
pub use capacity::capacity;
pub use coverage::coverage;
pub use diagnosis_chart::diagnosis_chart;
pub use digest::{DigestEntry, DigestView, digest_message};
pub use document::{ChainLink, DocumentBlock, Folding, PartGroup, StateStyle};
pub use evidence::evidence_parts;
pub use full_diagnosis::diagnosis_message;
pub use health::health;
pub use links::{graph, links_of};
pub use logs::logs;
pub use markdown::{report_markdown, ticket, tickets_for};
pub use message::incident_message;
pub use notes::{is_done, note, step_id, step_text};
pub use page::{
    IncidentFilter, IncidentList, IncidentRow, health_page, incidents_page, playbook_page, playbooks_page, policy,
    problem_page, report_page, tagged,
};
pub use phrases::{ENGLISH, own_phrases};
pub use phrases::{PhraseArgument, Phrases};
pub use readme::readme;
pub use report::ReportPageContext;
pub use short::short;
pub use text::clean;
pub use text::{Commands, terminal, terminal_with};
pub use thread::{ThreadState, changes};
pub use view::{IncidentView, Picture};

/// The severity of a message, shown as a colour and a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Users are affected.
    Critical,
    /// A warning that needs attention.
    Warning,
    /// Firing, with no alert that states a severity.
    Firing,
    /// Resolved, or checked without finding a problem.
    Good,
    /// No verdict, or an alert whose symptom is absent.
    Unknown,
}

impl Tone {
    /// Returns the colour for attachments and pages; distinguishable with red-green blindness too.
    pub fn hex(self) -> &'static str {
        match self {
            Self::Critical => "#c4314b",
            Self::Warning => "#e8a13a",
            Self::Good => "#2f9e6e",
            Self::Firing | Self::Unknown => "#6b7a90",
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
            Self::User(id) | Self::Group(id) => format!("@{id}"),
            Self::Moment(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            Self::Small(line) => format!(" ({})", line.text()),
        }
    }
}

/// Formats a time of day for media without the reader's time zone: `14:02 UTC`.
fn time_of_day(at: Timestamp) -> String {
    at.strftime("%H:%M UTC").to_string()
}

/// Returns true if a character only moves the cursor, breaks the line, or changes the text direction.
pub fn is_unseen(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
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

/// A block of a message, or of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePart {
    /// One paragraph.
    Paragraph(Line),
    /// A title with lines below it.
    Section(String, Vec<Line>),
    /// A title with numbered lines.
    Steps(String, Vec<Line>),
    /// Small print.
    Note(Line),
    /// Buttons; only if clicks are received.
    Buttons(Vec<Button>),
    /// One paragraph with a button beside it.
    Beside(Line, Button),
    /// An uploaded picture, with its alternative text.
    Picture {
        /// The chat's file id.
        file: String,
        /// The alternative text.
        alt: String,
    },
    /// Something that is missing, so that it is not overlooked.
    Gap(Line),
    /// A block that chats and terminals have no room for, and leave out; never stored.
    #[serde(skip)]
    Block(DocumentBlock),
}

/// A button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The act, unique within a message and returned on a click. See `chatops`.
    pub action: String,
    /// The label.
    pub label: String,
    /// The value returned on a click: the incident's id, a step's hash.
    pub value: String,
    /// The style.
    pub look: ButtonLook,
    /// The question of the confirmation dialog, if any.
    pub confirm: Option<String>,
}

/// The style of a button.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonLook {
    /// One of several equal buttons.
    #[default]
    Plain,
    /// The button that most users need.
    Primary,
    /// An act that needs care, such as an escalation.
    Danger,
    /// Rarely used: in the menu behind the other buttons.
    InMenu,
}

/// A message, independent of the medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The severity.
    pub tone: Tone,
    /// One line for the notification: symptom, affected pool, cause.
    pub headline: String,
    /// The other parts.
    pub parts: Vec<MessagePart>,
}
