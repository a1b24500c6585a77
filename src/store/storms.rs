//! Storms: new incidents of a channel join a digest once there are many.
//!
//! Admission stores the conditions with each new delivery, and whoever delivers next chooses for all that wait. So a webhook
//! waits for no other group, and replicas that store at the same time count as one.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row;

use super::connections::StoreConnection;
use super::database::DatabaseEngine;
use super::digests::CRITICAL_WITHIN_MS;
use super::events::{Event, record_events};
use super::ids::new_id;
use super::values::{BindValues, write_rows};
use super::{Store, StoreError};
use crate::failpoint::failpoint;
use knowledge::clock::unix_ms;
use knowledge::incident::VARIOUS;

/// Maximum number of digests of a storm, without the one for all other topics.
const TOPICS: usize = 5;

/// Maximum number of deliveries that are chosen for in one transaction.
const CHOSEN_AT_ONCE: i64 = 1_000;

/// The conditions under which a new incident of a channel joins a digest, and its topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storm {
    /// Number of new incidents within `within` from which digests are used; 0 for never.
    pub incidents: u32,
    /// The period in which incidents are counted, and the time after the last joined incident in which a digest is
    /// joined.
    pub within: Duration,
    /// Number of waiting new messages from which digests are used.
    pub queue: u32,
    /// The topic of the incident for people: symptom and pool.
    pub topic: String,
}

impl Storm {
    /// Returns the conditions as text; `None` if they can never hold.
    pub(super) fn to_choose(&self) -> Option<String> {
        if self.incidents == 0 && self.queue == u32::MAX { None } else { serde_json::to_string(self).ok() }
    }
}

impl Store {
    /// Chooses for new deliveries, in their order, between a message of their own and a digest. Returns the number of those
    /// that have joined a digest. Replicas choose one after the other, each for all that it finds.
    pub async fn choose_digests(&self, now: Timestamp) -> Result<usize, StoreError> {
        let waits = sqlx::query("SELECT 1 FROM deliveries WHERE storm IS NOT NULL LIMIT 1");
        if waits.fetch_optional(&self.read).await?.is_none() {
            return Ok(0);
        }
        let now_ms = unix_ms(now);
        let mut tx = self.begin().await?;
        self.engine.hold(&mut tx, &["digests"]).await?;
        // An incident that is being changed is left to the next time: its change may concern the digest.
        let rows = sqlx::query(self.engine.sql(
            "SELECT d.incident_id, d.channel, d.storm, i.critical,
                    CASE WHEN d.state = 'pending' AND d.posted_ts IS NULL AND d.began_ms IS NULL
                         THEN CAST(1 AS BIGINT) ELSE 0 END AS is_new
             FROM deliveries d JOIN incidents i ON i.id = d.incident_id WHERE d.storm IS NOT NULL
             ORDER BY d.incident_id, d.channel LIMIT $1 /*postgres FOR UPDATE SKIP LOCKED*/",
        ));
        let rows = rows.bind(CHOSEN_AT_ONCE).fetch_all(&mut *tx).await?;
        let (mut storms, mut chosen): (_, Vec<(&str, &str, Option<String>)>) = (Storms::default(), Vec::new());
        for row in &rows {
            let (incident, channel) = (row.try_get("incident_id")?, row.try_get("channel")?);
            let is_critical = row.try_get::<i64, _>("critical")? == 1;
            // A replica of a version that does not choose may have posted it already.
            let is_new = row.try_get::<i64, _>("is_new")? == 1;
            let storm = serde_json::from_str::<Storm>(row.try_get("storm")?).ok().filter(|_| is_new);
            let digest = match storm {
                Some(storm) => storms.join(&mut tx, channel, &storm, is_critical, now_ms).await?,
                None => None,
            };
            chosen.push((incident, channel, digest));
        }
        let new = storms.write(&mut tx, now_ms).await?;
        write_rows(
            &mut tx,
            "UPDATE deliveries SET storm = NULL, digest_id = COALESCE(chosen.digest, digest_id),
               state = CASE WHEN chosen.digest IS NULL THEN state ELSE 'digested' END
             FROM (SELECT value ->> 0 AS incident, value ->> 1 AS place, value ->> 2 AS digest FROM {rows}) AS chosen
             WHERE incident_id = chosen.incident AND channel = chosen.place AND sink = 'slack'",
            &chosen,
        )
        .await?;
        let digested =
            chosen.iter().filter_map(|(incident, _, digest)| Some((*incident, "digested", digest.as_deref()?)));
        let digested: Vec<Event<'_>> = digested.collect();
        record_events(&mut tx, now_ms, &digested).await?;
        failpoint("digests chosen");
        tx.commit().await?;
        if new && self.engine == DatabaseEngine::Sqlite {
            // Flushed to the disk: after a power cut the message of a digest that is not in the store would stand for ever.
            sqlx::query("UPDATE digests SET joined_ms = joined_ms WHERE joined_ms = $1")
                .bind(now_ms)
                .execute(&self.durable)
                .await?;
        }
        Ok(digested.len())
    }
}

/// The storms of all channels within one transaction: read once, counted in memory, written once.
#[derive(Debug, Default)]
struct Storms {
    channels: BTreeMap<String, ChannelStorm>,
    /// By id, the digests that incidents have joined.
    joined: BTreeMap<String, JoinedDigest>,
}

