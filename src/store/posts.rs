//! Posts: messages that are sent once, in the thread of an incident's message.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;
use strum::{EnumString, IntoStaticStr};

use super::connections::StoreConnection;
use super::errors::unreadable;
use super::events::record_event;
use super::ids::new_id;
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};
use message::{Message, SlackMessage};

/// The kind of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum PostKind {
    /// The changes since the last post of the thread; determined when it is sent.
    Change,
    /// A chart of the deciding signals; drawn when it is sent.
    Picture,
    /// A call for a person, if the message itself could not call.
    Mention,
    /// A call for people again, because nobody has acknowledged; determined when it is sent.
    Reminder,
    /// An action of a user.
    Note,
    /// An answer to a user, as shown in Slack.
    Answer,
}

impl PostKind {
    /// Returns the name in the store and in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A post to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Unique id, sortable by time.
    pub id: String,
    /// The incident.
    pub incident: String,
    /// The kind of post.
    pub kind: PostKind,
    /// The message as JSON; empty for a change, a picture and a reminder, the id to call for a mention.
    pub body: String,
    /// The pools concerned, for a mention in a digest's thread; the id of the audit log line for the result, for an
    /// answer that escalates.
    pub about: Option<String>,
    /// The state that the thread described last.
    pub thread_state: Option<String>,
    /// The channel of the incident's delivery, as configured.
    pub delivery: String,
    /// The target channel, as configured: that of the digest that covers the incident, or else the incident's own.
    pub channel: String,
    /// Slack's channel id and timestamp of the thread's first message.
    pub thread: (String, String),
    /// Number of consecutive failures so far.
    pub tries: u32,
    /// The start of an earlier attempt without a known result: the post may exist in Slack already.
    pub began: Option<Timestamp>,
}

impl Store {
    /// Queues an answer to a user for the incident's thread in a channel that accepts messages. Returns false without
    /// changes if the incident has no thread.
    pub async fn queue_answer(
        &self,
        incident: &str,
        message: &SlackMessage,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let queued = queue_answer(&mut tx, incident, message, "", now).await?;
        tx.commit().await?;
        Ok(queued)
    }

