//! The connections: how each database is opened, and where the two differ.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Connection as _, Row, SqlSafeStr, SqlStr};
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::connections::{Connection, Limits, Pool};

/// How long a statement waits for the other connection, and a caller for a free one.
const BUSY: Duration = Duration::from_secs(5);
/// A disk may be slow, and a large deletion too.
const SQLITE: Limits =
    Limits { acquire: BUSY, statement: Duration::from_secs(30), transaction: Duration::from_secs(60) };
/// A server ends a statement after 10 s (`LIMITS`); one that does not even say so is gone.
const POSTGRES: Limits =
    Limits { acquire: BUSY, statement: Duration::from_secs(11), transaction: Duration::from_secs(30) };

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    /// What begins a transaction that will write. SQLite refuses one that only finds out later.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
        }
    }

    /// A statement for this database: what stands in `/*postgres … */` counts on PostgreSQL and is a comment elsewhere.
    pub(super) fn sql(self, text: &'static str) -> SqlStr {
        match self {
            Self::Sqlite => SqlStr::from_static(text),
            Self::Postgres => AssertSqlSafe(text.replace("/*postgres ", "").replace("*/", "")).into_sql_str(),
        }
    }

    /// Holds these names until the transaction ends, so that one replica after the other decides about them. SQLite has
    /// one writer, who holds everything.
    pub(super) async fn hold(self, db: &mut Connection, names: &[&str]) -> Result<(), sqlx::Error> {
        if self == Self::Sqlite {
            return Ok(());
        }
        // Everybody takes them in the same order, or two would wait for each other.
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

/// What a connection to SQLite is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Flushed to the disk before it returns.
    Durable,
    /// Survives kill -9, and perhaps not a power cut.
    Write,
    Read,
    /// A visitor's, who must find it there.
    Beside,
    /// A visitor's who only looks.
    Look,
    /// As `Look`, where nobody writes and even the files beside it cannot be made.
    Still,
}

/// Connections to a database file, made when it is not there.
pub(super) async fn sqlite(path: &Path, access: Access) -> Result<Pool, sqlx::Error> {
    drivers();
    let path = std::path::absolute(path)?;
    let text = path.to_str().ok_or_else(|| sqlx::Error::Configuration("its path is not UTF-8".into()))?;
    let (mode, most, pragmas) = match access {
        Access::Durable => ("rwc", 1, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"),
        Access::Write => ("rwc", 1, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"),
        Access::Read => ("ro", 2, "PRAGMA journal_mode = WAL"),
        Access::Beside => ("rw", 1, "PRAGMA synchronous = FULL"),
        // The first read finds out whether it can be read at all.
        Access::Look => ("ro", 1, "SELECT COUNT(*) FROM sqlite_schema"),
        Access::Still => ("ro&immutable=true", 1, "SELECT COUNT(*) FROM sqlite_schema"),
    };
    // Every separator is escaped, so that nothing of a path is taken for a part of an address.
    let path = byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let options: AnyConnectOptions = format!("sqlite:{path}?mode={mode}").parse()?;
    let setup = format!("PRAGMA busy_timeout = {}; {pragmas}", BUSY.as_millis());
    Pool::open(options, setup, SQLITE, most).await
}

/// What PostgreSQL may take: no statement, no wait for another's lock and no forgotten transaction is for ever. A client
/// that is silently gone is known to be after 25 s, so that its locks end (keepalive and user timeout of the server's
/// socket, <https://www.postgresql.org/docs/current/runtime-config-connection.html>; without effect on Unix sockets).
const LIMITS: &str = "SET statement_timeout = '10s'; SET lock_timeout = '5s';
                      SET idle_in_transaction_session_timeout = '15s'; SET application_name = 'llm-diagnose';
                      SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
                      SET tcp_user_timeout = '15s'";

/// Connections to a PostgreSQL, `most` of them.
pub(super) async fn postgres(options: &AnyConnectOptions, most: u32) -> Result<Pool, sqlx::Error> {
    Pool::open(options.clone(), LIMITS.to_owned(), POSTGRES, most).await
}

/// Connections that can only read.
pub(super) async fn postgres_to_look(options: &AnyConnectOptions) -> Result<Pool, sqlx::Error> {
    let setup = format!("{LIMITS}; SET default_transaction_read_only = on");
    Pool::open(options.clone(), setup, POSTGRES, 2).await
}

/// One connection, without a pool's patience: the error says what is wrong, not that time is up.
pub(super) async fn knock(options: &AnyConnectOptions) -> Result<AnyConnection, sqlx::Error> {
    drivers();
    match tokio::time::timeout(BUSY, options.connect()).await {
        Ok(connection) => connection,
        Err(_) => Err(sqlx::Error::Io(std::io::Error::other(format!("no answer within {} s", BUSY.as_secs())))),
    }
}

/// Reads the address of a PostgreSQL: how to connect, and how to name it without its password.
pub(super) fn address(url: &str) -> Result<(AnyConnectOptions, String), String> {
    let form = "write it like postgres://user:password@host:5432/database";
    let url = Url::parse(url).map_err(|error| format!("it is no address ({error}): {form}"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(format!("it begins with `{}:`: {form}", url.scheme()));
    }
    let asked = |key: &str| url.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned());
    let host = url.host_str().filter(|host| !host.is_empty()).map(str::to_owned).or_else(|| asked("host"));
    let database = Some(url.path().trim_start_matches('/').to_owned()).filter(|name| !name.is_empty());
    let named = format!(
        "PostgreSQL at {}:{}/{}",
        host.as_deref().unwrap_or("localhost"),
        url.port().unwrap_or(5432),
        database.or_else(|| asked("dbname")).unwrap_or_default()
    );
    let options = AnyConnectOptions::from_url(&url).map_err(|error| format!("{error}: {form}"))?;
    Ok((options, named))
}

/// What a PostgreSQL says of itself, and whether tables can be made in it.
pub(super) async fn examine(options: &AnyConnectOptions) -> Result<(String, bool), sqlx::Error> {
    let mut connection = knock(options).await?;
    let row = sqlx::query(
        "SELECT current_setting('server_version') AS version,
                COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE) AS may",
    )
    .fetch_one(&mut connection)
    .await?;
    let said = (row.try_get("version")?, row.try_get("may")?);
    connection.close().await?;
    Ok(said)
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
        for (url, said) in
            [("u:s3cret@db/llm", "it begins with `u:`"), ("postgres://u:s3cret@[x/llm", "it is no address")]
        {
            let error = named(url).unwrap_err();
            assert!(error.contains(said) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn what_only_postgresql_understands_is_a_comment_to_sqlite() {
        let text = "SELECT 1 /*postgres FOR UPDATE*/";
        assert_eq!(Engine::Sqlite.sql(text).as_str(), text);
        assert_eq!(Engine::Postgres.sql(text).as_str(), "SELECT 1 FOR UPDATE");
    }
}
