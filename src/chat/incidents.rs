//! Incidents by what people type: a whole id or a part of it, a thread, the newest.

use super::command::{OfIncident, Which};
use super::wording::{command_button, sentence, with};
use knowledge::incident::{SHORT_ID, short_id};
use message::{Block, Line, Message, TextSpan, Tone};
use notify::Notifier;
use render::Phrases;
use slack::RequestPlace;
use store::{Incident, Store, StoreError};

/// The number of recent incidents that can be selected by a part of their id.
const KNOWN: u32 = 2_000;

/// Finds the selected incident: by id, by the thread, else the newest open one, else the newest.
pub(super) async fn find(
    store: &Store,
    words: &Phrases,
    place: &RequestPlace,
    of: &OfIncident,
) -> Result<Incident, Message> {
    let lost = |error: StoreError| {
        tracing::error!(%error, "cannot read an incident for an answer");
        sentence(Tone::Unknown, words.line("incident-unreadable", &[]))
    };
    let id = match (&of.incident, &place.thread) {
        (Some(named), _) => match named_id(store, named).await.map_err(lost)?.as_slice() {
            [one] => Some(one.clone()),
            [] => None,
            several => {
                let buttons =
                    several.iter().take(4).enumerate().map(|(i, id)| command_button(i, id, &format!("status {id}")));
                let line = words.line("incident-several", &[("id", Line::default().code(named.as_str()).into())]);
                return Err(with(sentence(Tone::Unknown, line), Block::Buttons(buttons.collect())));
            }
        },
        (None, Some(thread)) => match store.incident_at(&place.channel, thread).await.map_err(lost)? {
            Some(id) => Some(id),
            None => newest(store).await.map_err(lost)?,
        },
        (None, None) => newest(store).await.map_err(lost)?,
    };
    let incident = match &id {
        Some(id) => store.incident(id).await.map_err(lost)?,
        None => None,
    };
    incident.ok_or_else(|| {
        let line = match &of.incident {
            Some(named) => words.line("incident-unknown", &[("id", Line::default().code(named.as_str()).into())]),
            None => words.line("incidents-none", &[]),
        };
        with(
            sentence(Tone::Unknown, line),
            Block::Buttons(vec![command_button(0, "incidents today", "incidents today")]),
        )
    })
}

async fn newest(store: &Store) -> Result<Option<String>, StoreError> {
    match store.incidents(true, None, 1).await?.pop() {
        Some(id) => Ok(Some(id)),
        None => Ok(store.incidents(false, None, 1).await?.pop()),
    }
}

/// Returns the recent ids that equal, begin or end with `named`.
pub async fn named_id(store: &Store, named: &str) -> Result<Vec<String>, StoreError> {
    let named = named.trim_start_matches('#').to_uppercase();
    if named.len() < SHORT_ID || !named.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(Vec::new());
    }
    let mut ids = store.recent(KNOWN).await?;
    if ids.contains(&named) {
        return Ok(vec![named]);
    }
    ids.retain(|id| id.ends_with(&named) || id.starts_with(&named));
    Ok(ids)
}

/// Returns the incidents of a list, newest first.
pub async fn listed(
    store: &Store,
    which: Which,
    since: Option<jiff::Timestamp>,
    most: u32,
) -> Result<Vec<Incident>, StoreError> {
    store.each(&store.incidents(which == Which::Open, since, most).await?).await
}

/// Formats an incident in one line: headline, start and short id, with a link to its page if there is one.
pub(super) async fn line(notifier: &Notifier, incident: &Incident) -> Line {
    let headline = notifier.message(incident).await.headline;
    let headline = match notifier.view(incident).page {
        Some(page) => Line::default().link(headline, page),
        None => Line::default().plain(headline),
    };
    let since = notifier.words.line("incident-since", &[("at", TextSpan::Time(incident.started_at).into())]);
    headline.plain(" · ").then(since).plain(" · ").code(short_id(&incident.id))
}
