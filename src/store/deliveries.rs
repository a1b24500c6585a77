//! Deliveries: the state and the due time of each incident's messages.

use jiff::Timestamp;
use sqlx::Row;
use strum::{EnumString, IntoStaticStr};

use super::connections::StoreConnection;
use super::events::record_event;
use super::mentions::{CalledPeople, Mention};
use super::posts::{PostKind, queue};
use super::refusals::accepts;
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::unix_ms;

/// The destination of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Sink {
    /// A Slack channel.
    Slack,
    /// Standard output.
    Console,
    /// One of `pagers`, by name.
    Pager,
}

impl Sink {
    /// Returns the name in the store and in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A message to post or to update.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The incident.
    pub incident: String,
    /// The sink.
    pub sink: Sink,
    /// The channel as configured.
    pub channel: String,
    /// Slack's channel id and timestamp of the posted message; `None` before the first post.
    pub posted: Option<(String, String)>,
    /// Number of consecutive failures so far.
    pub tries: u32,
    /// The users and groups called since the incident became critical.
    pub called: CalledPeople,
    /// The id of the audit log line whose escalation this pager call executes.
    pub escalation: Option<String>,
    /// The state that the thread described last, in the format of its writer.
    pub thread_state: Option<String>,
    /// The start of an earlier post without a known result: the message may exist in Slack already.
    pub began: Option<Timestamp>,
}

/// The effects of a new or edited message besides the message itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageEffects {
    /// The users and groups that are mentioned now, by the message or in its thread.
    pub mention: Option<Mention>,
    /// The state from which later posts in the thread describe changes.
    pub thread_state: Option<String>,
    /// The users and groups to mention in the thread, because an edit notifies nobody.
    pub calls: Vec<String>,
    /// True if a post in the thread describes what has changed.
    pub changed: bool,
}

