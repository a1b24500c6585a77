//! The diagnoses of incidents: which are due, and what they have found.

use jiff::Timestamp;
use sqlx::Row;

use super::connections::StoreConnection;
use super::deliveries::outdate;
use super::errors::unreadable;
use super::events::record_event;
use super::incidents::Incident;
use super::related::record_traits;
use super::values::BindValues;
use super::{Store, StoreError};
use findings::Diagnosis;
use knowledge::clock::unix_ms;
use knowledge::incident::Impact;

/// The head start of an incident's first diagnosis, in milliseconds: under load it is made before repeated ones that became
/// due less than this before it.
const FIRST_BEFORE_MS: i64 = 60_000;

/// An incident whose diagnosis is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The incident.
    pub id: String,
    /// Number of consecutive failures so far.
    pub tries: u32,
}

impl Store {
    /// Takes incidents whose diagnosis is due by a lease of `lease_ms`, so that only one replica takes each; first those that
    /// have none yet.
    pub async fn take_diagnoses(&self, now: Timestamp, lease_ms: i64, most: u32) -> Result<Vec<Due>, StoreError> {
        let rows = sqlx::query(self.engine.sql(
            "WITH due AS (SELECT id FROM incidents WHERE diagnose_due_ms <= $1
                          ORDER BY diagnose_due_ms - CASE WHEN diagnosis IS NULL THEN $5 ELSE 0 END LIMIT $3
                          /*postgres FOR UPDATE SKIP LOCKED*/)
             UPDATE incidents SET diagnose_due_ms = $1 + $2, owner = $4 WHERE id IN (SELECT id FROM due)
             RETURNING id, diagnose_tries",
        ))
        .binds((unix_ms(now), lease_ms, i64::from(most), &*self.me, FIRST_BEFORE_MS))
        .fetch_all(&self.write)
        .await?;
        Ok(self.unreadable.read_all("incident", &rows, |row| {
            let tries: i64 = row.try_get("diagnose_tries")?;
            Ok(Due { id: row.try_get("id")?, tries: u32::try_from(tries).unwrap_or(u32::MAX) })
        }))
    }

    /// Stores a diagnosis and the due time of the next one. `incident.revision` is the diagnosed revision: if the group
    /// changed meanwhile, another diagnosis is due at once. `says_more` is true if the message changes.
    pub async fn save_diagnosis(
        &self,
        incident: &Incident,
        diagnosis: Option<&Diagnosis>,
        says_more: bool,
        next: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let json =
            diagnosis.map(serde_json::to_string).transpose().map_err(|e| unreadable("diagnosis", &incident.id, &e))?;
        let failed = diagnosis.is_none_or(|d| d.degraded);
        let mut tx = self.begin().await?;
        let stored = sqlx::query(
            "UPDATE incidents SET diagnosis = COALESCE($2, diagnosis), revision = revision + $3,
               diagnose_tries = CASE WHEN $4 THEN diagnose_tries + 1 ELSE 0 END,
               diagnose_due_ms = CASE WHEN revision > $5 THEN $6 WHEN state = 'open' THEN $7 ELSE NULL END
             WHERE id = $1",
        )
        .binds((&incident.id, json, i64::from(says_more), failed, incident.revision, unix_ms(now), next.map(unix_ms)))
        .execute(&mut *tx)
        .await?;
        if let Some(diagnosis) = diagnosis.filter(|_| stored.rows_affected() > 0) {
            record_traits(&mut tx, incident, diagnosis).await?;
        }
        if says_more {
            outdate(&mut tx, &incident.id).await?;
            hasten(&mut tx, &incident.id, now).await?;
        }
        let root = diagnosis.and_then(Diagnosis::root).map_or("none", |cause| cause.id.as_str());
        record_event(&mut tx, &incident.id, unix_ms(now), "diagnosed", root).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Stores a diagnosis without onsets, so that Slack shows it at once; sinks without edits wait for
    /// [`Self::save_diagnosis`]. Returns false without changes if the group changed meanwhile.
    pub async fn show_diagnosis(
        &self,
        incident: &Incident,
        diagnosis: &Diagnosis,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let json = serde_json::to_string(diagnosis).map_err(|e| unreadable("diagnosis", &incident.id, &e))?;
        let mut tx = self.begin().await?;
        let keep = "UPDATE incidents SET diagnosis = $2, revision = revision + 1 WHERE id = $1 AND revision = $3";
        let stored = sqlx::query(keep).bind(&incident.id).bind(json).bind(incident.revision).execute(&mut *tx).await?;
        let stored = stored.rows_affected() > 0;
        if stored {
            record_traits(&mut tx, incident, diagnosis).await?;
            sqlx::query(
                "UPDATE deliveries SET due_ms = $2 WHERE incident_id = $1 AND sink = 'slack' AND tries = 0
                   AND state = 'pending' AND due_ms > $2 AND due_ms < $2 + 5000",
            )
            .binds((&incident.id, unix_ms(now)))
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(stored)
    }

    /// Stores the impact of an incident, unless it fires again. With `None` the last message is sent without it.
    pub async fn save_impact(&self, id: &str, impact: Option<&Impact>, now: Timestamp) -> Result<(), StoreError> {
        let json = impact.map(serde_json::to_string).transpose().map_err(|e| unreadable("impact", id, &e))?;
        let mut tx = self.begin().await?;
        if let Some(json) = json {
            sqlx::query(
                "UPDATE incidents SET impact = $2, revision = revision + 1 WHERE id = $1 AND state = 'resolved'",
            )
            .binds((id, json))
            .execute(&mut *tx)
            .await?;
            outdate(&mut tx, id).await?;
        }
        hasten(&mut tx, id, now).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Makes a new diagnosis of an open incident due. Returns false if it is over, or its alerts select no playbook and
    /// name no pool.
    pub async fn diagnose_now(&self, incident: &str, now: Timestamp) -> Result<bool, StoreError> {
        let update = sqlx::query(
            "UPDATE incidents SET diagnose_due_ms = $2, diagnose_tries = 0
             WHERE id = $1 AND state = 'open' AND playbook IS NOT NULL",
        )
        .binds((incident, unix_ms(now)))
        .execute(&self.write)
        .await?;
        Ok(update.rows_affected() > 0)
    }
}

/// Makes a message due that waited for the data just stored; a message in backoff after an error keeps waiting.
async fn hasten(db: &mut StoreConnection, id: &str, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE deliveries SET due_ms = $2 WHERE incident_id = $1 AND tries = 0 AND state = 'pending'
           AND due_ms > $2 AND due_ms < $2 + 5000",
    )
    .binds((id, unix_ms(now)))
    .execute(db)
    .await?;
    Ok(())
}
