//! The alerts of an incident, written many at once.

use std::collections::BTreeMap;

use super::connections::StoreConnection;
use super::errors::unreadable;
use super::values::write_rows;
use super::{StoreError, nanoseconds};
use knowledge::alert::{Alert, AlertStatus};

/// Adds alerts to incidents, each with its id, or updates them. Of several with one episode the last counts.
pub(super) async fn write_alerts(db: &mut StoreConnection, incidents: &[(&str, &[Alert])]) -> Result<(), StoreError> {
    let alerts = incidents.iter().flat_map(|(id, alerts)| alerts.iter().map(move |alert| (*id, alert)));
    // PostgreSQL refuses a statement that writes one row twice.
    let by_episode: BTreeMap<_, _> = alerts.map(|(id, alert)| ((id, alert.episode()), alert)).collect();
    let rows = by_episode.into_iter().map(|((id, (fingerprint, start)), alert)| {
        let json = serde_json::to_string(alert).map_err(|e| unreadable("alert", id, &e))?;
        Ok((id, fingerprint, nanoseconds(start), status(alert.status), json))
    });
    let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
    // Without WHERE, SQLite reads ON as the condition of a join.
    write_rows(
        db,
        "INSERT INTO alerts (incident_id, fingerprint, starts_ns, status, alert)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM {rows} WHERE TRUE
         ON CONFLICT (incident_id, fingerprint, starts_ns) DO UPDATE SET status = excluded.status, alert = excluded.alert",
        &rows,
    )
    .await
}

fn status(status: AlertStatus) -> &'static str {
    match status {
        AlertStatus::Firing => "firing",
        AlertStatus::Resolved => "resolved",
    }
}
