//! The weekly summary of each channel: its due time and its contents.
//!
//! Housekeeping writes a row for each channel and week; the deliver loop posts it once (`notify/weekly.rs`). The store is
//! read when it is posted, so that a late one is right too.

use jiff::Timestamp;

use knowledge::clock;
use knowledge::incident::WEEK;
use knowledge::playbook::Library;
use report::weekly::{CAUSES, WeeklySummary, causes, read, summarise};
use store::{Store, StoreError, Weekly};

/// Maximum number of diagnoses that are read, of incidents whose cause is not known otherwise.
const DIAGNOSES: usize = 200;

/// Writes the summaries of these channels' week that ended at or before `now`, unless they are known. Returns the number
/// of those that are due now.
///
/// # Errors
/// When the store fails.
pub async fn schedule(
    store: &Store,
    channels: impl Iterator<Item = &str>,
    [since, until]: [Timestamp; 2],
    now: Timestamp,
) -> Result<u64, StoreError> {
    // It comes every few seconds, and mostly there is nothing to write.
    let known = store.newest_weeklies().await?;
    let mut due = 0;
    for channel in channels.filter(|channel| known.get(*channel).is_none_or(|newest| *newest < until)) {
        due += u64::from(store.schedule_weekly(&Weekly::new(channel, since, until), now).await?);
    }
    Ok(due)
}

/// Returns the start of the week that ends at a time.
pub fn week_before(until: Timestamp) -> Timestamp {
    clock::before(until, WEEK)
}

/// Summarises a channel's week from the store; with secrets.
///
/// # Errors
/// When the store fails.
pub async fn summary(store: &Store, library: &Library, weekly: &Weekly) -> Result<WeeklySummary, StoreError> {
    let Weekly { channel, since, until, .. } = weekly;
    let mut week = store.week(channel, *since, *until).await?;
    let mut gaps = Vec::new();
    for incident in week.incidents.iter_mut().filter(|incident| incident.cause.is_none()).take(DIAGNOSES) {
        let Some((source, diagnosis)) = store.diagnosis_of(&incident.id).await? else { continue };
        let reading = read(&source, &diagnosis);
        incident.cause = reading.cause;
        gaps.push((incident.id.clone(), reading.missing));
    }
    let mut history = Vec::new();
    for (cause, incidents) in causes(&week).into_iter().take(CAUSES) {
        let over: Vec<&str> = incidents.iter().filter(|i| !i.open).map(|i| i.id.as_str()).collect();
        history.push(store.cause_history(cause, &over, *since).await?);
    }
    let title = |id: &str| library.node_by_id(id).map_or_else(|| id.to_owned(), |(node, _)| node.title.to_owned());
    Ok(summarise(channel, [*since, *until], &week, &gaps, &history, title))
}
