//! Stores the results of admission, many groups in one commit.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::alerts::write_alerts;
use super::attention::end_snooze;
use super::connections::StoreConnection;
use super::destinations::{AdmissionPlan, mark_critical, send_to};
use super::digests::Woken;
use super::duplicates::hasten_duplicate_checks;
use super::events::record_event;
use super::opening::{Admitted, NewIncident, new_groups, open_incidents};
use super::replaced::{end_too_large, replace_unreadable};
use super::transaction::Tx;
use super::unreadable::Unreadable;
use super::values::BindValues;
use super::{Store, StoreError, from_nanoseconds, nanoseconds};
use crate::failpoint::failpoint;
use knowledge::alert::{AlertGroup, AlertStatus};
use knowledge::clock::{from_unix_ms, unix_ms};
use knowledge::incident::{Admission, AdmissionRules, AdmitReason, IncidentState, KnownIncident, admit};

/// Maximum number of sources whose open incidents of one group key are searched.
const SOURCES: i64 = 100;

impl Store {
    /// Stores groups, in order, in one commit. A group that fails is rolled back without effect on the others.
    ///
    /// # Errors
    /// The outer error if nothing could be committed; the inner one for a single group.
    pub async fn admit(
        &self,
        groups: &[(AlertGroup, AdmissionPlan)],
        now: Timestamp,
        rules: &AdmissionRules,
    ) -> Result<Vec<Result<Admitted, StoreError>>, StoreError> {
        match self.admit_all(groups, now, rules).await {
            // Alerts have priority: data that can be created again is deleted, so that no alert is refused.
            Err(error) if error.is_full() && self.full.give_way() => self.admit_all(groups, now, rules).await,
            done => done,
        }
    }

    async fn admit_all(
        &self,
        groups: &[(AlertGroup, AdmissionPlan)],
        now: Timestamp,
        rules: &AdmissionRules,
    ) -> Result<Vec<Result<Admitted, StoreError>>, StoreError> {
        let mut tx = self.begin_admission(groups).await?;
        let mut woken = Vec::new();
        match admit_together(&mut tx, groups, now, rules, &self.unreadable, &mut woken).await {
            Ok(admitted) => {
                self.commit_admission(tx, &woken, now).await?;
                Ok(admitted.into_iter().map(Ok).collect())
            }
            // One by one takes longer, so it is done only where a group fails.
            Err(error) if error.is_about_content() => {
                drop(tx);
                self.admit_apart(groups, now, rules).await
            }
            Err(error) => Err(error),
        }
    }

    /// Stores each group that can be stored, all in one commit.
    async fn admit_apart(
        &self,
        groups: &[(AlertGroup, AdmissionPlan)],
        now: Timestamp,
        rules: &AdmissionRules,
    ) -> Result<Vec<Result<Admitted, StoreError>>, StoreError> {
        let mut tx = self.begin_admission(groups).await?;
        let (mut out, mut woken) = (Vec::with_capacity(groups.len()), Vec::new());
        for (group, plan) in groups {
            sqlx::query("SAVEPOINT one").execute(&mut *tx).await?;
            let result = admit_one(&mut tx, group, plan, now, rules, &self.unreadable, &mut woken).await;
            let result = match result {
                // The database may have ended the transaction itself; then the earlier work in it is lost too.
                Err(error) if error.is_full() => return Err(error),
                result => result,
            };
            let end = if result.is_ok() { "RELEASE one" } else { "ROLLBACK TO one" };
            match (sqlx::query(end).execute(&mut *tx).await, result) {
                (Ok(_), result) => out.push(result),
                // The first error is the cause; the second only reports that the transaction has ended.
                (Err(_), Err(error)) => return Err(error),
                (Err(error), Ok(_)) => return Err(error.into()),
            }
        }
        self.commit_admission(tx, &woken, now).await?;
        Ok(out)
    }

    /// Begins the transaction that stores these groups.
    async fn begin_admission(&self, groups: &[(AlertGroup, AdmissionPlan)]) -> Result<Tx, StoreError> {
        let mut tx = Tx::begin(&self.durable, self.engine.begin()).await?;
        // Nothing else: what all groups of a channel share is chosen later, so that replicas do not wait for each other.
        let keys: Vec<&str> = groups.iter().map(|(group, _)| group.group_key.as_str()).collect();
        self.engine.hold(&mut tx, &keys).await?;
        Ok(tx)
    }

    /// Commits, after the digests of these incidents: only they are shared between groups.
    async fn commit_admission(&self, mut tx: Tx, woken: &[Woken], now: Timestamp) -> Result<(), StoreError> {
        self.wake_digests(&mut tx, woken, unix_ms(now)).await?;
        failpoint("admission before commit");
        tx.commit().await?;
        failpoint("admission after commit");
        Ok(())
    }
}

