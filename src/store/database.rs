//! Opens connections to both databases, and defines their differences.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Connection as _, Row, SqlSafeStr, SqlStr};
use tracing::warn;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::connections::{ConnectionPool, PoolLimits, Slots, StoreConnection};

/// Time that a statement waits for the other connection, and a caller for a free one.
const BUSY: Duration = Duration::from_secs(5);
/// Limits for SQLite: the disk may be slow, and a large deletion takes long.
const SQLITE: PoolLimits =
    PoolLimits { acquire: BUSY, statement: Duration::from_secs(30), transaction: Duration::from_secs(60), ping: false };
/// Limits for PostgreSQL: the server ends a statement after 10 s (`LIMITS`); without an answer after that it is gone.
const POSTGRES: PoolLimits =
    PoolLimits { acquire: BUSY, statement: Duration::from_secs(11), transaction: Duration::from_secs(30), ping: true };

/// The kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DatabaseEngine {
    Sqlite,
    Postgres,
}

impl DatabaseEngine {
    /// Returns the kind of database of a connection.
    pub(super) fn of(db: &mut StoreConnection) -> Result<Self, sqlx::Error> {
        Ok(if db.raw()?.backend_name() == "PostgreSQL" { Self::Postgres } else { Self::Sqlite })
    }

    /// Returns the statement that begins a transaction for writes. SQLite refuses to upgrade a read transaction later.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
        }
    }

    /// Returns a statement for this database: the text in `/*postgres … */` applies to PostgreSQL only, elsewhere it is
    /// a comment.
    pub(super) fn sql(self, text: &'static str) -> SqlStr {
        match self {
            Self::Sqlite => SqlStr::from_static(text),
            Self::Postgres => AssertSqlSafe(text.replace("/*postgres ", "").replace("*/", "")).into_sql_str(),
        }
    }

    /// Locks these names until the transaction ends, so that replicas decide about them one after the other. SQLite has
    /// a single writer, whose lock covers everything.
    pub(super) async fn hold(self, db: &mut StoreConnection, names: &[&str]) -> Result<(), sqlx::Error> {
        if self == Self::Sqlite {
            return Ok(());
        }
        // All replicas lock in the same order; otherwise two could block each other.
        let names = serde_json::to_string(names).map_err(|error| sqlx::Error::Encode(error.into()))?;
        sqlx::query(
            "SELECT CAST(pg_advisory_xact_lock(hashtextextended(name, 0)) AS TEXT)
             FROM (SELECT DISTINCT name FROM json_array_elements_text(CAST($1 AS JSON)) AS names (name) ORDER BY name) AS sorted",
        )
        .bind(names)
        .execute(db)
        .await?;
        Ok(())
    }
}

/// The purpose of a connection to SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SqliteAccess {
    /// Every commit is flushed to the disk.
    Durable,
    /// Commits survive kill -9, but perhaps not a power cut.
    Write,
    Read,
    /// Writes by a command beside the service; the file must exist.
    WriteBeside,
    /// Reads by a command beside the service.
    ReadBeside,
    /// As `ReadBeside`, if no process writes and not even the files beside it can be created.
    Immutable,
}

/// Opens connections to a database file; except for commands, the file is created if it does not exist.
pub(super) async fn sqlite(path: &Path, access: SqliteAccess, slots: Slots) -> Result<ConnectionPool, sqlx::Error> {
    drivers();
    let path = std::path::absolute(path)?;
    let text = path.to_str().ok_or_else(|| sqlx::Error::Configuration("its path is not UTF-8".into()))?;
    let (mode, pragmas) = match access {
        SqliteAccess::Durable => ("rwc", "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"),
        SqliteAccess::Write => ("rwc", "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"),
        SqliteAccess::Read => ("ro", "PRAGMA journal_mode = WAL"),
        SqliteAccess::WriteBeside => ("rw", "PRAGMA synchronous = FULL"),
        // The first read shows whether the file can be read.
        SqliteAccess::ReadBeside => ("ro", "SELECT COUNT(*) FROM sqlite_schema"),
        SqliteAccess::Immutable => ("ro&immutable=true", "SELECT COUNT(*) FROM sqlite_schema"),
    };
    // All separators are escaped, so that no part of the path is parsed as part of the address.
    let path = byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let options: AnyConnectOptions = format!("sqlite:{path}?mode={mode}").parse()?;
    let setup = format!("PRAGMA busy_timeout = {}; {pragmas}", BUSY.as_millis());
    ConnectionPool::open(options, setup, SQLITE, slots).await
}

