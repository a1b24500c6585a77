//! [`Report`] ─▶ [`Document`]: the page of an incident, `report.md`, and the tickets.
//!
//! The first sections are for a person who did not follow the incident: symptom, affected pool, start, cause, steps,
//! confidence, and who acknowledged it. The others follow in the order of usual questions.

mod answers;
mod evidence;
mod head;
mod sections;
mod tenants;
mod why;

use super::document::{Document, SectionKey};
use super::page::PageActs;
use super::{IncidentView, Phrases, headline};
use knowledge::alert::AlertStatus;
use message::{Block, BlockGroup, DocumentBlock, Folding, Line};
use report::Report;

/// The medium of a report, and its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    /// A page, on which details fold.
    Page,
    /// `report.md` of a bundle.
    Text,
    /// A ticket, for readers outside of the organisation.
    Ticket,
}

/// The content of the page besides the report.
#[derive(Debug, Clone, Default)]
pub struct ReportPageContext<'a> {
    /// The title of each chart, and its `<svg>` from [`chart::svg`].
    pub pictures: &'a [(String, String)],
    /// The name of the phrase that says why there is no chart; `None` if none is needed.
    pub no_picture: Option<&'static str>,
    /// The name of the phrase that says why there are no numbers beyond the diagnosis.
    pub no_numbers: Option<&'static str>,
    /// Links to further pages: label and URL.
    pub actions: &'a [(String, String)],
    /// Existing bundles: label and URL.
    pub bundles: &'a [(String, String)],
    /// Tickets: receiver and text.
    pub tickets: &'a [(String, String)],
    /// Pages with tickets: receiver and URL.
    pub ticket_pages: &'a [(String, String)],
    /// The acts of the visitor.
    pub acts: Option<&'a PageActs<'a>>,
    /// True for a page of the service; false for a file.
    pub live: bool,
}

/// Builds the document of a report; empty sections are left out.
pub(super) fn document(report: &Report, around: &ReportPageContext<'_>, medium: Medium, words: &Phrases) -> Document {
    let diagnosis = report.diagnosis.as_ref();
    let view = view(report, around.live);
    // What decides at three in the morning stands open, in the order in which it is asked; on a page the rest folds.
    use Folding::{Closed, Never};
    let replicas = if sections::affects_some(report) { Never } else { Closed };
    let sections = [
        (SectionKey::Head, "report-summary", Never, head::summary(report, &view, around, medium, words)),
        (SectionKey::Why, "why", Never, diagnosis.map(|d| why::why(report, d, words)).unwrap_or_default()),
        (SectionKey::Do, "report-fixes", Never, diagnosis.map(|d| why::steps(d, words)).unwrap_or_default()),
        (SectionKey::Related, "report-related", Never, sections::related(&view, medium, words)),
        (SectionKey::Picture, "report-picture", Never, sections::pictures(around, words)),
        (SectionKey::Timeline, "report-timeline", Never, sections::timeline(report, medium, words)),
        (SectionKey::Answers, "report-answers", Never, answers::answers(report, around, medium, words)),
        (SectionKey::Logs, "report-logs", Closed, sections::logs(report, medium, words)),
        (SectionKey::Topology, "page-replicas", replicas, sections::topology(report, words)),
        (SectionKey::Alerts, "alerts", Closed, sections::alerts(report, words)),
        (SectionKey::Rules, "report-rules", Closed, sections::rules(report, words)),
        (
            SectionKey::Evidence,
            "report-evidence",
            Closed,
            diagnosis.map(|d| evidence::checked(d, words)).unwrap_or_default(),
        ),
        (SectionKey::Not, "ruled-out", Closed, diagnosis.map(|d| evidence::ruled_out(d, words)).unwrap_or_default()),
        (
            SectionKey::Unchecked,
            "unchecked",
            Closed,
            diagnosis.map(|d| evidence::unchecked(d, words)).unwrap_or_default(),
        ),
        (SectionKey::Parts, "report-parts", Closed, sections::parts(report, words)),
        (SectionKey::Redacted, "report-redacted", Closed, sections::redacted(report, words)),
        (SectionKey::Tickets, "report-tickets", Closed, sections::tickets(around, words)),
        (SectionKey::Bundles, "report-bundles", Never, sections::bundles(report, around, words)),
    ];
    let section = |(key, title, folding, parts): (SectionKey, &str, Folding, Vec<Block>)| {
        let title = words.line(title, &[]);
        let folding = if medium == Medium::Page { folding } else { Never };
        BlockGroup { key: key.as_str().to_owned(), title, folding, parts }
    };
    let title = headline::symptom_or_alert_name(&view);
    let document = Document {
        headline: report.headline.clone(),
        above: head::above(report, &view, words),
        title: if title.is_empty() { report.headline.clone() } else { title },
        sections: sections.into_iter().map(section).collect(),
        foot: foot(report, around.live, words),
    };
    document.without_empty_parts()
}

