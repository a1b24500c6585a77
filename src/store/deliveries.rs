//! Deliveries: which message of which incident stands where, and what is due.

use jiff::Timestamp;
use sqlx::Row;

use super::admission::event;
use super::connections::Connection;
use super::mentions::{Called, Mention};
use super::refusals::accepts;
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

    pub(super) fn of(text: &str) -> Self {
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
    /// Who was called since the incident became critical.
    pub called: Called,
    /// The line of the audit log that asks this pager to call somebody.
    pub escalation: Option<String>,
    /// What the thread has been told last, as the one who told it wrote it.
    pub told: Option<String>,
    /// Since when it was being posted before, without a known result: it may stand in Slack already.
    pub began: Option<Timestamp>,
}

/// Why something is not delivered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It waits for something.
    Waits,
    /// It failed, and does not stand.
    Failed,
    /// It failed, and may stand all the same: the answer was lost.
    Unknown,
}

impl Held {
    /// What a failure means; `lost` when its answer was lost.
    pub fn failed(lost: bool) -> Self {
        if lost { Self::Unknown } else { Self::Failed }
    }

    /// Whether the mark of a post that began stays: also an earlier post's.
    pub(super) fn keeps(self, began: Option<Timestamp>) -> i64 {
        i64::from(self == Self::Unknown || began.is_some())
    }
}

/// What a new message did besides standing there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// It mentioned somebody.
    pub mention: Option<Mention>,
    /// From what on the thread is to be told changes.
    pub told: Option<String>,
}

