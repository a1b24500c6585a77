//! The history of incidents: one row per event.

use super::StoreError;
use super::connections::StoreConnection;
use super::values::write_rows;

/// Adds an event to an incident's history; the time is in unix milliseconds.
pub(super) async fn record_event(
    db: &mut StoreConnection,
    id: &str,
    at_ms: i64,
    what: &str,
    detail: &str,
) -> Result<(), StoreError> {
    record_events(db, at_ms, &[(id, what, detail)]).await
}

/// An event: the incident's id, the kind and the detail.
pub(super) type Event<'a> = (&'a str, &'a str, &'a str);

/// Adds the events of one moment.
pub(super) async fn record_events(
    db: &mut StoreConnection,
    at_ms: i64,
    events: &[Event<'_>],
) -> Result<(), StoreError> {
    let rows: Vec<_> = events.iter().map(|(id, what, detail)| (id, at_ms, what, detail)).collect();
    write_rows(
        db,
        "INSERT INTO events (incident_id, at_ms, what, detail)
         SELECT value ->> 0, CAST(value ->> 1 AS BIGINT), value ->> 2, value ->> 3 FROM {rows}",
        &rows,
    )
    .await
}