/// Stores all groups: first the new ones, in few statements, then each of the others.
async fn admit_together(
    db: &mut StoreConnection,
    groups: &[(AlertGroup, AdmissionPlan)],
    now: Timestamp,
    rules: &AdmissionRules,
    unreadable: &Unreadable,
    woken: &mut Vec<Woken>,
) -> Result<Vec<Admitted>, StoreError> {
    let positions = new_groups(db, groups).await?;
    let new = positions.iter().filter_map(|position| groups.get(*position));
    let new: Vec<_> = new.map(|(group, plan)| NewIncident::new(group, plan, admit(None, group, now, rules))).collect();
    open_incidents(db, &new, unix_ms(now)).await?;
    let opened = positions.into_iter().zip(new.into_iter().map(NewIncident::into_admitted));
    let mut opened: BTreeMap<usize, Admitted> = opened.collect();
    let mut all = Vec::with_capacity(groups.len());
    for (position, (group, plan)) in groups.iter().enumerate() {
        all.push(match opened.remove(&position) {
            Some(admitted) => admitted,
            None => admit_one(db, group, plan, now, rules, unreadable, woken).await?,
        });
    }
    Ok(all)
}

async fn admit_one(
    db: &mut StoreConnection,
    group: &AlertGroup,
    plan: &AdmissionPlan,
    now: Timestamp,
    rules: &AdmissionRules,
    unreadable: &Unreadable,
    woken: &mut Vec<Woken>,
) -> Result<Admitted, StoreError> {
    let known_incident = find_known_incident(db, group, unreadable).await?;
    let admission = admit(known_incident.as_ref(), group, now, rules);
    let reason = admission.reason;
    // A duplicate or late notification does not change the incident; it is only recorded as an event.
    let news = !matches!(reason, AdmitReason::Duplicate | AdmitReason::Late);
    let now_ms = unix_ms(now);
    let id = match admission.incident.clone() {
        None => {
            let new = NewIncident::new(group, plan, admission);
            replace_unreadable(db, group, new.id(), now_ms).await?;
            open_incidents(db, std::slice::from_ref(&new), now_ms).await?;
            end_too_large(db, group, now_ms).await?;
            return Ok(new.into_admitted());
        }
        Some(id) if news => {
            change(db, &id, plan, &admission, now_ms).await?;
            if matches!(reason, AdmitReason::NewAlerts | AdmitReason::Refired) {
                select_again(db, &id, plan).await?;
            }
            if admission.state == IncidentState::Open {
                send_to(db, &id, plan, now_ms).await?;
            }
            let is_critical = mark_critical(db, &id, group, known_incident.as_ref(), now_ms).await?;
            let fires_again = reason == AdmitReason::Refired;
            if is_critical || fires_again {
                woken.push(Woken { incident: id.clone(), fires_again, is_critical });
            }
            id
        }
        Some(id) => id,
    };
    if news {
        write_alerts(db, &[(&id, &group.alerts)]).await?;
        for (fingerprint, start) in &admission.gone {
            sqlx::query(
                "UPDATE alerts SET status = 'resolved' WHERE incident_id = $1 AND fingerprint = $2 AND starts_ns = $3",
            )
            .binds((&id, fingerprint, nanoseconds(*start)))
            .execute(&mut *db)
            .await?;
        }
        end_snooze(db, &id, now_ms).await?;
    }
    if reason != AdmitReason::Late {
        end_too_large(db, group, now_ms).await?;
    }
    record_event(db, &id, now_ms, "notified", reason.as_str()).await?;
    Ok(Admitted { incident: id, reason })
}

/// Finds the open incident of a group, or else the one resolved last.
async fn find_known_incident(
    db: &mut StoreConnection,
    group: &AlertGroup,
    unreadable: &Unreadable,
) -> Result<Option<KnownIncident>, StoreError> {
    let rows = sqlx::query(
        "SELECT id, state, notified_ms, resolved_ms, truncated, left_out_most, critical FROM incidents
         WHERE group_key = $1 AND source = $2
         ORDER BY CASE state WHEN 'open' THEN 0 ELSE 1 END, opened_ms DESC LIMIT 1",
    )
    .binds((&group.group_key, group.source()))
    // Leaves out rows that cannot be fetched.
    .fetch_all(&mut *db)
    .await?;
    let incident = match rows.first() {
        Some(row) => unreadable.without("incident", row, read_known(db, row).await)?,
        None => None,
    };
    if incident.as_ref().is_some_and(|known| known.state == IncidentState::Open) || group.sender.is_some() {
        return Ok(incident);
    }
    Ok(shared(db, group, unreadable).await?.or(incident))
}