/// Builds the view of the incident from the data of the report.
fn view(report: &Report, live: bool) -> IncidentView<'_> {
    let base = IncidentView { alerts: &report.alerts, diagnosis: report.diagnosis.as_ref(), ..IncidentView::default() };
    let Some(incident) = &report.incident else {
        let first = report.alerts.iter().map(|alert| alert.starts_at).min();
        let last = report.alerts.iter().map(|alert| alert.ends_at).max();
        let over = report.alerts.iter().all(|alert| alert.status == AlertStatus::Resolved);
        return IncidentView {
            resolved_at: last.filter(|_| over),
            started_at: first.unwrap_or(report.window.from),
            ..base
        };
    };
    IncidentView {
        id: &incident.id,
        truncated: incident.truncated,
        resolved_at: incident.resolved_at.filter(|_| !incident.open),
        started_at: incident.started_at,
        because: incident.because.as_deref(),
        refired: incident.refired,
        seen_before: incident.seen_before,
        related: Some(&incident.related),
        page: live.then(|| format!("/incidents/{}", incident.id)),
        ..base
    }
}

/// Returns the origin of the report; on a live page only the parts that do not change by themselves.
fn foot(report: &Report, live: bool, words: &Phrases) -> Vec<Line> {
    let diagnosed = report.diagnosis.as_ref().map(|d| plain(super::full_diagnosis::foot(d, words)));
    let made = (!live).then(|| {
        let pieces = [
            ("at", Line::default().moment(report.made_at).into()),
            ("version", report.version.as_str().into()),
            ("from", Line::default().moment(report.window.from).into()),
            ("to", Line::default().moment(report.window.to).into()),
        ];
        words.line("report-made", &pieces)
    });
    diagnosed.into_iter().chain(made).collect()
}

fn plain(text: impl Into<String>) -> Line {
    Line::default().plain(text)
}

fn code(text: impl Into<String>) -> Line {
    Line::default().code(text)
}

/// Builds a paragraph; an empty one is left out.
fn paragraph(line: impl Into<Option<Line>>) -> Block {
    Block::Paragraph(line.into().unwrap_or_default())
}

fn list(lines: impl IntoIterator<Item = Line>) -> Block {
    Block::Section(String::new(), lines.into_iter().collect())
}

fn pairs(pairs: impl IntoIterator<Item = (Line, Line)>) -> Block {
    Block::Document(DocumentBlock::Pairs(pairs.into_iter().collect()))
}

/// Builds text as it is; an empty one is left out.
fn code_block(text: impl Into<String>) -> Block {
    Block::Document(DocumentBlock::Code(text.into()))
}

fn group(key: impl Into<String>, title: Line, folding: Folding, parts: Vec<Block>) -> Block {
    Block::Document(DocumentBlock::Group(BlockGroup { key: key.into(), title, folding, parts }))
}

/// Builds a table; its name, which is its key, and the heads of its columns are phrases.
fn table(name: &str, heads: &[&str], rows: impl Iterator<Item = Vec<Line>>, words: &Phrases) -> Block {
    table_block(name, heads, rows.collect(), true, words)
}

/// Builds a table that a page shows as a whole, however long it is.
fn unfolded_table(name: &str, heads: &[&str], rows: impl Iterator<Item = Vec<Line>>, words: &Phrases) -> Block {
    table_block(name, heads, rows.collect(), false, words)
}

fn table_block(name: &str, heads: &[&str], rows: Vec<Vec<Line>>, folds: bool, words: &Phrases) -> Block {
    let heads = heads.iter().map(|key| words.text(key, &[])).collect();
    Block::Document(DocumentBlock::Table { key: name.to_owned(), name: words.text(name, &[]), folds, heads, rows })
}

/// Says how many items of a list are left out.
fn left_out(all: usize, most: usize, words: &Phrases) -> Block {
    let more = all.saturating_sub(most);
    Block::Note(if more > 0 { words.line("and-others", &[("n", more.into())]) } else { Line::default() })
}
