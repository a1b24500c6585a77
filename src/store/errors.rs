//! The meaning of a database error (a full disk, a refused login, one unreadable row), and the failure that such errors
//! make up.

use std::time::Instant;

use sqlx::Error;

use super::StoreError;

/// A failure of the store.
#[derive(Debug, Clone)]
pub struct StoreFailure {
    /// The time of the first error.
    pub since: Instant,
    /// True if the last error was a full disk.
    pub is_full: bool,
    /// The last error.
    pub error: String,
}

impl StoreFailure {
    /// Adds an error to an earlier failure.
    pub(super) fn after(before: Option<Self>, error: &Error) -> Self {
        let since = before.map_or_else(Instant::now, |before| before.since);
        Self { since, is_full: is_full(error) || is_server_full(error), error: error.to_string() }
    }
}

/// Returns true if the database has no space to write. SQLite reports FULL for a full disk, and IOERR_WRITE for a quota
/// or a limit on the file size (<https://www.sqlite.org/rescode.html>).
pub(super) fn is_full(error: &Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("13" | "778"))
}

/// Returns true if PostgreSQL's disk is full (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn is_server_full(error: &Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).as_deref() == Some("53100")
}

/// Returns true if a single row caused the error: the database works, but the value in the row cannot be decoded.
pub(super) fn is_about_a_row(error: &Error) -> bool {
    matches!(error, Error::ColumnDecode { .. } | Error::Decode(_) | Error::AnyDriverError(_))
}

/// Returns true if the database answered a statement with a refusal, but not for lack of space: a value that it cannot
/// store, for example.
pub(super) fn is_about_a_statement(error: &Error) -> bool {
    matches!(error, Error::Database(_) | Error::Encode(_)) && !is_full(error)
}

/// Returns true if PostgreSQL refuses the user or the password: class 28
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
pub(super) fn is_login(error: &Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code.starts_with("28"))
}

/// Builds the error of a value that is not readable as JSON.
pub(super) fn unreadable(what: &'static str, id: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Unreadable { what, id: id.to_owned(), error: error.to_string() }
}