impl Store {
    /// Records that a revision was delivered, and queues what its thread gets. The stored state of the thread is not
    /// overwritten, and an escalation that was requested meanwhile is still due.
    pub async fn delivered(
        &self,
        delivery: &Delivery,
        posted: Option<&(String, String)>,
        revision: i64,
        effects: &MessageEffects,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.lock_incident(&mut tx, &delivery.incident).await?;
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
        .binds((&delivery.incident, delivery.sink.as_str(), &delivery.channel, posted.map(|(to, _)| to)))
        .binds((posted.map(|(_, ts)| ts), revision, unix_ms(now), &effects.thread_state))
        .bind(effects.mention.as_ref().map(|mention| unix_ms(mention.since)))
        .bind(effects.mention.as_ref().map(|mention| mention.called.to_string()))
        .execute(&mut *tx)
        .await?;
        // An edit proves nothing about posts: a channel may accept one and refuse the other.
        if delivery.sink == Sink::Slack && delivery.posted.is_none() {
            accepts(&mut tx, &delivery.channel, unix_ms(now)).await?;
        }
        for person in &effects.calls {
            queue(&mut tx, [&delivery.incident, &delivery.channel], PostKind::Mention, [person, ""], now).await?;
        }
        if effects.changed {
            queue(&mut tx, [&delivery.incident, &delivery.channel], PostKind::Change, ["", ""], now).await?;
        }
        let event = if delivery.posted.is_none() { "posted" } else { "updated" };
        record_event(&mut tx, &delivery.incident, unix_ms(now), event, delivery.sink.as_str()).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Records a posted message whose answer was lost and that was found: it becomes the incident's message and is
    /// updated. Returns false if the incident has another message meanwhile.
    pub async fn found_message(
        &self,
        incident: &str,
        channel: &str,
        posted: &(String, String),
        effects: &MessageEffects,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let adopted = sqlx::query(
            "UPDATE deliveries SET posted_to = $3, posted_ts = $4, revision = 0, due_ms = $5, tries = 0, note = NULL,
               told = COALESCE(told, $6), mentioned_ms = COALESCE($7, mentioned_ms),
               mentioned = COALESCE($8, mentioned), owner = NULL, began_ms = NULL,
               state = CASE WHEN state = 'failed' THEN 'pending' ELSE state END
             WHERE incident_id = $1 AND sink = 'slack' AND channel = $2 AND posted_ts IS NULL
               AND state IN ('pending', 'failed')",
        )
        .binds((incident, channel, &posted.0, &posted.1, unix_ms(now), &effects.thread_state))
        .bind(effects.mention.as_ref().map(|mention| unix_ms(mention.since)))
        .bind(effects.mention.as_ref().map(|mention| mention.called.to_string()))
        .execute(&mut *tx)
        .await?
        .rows_affected()
            > 0;
        if adopted {
            accepts(&mut tx, channel, unix_ms(now)).await?;
            record_event(&mut tx, incident, unix_ms(now), "posted", Sink::Slack.as_str()).await?;
        }
        tx.commit().await?;
        Ok(adopted)
    }

    /// Removes the record of the incident's message, which was deleted in Slack, so that a new one is posted;
    /// concurrent callers cause one post. Returns false without changes if this happened `most` times before and the
    /// incident is not over: a user does not want the message.
    pub async fn forget_message(
        &self,
        incident: &str,
        ts: &str,
        most: u32,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let update = sqlx::query(
            "UPDATE deliveries SET posted_to = NULL, posted_ts = NULL, revision = 0, due_ms = $3, began_ms = NULL,
               state = CASE WHEN state = 'delivered' THEN 'pending' ELSE state END
             WHERE incident_id = $1 AND sink = 'slack' AND posted_ts = $2
               AND ((SELECT COUNT(*) FROM events WHERE incident_id = $1 AND what = 'message gone') < $4
                    OR (SELECT state FROM incidents WHERE id = $1) = 'resolved')",
        )
        .binds((incident, ts, unix_ms(now), i64::from(most)))
        .execute(&mut *tx)
        .await?;
        let forgotten = update.rows_affected() > 0;
        if forgotten {
            record_event(&mut tx, incident, unix_ms(now), "message gone", ts).await?;
        }
        let remaining: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM deliveries WHERE incident_id = $1 AND posted_ts = $2")
                .binds((incident, ts))
                .fetch_one(&mut *tx)
                .await?;
        tx.commit().await?;
        Ok(remaining == 0)
    }

    /// Stores the state that the thread of the incident's message in this channel described last.
    pub async fn save_thread_state(&self, incident: &str, channel: &str, state: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE deliveries SET told = $3 WHERE incident_id = $1 AND sink = 'slack' AND channel = $2")
            .binds((incident, channel, state))
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Returns channel and timestamp of an incident's message in Slack. Of several, one in a channel that accepts
    /// messages is preferred, and the wanted channel to a stand-in.
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

    /// Removes the delivery of a pager that was added for an escalation only and never called, so that it gets no
    /// updates.
    pub async fn unpage(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let remove = "DELETE FROM deliveries WHERE incident_id = $1 AND sink = 'pager' AND channel = $2
                        AND posted_ts IS NULL AND escalation IS NULL";
        sqlx::query(remove).bind(&delivery.incident).bind(&delivery.channel).execute(&self.write).await?;
        Ok(())
    }

    /// Ends an escalation; a later one that was requested meanwhile stays queued.
    pub async fn escalation_ended(&self, delivery: &Delivery, escalation: &str) -> Result<(), StoreError> {
        let end = "UPDATE deliveries SET escalation = NULL
                   WHERE incident_id = $1 AND sink = 'pager' AND channel = $2 AND escalation = $3";
        sqlx::query(end).bind(&delivery.incident).bind(&delivery.channel).bind(escalation).execute(&self.write).await?;
        Ok(())
    }

    /// Gives up a delivery at this revision, with the reason; a later change of the incident starts it again, also one
    /// that came meanwhile.
    pub async fn give_up(
        &self,
        delivery: &Delivery,
        revision: i64,
        note: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.lock_incident(&mut tx, &delivery.incident).await?;
        sqlx::query(
            "UPDATE deliveries SET note = $4, due_ms = $6, began_ms = NULL,
               state = CASE WHEN escalation IS NOT NULL OR (SELECT revision FROM incidents WHERE id = $1) > $5
                            THEN state ELSE 'failed' END
             WHERE incident_id = $1 AND sink = $2 AND channel = $3",
        )
        .binds((&delivery.incident, delivery.sink.as_str(), &delivery.channel, note, revision, unix_ms(now)))
        .execute(&mut *tx)
        .await?;
        record_event(&mut tx, &delivery.incident, unix_ms(now), "delivery failed", note).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Waits for concurrent changes of the incident, and blocks new ones until the transaction ends: PostgreSQL would
    /// compare with the state at the start of the statement.
    pub(super) async fn lock_incident(&self, db: &mut StoreConnection, incident: &str) -> Result<(), StoreError> {
        let lock = sqlx::query(self.engine.sql("SELECT id FROM incidents WHERE id = $1 /*postgres FOR UPDATE*/"));
        lock.bind(incident).execute(db).await?;
        Ok(())
    }
}

/// Increments an incident's revision, so that its messages are updated.
pub(super) async fn bump(db: &mut StoreConnection, incident: &str) -> Result<(), StoreError> {
    let bump = "UPDATE incidents SET revision = revision + 1 WHERE id = $1";
    sqlx::query(bump).bind(incident).execute(&mut *db).await?;
    outdate(db, incident).await
}

/// Marks delivered messages of an incident as pending, because its revision grew.
pub(super) async fn outdate(db: &mut StoreConnection, incident: &str) -> Result<(), StoreError> {
    sqlx::query("UPDATE deliveries SET state = 'pending' WHERE incident_id = $1 AND state = 'delivered'")
        .bind(incident)
        .execute(db)
        .await?;
    Ok(())
}

/// Queues a call by this pager for an escalation, whatever it has received before. `escalation` is the id of the audit
/// log line for the result.
pub(super) async fn queue_page(
    db: &mut StoreConnection,
    incident: &str,
    pager: &str,
    escalation: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO deliveries (incident_id, sink, channel, state, due_ms, escalation)
         VALUES ($1, 'pager', $2, 'pending', $3, $4)
         ON CONFLICT (incident_id, sink, channel) DO UPDATE SET state = 'pending', tries = 0, revision = 0,
           due_ms = excluded.due_ms, escalation = excluded.escalation",
    )
    .binds((incident, pager, unix_ms(now), escalation))
    .execute(&mut *db)
    .await?;
    Ok(())
}
