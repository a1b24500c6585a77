//! Follow-ups: scheduled checks of an incident.

use jiff::Timestamp;
use sqlx::Row;

use super::ids::new_id;
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::unix_ms;

/// A scheduled check of an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followup {
    /// The id of the follow-up.
    pub id: String,
    /// The incident.
    pub incident: String,
    /// The kind of check.
    pub kind: String,
    /// Its parameters, as JSON.
    pub data: String,
}

impl Store {
    /// Schedules a check at each time of `due`; replaces earlier ones of the same incident and kind.
    pub async fn follow_up(&self, incident: &str, kind: &str, data: &str, due: &[Timestamp]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.engine.hold(&mut tx, &[incident]).await?;
        sqlx::query("DELETE FROM followups WHERE incident_id = $1 AND kind = $2")
            .binds((incident, kind))
            .execute(&mut *tx)
            .await?;
        for at in due {
            sqlx::query("INSERT INTO followups (id, incident_id, kind, data, due_ms) VALUES ($1, $2, $3, $4, $5)")
                .binds((new_id(), incident, kind, data, unix_ms(*at)))
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Takes due follow-ups by a lease of `lease_ms`, so that only one replica takes each and a crash does not lose it.
    pub async fn take_followups(&self, now: Timestamp, lease_ms: i64, most: u32) -> Result<Vec<Followup>, StoreError> {
        let rows = sqlx::query(self.engine.sql(
            "WITH due AS (SELECT id FROM followups WHERE due_ms <= $1 ORDER BY due_ms LIMIT $3
                /*postgres FOR UPDATE SKIP LOCKED*/)
             UPDATE followups SET due_ms = $1 + $2, owner = $4 WHERE id IN (SELECT id FROM due)
             RETURNING id, incident_id, kind, data",
        ))
        .binds((unix_ms(now), lease_ms, i64::from(most), &*self.me))
        .fetch_all(&self.write)
        .await?;
        Ok(self.unreadable.read_all("follow-up", &rows, |row| {
            Ok(Followup {
                id: row.try_get("id")?,
                incident: row.try_get("incident_id")?,
                kind: row.try_get("kind")?,
                data: row.try_get("data")?,
            })
        }))
    }

    /// Deletes a follow-up that is done or given up.
    pub async fn followed_up(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM followups WHERE id = $1").bind(id).execute(&self.write).await?;
        Ok(())
    }
}
