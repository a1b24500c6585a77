//! Pending work for the sinks in order of priority: the first items of each lane, and the lease of an item.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::deliveries::{Delivery, Sink};
use super::digests::{Digest, digest};
use super::duplicates::{DuplicateCheck, duplicate_check};
use super::mentions::CalledPeople;
use super::posts::{Post, PostKind, post};
use super::values::BindValues;
use super::weekly::{SummaryPost, WEEKLIES, weekly};
use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};

/// The priority of pending work; the first variant is the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryPriority {
    /// A new message of a critical incident, or a call for a person.
    NewCritical,
    /// Any other new message.
    New,
    /// The first edit of a message that was posted when its incident opened: it mostly brings the diagnosis. One that reports
    /// the end of an incident, or any for a critical one.
    Favoured,
    /// Any other edit.
    Update,
    /// A post in a thread.
    Thread,
    /// An edit of a digest.
    Digest,
    /// A duplicate check.
    DuplicateCheck,
    /// A weekly or daily summary.
    SummaryPost,
}

/// A piece of work for a sink.
#[derive(Debug, Clone, PartialEq)]
pub enum PendingWork {
    /// An incident's message, new or edited.
    Message(Delivery),
    /// A digest, new or edited.
    Digest(Digest),
    /// A post in a thread.
    Post(Post),
    /// A duplicate check.
    DuplicateCheck(DuplicateCheck),
    /// A weekly or daily summary.
    SummaryPost(SummaryPost),
}

impl PendingWork {
    /// Returns the incident concerned; `None` for a digest, a duplicate check and a summary.
    pub fn incident(&self) -> Option<&str> {
        match self {
            Self::Message(delivery) => Some(&delivery.incident),
            Self::Post(post) => Some(&post.incident),
            Self::Digest(_) | Self::DuplicateCheck(_) => None,
            Self::SummaryPost(_) => None,
        }
    }

    /// Returns the timestamp of the message to edit; `None` for a new message.
    fn edits(&self) -> Option<&str> {
        let posted = match self {
            Self::Message(delivery) => delivery.posted.as_ref(),
            Self::Digest(digest) => digest.posted.as_ref(),
            Self::Post(_) | Self::DuplicateCheck(_) => None,
            Self::SummaryPost(_) => None,
        };
        posted.map(|(_, ts)| ts.as_str())
    }
}

/// A table of work that waits for its time.
pub(super) struct WorkTable {
    name: &'static str,
    /// The column with that time.
    due: &'static str,
    /// The condition for rows that wait.
    waits: &'static str,
    /// The condition for rows that wait because a process had taken them, unless it lives.
    interrupted: &'static str,
}

impl WorkTable {
    /// Returns the statement of a text about `{table}` with its column `{due}`, and rows that `{wait}` or are
    /// `{interrupted}`.
    pub(super) fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        let text = text.replace("{table}", self.name).replace("{due}", self.due);
        AssertSqlSafe(text.replace("{wait}", self.waits).replace("{interrupted}", self.interrupted))
    }
}

const fn sent(name: &'static str) -> WorkTable {
    // What pauses after an error has no owner.
    let interrupted = "state = 'pending' AND (tries = 0 OR owner IS NOT NULL)";
    WorkTable { name, due: "due_ms", waits: "state = 'pending'", interrupted }
}

const fn planned(name: &'static str) -> WorkTable {
    // Only taken rows have an owner; the others are not due yet.
    WorkTable { name, due: "due_ms", waits: "TRUE", interrupted: "owner IS NOT NULL" }
}

/// All tables of work: first diagnoses, follow-ups, duplicate checks, and what is sent.
pub(super) const WORK: &[WorkTable] = &[
    WorkTable {
        name: "incidents",
        due: "diagnose_due_ms",
        waits: "diagnose_due_ms IS NOT NULL",
        interrupted: "diagnosis IS NULL",
    },
    planned("followups"),
    planned("looks"),
    sent("deliveries"),
    sent("posts"),
    sent("digests"),
    sent("weeklies"),
];

/// An item that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingItem {
    /// The priority.
    pub turn: DeliveryPriority,
    /// The work.
    pub work: PendingWork,
    due_ms: i64,
}

