//! The document of a report or a backtest: the same blocks for a page and for Markdown, each of which prints them within its limits.

use strum::IntoStaticStr;

use message::{Block, BlockGroup, DocumentBlock, Line};

/// A report as sections of blocks, independent of the medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The first sentence, as in the notification.
    pub headline: String,
    /// The line above the title, in pieces: the state, the id, the time zone.
    pub above: Vec<Line>,
    /// The symptom, or the name of the alert.
    pub title: String,
    /// The sections, the summary first.
    pub sections: Vec<BlockGroup>,
    /// The origin of the report.
    pub foot: Vec<Line>,
}

impl Document {
    /// Removes sections and blocks without content, so that builders need not check for them.
    #[must_use]
    pub fn without_empty_parts(mut self) -> Self {
        self.sections.iter_mut().for_each(|section| drop_empty(&mut section.parts));
        self.sections.retain(|section| !section.parts.is_empty());
        self
    }

    /// Returns a section, or a group of one, by its key.
    pub(super) fn group(&self, key: SectionKey) -> Option<&BlockGroup> {
        let mut all = self.sections.iter().flat_map(|section| std::iter::once(section).chain(section.groups()));
        all.find(|group| group.key == key.as_str())
    }
}

/// The key of a section, or of an answer, which is a group of one. Tickets name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum SectionKey {
    Head,
    Why,
    Do,
    Related,
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
    Tenants,
    Deployment,
    Versions,
    Open,
}

impl SectionKey {
    /// Returns the key as the anchor of a page.
    pub(super) fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Removes blocks without content, so that builders need not check for them.
pub(super) fn drop_empty(parts: &mut Vec<Block>) {
    parts.retain_mut(|part| match part {
        Block::Paragraph(text) | Block::Note(text) | Block::Gap(text) => !text.is_empty(),
        Block::Section(_, lines) | Block::Steps(_, lines) => !lines.is_empty(),
        Block::Document(DocumentBlock::Pairs(pairs)) => {
            pairs.retain(|(_, value)| !value.is_empty());
            !pairs.is_empty()
        }
        Block::Document(DocumentBlock::Table { rows, .. }) => !rows.is_empty(),
        Block::Document(DocumentBlock::Group(group)) => {
            drop_empty(&mut group.parts);
            !group.parts.is_empty()
        }
        Block::Document(DocumentBlock::Code(text)) => !text.is_empty(),
        Block::Document(DocumentBlock::Chain { links, .. }) => !links.is_empty(),
        Block::Document(DocumentBlock::Histogram { bars, .. }) => !bars.is_empty(),
        Block::Document(DocumentBlock::Chart { .. }) => true,
        Block::Beside(..) | Block::Buttons(_) => true,
    });
}
