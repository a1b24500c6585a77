//! Replicas of ours on one database: who is alive, and what becomes of the work of one that is not.
//!
//! A lease names its owner. SQLite has one owner at a time; what an earlier one left is free at the next start. On
//! PostgreSQL everybody reports now and then, by the database's clock; whoever has not for [`GONE_AFTER`] is gone, and what
//! it held is due again. A lease without an owner, or of one that only seems to live, runs out by itself.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;

use super::database::Engine;
use super::{Store, StoreError, unreadable};
use crate::clock::unix_ms;

/// How long a replica may be silent: three reports of housekeeping, which come every five seconds.
const GONE_AFTER: Duration = Duration::from_secs(16);

/// The database's own milliseconds.
macro_rules! database_now {
    () => {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}
pub(super) use database_now;

/// What nobody who lives works on is due at once: first looks, and messages that no error holds back.
const RELEASES: [&str; 6] = [
    "UPDATE incidents SET diagnose_due_ms = $1, owner = NULL
     WHERE diagnose_due_ms > $1 AND diagnosis IS NULL AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE deliveries SET due_ms = $1, owner = NULL
     WHERE state = 'pending' AND due_ms > $1 AND tries = 0 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE posts SET due_ms = $1, owner = NULL
     WHERE state = 'pending' AND due_ms > $1 AND tries = 0 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE digests SET due_ms = $1, owner = NULL
     WHERE state = 'pending' AND due_ms > $1 AND tries = 0 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE followups SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
    "UPDATE looks SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner NOT IN (SELECT id FROM replicas)",
];

impl Store {
    /// Reports that we live, and makes due again what the replicas held that do not. Says how many of us there are.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn report(&self, now: Timestamp) -> Result<i64, StoreError> {
        if self.engine == Engine::Sqlite {
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

    /// At a start: what was being worked on by one who is gone is due again at once.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        unreadable::try_again(&mut tx, unix_ms(now)).await?;
        tx.commit().await?;
        if self.engine == Engine::Postgres {
            return self.report(now).await.map(drop);
        }
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE incidents SET diagnose_due_ms = $1 WHERE diagnose_due_ms > $1 AND diagnosis IS NULL")
            .bind(unix_ms(now))
            .execute(&mut *tx)
            .await?;
        for release in [
            "UPDATE deliveries SET due_ms = $1 WHERE due_ms > $1 AND tries = 0",
            "UPDATE posts SET due_ms = $1 WHERE due_ms > $1 AND tries = 0",
            "UPDATE digests SET due_ms = $1 WHERE due_ms > $1 AND tries = 0",
            // Of those only what was taken has an owner; the others' time has not come.
            "UPDATE followups SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner IS NOT NULL",
            "UPDATE looks SET due_ms = $1, owner = NULL WHERE due_ms > $1 AND owner IS NOT NULL",
        ] {
            sqlx::query(release).bind(unix_ms(now)).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Lets the others have at once what we held.
    pub(super) async fn leave(&self) -> Result<(), StoreError> {
        if self.engine == Engine::Postgres {
            sqlx::query("DELETE FROM replicas WHERE id = $1").bind(&*self.me).execute(&self.write).await?;
        }
        Ok(())
    }
}
