//! The reason why something is not delivered now.

use jiff::Timestamp;
use sqlx::AssertSqlSafe;

use super::values::BindValues;
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

    /// Returns 1 if the start of the post stays stored, also that of an earlier post; 0 if not.
    pub(super) fn keeps(self, began: Option<Timestamp>) -> i64 {
        i64::from(self == Self::Unknown || began.is_some())
    }
}

impl Store {
    /// Postpones the work with this id in a table until `due`.
    pub(super) async fn postpone_row(
        &self,
        table: &'static str,
        (id, began): (&str, Option<Timestamp>),
        due: Timestamp,
        reason: PostponeReason,
        note: &str,
    ) -> Result<(), StoreError> {
        let update = format!(
            "UPDATE {table} SET due_ms = $2, tries = tries + $4, note = $3, owner = NULL,
               began_ms = CASE WHEN $5 = 1 THEN began_ms ELSE NULL END
             WHERE id = $1"
        );
        sqlx::query(AssertSqlSafe(update))
            .binds((id, unix_ms(due), note, i64::from(reason != PostponeReason::Waits), reason.keeps(began)))
            .execute(&self.write)
            .await?;
        Ok(())
    }
}
