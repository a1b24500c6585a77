//! Refusals: which channels do not take messages, and what is to go out once they do.

use jiff::Timestamp;
use sqlx::Row;

use super::connections::Connection;
use super::mentions::Called;
use super::{Store, StoreError};
use crate::clock::{from_unix_ms, unix_ms};

/// A channel that does not take messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The channel as configured.
    pub channel: String,
    /// `not_in_channel`, `is_archived`, …
    pub code: String,
    /// Since when.
    pub since: Timestamp,
    /// When it was looked at last.
    pub checked: Timestamp,
    /// How many messages wait for it.
    pub waiting: i64,
}

impl Store {
    /// Slack refuses messages for a channel.
    ///
    /// # Errors
    /// When the store fails; here and below.
    pub async fn refused(&self, channel: &str, code: &str, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO refusals (channel, code, since_ms, checked_ms) VALUES ($1, $2, $3, $3)
             ON CONFLICT (channel) DO UPDATE SET code = excluded.code, checked_ms = excluded.checked_ms",
        )
        .bind(channel)
        .bind(code)
        .bind(unix_ms(now))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// The channels that do not take messages, by name.
    ///
    /// # Errors
    /// See [`Self::refused`].
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

    /// Whether it is ours to tell people of a channel's refusal: true once, until [`Self::untold`].
    ///
    /// # Errors
    /// See [`Self::refused`].
    pub async fn tell_of_refusal(&self, channel: &str, now: Timestamp) -> Result<bool, StoreError> {
        let claim = sqlx::query("UPDATE refusals SET told_ms = $2 WHERE channel = $1 AND told_ms IS NULL");
        Ok(claim.bind(channel).bind(unix_ms(now)).execute(&self.write).await?.rows_affected() > 0)
    }

    /// Nobody could be told of a channel's refusal: the next one tries again.
    ///
    /// # Errors
    /// See [`Self::refused`].
    pub async fn untold(&self, channel: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE refusals SET told_ms = NULL WHERE channel = $1").bind(channel).execute(&self.write).await?;
        Ok(())
    }

    /// The channel takes messages again: what waits for it is due. False when that was known.
    ///
    /// # Errors
    /// See [`Self::refused`].
    pub async fn accepted(&self, channel: &str, now: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let ended = accepts(&mut tx, channel, unix_ms(now)).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// An incident's message stands in another channel too, while `channel` does not take it; once, however often it is
    /// refused.
    ///
    /// # Errors
    /// See [`Self::refused`].
    pub async fn stand_in(
        &self,
        incident: &str,
        channel: &str,
        other: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        // Who waits for a call in the closed channel is called in the other one.
        let waiting: Vec<String> = sqlx::query_scalar(
            "SELECT body FROM posts WHERE incident_id = $1 AND kind = 'mention' AND state = 'pending' AND channel = $2",
        )
        .bind(incident)
        .bind(channel)
        .fetch_all(&mut *tx)
        .await?;
        let called: Option<Option<String>> = sqlx::query_scalar(
            "SELECT mentioned FROM deliveries WHERE incident_id = $1 AND sink = 'slack' AND channel = $2",
        )
        .bind(incident)
        .bind(channel)
        .fetch_optional(&mut *tx)
        .await?;
        let called = Called::read(called.flatten().as_deref()).without(&waiting);
        let made = sqlx::query(
            "INSERT INTO deliveries (incident_id, sink, channel, state, due_ms, told, mentioned_ms, mentioned, stands_in_for)
             SELECT incident_id, sink, $3, 'pending', CAST($4 AS BIGINT), told, mentioned_ms, $5, channel FROM deliveries
             WHERE incident_id = $1 AND sink = 'slack' AND channel = $2 AND digest_id IS NULL
             ON CONFLICT (incident_id, sink, channel) DO NOTHING",
        )
        .bind(incident)
        .bind(channel)
        .bind(other)
        .bind(unix_ms(now))
        .bind(called.to_string())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(made.rows_affected() > 0)
    }
}

/// A channel has taken a message: its refusal is over, and whatever waits for it is due. What somebody is posting at this
/// moment has an owner and keeps its lease.
pub(super) async fn accepts(db: &mut Connection, channel: &str, now_ms: i64) -> Result<bool, StoreError> {
    let ended = sqlx::query("DELETE FROM refusals WHERE channel = $1").bind(channel).execute(&mut *db).await?;
    if ended.rows_affected() == 0 {
        return Ok(false);
    }
    for hasten in [
        "UPDATE deliveries SET due_ms = $2
         WHERE sink = 'slack' AND channel = $1 AND state = 'pending' AND tries > 0 AND owner IS NULL AND due_ms > $2",
        "UPDATE digests SET due_ms = $2
         WHERE channel = $1 AND state = 'pending' AND tries > 0 AND owner IS NULL AND due_ms > $2",
        "UPDATE posts SET due_ms = $2
         WHERE state = 'pending' AND tries > 0 AND owner IS NULL AND due_ms > $2
           AND incident_id IN (SELECT incident_id FROM deliveries WHERE sink = 'slack' AND channel = $1)",
    ] {
        sqlx::query(hasten).bind(channel).bind(now_ms).execute(&mut *db).await?;
    }
    Ok(true)
}
