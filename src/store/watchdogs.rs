//! The always-firing alerts of the expected Alertmanagers: when each was received last.

use jiff::Timestamp;
use sqlx::Row;

use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};

/// The notifications that all replicas received of one Alertmanager's always-firing alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watchdog {
    /// The name of the source.
    pub source: String,
    /// The time from which it is expected.
    pub expected_at: Timestamp,
    /// The last notification that said firing; `None` before the first.
    pub seen_at: Option<Timestamp>,
    /// The first notification since then that said resolved; `None` while the alert fires.
    pub ended_at: Option<Timestamp>,
}

/// An open incident, as far as the next notification of its group needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIncident {
    /// The incident's id.
    pub id: String,
    /// Its source.
    pub source: String,
    /// The time of its last notification.
    pub notified_at: Timestamp,
}

impl Store {
    /// Expects these sources and no others: those that are expected already keep their times, others are forgotten. All
    /// replicas must have the same sources: while they differ, during a rolling update, silence is not noticed. A time in
    /// the future, written by a clock that was ahead, becomes `now`.
    pub async fn expect_watchdogs(&self, sources: &[String], now: Timestamp) -> Result<(), StoreError> {
        let known = self.watchdogs().await?;
        for Watchdog { source, .. } in known.iter().filter(|known| !sources.contains(&known.source)) {
            sqlx::query("DELETE FROM watchdogs WHERE source = $1").bind(source).execute(&self.write).await?;
        }
        for source in sources.iter().filter(|source| !known.iter().any(|known| known.source == **source)) {
            let insert = "INSERT INTO watchdogs (source, expected_ms) VALUES ($1, $2) ON CONFLICT (source) DO NOTHING";
            sqlx::query(insert).bind(source).bind(unix_ms(now)).execute(&self.write).await?;
        }
        if known.iter().any(|known| known.expected_at > now || known.seen_at.is_some_and(|at| at > now)) {
            for ahead in [
                "UPDATE watchdogs SET expected_ms = $1 WHERE expected_ms > $1",
                "UPDATE watchdogs SET seen_ms = $1 WHERE seen_ms > $1",
            ] {
                sqlx::query(ahead).bind(unix_ms(now)).execute(&self.write).await?;
            }
        }
        Ok(())
    }

    /// Records a notification of the always-firing alert; it survives a power cut.
    pub async fn record_watchdog(&self, source: &str, firing: bool, now: Timestamp) -> Result<(), StoreError> {
        let record = match firing {
            true => {
                "INSERT INTO watchdogs (source, expected_ms, seen_ms) VALUES ($1, $2, $2)
                 ON CONFLICT (source) DO UPDATE SET seen_ms = excluded.seen_ms, ended_ms = NULL"
            }
            false => {
                "INSERT INTO watchdogs (source, expected_ms, ended_ms) VALUES ($1, $2, $2)
                 ON CONFLICT (source) DO UPDATE SET ended_ms = COALESCE(watchdogs.ended_ms, excluded.ended_ms)"
            }
        };
        sqlx::query(record).bind(source).bind(unix_ms(now)).execute(&self.durable).await?;
        Ok(())
    }

    /// Returns the expected sources, by name.
    pub async fn watchdogs(&self) -> Result<Vec<Watchdog>, StoreError> {
        let rows = sqlx::query("SELECT source, expected_ms, seen_ms, ended_ms FROM watchdogs ORDER BY source");
        let rows = rows.fetch_all(&self.read).await?;
        Ok(self.unreadable.read_all("watchdog", &rows, |row| {
            Ok(Watchdog {
                source: row.try_get("source")?,
                expected_at: from_unix_ms(row.try_get("expected_ms")?),
                seen_at: row.try_get::<Option<i64>, _>("seen_ms")?.map(from_unix_ms),
                ended_at: row.try_get::<Option<i64>, _>("ended_ms")?.map(from_unix_ms),
            })
        }))
    }

    /// Returns the open incidents of a group key, of all sources.
    pub async fn open_of_group(&self, group_key: &str) -> Result<Vec<OpenIncident>, StoreError> {
        let rows = sqlx::query("SELECT id, source, notified_ms FROM incidents WHERE group_key = $1 AND state = 'open'");
        let rows = rows.bind(group_key).fetch_all(&self.read).await?;
        Ok(self.unreadable.read_all("incident", &rows, |row| {
            Ok(OpenIncident {
                id: row.try_get("id")?,
                source: row.try_get::<Option<String>, _>("source")?.unwrap_or_default(),
                notified_at: from_unix_ms(row.try_get("notified_ms")?),
            })
        }))
    }
}
