//! Digests: one message that speaks for many incidents of a storm.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;
use ulid::Ulid;

use super::connections::Connection;
use super::incidents::{of_incident, read, select_incidents};
use super::mentions::Mention;
use super::refusals::accepts;
use super::{Held, Incident, Store, StoreError};
use crate::clock::{from_unix_ms, unix_ms};
use crate::render::VARIOUS;

/// Digests of one storm besides that of the other topics.
const TOPICS: i64 = 5;

/// When a new incident of a channel goes into a digest, and into which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storm {
    /// From so many new incidents within `within` on; 0 never.
    pub incidents: u32,
    /// The time that is counted, and how long a digest is joined after the last that joined.
    pub within: Duration,
    /// From so many new messages that wait on.
    pub queue: u32,
    /// What the incident is about, for people: symptom and pool.
    pub topic: String,
}

/// A digest as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Digest {
    /// Sortable by time.
    pub id: String,
    /// The channel as configured.
    pub channel: String,
    /// What its incidents are about, or [`VARIOUS`].
    pub topic: String,
    /// When the storm began to be collapsed.
    pub opened_at: Timestamp,
    /// Slack's channel id and timestamp of the message that stands already.
    pub posted: Option<(String, String)>,
    /// How often in a row it failed before.
    pub tries: u32,
    /// Since when it was being posted before, without a known result: it may stand in Slack already.
    pub began: Option<Timestamp>,
}

/// What a digest speaks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Spoken {
    /// Its incidents, oldest first.
    pub incidents: Vec<Incident>,
    /// How many more there are that cannot be read.
    pub unreadable: usize,
    /// The sum of the revisions of all.
    pub revisions: i64,
}

/// The digest that a new incident joins in the transaction that opens it; none when it gets a message of its own.
pub(super) async fn collapse(
    db: &mut Connection,
    channel: &str,
    storm: &Storm,
    now_ms: i64,
) -> Result<Option<String>, StoreError> {
    let since = now_ms - i64::try_from(storm.within.as_millis()).unwrap_or(i64::MAX);
    let row = sqlx::query(
        "SELECT (SELECT COUNT(*) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                   WHERE d.sink = 'slack' AND d.channel = $1 AND d.state <> 'suppressed' AND i.opened_ms > $2) AS opened,
                (SELECT COUNT(*) FROM deliveries
                   WHERE sink = 'slack' AND channel = $1 AND state = 'pending' AND posted_ts IS NULL) AS waiting",
    )
    .bind(channel)
    .bind(since)
    .fetch_one(&mut *db)
    .await?;
    let (opened, waiting): (i64, i64) = (row.try_get("opened")?, row.try_get("waiting")?);
    let many = storm.incidents > 0 && opened >= i64::from(storm.incidents);
    if !many && waiting < i64::from(storm.queue) {
        return Ok(None);
    }
    let rows = sqlx::query(
        "SELECT id, topic FROM digests WHERE joined_ms > $2
           AND (channel = $1 OR id IN (SELECT digest_id FROM deliveries WHERE channel = $1 AND sink = 'slack'))
         ORDER BY id",
    )
    .bind(channel)
    .bind(since)
    .fetch_all(&mut *db)
    .await?;
    let alive = rows
        .iter()
        .map(|row| Ok((row.try_get("topic")?, row.try_get("id")?)))
        .collect::<Result<BTreeMap<String, String>, sqlx::Error>>()?;
    let full = i64::try_from(alive.len()).unwrap_or(i64::MAX) >= TOPICS;
    let topic = if full && !alive.contains_key(&storm.topic) { VARIOUS } else { &storm.topic };
    if let Some(id) = alive.get(topic) {
        sqlx::query("UPDATE digests SET joined_ms = $2, state = 'pending', tries = 0 WHERE id = $1")
            .bind(id)
            .bind(now_ms)
            .execute(&mut *db)
            .await?;
        return Ok(Some(id.clone()));
    }
    let id = Ulid::generate().to_string();
    sqlx::query(
        "INSERT INTO digests (id, channel, topic, opened_ms, joined_ms, due_ms) VALUES ($1, $2, $3, $4, $4, $4)",
    )
    .bind(&id)
    .bind(channel)
    .bind(topic)
    .bind(now_ms)
    .execute(&mut *db)
    .await?;
    Ok(Some(id))
}

