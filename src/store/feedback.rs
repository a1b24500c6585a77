//! Feedback of users on whether a diagnosed cause was right.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::any::AnyRow;

use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};

/// One user's feedback on an incident's cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The incident.
    pub incident: String,
    /// A Slack user's id.
    pub who: String,
    /// The time of the feedback.
    pub at: Timestamp,
    /// True if the diagnosed cause was right.
    pub is_right: bool,
    /// The diagnosed cause; empty if there was none.
    pub named: String,
    /// The actual cause; `other` if no playbook contains it.
    pub cause: String,
    /// The user's comment.
    pub comment: String,
}

impl Store {
    /// Stores a user's feedback; replaces the user's earlier feedback on the incident.
    pub async fn give_feedback(&self, feedback: &Feedback) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO feedback (incident_id, who, at_ms, is_right, named, cause, comment)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (incident_id, who) DO UPDATE SET at_ms = excluded.at_ms, is_right = excluded.is_right,
               named = excluded.named, cause = excluded.cause, comment = excluded.comment",
        )
        .binds((&feedback.incident, &feedback.who, unix_ms(feedback.at), i64::from(feedback.is_right)))
        .binds((&feedback.named, &feedback.cause, &feedback.comment))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Returns all feedback, by incident, the newest of each incident last.
    pub async fn feedback(&self) -> Result<Vec<Feedback>, StoreError> {
        let rows = sqlx::query(
            "SELECT incident_id, who, at_ms, is_right, named, cause, comment FROM feedback
             ORDER BY incident_id, at_ms, who",
        )
        .fetch_all(&self.read)
        .await?;
        Ok(self.unreadable.read_all("feedback", &rows, read))
    }
}

fn read(row: &AnyRow) -> Result<Feedback, StoreError> {
    Ok(Feedback {
        incident: row.try_get("incident_id")?,
        who: row.try_get("who")?,
        at: from_unix_ms(row.try_get("at_ms")?),
        is_right: row.try_get::<i64, _>("is_right")? != 0,
        named: row.try_get("named")?,
        cause: row.try_get("cause")?,
        comment: row.try_get("comment")?,
    })
}
