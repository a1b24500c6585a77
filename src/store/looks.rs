//! Looks: where a message of ours may stand a second time, because an answer of Slack's was lost.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::connections::Connection;
use super::{Store, StoreError};
use crate::clock::{from_unix_ms, unix_ms};

/// A look that is due within this time comes by itself.
const BY_ITSELF_MS: i64 = 600_000;

/// A place where a message may stand twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The incident, digest or post whose message it is.
    pub subject: String,
    /// The channel as configured, or its id.
    pub channel: String,
    /// The thread, by its first message.
    pub thread: Option<String>,
    /// When the first post began whose answer is not known.
    pub since: Timestamp,
    /// How often it was looked at.
    pub looks: u32,
}

/// Whose messages stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is still to be posted, or nobody knows it any more.
    No,
    /// These messages; none of a picture, whose message Slack does not name.
    At(Vec<String>),
}

impl Store {
    /// A message may appear there a second time: it is looked for at `due`.
    ///
    /// # Errors
    /// When the store fails; here and below.
    pub async fn look_later(&self, look: &Look, due: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO looks (subject, channel, thread_ts, since_ms, due_ms) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (subject, channel) DO UPDATE SET looks = 0, due_ms = excluded.due_ms, owner = NULL",
        )
        .bind(&look.subject)
        .bind(&look.channel)
        .bind(&look.thread)
        .bind(unix_ms(look.since))
        .bind(unix_ms(due))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// It was looked at; the next time is `next`, if any.
    ///
    /// # Errors
    /// See [`Self::look_later`].
    pub async fn looked(&self, look: &Look, next: Option<Timestamp>) -> Result<(), StoreError> {
        // Whoever asked for another look meanwhile took it from us.
        let query = match next {
            Some(_) => sqlx::query(
                "UPDATE looks SET looks = looks + 1, due_ms = $4, owner = NULL
                 WHERE subject = $1 AND channel = $2 AND owner = $3",
            ),
            None => sqlx::query("DELETE FROM looks WHERE subject = $1 AND channel = $2 AND owner = $3"),
        };
        let query = query.bind(&look.subject).bind(&look.channel).bind(&*self.me);
        let query = match next {
            Some(next) => query.bind(unix_ms(next)),
            None => query,
        };
        query.execute(&self.write).await?;
        Ok(())
    }

    /// Not now: look at `due`.
    ///
    /// # Errors
    /// See [`Self::look_later`].
    pub async fn look_postponed(&self, look: &Look, due: Timestamp) -> Result<(), StoreError> {
        let query = sqlx::query("UPDATE looks SET due_ms = $3, owner = NULL WHERE subject = $1 AND channel = $2");
        query.bind(&look.subject).bind(&look.channel).bind(unix_ms(due)).execute(&self.write).await?;
        Ok(())
    }

    /// Which messages of an incident, a digest or a post are meant to stand.
    ///
    /// # Errors
    /// See [`Self::look_later`].
    pub async fn standing(&self, subject: &str) -> Result<Standing, StoreError> {
        let rows = sqlx::query(
            "SELECT posted_ts FROM deliveries WHERE incident_id = $1 AND sink = 'slack' AND posted_ts IS NOT NULL
             UNION ALL SELECT posted_ts FROM digests WHERE id = $1 AND posted_ts IS NOT NULL
             UNION ALL SELECT posted_ts FROM posts WHERE id = $1 AND state = 'done'",
        )
        .bind(subject)
        .fetch_all(&self.read)
        .await?;
        if rows.is_empty() {
            return Ok(Standing::No);
        }
        let stands = rows.iter().map(|row| row.try_get::<Option<String>, _>("posted_ts"));
        Ok(Standing::At(stands.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()))
    }

    /// A channel's id, from a message that was posted to it by this name.
    ///
    /// # Errors
    /// See [`Self::look_later`].
    pub async fn channel_id(&self, name: &str) -> Result<Option<String>, StoreError> {
        let id = sqlx::query_scalar(
            "SELECT posted_to FROM deliveries WHERE sink = 'slack' AND channel = $1 AND posted_to IS NOT NULL
             ORDER BY incident_id DESC LIMIT 1",
        );
        Ok(id.bind(name).fetch_optional(&self.read).await?)
    }
}

/// An incident has ended: where only the last look is left of its messages and posts, they are looked for now too.
pub(super) async fn look_again(db: &mut Connection, incident: &str, now_ms: i64) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE looks SET due_ms = $2 WHERE due_ms > $3 AND owner IS NULL
           AND (subject = $1 OR subject IN (SELECT id FROM posts WHERE incident_id = $1))",
    )
    .bind(incident)
    .bind(now_ms)
    .bind(now_ms + BY_ITSELF_MS)
    .execute(db)
    .await?;
    Ok(())
}

pub(super) fn look(row: &AnyRow) -> Result<Look, StoreError> {
    let looks: i64 = row.try_get("looks")?;
    Ok(Look {
        subject: row.try_get("subject")?,
        channel: row.try_get("channel")?,
        thread: row.try_get("thread_ts")?,
        since: from_unix_ms(row.try_get("since_ms")?),
        looks: u32::try_from(looks).unwrap_or(u32::MAX),
    })
}
