//! The history of incidents: one row per event.

use sqlx::AssertSqlSafe;

use super::StoreError;
use super::connections::StoreConnection;
use super::values::placeholders;

/// Adds an event to an incident's history; the time is in unix milliseconds.
pub(super) async fn record_event(
    db: &mut StoreConnection,
    id: &str,
    at_ms: i64,
    what: &str,
    detail: &str,
) -> Result<(), StoreError> {
    record_events(db, id, at_ms, &[(what, detail)]).await
}

/// Adds the events of one moment, each its kind and its detail.
pub(super) async fn record_events(
    db: &mut StoreConnection,
    id: &str,
    at_ms: i64,
    events: &[(&str, &str)],
) -> Result<(), StoreError> {
    let sql = format!("INSERT INTO events (incident_id, at_ms, what, detail) VALUES {}", placeholders(events.len(), 4));
    let insert = sqlx::query(AssertSqlSafe(sql));
    let insert =
        events.iter().fold(insert, |insert, (what, detail)| insert.bind(id).bind(at_ms).bind(*what).bind(*detail));
    insert.execute(db).await?;
    Ok(())
}