impl Store {
    /// Returns due work by priority, then by waiting time; at most `most` items per channel and priority. Takes no
    /// lease.
    pub async fn waiting(&self, now: Timestamp, most: u32) -> Result<Vec<PendingItem>, StoreError> {
        let mut out = Vec::new();
        for (what, sql, read) in [
            ("deliveries", MESSAGES, message as Read),
            ("digests", DIGESTS, of_digest),
            ("posts", POSTS, of_post),
            ("looks", DUPLICATE_CHECKS, of_duplicate_check),
            ("weeklies", WEEKLIES, |row| Ok((DeliveryPriority::SummaryPost, PendingWork::SummaryPost(weekly(row)?)))),
        ] {
            let rows = sqlx::query(sql).bind(unix_ms(now)).bind(i64::from(most)).fetch_all(&self.read).await?;
            for row in &rows {
                let item =
                    read(row).and_then(|(turn, work)| Ok(PendingItem { turn, work, due_ms: row.try_get("due_ms")? }));
                match item {
                    Ok(item) => out.push(item),
                    // An unreadable row would block the queue for ever.
                    Err(error) => {
                        if let Err(error) = self.set_aside(what, row, &error).await {
                            tracing::error!(%error, what, "cannot set an unreadable row aside");
                        }
                    }
                }
            }
        }
        out.sort_by_key(|waiting: &PendingItem| (waiting.turn, waiting.due_ms));
        Ok(out)
    }

    /// Takes an item by a lease of `lease_ms`. Returns false if another replica has taken it, or has posted it
    /// meanwhile.
    pub async fn take(&self, waiting: &PendingItem, now: Timestamp, lease_ms: i64) -> Result<bool, StoreError> {
        let query = match &waiting.work {
            PendingWork::Message(delivery) => sqlx::query(
                "UPDATE deliveries SET due_ms = $1 + $2, owner = $6,
                   began_ms = CASE WHEN sink = 'slack' AND posted_ts IS NULL THEN COALESCE(began_ms, $1) ELSE NULL END
                 WHERE state = 'pending' AND due_ms <= $1 AND incident_id = $3 AND sink = $4 AND channel = $5
                   AND COALESCE(posted_ts, '') = $7 AND COALESCE(began_ms, 0) = $8",
            )
            .binds((unix_ms(now), lease_ms, &delivery.incident, delivery.sink.as_str(), &delivery.channel, &*self.me))
            .bind(posted_ts(delivery.posted.as_ref()))
            .bind(delivery.began.map_or(0, unix_ms)),
            PendingWork::Digest(digest) => sqlx::query(
                "UPDATE digests SET due_ms = $1 + $2, owner = $4,
                   began_ms = CASE WHEN posted_ts IS NULL THEN COALESCE(began_ms, $1) ELSE NULL END
                 WHERE state = 'pending' AND due_ms <= $1 AND id = $3 AND COALESCE(posted_ts, '') = $5
                   AND COALESCE(began_ms, 0) = $6",
            )
            .binds((unix_ms(now), lease_ms, &digest.id, &*self.me, posted_ts(digest.posted.as_ref())))
            .bind(digest.began.map_or(0, unix_ms)),
            PendingWork::Post(post) => sqlx::query(
                "UPDATE posts SET due_ms = $1 + $2, owner = $4, began_ms = COALESCE(began_ms, $1)
                 WHERE state = 'pending' AND due_ms <= $1 AND id = $3 AND COALESCE(began_ms, 0) = $5",
            )
            .binds((unix_ms(now), lease_ms, &post.id, &*self.me))
            .bind(post.began.map_or(0, unix_ms)),
            PendingWork::DuplicateCheck(check) => sqlx::query(
                "UPDATE looks SET due_ms = $1 + $2, owner = $5 WHERE due_ms <= $1 AND subject = $3 AND channel = $4",
            )
            .binds((unix_ms(now), lease_ms, &check.subject, &check.channel))
            .bind(&*self.me),
            PendingWork::SummaryPost(weekly) => sqlx::query(
                "UPDATE weeklies SET due_ms = $1 + $2, owner = $4, began_ms = COALESCE(began_ms, $1)
                 WHERE state = 'pending' AND due_ms <= $1 AND id = $3 AND COALESCE(began_ms, 0) = $5",
            )
            .binds((unix_ms(now), lease_ms, &weekly.id, &*self.me))
            .bind(weekly.began.map_or(0, unix_ms)),
        };
        match query.execute(&self.write).await.map_err(StoreError::from) {
            Ok(done) => Ok(done.rows_affected() > 0),
            // An edit is idempotent, so it need not be recorded first; a new message would be posted again and again.
            Err(error) if error.is_full() => match waiting.work.edits() {
                Some(ts) => Ok(self.full.lend(ts.to_owned(), Duration::from_millis(lease_ms.unsigned_abs()))),
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Returns the due times of the next diagnosis and the next delivery. A delivery that is due already waits for a
    /// rate limit and is not included.
    pub async fn next_due(&self, now: Timestamp) -> Result<(Option<i64>, Option<i64>), StoreError> {
        let row = sqlx::query(
            "SELECT (SELECT MIN(diagnose_due_ms) FROM incidents WHERE diagnose_due_ms IS NOT NULL) AS diagnosis,
                    (SELECT MIN(due_ms) FROM (
                       SELECT MIN(d.due_ms) AS due_ms FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                         WHERE d.state = 'pending' AND d.due_ms > $1 AND d.revision < i.revision
                       UNION ALL SELECT MIN(due_ms) FROM digests WHERE state = 'pending' AND due_ms > $1
                       UNION ALL SELECT MIN(due_ms) FROM posts WHERE state = 'pending' AND due_ms > $1
                       UNION ALL SELECT MIN(due_ms) FROM weeklies WHERE state = 'pending' AND due_ms > $1
                       UNION ALL SELECT MIN(due_ms) FROM looks WHERE due_ms > $1) work) AS delivery",
        )
        .bind(unix_ms(now))
        .fetch_one(&self.read)
        .await?;
        Ok((row.try_get("diagnosis")?, row.try_get("delivery")?))
    }

    /// Returns the number of open incidents, of due diagnoses and of messages that are not up to date, without those of pagers. A message
    /// that its channel refuses does not count once another channel shows the incident.
    pub async fn depths(&self, now: Timestamp) -> Result<(i64, i64, i64), StoreError> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM incidents WHERE state = 'open') AS open,
                    (SELECT COUNT(*) FROM incidents WHERE diagnose_due_ms <= $1) AS diagnoses,
                    (SELECT COUNT(*) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
                       WHERE d.state = 'pending' AND d.revision < i.revision AND d.sink <> 'pager'
                         AND NOT (d.channel IN (SELECT channel FROM refusals) AND EXISTS (SELECT 1 FROM deliveries o
                           WHERE o.incident_id = d.incident_id AND o.sink = 'slack' AND o.channel <> d.channel
                             AND o.posted_ts IS NOT NULL))) AS deliveries",
        )
        .bind(unix_ms(now))
        .fetch_one(&self.read)
        .await?;
        Ok((row.try_get("open")?, row.try_get("diagnoses")?, row.try_get("deliveries")?))
    }
}

