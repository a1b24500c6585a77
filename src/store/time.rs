//! The store's time: the clock for timestamps in rows, and the handling of clock steps.
//!
//! On PostgreSQL it is the database's clock, so that replicas with different clocks agree on the end of a lease. On
//! SQLite it is the machine's clock. When that clock is set, due times are moved with it: no lease ends early, and
//! nothing waits longer than intended.

use std::iter::repeat;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use sqlx::{Any, Executor};
use tracing::warn;

use super::database::DatabaseEngine;
use super::replicas::database_now;
use super::work_queue::WORK;
use super::{Store, StoreError};
use knowledge::clock::{self, MonotonicClock, STEP, from_unix_ms, unix_ms};

/// The clock of a store's handle and its clones.
#[derive(Debug)]
pub(super) struct Time {
    clock: Mutex<MonotonicClock>,
    /// Held while rows are moved, so that a clock step moves them only once.
    moving: tokio::sync::Mutex<()>,
}

impl Time {
    /// Creates a clock that shows `reading` now.
    pub(super) fn new(reading: Timestamp) -> Self {
        Self { clock: Mutex::new(MonotonicClock::new(reading, Instant::now())), moving: tokio::sync::Mutex::new(()) }
    }

    fn with<T>(&self, action: impl FnOnce(&mut MonotonicClock) -> T) -> T {
        action(&mut self.clock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The part of a store's time that the next handle of this process continues.
#[derive(Debug, Clone, Copy)]
pub struct StoreClock {
    clock: MonotonicClock,
    /// The end of the last outage.
    recovered: Option<Instant>,
}

/// Reads the clock of a PostgreSQL.
pub(super) async fn of_database(db: impl Executor<'_, Database = Any>) -> Result<Timestamp, sqlx::Error> {
    let reading = sqlx::query_scalar(concat!("SELECT ", database_now!())).fetch_one(db).await?;
    Ok(from_unix_ms(reading))
}

/// The longest intended waiting time of each kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestWaits {
    /// A diagnosis.
    pub diagnosis: Duration,
    /// A message, a digest, a post, a weekly summary.
    pub delivery: Duration,
    /// A follow-up.
    pub followup: Duration,
    /// A duplicate check.
    pub duplicate_check: Duration,
}

/// Moves timestamps later than `$2`, written by a clock that was ahead.
const AHEAD: &[&str] = &[
    "UPDATE incidents SET opened_ms = opened_ms + $1 WHERE opened_ms > $2",
    "UPDATE incidents SET notified_ms = notified_ms + $1 WHERE state = 'open' AND notified_ms > $2",
    "UPDATE incidents SET resolved_ms = resolved_ms + $1 WHERE state = 'resolved' AND resolved_ms > $2",
    "UPDATE digests SET opened_ms = opened_ms + $1 WHERE opened_ms > $2",
    "UPDATE digests SET joined_ms = joined_ms + $1 WHERE joined_ms > $2",
    "UPDATE deliveries SET began_ms = began_ms + $1 WHERE began_ms > $2",
    "UPDATE digests SET began_ms = began_ms + $1 WHERE began_ms > $2",
    "UPDATE posts SET began_ms = began_ms + $1 WHERE began_ms > $2",
    "UPDATE weeklies SET began_ms = began_ms + $1 WHERE began_ms > $2",
    "UPDATE looks SET since_ms = since_ms + $1 WHERE since_ms > $2",
];

impl Store {
    /// Returns the clock, for [`Self::continue_clock`].
    pub fn clock(&self) -> StoreClock {
        StoreClock { clock: self.time.with(|steady| *steady), recovered: self.durable.recovered() }
    }

    /// Continues the clock of an earlier handle of this process, with its time without a clock step or an outage. A step
    /// meanwhile is found by the next [`Self::keep_time`].
    pub fn continue_clock(&self, earlier: StoreClock) {
        self.time.with(|steady| *steady = earlier.clock);
        self.durable.set_recovered(earlier.recovered);
    }

    /// Returns the store's time. After a clock step it continues evenly until [`Self::keep_time`] is called.
    pub fn now(&self) -> Timestamp {
        self.time.with(|steady| steady.at(Instant::now()))
    }

    /// Returns the time until `at` in which this process has run without a clock step.
    pub fn steady_until(&self, at: Instant) -> Duration {
        self.time.with(|steady| steady.steady_for(at))
    }

    /// Returns the time until `at` in which webhooks could be stored: without a clock step or an outage of the store.
    /// Silence counts only in this time.
    pub fn receiving_until(&self, at: Instant) -> Duration {
        let since_outage = self.durable.recovered().map(|end| at.saturating_duration_since(end));
        self.steady_until(at).min(since_outage.unwrap_or(Duration::MAX))
    }

    /// Reads the store's clock and handles a clock step; called before work is taken by a lease.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keep_time(&self) -> Result<Timestamp, StoreError> {
        if self.engine == DatabaseEngine::Sqlite {
            return self.follow(clock::now(), Instant::now()).await;
        }
        let sent_at = Instant::now();
        let reading = of_database(&self.read).await?;
        let took = sent_at.elapsed();
        // The time in a slow answer may be of any moment since the query.
        match took < Duration::from_millis(500) {
            true => self.follow(reading, sent_at + took / 2).await,
            false => Ok(self.now()),
        }
    }

    /// Processes a reading of the store's clock: `reading` at the moment `at`. Returns the time now.
    ///
    /// # Errors
    /// When the clock was set and the database fails.
    pub async fn follow(&self, reading: Timestamp, at: Instant) -> Result<Timestamp, StoreError> {
        if self.time.with(|steady| steady.step(reading, at)).is_some() {
            let _guard = self.time.moving.lock().await;
            // Another task may have handled the step first.
            if let Some(step) = self.time.with(|steady| steady.step(reading, at)) {
                warn!(seconds = step.as_secs(), "the clock was set, or this machine was suspended");
                self.step(step, reading, at).await?;
            }
        }
        self.time.with(|steady| steady.follow(reading, at));
        Ok(self.now())
    }

    /// Moves rows after a clock step. Meanwhile work is due too late, never too early.
    async fn step(&self, step: SignedDuration, reading: Timestamp, at: Instant) -> Result<(), StoreError> {
        let went_back = step < -STEP;
        if went_back {
            self.time.with(|steady| steady.follow(reading, at));
        }
        // On PostgreSQL every replica would move the rows again; `reschedule_far_future` handles work that waits for
        // too long instead.
        if self.engine == DatabaseEngine::Postgres {
            return Ok(());
        }
        let step_ms = i64::try_from(step.as_millis()).unwrap_or_default();
        let mut tx = self.begin().await?;
        for table in WORK {
            let moved = table.sql("UPDATE {table} SET {due} = {due} + $1 WHERE {wait}");
            sqlx::query(moved).bind(step_ms).execute(&mut *tx).await?;
        }
        for moved in AHEAD.iter().filter(|_| went_back) {
            sqlx::query(*moved).bind(step_ms).bind(unix_ms(reading)).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Makes work due that is scheduled later than possible, because it was written by a clock that was ahead. Returns
    /// the number of rows.
    pub async fn reschedule_far_future(&self, longest: &LongestWaits, now: Timestamp) -> Result<u64, StoreError> {
        let LongestWaits { diagnosis, delivery, followup, duplicate_check } = *longest;
        let limits = [diagnosis, followup, duplicate_check].into_iter().chain(repeat(delivery));
        let mut hastened = 0;
        for (table, limit) in WORK.iter().zip(limits) {
            let late = table.sql("UPDATE {table} SET {due} = $1 WHERE {due} > $2 AND {wait}");
            let limit = unix_ms(clock::after(now, limit));
            let update = sqlx::query(late).bind(unix_ms(now)).bind(limit).execute(&self.write).await?;
            hastened += update.rows_affected();
        }
        Ok(hastened)
    }
}
