//! Refusals: channels that refuse messages, and the messages that wait for them.

use jiff::Timestamp;
use sqlx::Row;

use super::connections::StoreConnection;
use super::mentions::CalledPeople;
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};

/// A channel that refuses messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The channel as configured.
    pub channel: String,
    /// Slack's error code: `not_in_channel`, `is_archived`, …
    pub code: String,
    /// The time of the first refusal.
    pub since: Timestamp,
    /// The time of the last check.
    pub checked: Timestamp,
    /// Number of messages that wait for the channel.
    pub waiting: i64,
}

impl Store {
    /// Records that Slack refuses messages for a channel.
    pub async fn refused(&self, channel: &str, code: &str, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO refusals (channel, code, since_ms, checked_ms) VALUES ($1, $2, $3, $3)
             ON CONFLICT (channel) DO UPDATE SET code = excluded.code, checked_ms = excluded.checked_ms",
        )
        .binds((channel, code, unix_ms(now)))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Returns the channels that refuse messages, by name.
    pub async fn refusals(&self) -> Result<Vec<Refusal>, StoreError> {
        let rows = sqlx::query(
            "SELECT channel, code, since_ms, checked_ms,
                    (SELECT COUNT(*) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                       WHERE d.sink = 'slack' AND d.channel = refusals.channel AND d.state = 'pending'
                         AND d.revision < i.revision) AS waiting
             FROM refusals ORDER BY channel",
        )
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Refusal {
                    channel: row.try_get("channel")?,
                    code: row.try_get("code")?,
                    since: from_unix_ms(row.try_get("since_ms")?),
                    checked: from_unix_ms(row.try_get("checked_ms")?),
                    waiting: row.try_get("waiting")?,
                })
            })
            .collect()
    }

    /// Claims the report of a channel's refusal to people. Returns true for one caller, until
    /// [`Self::release_refusal_report`].
    pub async fn claim_refusal_report(&self, channel: &str, now: Timestamp) -> Result<bool, StoreError> {
        let claim = sqlx::query("UPDATE refusals SET told_ms = $2 WHERE channel = $1 AND told_ms IS NULL");
        Ok(claim.bind(channel).bind(unix_ms(now)).execute(&self.write).await?.rows_affected() > 0)
    }

    /// Releases the claim, because nobody could be informed; the next caller tries again.
    pub async fn release_refusal_report(&self, channel: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE refusals SET told_ms = NULL WHERE channel = $1").bind(channel).execute(&self.write).await?;
        Ok(())
    }

    /// Ends a refusal and makes the waiting messages due. Returns false if there was no refusal.
    pub async fn accepted(&self, channel: &str, now: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let ended = accepts(&mut tx, channel, unix_ms(now)).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Adds a delivery of an incident to `other` while `channel` refuses it; only once. Returns true if it was added.
    pub async fn stand_in(
        &self,
        incident: &str,
        channel: &str,
        other: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        // People who still wait for a call in the closed channel are called in the other one.
        let waiting: Vec<String> = sqlx::query_scalar(
            "SELECT body FROM posts WHERE incident_id = $1 AND kind = 'mention' AND state = 'pending' AND channel = $2",
        )
        .binds((incident, channel))
        .fetch_all(&mut *tx)
        .await?;
        let called: Option<Option<String>> = sqlx::query_scalar(
            "SELECT mentioned FROM deliveries WHERE incident_id = $1 AND sink = 'slack' AND channel = $2",
        )
        .binds((incident, channel))
        .fetch_optional(&mut *tx)
        .await?;
        let called = CalledPeople::read(&called.flatten().unwrap_or_default()).without(&waiting);
        let insert = sqlx::query(
            "INSERT INTO deliveries (incident_id, sink, channel, state, due_ms, told, mentioned_ms, mentioned, stands_in_for)
             SELECT incident_id, sink, $3, 'pending', CAST($4 AS BIGINT), told, mentioned_ms, $5, channel FROM deliveries
             WHERE incident_id = $1 AND sink = 'slack' AND channel = $2 AND digest_id IS NULL
             ON CONFLICT (incident_id, sink, channel) DO UPDATE SET state = 'pending', note = NULL, due_ms = excluded.due_ms,
               told = excluded.told, mentioned_ms = excluded.mentioned_ms, mentioned = excluded.mentioned,
               stands_in_for = excluded.stands_in_for WHERE deliveries.state = 'filtered'",
        )
        .binds((incident, channel, other, unix_ms(now), called.to_string()))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(insert.rows_affected() > 0)
    }
}

/// Ends the refusal of a channel that has accepted a message, and makes all waiting work due. Work that is being posted
/// at this moment has an owner and keeps its lease. A digest that failed has a note: an incident that joins it resets its
/// tries.
pub(super) async fn accepts(db: &mut StoreConnection, channel: &str, now_ms: i64) -> Result<bool, StoreError> {
    let ended = sqlx::query("DELETE FROM refusals WHERE channel = $1").bind(channel).execute(&mut *db).await?;
    if ended.rows_affected() == 0 {
        return Ok(false);
    }
    for hasten in [
        "UPDATE deliveries SET due_ms = $2
         WHERE sink = 'slack' AND channel = $1 AND state = 'pending' AND tries > 0 AND owner IS NULL AND due_ms > $2",
        "UPDATE digests SET due_ms = $2
         WHERE channel = $1 AND state = 'pending' AND note IS NOT NULL AND owner IS NULL AND due_ms > $2",
        "UPDATE weeklies SET due_ms = $2 WHERE channel = $1 AND state = 'pending' AND tries > 0 AND owner IS NULL AND due_ms > $2",
        "UPDATE posts SET due_ms = $2
         WHERE state = 'pending' AND tries > 0 AND owner IS NULL AND due_ms > $2
           AND incident_id IN (SELECT incident_id FROM deliveries WHERE sink = 'slack' AND channel = $1)",
    ] {
        sqlx::query(hasten).bind(channel).bind(now_ms).execute(&mut *db).await?;
    }
    Ok(true)
}
