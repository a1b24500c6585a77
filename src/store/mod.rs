//! The store: incidents, their alerts, deliveries and events, and known exporters. No state lives only in memory.
//!
//! In SQLite writes wait for each other on two connections: webhooks, committed together and flushed to the disk before
//! they are answered; and everything that is only done twice if a power cut forgets it. kill -9 loses neither.
//!
//! In PostgreSQL several replicas of ours share it. Groups of one key are decided one after the other (`Engine::hold`),
//! work is claimed by a lease, and the leases of a replica that is gone are released by the others (`replicas.rs`).

mod admission;
mod audit;
mod backup;
mod connections;
mod database;
mod deliveries;
mod digests;
mod exporters;
mod feedback;
mod followups;
mod incidents;
mod listing;
mod lock;
mod looks;
mod lookups;
mod mentions;
mod posts;
mod refusals;
mod replaced;
mod replicas;
mod retention;
mod schema;
mod time;
mod trouble;
mod unreadable;
mod visit;
mod waiting;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use sqlx::Connection as _;
use ulid::Ulid;

use crate::clock;

pub use admission::{Admitted, Wanted};
pub use audit::{AuditEntry, AuditResult, EndedCall};
pub use backup::{FILE as STORE_FILE, backup, restore};
use connections::{Pool, Tx};
use database::{Access, Engine};
pub use deliveries::{Delivery, Held, Said, Sink};
pub use digests::{Digest, Spoken, Storm};
pub use feedback::Feedback;
pub use followups::Followup;
pub use incidents::{Due, Incident};
pub use lock::StateLock;
pub use looks::{Look, Standing};
pub use lookups::Event;
pub use mentions::{Called, Mention, Place};
pub use posts::{Post, PostKind};
pub use refusals::Refusal;
pub use retention::{INCIDENTS_AT_ONCE, KEPT_OF_EACH, ROWS_AT_ONCE};
pub use time::Longest;
use time::Time;
pub use trouble::Trouble;
use trouble::{RestartHelps, WhenFull};
use unreadable::Unreadable;
pub use visit::Visit;
pub use waiting::{Turn, Waiting, Work};

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused or is gone.
    #[error("the store: {0}")]
    Database(#[from] sqlx::Error),
    /// The database's shape cannot be brought up to date.
    #[error("the store cannot be migrated: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// It was never a store of ours.
    #[error("no llm-diagnose has made its tables in it: `serve` does")]
    NoTables,
    /// An older version keeps it.
    #[error(
        "an older llm-diagnose made it (tables of version {found}, this one needs {known}): start this version's `serve` once, which updates it, or use the older one's commands"
    )]
    Older {
        /// The version of its tables.
        found: i64,
        /// That of ours.
        known: i64,
    },
    /// A newer version has removed what this one uses.
    #[error(
        "a newer llm-diagnose keeps it (its tables need a version that knows migration {found}, this one knows {known}): use the newer one, or restore a backup from before the update"
    )]
    Newer {
        /// The migration that must be known.
        found: i64,
        /// The newest that is.
        known: i64,
    },
    /// Another process uses the state directory.
    #[error(
        "another llm-diagnose uses the state directory {directory} (process {process}): stop that one, or give this one a directory of its own (`state_dir`)",
        directory = directory.display()
    )]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The other process's id, as it wrote it.
        process: String,
    },
    /// A file cannot be used.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The address of the database cannot be used; the text says why and never shows it.
    #[error("the database's address: {0}")]
    Address(String),
    /// A value in it is not what this version writes.
    #[error("the store holds an unreadable {what} of {id}: {error}")]
    Unreadable {
        /// Which value.
        what: &'static str,
        /// Of which incident.
        id: String,
        /// What the reader said.
        error: String,
    },
}

impl StoreError {
    /// Whether there is no room to write: reading goes on.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Database(error) if trouble::is_full(error))
    }
}

/// A handle to the store; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// For what must survive a power cut: the groups that were answered 200.
    durable: Pool,
    /// For what may be done twice after one: leases, diagnoses, delivery states.
    write: Pool,
    read: Pool,
    engine: Engine,
    full: WhenFull,
    restart_helps: RestartHelps,
    unreadable: Unreadable,
    /// Whose leases are ours.
    me: Arc<str>,
    time: Arc<Time>,
    named: Arc<str>,
}

/// The key `database:`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A file with the address of a PostgreSQL, postgres://…; not set, SQLite in `state_dir`.
    pub url_file: Option<PathBuf>,
}

impl Store {
    /// Opens, creates and migrates the database file.
    ///
    /// # Errors
    /// When the file cannot be opened or is another program's.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let durable = database::sqlite(path, Access::Durable).await?;
        let mut first = durable.acquire().await?;
        schema::migrate(first.raw()?).await?;
        first.done();
        let write = database::sqlite(path, Access::Write).await?;
        let read = database::sqlite(path, Access::Read).await?;
        let named = format!("SQLite at {}", path.display());
        Ok(Self::of([durable, write, read], Engine::Sqlite, clock::now(), named))
    }

    /// Connects to a PostgreSQL that several of us may share, and migrates it.
    ///
    /// # Errors
    /// When the address is none, or the database cannot be reached, used or migrated.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let (options, named) = database::address(url).map_err(StoreError::Address)?;
        let mut first = database::knock(&options).await?;
        schema::migrate(&mut first).await?;
        let now = time::of_database(&mut first).await?;
        first.close().await?;
        // Webhooks have a connection of their own, so that they never wait for anything but each other.
        let durable = database::postgres(&options, 1).await?;
        let write = database::postgres(&options, 4).await?;
        let read = database::postgres(&options, 3).await?;
        Ok(Self::of([durable, write, read], Engine::Postgres, now, named))
    }

    fn of([durable, write, read]: [Pool; 3], engine: Engine, now: Timestamp, named: String) -> Self {
        let (full, restart_helps) = (WhenFull::default(), RestartHelps::default());
        let (unreadable, time) = (Unreadable::default(), Arc::new(Time::new(now)));
        // A name of its own for each start.
        let me = Ulid::generate().to_string().into();
        Self { durable, write, read, engine, full, restart_helps, unreadable, me, time, named: named.into() }
    }

    /// What a PostgreSQL is called, which version it says it has, and whether we may make tables in it; changes nothing.
    ///
    /// # Errors
    /// When the address is none, or the database cannot be reached.
    pub async fn examine(url: &str) -> Result<(String, String, bool), StoreError> {
        let (options, named) = database::address(url).map_err(StoreError::Address)?;
        let (version, may) = database::examine(&options).await?;
        Ok((named, version, may))
    }

    /// Which database it is and where, without its password.
    pub fn named(&self) -> &str {
        &self.named
    }

    /// A transaction that will write.
    async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(self.write.begin(self.engine.begin()).await?)
    }

    /// Says good-bye to the other replicas, waits for running statements and closes the database.
    pub async fn close(&self) {
        // Whoever cannot say it is missed a little later.
        let _ = self.leave().await;
        self.read.close().await;
        self.write.close().await;
        self.durable.close().await;
    }
}

/// Times are kept in nanoseconds as text where they are identities, because two episodes may start in one millisecond.
fn nanoseconds(at: Timestamp) -> String {
    at.as_nanosecond().to_string()
}

fn from_nanoseconds(text: &str) -> Timestamp {
    text.parse().ok().and_then(|ns: i128| Timestamp::from_nanosecond(ns).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}
