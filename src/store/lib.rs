//! The store: incidents, their alerts, deliveries and events, and known exporters. No state exists only in memory.
//!
//! SQLite has two connections for writes, which wait for each other. One is for webhooks, committed in batches and
//! flushed to the disk before they are answered; the other for work that is merely repeated after a power cut. kill -9
//! loses neither.
//!
//! Several replicas can share a PostgreSQL. Only groups with the same key are admitted one after the other
//! (`DatabaseEngine::hold`); which join a digest is chosen later (`storms.rs`). Work is claimed by a lease, and the
//! leases of a dead replica are released by the others (`replicas.rs`).
//!
//! Everything here fails when the database does; further errors are documented with their method.

mod admission;
mod alerts;
mod attention;
mod audit;
mod backup;
mod connections;
mod database;
mod deliveries;
mod destinations;
mod diagnoses;
mod digest_content;
mod digests;
mod duplicates;
mod errors;
mod events;
mod exporters;
mod failpoint;
mod failures;
mod feedback;
mod followups;
mod ids;
mod incidents;
mod listing;
mod lock;
mod lookups;
mod maintenance;
mod mentions;
mod opening;
mod postpone;
mod posts;
mod refusals;
mod related;
mod replaced;
mod replicas;
mod requests;
mod retention;
mod schema;
mod storms;
mod time;
mod transaction;
mod unreadable;
mod values;
mod visit;
mod watchdogs;
mod week;
mod weekly;
mod work_queue;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use sqlx::Connection as _;

use knowledge::clock;

pub use audit::{AuditEntry, AuditResult, DOWNLOAD, EndedCall, Escalated, EscalationCall};
pub use backup::{FILE as STORE_FILE, backup, restore};
use connections::{ConnectionPool, Slots};
use database::{DatabaseEngine, SqliteAccess};
pub use deliveries::{Delivery, MessageEffects, Sink};
pub use destinations::AdmissionPlan;
pub use diagnoses::Due;
pub use digest_content::DigestContent;
pub use digests::{Digest, DigestEffects, IncidentPlace};
pub use duplicates::{DuplicateCheck, ValidMessages};
pub use errors::StoreFailure;
pub use failpoint::failpoint;
use failures::{RestartHelps, WhenFull};
pub use feedback::Feedback;
pub use followups::Followup;
pub use incidents::Incident;
pub use listing::IncidentQuery;
pub use lock::StateLock;
pub use lookups::{IncidentEvent, MessageState};
pub use mentions::{CalledPeople, DigestedDelivery, Mention};
pub use opening::Admitted;
pub use postpone::PostponeReason;
pub use posts::{Post, PostKind};
pub use refusals::Refusal;
pub use replicas::Heartbeat;
use replicas::Heartbeats;
pub use requests::REQUEST_RETENTION;
pub use retention::{INCIDENTS_AT_ONCE, KEPT_OF_EACH, ROWS_AT_ONCE};
pub use storms::Storm;
use time::Time;
pub use time::{LongestWaits, StoreClock};
use transaction::Tx;
use unreadable::Unreadable;
pub use visit::StoreAccess;
pub use watchdogs::{OpenIncident, Watchdog};
pub use weekly::{SummaryPeriod, SummaryPost, WeeklyEnd};
pub use work_queue::{DeliveryPriority, PendingItem, PendingWork};

/// The reason why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused the statement or cannot be reached.
    #[error("the store: {0}")]
    Database(#[from] sqlx::Error),
    /// A migration failed.
    #[error("the store cannot be migrated: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The database does not contain our tables.
    #[error("no llm-diagnose has made its tables in it: `serve` does")]
    NoTables,
    /// The tables were created by an older version.
    #[error(
        "an older llm-diagnose made it (tables of version {found}, this one needs {known}): start this version's `serve` once, which updates it, or use the older one's commands"
    )]
    Older {
        /// The version of the tables.
        found: i64,
        /// The version that this program needs.
        known: i64,
    },
    /// A newer version has removed what this one uses.
    #[error(
        "a newer llm-diagnose keeps it (its tables need a version that knows migration {found}, this one knows {known}): use the newer one, or restore a backup from before the update"
    )]
    Newer {
        /// The migration that the program must know.
        found: i64,
        /// The newest migration that this program knows.
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
        /// The id of the other process, as read from its lock file.
        process: String,
    },
    /// A file operation failed.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The address of the database is invalid; the text never contains the address.
    #[error("the database's address: {0}")]
    Address(String),
    /// A stored value cannot be parsed by this version.
    #[error("the store holds an unreadable {what} of {id}: {error}")]
    Unreadable {
        /// The kind of value.
        what: &'static str,
        /// The id of the incident or object.
        id: String,
        /// The error of the parser.
        error: String,
    },
}

