//! Unreadable rows: a row that this version cannot decode is skipped or set aside, and does not block anything else.
//!
//! Data that can be created again is skipped: an incident without its diagnosis is diagnosed again, which overwrites
//! the row. Pending messages that cannot be read are set aside in the store (`unreadable`), because they would block
//! the others for ever; the next start, or a change of their incident, tries them again.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::any::AnyRow;
use tracing::error;

use super::connections::StoreConnection;
use super::events::record_event;
use super::values::BindValues;
use super::{Store, StoreError, errors};
use knowledge::clock;

/// Maximum number of unreadable rows that are recorded.
const MOST: usize = 1_000;
/// Maximum number of characters of an error that are recorded.
const ERROR_CHARS: usize = 300;

/// The unreadable rows, by kind and id, with the error.
#[derive(Debug, Clone, Default)]
pub(super) struct Unreadable(Arc<Mutex<BTreeMap<(&'static str, String), String>>>);

impl Unreadable {
    /// Records an unreadable row, and logs it the first time.
    pub(super) fn note(&self, kind: &'static str, id: &str, error: &dyn Display) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, id.to_owned());
        if rows.len() < MOST && !rows.contains_key(&key) {
            error!(what = kind, id, %error, "a row of the store cannot be read: going on without it");
            rows.insert(key, error.to_string().chars().take(ERROR_CHARS).collect());
        }
    }

    /// Removes the record of a row that can be read.
    fn forget(&self, kind: &'static str, id: &str) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !rows.is_empty() {
            rows.remove(&(kind, id.to_owned()));
        }
    }

    /// Parses a column with JSON; `None` if it is empty or cannot be parsed.
    pub(super) fn json<T: DeserializeOwned>(&self, row: &AnyRow, column: &'static str, id: &str) -> Option<T> {
        let text = row.try_get::<Option<&str>, _>(column).map_err(|error| error.to_string());
        let value = text.and_then(|text| text.map(serde_json::from_str).transpose().map_err(|error| error.to_string()));
        match value {
            Ok(value) => {
                self.forget(column, id);
                value
            }
            Err(error) => {
                self.note(column, id, &error);
                None
            }
        }
    }

    /// Converts the error of an unreadable row to `None` and records it; returns other errors.
    pub(super) fn without<T>(
        &self,
        kind: &'static str,
        row: &AnyRow,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.is_unreadable() => {
                self.note(kind, &name(row), &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads all rows; records and skips the unreadable ones.
    pub(super) fn read_all<T>(
        &self,
        kind: &'static str,
        rows: &[AnyRow],
        read: impl Fn(&AnyRow) -> Result<T, StoreError>,
    ) -> Vec<T> {
        rows.iter().filter_map(|row| read(row).inspect_err(|error| self.note(kind, &name(row), error)).ok()).collect()
    }
}

/// Returns the name of a row for people.
fn name(row: &AnyRow) -> String {
    let column = |column| row.try_get::<String, _>(column).ok();
    column("id").or_else(|| column("incident_id")).or_else(|| column("url")).unwrap_or_else(|| "?".to_owned())
}

impl StoreError {
    /// Returns true if the store works, but the requested row cannot be decoded.
    pub fn is_unreadable(&self) -> bool {
        match self {
            Self::Unreadable { .. } => true,
            Self::Database(error) => errors::is_about_a_row(error),
            _ => false,
        }
    }
}

impl Store {
    /// Lists the rows that cannot be read now: kind, id and error.
    pub fn unreadable(&self) -> Vec<String> {
        let rows = self.unreadable.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = rows.iter().map(|((what, id), error)| format!("{what} of {id}: {error}"));
        named.chain(self.read.left_out().into_iter().map(|error| format!("a row: {error}"))).collect()
    }

    /// Sets aside an unreadable incident with its pending messages, so that it is not taken again and again. If the
    /// store fails too, its lease expires by itself.
    pub async fn set_incident_aside(&self, id: &str, why: &StoreError) {
        self.unreadable.note("incident", id, why);
        if let Err(error) = self.incident_aside(id, why).await {
            error!(incident.id = id, %error, "cannot set an unreadable incident aside");
        }
    }

    async fn incident_aside(&self, id: &str, why: &StoreError) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for sql in [
            "UPDATE incidents SET diagnose_due_ms = NULL WHERE id = $1",
            "UPDATE deliveries SET state = 'unreadable' WHERE incident_id = $1 AND state = 'pending'",
            "UPDATE posts SET state = 'unreadable' WHERE incident_id = $1 AND state = 'pending'",
        ] {
            sqlx::query(sql).bind(id).execute(&mut *tx).await?;
        }
        record_event(&mut tx, id, clock::unix_ms(self.now()), "set aside", &why.to_string()).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Sets aside a row of pending work. A row without a readable id stays as it is.
    pub(super) async fn set_aside(&self, what: &'static str, row: &AnyRow, why: &StoreError) -> Result<(), StoreError> {
        self.unreadable.note(what, &name(row), why);
        let of = |column| row.try_get::<String, _>(column).unwrap_or_default();
        let query = match what {
            "deliveries" => sqlx::query(
                "UPDATE deliveries SET state = 'unreadable', note = $1 WHERE incident_id = $2 AND sink = $3 AND channel = $4",
            )
            .binds((why.to_string(), of("incident_id"), of("sink")))
            .bind(of("channel")),
            // Without this row only a duplicate check is missing.
            "looks" => sqlx::query("DELETE FROM looks WHERE subject = $1 AND channel = $2")
                .bind(of("subject"))
                .bind(of("channel")),
            _ => sqlx::query(match what {
                "digests" => "UPDATE digests SET state = 'unreadable', note = $1 WHERE id = $2",
                "weeklies" => "UPDATE weeklies SET state = 'unreadable', note = $1 WHERE id = $2",
                _ => "UPDATE posts SET state = 'unreadable', note = $1 WHERE id = $2",
            })
            .bind(why.to_string())
            .bind(of("id")),
        };
        query.execute(&self.write).await?;
        Ok(())
    }
}

/// Makes rows pending that were set aside, at a start: another version may be able to read them.
pub(super) async fn try_again(db: &mut StoreConnection, now_ms: i64) -> Result<(), StoreError> {
    for sql in [
        "UPDATE deliveries SET state = 'pending', due_ms = $1 WHERE state = 'unreadable'",
        "UPDATE posts SET state = 'pending', due_ms = $1 WHERE state = 'unreadable'",
        "UPDATE digests SET state = 'pending', due_ms = $1 WHERE state = 'unreadable'",
        "UPDATE weeklies SET state = 'pending', due_ms = $1 WHERE state = 'unreadable'",
    ] {
        sqlx::query(sql).bind(now_ms).execute(&mut *db).await?;
    }
    Ok(())
}
