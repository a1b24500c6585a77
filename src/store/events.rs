//! The history of incidents: one row per event.

use super::StoreError;
use super::connections::StoreConnection;

/// Adds an event to an incident's history; the time is in unix milliseconds.
pub(super) async fn record_event(
    db: &mut StoreConnection,
    id: &str,
    at_ms: i64,
    what: &str,
    detail: &str,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO events (incident_id, at_ms, what, detail) VALUES ($1, $2, $3, $4)")
        .bind(id)
        .bind(at_ms)
        .bind(what)
        .bind(detail)
        .execute(db)
        .await?;
    Ok(())
}
