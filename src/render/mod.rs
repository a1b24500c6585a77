//! Diagnosis and incident ─▶ [`Message`] ─▶ Slack blocks, terminal text, or a page. Pure.
//!
//! A [`Message`] is neutral: what is said stands in `playbooks/phrases`, how it looks in one file per medium, and each
//! of those escapes whatever came from outside at its own border.

mod blocks;
mod bundle;
mod buttons;
mod capacity;
mod compared;
mod coverage;
mod digest;
mod direct;
mod evidence;
mod facts;
mod health;
mod latency;
mod links;
mod logs;
mod markdown;
mod message;
mod notes;
mod page;
mod readme;
mod report;
mod screened;
mod short;
mod text;
mod thread;
mod view;
mod whole;
mod words;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use blocks::{MENU, SlackMessage, slack, slack_blocks, slack_line, slack_said};
pub use bundle::{Place, bundle_message, bundle_progress};
pub use capacity::capacity;
pub use coverage::coverage;
pub use digest::{DigestEntry, DigestView, VARIOUS, digest_message};
pub use evidence::evidence_parts;
pub use health::health;
pub use links::graph;
pub use links::links_of;
pub use logs::logs;
pub use markdown::{report_markdown, ticket, tickets_for};
pub use message::incident_message;
pub use notes::{is_done, note, step_id, step_text};
pub use page::{
    Find, IncidentList, IncidentRow, health_page, incidents_page, playbook_page, playbooks_page, policy, problem_page,
    tagged,
};
pub use readme::readme;
pub use report::{Around, report_page};
pub use short::short;
pub(crate) use text::clean;
pub use text::{Commands, terminal, terminal_with};
pub use thread::{Told, changes};
pub use view::{IncidentView, Note, Picture};
pub use whole::diagnosis_message;
pub(crate) use words::{ENGLISH, own_phrases};
pub use words::{Piece, Words};

/// How bad it is, as colour and as word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Users are hurt.
    Critical,
    /// Watch it.
    Warning,
    /// It fires, and no alert says how bad that is.
    Firing,
    /// Over, or not confirmed.
    Good,
    /// Not known yet.
    Unknown,
}

impl Tone {
    /// The colour, for attachments and pages; told apart by people with red-green blindness as well.
    pub fn hex(self) -> &'static str {
        match self {
            Self::Critical => "#c4314b",
            Self::Warning => "#e8a13a",
            Self::Good => "#2f9e6e",
            Self::Firing | Self::Unknown => "#6b7a90",
        }
    }
}

/// A piece of text with its look; the content is raw and escaped by each medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// As it is.
    Plain(String),
    /// Emphasis.
    Bold(String),
    /// Commands, flags, names.
    Code(String),
    /// Label and address.
    Link(String, String),
    /// A time of day, in the reader's time zone where the medium knows it.
    Time(Timestamp),
    /// A person of the chat, by id; nobody is notified where the medium allows that.
    User(String),
    /// A group of the chat that is to be notified, by id.
    Group(String),
}

impl Span {
    /// Whoever has this id: Slack's user groups begin with S.
    pub fn whom(id: &str) -> Self {
        match id.starts_with('S') {
            true => Self::Group(id.to_owned()),
            false => Self::User(id.to_owned()),
        }
    }

    /// Without its look.
    pub fn text(&self) -> String {
        match self {
            Self::Plain(text) | Self::Bold(text) | Self::Code(text) | Self::Link(text, _) => text.clone(),
            Self::Time(at) => time_of_day(*at),
            Self::User(id) | Self::Group(id) => format!("@{id}"),
        }
    }
}

/// The time of day where no reader's time zone is known: `14:02 UTC`.
fn time_of_day(at: Timestamp) -> String {
    at.strftime("%H:%M UTC").to_string()
}

