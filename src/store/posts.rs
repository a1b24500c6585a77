//! Posts: what is said once, in the thread of an incident's message.

use std::sync::{LazyLock, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use sqlx::Row;
use sqlx::any::AnyRow;
use ulid::Generator;

use super::admission::event;
use super::connections::Connection;
use super::{Held, Store, StoreError};
use crate::clock::{from_unix_ms, unix_ms};
use crate::render::{Message, SlackMessage};

/// Ids of one moment keep their order, so a thread does too.
static IDS: LazyLock<Mutex<Generator>> = LazyLock::new(|| Mutex::new(Generator::new()));

/// What a post is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PostKind {
    /// What changed since the thread was told last; found out when it is posted.
    Change,
    /// What the deciding signals looked like; drawn when it is posted.
    Picture,
    /// Calls somebody, because the message itself could not.
    Mention,
    /// Whether a step worked.
    Verify,
    /// What somebody did.
    Note,
    /// What a person asked for, as it is shown in Slack.
    Answer,
}

impl PostKind {
    const ALL: [Self; 6] = [Self::Change, Self::Picture, Self::Mention, Self::Verify, Self::Note, Self::Answer];

    /// As the store and metrics keep it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Picture => "picture",
            Self::Mention => "mention",
            Self::Verify => "verify",
            Self::Note => "note",
            Self::Answer => "answer",
        }
    }
}

/// A post that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Sortable by time.
    pub id: String,
    /// The incident.
    pub incident: String,
    /// What it is.
    pub kind: PostKind,
    /// The message as json; of a change nothing, of a picture the cause that it shows, of a mention whom.
    pub body: String,
    /// Of a mention in a digest's thread, which pools it is about; of an answer that escalates, the line of the audit log
    /// that learns how it ended.
    pub about: Option<String>,
    /// What the thread has been told last.
    pub told: Option<String>,
    /// The channel of the incident's delivery, as configured.
    pub delivery: String,
    /// The channel that it goes to, as configured: that of the digest which speaks for the incident, else its own.
    pub channel: String,
    /// Slack's channel id and timestamp of the message whose thread it belongs to.
    pub thread: (String, String),
    /// How often in a row it failed before.
    pub tries: u32,
    /// Since when it was being posted before, without a known result: it may stand in Slack already.
    pub began: Option<Timestamp>,
}

