//! Replicas on one database: their liveness, and the release of leases of dead replicas.
//!
//! A lease names its owner. SQLite has one owner at a time; at the next start all its leases are released. On
//! PostgreSQL each replica writes a heartbeat, by the database's clock; without one for [`GONE_AFTER`] the replica
//! counts as dead and its work is due again. A lease without an owner, or of a replica that only seems alive, expires
//! by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::Row;

use super::connections::ConnectionPool;
use super::database::DatabaseEngine;
use super::work_queue::WORK;
use super::{Store, StoreError, unreadable};
use knowledge::clock::unix_ms;

/// The time without a heartbeat after which a replica counts as dead: heartbeats come every two seconds.
const GONE_AFTER: Duration = Duration::from_secs(9);

/// The time between two heartbeats from which one was missed.
const GAP: Duration = Duration::from_secs(5);

/// SQL for the database's own time in milliseconds.
macro_rules! database_now {
    () => {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}
pub(super) use database_now;

/// Makes the work of dead replicas in a table due at `$1`. Rows that another transaction holds are left to the next
/// heartbeat, so that none waits for them.
const RELEASE: &str = "
    UPDATE {table} SET {due} = $1, owner = NULL WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM {table} WHERE {due} > $1 AND {interrupted} AND owner NOT IN (SELECT id FROM replicas)
      FOR UPDATE SKIP LOCKED))";

/// The result of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// The number of live replicas, this one included.
    pub alive: i64,
    /// The number of pieces of work of dead replicas that are due again.
    pub released: u64,
}

/// The heartbeats of this replica, on a connection of their own, so that they wait for no other work.
#[derive(Debug, Clone)]
pub(super) struct Heartbeats {
    pool: ConnectionPool,
    rhythm: Arc<Mutex<Rhythm>>,
}

impl Heartbeats {
    pub(super) fn new(pool: ConnectionPool) -> Self {
        Self { pool, rhythm: Arc::default() }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Records a heartbeat; returns true if the silence of others means that they are dead.
    fn record(&self, now: Instant) -> bool {
        self.rhythm.lock().unwrap_or_else(PoisonError::into_inner).record(now)
    }
}

/// The last heartbeat, and the one since which they came without a gap.
#[derive(Debug, Default)]
struct Rhythm {
    of: Option<(Instant, Instant)>,
}

impl Rhythm {
    /// Returns true if heartbeats have come for [`GONE_AFTER`] without a gap. Before, the database may have been away for all,
    /// and others had no time yet to be heard again.
    fn record(&mut self, now: Instant) -> bool {
        let since = self.of.filter(|(_, last)| now.duration_since(*last) < GAP).map_or(now, |(since, _)| since);
        self.of = Some((since, now));
        now.duration_since(since) >= GONE_AFTER
    }
}

impl Store {
    /// Writes this replica's heartbeat, then releases the leases of dead replicas. Each statement is committed by itself:
    /// what a failure leaves is released by the next heartbeat.
    pub async fn heartbeat(&self, now: Timestamp) -> Result<Heartbeat, StoreError> {
        let Some(heartbeats) = &self.heartbeats else {
            return Ok(Heartbeat { alive: 1, released: 0 });
        };
        let pool = &heartbeats.pool;
        sqlx::query(concat!(
            "INSERT INTO replicas (id, seen_ms) VALUES ($1, ",
            database_now!(),
            ") ON CONFLICT (id) DO UPDATE SET seen_ms = excluded.seen_ms"
        ))
        .bind(&*self.me)
        .execute(pool)
        .await?;
        let silent = i64::try_from(GONE_AFTER.as_millis()).unwrap_or(i64::MAX);
        let mut released = 0;
        let is_steady = heartbeats.record(Instant::now());
        if is_steady {
            sqlx::query(concat!(
                "DELETE FROM replicas WHERE id IN (SELECT id FROM replicas WHERE seen_ms < ",
                database_now!(),
                " - $1 FOR UPDATE SKIP LOCKED)"
            ))
            .bind(silent)
            .execute(pool)
            .await?;
        }
        for table in WORK {
            released += sqlx::query(table.sql(RELEASE)).bind(unix_ms(now)).execute(pool).await?.rows_affected();
        }
        let alive =
            sqlx::query(concat!("SELECT COUNT(*) AS alive FROM replicas WHERE seen_ms >= ", database_now!(), " - $1"))
                // After an outage others had no time yet to be heard again: all count.
                .bind(if is_steady { silent } else { i64::MAX })
                .fetch_one(pool)
                .await?;
        Ok(Heartbeat { alive: alive.try_get("alive")?, released })
    }

    /// Makes the interrupted work of ended processes due, and unreadable rows pending again; called at a start. On
    /// PostgreSQL only the work of replicas that have left; that of killed ones follows with later heartbeats.
    pub async fn release(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        unreadable::try_again(&mut tx, unix_ms(now)).await?;
        tx.commit().await?;
        if self.engine == DatabaseEngine::Postgres {
            return self.heartbeat(now).await.map(drop);
        }
        let mut tx = self.begin().await?;
        for table in WORK {
            let release = table.sql("UPDATE {table} SET {due} = $1, owner = NULL WHERE {due} > $1 AND {interrupted}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_gap_of_its_own_a_replica_declares_nobody_dead_until_the_others_had_time_to_be_heard() {
        let start = Instant::now();
        let mut rhythm = Rhythm::default();
        let mut judges = |seconds: u64| rhythm.record(start + Duration::from_secs(seconds));
        assert!(!judges(0) && !judges(2) && !judges(4) && !judges(8) && judges(10) && judges(12));
        // Away for eight seconds, and again for half a minute.
        assert!(!judges(20) && !judges(24) && !judges(28) && judges(29));
        assert!(!judges(60) && !judges(64) && !judges(68) && judges(70));
    }
}
