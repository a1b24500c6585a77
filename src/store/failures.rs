//! Failures of the store: the regular check, what is done while the disk is full, and recovery.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Error;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::connections::ConnectionPool;
use super::database::DatabaseEngine;
use super::errors::{self, StoreFailure};
use super::transaction::Tx;
use super::{Store, StoreError};

/// Interval between two checks of the store, also without load.
const TRY: Duration = Duration::from_secs(5);
/// The statements of a check that writes nothing.
const TRY_ANEW: &str = "BEGIN; DELETE FROM events WHERE incident_id = ''; COMMIT";
/// Size of the test write after the disk was full: about the size of a group with many alerts.
const NEEDED_BYTES: usize = 64 << 10;

/// The time since which a restart may help against a failing PostgreSQL, and the reason.
#[derive(Debug, Clone, Default)]
pub(super) struct RestartHelps(Arc<Mutex<Option<(Instant, &'static str)>>>);

impl RestartHelps {
    fn get(&self) -> Option<(Instant, &'static str)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, reason: Option<&'static str>) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since = reason.map(|reason| (since.map_or_else(Instant::now, |(since, _)| since), reason));
    }
}

/// Returns the reason why a restart may help, judged by the result of a new connection; `None` if it does not help.
fn helps_because(anew: Result<(), Error>) -> Option<&'static str> {
    match anew {
        Ok(()) => Some("a new connection works, ours do not"),
        Err(error) if errors::is_login(&error) => Some("a restart reads the address and its password again"),
        Err(_) => None,
    }
}

/// Deletes data that is less important than alerts; returns true if that freed space.
type GiveWay = Box<dyn Fn() -> bool + Send + Sync>;

/// The measures while the disk is full.
#[derive(Clone, Default)]
pub(super) struct WhenFull {
    give_way: Arc<OnceLock<GiveWay>>,
    /// Leases of edits that cannot be stored as taken, with their ends.
    lent: Arc<Mutex<HashMap<String, Instant>>>,
}

impl fmt::Debug for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhenFull").finish_non_exhaustive()
    }
}

impl WhenFull {
    /// Frees space; returns false if there is nothing left to delete.
    pub(super) fn give_way(&self) -> bool {
        self.give_way.get().is_some_and(|give_way| give_way())
    }

    /// Grants a lease in memory; returns false if it is held already. SQLite has only one writing process, so memory
    /// suffices.
    pub(super) fn lend(&self, edit: String, lease: Duration) -> bool {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        lent.retain(|_, until| *until > now);
        let free = !lent.contains_key(&edit);
        if free {
            lent.insert(edit, now + lease);
        }
        free
    }
}

impl Store {
    /// Sets the function that frees space on a full disk before alerts are refused; it returns true if it freed some.
    pub fn when_full(&self, give_way: impl Fn() -> bool + Send + Sync + 'static) {
        // A second call in one process changes nothing: all bundles are in one directory.
        let _ = self.full.give_way.set(Box::new(give_way));
    }

    /// Returns the longest current failure; `None` if everything works.
    pub fn trouble(&self) -> Option<StoreFailure> {
        let pools = [&self.durable, &self.write, &self.read];
        pools.into_iter().filter_map(ConnectionPool::trouble).min_by_key(|trouble| trouble.since)
    }

    /// Returns the reason why this process should be restarted; `None` if there is none. The store must have failed for
    /// longer than `after`, and a restart must be able to help. It does not help against a full disk, nor against a
    /// PostgreSQL that also fails on a new connection, and would interrupt reads and message edits, which may still
    /// work.
    pub fn dead(&self, after: Duration) -> Option<String> {
        let trouble = self.trouble().filter(|trouble| !trouble.is_full && trouble.since.elapsed() > after)?;
        let failed = format!("the store has failed for {} s: {}", trouble.since.elapsed().as_secs(), trouble.error);
        match self.engine {
            DatabaseEngine::Sqlite => Some(failed),
            DatabaseEngine::Postgres => {
                let (since, reason) = self.restart_helps.get()?;
                (since.elapsed() > after).then(|| format!("{failed}; {reason}"))
            }
        }
    }

    /// Checks that the store can be written, over the connection of webhooks.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.try_write(&self.durable).await
    }

    /// Returns true if something was written over that connection within the last `within`, without a failure since.
    pub fn worked(&self, within: Duration) -> bool {
        self.durable.trouble().is_none() && self.durable.since_worked() < within
    }

    async fn try_write(&self, pool: &ConnectionPool) -> Result<(), StoreError> {
        let mut tx = Tx::begin(pool, self.engine.begin()).await?;
        if pool.trouble().is_some_and(|trouble| trouble.is_full) {
            // A transaction that writes nothing succeeds on a full disk too.
            sqlx::query("INSERT INTO events (incident_id, at_ms, what, detail) VALUES ('', 0, 'ping', $1)")
                .bind("0".repeat(NEEDED_BYTES))
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query("DELETE FROM events WHERE incident_id = ''").execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Checks all connection pools once: broken connections are replaced before an alert needs them, and a recovered
    /// store is noticed. If a PostgreSQL fails, a new connection shows whether only our connections are broken.
    ///
    /// # Errors
    /// When a check fails.
    pub async fn check(&self) -> Result<(), StoreError> {
        if self.engine == DatabaseEngine::Sqlite && self.trouble().is_some_and(|trouble| trouble.is_full) {
            self.full.give_way();
        }
        let result = self.try_all().await;
        let mut reason = None;
        if result.is_err() && self.engine == DatabaseEngine::Postgres {
            let anew = self.durable.try_anew(TRY_ANEW).await;
            if anew.is_ok() {
                for pool in [&self.durable, &self.write, &self.read] {
                    pool.discard();
                }
            }
            reason = helps_because(anew);
        }
        self.restart_helps.set(reason);
        result
    }

    async fn try_all(&self) -> Result<(), StoreError> {
        self.try_write(&self.durable).await?;
        self.try_write(&self.write).await?;
        sqlx::query("SELECT 1").execute(&self.read).await?;
        Ok(())
    }

    /// Checks the store every [`TRY`] until stopped.
    pub async fn watch(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TRY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failing = false;
        let checks = async {
            loop {
                tick.tick().await;
                match self.check().await {
                    Ok(()) if failing => info!("the store works again"),
                    Ok(()) => {}
                    Err(error) if failing => warn!(%error, "the store still fails"),
                    Err(error) => {
                        error!(%error, "the store fails; while it cannot be written, alerts are refused with 503")
                    }
                }
                failing = self.trouble().is_some();
            }
        };
        let _: Option<()> = stop.run_until_cancelled(checks).await;
    }
}
