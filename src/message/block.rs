//! Blocks: the parts of messages and documents.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Button, Line};

/// A block of a message, or of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
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
    /// Something that is missing, so that it is not overlooked.
    Gap(Line),
    /// A block that chats and terminals have no room for, and leave out; never stored.
    #[serde(skip)]
    Document(DocumentBlock),
}

impl Block {
    /// Returns the block with every text of a message changed; addresses of links and buttons stay.
    #[must_use]
    pub fn map_text(self, change: &impl Fn(String) -> String) -> Self {
        let all = |lines: Vec<Line>| lines.into_iter().map(|line| line.map_text(change)).collect();
        match self {
            Self::Paragraph(line) => Self::Paragraph(line.map_text(change)),
            Self::Section(title, lines) => Self::Section(change(title), all(lines)),
            Self::Steps(title, lines) => Self::Steps(change(title), all(lines)),
            Self::Note(line) => Self::Note(line.map_text(change)),
            Self::Beside(line, button) => Self::Beside(line.map_text(change), button),
            Self::Gap(line) => Self::Gap(line.map_text(change)),
            Self::Buttons(_) | Self::Document(_) => self,
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
    Group(BlockGroup),
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
        /// The `<svg>` from `chart::svg`.
        svg: String,
    },
}

/// Blocks under a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockGroup {
    /// The key: the anchor of a section, and the name of a fold that keeps its state when the page is refreshed.
    pub key: String,
    /// The title.
    pub title: Line,
    /// The state of its fold at first, if it has one.
    pub folding: Folding,
    /// The content.
    pub parts: Vec<Block>,
}

impl BlockGroup {
    /// Returns the groups directly in this one.
    pub fn groups(&self) -> impl Iterator<Item = &Self> {
        self.parts.iter().filter_map(|part| match part {
            Block::Document(DocumentBlock::Group(group)) => Some(group),
            _ => None,
        })
    }
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
