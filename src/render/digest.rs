//! The message of a digest: many incidents of a storm in one.

use jiff::Timestamp;

use super::{Line, Message, Part, Tone, Words};

/// Incidents that are named; the others are counted.
const NAMED: usize = 15;

/// An incident of a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestEntry {
    /// Its id.
    pub id: String,
    /// What its own message would say first.
    pub headline: String,
    /// Whom it hits: cluster, namespace, model.
    pub whom: String,
    /// It is not over.
    pub open: bool,
    /// Something critical fires, or did.
    pub critical: bool,
    /// Its page.
    pub page: Option<String>,
}

/// What is known of a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestView<'a> {
    /// Its id.
    pub id: &'a str,
    /// What its incidents are about; `other` for what is too diverse.
    pub topic: &'a str,
    /// When the storm began to be collapsed.
    pub opened_at: Timestamp,
    /// Its incidents, oldest first.
    pub incidents: Vec<DigestEntry>,
}

/// The message of a digest.
pub fn digest_message(view: &DigestView<'_>, words: &Words) -> Message {
    let open = view.incidents.iter().filter(|entry| entry.open).count();
    let critical = view.incidents.iter().filter(|entry| entry.open && entry.critical).count();
    let tone = match (open, critical) {
        (0, _) => Tone::Good,
        (_, 0) => Tone::Warning,
        _ => Tone::Critical,
    };
    let topic = match view.topic {
        "other" => words.text("digest-other", &[]),
        topic => topic.to_owned(),
    };
    let key = if open == 0 { "digest-over" } else { "digest-headline" };
    let counts = [("count", view.incidents.len().into()), ("open", open.into()), ("topic", topic.into())];
    let mut worst: Vec<&DigestEntry> = view.incidents.iter().collect();
    worst.sort_by_key(|entry| (!entry.open, !entry.critical));
    let mut lines: Vec<Line> = worst.iter().take(NAMED).map(|entry| line(entry)).collect();
    if worst.len() > NAMED {
        lines.push(words.line("digest-more", &[("count", (worst.len() - NAMED).into())]));
    }
    let since = words.line("digest-why", &[("since", super::Span::Time(view.opened_at).into())]);
    let title = words.text("digest-incidents", &[]);
    let parts = vec![Part::Section(title, lines), Part::Note(since)];
    Message { tone, headline: words.text(key, &counts), parts }
}

fn line(entry: &DigestEntry) -> Line {
    let line = match &entry.page {
        Some(page) => Line::default().link(entry.headline.clone(), page.clone()),
        None => Line::default().plain(entry.headline.clone()),
    };
    if entry.whom.is_empty() { line } else { line.plain(" · ").plain(entry.whom.clone()) }
}
