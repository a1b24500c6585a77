//! The audit log: every attempt to act and every refusal, with person, time, action, target and result.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use sqlx::{Any, Executor, Row};
use strum::{EnumString, IntoStaticStr};

use super::deliveries::bump;
use super::deliveries::queue_page;
use super::ids::new_id;
use super::posts::{queue_answer, queue_message};
use super::values::BindValues;
use super::{PostKind, Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};
use knowledge::incident::{Act, Note};
use message::{Message, SlackMessage};

/// The action of a bundle's download: it is in the log, but is none on the incident.
pub const DOWNLOAD: &str = "download";

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum AuditResult {
    /// It began; its result is not known, or not yet.
    Begun,
    /// It succeeded.
    Done,
    /// The person is not authorised.
    Refused,
    /// It could not be executed.
    Failed,
}

impl AuditResult {
    /// Returns the name in the store and in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Unique id, sortable by time.
    pub id: String,
    /// The time of the attempt.
    pub at: Timestamp,
    /// A Slack user's id, `cli:<user>`, `page:<user>`, or `link` for the user of a signed link.
    pub who: String,
    /// A channel's id, `cli` or `http`.
    pub place: String,
    /// The action.
    pub what: String,
    /// The incident.
    pub incident: Option<String>,
    /// The target besides the incident: a silence's id, a step, a user group, a bundle's name.
    pub target: String,
    /// The result.
    pub result: AuditResult,
    /// Additional information.
    pub detail: String,
}

impl AuditEntry {
    /// Creates the line of an attempt that begins now.
    pub fn new_attempt(who: &str, place: &str, what: &str, incident: Option<&str>, at: Timestamp) -> Self {
        Self {
            id: new_id(),
            at,
            who: who.to_owned(),
            place: place.to_owned(),
            what: what.to_owned(),
            incident: incident.map(str::to_owned),
            target: String::new(),
            result: AuditResult::Begun,
            detail: String::new(),
        }
    }

    /// Converts the line to a note in the incident's message; `None` if the action is not one of its buttons.
    fn note(self) -> Option<Note> {
        Some(Note { act: Act::of(&self.what)?, who: self.who, at: self.at, detail: self.detail })
    }
}

/// The call of an escalation.
#[derive(Debug, Clone, Copy)]
pub enum EscalationCall<'a> {
    /// A call by the pager with this name.
    Pager(&'a str),
    /// A post in the incident's thread.
    Post(&'a SlackMessage),
}

/// The outcome of [`Store::escalate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escalated {
    /// Somebody escalated the incident shortly before; nothing was written.
    Already,
    /// The call is queued; its delivery ends the line.
    Queued,
    /// The incident has no thread; the caller posts the message elsewhere and ends the line.
    NoThread,
}

/// An escalation that has ended, or whose call was lost, while the audit log does not contain the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedCall {
    /// The incident.
    pub incident: String,
    /// The id of the line in the audit log.
    pub line: String,
    /// The reason why nobody was called; `None` if the post was sent.
    pub failed: Option<String>,
}