impl StoreError {
    /// Returns true if there is no space to write; reads still work.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Database(error) if errors::is_full(error))
    }

    /// Returns true if a statement about one group or row may be the reason: it was refused, or its row cannot be read.
    fn is_about_content(&self) -> bool {
        match self {
            Self::Database(error) => errors::is_about_a_row(error) || errors::is_about_a_statement(error),
            error => error.is_unreadable(),
        }
    }
}

/// A handle to the store; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// For data that must survive a power cut: groups that were answered with 200.
    durable: ConnectionPool,
    /// For work that may be repeated after a power cut: leases, diagnoses, delivery states.
    write: ConnectionPool,
    read: ConnectionPool,
    /// This replica's heartbeats; `None` on SQLite, which has one process.
    heartbeats: Option<Heartbeats>,
    engine: DatabaseEngine,
    full: WhenFull,
    restart_helps: RestartHelps,
    unreadable: Unreadable,
    /// The id of this replica, the owner of its leases.
    me: Arc<str>,
    time: Arc<Time>,
    named: Arc<str>,
}

/// The configuration key `database:`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A file with the address of a PostgreSQL, postgres://…; if not set, SQLite in `state_dir` is used.
    pub url_file: Option<PathBuf>,
}

impl Store {
    /// Opens the database file; creates it if it does not exist, and applies migrations. Only its owner may read it then.
    ///
    /// # Errors
    /// When the file cannot be opened or belongs to another program.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        database::make_private(path).map_err(|error| StoreError::File { path: path.to_owned(), error })?;
        // SQLite has a single writer, and would let the other connection sleep until it is done.
        let [durable, write] = Slots::in_turns();
        let durable = database::sqlite(path, SqliteAccess::Durable, durable).await?;
        let mut first = durable.acquire().await?;
        schema::migrate(first.raw()?).await?;
        first.done();
        let write = database::sqlite(path, SqliteAccess::Write, write).await?;
        let read = database::sqlite(path, SqliteAccess::Read, Slots::new(2)).await?;
        let named = format!("SQLite at {}", path.display());
        Ok(Self::of([durable, write, read], DatabaseEngine::Sqlite, clock::now(), named))
    }

    /// Connects to a PostgreSQL that several replicas may share, and applies migrations.
    ///
    /// # Errors
    /// When the address is invalid, or the database cannot be reached, used or migrated.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let (options, named) = database::address(url).map_err(StoreError::Address)?;
        let mut first = database::knock(&options).await?;
        schema::migrate(&mut first).await?;
        let now = time::of_database(&mut first).await?;
        first.close().await?;
        // Webhooks have a connection of their own, so that they wait only for each other.
        let durable = database::postgres(&options, 1).await?;
        let write = database::postgres(&options, 4).await?;
        let read = database::postgres(&options, 3).await?;
        let heartbeats = Some(Heartbeats::new(database::postgres(&options, 1).await?));
        Ok(Self { heartbeats, ..Self::of([durable, write, read], DatabaseEngine::Postgres, now, named) })
    }

    fn of([durable, write, read]: [ConnectionPool; 3], engine: DatabaseEngine, now: Timestamp, named: String) -> Self {
        let (full, restart_helps) = (WhenFull::default(), RestartHelps::default());
        let (unreadable, time) = (Unreadable::default(), Arc::new(Time::new(now)));
        // A new id for each start.
        let me = ids::new_id().into();
        let named = named.into();
        let heartbeats = None;
        Self { durable, write, read, heartbeats, engine, full, restart_helps, unreadable, me, time, named }
    }

    /// Returns the display name of a PostgreSQL, its version, and whether tables can be created in it; changes nothing.
    ///
    /// # Errors
    /// When the address is invalid, or the database cannot be reached.
    pub async fn examine(url: &str) -> Result<(String, String, bool), StoreError> {
        let (options, named) = database::address(url).map_err(StoreError::Address)?;
        let (version, may) = database::examine(&options).await?;
        Ok((named, version, may))
    }

    /// Returns the kind and location of the database, without its password.
    pub fn named(&self) -> &str {
        &self.named
    }

    /// Begins a transaction for writes.
    async fn begin(&self) -> Result<Tx, StoreError> {
        Ok(Tx::begin(&self.write, self.engine.begin()).await?)
    }

    /// Releases this replica's leases, waits for running statements and closes the database.
    pub async fn close(&self) {
        // If this fails, the other replicas release the leases after a timeout.
        let _ = self.leave().await;
        if let Some(heartbeats) = &self.heartbeats {
            heartbeats.close().await;
        }
        self.read.close().await;
        self.write.close().await;
        self.durable.close().await;
    }
}

/// Formats a time that is part of an identity: nanoseconds as text, because two episodes may start in the same
/// millisecond.
fn nanoseconds(at: Timestamp) -> String {
    at.as_nanosecond().to_string()
}

fn from_nanoseconds(text: &str) -> Timestamp {
    text.parse().ok().and_then(|ns: i128| Timestamp::from_nanosecond(ns).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}
