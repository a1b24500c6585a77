//! Requests of Slack users that were handled: Slack repeats some, and a signed one can be replayed at another replica
//! or after a restart.

use std::time::Duration;

use jiff::Timestamp;

use super::retention::ROWS_AT_ONCE;
use super::{Store, StoreError};
use knowledge::clock::unix_ms;

/// The retention of the ids: Slack retries events within minutes, and signatures are valid for five.
pub const REQUEST_RETENTION: Duration = Duration::from_secs(3_600);
/// Maximum number of retained ids, far above what the rate limits of users let through in [`REQUEST_RETENTION`].
const MOST: i64 = 100_000;

impl Store {
    /// Records a request. Returns true for exactly one of all callers with this id, on all replicas.
    pub async fn claim_request(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        let insert = sqlx::query("INSERT INTO requests (id, at_ms) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING");
        Ok(insert.bind(id).bind(unix_ms(now)).execute(&self.write).await?.rows_affected() > 0)
    }

    /// Gives a request back whose work failed, so that the same one may be tried again.
    pub async fn forget_request(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM requests WHERE id = $1").bind(id).execute(&self.write).await?;
        Ok(())
    }

    /// Deletes ids that are older than `before` or too many: the oldest [`ROWS_AT_ONCE`]. Returns their number; 0 if
    /// none is left.
    pub async fn forget_requests(&self, before: Timestamp) -> Result<u64, StoreError> {
        let old = "DELETE FROM requests WHERE id IN
             (SELECT id FROM requests
              WHERE at_ms < $1 OR at_ms < (SELECT at_ms FROM requests ORDER BY at_ms DESC LIMIT 1 OFFSET $3)
              ORDER BY at_ms LIMIT $2)";
        let delete = sqlx::query(old).bind(unix_ms(before)).bind(ROWS_AT_ONCE).bind(MOST);
        Ok(delete.execute(&self.write).await?.rows_affected())
    }
}
