//! The document of a report: the same blocks for a page and for Markdown, each of which prints them within its limits.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Line, MessagePart, Tone};

/// A report as sections of blocks, independent of the medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    /// The first sentence, as in the notification.
    pub(super) headline: String,
    /// The line above the title, in pieces: the state, the id, the time zone.
    pub(super) above: Vec<Line>,
    /// The symptom, or the name of the alert.
    pub(super) title: String,
    /// The sections, the summary first.
    pub(super) sections: Vec<PartGroup>,
    /// The origin of the report.
    pub(super) foot: Vec<Line>,
}

impl Document {
    /// Returns a section, or a group of one, by its key.
    pub(super) fn group(&self, key: SectionKey) -> Option<&PartGroup> {
        let mut all = self.sections.iter().flat_map(|section| std::iter::once(section).chain(section.groups()));
        all.find(|group| group.key == key.as_str())
    }
}

/// The key of a section, or of an answer, which is a group of one. Tickets name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionKey {
    Head,
    Why,
    Do,
    Picture,
    Timeline,
    Answers,
    Logs,
    Topology,
    Alerts,
    Rules,
    Evidence,
    Not,
    Unchecked,
    Parts,
    Redacted,
    Tickets,
    Bundles,
    Goal,
    Metrics,
    Model,
    Hardware,
    Workload,
    Deployment,
    Versions,
    Open,
}

impl SectionKey {
    /// Returns the key as the anchor of a page.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Why => "why",
            Self::Do => "do",
            Self::Picture => "picture",
            Self::Timeline => "timeline",
            Self::Answers => "answers",
            Self::Logs => "logs",
            Self::Topology => "topology",
            Self::Alerts => "alerts",
            Self::Rules => "rules",
            Self::Evidence => "evidence",
            Self::Not => "not",
            Self::Unchecked => "unchecked",
            Self::Parts => "parts",
            Self::Redacted => "redacted",
            Self::Tickets => "tickets",
            Self::Bundles => "bundles",
            Self::Goal => "goal",
            Self::Metrics => "metrics",
            Self::Model => "model",
            Self::Hardware => "hardware",
            Self::Workload => "workload",
            Self::Deployment => "deployment",
            Self::Versions => "versions",
            Self::Open => "open",
        }
    }
}

/// A block that only documents have. Never stored: a chart is markup that only our own renderer may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentBlock {
    /// Names with their values.
    Pairs(Vec<(Line, Line)>),
    /// A table.
    Table {
        /// The key, unique in its document: the name of the fold of a long table.
        key: String,
        /// The name, for screen readers.
        name: String,
        /// True if a page may fold the middle of a long table.
        folds: bool,
        /// The heads of its columns.
        heads: Vec<String>,
        /// The rows.
        rows: Vec<Vec<Line>>,
    },
    /// Text as it is: a command line, a line of a log.
    Code(String),
    /// Blocks under a title.
    Group(PartGroup),
    /// The causal chain.
    Chain {
        /// True if each link leads to the next one; false if the times contradict that.
        leads: bool,
        /// The links: the cause first, or in order of time.
        links: Vec<ChainLink>,
    },
    /// A histogram.
    Histogram {
        /// The alternative text.
        alt: String,
        /// The upper bound of each bar, and its height in thousandths of the highest one.
        bars: Vec<(String, u16)>,
    },
    /// A chart.
    Chart {
        /// The alternative text.
        alt: String,
        /// The `<svg>` from [`crate::chart::svg`].
        svg: String,
    },
}

/// Blocks under a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartGroup {
    /// The key: the anchor of a section, and the name of a fold that keeps its state when the page is refreshed.
    pub key: String,
    /// The title.
    pub title: Line,
    /// The state of its fold at first, if it has one.
    pub folding: Folding,
    /// The content.
    pub parts: Vec<MessagePart>,
}

impl PartGroup {
    fn groups(&self) -> impl Iterator<Item = &Self> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Block(DocumentBlock::Group(group)) => Some(group),
            _ => None,
        })
    }
}

/// Removes blocks without content, so that builders need not check for them.
pub(super) fn drop_empty(parts: &mut Vec<MessagePart>) {
    parts.retain_mut(|part| match part {
        MessagePart::Paragraph(text) | MessagePart::Note(text) | MessagePart::Gap(text) => !text.is_empty(),
        MessagePart::Section(_, lines) | MessagePart::Steps(_, lines) => !lines.is_empty(),
        MessagePart::Block(DocumentBlock::Pairs(pairs)) => {
            pairs.retain(|(_, value)| !value.is_empty());
            !pairs.is_empty()
        }
        MessagePart::Block(DocumentBlock::Table { rows, .. }) => !rows.is_empty(),
        MessagePart::Block(DocumentBlock::Group(group)) => {
            drop_empty(&mut group.parts);
            !group.parts.is_empty()
        }
        MessagePart::Block(DocumentBlock::Code(text)) => !text.is_empty(),
        MessagePart::Block(DocumentBlock::Chain { links, .. }) => !links.is_empty(),
        MessagePart::Block(DocumentBlock::Histogram { bars, .. }) => !bars.is_empty(),
        MessagePart::Block(DocumentBlock::Chart { .. }) => true,
        MessagePart::Beside(..) | MessagePart::Buttons(_) | MessagePart::Picture { .. } => true,
    });
}

/// The visibility of a group's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folding {
    /// Always shown.
    Never,
    /// Folds on a page, open at first.
    Open,
    /// Folds on a page, closed at first.
    Closed,
    /// A detail for media that fold; others leave it out.
    Aside,
}

/// A link of the causal chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLink {
    /// The kind, with the verdict: `Cause`, `Mechanism`.
    pub kind: Line,
    /// The title.
    pub title: String,
    /// The checks that were met.
    pub facts: Vec<String>,
    /// The onset.
    pub since: Option<Timestamp>,
    /// True for the root cause.
    pub root: bool,
}

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
    /// A check that was not made.
    NotLookedAt,
}

impl StateStyle {
    /// Returns the style of a severity.
    pub(super) fn of(tone: Tone) -> Self {
        match tone {
            Tone::Critical => Self::Bad,
            Tone::Warning => Self::Warn,
            Tone::Good => Self::Good,
            Tone::Firing | Tone::Unknown => Self::Mute,
        }
    }
}