/// Returns the timestamp of the posted message; empty if there is none.
fn posted_ts(posted: Option<&(String, String)>) -> &str {
    posted.map(|(_, ts)| ts.as_str()).unwrap_or_default()
}

type Read = fn(&AnyRow) -> Result<(DeliveryPriority, PendingWork), StoreError>;

const MESSAGES: &str = "
    SELECT * FROM (
      SELECT w.*, ROW_NUMBER() OVER (PARTITION BY sink, turn, lane ORDER BY due_ms, incident_id) AS place FROM (
        SELECT d.incident_id, d.sink, d.channel, d.posted_to, d.posted_ts, d.tries, d.told, d.due_ms, d.began_ms,
               d.escalation,
               CASE WHEN d.mentioned_ms >= COALESCE(i.critical_ms, 0) THEN d.mentioned ELSE '' END AS called,
               CASE WHEN d.posted_ts IS NULL THEN d.channel ELSE '' END AS lane,
               CAST(CASE WHEN d.posted_ts IS NULL AND i.critical = 1 THEN 0 WHEN d.posted_ts IS NULL THEN 1
                         WHEN i.critical = 1 OR i.state = 'resolved' OR d.revision = 1 THEN 2 ELSE 3 END AS BIGINT) AS turn
        FROM deliveries d JOIN incidents i ON i.id = d.incident_id
        WHERE d.state = 'pending' AND d.storm IS NULL AND d.due_ms <= $1 AND d.revision < i.revision) w) ranked
    WHERE place <= $2";

const DIGESTS: &str = "
    SELECT g.id, g.channel, g.topic, g.opened_ms, g.posted_to, g.posted_ts, g.tries, g.due_ms, g.began_ms,
           CAST(SUM(CASE WHEN i.state = 'open' THEN 1 ELSE 0 END) AS BIGINT) AS firing,
           CAST(SUM(CASE WHEN i.state = 'open' THEN i.critical ELSE 0 END) AS BIGINT) AS critical,
           CAST(SUM(CASE WHEN i.state <> 'open' OR i.critical = 0 OR d.mentioned_ms >= COALESCE(i.critical_ms, 0)
                         THEN 0 ELSE 1 END) AS BIGINT) AS unmentioned
    FROM digests g JOIN deliveries d ON d.digest_id = g.id JOIN incidents i ON i.id = d.incident_id
    WHERE g.state = 'pending' AND g.due_ms <= $1
    GROUP BY g.id, g.channel, g.topic, g.opened_ms, g.posted_to, g.posted_ts, g.tries, g.due_ms, g.began_ms, g.delivered
    HAVING g.delivered < SUM(i.revision) ORDER BY g.due_ms LIMIT $2";