/// Finds the open incident that contains alerts of this group, whatever its source. If no name is configured for the
/// sender, the source is the alerts' common cluster, which changes with the alerts in the group.
async fn shared(
    db: &mut StoreConnection,
    group: &AlertGroup,
    unreadable: &Unreadable,
) -> Result<Option<KnownIncident>, StoreError> {
    let rows = sqlx::query(
        "SELECT id, state, notified_ms, resolved_ms, truncated, left_out_most, critical FROM incidents
         WHERE group_key = $1 AND state = 'open' ORDER BY opened_ms DESC LIMIT $2",
    )
    .binds((&group.group_key, SOURCES))
    .fetch_all(&mut *db)
    .await?;
    for row in &rows {
        let Some(incident) = unreadable.without("incident", row, read_known(db, row).await)? else { continue };
        if group.alerts.iter().any(|alert| incident.episodes.contains_key(&alert.episode())) {
            return Ok(Some(incident));
        }
    }
    Ok(None)
}

async fn read_known(db: &mut StoreConnection, row: &AnyRow) -> Result<KnownIncident, StoreError> {
    let id: String = row.try_get("id")?;
    let rows = sqlx::query("SELECT fingerprint, starts_ns, status FROM alerts WHERE incident_id = $1")
        .bind(&id)
        .fetch_all(&mut *db)
        .await?;
    let episodes = rows
        .iter()
        .map(|row| {
            let status: &str = row.try_get("status")?;
            let status = if status == "firing" { AlertStatus::Firing } else { AlertStatus::Resolved };
            Ok(((row.try_get("fingerprint")?, from_nanoseconds(row.try_get("starts_ns")?)), status))
        })
        .collect::<Result<BTreeMap<_, _>, sqlx::Error>>()?;
    let state: &str = row.try_get("state")?;
    let (left_out, most): (i64, i64) = (row.try_get("truncated")?, row.try_get("left_out_most")?);
    Ok(KnownIncident {
        id,
        state: if state == "open" { IncidentState::Open } else { IncidentState::Resolved },
        notified_at: from_unix_ms(row.try_get("notified_ms")?),
        resolved_at: row.try_get::<Option<i64>, _>("resolved_ms")?.map(from_unix_ms),
        left_out: u64::try_from(left_out).unwrap_or_default(),
        left_out_most: u64::try_from(most).unwrap_or_default(),
        critical: row.try_get::<i64, _>("critical")? == 1,
        episodes,
    })
}

async fn change(
    db: &mut StoreConnection,
    id: &str,
    plan: &AdmissionPlan,
    admission: &Admission,
    now_ms: i64,
) -> Result<(), StoreError> {
    let Admission { reason, state, left_out, .. } = *admission;
    let resolved = state == IncidentState::Resolved;
    // Every change needs a new diagnosis; the last one measures the impact.
    sqlx::query(
        "UPDATE incidents SET state = $2, reason = $3, notified_ms = $4, resolved_ms = $5, truncated = $6,
           left_out_most = CASE WHEN left_out_most > $6 THEN left_out_most ELSE $6 END,
           refired = refired + $7, revision = revision + 1, diagnose_tries = 0, impact = NULL,
           diagnose_due_ms = CASE WHEN playbook IS NULL THEN NULL ELSE $4 END
         WHERE id = $1",
    )
    .binds((id, state.as_str(), reason.as_str(), now_ms, resolved.then_some(now_ms)))
    .binds((i64::try_from(left_out).unwrap_or(i64::MAX), i64::from(reason == AdmitReason::Refired)))
    .execute(&mut *db)
    .await?;
    // A failed delivery is retried when the message changes; a suppressed one starts when the alert is seen firing.
    sqlx::query(
        "UPDATE deliveries SET state = 'pending', tries = 0
         WHERE incident_id = $1
           AND (state IN ('failed', 'delivered', 'unreadable') OR (state = 'suppressed' AND $2 = 1))",
    )
    .binds((id, i64::from(!resolved)))
    .execute(&mut *db)
    .await?;
    if resolved {
        hasten_duplicate_checks(db, id, now_ms).await?;
    }
    if resolved && plan.selection.is_some() {
        // The last message waits shortly for the impact, as the first one does for the diagnosis.
        let until = now_ms + i64::try_from(plan.grace.as_millis()).unwrap_or(0);
        sqlx::query("UPDATE deliveries SET due_ms = $2 WHERE incident_id = $1 AND state = 'pending' AND due_ms < $2")
            .binds((id, until))
            .execute(&mut *db)
            .await?;
    }
    Ok(())
}

/// Updates the playbook, because new alerts may select a better one. An existing playbook is not replaced by an empty
/// one.
async fn select_again(db: &mut StoreConnection, id: &str, plan: &AdmissionPlan) -> Result<(), StoreError> {
    let Some((playbook, because)) = &plan.selection else { return Ok(()) };
    sqlx::query(
        "UPDATE incidents SET playbook = $2, because = $3, diagnose_due_ms = COALESCE(diagnose_due_ms, notified_ms)
         WHERE id = $1 AND ($2 <> '' OR COALESCE(playbook, '') = '')",
    )
    .binds((id, playbook, because))
    .execute(db)
    .await?;
    Ok(())
}
