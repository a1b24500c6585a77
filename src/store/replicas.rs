//! Replicas on one database: their liveness, and the release of leases of dead replicas.
//!
//! A lease names its owner. SQLite has one owner at a time; at the next start all its leases are released. On
//! PostgreSQL each replica writes a heartbeat, by the database's clock; without one for [`GONE_AFTER`] the replica
//! counts as dead and its work is due again. A lease without an owner, or of a replica that only seems alive, expires
//! by itself.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;

use super::database::DatabaseEngine;
use super::{Store, StoreError, unreadable};
use knowledge::clock::unix_ms;

/// The longest time between two heartbeats: three rounds of housekeeping, which come every five seconds.
const GONE_AFTER: Duration = Duration::from_secs(16);

/// SQL for the database's own time in milliseconds.
macro_rules! database_now {
    () => {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}
pub(super) use database_now;

/// Makes work of dead replicas due: first diagnoses, and messages. A message that pauses after an error has no owner.
const RELEASES: [&str; 7] = [
    "UPDATE incidents SET diagnose_due_ms = $1, owner = NULL
     WHERE diagnose_due_ms > $1 AND diagnosis IS NULL AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE deliveries SET due_ms = $1, owner = NULL
     WHERE state = 'pending' AND due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE posts SET due_ms = $1, owner = NULL
     WHERE state = 'pending' AND due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE digests SET due_ms = $1, owner = NULL
     WHERE state = 'pending' AND due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE weeklies SET due_ms = $1, owner = NULL
     WHERE state = 'pending' AND due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE followups SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE looks SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
];

impl Store {
    /// Writes this replica's heartbeat and releases the leases of dead replicas. Returns the number of live replicas.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn heartbeat(&self, now: Timestamp) -> Result<i64, StoreError> {
        if self.engine == DatabaseEngine::Sqlite {
            return Ok(1);
        }
        let mut tx = self.begin().await?;
        self.engine.hold(&mut tx, &["replicas"]).await?;
        sqlx::query(concat!(
            "INSERT INTO replicas (id, seen_ms) VALUES ($1, ",
            database_now!(),
            ") ON CONFLICT (id) DO UPDATE SET seen_ms = excluded.seen_ms"
        ))
        .bind(&*self.me)
        .execute(&mut *tx)
        .await?;
        let silent = i64::try_from(GONE_AFTER.as_millis()).unwrap_or(i64::MAX);
        sqlx::query(concat!("DELETE FROM replicas WHERE seen_ms < ", database_now!(), " - $1"))
            .bind(silent)
            .execute(&mut *tx)
            .await?;
        for release in RELEASES {
            sqlx::query(release).bind(unix_ms(now)).execute(&mut *tx).await?;
        }
        let alive = sqlx::query("SELECT COUNT(*) AS alive FROM replicas").fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(alive.try_get("alive")?)
    }

    /// Makes the interrupted work of ended processes due, and unreadable rows pending again; called at a start.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        unreadable::try_again(&mut tx, unix_ms(now)).await?;
        tx.commit().await?;
        if self.engine == DatabaseEngine::Postgres {
            return self.heartbeat(now).await.map(drop);
        }
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE incidents SET diagnose_due_ms = $1 WHERE diagnose_due_ms > $1 AND diagnosis IS NULL")
            .bind(unix_ms(now))
            .execute(&mut *tx)
            .await?;
        for release in [
            "UPDATE deliveries SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND (tries = 0 OR owner IS NOT NULL)",
            "UPDATE posts SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND (tries = 0 OR owner IS NOT NULL)",
            "UPDATE digests SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND (tries = 0 OR owner IS NOT NULL)",
            "UPDATE weeklies SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND (tries = 0 OR owner IS NOT NULL)",
            // In these tables only taken rows have an owner; the others are not due yet.
            "UPDATE followups SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner IS NOT NULL",
            "UPDATE looks SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner IS NOT NULL",
        ] {
            sqlx::query(release).bind(unix_ms(now)).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Removes this replica, so that the others can take its work at once.
    pub(super) async fn leave(&self) -> Result<(), StoreError> {
        if self.engine == DatabaseEngine::Postgres {
            sqlx::query("DELETE FROM replicas WHERE id = $1").bind(&*self.me).execute(&self.write).await?;
        }
        Ok(())
    }
}