/// Whether a character from outside would only move the cursor, break the line, or turn the direction of writing.
pub(crate) fn is_unseen(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// A line of text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line(pub Vec<Span>);

impl Line {
    /// Plain text in which back-ticks mark code.
    pub fn of(text: &str) -> Self {
        let mut line = Self::default();
        for (i, part) in text.split('`').enumerate().filter(|(_, part)| !part.is_empty()) {
            line.0.push(if i % 2 == 1 { Span::Code(part.to_owned()) } else { Span::Plain(part.to_owned()) });
        }
        line
    }

    /// Appends plain text; nothing in it is markup.
    #[must_use]
    pub fn plain(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Plain(text.into()));
        self
    }

    /// Appends emphasised text.
    #[must_use]
    pub fn bold(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Bold(text.into()));
        self
    }

    /// Appends code.
    #[must_use]
    pub fn code(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Code(text.into()));
        self
    }

    /// Appends a link.
    #[must_use]
    pub fn link(mut self, label: impl Into<String>, url: impl Into<String>) -> Self {
        self.0.push(Span::Link(label.into(), url.into()));
        self
    }

    /// Appends a time of day.
    #[must_use]
    pub fn time(mut self, at: Timestamp) -> Self {
        self.0.push(Span::Time(at));
        self
    }

    /// Without its look.
    pub fn text(&self) -> String {
        self.0.iter().map(Span::text).collect()
    }

    /// Neighbours of one look as one span, empty ones left out.
    #[must_use]
    pub fn joined(self) -> Self {
        let mut out: Vec<Span> = Vec::with_capacity(self.0.len());
        for span in self.0 {
            match (out.last_mut(), span) {
                (_, Span::Plain(text) | Span::Bold(text) | Span::Code(text)) if text.is_empty() => {}
                (Some(Span::Plain(before)), Span::Plain(text)) => before.push_str(&text),
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

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// One paragraph.
    Paragraph(Line),
    /// A title with lines under it.
    Section(String, Vec<Line>),
    /// A title with numbered lines.
    Steps(String, Vec<Line>),
    /// Small print.
    Note(Line),
    /// Things to press; only where somebody listens.
    Buttons(Vec<Button>),
    /// One paragraph with something to press beside it.
    Beside(Line, Button),
    /// A picture that was uploaded before, by the chat's file id; with words for those who cannot see it.
    Picture {
        /// The file's id.
        file: String,
        /// What it shows.
        alt: String,
    },
}

/// Something to press.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// Which act: unique within a message, told back when pressed. See `chatops`.
    pub action: String,
    /// What it says.
    pub label: String,
    /// Told back when pressed: the incident's id, a step's hash.
    pub value: String,
    /// How it looks.
    pub look: ButtonLook,
    /// Asked before it acts.
    pub confirm: Option<String>,
}

/// What a button does; `chatops` carries it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// "I am on it."
    Acknowledge,
    /// Diagnose once more, now.
    Again,
    /// Everything that was checked, for the one who asks.
    Evidence,
    /// The named cause was right.
    Right,
    /// It was another one: asks which.
    Wrong,
    /// Silence in Alertmanager: shows the matchers first.
    Silence,
    /// End such a silence.
    Expire,
    /// Call the next ones.
    Escalate,
    /// A step was done. The value names it: `<incident>/<step>`.
    Done,
    /// Did the step work? The value names it: `<incident>/<step>`.
    Verify,
    /// The incidents of a digest.
    Digest,
    /// One file of everything known.
    Bundle,
}

impl Act {
    /// Every act.
    pub const ALL: [Self; 12] = [
        Self::Acknowledge,
        Self::Again,
        Self::Evidence,
        Self::Right,
        Self::Wrong,
        Self::Silence,
        Self::Expire,
        Self::Escalate,
        Self::Done,
        Self::Verify,
        Self::Digest,
        Self::Bundle,
    ];

    /// As buttons, the audit log and metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledge",
            Self::Again => "again",
            Self::Evidence => "evidence",
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Silence => "silence",
            Self::Expire => "expire",
            Self::Escalate => "escalate",
            Self::Done => "done",
            Self::Verify => "verify",
            Self::Digest => "digest",
            Self::Bundle => "bundle",
        }
    }

    /// The act of a button's id; none when it is not one of ours. `verify:1` is one of several of the same act.
    pub fn of(id: &str) -> Option<Self> {
        let id = id.split_once(':').map_or(id, |(act, _)| act);
        Self::ALL.into_iter().find(|act| act.as_str() == id)
    }
}

/// How a button looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonLook {
    /// One of several.
    #[default]
    Plain,
    /// What most will press.
    Primary,
    /// Changes something.
    Danger,
    /// Seldom pressed: in the menu behind the others.
    InMenu,
}

/// What is said, for every medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// How bad.
    pub tone: Tone,
    /// One line for the notification: what, who is hurt, why.
    pub headline: String,
    /// The rest.
    pub parts: Vec<Part>,
}
