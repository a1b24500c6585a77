//! The schema: the tables of a store, and the program versions that can use it.
//!
//! To add a migration, create a file `migrations/000N_name.sql` with the next free number, and add it to
//! [`MIGRATIONS`]. It may only **expand**: new tables, new
//! indexes, new columns that are nullable or have a default. Then the previous release, which does not know the
//! migration, still runs on the store, and a rollback needs no restore. It has one statement: a second one would wait
//! for a lock while it holds that of the first, against a replica that still runs.
//!
//! To remove something (**contract**), wait until the previous release does not use it any more. Then write a migration
//! that removes it and sets `UPDATE compatibility SET needs = N`, where N is the newest migration that the previous
//! release knows. A program that does not know migration N refuses the store.

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AnyConnection, SqlSafeStr};

use super::StoreError;
use super::connections::{ConnectionPool, StoreConnection};
use super::database::DatabaseEngine;

/// The migrations: version, name and statement, oldest first.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "store", include_str!("migrations/0001_store.sql")),
    (2, "unchosen", include_str!("migrations/0002_unchosen.sql")),
    (3, "attention", include_str!("migrations/0003_attention.sql")),
    (4, "summary_period", include_str!("migrations/0004_summary_period.sql")),
    (5, "maintenance", include_str!("migrations/0005_maintenance.sql")),
];

/// Returns the newest migration that this program knows.
fn newest_migration() -> i64 {
    MIGRATIONS.iter().map(|(version, ..)| *version).max().unwrap_or_default()
}

fn migrations() -> Vec<Migration> {
    let migration = |(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(*version, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    MIGRATIONS.iter().map(migration).collect()
}

/// Applies the migrations that the store lacks.
///
/// # Errors
/// When one fails, or the store was contracted beyond what this program knows.
pub(super) async fn migrate(connection: &mut AnyConnection) -> Result<(), StoreError> {
    let mut migrations = Migrator::with_migrations(migrations());
    // A newer version may have applied further ones.
    migrations.set_ignore_missing(true);
    migrations.run_direct(None, connection, false).await?;
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
    if !has_migrations(&mut connection, engine).await? {
        return Err(StoreError::NoTables);
    }
    let applied: Option<i64> =
        sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(&mut connection).await?;
    match applied {
        None => Err(StoreError::NoTables),
        Some(found) if found < newest_migration() => Err(StoreError::Older { found, known: newest_migration() }),
        Some(_) => compatible(connection.raw()?).await,
    }
}

async fn has_migrations(connection: &mut StoreConnection, engine: DatabaseEngine) -> Result<bool, StoreError> {
    let count = match engine {
        DatabaseEngine::Sqlite => {
            "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'"
        }
        DatabaseEngine::Postgres => {
            "SELECT COUNT(*) FROM pg_tables WHERE tablename = '_sqlx_migrations' AND schemaname = current_schema()"
        }
    };
    let count: i64 = sqlx::query_scalar(count).fetch_one(connection).await?;
    Ok(count > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_migration_in_the_order_of_its_number() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let names = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        let known: Vec<String> =
            MIGRATIONS.iter().map(|(version, name, _)| format!("{version:04}_{name}.sql")).collect();
        assert_eq!(names, known);
    }
}
