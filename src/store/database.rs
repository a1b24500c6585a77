//! The connections: how each database is opened, and where the two differ.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyPool, Executor};
use url::form_urlencoded::byte_serialize;

/// How long a statement waits for the other connection, and a caller for a free one.
const BUSY: Duration = Duration::from_secs(5);

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Sqlite,
}

impl Engine {
    /// What begins a transaction that will write. SQLite refuses one that only finds out later.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
        }
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
}

/// Connections to a database file, made when it is not there.
pub(super) async fn sqlite(path: &Path, access: Access) -> Result<AnyPool, sqlx::Error> {
    drivers();
    let path = std::path::absolute(path)?;
    let text = path.to_str().ok_or_else(|| sqlx::Error::Configuration("its path is not UTF-8".into()))?;
    let (mode, most, pragmas) = match access {
        Access::Durable => ("rwc", 1, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"),
        Access::Write => ("rwc", 1, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"),
        Access::Read => ("ro", 2, "PRAGMA journal_mode = WAL"),
    };
    // Every separator is escaped, so that nothing of a path is taken for a part of an address.
    let path = byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let options: AnyConnectOptions = format!("sqlite:{path}?mode={mode}").parse()?;
    AnyPoolOptions::new()
        .max_connections(most)
        .acquire_timeout(BUSY)
        .after_connect(move |connection, _| {
            Box::pin(async move {
                let wait = format!("PRAGMA busy_timeout = {}", BUSY.as_millis());
                connection.execute(sqlx::AssertSqlSafe(wait)).await?;
                connection.execute(pragmas).await?;
                Ok(())
            })
        })
        .connect_with(options)
        .await
}

fn drivers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(sqlx::any::install_default_drivers);
}
