//! Visits of the command line: a store that somebody else keeps, which is neither made nor migrated.

use std::path::Path;

use super::connections::Pool;
use super::database::{self, Access, Engine};
use super::{Store, StoreError, schema};
use crate::clock;

/// What a visitor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Looks only; the database refuses everything else.
    Look,
    /// Writes, as the service beside does.
    Write,
}

impl Store {
    /// Opens a database file that is there.
    ///
    /// # Errors
    /// When it is not, cannot be opened, or has not this version's shape.
    pub async fn visit(path: &Path, visit: Visit) -> Result<Self, StoreError> {
        let pool = match visit {
            Visit::Write => database::sqlite(path, Access::Beside).await?,
            Visit::Look => match database::sqlite(path, Access::Look).await {
                Ok(pool) => pool,
                // Beside a service that is not running, in a directory that we may not write to.
                Err(_) => database::sqlite(path, Access::Still).await?,
            },
        };
        let named = format!("SQLite at {}", path.display());
        visited(pool, Engine::Sqlite, named).await
    }

    /// Connects to a PostgreSQL that a service has made its tables in.
    ///
    /// # Errors
    /// When the address is none, the database cannot be reached, or has not this version's shape.
    pub async fn visit_postgres(url: &str, visit: Visit) -> Result<Self, StoreError> {
        let (options, named) = database::address(url).map_err(StoreError::Address)?;
        // The knock says what is wrong; a pool would only say that time is up.
        drop(database::knock(&options).await?);
        let pool = match visit {
            Visit::Look => database::postgres_to_look(&options).await?,
            Visit::Write => database::postgres(&options, 2).await?,
        };
        visited(pool, Engine::Postgres, named).await
    }
}

async fn visited(pool: Pool, engine: Engine, named: String) -> Result<Store, StoreError> {
    if let Err(error) = schema::check(&pool, engine).await {
        pool.close().await;
        return Err(error);
    }
    Ok(Store::of([pool.clone(), pool.clone(), pool], engine, clock::now(), named))
}
