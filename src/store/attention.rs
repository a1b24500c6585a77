//! Snoozes and reminders: people hear nothing more of an open incident until it gets worse, or that nobody has
//! acknowledged it.

use std::time::Duration;

use jiff::Timestamp;

use super::connections::StoreConnection;
use super::deliveries::bump;
use super::events::record_event;
use super::posts::{PostKind, queue};
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::{before, unix_ms};

/// Maximum number of incidents that are reminded of at once; the others follow with the next round.
const AT_ONCE: i64 = 50;

impl Store {
    /// Snoozes an open incident until it gets worse: more of its alerts fire, or one becomes critical. Returns false if it
    /// is over.
    pub async fn snooze(&self, incident: &str) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        self.lock_incident(&mut tx, incident).await?;
        let snoozed = sqlx::query(
            "INSERT INTO attention (incident_id, snoozed_firing, snoozed_critical)
             SELECT id, truncated + (SELECT COUNT(*) FROM alerts WHERE incident_id = id AND status = 'firing'), critical
             FROM incidents WHERE id = $1 AND state = 'open'
             ON CONFLICT (incident_id) DO UPDATE SET snoozed_firing = excluded.snoozed_firing,
               snoozed_critical = excluded.snoozed_critical",
        );
        let snoozed = snoozed.bind(incident).execute(&mut *tx).await?.rows_affected() > 0;
        if snoozed {
            bump(&mut tx, incident).await?;
        }
        tx.commit().await?;
        Ok(snoozed)
    }

    /// Ends a snooze. Returns false if there was none.
    pub async fn unsnooze(&self, incident: &str) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let end = sqlx::query(
            "UPDATE attention SET snoozed_firing = NULL WHERE incident_id = $1 AND snoozed_firing IS NOT NULL",
        );
        let ended = end.bind(incident).execute(&mut *tx).await?.rows_affected() > 0;
        if ended {
            bump(&mut tx, incident).await?;
        }
        tx.commit().await?;
        Ok(ended)
    }

    /// Queues a reminder in each thread of the critical incidents that nobody has acknowledged or snoozed, `after` each
    /// call or reminder, at most `times` in one critical period. An incident that a digest covers gets none: the digest
    /// calls for all of them. Returns the number of reminders.
    pub async fn remind(&self, after: Duration, times: u32, now: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let forgotten: Vec<String> = sqlx::query_scalar(self.engine.sql(
            "SELECT i.id FROM incidents i LEFT JOIN attention a ON a.incident_id = i.id
             WHERE i.state = 'open' AND i.critical = 1 AND a.snoozed_firing IS NULL
               AND (i.acknowledged_ms IS NULL OR i.acknowledged_ms < i.critical_ms)
               AND NOT EXISTS (SELECT 1 FROM posts p WHERE p.incident_id = i.id AND p.kind = 'reminder' AND p.state = 'pending')
               AND CASE WHEN a.reminded_ms >= i.critical_ms THEN a.reminded_ms ELSE i.critical_ms END <= $1
               AND (a.reminded_ms IS NULL OR a.reminded_ms < i.critical_ms OR a.reminders < $2)
               AND EXISTS (SELECT 1 FROM deliveries d WHERE d.incident_id = i.id AND d.sink = 'slack'
                             AND d.posted_ts IS NOT NULL AND d.state <> 'digested')
             ORDER BY i.critical_ms LIMIT $3 /*postgres FOR UPDATE OF i SKIP LOCKED*/",
        ))
        .binds((unix_ms(before(now, after)), i64::from(times), AT_ONCE))
        .fetch_all(&mut *tx)
        .await?;
        let mut queued = 0;
        for id in &forgotten {
            // Another replica may have counted it since this transaction began to read.
            let counted = sqlx::query(
                "INSERT INTO attention (incident_id, reminders, reminded_ms) VALUES ($1, 1, $2)
                 ON CONFLICT (incident_id) DO UPDATE SET reminded_ms = excluded.reminded_ms,
                   reminders = CASE WHEN attention.reminded_ms >= (SELECT critical_ms FROM incidents WHERE id = $1)
                                    THEN attention.reminders + 1 ELSE 1 END
                 WHERE COALESCE(attention.reminded_ms, 0) <= $3",
            )
            .binds((id, unix_ms(now), unix_ms(before(now, after))))
            .execute(&mut *tx)
            .await?;
            if counted.rows_affected() == 0 {
                continue;
            }
            let channels: Vec<String> = sqlx::query_scalar(
                "SELECT channel FROM deliveries WHERE incident_id = $1 AND sink = 'slack' AND posted_ts IS NOT NULL
                   AND state <> 'digested'",
            )
            .bind(id)
            .fetch_all(&mut *tx)
            .await?;
            for channel in &channels {
                queued += u64::from(queue(&mut tx, [id, channel], PostKind::Reminder, ["", ""], now).await?);
            }
        }
        tx.commit().await?;
        Ok(queued)
    }
}

/// Ends the snooze of an incident that is over or has got worse. One that got worse while it is critical calls people
/// again: its critical period begins anew.
pub(super) async fn end_snooze(db: &mut StoreConnection, incident: &str, now_ms: i64) -> Result<(), StoreError> {
    let ended = sqlx::query(
        "UPDATE attention SET snoozed_firing = NULL
         WHERE incident_id = $1 AND snoozed_firing IS NOT NULL AND EXISTS
           (SELECT 1 FROM incidents i WHERE i.id = $1 AND (i.state <> 'open' OR i.critical > snoozed_critical OR
              i.truncated + (SELECT COUNT(*) FROM alerts WHERE incident_id = i.id AND status = 'firing') > snoozed_firing))",
    );
    if ended.bind(incident).execute(&mut *db).await?.rows_affected() == 0 {
        // What has become better may become worse again.
        let lower = sqlx::query(
            "UPDATE attention SET snoozed_critical = (SELECT critical FROM incidents WHERE id = $1),
               snoozed_firing = (SELECT i.truncated + (SELECT COUNT(*) FROM alerts WHERE incident_id = i.id AND status = 'firing')
                                 FROM incidents i WHERE i.id = $1)
             WHERE incident_id = $1 AND snoozed_firing IS NOT NULL",
        );
        lower.bind(incident).execute(&mut *db).await?;
        return Ok(());
    }
    call_again(db, incident, now_ms).await?;
    record_event(db, incident, now_ms, "snooze over", "").await
}

/// Begins the critical period of an open incident anew, so that people are called.
pub(super) async fn call_again(db: &mut StoreConnection, incident: &str, now_ms: i64) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE incidents SET critical_ms = CASE WHEN critical_ms >= $2 THEN critical_ms + 1 ELSE $2 END
         WHERE id = $1 AND state = 'open' AND critical = 1",
    )
    .binds((incident, now_ms))
    .execute(db)
    .await?;
    Ok(())
}