/// Selects the first waiting post of each thread, so that the thread keeps its order; but posts do not wait for a
/// picture, and a mention does not wait at all. A post without a channel goes to the thread in a channel that accepts
/// messages, with the same order of preference as `place_of`.
const POSTS: &str = "
    SELECT * FROM (
      SELECT w.*, ROW_NUMBER() OVER (PARTITION BY channel
                                     ORDER BY CASE kind WHEN 'mention' THEN 0 ELSE 1 END, due_ms, id) AS place FROM (
        SELECT p.id, p.incident_id, p.kind, p.body, p.about, p.tries, p.due_ms, p.began_ms, d.told,
               d.channel AS delivery,
               COALESCE(g.channel, d.channel) AS channel,
               COALESCE(d.posted_to, g.posted_to) AS posted_to, COALESCE(d.posted_ts, g.posted_ts) AS posted_ts,
               ROW_NUMBER() OVER (PARTITION BY p.id ORDER BY
                 CASE WHEN d.channel IN (SELECT channel FROM refusals) THEN 2 ELSE 0 END
                 + CASE WHEN d.stands_in_for IS NULL THEN 0 ELSE 1 END, d.channel) AS thread
        FROM posts p JOIN deliveries d ON d.incident_id = p.incident_id AND d.sink = 'slack'
            AND (p.channel IS NULL OR p.channel = d.channel)
          LEFT JOIN digests g ON g.id = d.digest_id
        WHERE p.state = 'pending' AND p.due_ms <= $1 AND COALESCE(d.posted_ts, g.posted_ts) IS NOT NULL
          AND (p.kind = 'mention' OR NOT EXISTS
                 (SELECT 1 FROM posts q
                  WHERE q.incident_id = p.incident_id AND COALESCE(q.channel, '') = COALESCE(p.channel, '')
                    AND q.state = 'pending' AND q.kind <> 'picture' AND q.id < p.id))) w WHERE thread = 1) ranked
    WHERE place <= $2";

const DUPLICATE_CHECKS: &str = "
    SELECT subject, channel, thread_ts, since_ms, due_ms, looks FROM looks WHERE due_ms <= $1 ORDER BY due_ms LIMIT $2";

fn message(row: &AnyRow) -> Result<(DeliveryPriority, PendingWork), StoreError> {
    let tries: i64 = row.try_get("tries")?;
    let to: Option<String> = row.try_get("posted_to")?;
    let ts: Option<String> = row.try_get("posted_ts")?;
    let delivery = Delivery {
        incident: row.try_get("incident_id")?,
        sink: row.try_get::<&str, _>("sink")?.parse().unwrap_or(Sink::Console),
        channel: row.try_get("channel")?,
        posted: to.zip(ts),
        tries: u32::try_from(tries).unwrap_or(u32::MAX),
        called: CalledPeople::read(row.try_get("called")?),
        escalation: row.try_get("escalation")?,
        thread_state: row.try_get("told")?,
        began: row.try_get::<Option<i64>, _>("began_ms")?.map(from_unix_ms),
    };
    let turn = match row.try_get::<i64, _>("turn")? {
        0 => DeliveryPriority::NewCritical,
        1 => DeliveryPriority::New,
        2 => DeliveryPriority::Favoured,
        _ => DeliveryPriority::Update,
    };
    Ok((turn, PendingWork::Message(delivery)))
}

fn of_digest(row: &AnyRow) -> Result<(DeliveryPriority, PendingWork), StoreError> {
    let digest = digest(row)?;
    let (firing, critical): (i64, i64) = (row.try_get("firing")?, row.try_get("critical")?);
    let calls = row.try_get::<i64, _>("unmentioned")? > 0;
    let turn = match (&digest.posted, critical > 0, firing > 0) {
        (None, true, _) => DeliveryPriority::NewCritical,
        (None, false, _) => DeliveryPriority::New,
        // An edit has the digest's priority, unless it is the last one or an incident in it has called nobody yet.
        // Whether another owner must be called depends on the routes, which are not known here.
        (Some(_), _, false) => DeliveryPriority::Favoured,
        (Some(_), _, true) if calls => DeliveryPriority::Favoured,
        (Some(_), _, true) => DeliveryPriority::Digest,
    };
    Ok((turn, PendingWork::Digest(digest)))
}

fn of_duplicate_check(row: &AnyRow) -> Result<(DeliveryPriority, PendingWork), StoreError> {
    Ok((DeliveryPriority::DuplicateCheck, PendingWork::DuplicateCheck(duplicate_check(row)?)))
}

fn of_post(row: &AnyRow) -> Result<(DeliveryPriority, PendingWork), StoreError> {
    let post = post(row)?;
    let turn = match post.kind {
        // A person is called, or waits for an answer.
        PostKind::Mention | PostKind::Answer => DeliveryPriority::NewCritical,
        _ => DeliveryPriority::Thread,
    };
    Ok((turn, PendingWork::Post(post)))
}
