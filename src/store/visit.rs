//! Access by commands to the store of a service; the store is neither created nor migrated.

use std::path::Path;

use super::connections::{ConnectionPool, Slots};
use super::database::{self, DatabaseEngine, SqliteAccess};
use super::{Store, StoreError, schema};
use knowledge::clock;

/// The access of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAccess {
    /// Read only; enforced by the database.
    ReadOnly,
    /// Read and write, beside the service.
    Write,
}

impl Store {
    /// Opens an existing database file.
    ///
    /// # Errors
    /// When the file does not exist, cannot be opened, or its schema does not fit this version.
    pub async fn visit(path: &Path, visit: StoreAccess) -> Result<Self, StoreError> {
        let pool = match visit {
            StoreAccess::Write => database::sqlite(path, SqliteAccess::WriteBeside, Slots::new(1)).await?,
            StoreAccess::ReadOnly => match database::sqlite(path, SqliteAccess::ReadBeside, Slots::new(1)).await {
                Ok(pool) => pool,
                // If the service is stopped and its directory is read-only for us, SQLite cannot create its files.
                Err(_) => database::sqlite(path, SqliteAccess::Immutable, Slots::new(1)).await?,
            },
        };
        let named = format!("SQLite at {}", path.display());
        visited(pool, DatabaseEngine::Sqlite, named).await
    }

    /// Connects to a PostgreSQL that contains a service's tables.
    ///
    /// # Errors
    /// When the address is invalid, the database cannot be reached, or its schema does not fit this version.
    pub async fn visit_postgres(url: &str, visit: StoreAccess) -> Result<Self, StoreError> {
        let (options, named) = database::address(url).map_err(StoreError::Address)?;
        // A single connection reports the cause; a pool would only report a timeout.
        drop(database::knock(&options).await?);
        let pool = match visit {
            StoreAccess::ReadOnly => database::postgres_read_only(&options).await?,
            StoreAccess::Write => database::postgres(&options, 2).await?,
        };
        visited(pool, DatabaseEngine::Postgres, named).await
    }
}

async fn visited(pool: ConnectionPool, engine: DatabaseEngine, named: String) -> Result<Store, StoreError> {
    if let Err(error) = schema::check(&pool, engine).await {
        pool.close().await;
        return Err(error);
    }
    Ok(Store::of([pool.clone(), pool.clone(), pool], engine, clock::now(), named))
}
