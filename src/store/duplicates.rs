//! Scheduled duplicate checks: places in Slack where a message may exist twice, because an answer of Slack was lost.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::connections::StoreConnection;
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};

/// A check that is due within this time is not moved forward.
const BY_ITSELF_MS: i64 = 600_000;

/// A duplicate check: a place where a message may exist twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateCheck {
    /// The id of the incident, digest, weekly summary or post that the message belongs to.
    pub subject: String,
    /// The channel as configured, or its id.
    pub channel: String,
    /// The timestamp of the thread's first message; `None` outside a thread.
    pub thread: Option<String>,
    /// The start of the first post with an unknown result.
    pub since: Timestamp,
    /// Number of checks done so far.
    pub checks_done: u32,
}

/// The messages that are valid for a subject; all others are duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidMessages {
    /// No message: it is not posted yet, or its subject was deleted.
    No,
    /// The messages with these timestamps; empty for a picture, for which Slack returns no timestamp.
    At(Vec<String>),
}

impl Store {
    /// Schedules a duplicate check at `due`.
    pub async fn schedule_duplicate_check(&self, check: &DuplicateCheck, due: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO looks (subject, channel, thread_ts, since_ms, due_ms) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (subject, channel) DO UPDATE SET looks = 0, due_ms = excluded.due_ms, owner = NULL",
        )
        .binds((&check.subject, &check.channel, &check.thread, unix_ms(check.since), unix_ms(due)))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Records a finished check; the next one is at `next`, if any.
    pub async fn finish_duplicate_check(
        &self,
        check: &DuplicateCheck,
        next: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        // If another check was requested meanwhile, the row is no longer ours and stays unchanged.
        let query = match next {
            Some(_) => sqlx::query(
                "UPDATE looks SET looks = looks + 1, due_ms = $4, owner = NULL
                 WHERE subject = $1 AND channel = $2 AND owner = $3",
            ),
            None => sqlx::query("DELETE FROM looks WHERE subject = $1 AND channel = $2 AND owner = $3"),
        };
        let query = query.bind(&check.subject).bind(&check.channel).bind(&*self.me);
        let query = match next {
            Some(next) => query.bind(unix_ms(next)),
            None => query,
        };
        query.execute(&self.write).await?;
        Ok(())
    }

    /// Postpones a check until `due`.
    pub async fn postpone_duplicate_check(&self, check: &DuplicateCheck, due: Timestamp) -> Result<(), StoreError> {
        let query = sqlx::query("UPDATE looks SET due_ms = $3, owner = NULL WHERE subject = $1 AND channel = $2");
        query.bind(&check.subject).bind(&check.channel).bind(unix_ms(due)).execute(&self.write).await?;
        Ok(())
    }

    /// Returns the valid messages of an incident, a digest, a weekly summary or a post.
    pub async fn valid_messages(&self, subject: &str) -> Result<ValidMessages, StoreError> {
        let rows = sqlx::query(
            "SELECT posted_ts FROM deliveries WHERE incident_id = $1 AND sink = 'slack' AND posted_ts IS NOT NULL
             UNION ALL SELECT posted_ts FROM digests WHERE id = $1 AND posted_ts IS NOT NULL
             UNION ALL SELECT posted_ts FROM weeklies WHERE id = $1 AND posted_ts IS NOT NULL
             UNION ALL SELECT posted_ts FROM posts WHERE id = $1 AND state = 'done'",
        )
        .bind(subject)
        .fetch_all(&self.read)
        .await?;
        if rows.is_empty() {
            return Ok(ValidMessages::No);
        }
        let timestamps = rows.iter().map(|row| row.try_get::<Option<String>, _>("posted_ts"));
        Ok(ValidMessages::At(timestamps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()))
    }

    /// Returns a channel's id, taken from an earlier message posted to it by this name.
    pub async fn channel_id(&self, name: &str) -> Result<Option<String>, StoreError> {
        let id = sqlx::query_scalar(
            "SELECT posted_to FROM deliveries WHERE sink = 'slack' AND channel = $1 AND posted_to IS NOT NULL
             ORDER BY incident_id DESC LIMIT 1",
        );
        Ok(id.bind(name).fetch_optional(&self.read).await?)
    }
}

/// Moves the last duplicate checks of an incident's messages and posts to now, because it has ended.
pub(super) async fn hasten_duplicate_checks(
    db: &mut StoreConnection,
    incident: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE looks SET due_ms = $2 WHERE due_ms > $3 AND owner IS NULL
           AND (subject = $1 OR subject IN (SELECT id FROM posts WHERE incident_id = $1))",
    )
    .binds((incident, now_ms, now_ms + BY_ITSELF_MS))
    .execute(db)
    .await?;
    Ok(())
}

pub(super) fn duplicate_check(row: &AnyRow) -> Result<DuplicateCheck, StoreError> {
    let checks_done: i64 = row.try_get("looks")?;
    Ok(DuplicateCheck {
        subject: row.try_get("subject")?,
        channel: row.try_get("channel")?,
        thread: row.try_get("thread_ts")?,
        since: from_unix_ms(row.try_get("since_ms")?),
        checks_done: u32::try_from(checks_done).unwrap_or(u32::MAX),
    })
}