impl Store {
    /// Writes a line, or the result of the attempt with the same id.
    pub async fn audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        write_line(&self.write, entry).await
    }

    /// Writes an action that has no effect outside the store and is done with this: its line, the new revision of the
    /// incident's message and the post in its thread, in one transaction.
    pub async fn audit_note(&self, entry: &AuditEntry, post: &SlackMessage, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        write_line(&mut *tx, entry).await?;
        if let Some(incident) = &entry.incident {
            queue_answer(&mut tx, incident, post, "", now).await?;
            bump(&mut tx, incident).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Writes the result of an escalation. Returns true if it is new: if several replicas find the end at once, only
    /// one of them gets true. "failed" may become "done" later, when the post appears. The post about the result in the
    /// incident's threads, and the new revision of the message after a successful escalation, are written in the same
    /// transaction.
    pub async fn end_escalation(
        &self,
        entry: &AuditEntry,
        post: Option<&Message>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let insert = sqlx::query(
            "INSERT INTO audit (id, at_ms, who, place, what, incident_id, target, result, detail)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (id) DO UPDATE SET incident_id = excluded.incident_id, target = excluded.target,
               result = excluded.result, detail = excluded.detail
             WHERE audit.result = 'begun' OR (audit.result = 'failed' AND excluded.result = 'done')",
        );
        let insert =
            insert.bind(&entry.id).bind(unix_ms(entry.at)).bind(&entry.who).bind(&entry.place).bind(&entry.what);
        let insert = insert.bind(&entry.incident).bind(&entry.target).bind(entry.result.as_str()).bind(&entry.detail);
        let is_news = insert.execute(&mut *tx).await?.rows_affected() > 0;
        if let Some(incident) = entry.incident.as_ref().filter(|_| is_news) {
            if let Some(post) = post {
                queue_message(&mut tx, incident, PostKind::Note, post, now).await?;
            }
            if entry.result == AuditResult::Done {
                bump(&mut tx, incident).await?;
            }
        }
        tx.commit().await?;
        Ok(is_news)
    }

    /// Begins an escalation: writes its line and queues its call in one transaction, so that a line without a call is
    /// one that is made directly. Does nothing if the incident was escalated after `since`, unless that failed; of
    /// concurrent callers, on all replicas, one does not get [`Escalated::Already`].
    pub async fn escalate(
        &self,
        entry: &AuditEntry,
        since: Timestamp,
        call: EscalationCall<'_>,
        now: Timestamp,
    ) -> Result<Escalated, StoreError> {
        let incident = entry.incident.as_deref().unwrap_or_default();
        let mut tx = self.begin().await?;
        // On PostgreSQL the statement alone does not see what another transaction is just inserting.
        self.engine.hold(&mut tx, &[&format!("attempt {} {incident}", entry.what)]).await?;
        let insert = sqlx::query(
            "INSERT INTO audit (id, at_ms, who, place, what, incident_id, result)
             SELECT $1, CAST($2 AS BIGINT), $3, $4, $5, $6, $7 WHERE NOT EXISTS
               (SELECT 1 FROM audit
                WHERE incident_id = $6 AND what = $5 AND at_ms > CAST($8 AS BIGINT) AND result IN ('begun', 'done'))",
        );
        let insert =
            insert.bind(&entry.id).bind(unix_ms(entry.at)).bind(&entry.who).bind(&entry.place).bind(&entry.what);
        let insert = insert.bind(&entry.incident).bind(entry.result.as_str()).bind(unix_ms(since));
        let escalated = match (insert.execute(&mut *tx).await?.rows_affected(), call) {
            (0, _) => Escalated::Already,
            (_, EscalationCall::Pager(pager)) => {
                queue_page(&mut tx, incident, pager, &entry.id, now).await?;
                Escalated::Queued
            }
            (_, EscalationCall::Post(message)) => match queue_answer(&mut tx, incident, message, &entry.id, now).await?
            {
                true => Escalated::Queued,
                false => Escalated::NoThread,
            },
        };
        tx.commit().await?;
        Ok(escalated)
    }

    /// Returns the line with this id; `None` if there is none.
    pub async fn audit_entry(&self, id: &str) -> Result<Option<AuditEntry>, StoreError> {
        let row = sqlx::query(
            "SELECT id, at_ms, who, place, what, incident_id, target, result, detail FROM audit WHERE id = $1",
        );
        row.bind(id).fetch_optional(&self.read).await?.as_ref().map(read).transpose()
    }

    /// Returns escalations since `since` whose post has ended while the line says "begun", those whose line says "failed"
    /// although the post was found later, and those begun before `lost` that neither a post nor a pager's delivery
    /// calls for; at most 50, oldest first.
    pub async fn ended_calls(&self, since: Timestamp, lost: Timestamp) -> Result<Vec<EndedCall>, StoreError> {
        let rows = sqlx::query(
            "SELECT a.incident_id, a.id AS line,
                    CASE WHEN p.id IS NULL THEN 'the service stopped before it called'
                         WHEN p.state = 'done' AND p.posted_ts IS NOT NULL THEN NULL
                         WHEN p.state = 'unreadable' THEN 'its post cannot be read from the store'
                         ELSE COALESCE(p.note, 'its post was given up') END AS failed
             FROM audit a
             LEFT JOIN posts p ON p.incident_id = a.incident_id AND p.about = a.id AND p.kind = 'answer'
             WHERE a.at_ms >= $1 AND a.what = $3 AND a.incident_id IS NOT NULL
               AND ((a.result = 'begun' AND p.state <> 'pending')
                    OR (a.result = 'failed' AND p.state = 'done' AND p.posted_ts IS NOT NULL)
                    OR (a.result = 'begun' AND p.id IS NULL AND a.at_ms < $2 AND NOT EXISTS
                        (SELECT 1 FROM deliveries d WHERE d.incident_id = a.incident_id AND d.escalation = a.id)))
             ORDER BY a.at_ms, a.id LIMIT 50",
        )
        .binds((unix_ms(since), unix_ms(lost), Act::Escalate.as_str()))
        .fetch_all(&self.read)
        .await?;
        Ok(self.unreadable.read_all("escalation", &rows, |row| {
            Ok(EndedCall {
                incident: row.try_get("incident_id")?,
                line: row.try_get("line")?,
                failed: row.try_get("failed")?,
            })
        }))
    }

    /// Returns the newest lines since `since`, newest first.
    pub async fn audited(&self, since: Timestamp, most: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, at_ms, who, place, what, incident_id, target, result, detail FROM audit
             WHERE at_ms >= $1 ORDER BY at_ms DESC, id DESC LIMIT $2",
        )
        .binds((unix_ms(since), i64::from(most)))
        .fetch_all(&self.read)
        .await?;
        Ok(self.unreadable.read_all("line of the audit log", &rows, read))
    }

    /// Returns the newest 200 completed actions on an incident as notes for its message, oldest first.
    pub async fn notes(&self, incident: &str) -> Result<Vec<Note>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, at_ms, who, place, what, incident_id, target, result, detail FROM audit
             WHERE incident_id = $1 AND result = 'done' AND what <> $2 ORDER BY at_ms DESC, id DESC LIMIT 200",
        )
        .binds((incident, DOWNLOAD))
        .fetch_all(&self.read)
        .await?;
        let entries = self.unreadable.read_all("line of the audit log", &rows, read);
        Ok(entries.into_iter().rev().filter_map(AuditEntry::note).collect())
    }
}

/// Writes a line, or the result of the attempt with the same id.
async fn write_line(db: impl Executor<'_, Database = Any>, entry: &AuditEntry) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO audit (id, at_ms, who, place, what, incident_id, target, result, detail)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (id) DO UPDATE SET incident_id = excluded.incident_id, target = excluded.target,
           result = excluded.result, detail = excluded.detail",
    )
    .binds((&entry.id, unix_ms(entry.at), &entry.who, &entry.place, &entry.what, &entry.incident, &entry.target))
    .binds((entry.result.as_str(), &entry.detail))
    .execute(db)
    .await?;
    Ok(())
}

fn read(row: &AnyRow) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: row.try_get("id")?,
        at: from_unix_ms(row.try_get("at_ms")?),
        who: row.try_get("who")?,
        place: row.try_get("place")?,
        what: row.try_get("what")?,
        incident: row.try_get("incident_id")?,
        target: row.try_get("target")?,
        result: row.try_get::<&str, _>("result")?.parse().unwrap_or(AuditResult::Begun),
        detail: row.try_get("detail")?,
    })
}
