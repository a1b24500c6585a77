//! The connection pool: number of connections, time limits, and rules for their reuse.
//!
//! sqlx's own pool is not suitable here. It pings a connection before reuse without a timeout, so a silent network
//! blocks the connection for as long as TCP retransmits, about a quarter of an hour. And it reuses a connection whose
//! transaction failed: SQLite ends a transaction by itself when the disk is full, but sqlx still counts it as open and
//! refuses every later one. Here every statement has a timeout on our side, and a connection is reused only after its
//! work succeeded.
//!
//! sqlx gives no access to its sockets, so keepalive is set on the server (see `database.rs`). Our side is protected by
//! these timeouts, which also cover a server that answers TCP and nothing else.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use sqlx::any::{AnyConnectOptions, AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::{
    Any, AnyConnection, AssertSqlSafe, ConnectOptions, Connection as _, Either, Error, Execute, Executor, SqlStr,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::errors::{self, StoreFailure};

/// Timeout of the ping of an idle connection before its reuse.
const PING: Duration = Duration::from_secs(2);
/// Timeout of closing a connection, and of the wait for connections in use at shutdown.
const CLOSE: Duration = Duration::from_secs(2);
/// The age at which a connection is no longer reused: addresses and certificates change.
const LIFETIME: Duration = Duration::from_secs(1_800);
/// Time without a success after which a failure counts as an outage; callers retry after shorter ones within seconds.
const OUTAGE: Duration = Duration::from_secs(10);
/// Maximum number of distinct errors of skipped rows that are recorded.
const MOST_LEFT_OUT: usize = 100;

/// Timeouts on our side.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolLimits {
    /// For getting a connection, from the pool or a new one.
    pub(super) acquire: Duration,
    /// For one statement. Longer than the database's own limit, so that the database's error comes first.
    pub(super) statement: Duration,
    /// For everything between taking a connection and returning it.
    pub(super) transaction: Duration,
    /// True if an idle connection is pinged before its reuse: a server may have closed it.
    pub(super) ping: bool,
}

/// The limit of connections in use at the same time.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    of_pool: Arc<Semaphore>,
    most: u32,
    /// Held with each connection by pools whose connections are used in turns.
    turn: Option<Arc<Semaphore>>,
}

/// The right to use a connection.
struct Slot {
    _of_pool: OwnedSemaphorePermit,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(super) fn new(most: u32) -> Self {
        Self { of_pool: Arc::new(Semaphore::new(most as usize)), most, turn: None }
    }

    /// The limits of two pools with one connection each, which are used in turns: however many wait in one pool, a
    /// caller of the other waits for one of them at most.
    pub(super) fn in_turns() -> [Self; 2] {
        let turn = Some(Arc::new(Semaphore::new(1)));
        [(); 2].map(|()| Self { turn: turn.clone(), ..Self::new(1) })
    }

    async fn acquire(&self) -> Result<Slot, Error> {
        let closed = |_| Error::PoolClosed;
        let _of_pool = Arc::clone(&self.of_pool).acquire_owned().await.map_err(closed)?;
        let _turn = match &self.turn {
            Some(turn) => Some(Arc::clone(turn).acquire_owned().await.map_err(closed)?),
            None => None,
        };
        Ok(Slot { _of_pool, _turn })
    }
}

/// A pool of connections for one purpose; cheap to clone.
#[derive(Clone)]
pub(super) struct ConnectionPool(Arc<Inner>);

struct Inner {
    options: AnyConnectOptions,
    /// Statements for each new connection.
    setup: String,
    limits: PoolLimits,
    slots: Slots,
    idle: Mutex<VecDeque<Live>>,
    trouble: Mutex<Option<StoreFailure>>,
    worked: Mutex<Instant>,
    /// The end of the last outage.
    recovered: Mutex<Option<Instant>>,
    /// Errors of rows that could not be fetched.
    left_out: Mutex<BTreeSet<String>>,
}