impl Store {
    /// A revision stands where it belongs. What the thread was told before stays told, and a call that somebody asked for
    /// meanwhile is still to be made.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delivered(
        &self,
        delivery: &Delivery,
        posted: Option<&(String, String)>,
        revision: i64,
        said: &Said,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.still(&mut tx, &delivery.incident).await?;
        sqlx::query(
            "UPDATE deliveries SET posted_to = $4, posted_ts = $5, due_ms = $7, tries = 0, note = NULL,
               revision = CASE WHEN escalation IS NULL THEN $6 ELSE 0 END, began_ms = NULL,
               told = COALESCE(told, $8), mentioned_ms = COALESCE($9, mentioned_ms),
               mentioned = COALESCE($10, mentioned), owner = NULL,
               state = CASE WHEN state = 'pending' AND escalation IS NULL
                              AND $6 >= (SELECT revision FROM incidents WHERE id = $1)
                            THEN 'delivered' ELSE state END
             WHERE incident_id = $1 AND sink = $2 AND channel = $3",
        )
        .bind(&delivery.incident)
        .bind(delivery.sink.as_str())
        .bind(&delivery.channel)
        .bind(posted.map(|(to, _)| to))
        .bind(posted.map(|(_, ts)| ts))
        .bind(revision)
        .bind(unix_ms(now))
        .bind(&said.told)
        .bind(said.mention.as_ref().map(|mention| unix_ms(mention.since)))
        .bind(said.mention.as_ref().map(|mention| mention.called.to_string()))
        .execute(&mut *tx)
        .await?;
        // An edit says nothing of posts: a channel may take the one and refuse the other.
        if delivery.sink == Sink::Slack && delivery.posted.is_none() {
            accepts(&mut tx, &delivery.channel, unix_ms(now)).await?;
        }
        let what = if delivery.posted.is_none() { "posted" } else { "updated" };
        event(&mut tx, &delivery.incident, unix_ms(now), what, delivery.sink.as_str()).await?;
        tx.commit().await?;
        Ok(())
    }

    /// A message that was posted before, and whose answer was lost, has been found: it is the incident's, and brought up
    /// to date. False when another one stands there meanwhile.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn found_message(
        &self,
        incident: &str,
        channel: &str,
        posted: &(String, String),
        said: &Said,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let found = sqlx::query(
            "UPDATE deliveries SET posted_to = $3, posted_ts = $4, revision = 0, due_ms = $5, tries = 0, note = NULL,
               told = COALESCE(told, $6), mentioned_ms = COALESCE($7, mentioned_ms),
               mentioned = COALESCE($8, mentioned), owner = NULL, began_ms = NULL,
               state = CASE WHEN state = 'failed' THEN 'pending' ELSE state END
             WHERE incident_id = $1 AND sink = 'slack' AND channel = $2 AND posted_ts IS NULL
               AND state IN ('pending', 'failed')",
        )
        .bind(incident)
        .bind(channel)
        .bind(&posted.0)
        .bind(&posted.1)
        .bind(unix_ms(now))
        .bind(&said.told)
        .bind(said.mention.as_ref().map(|mention| unix_ms(mention.since)))
        .bind(said.mention.as_ref().map(|mention| mention.called.to_string()))
        .execute(&mut *tx)
        .await?
        .rows_affected()
            > 0;
        if found {
            accepts(&mut tx, channel, unix_ms(now)).await?;
            event(&mut tx, incident, unix_ms(now), "posted", Sink::Slack.as_str()).await?;
        }
        tx.commit().await?;
        Ok(found)
    }

    /// The incident's message in Slack is gone: a new one is posted, once whoever finds out. False, and nothing done,
    /// when that happened `most` times before and the incident is not over: somebody does not want it there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_message(
        &self,
        incident: &str,
        ts: &str,
        most: u32,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let done = sqlx::query(
            "UPDATE deliveries SET posted_to = NULL, posted_ts = NULL, revision = 0, due_ms = $3, began_ms = NULL,
               state = CASE WHEN state = 'delivered' THEN 'pending' ELSE state END
             WHERE incident_id = $1 AND sink = 'slack' AND posted_ts = $2
               AND ((SELECT COUNT(*) FROM events WHERE incident_id = $1 AND what = 'message gone') < $4
                    OR (SELECT state FROM incidents WHERE id = $1) = 'resolved')",
        )
        .bind(incident)
        .bind(ts)
        .bind(unix_ms(now))
        .bind(i64::from(most))
        .execute(&mut *tx)
        .await?;
        let forgotten = done.rows_affected() > 0;
        if forgotten {
            event(&mut tx, incident, unix_ms(now), "message gone", ts).await?;
        }
        let stands: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM deliveries WHERE incident_id = $1 AND posted_ts = $2")
                .bind(incident)
                .bind(ts)
                .fetch_one(&mut *tx)
                .await?;
        tx.commit().await?;
        Ok(stands == 0)
    }

    /// The thread of the incident's message in this channel has been told this.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn told(&self, incident: &str, channel: &str, told: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE deliveries SET told = $3 WHERE incident_id = $1 AND sink = 'slack' AND channel = $2")
            .bind(incident)
            .bind(channel)
            .bind(told)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Not now: try again at `due`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn postpone(
        &self,
        delivery: &Delivery,
        due: Timestamp,
        held: Held,
        note: &str,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE deliveries SET due_ms = $4, tries = tries + $6, note = $5, owner = NULL,
               began_ms = CASE WHEN $7 = 1 THEN began_ms ELSE NULL END
             WHERE incident_id = $1 AND sink = $2 AND channel = $3",
        )
        .bind(&delivery.incident)
        .bind(delivery.sink.as_str())
        .bind(&delivery.channel)
        .bind(unix_ms(due))
        .bind(note)
        .bind(i64::from(held != Held::Waits))
        .bind(held.keeps(delivery.began))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Where an incident's message stands in Slack: channel and timestamp. Of several the one whose channel takes
    /// messages, and the one that was wanted before one that stands in for it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn place_of(&self, incident: &str) -> Result<Option<(String, String)>, StoreError> {
        let row = sqlx::query(
            "SELECT posted_to, posted_ts FROM deliveries
             WHERE incident_id = $1 AND sink = 'slack' AND posted_to IS NOT NULL AND posted_ts IS NOT NULL
             ORDER BY CASE WHEN channel IN (SELECT channel FROM refusals) THEN 2 ELSE 0 END
                    + CASE WHEN stands_in_for IS NULL THEN 0 ELSE 1 END, channel LIMIT 1",
        )
        .bind(incident)
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| Ok((row.try_get("posted_to")?, row.try_get("posted_ts")?))).transpose()
    }

    /// Somebody escalates: this pager is to call, whatever it was told before. `escalation` is the line of the audit log
    /// that learns how it ended.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn page(&self, incident: &str, pager: &str, escalation: &str, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO deliveries (incident_id, sink, channel, state, due_ms, escalation)
             VALUES ($1, 'pager', $2, 'pending', $3, $4)
             ON CONFLICT (incident_id, sink, channel) DO UPDATE SET state = 'pending', tries = 0, revision = 0,
               due_ms = excluded.due_ms, escalation = excluded.escalation",
        )
        .bind(incident)
        .bind(pager)
        .bind(unix_ms(now))
        .bind(escalation)
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// A pager that was only to be called by an escalation and never was hears of the incident no more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn unpage(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let remove = "DELETE FROM deliveries WHERE incident_id = $1 AND sink = 'pager' AND channel = $2
                        AND posted_ts IS NULL AND escalation IS NULL";
        sqlx::query(remove).bind(&delivery.incident).bind(&delivery.channel).execute(&self.write).await?;
        Ok(())
    }

    /// An escalation has ended; a later one that came meanwhile still waits.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn escalation_ended(&self, delivery: &Delivery, escalation: &str) -> Result<(), StoreError> {
        let end = "UPDATE deliveries SET escalation = NULL
                   WHERE incident_id = $1 AND sink = 'pager' AND channel = $2 AND escalation = $3";
        sqlx::query(end).bind(&delivery.incident).bind(&delivery.channel).bind(escalation).execute(&self.write).await?;
        Ok(())
    }

    /// Given up at this revision, with the reason; a later change of the incident tries again, also one that has come
    /// meanwhile.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn give_up(
        &self,
        delivery: &Delivery,
        revision: i64,
        note: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.still(&mut tx, &delivery.incident).await?;
        sqlx::query(
            "UPDATE deliveries SET note = $4, due_ms = $6, began_ms = NULL,
               state = CASE WHEN escalation IS NOT NULL OR (SELECT revision FROM incidents WHERE id = $1) > $5
                            THEN state ELSE 'failed' END
             WHERE incident_id = $1 AND sink = $2 AND channel = $3",
        )
        .bind(&delivery.incident)
        .bind(delivery.sink.as_str())
        .bind(&delivery.channel)
        .bind(note)
        .bind(revision)
        .bind(unix_ms(now))
        .execute(&mut *tx)
        .await?;
        event(&mut tx, &delivery.incident, unix_ms(now), "delivery failed", note).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Waits for whoever is changing the incident, and lets nobody change it until the transaction ends: PostgreSQL would
    /// compare with what was there when the statement began.
    async fn still(&self, db: &mut Connection, incident: &str) -> Result<(), StoreError> {
        let held = sqlx::query(self.engine.sql("SELECT id FROM incidents WHERE id = $1 /*postgres FOR UPDATE*/"));
        held.bind(incident).execute(db).await?;
        Ok(())
    }
}

/// An incident's revision grew: what was delivered is to be brought up to date.
pub(super) async fn outdate(db: &mut Connection, incident: &str) -> Result<(), StoreError> {
    sqlx::query("UPDATE deliveries SET state = 'pending' WHERE incident_id = $1 AND state = 'delivered'")
        .bind(incident)
        .execute(db)
        .await?;
    Ok(())
}
