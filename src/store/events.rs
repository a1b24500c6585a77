//! The history of incidents: one row per event.

use sqlx::AssertSqlSafe;

use super::StoreError;
use super::connections::StoreConnection;
use super::values::{packs, placeholders};

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
    for pack in packs(events) {
        let rows = placeholders(pack.len(), 4);
        let sql = format!("INSERT INTO events (incident_id, at_ms, what, detail) VALUES {rows}");
        let insert = pack.iter().fold(sqlx::query(AssertSqlSafe(sql)), |insert, (id, what, detail)| {
            insert.bind(*id).bind(at_ms).bind(*what).bind(*detail)
        });
        insert.execute(&mut *db).await?;
    }
    Ok(())
}
