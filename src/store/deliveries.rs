//! Deliveries: which message of which incident stands where, and what is due.

use jiff::Timestamp;
use sqlx::Row;

use super::admission::event;
use super::{Store, StoreError};
use crate::clock::unix_ms;

/// Where messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sink {
    /// A Slack channel.
    Slack,
    /// Standard output.
    Console,
    /// One of `pagers`, by name.
    Pager,
}

impl Sink {
    /// As the store and metrics keep it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Console => "console",
            Self::Pager => "pager",
        }
    }

    fn of(text: &str) -> Self {
        match text {
            "slack" => Self::Slack,
            "pager" => Self::Pager,
            _ => Self::Console,
        }
    }
}

/// A message that is to be posted or brought up to date.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The incident.
    pub incident: String,
    /// Where to.
    pub sink: Sink,
    /// The channel as configured.
    pub channel: String,
    /// Slack's channel id and timestamp of the message that stands already.
    pub posted: Option<(String, String)>,
    /// How often in a row it failed before.
    pub tries: u32,
}

impl Store {
    /// Deliveries that are due: new messages first, then the longest waiting. They are put off by `lease_ms`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take_deliveries(&self, now: Timestamp, lease_ms: i64, most: u32) -> Result<Vec<Delivery>, StoreError> {
        let rows = sqlx::query(self.engine.sql(
            "WITH due AS (SELECT d.incident_id, d.sink, d.channel FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                WHERE d.state = 'pending' AND d.due_ms <= $1 AND d.revision < i.revision
                ORDER BY CASE WHEN d.posted_ts IS NULL THEN 0 ELSE 1 END, d.due_ms LIMIT $3
                /*postgres FOR UPDATE OF d SKIP LOCKED*/)
             UPDATE deliveries SET due_ms = $1 + $2, owner = $4
             WHERE (incident_id, sink, channel) IN (SELECT incident_id, sink, channel FROM due)
             RETURNING incident_id, sink, channel, posted_to, posted_ts, tries",
        ))
        .bind(unix_ms(now))
        .bind(lease_ms)
        .bind(i64::from(most))
        .bind(&*self.me)
        .fetch_all(&self.write)
        .await?;
        rows.iter()
            .map(|row| {
                let tries: i64 = row.try_get("tries")?;
                let to: Option<String> = row.try_get("posted_to")?;
                let ts: Option<String> = row.try_get("posted_ts")?;
                Ok(Delivery {
                    incident: row.try_get("incident_id")?,
                    sink: Sink::of(row.try_get("sink")?),
                    channel: row.try_get("channel")?,
                    posted: to.zip(ts),
                    tries: u32::try_from(tries).unwrap_or(u32::MAX),
                })
            })
            .collect()
    }

    /// A revision stands where it belongs.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delivered(
        &self,
        delivery: &Delivery,
        posted: Option<&(String, String)>,
        revision: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE deliveries SET posted_to = $3, posted_ts = $4, revision = $5, due_ms = $6, tries = 0, note = NULL
             WHERE incident_id = $1 AND sink = $2 AND channel = $7",
        )
        .bind(&delivery.incident)
        .bind(delivery.sink.as_str())
        .bind(posted.map(|(to, _)| to))
        .bind(posted.map(|(_, ts)| ts))
        .bind(revision)
        .bind(unix_ms(now))
        .bind(&delivery.channel)
        .execute(&mut *tx)
        .await?;
        let what = if delivery.posted.is_none() { "posted" } else { "updated" };
        event(&mut tx, &delivery.incident, unix_ms(now), what, delivery.sink.as_str()).await?;
        tx.commit().await?;
        Ok(())
    }

    /// The message is gone: the next try posts a new one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_message(&self, delivery: &Delivery, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query("UPDATE deliveries SET posted_to = NULL, posted_ts = NULL, due_ms = $3 WHERE incident_id = $1 AND sink = $2 AND channel = $4")
            .bind(&delivery.incident)
            .bind(delivery.sink.as_str())
            .bind(unix_ms(now))
            .bind(&delivery.channel)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Not now: try again at `due`. `counts` when it failed, not when it only had to wait its turn.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn postpone(
        &self,
        delivery: &Delivery,
        due: Timestamp,
        counts: bool,
        note: &str,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE deliveries SET due_ms = $3, tries = tries + $4, note = $5 WHERE incident_id = $1 AND sink = $2 AND channel = $6",
        )
        .bind(&delivery.incident)
        .bind(delivery.sink.as_str())
        .bind(unix_ms(due))
        .bind(i64::from(counts))
        .bind(note)
        .bind(&delivery.channel)
            .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Another channel takes the message.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn reroute(&self, delivery: &Delivery, channel: &str, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE deliveries SET channel = $3, posted_to = NULL, posted_ts = NULL, due_ms = $4
             WHERE incident_id = $1 AND sink = $2 AND channel = $5",
        )
        .bind(&delivery.incident)
        .bind(delivery.sink.as_str())
        .bind(channel)
        .bind(unix_ms(now))
        .bind(&delivery.channel)
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Somebody escalates: this pager hears of the incident too, or once more when it had given up.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn page(&self, incident: &str, pager: &str, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO deliveries (incident_id, sink, channel, state, due_ms) VALUES ($1, 'pager', $2, 'pending', $3)
             ON CONFLICT (incident_id, sink, channel) DO UPDATE SET state = 'pending', tries = 0, revision = 0, due_ms = excluded.due_ms",
        )
        .bind(incident)
        .bind(pager)
        .bind(unix_ms(now))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// When the next diagnosis or delivery is due.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn next_due(&self) -> Result<(Option<i64>, Option<i64>), StoreError> {
        let row = sqlx::query(
            "SELECT (SELECT MIN(diagnose_due_ms) FROM incidents WHERE diagnose_due_ms IS NOT NULL) AS diagnosis,
                    (SELECT MIN(d.due_ms) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                       WHERE d.state = 'pending' AND d.revision < i.revision) AS delivery",
        )
        .fetch_one(&self.read)
        .await?;
        Ok((row.try_get("diagnosis")?, row.try_get("delivery")?))
    }

    /// Given up, with the reason; a later change of the incident tries again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn give_up(&self, delivery: &Delivery, note: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE deliveries SET state = 'failed', note = $3 WHERE incident_id = $1 AND sink = $2 AND channel = $4",
        )
        .bind(&delivery.incident)
        .bind(delivery.sink.as_str())
        .bind(note)
        .bind(&delivery.channel)
        .execute(&mut *tx)
        .await?;
        event(&mut tx, &delivery.incident, unix_ms(now), "delivery failed", note).await?;
        tx.commit().await?;
        Ok(())
    }
}