/// An incident of a digest fires again: what was done is not.
pub(super) async fn revive(db: &mut Connection, incident: &str) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE digests SET state = 'pending', tries = 0
         WHERE id IN (SELECT digest_id FROM deliveries WHERE incident_id = $1 AND digest_id IS NOT NULL)",
    )
    .bind(incident)
    .execute(db)
    .await?;
    Ok(())
}

impl Store {
    /// What a digest speaks for; empty when there is no such digest.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn digest_incidents(&self, digest: &str) -> Result<Spoken, StoreError> {
        // Before the incidents: what changes in between is told once more. What cannot be read counts as told, or the digest
        // would be edited for ever.
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(i.revision), 0) AS BIGINT) AS revisions, COUNT(DISTINCT i.id) AS incidents
             FROM deliveries d JOIN incidents i ON i.id = d.incident_id WHERE d.digest_id = $1",
        );
        let row = row.bind(digest).fetch_one(&self.read).await?;
        let (revisions, all): (i64, i64) = (row.try_get("revisions")?, row.try_get("incidents")?);
        let sql = select_incidents!("id IN (SELECT incident_id FROM deliveries WHERE digest_id = $1) ORDER BY id");
        let rows = sqlx::query(sql).bind(digest).fetch_all(&self.read).await?;
        let mut incidents = self.unreadable.rest("incident", &rows, |row| read(row, &self.unreadable));
        let unreadable = usize::try_from(all).unwrap_or_default().saturating_sub(incidents.len());
        let rows = sqlx::query(
            "SELECT incident_id, status, alert FROM alerts
             WHERE incident_id IN (SELECT incident_id FROM deliveries WHERE digest_id = $1)
             ORDER BY incident_id, starts_ns, fingerprint",
        )
        .bind(digest)
        .fetch_all(&self.read)
        .await?;
        for (id, alert) in self.unreadable.rest("alert", &rows, of_incident) {
            // Both lists have one order.
            if let Ok(at) = incidents.binary_search_by(|incident| incident.id.cmp(&id)) {
                incidents[at].alerts.push(alert);
            }
        }
        Ok(Spoken { incidents, unreadable, revisions })
    }

    /// A digest's message stands where it belongs and tells everything up to these revisions; the next edit comes no
    /// sooner than `next`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn digest_delivered(
        &self,
        digest: &Digest,
        posted: &(String, String),
        revisions: i64,
        next: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.unjoined(&mut tx, digest).await?;
        sqlx::query(
            "UPDATE digests SET posted_to = $2, posted_ts = $3, delivered = $4, due_ms = $5, tries = 0, note = NULL,
               owner = NULL, began_ms = NULL,
               state = CASE WHEN EXISTS (SELECT 1 FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                                         WHERE d.digest_id = $1 AND i.state = 'open')
                              OR $4 < (SELECT SUM(i.revision) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                                       WHERE d.digest_id = $1)
                            THEN 'pending' ELSE 'done' END
             WHERE id = $1",
        )
        .bind(&digest.id)
        .bind(&posted.0)
        .bind(&posted.1)
        .bind(revisions)
        .bind(unix_ms(next))
        .execute(&mut *tx)
        .await?;
        if digest.posted.is_none() {
            accepts(&mut tx, &digest.channel, unix_ms(self.now())).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// A digest's message that was posted before, and whose answer was lost, has been found, with whom it
    /// called, if anybody. False when another one stands there meanwhile.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn found_digest(
        &self,
        digest: &str,
        posted: &(String, String),
        mention: Option<&Mention>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let found = sqlx::query(
            "UPDATE digests SET posted_to = $2, posted_ts = $3, delivered = 0, due_ms = $4, tries = 0, note = NULL,
               owner = NULL, began_ms = NULL, state = CASE WHEN state = 'failed' THEN 'pending' ELSE state END
             WHERE id = $1 AND posted_ts IS NULL",
        );
        let found = found.bind(digest).bind(&posted.0).bind(&posted.1).bind(unix_ms(now));
        let found = found.execute(&mut *tx).await?.rows_affected() > 0;
        if let Some(mention) = mention.filter(|_| found) {
            sqlx::query(
                "UPDATE deliveries SET mentioned_ms = $2, mentioned = $3 WHERE digest_id = $1 AND COALESCE(mentioned_ms, -1) < $2
                   AND incident_id IN (SELECT id FROM incidents WHERE state = 'open' AND critical = 1
                                         AND COALESCE(critical_ms, 0) <= $2)",
            )
            .bind(digest)
            .bind(unix_ms(mention.since))
            .bind(mention.called.to_string())
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(found)
    }

    /// Waits for who is joining the digest, and lets nobody join until the transaction ends: PostgreSQL would not see
    /// an incident that joined since the statement began.
    async fn unjoined(&self, db: &mut Connection, digest: &Digest) -> Result<(), StoreError> {
        let held = sqlx::query(self.engine.sql("SELECT id FROM digests WHERE id = $1 /*postgres FOR UPDATE*/"));
        held.bind(&digest.id).execute(db).await?;
        Ok(())
    }

    /// A digest goes to this channel from now on, as a new message.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn digest_moved(&self, digest: &Digest, channel: &str, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE digests SET channel = $2, posted_to = NULL, posted_ts = NULL, due_ms = $3, tries = tries + 1,
               began_ms = NULL
             WHERE id = $1",
        )
        .bind(&digest.id)
        .bind(channel)
        .bind(unix_ms(now))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// A digest's message in Slack is gone: a new one is posted. False, and nothing done, when that happened `most` times
    /// before: somebody does not want it there. Its last word, once all its incidents are over, is posted once more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_digest_message(&self, digest: &Digest, most: u32, now: Timestamp) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE digests SET posted_to = NULL, posted_ts = NULL, due_ms = $2, tries = 0, owner = NULL,
               reposts = reposts + 1
             WHERE id = $1 AND reposts < $3 + CASE WHEN EXISTS
               (SELECT 1 FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                WHERE d.digest_id = $1 AND i.state = 'open') THEN 0 ELSE 1 END",
        )
        .bind(&digest.id)
        .bind(unix_ms(now))
        .bind(i64::from(most))
        .execute(&self.write)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Not now: try the digest again at `due`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn digest_postponed(
        &self,
        digest: &Digest,
        due: Timestamp,
        held: Held,
        note: &str,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE digests SET due_ms = $2, tries = tries + $4, note = $3, owner = NULL,
               began_ms = CASE WHEN $5 = 1 THEN began_ms ELSE NULL END
             WHERE id = $1",
        )
        .bind(&digest.id)
        .bind(unix_ms(due))
        .bind(note)
        .bind(i64::from(held != Held::Waits))
        .bind(held.keeps(digest.began))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Given up at these revisions, with the reason; the next that joins tries again, also one that did meanwhile.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn digest_given_up(
        &self,
        digest: &Digest,
        revisions: i64,
        note: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.unjoined(&mut tx, digest).await?;
        sqlx::query(
            "UPDATE digests SET note = $2, due_ms = $4, began_ms = NULL,
               state = CASE WHEN (SELECT SUM(i.revision) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                                  WHERE d.digest_id = $1) > $3 THEN state ELSE 'failed' END
             WHERE id = $1",
        )
        .bind(&digest.id)
        .bind(note)
        .bind(revisions)
        .bind(unix_ms(now))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }
}

pub(super) fn digest(row: &sqlx::any::AnyRow) -> Result<Digest, StoreError> {
    let tries: i64 = row.try_get("tries")?;
    let to: Option<String> = row.try_get("posted_to")?;
    let ts: Option<String> = row.try_get("posted_ts")?;
    Ok(Digest {
        id: row.try_get("id")?,
        channel: row.try_get("channel")?,
        topic: row.try_get("topic")?,
        opened_at: from_unix_ms(row.try_get("opened_ms")?),
        posted: to.zip(ts),
        tries: u32::try_from(tries).unwrap_or(u32::MAX),
        began: row.try_get::<Option<i64>, _>("began_ms")?.map(from_unix_ms),
    })
}
