//! Ends incidents that another one replaces: unreadable ones, and those of notifications that were too large to parse.

use std::collections::BTreeSet;

use sqlx::Row;
use sqlx::any::AnyRow;

use super::StoreError;
use super::attention::end_snooze;
use super::connections::StoreConnection;
use super::deliveries::outdate;
use super::duplicates::hasten_duplicate_checks;
use super::events::record_event;
use super::values::BindValues;
use knowledge::alert::{Alert, AlertGroup, AlertStatus};
use knowledge::incident::{AdmitReason, ChangeReason};

/// Ends all open incidents of the group that cannot be read, because the new incident `id` replaces them; they would
/// block every notification for ever.
pub(super) async fn replace_unreadable(
    db: &mut StoreConnection,
    group: &AlertGroup,
    id: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let replaced: Vec<String> = sqlx::query_scalar(
        "UPDATE incidents SET state = 'resolved', reason = $4, notified_ms = $3, resolved_ms = $3, truncated = 0,
           critical = 0, revision = revision + 1, diagnose_due_ms = NULL
         WHERE group_key = $1 AND source = $2 AND state <> 'resolved' RETURNING id",
    )
    .binds((&group.group_key, group.source(), now_ms, ChangeReason::Unreadable.as_str()))
    .fetch_all(&mut *db)
    .await?;
    for old in &replaced {
        end_alerts(db, old).await?;
        outdate(db, old).await?;
        hasten_duplicate_checks(db, old, now_ms).await?;
        record_event(db, old, now_ms, "set aside", &format!("its state cannot be read: incident {id} takes its place"))
            .await?;
        record_event(db, id, now_ms, "replaces", old).await?;
    }
    Ok(())
}

/// Ends incidents that stood for too large notifications of this group, once a notification was parsed in full. They
/// are identified by the receiver and the labels that all alerts share. A group of several clusters has no source,
/// while the incident that stood for it has the source of its first alert.
pub(super) async fn end_too_large(db: &mut StoreConnection, group: &AlertGroup, now_ms: i64) -> Result<(), StoreError> {
    let fires = group.alerts.iter().any(|alert| alert.status == AlertStatus::Firing) || group.truncated_alerts > 0;
    let reason = match fires {
        true => ChangeReason::ReadableAgain,
        false => ChangeReason::Notification(AdmitReason::Resolved),
    };
    for key in group.too_large_keys() {
        let rows = sqlx::query(
            "SELECT i.id, a.alert FROM incidents i JOIN alerts a ON a.incident_id = i.id
             WHERE i.group_key = $1 AND ($2 = '' OR i.source = $2) AND i.state = 'open'",
        );
        let rows = rows.bind(key).bind(group.source()).fetch_all(&mut *db).await?;
        let of_group =
            |alert: &Alert| group.group_labels.iter().all(|(name, value)| alert.labels.get(name) == Some(value));
        let alert = |row: &AnyRow| serde_json::from_str(row.try_get("alert").ok()?).ok();
        let of_group = rows.iter().filter(|row| alert(row).is_some_and(|alert| of_group(&alert)));
        let ids = of_group.map(|row| row.try_get("id")).collect::<Result<BTreeSet<String>, sqlx::Error>>()?;
        for id in ids {
            end_one(db, &id, &reason, now_ms).await?;
        }
    }
    Ok(())
}

async fn end_one(db: &mut StoreConnection, id: &str, reason: &ChangeReason, now_ms: i64) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE incidents SET state = 'resolved', reason = $2, notified_ms = $3, resolved_ms = $3, revision = revision + 1,
           diagnose_due_ms = NULL WHERE id = $1",
    )
    .binds((id, reason.as_str(), now_ms))
    .execute(&mut *db)
    .await?;
    end_alerts(db, id).await?;
    end_snooze(db, id, now_ms).await?;
    outdate(db, id).await?;
    hasten_duplicate_checks(db, id, now_ms).await?;
    record_event(db, id, now_ms, "notified", reason.as_str()).await
}

async fn end_alerts(db: &mut StoreConnection, incident: &str) -> Result<(), StoreError> {
    let end = sqlx::query("UPDATE alerts SET status = 'resolved' WHERE incident_id = $1");
    end.bind(incident).execute(db).await?;
    Ok(())
}
