//! Lists of incidents for users: with pagination, newest first, without the details of an incident's own page.

use std::collections::BTreeMap;

use sqlx::Row;

use super::incidents::{of_incident, select_incidents};
use super::{Incident, Store, StoreError};

/// Maximum number of alerts per incident in a list: a group may have thousands.
const ALERTS: i64 = 20;

impl Store {
    /// Returns incidents with this state (`open`, `resolved`, or any if empty), older than the id `before` unless it is
    /// empty; newest first, with at most [`ALERTS`] alerts each, and without notes.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn listed(&self, state: &str, before: &str, most: u32) -> Result<Vec<Incident>, StoreError> {
        let (mut incidents, mut before) = (Vec::new(), before.to_owned());
        // Unreadable incidents are skipped and replaced by older ones: a short list means that there are no more.
        loop {
            let missing = (most as usize).saturating_sub(incidents.len());
            // Ids begin with their time, so sorting by id sorts by time.
            let rows = sqlx::query(select_incidents!(
                "($1 = '' OR state = $1) AND ($2 = '' OR id < $2) ORDER BY id DESC LIMIT $3"
            ))
            .bind(state)
            .bind(&before)
            .bind(i64::try_from(missing).unwrap_or(i64::MAX))
            .fetch_all(&self.read)
            .await?;
            incidents.extend(self.unreadable.read_all("incident", &rows, |row| self.read_incident(row)));
            match rows.last().map(|row| row.try_get("id")) {
                Some(Ok(last)) if rows.len() == missing && incidents.len() < most as usize => before = last,
                _ => break,
            }
        }
        let (Some(first), Some(last)) = (incidents.first(), incidents.last()) else { return Ok(incidents) };
        let rows = sqlx::query(
            "SELECT incident_id, status, alert FROM
               (SELECT a.incident_id, a.status, a.alert, a.starts_ns,
                  ROW_NUMBER() OVER (PARTITION BY a.incident_id ORDER BY a.starts_ns, a.fingerprint) AS nth
                FROM alerts a JOIN incidents i ON i.id = a.incident_id
                WHERE a.incident_id >= $1 AND a.incident_id <= $2 AND ($3 = '' OR i.state = $3)) AS numbered
             WHERE nth <= $4 ORDER BY incident_id, nth",
        )
        .bind(&last.id)
        .bind(&first.id)
        .bind(state)
        .bind(ALERTS)
        .fetch_all(&self.read)
        .await?;
        let mut alerts: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (id, alert) in self.unreadable.read_all("alert", &rows, of_incident) {
            alerts.entry(id).or_default().push(alert);
        }
        for incident in &mut incidents {
            incident.alerts = alerts.remove(&incident.id).unwrap_or_default();
        }
        Ok(incidents)
    }

    /// Returns the number of open incidents and of all stored ones.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn counts(&self) -> Result<(u64, u64), StoreError> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM incidents WHERE state = 'open') AS open, (SELECT COUNT(*) FROM incidents) AS kept",
        );
        let row = row.fetch_one(&self.read).await?;
        let count = |name| Ok::<_, sqlx::Error>(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or_default());
        Ok((count("open")?, count("kept")?))
    }
}
