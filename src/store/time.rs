//! The store's time: by which clock rows are kept, and what happens when that clock is set.
//!
//! On PostgreSQL it is the database's clock, so that replicas whose machines disagree agree on whose lease has ended. On
//! SQLite it is the machine's. When the machine's clock is set, what waits is moved with it: no lease ends early, and
//! nothing waits longer than it should.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use sqlx::{Any, Executor};
use tracing::warn;

use super::database::Engine;
use super::replicas::database_now;
use super::{Store, StoreError};
use crate::clock::{self, STEP, Steady, from_unix_ms, unix_ms};

/// The clock of one handle to a store and of its clones.
#[derive(Debug)]
pub(super) struct Time {
    shows: Mutex<Steady>,
    /// Held while rows are moved, so that a step moves them once.
    moving: tokio::sync::Mutex<()>,
}

impl Time {
    /// It shows `shown` now.
    pub(super) fn new(shown: Timestamp) -> Self {
        Self { shows: Mutex::new(Steady::new(shown, Instant::now())), moving: tokio::sync::Mutex::new(()) }
    }

    fn with<T>(&self, what: impl FnOnce(&mut Steady) -> T) -> T {
        what(&mut self.shows.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a PostgreSQL's clock shows.
pub(super) async fn of_database(db: impl Executor<'_, Database = Any>) -> Result<Timestamp, sqlx::Error> {
    let shown = sqlx::query_scalar(concat!("SELECT ", database_now!())).fetch_one(db).await?;
    Ok(from_unix_ms(shown))
}

/// The longest that each kind of work may wait by intention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Longest {
    /// A diagnosis.
    pub diagnosis: Duration,
    /// A message, a digest, a post.
    pub delivery: Duration,
    /// A follow-up.
    pub followup: Duration,
    /// A look for a message that may stand twice.
    pub look: Duration,
}

/// What waits, and until when.
const WAITING: [&str; 6] = [
    "UPDATE incidents SET diagnose_due_ms = diagnose_due_ms + $1 WHERE diagnose_due_ms IS NOT NULL",
    "UPDATE deliveries SET due_ms = due_ms + $1 WHERE state = 'pending'",
    "UPDATE posts SET due_ms = due_ms + $1 WHERE state = 'pending'",
    "UPDATE digests SET due_ms = due_ms + $1 WHERE state = 'pending'",
    "UPDATE followups SET due_ms = due_ms + $1",
    "UPDATE looks SET due_ms = due_ms + $1",
];

/// What a clock wrote that was ahead.
const AHEAD: [&str; 9] = [
    "UPDATE incidents SET opened_ms = opened_ms + $1 WHERE opened_ms > $2",
    "UPDATE incidents SET notified_ms = notified_ms + $1 WHERE state = 'open' AND notified_ms > $2",
    "UPDATE incidents SET resolved_ms = resolved_ms + $1 WHERE state = 'resolved' AND resolved_ms > $2",
    "UPDATE digests SET opened_ms = opened_ms + $1 WHERE opened_ms > $2",
    "UPDATE digests SET joined_ms = joined_ms + $1 WHERE joined_ms > $2",
    "UPDATE deliveries SET began_ms = began_ms + $1 WHERE began_ms > $2",
    "UPDATE digests SET began_ms = began_ms + $1 WHERE began_ms > $2",
    "UPDATE posts SET began_ms = began_ms + $1 WHERE began_ms > $2",
    "UPDATE looks SET since_ms = since_ms + $1 WHERE since_ms > $2",
];

impl Store {
    /// The time by which rows are kept. When that clock is set, it goes on evenly until [`Self::keep_time`] is called.
    pub fn now(&self) -> Timestamp {
        self.time.with(|steady| steady.at(Instant::now()))
    }

    /// For how long this process has run until the moment `at` without that clock being set.
    pub fn steady_until(&self, at: Instant) -> Duration {
        self.time.with(|steady| steady.steady_for(at))
    }

    /// Reads the clock by which rows are kept; whoever takes work by a lease calls it first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keep_time(&self) -> Result<Timestamp, StoreError> {
        if self.engine == Engine::Sqlite {
            return self.follow(clock::now(), Instant::now()).await;
        }
        let asked = Instant::now();
        let shown = of_database(&self.read).await?;
        let took = asked.elapsed();
        // A late answer may be of any moment since the question.
        match took < Duration::from_millis(500) {
            true => self.follow(shown, asked + took / 2).await,
            false => Ok(self.now()),
        }
    }

    /// The clock by which rows are kept showed `shown` at the moment `at`. Returns what it shows now.
    ///
    /// # Errors
    /// When it was set and the database fails.
    pub async fn follow(&self, shown: Timestamp, at: Instant) -> Result<Timestamp, StoreError> {
        if self.time.with(|steady| steady.step(shown, at)).is_some() {
            let _one = self.time.moving.lock().await;
            // Another task may have seen it first.
            if let Some(step) = self.time.with(|steady| steady.step(shown, at)) {
                warn!(seconds = step.as_secs(), "the clock was set, or this machine was suspended");
                self.step(step, shown, at).await?;
            }
        }
        self.time.with(|steady| steady.follow(shown, at));
        Ok(self.now())
    }

    /// While rows are moved, all are due later than they should be, never earlier.
    async fn step(&self, step: SignedDuration, shown: Timestamp, at: Instant) -> Result<(), StoreError> {
        let back = step < -STEP;
        if back {
            self.time.with(|steady| steady.follow(shown, at));
        }
        // On PostgreSQL every replica would move them once more; what waits for too long is due by `hasten_late`.
        if self.engine == Engine::Postgres {
            return Ok(());
        }
        let step_ms = i64::try_from(step.as_millis()).unwrap_or_default();
        let mut tx = self.begin().await?;
        for moved in WAITING {
            sqlx::query(moved).bind(step_ms).execute(&mut *tx).await?;
        }
        for moved in AHEAD.iter().filter(|_| back) {
            sqlx::query(*moved).bind(step_ms).bind(unix_ms(shown)).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// What is due later than anything can be was written by a clock that was ahead: it is due now. Returns how much.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn hasten_late(&self, longest: &Longest, now: Timestamp) -> Result<u64, StoreError> {
        let Longest { diagnosis, delivery, followup, look } = *longest;
        let limits = [diagnosis, delivery, delivery, delivery, followup, look];
        let late = [
            "UPDATE incidents SET diagnose_due_ms = $1 WHERE diagnose_due_ms > $2",
            "UPDATE deliveries SET due_ms = $1 WHERE state = 'pending' AND due_ms > $2",
            "UPDATE posts SET due_ms = $1 WHERE state = 'pending' AND due_ms > $2",
            "UPDATE digests SET due_ms = $1 WHERE state = 'pending' AND due_ms > $2",
            "UPDATE followups SET due_ms = $1 WHERE due_ms > $2",
            "UPDATE looks SET due_ms = $1 WHERE due_ms > $2",
        ];
        let mut hastened = 0;
        for (late, limit) in late.into_iter().zip(limits) {
            let limit = unix_ms(clock::after(now, limit));
            let done = sqlx::query(late).bind(unix_ms(now)).bind(limit).execute(&self.write).await?;
            hastened += done.rows_affected();
        }
        Ok(hastened)
    }
}
