//! Unreadable rows: one that holds what this version cannot read is left out or set aside, and stops nothing else.
//!
//! Whatever can be made again is left out: an incident without its diagnosis is diagnosed once more, which writes over it.
//! What waits to be said and cannot be read is set aside in the store (`unreadable`), because it would stand before the
//! others for ever; the next start, and news of its incident, try it again.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::any::AnyRow;
use tracing::error;

use super::admission::event;
use super::connections::Connection;
use super::{Incident, Store, StoreError, trouble};
use crate::clock;

/// Rows that are remembered by name.
const MOST: usize = 1_000;
/// Characters of an error that are kept.
const ERROR_CHARS: usize = 300;

/// Which rows could not be read, by what they are and whose: why.
#[derive(Debug, Clone, Default)]
pub(super) struct Unreadable(Arc<Mutex<BTreeMap<(&'static str, String), String>>>);

impl Unreadable {
    /// Remembers a row, and says so the first time.
    pub(super) fn note(&self, what: &'static str, id: &str, error: &dyn Display) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (what, id.to_owned());
        if rows.len() < MOST && !rows.contains_key(&key) {
            error!(what, id, %error, "a row of the store cannot be read: going on without it");
            rows.insert(key, error.to_string().chars().take(ERROR_CHARS).collect());
        }
    }

    /// It can be read, again or as ever.
    fn forget(&self, what: &'static str, id: &str) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !rows.is_empty() {
            rows.remove(&(what, id.to_owned()));
        }
    }

    /// A column with JSON; none when it is empty or cannot be read.
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

    /// What was read of a row; none when it cannot be.
    pub(super) fn without<T>(
        &self,
        what: &'static str,
        row: &AnyRow,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.is_unreadable() => {
                self.note(what, &name(row), &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The rows that can be read.
    pub(super) fn rest<T>(
        &self,
        what: &'static str,
        rows: &[AnyRow],
        read: impl Fn(&AnyRow) -> Result<T, StoreError>,
    ) -> Vec<T> {
        rows.iter().filter_map(|row| read(row).inspect_err(|error| self.note(what, &name(row), error)).ok()).collect()
    }
}

/// The name of a row, for people.
fn name(row: &AnyRow) -> String {
    let of = |column| row.try_get::<String, _>(column).ok();
    of("id").or_else(|| of("incident_id")).or_else(|| of("url")).unwrap_or_else(|| "?".to_owned())
}

impl StoreError {
    /// Whether the store works, and holds something unreadable in the very row that was asked for.
    pub fn is_unreadable(&self) -> bool {
        match self {
            Self::Unreadable { .. } => true,
            Self::Database(error) => trouble::is_about_a_row(error),
            _ => false,
        }
    }
}

impl Store {
    /// What could not be read since the start and has not been since: what it is, of which incident, and why.
    pub fn unreadable(&self) -> Vec<String> {
        let rows = self.unreadable.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = rows.iter().map(|((what, id), error)| format!("{what} of {id}: {error}"));
        named.chain(self.read.left_out().into_iter().map(|error| format!("a row: {error}"))).collect()
    }

    /// The incidents with these ids, in their order; those that are gone or cannot be read are left out.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn each(&self, ids: &[String]) -> Result<Vec<Incident>, StoreError> {
        let mut incidents = Vec::with_capacity(ids.len());
        for id in ids {
            match self.incident(id).await {
                Ok(incident) => incidents.extend(incident),
                Err(error) if error.is_unreadable() => self.unreadable.note("incident", id, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(incidents)
    }

    /// Sets aside an incident that cannot be read, with what waits to be said of it, so that nobody takes it again and
    /// again. When the store fails too, its lease ends by itself.
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
        event(&mut tx, id, clock::unix_ms(self.now()), "set aside", &why.to_string()).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Sets aside a row that waits to be said. One without a readable name stays where it is.
    pub(super) async fn set_aside(&self, what: &'static str, row: &AnyRow, why: &StoreError) -> Result<(), StoreError> {
        self.unreadable.note(what, &name(row), why);
        let of = |column| row.try_get::<String, _>(column).unwrap_or_default();
        let query = match what {
            "deliveries" => sqlx::query(
                "UPDATE deliveries SET state = 'unreadable', note = $1 WHERE incident_id = $2 AND sink = $3 AND channel = $4",
            )
            .bind(why.to_string())
            .bind(of("incident_id"))
            .bind(of("sink"))
            .bind(of("channel")),
            "digests" => sqlx::query("UPDATE digests SET state = 'unreadable', note = $1 WHERE id = $2")
                .bind(why.to_string())
                .bind(of("id")),
            // It would be looked for at most; nothing is lost without.
            "looks" => sqlx::query("DELETE FROM looks WHERE subject = $1 AND channel = $2")
                .bind(of("subject"))
                .bind(of("channel")),
            _ => sqlx::query("UPDATE posts SET state = 'unreadable', note = $1 WHERE id = $2")
                .bind(why.to_string())
                .bind(of("id")),
        };
        query.execute(&self.write).await?;
        Ok(())
    }
}

/// At a start: another version may read what the last one could not.
pub(super) async fn try_again(db: &mut Connection, now_ms: i64) -> Result<(), StoreError> {
    for sql in [
        "UPDATE deliveries SET state = 'pending', due_ms = $1 WHERE state = 'unreadable'",
        "UPDATE posts SET state = 'pending', due_ms = $1 WHERE state = 'unreadable'",
        "UPDATE digests SET state = 'pending', due_ms = $1 WHERE state = 'unreadable'",
    ] {
        sqlx::query(sql).bind(now_ms).execute(&mut *db).await?;
    }
    Ok(())
}
