//! The schema: the tables of a store, and the program versions that can use it.
//!
//! To add a migration, create a file `migrations/000N_name.sql` with the next free number; nothing else has to be
//! changed (cargo notices a new file only when this one is saved again). It may only **expand**: new tables, new
//! indexes, new columns that are nullable or have a default. Then the previous release, which does not know the
//! migration, still runs on the store, and a rollback needs no restore.
//!
//! To remove something (**contract**), wait until the previous release does not use it any more. Then write a migration
//! that removes it and sets `UPDATE compatibility SET needs = N`, where N is the newest migration that the previous
//! release knows. A program that does not know migration N refuses the store.
//!
//! Migrations up to [`BASE`] are recorded in sqlx' own table, later ones in [`EXPANSIONS`]: the first release fails if
//! it finds an unknown migration in sqlx' table.

use sqlx::migrate::{Migration, Migrator};
use sqlx::{AnyConnection, Row};

use super::StoreError;
use super::connections::{ConnectionPool, StoreConnection};
use super::database::DatabaseEngine;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");
/// The newest migration that the first release knows.
const BASE: i64 = 5;
/// The table with the applied migrations after [`BASE`].
const EXPANSIONS: &str = "_expansions";

/// Returns the newest migration that this program knows.
fn newest_migration() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Applies the migrations that the store lacks.
///
/// # Errors
/// When one fails, or the store was contracted beyond what this program knows.
pub(super) async fn migrate(connection: &mut AnyConnection) -> Result<(), StoreError> {
    let (base, later): (Vec<Migration>, Vec<Migration>) =
        MIGRATIONS.iter().cloned().partition(|migration| migration.version <= BASE);
    Migrator::with_migrations(base).run_direct(None, connection, false).await?;
    let mut expansions = Migrator::with_migrations(later);
    expansions.dangerous_set_table_name(EXPANSIONS);
    // A newer version may have applied further migrations.
    expansions.set_ignore_missing(true);
    expansions.run_direct(None, connection, false).await?;
    compatible(connection).await
}

/// Refuses a store that a newer version has contracted.
async fn compatible(connection: &mut AnyConnection) -> Result<(), StoreError> {
    let needs: i64 = sqlx::query_scalar("SELECT MAX(needs) FROM compatibility").fetch_one(connection).await?;
    if needs > newest_migration() { Err(StoreError::Newer { found: needs, known: newest_migration() }) } else { Ok(()) }
}

/// Checks that this program can use the store as it is; changes nothing.
///
/// # Errors
/// When it is not a store, lacks migrations, or was contracted beyond what this program knows.
pub(super) async fn check(pool: &ConnectionPool, engine: DatabaseEngine) -> Result<(), StoreError> {
    let mut connection = pool.acquire().await?;
    let mut newest_applied = 0;
    for table in ["_sqlx_migrations", EXPANSIONS] {
        if has_table(&mut connection, engine, table).await? {
            let newest = sqlx::AssertSqlSafe(format!("SELECT MAX(version) AS version FROM {table}"));
            let row = sqlx::query(newest).fetch_one(&mut connection).await?;
            newest_applied = newest_applied.max(row.try_get::<Option<i64>, _>("version")?.unwrap_or_default());
        }
    }
    match newest_applied {
        0 => Err(StoreError::NoTables),
        newest_applied if newest_applied < newest_migration() => {
            Err(StoreError::Older { found: newest_applied, known: newest_migration() })
        }
        _ => compatible(connection.raw()?).await,
    }
}

async fn has_table(connection: &mut StoreConnection, engine: DatabaseEngine, table: &str) -> Result<bool, StoreError> {
    let count = match engine {
        DatabaseEngine::Sqlite => "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = $1",
        DatabaseEngine::Postgres => {
            "SELECT COUNT(*) FROM pg_tables WHERE tablename = $1 AND schemaname = current_schema()"
        }
    };
    let count: i64 = sqlx::query_scalar(count).bind(table).fetch_one(connection).await?;
    Ok(count > 0)
}
