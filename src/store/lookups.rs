//! Queries of past incidents: ids, messages, events and feedback.

use jiff::Timestamp;
use sqlx::Row;

use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};

/// An event in the history of an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentEvent {
    /// The time of the event.
    pub at: Timestamp,
    /// The kind of event.
    pub what: String,
    /// Additional information.
    pub detail: String,
}

/// The message of an incident in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageState {
    /// The sink: `slack`, `console`, `pager`.
    pub sink: String,
    /// The channel as configured.
    pub channel: String,
    /// The chat's ids of channel and message; `None` until it is posted.
    pub posted: Option<(String, String)>,
    /// True if it was posted.
    pub is_posted: bool,
    /// True if it shows the incident's newest revision.
    pub is_current: bool,
    /// The last problem.
    pub note: Option<String>,
}

impl Store {
    /// Returns the messages of an incident, by sink and channel.
    pub async fn messages_of(&self, incident: &str) -> Result<Vec<MessageState>, StoreError> {
        let rows = sqlx::query(
            "SELECT d.sink, d.channel, d.posted_to, d.posted_ts, d.revision, d.note, i.revision AS newest
             FROM deliveries d JOIN incidents i ON i.id = d.incident_id
             WHERE d.incident_id = $1 ORDER BY d.sink, d.channel",
        );
        let rows = rows.bind(incident).fetch_all(&self.read).await?;
        rows.iter()
            .map(|row| {
                let (to, ts): (Option<String>, Option<String>) = (row.try_get("posted_to")?, row.try_get("posted_ts")?);
                let (revision, newest): (i64, i64) = (row.try_get("revision")?, row.try_get("newest")?);
                Ok(MessageState {
                    sink: row.try_get("sink")?,
                    channel: row.try_get("channel")?,
                    posted: to.zip(ts),
                    is_posted: revision > 0,
                    is_current: revision >= newest,
                    note: row.try_get("note")?,
                })
            })
            .collect()
    }

    /// Returns the ids of incidents, newest first: only open ones if `open`, only those opened since `since` if given.
    pub async fn incidents(&self, open: bool, since: Option<Timestamp>, most: u32) -> Result<Vec<String>, StoreError> {
        let ids = sqlx::query_scalar(
            "SELECT id FROM incidents WHERE (state = 'open' OR $1 = 0) AND opened_ms >= $2
             ORDER BY opened_ms DESC, id DESC LIMIT $3",
        );
        let since = since.map_or(i64::MIN, unix_ms);
        Ok(ids.bind(i64::from(open)).bind(since).bind(i64::from(most)).fetch_all(&self.read).await?)
    }

    /// Returns the incident with this message; `None` for the message of a digest.
    pub async fn incident_at(&self, channel: &str, ts: &str) -> Result<Option<String>, StoreError> {
        let ids = sqlx::query_scalar(
            "SELECT incident_id FROM deliveries WHERE posted_to = $1 AND posted_ts = $2 AND digest_id IS NULL LIMIT 1",
        );
        Ok(ids.bind(channel).bind(ts).fetch_optional(&self.read).await?)
    }

    /// Returns the events of an incident, oldest first.
    pub async fn events(&self, incident: &str, most: u32) -> Result<Vec<IncidentEvent>, StoreError> {
        let rows = sqlx::query("SELECT at_ms, what, detail FROM events WHERE incident_id = $1 ORDER BY at_ms LIMIT $2");
        let rows = rows.bind(incident).bind(i64::from(most)).fetch_all(&self.read).await?;
        rows.iter()
            .map(|row| {
                let at = from_unix_ms(row.try_get("at_ms")?);
                Ok(IncidentEvent { at, what: row.try_get("what")?, detail: row.try_get("detail")? })
            })
            .collect()
    }

    /// Returns the number of incidents whose cause was rated right and wrong; the last rating of an incident counts.
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
