//! Digests: one message for many incidents of a storm.

use jiff::Timestamp;
use sqlx::Row;

use super::connections::StoreConnection;
use super::mentions::{Mention, record};
use super::posts::{PostKind, queue};
use super::refusals::accepts;
use super::values::{BindValues, of_rows};
use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};

/// Time after which a digest shows that an incident has become critical, in milliseconds: at most 30 edits of it a minute,
/// where a workspace has 45 by default (`updates_per_minute`).
pub(super) const CRITICAL_WITHIN_MS: i64 = 2_000;

/// A digest as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Digest {
    /// Unique id, sortable by time.
    pub id: String,
    /// The channel as configured.
    pub channel: String,
    /// The topic of its incidents, or [`VARIOUS`](knowledge::incident::VARIOUS).
    pub topic: String,
    /// The time at which the digest was created.
    pub opened_at: Timestamp,
    /// Slack's channel id and timestamp of the posted message; `None` before the first post.
    pub posted: Option<(String, String)>,
    /// Number of consecutive failures so far.
    pub tries: u32,
    /// The start of an earlier post without a known result: the message may exist in Slack already.
    pub began: Option<Timestamp>,
}

/// The effects of a digest's new or edited message on its incidents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DigestEffects {
    /// The people whom each incident mentions now, by the message or in its thread.
    pub mentions: Vec<(IncidentPlace, Mention)>,
    /// The users and groups to mention in the thread, each with the pools concerned: an edit notifies nobody.
    pub calls: Vec<(IncidentPlace, [String; 2])>,
    /// The only incident, if a post in the thread describes what has changed.
    pub changed: Option<IncidentPlace>,
}

/// An incident and the channel of one of its deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentPlace {
    /// The incident.
    pub incident: String,
    /// The channel as configured.
    pub channel: String,
}

impl IncidentPlace {
    fn thread(&self) -> [&str; 2] {
        [&self.incident, &self.channel]
    }
}

/// An incident of which its digests, if it has any, have news.
pub(super) struct Woken {
    pub(super) incident: String,
    /// True if it fires again.
    pub(super) fires_again: bool,
    /// True if it has become critical.
    pub(super) is_critical: bool,
}

/// Makes the digest of an incident pending again, because the incident fires again.
async fn revive(db: &mut StoreConnection, incident: &str) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE digests SET state = 'pending', tries = 0
         WHERE id IN (SELECT digest_id FROM deliveries WHERE incident_id = $1 AND digest_id IS NOT NULL)",
    )
    .bind(incident)
    .execute(db)
    .await?;
    Ok(())
}

/// Makes the digests of an incident that has become critical due soon.
async fn hasten(db: &mut StoreConnection, incident: &str, now_ms: i64) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE digests SET due_ms = $2 WHERE due_ms > $2 AND state = 'pending' AND owner IS NULL AND note IS NULL
           AND id IN (SELECT digest_id FROM deliveries WHERE incident_id = $1 AND digest_id IS NOT NULL)",
    )
    .binds((incident, now_ms + CRITICAL_WITHIN_MS))
    .execute(db)
    .await?;
    Ok(())
}

impl Store {
    /// Makes the digests of these incidents due. All are locked in one order: transactions that lock some of the same, one
    /// after the other, could wait for each other for ever.
    pub(super) async fn wake_digests(
        &self,
        db: &mut StoreConnection,
        woken: &[Woken],
        now_ms: i64,
    ) -> Result<(), StoreError> {
        if woken.is_empty() {
            return Ok(());
        }
        let incidents: Vec<[&str; 1]> = woken.iter().map(|woken| [woken.incident.as_str()]).collect();
        let lock = "SELECT id FROM digests WHERE id IN
                      (SELECT digest_id FROM deliveries WHERE incident_id IN (SELECT value ->> 0 FROM {rows}))
                    ORDER BY id /*postgres FOR UPDATE*/";
        let (lock, incidents) = of_rows(self.engine, self.engine.sql(lock).as_str(), &incidents)?;
        sqlx::query(lock).bind(incidents).execute(&mut *db).await?;
        for Woken { incident, fires_again, is_critical } in woken {
            if *fires_again {
                revive(db, incident).await?;
            }
            if *is_critical {
                hasten(db, incident, now_ms).await?;
            }
        }
        Ok(())
    }

