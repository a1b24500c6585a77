//! The alerts of an incident, written many at once.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;

use super::connections::StoreConnection;
use super::values::{packs, placeholders};
use super::{StoreError, nanoseconds};
use knowledge::alert::{Alert, AlertStatus};

/// Adds alerts to incidents, each with its id, or updates them. Of several with one episode the last counts.
pub(super) async fn write_alerts(db: &mut StoreConnection, incidents: &[(&str, &[Alert])]) -> Result<(), StoreError> {
    let alerts = incidents.iter().flat_map(|(id, alerts)| alerts.iter().map(move |alert| (*id, alert)));
    // PostgreSQL refuses a statement that writes one row twice.
    let by_episode: BTreeMap<_, _> = alerts.map(|(id, alert)| ((id, alert.episode()), alert)).collect();
    let rows = by_episode.into_iter().map(|((id, (fingerprint, start)), alert)| {
        let json = serde_json::to_string(alert).map_err(|error| StoreError::Unreadable {
            what: "alert",
            id: id.to_owned(),
            error: error.to_string(),
        })?;
        Ok((id, fingerprint, nanoseconds(start), status(alert.status), json))
    });
    let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
    for pack in packs(&rows) {
        let sql = format!(
            "INSERT INTO alerts (incident_id, fingerprint, starts_ns, status, alert) VALUES {}
             ON CONFLICT (incident_id, fingerprint, starts_ns) DO UPDATE SET status = excluded.status, alert = excluded.alert",
            placeholders(pack.len(), 5)
        );
        let mut insert = sqlx::query(AssertSqlSafe(sql));
        for (id, fingerprint, start, status, json) in pack {
            insert = insert.bind(*id).bind(fingerprint).bind(start).bind(*status).bind(json);
        }
        insert.execute(&mut *db).await?;
    }
    Ok(())
}

fn status(status: AlertStatus) -> &'static str {
    match status {
        AlertStatus::Firing => "firing",
        AlertStatus::Resolved => "resolved",
    }
}
