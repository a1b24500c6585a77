//! Retention: deletes old data in slices that lock the database only briefly.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use super::connections::StoreConnection;
use super::{Store, StoreError};
use knowledge::clock::unix_ms;

/// Maximum number of incidents that are deleted in one transaction.
pub const INCIDENTS_AT_ONCE: i64 = 50;
/// Approximate number of rows that are deleted at once: rows of the same millisecond stay together.
pub const ROWS_AT_ONCE: i64 = 2_000;
/// Number of the newest ended alerts, events and finished posts of an incident that are retained besides the first.
pub const KEPT_OF_EACH: i64 = 500;

/// Deletes the rows that belong to an incident. Deliveries are deleted separately, because they name the digest.
const OWNED: &[&str] = &[
    "DELETE FROM alerts WHERE incident_id = $1",
    "DELETE FROM events WHERE incident_id = $1",
    "DELETE FROM posts WHERE incident_id = $1",
    "DELETE FROM feedback WHERE incident_id = $1",
    "DELETE FROM followups WHERE incident_id = $1",
    "DELETE FROM traits WHERE incident_id = $1",
    "DELETE FROM attention WHERE incident_id = $1",
];

/// A table with rows that accumulate while an incident flaps.
struct Growing {
    table: &'static str,
    /// The column that orders the rows by age.
    order: &'static str,
    /// The condition for rows that may be deleted.
    may_go: &'static str,
}

const GROWING: [Growing; 3] = [
    Growing { table: "alerts", order: "starts_ns", may_go: "status = 'resolved'" },
    // The number of deleted messages decides whether another one is posted, so these events stay.
    Growing { table: "events", order: "at_ms", may_go: "what <> 'message gone'" },
    Growing { table: "posts", order: "id", may_go: "state <> 'pending'" },
];

/// Selects open incidents with more than `$1` such rows.
const CROWDED: &str = "
    SELECT id FROM incidents i WHERE state = 'open' AND EXISTS
      (SELECT 1 FROM {table} r WHERE r.incident_id = i.id AND {may_go} ORDER BY {order} LIMIT 1 OFFSET $1) LIMIT 20";

/// Deletes the oldest rows except the first, but none of the `$2` newest, and about `$3` at once.
const THIN: &str = "
    DELETE FROM {table} WHERE incident_id = $1 AND {may_go}
      AND {order} > (SELECT MIN({order}) FROM {table} WHERE incident_id = $1 AND {may_go})
      AND {order} < (SELECT {order} FROM {table} WHERE incident_id = $1 AND {may_go}
                     ORDER BY {order} DESC LIMIT 1 OFFSET $2 - 1)
      AND {order} <= (SELECT MAX({order}) FROM (SELECT {order} FROM {table} WHERE incident_id = $1 AND {may_go}
                                                ORDER BY {order} LIMIT $3 + 1) AS slice)";

impl Growing {
    fn sql(&self, text: &str) -> SqlStr {
        let text = text.replace("{table}", self.table).replace("{order}", self.order);
        AssertSqlSafe(text.replace("{may_go}", self.may_go)).into_sql_str()
    }
}

impl Store {
    /// Deletes surplus rows of open incidents, one slice each, so that an incident that flaps for ever stays bounded.
    /// Returns the number of rows; 0 if nothing is left to delete.
    pub async fn thin(&self) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for growing in &GROWING {
            // Plus one, because the first is retained besides the newest.
            let crowded = sqlx::query_scalar(growing.sql(CROWDED)).bind(KEPT_OF_EACH + 1);
            let ids: Vec<String> = crowded.fetch_all(&self.read).await?;
            for id in ids {
                deleted += self.thin_one(growing, &id).await?;
            }
        }
        Ok(deleted)
    }

    async fn thin_one(&self, growing: &Growing, incident: &str) -> Result<u64, StoreError> {
        let thin = sqlx::query(growing.sql(THIN)).bind(incident).bind(KEPT_OF_EACH).bind(ROWS_AT_ONCE);
        Ok(thin.execute(&self.write).await?.rows_affected())
    }

    /// Deletes incidents resolved before `before`, with all their rows: the oldest [`INCIDENTS_AT_ONCE`], or a slice of
    /// the rows of one. Returns the number deleted; 0 if none is left.
    pub async fn forget(&self, before: Timestamp) -> Result<u64, StoreError> {
        let old =
            "SELECT id FROM incidents WHERE state = 'resolved' AND resolved_ms < $1 ORDER BY resolved_ms LIMIT $2";
        let old: Vec<String> =
            sqlx::query_scalar(old).bind(unix_ms(before)).bind(INCIDENTS_AT_ONCE).fetch_all(&self.read).await?;
        // What grew until its end is thinned first, in slices.
        for id in &old {
            for growing in &GROWING {
                if self.thin_one(growing, id).await? > 0 {
                    // One slice is done; the caller pauses and calls again.
                    return Ok(1);
                }
            }
        }
        let mut tx = self.begin().await?;
        let mut deleted = 0;
        for id in &old {
            deleted += forget_one(&mut tx, id, before).await?;
        }
        tx.commit().await?;
        Ok(deleted)
    }

    /// Deletes lines of the audit log that are older than `before`: the oldest [`ROWS_AT_ONCE`]. Returns their number;
    /// 0 if none is left.
    pub async fn forget_audit(&self, before: Timestamp) -> Result<u64, StoreError> {
        let old = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at_ms < $1 ORDER BY at_ms LIMIT $2)";
        let deleted = sqlx::query(old).bind(unix_ms(before)).bind(ROWS_AT_ONCE).execute(&self.write).await?;
        Ok(deleted.rows_affected())
    }
}

/// Deletes one incident, unless it fires again meanwhile or another replica has deleted it.
async fn forget_one(db: &mut StoreConnection, id: &str, before: Timestamp) -> Result<u64, StoreError> {
    let old = "DELETE FROM incidents WHERE id = $1 AND state = 'resolved' AND resolved_ms < $2";
    let deleted = sqlx::query(old).bind(id).bind(unix_ms(before)).execute(&mut *db).await?.rows_affected();
    if deleted == 0 {
        return Ok(0);
    }
    for owned in OWNED {
        sqlx::query(*owned).bind(id).execute(&mut *db).await?;
    }
    let digests: Vec<Option<String>> =
        sqlx::query_scalar("DELETE FROM deliveries WHERE incident_id = $1 RETURNING digest_id")
            .bind(id)
            .fetch_all(&mut *db)
            .await?;
    for digest in digests.into_iter().flatten().collect::<BTreeSet<_>>() {
        let silent = "DELETE FROM digests WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM deliveries WHERE digest_id = $1)";
        sqlx::query(silent).bind(digest).execute(&mut *db).await?;
    }
    Ok(1)
}
