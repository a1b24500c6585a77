//! Opens new incidents, many in one statement: in a storm most groups are new, and a statement takes longer for two
//! changes of thread than for its row.

use std::collections::{BTreeMap, BTreeSet};

use super::StoreError;
use super::alerts::write_alerts;
use super::connections::StoreConnection;
use super::database::DatabaseEngine;
use super::destinations::{AdmissionPlan, DeliveryBegins, NewDelivery, insert_deliveries, is_critical};
use super::events::record_events;
use super::ids::new_id;
use super::values::{of_rows, write_rows};
use knowledge::alert::AlertGroup;
use knowledge::clock::unix_ms;
use knowledge::incident::{Admission, AdmitReason, IncidentState};

/// Returns the positions of the groups that nothing in the store and no other of these groups is about.
pub(super) async fn new_groups(
    db: &mut StoreConnection,
    groups: &[(AlertGroup, AdmissionPlan)],
) -> Result<BTreeSet<usize>, StoreError> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    groups.iter().for_each(|(group, _)| *times.entry(&group.group_key).or_default() += 1);
    let too_large: Vec<BTreeSet<String>> = groups.iter().map(|(group, _)| group.too_large_keys()).collect();
    let keys: BTreeSet<&str> = times.keys().copied().chain(too_large.iter().flatten().map(String::as_str)).collect();
    let keys: Vec<[&str; 1]> = keys.into_iter().map(|key| [key]).collect();
    let known = "SELECT DISTINCT group_key FROM incidents WHERE group_key IN (SELECT value ->> 0 FROM {rows})";
    let (known, keys) = of_rows(DatabaseEngine::of(db)?, known, &keys)?;
    let known: Vec<String> = sqlx::query_scalar(known).bind(keys).fetch_all(&mut *db).await?;
    let known: BTreeSet<String> = known.into_iter().collect();
    let is_new = |(group, own): (&AlertGroup, &BTreeSet<String>)| {
        let key = &group.group_key;
        times.get(key.as_str()) == Some(&1)
            && !known.contains(key)
            && !too_large.iter().any(|keys| keys.contains(key))
            && own.iter().all(|key| !known.contains(key) && !times.contains_key(key.as_str()))
    };
    let groups = groups.iter().map(|(group, _)| group).zip(&too_large).enumerate();
    Ok(groups.filter(|(_, group)| is_new(*group)).map(|(position, _)| position).collect())
}

/// A new incident that is not written yet.
pub(super) struct NewIncident<'a> {
    id: String,
    group: &'a AlertGroup,
    plan: &'a AdmissionPlan,
    admission: Admission,
    is_critical: bool,
}

impl<'a> NewIncident<'a> {
    /// Prepares the incident of a group that has no known one.
    pub(super) fn new(group: &'a AlertGroup, plan: &'a AdmissionPlan, admission: Admission) -> Self {
        let is_critical = is_critical(group).unwrap_or(false);
        Self { id: new_id(), group, plan, admission, is_critical }
    }

    /// Returns the id that it gets.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the result, once it is written.
    pub(super) fn into_admitted(self) -> Admitted {
        Admitted { incident: self.id, reason: self.admission.reason }
    }

    /// Returns true if it was over before it was seen; no message is sent then.
    fn is_unseen(&self) -> bool {
        self.admission.reason == AdmitReason::ResolvedUnseen
    }

    /// Returns true if a diagnosis is due.
    fn is_diagnosed(&self) -> bool {
        self.plan.selection.is_some() && !self.is_unseen()
    }
}

/// Writes new incidents with their alerts and deliveries.
pub(super) async fn open_incidents(
    db: &mut StoreConnection,
    incidents: &[NewIncident<'_>],
    now_ms: i64,
) -> Result<(), StoreError> {
    let mut deliveries = Vec::new();
    for new in incidents {
        let grace = if new.is_diagnosed() { new.plan.grace.as_millis() } else { 0 };
        let due_ms = now_ms + i64::try_from(grace).unwrap_or(0);
        let (incident, storm) = (&new.id, &new.plan.storm);
        for (sink, channel, begins) in new.plan.deliveries() {
            let is_shown = begins == DeliveryBegins::Pending;
            let begins = if new.is_unseen() && is_shown { DeliveryBegins::Suppressed } else { begins };
            deliveries.push(NewDelivery { incident, sink, channel, due_ms, begins, storm });
        }
    }
    insert(db, incidents, now_ms).await?;
    insert_deliveries(db, &deliveries).await?;
    let alerts: Vec<_> = incidents.iter().map(|new| (new.id.as_str(), new.group.alerts.as_slice())).collect();
    write_alerts(db, &alerts).await?;
    let events: Vec<_> =
        incidents.iter().map(|new| (new.id.as_str(), "notified", new.admission.reason.as_str())).collect();
    record_events(db, now_ms, &events).await
}

async fn insert(db: &mut StoreConnection, incidents: &[NewIncident<'_>], now_ms: i64) -> Result<(), StoreError> {
    let rows: Vec<_> = incidents
        .iter()
        .map(|new| {
            let NewIncident { id, group, plan, admission, is_critical } = new;
            let selection = plan.selection.as_ref();
            (
                (id, &group.group_key, group.source(), &group.external_url),
                (admission.state.as_str(), admission.reason.as_str()),
                (selection.map(|(playbook, _)| playbook), selection.map(|(_, because)| because)),
                group.alerts.iter().map(|alert| unix_ms(alert.starts_at)).min().unwrap_or(now_ms),
                now_ms,
                (admission.state == IncidentState::Resolved).then_some(now_ms),
                new.is_diagnosed().then_some(now_ms),
                i64::try_from(admission.left_out).unwrap_or(i64::MAX),
                i64::from(*is_critical),
                is_critical.then_some(now_ms),
            )
        })
        .collect();
    write_rows(
        db,
        "INSERT INTO incidents (id, group_key, source, external_url, state, reason, playbook, because, started_ms, opened_ms,
           notified_ms, resolved_ms, diagnose_due_ms, truncated, left_out_most, critical, critical_turns, critical_ms)
         SELECT value -> 0 ->> 0, value -> 0 ->> 1, value -> 0 ->> 2, value -> 0 ->> 3, value -> 1 ->> 0, value -> 1 ->> 1,
           value -> 2 ->> 0, value -> 2 ->> 1, CAST(value ->> 3 AS BIGINT), CAST(value ->> 4 AS BIGINT),
           CAST(value ->> 4 AS BIGINT), CAST(value ->> 5 AS BIGINT), CAST(value ->> 6 AS BIGINT),
           CAST(value ->> 7 AS BIGINT), CAST(value ->> 7 AS BIGINT), CAST(value ->> 8 AS BIGINT),
           CAST(value ->> 8 AS BIGINT), CAST(value ->> 9 AS BIGINT)
         FROM {rows}",
        &rows,
    )
    .await
}

/// The result of storing a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The incident that was opened or changed.
    pub incident: String,
    /// The reason of the admission.
    pub reason: AdmitReason,
}
