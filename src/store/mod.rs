//! The store: incidents, their alerts, deliveries and events, and known exporters, in SQLite. No state lives only in memory.
//!
//! Writes wait for each other on two connections: webhooks, committed together and flushed to the disk before they are
//! answered; and everything that is only done twice if a power cut forgets it. kill -9 loses neither.

mod admission;
mod audit;
mod deliveries;
mod exporters;
mod feedback;
mod followups;
mod incidents;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

pub use admission::{Admitted, Wanted};
pub use audit::{AuditEntry, AuditResult};
pub use deliveries::{Delivery, Sink};
pub use feedback::Feedback;
pub use followups::Followup;
pub use incidents::{Due, Incident};

/// How long a statement waits for the other connection.
const BUSY: Duration = Duration::from_secs(5);

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused or is gone.
    #[error("the store: {0}")]
    Database(#[from] sqlx::Error),
    /// The database's shape cannot be brought up to date.
    #[error("the store cannot be migrated: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
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

/// A handle to the store; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// For what must survive a power cut: the groups that were answered 200.
    durable: SqlitePool,
    /// For what may be done twice after one: leases, diagnoses, delivery states.
    write: SqlitePool,
    read: SqlitePool,
}

impl Store {
    /// Opens, creates and migrates the database file.
    ///
    /// # Errors
    /// When the file cannot be opened or is another program's.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::from_str("sqlite://")?
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY);
        let pool = |most| SqlitePoolOptions::new().max_connections(most).acquire_timeout(BUSY);
        let durable = pool(1).connect_with(options.clone()).await?;
        sqlx::migrate!("src/store/migrations").run(&durable).await?;
        let write = pool(1).connect_with(options.clone().synchronous(SqliteSynchronous::Normal)).await?;
        let read = pool(2).connect_with(options.read_only(true)).await?;
        Ok(Self { durable, write, read })
    }

    /// Whether it can be written.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut tx = self.write.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query("DELETE FROM events WHERE incident_id = ''").execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Waits for running statements and closes the file.
    pub async fn close(&self) {
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
