//! Follow-ups: what is to be looked at again, and what an act changes of its incident.

use jiff::Timestamp;
use sqlx::Row;
use ulid::Ulid;

use super::deliveries::outdate;
use super::{Store, StoreError};
use crate::clock::unix_ms;

/// Something to look at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followup {
    /// Its own id.
    pub id: String,
    /// The incident.
    pub incident: String,
    /// What is to be done.
    pub kind: String,
    /// With what, as JSON.
    pub data: String,
}

impl Store {
    /// Looks again at each of `due`; what was planned of the same incident and kind before is dropped.
    ///
    /// # Errors
    /// When the store fails; here and below.
    pub async fn follow_up(&self, incident: &str, kind: &str, data: &str, due: &[Timestamp]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.engine.hold(&mut tx, &[incident]).await?;
        sqlx::query("DELETE FROM followups WHERE incident_id = $1 AND kind = $2")
            .bind(incident)
            .bind(kind)
            .execute(&mut *tx)
            .await?;
        for at in due {
            sqlx::query("INSERT INTO followups (id, incident_id, kind, data, due_ms) VALUES ($1, $2, $3, $4, $5)")
                .bind(Ulid::generate().to_string())
                .bind(incident)
                .bind(kind)
                .bind(data)
                .bind(unix_ms(*at))
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// What is due; put off by `lease_ms`, so that nobody takes it twice and a crash does not lose it.
    ///
    /// # Errors
    /// See [`Self::follow_up`].
    pub async fn take_followups(&self, now: Timestamp, lease_ms: i64, most: u32) -> Result<Vec<Followup>, StoreError> {
        let rows = sqlx::query(self.engine.sql(
            "WITH due AS (SELECT id FROM followups WHERE due_ms <= $1 ORDER BY due_ms LIMIT $3
                /*postgres FOR UPDATE SKIP LOCKED*/)
             UPDATE followups SET due_ms = $1 + $2, owner = $4 WHERE id IN (SELECT id FROM due)
             RETURNING id, incident_id, kind, data",
        ))
        .bind(unix_ms(now))
        .bind(lease_ms)
        .bind(i64::from(most))
        .bind(&*self.me)
        .fetch_all(&self.write)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Followup {
                    id: row.try_get("id")?,
                    incident: row.try_get("incident_id")?,
                    kind: row.try_get("kind")?,
                    data: row.try_get("data")?,
                })
            })
            .collect()
    }

    /// It was looked at, or is given up.
    ///
    /// # Errors
    /// See [`Self::follow_up`].
    pub async fn followed_up(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM followups WHERE id = $1").bind(id).execute(&self.write).await?;
        Ok(())
    }

    /// Somebody is on it; false when it is over, or they were already.
    ///
    /// # Errors
    /// See [`Self::follow_up`].
    pub async fn acknowledge(&self, incident: &str, who: &str, now: Timestamp) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE incidents SET acknowledged_by = $2, acknowledged_ms = $3
             WHERE id = $1 AND state = 'open' AND COALESCE(acknowledged_by, '') <> $2",
        )
        .bind(incident)
        .bind(who)
        .bind(unix_ms(now))
        .execute(&self.write)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// An open incident is diagnosed once more, now; false when it is over or no playbook matches it.
    ///
    /// # Errors
    /// See [`Self::follow_up`].
    pub async fn diagnose_now(&self, incident: &str, now: Timestamp) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE incidents SET diagnose_due_ms = $2, diagnose_tries = 0
             WHERE id = $1 AND state = 'open' AND playbook IS NOT NULL",
        )
        .bind(incident)
        .bind(unix_ms(now))
        .execute(&self.write)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Its message says something new.
    ///
    /// # Errors
    /// See [`Self::follow_up`].
    pub async fn touch(&self, incident: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let bump = "UPDATE incidents SET revision = revision + 1 WHERE id = $1";
        sqlx::query(bump).bind(incident).execute(&mut *tx).await?;
        outdate(&mut tx, incident).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Where an incident's message stands in Slack: channel and timestamp; the first when it stands in several.
    ///
    /// # Errors
    /// See [`Self::follow_up`].
    pub async fn place_of(&self, incident: &str) -> Result<Option<(String, String)>, StoreError> {
        let row = sqlx::query(
            "SELECT posted_to, posted_ts FROM deliveries
             WHERE incident_id = $1 AND sink = 'slack' AND posted_to IS NOT NULL AND posted_ts IS NOT NULL
             ORDER BY channel LIMIT 1",
        )
        .bind(incident)
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| Ok((row.try_get("posted_to")?, row.try_get("posted_ts")?))).transpose()
    }

    /// The incidents that a digest speaks for, oldest first.
    ///
    /// # Errors
    /// See [`Self::follow_up`].
    pub async fn incidents_of_digest(&self, digest: &str, most: u32) -> Result<Vec<String>, StoreError> {
        let ids = sqlx::query_scalar(
            "SELECT DISTINCT incident_id FROM deliveries WHERE digest_id = $1 ORDER BY incident_id LIMIT $2",
        );
        Ok(ids.bind(digest).bind(i64::from(most)).fetch_all(&self.read).await?)
    }
}