    /// Records that a digest's message was delivered up to these revisions, and queues what its thread gets; the next edit
    /// is due at `next` at the earliest, or soon if an incident has become critical meanwhile.
    pub async fn digest_delivered(
        &self,
        digest: &Digest,
        posted: &(String, String),
        revisions: i64,
        effects: &DigestEffects,
        next: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.lock_digest(&mut tx, digest).await?;
        let now = self.now();
        for (place, mention) in &effects.mentions {
            record(&mut tx, &place.incident, &place.channel, mention).await?;
        }
        sqlx::query(
            "UPDATE digests SET posted_to = $2, posted_ts = $3, delivered = $4, tries = 0, note = NULL,
               owner = NULL, began_ms = NULL,
               due_ms = CASE WHEN $5 > $6 AND EXISTS
                               (SELECT 1 FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                                WHERE d.digest_id = $1 AND i.state = 'open' AND i.critical = 1
                                  AND (d.mentioned_ms IS NULL OR d.mentioned_ms < COALESCE(i.critical_ms, 0)))
                             THEN $6 ELSE $5 END,
               state = CASE WHEN EXISTS (SELECT 1 FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                                         WHERE d.digest_id = $1 AND i.state = 'open')
                              OR $4 < (SELECT SUM(i.revision) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                                       WHERE d.digest_id = $1)
                            THEN 'pending' ELSE 'done' END
             WHERE id = $1",
        )
        .binds((&digest.id, &posted.0, &posted.1, revisions, unix_ms(next), unix_ms(now) + CRITICAL_WITHIN_MS))
        .execute(&mut *tx)
        .await?;
        if digest.posted.is_none() {
            accepts(&mut tx, &digest.channel, unix_ms(now)).await?;
        }
        for (place, [person, pools]) in &effects.calls {
            queue(&mut tx, place.thread(), PostKind::Mention, [person, pools], now).await?;
        }
        if let Some(place) = &effects.changed {
            queue(&mut tx, place.thread(), PostKind::Change, ["", ""], now).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Records a digest's message whose answer was lost and that was found, with the people it called, if any. Returns
    /// false if the digest has another message meanwhile.
    pub async fn found_digest(
        &self,
        digest: &str,
        posted: &(String, String),
        mention: Option<&Mention>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let recorded = sqlx::query(
            "UPDATE digests SET posted_to = $2, posted_ts = $3, delivered = 0, due_ms = $4, tries = 0, note = NULL,
               owner = NULL, began_ms = NULL, state = CASE WHEN state = 'failed' THEN 'pending' ELSE state END
             WHERE id = $1 AND posted_ts IS NULL",
        );
        let recorded = recorded.bind(digest).bind(&posted.0).bind(&posted.1).bind(unix_ms(now));
        let recorded = recorded.execute(&mut *tx).await?.rows_affected() > 0;
        if let Some(mention) = mention.filter(|_| recorded) {
            sqlx::query(
                "UPDATE deliveries SET mentioned_ms = $2, mentioned = $3 WHERE digest_id = $1 AND COALESCE(mentioned_ms, -1) < $2
                   AND incident_id IN (SELECT id FROM incidents WHERE state = 'open' AND critical = 1
                                         AND COALESCE(critical_ms, 0) <= $2)",
            )
            .binds((digest, unix_ms(mention.since), mention.called.to_string()))
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(recorded)
    }

    /// Waits for incidents that are joining the digest, and blocks further ones until the transaction ends: PostgreSQL
    /// would not see an incident that joined after the start of the statement.
    async fn lock_digest(&self, db: &mut StoreConnection, digest: &Digest) -> Result<(), StoreError> {
        let lock = sqlx::query(self.engine.sql("SELECT id FROM digests WHERE id = $1 /*postgres FOR UPDATE*/"));
        lock.bind(&digest.id).execute(db).await?;
        Ok(())
    }

    /// Moves a digest to this channel, as a new message.
    pub async fn digest_moved(&self, digest: &Digest, channel: &str, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE digests SET channel = $2, posted_to = NULL, posted_ts = NULL, due_ms = $3, tries = tries + 1,
               began_ms = NULL
             WHERE id = $1",
        )
        .binds((&digest.id, channel, unix_ms(now)))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Removes the record of a digest's message, which was deleted in Slack, so that a new one is posted. Returns false
    /// without changes if this happened `most` times before: a user does not want the message. When all its incidents
    /// are over, the last state may be posted once more.
    pub async fn forget_digest_message(&self, digest: &Digest, most: u32, now: Timestamp) -> Result<bool, StoreError> {
        let update = sqlx::query(
            "UPDATE digests SET posted_to = NULL, posted_ts = NULL, due_ms = $2, tries = 0, owner = NULL,
               reposts = reposts + 1
             WHERE id = $1 AND reposts < $3 + CASE WHEN EXISTS
               (SELECT 1 FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                WHERE d.digest_id = $1 AND i.state = 'open') THEN 0 ELSE 1 END",
        )
        .binds((&digest.id, unix_ms(now), i64::from(most)))
        .execute(&self.write)
        .await?;
        Ok(update.rows_affected() > 0)
    }

    /// Gives up a digest at these revisions, with the reason; the next incident that joins starts it again, also one
    /// that joined meanwhile.
    pub async fn digest_given_up(
        &self,
        digest: &Digest,
        revisions: i64,
        note: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.lock_digest(&mut tx, digest).await?;
        sqlx::query(
            "UPDATE digests SET note = $2, due_ms = $4, began_ms = NULL,
               state = CASE WHEN (SELECT SUM(i.revision) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                                  WHERE d.digest_id = $1) > $3 THEN state ELSE 'failed' END
             WHERE id = $1",
        )
        .binds((&digest.id, note, revisions, unix_ms(now)))
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