/// Creates the database file for its owner alone, and takes the rights of others from one that is there, if it is ours.
/// SQLite gives the files beside it the same rights.
///
/// # Errors
/// When the file cannot be created.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    for file in ["", "-wal", "-shm"].map(|suffix| PathBuf::from(format!("{}{suffix}", path.display()))) {
        let Ok(metadata) = fs::symlink_metadata(&file) else { continue };
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            // A volume may keep the owner that it had before; the file may still be ours to write.
            if let Err(error) = fs::set_permissions(&file, Permissions::from_mode(0o600)) {
                let file = file.display();
                warn!(%error, "others may read {file}: its owner can take that right with `chmod 600 {file}`");
            }
        }
    }
    Ok(())
}

/// Limits of a PostgreSQL session: statements, waits for locks and idle transactions all have a timeout. A client that
/// disappeared without notice is detected after 25 s, so that its locks end (keepalive and user timeout of the server's
/// socket, <https://www.postgresql.org/docs/current/runtime-config-connection.html>; without effect on Unix sockets).
const LIMITS: &str = "SET statement_timeout = '10s'; SET lock_timeout = '5s';
                      SET idle_in_transaction_session_timeout = '15s'; SET application_name = 'llm-diagnose';
                      SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
                      SET tcp_user_timeout = '15s'";

/// Opens a pool of at most `most` connections to a PostgreSQL.
pub(super) async fn postgres(options: &AnyConnectOptions, most: u32) -> Result<ConnectionPool, sqlx::Error> {
    ConnectionPool::open(options.clone(), LIMITS.to_owned(), POSTGRES, Slots::new(most)).await
}

/// Opens read-only connections to a PostgreSQL.
pub(super) async fn postgres_read_only(options: &AnyConnectOptions) -> Result<ConnectionPool, sqlx::Error> {
    let setup = format!("{LIMITS}; SET default_transaction_read_only = on");
    ConnectionPool::open(options.clone(), setup, POSTGRES, Slots::new(2)).await
}

/// Opens one connection without a pool, whose error names the cause instead of a timeout.
pub(super) async fn knock(options: &AnyConnectOptions) -> Result<AnyConnection, sqlx::Error> {
    drivers();
    match tokio::time::timeout(BUSY, options.connect()).await {
        Ok(connection) => connection,
        Err(_) => Err(sqlx::Error::Io(std::io::Error::other(format!("no answer within {} s", BUSY.as_secs())))),
    }
}

/// Parses the address of a PostgreSQL. Returns the connect options and the display name without password.
pub(super) fn address(url: &str) -> Result<(AnyConnectOptions, String), String> {
    let form = "write it like postgres://user:password@host:5432/database";
    let url = Url::parse(url).map_err(|error| format!("it is no address ({error}): {form}"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(format!("it begins with `{}:`: {form}", url.scheme()));
    }
    let parameter = |key: &str| url.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned());
    let host = url.host_str().filter(|host| !host.is_empty()).map(str::to_owned).or_else(|| parameter("host"));
    let database = Some(url.path().trim_start_matches('/').to_owned()).filter(|name| !name.is_empty());
    let named = format!(
        "PostgreSQL at {}:{}/{}",
        host.as_deref().unwrap_or("localhost"),
        url.port().unwrap_or(5432),
        database.or_else(|| parameter("dbname")).unwrap_or_default()
    );
    let options = AnyConnectOptions::from_url(&url).map_err(|error| format!("{error}: {form}"))?;
    Ok((options, named))
}

/// Returns the version of a PostgreSQL, and whether tables can be created in it.
pub(super) async fn examine(options: &AnyConnectOptions) -> Result<(String, bool), sqlx::Error> {
    let mut connection = knock(options).await?;
    let row = sqlx::query(
        "SELECT current_setting('server_version') AS version,
                COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE) AS may",
    )
    .fetch_one(&mut connection)
    .await?;
    let version_and_right = (row.try_get("version")?, row.try_get("may")?);
    connection.close().await?;
    Ok(version_and_right)
}

fn drivers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(sqlx::any::install_default_drivers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_without_its_password_even_when_it_is_none() {
        let named = |url| address(url).map(|(_, named)| named);
        assert_eq!(named("postgres://u:s3cret@db.example/llm").unwrap(), "PostgreSQL at db.example:5432/llm");
        assert_eq!(named("postgres:///llm?host=/run/pg&user=u").unwrap(), "PostgreSQL at /run/pg:5432/llm");
        for (url, expected) in
            [("u:s3cret@db/llm", "it begins with `u:`"), ("postgres://u:s3cret@[x/llm", "it is no address")]
        {
            let error = named(url).unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn what_only_postgresql_understands_is_a_comment_to_sqlite() {
        let text = "SELECT 1 /*postgres FOR UPDATE*/";
        assert_eq!(DatabaseEngine::Sqlite.sql(text).as_str(), text);
        assert_eq!(DatabaseEngine::Postgres.sql(text).as_str(), "SELECT 1 FOR UPDATE");
    }
}