impl Store {
    /// Puts a message into each thread of an incident, once, after those that wait already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn queue_post(
        &self,
        incident: &str,
        kind: PostKind,
        message: &Message,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        queue_message(&mut tx, incident, kind, message, now).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Puts what somebody asked for into an incident's thread, where its channel takes messages. False, and nothing done,
    /// when it has none. `escalation` is the line of the audit log that learns how the post ended; empty elsewhere.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn queue_answer(
        &self,
        incident: &str,
        message: &SlackMessage,
        escalation: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let body = written(incident, message)?;
        self.queue([incident, ""], PostKind::Answer, [&body, escalation], now).await
    }

    /// The thread in this channel is to be told what changed; changes that wait already are told with it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn queue_change(&self, incident: &str, channel: &str, now: Timestamp) -> Result<(), StoreError> {
        self.queue([incident, channel], PostKind::Change, ["", ""], now).await.map(drop)
    }

    /// The threads are to be shown what speaks for a cause. A picture that waits already shows the newest state as well.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn queue_picture(&self, incident: &str, cause: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        queue_everywhere(&mut tx, incident, PostKind::Picture, cause, now).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Somebody is to be called in the thread in this channel, by the id of a user or a user group; once, while the call
    /// waits. `about` names the pools in the thread of a digest; it is empty elsewhere.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn queue_mention(
        &self,
        incident: &str,
        channel: &str,
        [whom, about]: [&str; 2],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.queue([incident, channel], PostKind::Mention, [whom, about], now).await.map(drop)
    }

    /// As [`queue`], by itself.
    async fn queue(
        &self,
        thread: [&str; 2],
        kind: PostKind,
        content: [&str; 2],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let queued = queue(&mut tx, thread, kind, content, now).await?;
        tx.commit().await?;
        Ok(queued)
    }

    /// The post stands at this timestamp; of a picture nobody knows it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn posted(&self, post: &Post, ts: Option<&str>) -> Result<(), StoreError> {
        let done = sqlx::query("UPDATE posts SET state = 'done', note = NULL, posted_ts = $2 WHERE id = $1");
        done.bind(&post.id).bind(ts).execute(&self.write).await?;
        Ok(())
    }

    /// A post that was made before, and whose answer was lost, has been found, with what its reader knows of the incident.
    /// False when it is none of these, or stands already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn found_post(&self, id: &str, ts: &str, told: Option<&str>) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let found = sqlx::query(
            "UPDATE posts SET state = 'done', posted_ts = $2, note = NULL WHERE id = $1 AND state <> 'done'",
        );
        let found = found.bind(id).bind(ts).execute(&mut *tx).await?.rows_affected() > 0;
        if found && told.is_some() {
            sqlx::query(
                "UPDATE deliveries SET told = $2
                 WHERE sink = 'slack' AND incident_id = (SELECT incident_id FROM posts WHERE id = $1)
                   AND channel = COALESCE((SELECT channel FROM posts WHERE id = $1), channel)",
            )
            .bind(id)
            .bind(told)
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(found)
    }

    /// The post is not needed any more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn post_needless(&self, post: &Post, note: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE posts SET state = 'done', note = $2 WHERE id = $1")
            .bind(&post.id)
            .bind(note)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// It failed: try again at `due`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn post_postponed(&self, post: &Post, due: Timestamp, held: Held, note: &str) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE posts SET due_ms = $2, tries = tries + $4, note = $3, owner = NULL,
               began_ms = CASE WHEN $5 = 1 THEN began_ms ELSE NULL END
             WHERE id = $1",
        )
        .bind(&post.id)
        .bind(unix_ms(due))
        .bind(note)
        .bind(i64::from(held != Held::Waits))
        .bind(held.keeps(post.began))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Given up, with the reason.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn post_given_up(&self, post: &Post, note: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        fail(&mut tx, &post.id, note).await?;
        let detail = format!("{}: {note}", post.kind.as_str());
        event(&mut tx, &post.incident, unix_ms(now), "post failed", &detail).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Gives up the posts that have waited since `before` for a message to be under. Returns how many.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn give_up_orphans(&self, before: Timestamp) -> Result<u64, StoreError> {
        let done = sqlx::query(
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
        Ok(done.rows_affected())
    }
}

/// Puts a message into each thread of an incident.
pub(super) async fn queue_message(
    db: &mut Connection,
    incident: &str,
    kind: PostKind,
    message: &Message,
    now: Timestamp,
) -> Result<(), StoreError> {
    queue_everywhere(db, incident, kind, &written(incident, message)?, now).await
}

/// A message as the store keeps it.
fn written(incident: &str, message: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(message).map_err(|e| StoreError::Unreadable {
        what: "post",
        id: incident.to_owned(),
        error: e.to_string(),
    })
}

/// Only where the incident has threads; that of a digest is spared its incidents' pictures.
async fn queue_everywhere(
    db: &mut Connection,
    incident: &str,
    kind: PostKind,
    body: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let channels: Vec<String> = sqlx::query_scalar(
        "SELECT channel FROM deliveries WHERE incident_id = $1 AND sink = 'slack'
           AND (state <> 'digested' OR $2 <> 'picture') ORDER BY channel",
    )
    .bind(incident)
    .bind(kind.as_str())
    .fetch_all(&mut *db)
    .await?;
    for channel in &channels {
        queue(db, [incident, channel], kind, [body, ""], now).await?;
    }
    Ok(())
}

/// An empty channel is that of the thread which takes messages. Returns whether the incident has a thread.
async fn queue(
    db: &mut Connection,
    [incident, channel]: [&str; 2],
    kind: PostKind,
    [body, about]: [&str; 2],
    now: Timestamp,
) -> Result<bool, StoreError> {
    let once = matches!(kind, PostKind::Change | PostKind::Picture | PostKind::Mention);
    let queued = sqlx::query(
        "INSERT INTO posts (id, incident_id, channel, kind, body, about, due_ms)
         SELECT $1, $2, NULLIF($3, ''), $4, $5, NULLIF($6, ''), CAST($7 AS BIGINT)
         WHERE EXISTS (SELECT 1 FROM deliveries WHERE incident_id = $2 AND sink = 'slack'
                         AND (posted_ts IS NOT NULL OR state IN ('pending', 'digested')))
           AND ($8 = 0 OR NOT EXISTS
             (SELECT 1 FROM posts WHERE incident_id = $2 AND kind = $4 AND state = 'pending'
                AND (channel IS NULL OR channel = $3) AND (kind <> 'mention' OR body = $5)))",
    )
    .bind(next_id())
    .bind(incident)
    .bind(channel)
    .bind(kind.as_str())
    .bind(body)
    .bind(about)
    .bind(unix_ms(now))
    .bind(i64::from(once))
    .execute(db)
    .await?;
    Ok(queued.rows_affected() > 0)
}

async fn fail(db: &mut Connection, id: &str, note: &str) -> Result<(), StoreError> {
    let failed = sqlx::query("UPDATE posts SET state = 'failed', note = $2 WHERE id = $1").bind(id).bind(note);
    failed.execute(db).await?;
    Ok(())
}

fn next_id() -> String {
    let mut ids = IDS.lock().unwrap_or_else(PoisonError::into_inner);
    match ids.generate() {
        Ok(id) => id,
        Err(overflow) => overflow.commit_overflow_increment(),
    }
    .to_string()
}

pub(super) fn post(row: &AnyRow) -> Result<Post, StoreError> {
    let id: String = row.try_get("id")?;
    let kind: String = row.try_get("kind")?;
    let tries: i64 = row.try_get("tries")?;
    let known = PostKind::ALL.into_iter().find(|k| k.as_str() == kind);
    let kind = known.ok_or_else(|| StoreError::Unreadable {
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
        told: row.try_get("told")?,
        delivery: row.try_get("delivery")?,
        channel: row.try_get("channel")?,
        thread: (row.try_get("posted_to")?, row.try_get("posted_ts")?),
        tries: u32::try_from(tries).unwrap_or(u32::MAX),
        began: row.try_get::<Option<i64>, _>("began_ms")?.map(from_unix_ms),
    })
}