/// The new incidents of a channel.
#[derive(Debug)]
struct ChannelStorm {
    /// Number of recent incidents of the store, not counted further than the limit; `None` until a group has one.
    stored: Option<i64>,
    /// Number of incidents of this transaction.
    opened: i64,
    /// Number of new messages that wait; not counted further than the limit.
    waiting: i64,
    /// The ids of its digests by topic; `None` until one is needed.
    digests: Option<BTreeMap<String, String>>,
}

#[derive(Debug)]
struct JoinedDigest {
    /// Channel and topic of a digest that does not exist yet.
    new: Option<(String, String)>,
    is_critical: bool,
}

impl Storms {
    /// Returns the digest that a new incident of this channel joins; `None` if it gets a message of its own.
    async fn join(
        &mut self,
        db: &mut StoreConnection,
        channel: &str,
        storm: &Storm,
        is_critical: bool,
        now_ms: i64,
    ) -> Result<Option<String>, StoreError> {
        let since = now_ms - i64::try_from(storm.within.as_millis()).unwrap_or(i64::MAX);
        if !self.channels.contains_key(channel) {
            let waiting = count_waiting(db, channel, storm).await?;
            self.channels.insert(channel.to_owned(), ChannelStorm { stored: None, opened: 0, waiting, digests: None });
        }
        let Some(counted) = self.channels.get_mut(channel) else { return Ok(None) };
        let many = match (storm.incidents, counted.stored) {
            (0, _) => false,
            (most, Some(stored)) => stored + counted.opened >= i64::from(most),
            (most, None) => {
                let stored = count_opened(db, channel, storm, since).await?;
                counted.stored = Some(stored);
                stored + counted.opened >= i64::from(most)
            }
        };
        counted.opened += 1;
        if !many && counted.waiting < i64::from(storm.queue) {
            counted.waiting += 1;
            return Ok(None);
        }
        let digests = match &mut counted.digests {
            Some(digests) => digests,
            unread => unread.insert(read_digests(db, channel, since).await?),
        };
        let full = digests.len() >= TOPICS && !digests.contains_key(&storm.topic);
        let topic = if full { VARIOUS } else { &storm.topic };
        let (id, new) = match digests.get(topic) {
            Some(id) => (id.clone(), None),
            None => {
                let id = new_id();
                digests.insert(topic.to_owned(), id.clone());
                (id, Some((channel.to_owned(), topic.to_owned())))
            }
        };
        let joined = self.joined.entry(id.clone()).or_insert(JoinedDigest { new, is_critical });
        joined.is_critical |= is_critical;
        Ok(Some(id))
    }

    /// Writes the digests that incidents have joined. A critical one is shown soon. Returns true if one is new.
    async fn write(self, db: &mut StoreConnection, now_ms: i64) -> Result<bool, StoreError> {
        let is_new = self.joined.values().any(|joined| joined.new.is_some());
        for (id, JoinedDigest { new, is_critical }) in self.joined {
            let Some((channel, topic)) = new else {
                // What is being posted keeps its lease, and what failed, which has a note, its pause.
                sqlx::query(
                    "UPDATE digests SET joined_ms = $2, state = 'pending', tries = 0,
                       due_ms = CASE WHEN $3 = 1 AND due_ms > $4 AND owner IS NULL AND note IS NULL THEN $4 ELSE due_ms END
                     WHERE id = $1",
                )
                .binds((id, now_ms, i64::from(is_critical), now_ms + CRITICAL_WITHIN_MS))
                .execute(&mut *db)
                .await?;
                continue;
            };
            sqlx::query(
                "INSERT INTO digests (id, channel, topic, opened_ms, joined_ms, due_ms) VALUES ($1, $2, $3, $4, $4, $4)",
            )
            .binds((id, channel, topic, now_ms))
            .execute(&mut *db)
            .await?;
        }
        Ok(is_new)
    }
}

/// Counts the recent incidents of a channel, no further than the limit: a storm has thousands.
async fn count_opened(db: &mut StoreConnection, channel: &str, storm: &Storm, since: i64) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar(
        "SELECT COUNT(*) FROM
           (SELECT 1 FROM incidents i JOIN deliveries d ON d.incident_id = i.id
              AND d.sink = 'slack' AND d.channel = $1 AND d.state NOT IN ('suppressed', 'filtered') AND d.storm IS NULL
            WHERE i.opened_ms > $2 LIMIT $3) AS counted",
    );
    Ok(count.bind(channel).bind(since).bind(i64::from(storm.incidents)).fetch_one(db).await?)
}

/// Counts the new messages of a channel that wait, no further than the limit.
async fn count_waiting(db: &mut StoreConnection, channel: &str, storm: &Storm) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar(
        "SELECT COUNT(*) FROM
           (SELECT 1 FROM deliveries
            WHERE sink = 'slack' AND channel = $1 AND state = 'pending' AND posted_ts IS NULL
              AND storm IS NULL LIMIT $2) AS counted",
    );
    Ok(count.bind(channel).bind(i64::from(storm.queue)).fetch_one(db).await?)
}

/// Returns the ids of the digests that incidents of this channel join, by topic.
async fn read_digests(
    db: &mut StoreConnection,
    channel: &str,
    since: i64,
) -> Result<BTreeMap<String, String>, StoreError> {
    let digests: Vec<(String, String)> = sqlx::query_as(
        "SELECT g.topic, g.id FROM digests g WHERE g.joined_ms > $2
           AND (g.channel = $1
                OR EXISTS (SELECT 1 FROM deliveries d WHERE d.digest_id = g.id AND d.channel = $1 AND d.sink = 'slack'))
         ORDER BY g.id",
    )
    .binds((channel, since))
    .fetch_all(db)
    .await?;
    Ok(digests.into_iter().collect())
}
