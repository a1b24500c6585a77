//! The digest of an alert storm: one message for many incidents, one line per cause and pool.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::buttons::button;
use super::facts::join_non_empty;
use super::headline::{is_critical, is_warning, pool_labels, symptom_or_alert_name};
use super::{IncidentView, Phrases};
use findings::scope::pool_name;
use knowledge::alert::Labels;
use knowledge::clip::clip;
use knowledge::incident::{Act, VARIOUS};
use message::{Block, Line, Message, TextSpan, Tone};

/// Maximum number of lines before "and N more".
const LINES: usize = 15;

/// The data of a digest's message.
#[derive(Debug, Clone, PartialEq)]
pub struct DigestView {
    /// The digest's id.
    pub id: String,
    /// The symptom and the pool; [`VARIOUS`] if they differ.
    pub topic: String,
    /// Start time of the storm.
    pub opened_at: Timestamp,
    /// The incidents of the storm.
    pub incidents: Vec<DigestEntry>,
    /// Number of further incidents that cannot be read from the store.
    pub unreadable: usize,
    /// True if button clicks are received.
    pub interactive: bool,
}

/// One incident of a digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestEntry {
    /// The incident's id.
    pub id: String,
    /// The symptom, else the alert's name.
    pub what: String,
    /// The title of the root cause; `None` until it is known.
    pub cause: Option<String>,
    /// The labels of the affected pool.
    pub pool: Labels,
    /// True if the incident is still firing.
    pub open: bool,
    /// True if one of its alerts is critical.
    pub critical: bool,
    /// True if one of its alerts is a warning.
    pub warning: bool,
    /// Start time of the incident.
    pub since: Timestamp,
    /// The URL of its page.
    pub page: Option<String>,
}

impl DigestEntry {
    /// Builds the entry of an incident.
    pub fn of(view: &IncidentView<'_>) -> Self {
        Self {
            id: view.id.to_owned(),
            what: symptom_or_alert_name(view),
            cause: view.diagnosis.and_then(|d| d.root()).map(|root| root.title.clone()),
            pool: pool_labels(view),
            open: view.resolved_at.is_none(),
            critical: is_critical(view),
            warning: is_warning(view),
            since: view.started_at,
            page: view.page.clone(),
        }
    }

    /// Returns the name of the affected pool; empty if it has none.
    pub fn pool_name(&self) -> String {
        clip(&pool_name(&self.pool), 80)
    }
}

/// The counts of the incidents with the same symptom, cause and pool.
struct Group<'a> {
    firing: usize,
    critical: usize,
    resolved: usize,
    since: Timestamp,
    one: &'a DigestEntry,
}

/// Builds the message of a digest.
pub fn digest_message(view: &DigestView, words: &Phrases) -> Message {
    let mut groups: BTreeMap<(&str, Option<&str>, String), Group<'_>> = BTreeMap::new();
    for entry in &view.incidents {
        let key = (entry.what.as_str(), entry.cause.as_deref(), entry.pool_name());
        let group =
            groups.entry(key).or_insert(Group { firing: 0, critical: 0, resolved: 0, since: entry.since, one: entry });
        group.firing += usize::from(entry.open);
        group.critical += usize::from(entry.open && entry.critical);
        group.resolved += usize::from(!entry.open);
        group.since = group.since.min(entry.since);
    }
    let sum = |of: fn(&Group<'_>) -> usize| groups.values().map(of).sum::<usize>();
    let (firing, critical, resolved) = (sum(|g| g.firing), sum(|g| g.critical), sum(|g| g.resolved));
    let mut worst: Vec<&Group<'_>> = groups.values().collect();
    worst.sort_by_key(|g| (std::cmp::Reverse((g.critical, g.firing, g.resolved)), g.since));
    let mut lines: Vec<Line> = worst.iter().take(LINES).map(|group| line(group, words)).collect();
    if worst.len() > LINES {
        let incidents: usize = worst.iter().skip(LINES).map(|g| g.firing + g.resolved).sum();
        let n = ("n", (worst.len() - LINES).into());
        lines.push(words.line("digest-more", &[n, ("incidents", incidents.into())]));
    }
    if view.unreadable > 0 {
        lines.push(words.line("digest-unreadable", &[("n", view.unreadable.into())]));
    }
    let mut parts = vec![Block::Section(words.text("digest-title", &[]), lines)];
    let times = view.incidents.iter().map(|entry| entry.since);
    if let (Some(oldest), Some(newest)) = (times.clone().min(), times.max()) {
        let times = [("oldest", TextSpan::Time(oldest).into()), ("newest", TextSpan::Time(newest).into())];
        parts.push(Block::Note(words.line("digest-times", &times)));
    }
    if view.interactive {
        let label = words.text("button-digest", &[]);
        parts.push(Block::Buttons(vec![button(Act::Digest.as_str(), label, &view.id)]));
    }
    let (tone, state) = match (firing, critical) {
        (0, _) => (Tone::Good, "digest-over"),
        (_, 0) if view.incidents.iter().any(|entry| entry.open && entry.warning) => (Tone::Warning, "state-warning"),
        (_, 0) => (Tone::Firing, "state-firing"),
        _ => (Tone::Critical, "state-critical"),
    };
    let topic = match view.topic.as_str() {
        VARIOUS | "" => words.text("digest-various", &[]),
        topic => clip(topic, 120),
    };
    let counts = [("firing", firing.into()), ("critical", critical.into()), ("resolved", resolved.into())];
    let total = words.text("digest-storm", &[("n", (view.incidents.len() + view.unreadable).into())]);
    let cause = common_cause(&view.incidents, words).unwrap_or_default();
    let headline = join_non_empty(&[words.text(state, &[]), total, topic, cause, words.text("digest-counts", &counts)]);
    Message { tone, headline, parts }
}

/// Names the cause of most incidents; `None` if no cause was found for more than half of them. Incidents that still fire
/// count alone, unless all are over.
fn common_cause(incidents: &[DigestEntry], words: &Phrases) -> Option<String> {
    let fires = incidents.iter().any(|entry| entry.open);
    let counted: Vec<&DigestEntry> = incidents.iter().filter(|entry| entry.open == fires).collect();
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    counted.iter().filter_map(|entry| entry.cause.as_deref()).for_each(|cause| *causes.entry(cause).or_default() += 1);
    let (cause, n) = causes.into_iter().max_by_key(|(_, n)| *n).filter(|(_, n)| 2 * n > counted.len())?;
    let cause = ("cause", clip(cause, 80).into());
    Some(match n == counted.len() {
        true => words.text("digest-cause", &[cause]),
        false => words.text("digest-cause-most", &[cause, ("n", n.into()), ("all", counted.len().into())]),
    })
}

fn line(group: &Group<'_>, words: &Phrases) -> Line {
    let one = group.one;
    let title = match &one.cause {
        Some(cause) => format!("{} ← {}", clip(&one.what, 80), clip(cause, 80)),
        None => clip(&one.what, 120),
    };
    let title = match (&one.page, group.firing + group.resolved) {
        (Some(page), 1) => TextSpan::Link(title, page.clone()),
        _ => TextSpan::Bold(title),
    };
    let mut line = Line(vec![title]);
    let pool = one.pool_name();
    if !pool.is_empty() {
        line = line.plain(format!(" · {pool}"));
    }
    let counts = [
        ("line", line.into()),
        ("firing", group.firing.into()),
        ("critical", group.critical.into()),
        ("resolved", group.resolved.into()),
        ("since", TextSpan::Time(group.since).into()),
    ];
    words.line("digest-line", &counts)
}
