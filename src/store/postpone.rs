//! The reason why something is not delivered now.

use jiff::Timestamp;
use sqlx::AssertSqlSafe;

use super::values::BindValues;
use super::work_queue::PendingWork;
use super::{Store, StoreError};
use knowledge::clock::unix_ms;

/// The reason why something is not delivered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostponeReason {
    /// It waits for a condition.
    Waits,
    /// It failed and was not posted.
    Failed,
    /// It failed but may have been posted: the answer was lost.
    Unknown,
}

impl PostponeReason {
    /// Classifies a failure; `lost` if its answer was lost.
    pub fn failed(lost: bool) -> Self {
        if lost { Self::Unknown } else { Self::Failed }
    }
}

impl Store {
    /// Postpones a piece of work until `due`.
    pub async fn postpone(
        &self,
        work: &PendingWork,
        due: Timestamp,
        reason: PostponeReason,
        note: &str,
    ) -> Result<(), StoreError> {
        let (table, key, id, began) = match work {
            PendingWork::Message(it) => {
                ("deliveries", "incident_id = $1 AND sink = $6 AND channel = $7", &it.incident, it.began)
            }
            PendingWork::Digest(it) => ("digests", "id = $1", &it.id, it.began),
            PendingWork::Post(it) => ("posts", "id = $1", &it.id, it.began),
            PendingWork::SummaryPost(it) => ("weeklies", "id = $1", &it.id, it.began),
            PendingWork::DuplicateCheck(check) => return self.postpone_duplicate_check(check, due).await,
        };
        // The start of the post stays stored while its answer is lost, also that of an earlier post.
        let keeps = i64::from(reason == PostponeReason::Unknown || began.is_some());
        let update = format!(
            "UPDATE {table} SET due_ms = $2, tries = tries + $4, note = $3, owner = NULL,
               began_ms = CASE WHEN $5 = 1 THEN began_ms ELSE NULL END
             WHERE {key}"
        );
        let mut query = sqlx::query(AssertSqlSafe(update));
        query = query.binds((id, unix_ms(due), note, i64::from(reason != PostponeReason::Waits), keeps));
        if let PendingWork::Message(it) = work {
            query = query.binds((it.sink.as_str(), &it.channel));
        }
        query.execute(&self.write).await?;
        Ok(())
    }
}
