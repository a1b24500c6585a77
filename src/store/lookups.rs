//! What people ask of the past: which incidents, where their messages stand, what happened, and who found it right.

use jiff::Timestamp;
use sqlx::Row;

use super::{Store, StoreError};
use crate::clock::{from_unix_ms, unix_ms};

/// Something that happened to an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: String,
    /// More of it.
    pub detail: String,
}

impl Store {
    /// The ids of incidents that are open, or of those that opened since a moment; newest first.
    ///
    /// # Errors
    /// When the store fails; here and below.
    pub async fn incidents(&self, open: bool, since: Option<Timestamp>, most: u32) -> Result<Vec<String>, StoreError> {
        let ids = sqlx::query_scalar(
            "SELECT id FROM incidents WHERE (state = 'open' OR $1 = 0) AND opened_ms >= $2
             ORDER BY opened_ms DESC, id DESC LIMIT $3",
        );
        let since = since.map_or(i64::MIN, unix_ms);
        Ok(ids.bind(i64::from(open)).bind(since).bind(i64::from(most)).fetch_all(&self.read).await?)
    }

    /// The incident whose message stands there; of several in one digest none.
    ///
    /// # Errors
    /// See [`Self::incidents`].
    pub async fn incident_at(&self, channel: &str, ts: &str) -> Result<Option<String>, StoreError> {
        let ids = sqlx::query_scalar(
            "SELECT incident_id FROM deliveries WHERE posted_to = $1 AND posted_ts = $2 AND digest_id IS NULL LIMIT 1",
        );
        Ok(ids.bind(channel).bind(ts).fetch_optional(&self.read).await?)
    }

    /// What happened to an incident, oldest first.
    ///
    /// # Errors
    /// See [`Self::incidents`].
    pub async fn events(&self, incident: &str, most: u32) -> Result<Vec<Event>, StoreError> {
        let rows = sqlx::query("SELECT at_ms, what, detail FROM events WHERE incident_id = $1 ORDER BY at_ms LIMIT $2");
        let rows = rows.bind(incident).bind(i64::from(most)).fetch_all(&self.read).await?;
        rows.iter()
            .map(|row| {
                let at = from_unix_ms(row.try_get("at_ms")?);
                Ok(Event { at, what: row.try_get("what")?, detail: row.try_get("detail")? })
            })
            .collect()
    }

    /// How many incidents' causes people found right, and how many wrong; of several people the last word counts.
    ///
    /// # Errors
    /// See [`Self::incidents`].
    pub async fn found_right(&self) -> Result<(i64, i64), StoreError> {
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(f.is_right), 0) AS BIGINT) AS yes, CAST(COUNT(*) - COALESCE(SUM(f.is_right), 0) AS BIGINT) AS no
             FROM feedback f WHERE NOT EXISTS
               (SELECT 1 FROM feedback later WHERE later.incident_id = f.incident_id
                AND (later.at_ms > f.at_ms OR (later.at_ms = f.at_ms AND later.who > f.who)))",
        );
        let row = row.fetch_one(&self.read).await?;
        Ok((row.try_get("yes")?, row.try_get("no")?))
    }
}