struct Live {
    connection: AnyConnection,
    opened_at: Instant,
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options contain the password.
        f.debug_struct("Pool").field("slots", &self.0.slots).field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl ConnectionPool {
    /// Creates a pool and opens its first connection.
    pub(super) async fn open(
        options: AnyConnectOptions,
        setup: String,
        limits: PoolLimits,
        slots: Slots,
    ) -> Result<Self, Error> {
        let pool = Self(Arc::new(Inner {
            options,
            setup,
            limits,
            slots,
            idle: Mutex::default(),
            trouble: Mutex::default(),
            worked: Mutex::new(Instant::now()),
            recovered: Mutex::default(),
            left_out: Mutex::default(),
        }));
        // The first connection opens the database: on a busy disk that takes as long as a statement may.
        let first = within(limits.statement, "no connection", pool.connect()).await?;
        pool.idle().push_back(first);
        Ok(pool)
    }

    /// Takes a connection for at most [`PoolLimits::transaction`].
    pub(super) async fn acquire(&self) -> Result<StoreConnection, Error> {
        let wait = self.0.limits.acquire;
        let waiting = within(wait, "no connection", async {
            let slot = self.0.slots.acquire().await?;
            Ok((slot, self.live().await?))
        });
        let (slot, live) = waiting.await.inspect_err(|error| self.failed(error))?;
        let until = Instant::now() + self.0.limits.transaction;
        Ok(StoreConnection { live: Some(live), pool: self.clone(), until, failed: false, _slot: slot })
    }

    /// Returns an idle connection that can be used, or else a new one.
    async fn live(&self) -> Result<Live, Error> {
        loop {
            // A separate statement, so that the lock is released at once.
            let waiting = self.idle().pop_back();
            let Some(mut live) = waiting else { break };
            let alive = async {
                let is_young = live.opened_at.elapsed() < LIFETIME;
                is_young && (!self.0.limits.ping || live.connection.ping().await.is_ok())
            };
            if tokio::time::timeout(PING, alive).await.unwrap_or(false) {
                return Ok(live);
            }
        }
        self.connect().await
    }

    async fn connect(&self) -> Result<Live, Error> {
        let mut connection = self.0.options.connect().await?;
        connection.execute(AssertSqlSafe(self.0.setup.clone())).await?;
        Ok(Live { connection, opened_at: Instant::now() })
    }

    /// Runs statements on a new connection outside the pool and closes it.
    pub(super) async fn try_anew(&self, statements: &'static str) -> Result<(), Error> {
        let limits = self.0.limits;
        let mut anew = within(limits.acquire, "no connection", self.connect()).await?;
        within(limits.statement, "no answer to a statement", anew.connection.execute(statements)).await?;
        // The statements succeeded, even if closing fails.
        let _ = tokio::time::timeout(CLOSE, anew.connection.close()).await;
        Ok(())
    }

    /// Drops all idle connections without notice to the server.
    pub(super) fn discard(&self) {
        self.idle().clear();
    }

    /// Returns the failure since the last success; `None` if there is none.
    pub(super) fn trouble(&self) -> Option<StoreFailure> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the errors of rows that could not be fetched.
    pub(super) fn left_out(&self) -> BTreeSet<String> {
        self.0.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Skips a row; logs each error once.
    fn leave_out(&self, error: &Error) {
        let mut left_out = self.0.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        if left_out.len() < MOST_LEFT_OUT && left_out.insert(error.to_string()) {
            tracing::error!(%error, "a row of the store cannot be read: going on without it");
        }
    }

    fn failed(&self, error: &Error) {
        let mut trouble = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = Some(StoreFailure::after(trouble.take(), error));
    }

    fn worked(&self) {
        let outage = self.is_out();
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let now = Instant::now();
        *self.0.worked.lock().unwrap_or_else(PoisonError::into_inner) = now;
        if outage {
            self.set_recovered(Some(now));
        }
    }

    /// Returns true during an outage: a failure, and no success for [`OUTAGE`].
    fn is_out(&self) -> bool {
        self.trouble().is_some() && self.since_worked() > OUTAGE
    }

    /// Returns the end of the last outage: now during one, `None` if there was none.
    pub(super) fn recovered(&self) -> Option<Instant> {
        match self.is_out() {
            true => Some(Instant::now()),
            false => *self.0.recovered.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Sets the end of the last outage.
    pub(super) fn set_recovered(&self, at: Option<Instant>) {
        *self.0.recovered.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Returns the time since the last success.
    pub(super) fn since_worked(&self) -> Duration {
        self.0.worked.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Waits up to [`CLOSE`] for connections in use, and closes all idle ones.
    pub(super) async fn close(&self) {
        let all = tokio::time::timeout(CLOSE, self.0.slots.of_pool.acquire_many(self.0.slots.most)).await;
        self.0.slots.of_pool.close();
        drop(all);
        let waiting = std::mem::take(&mut *self.idle());
        for live in waiting {
            // A connection that does not answer is dropped.
            let _ = tokio::time::timeout(CLOSE, live.connection.close()).await;
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Live>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. It is closed on drop, whatever its state; only [`Self::done`] returns it to the pool.
pub(super) struct StoreConnection {
    /// `None` only while it is returned to the pool.
    live: Option<Live>,
    pool: ConnectionPool,
    until: Instant,
    failed: bool,
    _slot: Slot,
}

impl fmt::Debug for StoreConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl StoreConnection {
    /// Returns the connection without timeouts, for work that must not be interrupted.
    pub(super) fn raw(&mut self) -> Result<&mut AnyConnection, Error> {
        self.live.as_mut().map(|live| &mut live.connection).ok_or(Error::WorkerCrashed)
    }

    /// Returns the connection to the pool after its work succeeded.
    pub(super) fn done(mut self) {
        self.pool.worked();
        if let Some(live) = self.live.take().filter(|_| !self.pool.0.slots.of_pool.is_closed()) {
            self.pool.idle().push_back(live);
        }
    }

    /// Runs a statement and collects the whole answer. With `lenient`, rows that cannot be decoded are skipped.
    async fn run<'q>(&mut self, query: impl Execute<'q, Any> + 'q, lenient: bool) -> Result<Vec<Step>, Error> {
        let limit = self.pool.0.limits.statement.min(self.until.saturating_duration_since(Instant::now()));
        let pool = self.pool.clone();
        let connection = self.raw()?;
        let all = async {
            let (mut steps, mut answer) = (Vec::new(), connection.fetch_many(query));
            while let Some(step) = answer.next().await {
                match step {
                    Ok(step) => steps.push(step),
                    Err(error) if lenient && errors::is_about_a_row(&error) => pool.leave_out(&error),
                    Err(error) => return Err(error),
                }
            }
            Ok(steps)
        };
        let result = within(limit, "no answer to a statement", all).await;
        if let Err(error) = &result
            && !std::mem::replace(&mut self.failed, true)
        {
            // Later failures are only consequences of the first error.
            pool.failed(error);
        }
        result
    }
}

/// A part of an answer: the number of changed rows, or a row.
type Step = Either<AnyQueryResult, AnyRow>;

fn steps<'e>(all: impl Future<Output = Result<Vec<Step>, Error>> + Send + 'e) -> BoxStream<'e, Result<Step, Error>> {
    stream::once(all).map_ok(|steps| stream::iter(steps.into_iter().map(Ok))).try_flatten().boxed()
}

fn row(steps: Vec<Step>) -> Option<AnyRow> {
    steps.into_iter().find_map(Either::right)
}

/// Runs a statement within a transaction.
impl<'c> Executor<'c> for &'c mut StoreConnection {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        steps(async move { self.run(query, true).await })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        async move { Ok(row(self.run(query, false).await?)) }.boxed()
    }

    fn prepare_with<'e>(self, sql: SqlStr, types: &'e [AnyTypeInfo]) -> BoxFuture<'e, Result<AnyStatement, Error>>
    where
        'c: 'e,
    {
        async move { self.raw()?.prepare_with(sql, types).await }.boxed()
    }
}

/// Runs a single statement on a connection of its own.
impl<'p> Executor<'p> for &'p ConnectionPool {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Step, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Any>,
    {
        steps(async move {
            let mut connection = self.acquire().await?;
            let steps = connection.run(query, true).await?;
            connection.done();
            Ok(steps)
        })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Any>,
    {
        async move {
            let mut connection = self.acquire().await?;
            let steps = connection.run(query, false).await?;
            connection.done();
            Ok(row(steps))
        }
        .boxed()
    }

    fn prepare_with<'e>(self, sql: SqlStr, types: &'e [AnyTypeInfo]) -> BoxFuture<'e, Result<AnyStatement, Error>>
    where
        'p: 'e,
    {
        async move {
            let mut connection = self.acquire().await?;
            let statement = connection.prepare_with(sql, types).await?;
            connection.done();
            Ok(statement)
        }
        .boxed()
    }
}

/// Runs work with a timeout; the error names the operation and the limit.
async fn within<T>(limit: Duration, problem: &str, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => {
            let text = format!("{problem} within {:.0} s", limit.as_secs_f64());
            Err(Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text)))
        }
    }
}
