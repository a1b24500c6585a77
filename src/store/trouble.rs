//! Trouble: since when the store fails, whether it is for want of room, and what is done about it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Error;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::connections::{Pool, Tx};
use super::database::Engine;
use super::{Store, StoreError};

/// How often the store is tried, also when nobody needs it.
const TRY: Duration = Duration::from_secs(5);
/// The statements of a try that writes nothing.
const TRY_ANEW: &str = "BEGIN; DELETE FROM events WHERE incident_id = ''; COMMIT";
/// What a try writes once there was no room: about what a group with many alerts needs.
const NEEDED_BYTES: usize = 64 << 10;

/// The store fails.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// When it began to.
    pub since: Instant,
    /// The last error was that there is no room.
    pub is_full: bool,
    /// The last error.
    pub error: String,
}

impl Trouble {
    /// One more failure after what has failed before.
    pub(super) fn after(before: Option<Self>, error: &Error) -> Self {
        let since = before.map_or_else(Instant::now, |before| before.since);
        Self { since, is_full: is_full(error) || is_server_full(error), error: error.to_string() }
    }
}

/// Whether the database has no room to write. SQLite says FULL for a full disk, and IOERR_WRITE for a quota or a limit on a
/// file's size (<https://www.sqlite.org/rescode.html>).
pub(super) fn is_full(error: &Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("13" | "778"))
}

/// Whether PostgreSQL's disk is full (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn is_server_full(error: &Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).as_deref() == Some("53100")
}

/// Whether a single row is to blame: the database answers, and what it holds there is nothing that we can read.
pub(super) fn is_about_a_row(error: &Error) -> bool {
    matches!(error, Error::ColumnDecode { .. } | Error::Decode(_) | Error::AnyDriverError(_))
}

/// Since when a restart may help against a PostgreSQL that fails, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct RestartHelps(Arc<Mutex<Option<(Instant, &'static str)>>>);

impl RestartHelps {
    fn get(&self) -> Option<(Instant, &'static str)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, what: Option<&'static str>) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since = what.map(|what| (since.map_or_else(Instant::now, |(since, _)| since), what));
    }
}

/// Why a restart may help, by how the same work went on a new connection.
fn helps_because(anew: Result<(), Error>) -> Option<&'static str> {
    match anew {
        Ok(()) => Some("a new connection works, ours do not"),
        Err(error) if is_login(&error) => Some("a restart reads the address and its password again"),
        Err(_) => None,
    }
}

/// Whether PostgreSQL refuses the user or the password: class 28
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn is_login(error: &Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code.starts_with("28"))
}

/// Gives up what is less important than alerts; returns whether that made room.
type GiveWay = Box<dyn Fn() -> bool + Send + Sync>;

/// What is done while the disk is full.
#[derive(Clone, Default)]
pub(super) struct WhenFull {
    give_way: Arc<OnceLock<GiveWay>>,
    /// Until when an edit is lent that cannot be written down as taken.
    lent: Arc<Mutex<HashMap<String, Instant>>>,
}

impl fmt::Debug for WhenFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhenFull").finish_non_exhaustive()
    }
}

impl WhenFull {
    /// Makes room; false when there is nothing left to give up.
    pub(super) fn give_way(&self) -> bool {
        self.give_way.get().is_some_and(|give_way| give_way())
    }

    /// Lends this once within `lease`. SQLite has one process that writes, so its memory suffices.
    pub(super) fn lend(&self, what: String, lease: Duration) -> bool {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        lent.retain(|_, until| *until > now);
        let free = !lent.contains_key(&what);
        if free {
            lent.insert(what, now + lease);
        }
        free
    }
}

impl Store {
    /// What is given up when the disk is full, before alerts are refused; it returns whether it gave up anything.
    pub fn when_full(&self, give_way: impl Fn() -> bool + Send + Sync + 'static) {
        // A second one in one process changes nothing: there is one shelf.
        let _ = self.full.give_way.set(Box::new(give_way));
    }

    /// What fails, with the longest first; none while everything works.
    pub fn trouble(&self) -> Option<Trouble> {
        let pools = [&self.durable, &self.write, &self.read];
        pools.into_iter().filter_map(Pool::trouble).min_by_key(|trouble| trouble.since)
    }

    /// Why this process should be restarted: the store has failed for longer than `after`, and a restart may help. It does
    /// not help against a full disk, nor against a PostgreSQL that fails on a new connection too, and would end what goes on
    /// meanwhile: reading, and editing messages.
    pub fn dead(&self, after: Duration) -> Option<String> {
        let trouble = self.trouble().filter(|trouble| !trouble.is_full && trouble.since.elapsed() > after)?;
        let failed = format!("the store has failed for {} s: {}", trouble.since.elapsed().as_secs(), trouble.error);
        match self.engine {
            Engine::Sqlite => Some(failed),
            Engine::Postgres => {
                let (since, what) = self.restart_helps.get()?;
                (since.elapsed() > after).then(|| format!("{failed}; {what}"))
            }
        }
    }

    /// Whether it can be written, over the connection that webhooks use.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.try_write(&self.durable).await
    }

    /// Whether something was written over that connection within the last `within`, and nothing failed since.
    pub fn worked(&self, within: Duration) -> bool {
        self.durable.trouble().is_none() && self.durable.since_worked() < within
    }

    async fn try_write(&self, pool: &Pool) -> Result<(), StoreError> {
        let mut tx: Tx = pool.begin(self.engine.begin()).await?;
        if pool.trouble().is_some_and(|trouble| trouble.is_full) {
            // What writes nothing succeeds on a full disk.
            sqlx::query("INSERT INTO events (incident_id, at_ms, what, detail) VALUES ('', 0, 'ping', $1)")
                .bind("0".repeat(NEEDED_BYTES))
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query("DELETE FROM events WHERE incident_id = ''").execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Tries everything that the service needs of the store once: dead connections are replaced before an alert needs
    /// them, and a store that works again is known to. Where a PostgreSQL fails, a new connection shows whether only ours are broken.
    ///
    /// # Errors
    /// When something fails.
    pub async fn check(&self) -> Result<(), StoreError> {
        if self.engine == Engine::Sqlite && self.trouble().is_some_and(|trouble| trouble.is_full) {
            self.full.give_way();
        }
        let result = self.try_all().await;
        let mut why = None;
        if result.is_err() && self.engine == Engine::Postgres {
            let anew = self.durable.try_anew(TRY_ANEW).await;
            if anew.is_ok() {
                for pool in [&self.durable, &self.write, &self.read] {
                    pool.discard();
                }
            }
            why = helps_because(anew);
        }
        self.restart_helps.set(why);
        result
    }

    async fn try_all(&self) -> Result<(), StoreError> {
        self.try_write(&self.durable).await?;
        self.try_write(&self.write).await?;
        sqlx::query("SELECT 1").execute(&self.read).await?;
        Ok(())
    }

    /// Tries the store every few seconds until stopped.
    pub async fn watch(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TRY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            let result = tokio::select! {
                result = self.check() => result,
                () = stop.cancelled() => return,
            };
            match result {
                Ok(()) if failing => info!("the store works again"),
                Ok(()) => {}
                Err(error) if failing => warn!(%error, "the store still fails"),
                Err(error) => {
                    error!(%error, "the store fails; while it cannot be written, alerts are refused with 503")
                }
            }
            failing = self.trouble().is_some();
        }
    }
}