    /// Queues a post about changes for the thread in this channel; it includes changes that wait already.
    pub async fn queue_change(&self, incident: &str, channel: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        queue(&mut tx, [incident, channel], PostKind::Change, ["", ""], now).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Queues a picture of the evidence for all threads. A picture that waits already shows the newest
    /// state too.
    pub async fn queue_picture(&self, incident: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        queue_everywhere(&mut tx, incident, PostKind::Picture, "", now).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Records a sent post with its timestamp; `None` for a picture, whose timestamp is unknown.
    pub async fn posted(&self, post: &Post, ts: Option<&str>) -> Result<(), StoreError> {
        let update = sqlx::query("UPDATE posts SET state = 'done', note = NULL, posted_ts = $2 WHERE id = $1");
        update.bind(&post.id).bind(ts).execute(&self.write).await?;
        Ok(())
    }

    /// Records a post whose answer was lost and that was found, with the state that it described. Returns false if the
    /// id is not that of a post, or the post is recorded already.
    pub async fn found_post(&self, id: &str, ts: &str, state: Option<&str>) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let recorded = sqlx::query(
            "UPDATE posts SET state = 'done', posted_ts = $2, note = NULL WHERE id = $1 AND state <> 'done'",
        );
        let recorded = recorded.bind(id).bind(ts).execute(&mut *tx).await?.rows_affected() > 0;
        if recorded && state.is_some() {
            sqlx::query(
                "UPDATE deliveries SET told = $2
                 WHERE sink = 'slack' AND incident_id = (SELECT incident_id FROM posts WHERE id = $1)
                   AND channel = COALESCE((SELECT channel FROM posts WHERE id = $1), channel)",
            )
            .binds((id, state))
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(recorded)
    }

    /// Closes a post that is not needed any more.
    pub async fn post_needless(&self, post: &Post, note: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE posts SET state = 'done', note = $2 WHERE id = $1")
            .binds((&post.id, note))
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Gives up a post, with the reason.
    pub async fn post_given_up(&self, post: &Post, note: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let failed = sqlx::query("UPDATE posts SET state = 'failed', note = $2 WHERE id = $1");
        failed.bind(&post.id).bind(note).execute(&mut *tx).await?;
        let detail = format!("{}: {note}", post.kind.as_str());
        record_event(&mut tx, &post.incident, unix_ms(now), "post failed", &detail).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Gives up posts that have waited since `before` for the message whose thread they belong to. Returns their
    /// number.
    pub async fn give_up_orphans(&self, before: Timestamp) -> Result<u64, StoreError> {
        let update = sqlx::query(
            "UPDATE posts SET state = 'failed', note = 'the incident has no message in Slack'
             WHERE state = 'pending' AND due_ms < $1 AND NOT EXISTS
               (SELECT 1 FROM deliveries d LEFT JOIN digests g ON g.id = d.digest_id
                WHERE d.incident_id = posts.incident_id AND d.sink = 'slack'
                  AND (posts.channel IS NULL OR posts.channel = d.channel)
                  AND COALESCE(d.posted_ts, g.posted_ts) IS NOT NULL)",
        )
        .bind(unix_ms(before))
        .execute(&self.write)
        .await?;
        Ok(update.rows_affected())
    }
}

/// Queues a message for each thread of an incident, after the posts that wait already.
pub(super) async fn queue_message(
    db: &mut StoreConnection,
    incident: &str,
    kind: PostKind,
    message: &Message,
    now: Timestamp,
) -> Result<(), StoreError> {
    let body = serde_json::to_string(message).map_err(|e| unreadable("post", incident, &e))?;
    queue_everywhere(db, incident, kind, &body, now).await
}

/// Queues an answer. `about` is empty, or for the call of an escalation the id of the audit log line for its result.
/// Returns false without changes if the incident has no thread.
pub(super) async fn queue_answer(
    db: &mut StoreConnection,
    incident: &str,
    message: &SlackMessage,
    about: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let body = serde_json::to_string(message).map_err(|e| unreadable("post", incident, &e))?;
    queue(db, [incident, ""], PostKind::Answer, [&body, about], now).await
}

/// Queues a post for all threads of an incident; digests' threads get no pictures.
async fn queue_everywhere(
    db: &mut StoreConnection,
    incident: &str,
    kind: PostKind,
    body: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let channels: Vec<String> = sqlx::query_scalar(
        "SELECT channel FROM deliveries WHERE incident_id = $1 AND sink = 'slack'
           AND state <> 'filtered' AND (state <> 'digested' OR $2 <> 'picture') ORDER BY channel",
    )
    .binds((incident, kind.as_str()))
    .fetch_all(&mut *db)
    .await?;
    for channel in &channels {
        queue(db, [incident, channel], kind, [body, ""], now).await?;
    }
    Ok(())
}

/// Queues a post. An empty channel means the thread in a channel that accepts messages. Returns true if it was queued;
/// false if the incident has no thread, or the same post waits already.
pub(super) async fn queue(
    db: &mut StoreConnection,
    [incident, channel]: [&str; 2],
    kind: PostKind,
    [body, about]: [&str; 2],
    now: Timestamp,
) -> Result<bool, StoreError> {
    let once = !matches!(kind, PostKind::Note | PostKind::Answer);
    let queued = sqlx::query(
        "INSERT INTO posts (id, incident_id, channel, kind, body, about, due_ms)
         SELECT $1, $2, NULLIF($3, ''), $4, $5, NULLIF($6, ''), CAST($7 AS BIGINT)
         WHERE EXISTS (SELECT 1 FROM deliveries WHERE incident_id = $2 AND sink = 'slack'
                         AND (posted_ts IS NOT NULL OR state IN ('pending', 'digested')))
           AND ($8 = 0 OR NOT EXISTS
             (SELECT 1 FROM posts WHERE incident_id = $2 AND kind = $4 AND state = 'pending'
                AND (channel IS NULL OR channel = $3) AND (kind <> 'mention' OR body = $5)))",
    )
    .binds((new_id(), incident, channel, kind.as_str(), body, about, unix_ms(now), i64::from(once)))
    .execute(db)
    .await?;
    Ok(queued.rows_affected() > 0)
}

pub(super) fn post(row: &AnyRow) -> Result<Post, StoreError> {
    let id: String = row.try_get("id")?;
    let kind: String = row.try_get("kind")?;
    let tries: i64 = row.try_get("tries")?;
    let kind = kind.parse().map_err(|_| StoreError::Unreadable {
        what: "kind of a post",
        id: id.clone(),
        error: format!("`{kind}` is unknown"),
    })?;
    Ok(Post {
        id,
        incident: row.try_get("incident_id")?,
        kind,
        body: row.try_get("body")?,
        about: row.try_get("about")?,
        thread_state: row.try_get("told")?,
        delivery: row.try_get("delivery")?,
        channel: row.try_get("channel")?,
        thread: (row.try_get("posted_to")?, row.try_get("posted_ts")?),
        tries: u32::try_from(tries).unwrap_or(u32::MAX),
        began: row.try_get::<Option<i64>, _>("began_ms")?.map(from_unix_ms),
    })
}
