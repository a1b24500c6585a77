//! The store: incidents, their alerts, deliveries and events, and known exporters, in SQLite. No state lives only in memory.
//!
//! Writes wait for each other on two connections: webhooks, committed together and flushed to the disk before they are
//! answered; and everything that is only done twice if a power cut forgets it. kill -9 loses neither.

mod admission;
mod database;
mod deliveries;
mod exporters;
mod incidents;

use std::path::Path;

use jiff::Timestamp;
use sqlx::{Any, AnyPool, Transaction};

pub use admission::{Admitted, Wanted};
use database::{Access, Engine};
pub use deliveries::{Delivery, Sink};
pub use incidents::{Due, Incident};

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
    durable: AnyPool,
    /// For what may be done twice after one: leases, diagnoses, delivery states.
    write: AnyPool,
    read: AnyPool,
    engine: Engine,
}

impl Store {
    /// Opens, creates and migrates the database file.
    ///
    /// # Errors
    /// When the file cannot be opened or is another program's.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let durable = database::sqlite(path, Access::Durable).await?;
        sqlx::migrate!("src/store/migrations").run(&durable).await?;
        let write = database::sqlite(path, Access::Write).await?;
        let read = database::sqlite(path, Access::Read).await?;
        Ok(Self { durable, write, read, engine: Engine::Sqlite })
    }

    /// A transaction that will write.
    async fn begin(&self) -> Result<Transaction<'static, Any>, StoreError> {
        Ok(self.write.begin_with(self.engine.begin()).await?)
    }

    /// Whether it can be written.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
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
