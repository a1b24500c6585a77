//! Opens new incidents, many in one statement: in a storm most groups are new, and a statement takes longer for two
//! changes of thread than for its row.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::AssertSqlSafe;

use super::StoreError;
use super::alerts::write_alerts;
use super::connections::StoreConnection;
use super::deliveries::Sink;
use super::destinations::{AdmissionPlan, NewDelivery, insert_deliveries, is_critical};
use super::events::{Event, record_events};
use super::ids::new_id;
use super::storms::Storms;
use super::values::{packs, placeholders};
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
    let keys: Vec<&str> = keys.into_iter().collect();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for pack in packs(&keys) {
        let sql =
            format!("SELECT DISTINCT group_key FROM incidents WHERE group_key IN {}", placeholders(1, pack.len()));
        let rows = pack.iter().fold(sqlx::query_scalar(AssertSqlSafe(sql)), |query, key| query.bind(*key));
        known.extend(rows.fetch_all(&mut *db).await?);
    }
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
    digest: Option<String>,
}

impl<'a> NewIncident<'a> {
    /// Prepares the incident of a group that has no known one.
    pub(super) fn new(group: &'a AlertGroup, plan: &'a AdmissionPlan, admission: Admission) -> Self {
        let is_critical = is_critical(group).unwrap_or(false);
        Self { id: new_id(), group, plan, admission, is_critical, digest: None }
    }

    /// Returns the id that it gets.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the result, once it is written.
    pub(super) fn into_admitted(self) -> Admitted {
        Admitted { incident: self.id, reason: self.admission.reason, digest: self.digest }
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
    incidents: &mut [NewIncident<'_>],
    now_ms: i64,
) -> Result<(), StoreError> {
    let (mut storms, mut deliveries) = (Storms::default(), Vec::new());
    for incident in incidents.iter_mut() {
        for (sink, channel) in &incident.plan.sinks {
            let digest = match (sink, incident.is_unseen()) {
                (Sink::Slack, false) => {
                    storms.join(db, channel, &incident.plan.storm, incident.is_critical, now_ms).await?
                }
                _ => None,
            };
            let grace = if incident.is_diagnosed() { incident.plan.grace.as_millis() } else { 0 };
            deliveries.push(NewDelivery {
                incident: incident.id.clone(),
                sink: *sink,
                channel: channel.clone(),
                due_ms: now_ms + i64::try_from(grace).unwrap_or(0),
                is_unseen: incident.is_unseen(),
                digest: digest.clone(),
            });
            incident.digest = digest.or(incident.digest.take());
        }
    }
    insert(db, incidents, now_ms).await?;
    storms.write(db, now_ms).await?;
    insert_deliveries(db, &deliveries).await?;
    let alerts: Vec<_> = incidents.iter().map(|new| (new.id.as_str(), new.group.alerts.as_slice())).collect();
    write_alerts(db, &alerts).await?;
    let events: Vec<Event<'_>> = incidents
        .iter()
        .flat_map(|new| admitted_events(&new.id, new.admission.reason, new.digest.as_deref()))
        .collect();
    record_events(db, now_ms, &events).await
}

/// Returns the events of an admission.
pub(super) fn admitted_events<'a>(
    id: &'a str,
    reason: AdmitReason,
    digest: Option<&'a str>,
) -> impl Iterator<Item = Event<'a>> {
    let digested = digest.map(|digest| (id, "digested", digest));
    [(id, "notified", reason.as_str())].into_iter().chain(digested)
}

async fn insert(db: &mut StoreConnection, incidents: &[NewIncident<'_>], now_ms: i64) -> Result<(), StoreError> {
    for pack in packs(incidents) {
        let sql = format!(
            "INSERT INTO incidents (id, group_key, state, playbook, because, reason, started_ms, opened_ms, notified_ms,
               resolved_ms, truncated, left_out_most, external_url, diagnose_due_ms, source,
               critical, critical_turns, critical_ms)
             VALUES {}",
            placeholders(pack.len(), 18)
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for new in pack {
            let NewIncident { id, group, plan, admission, is_critical, .. } = new;
            let started_ms = group.alerts.iter().map(|alert| unix_ms(alert.starts_at)).min().unwrap_or(now_ms);
            let left_out = i64::try_from(admission.left_out).unwrap_or(i64::MAX);
            query = query
                .bind(id)
                .bind(&group.group_key)
                .bind(admission.state.as_str())
                .bind(plan.selection.as_ref().map(|(playbook, _)| playbook))
                .bind(plan.selection.as_ref().map(|(_, because)| because))
                .bind(admission.reason.as_str())
                .bind(started_ms)
                .bind(now_ms)
                .bind(now_ms)
                .bind((admission.state == IncidentState::Resolved).then_some(now_ms))
                .bind(left_out)
                .bind(left_out)
                .bind(&group.external_url)
                .bind(new.is_diagnosed().then_some(now_ms))
                .bind(group.source())
                .bind(i64::from(*is_critical))
                .bind(i64::from(*is_critical))
                .bind(is_critical.then_some(now_ms));
        }
        query.execute(&mut *db).await?;
    }
    Ok(())
}

/// The result of storing a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The incident that was opened or changed.
    pub incident: String,
    /// The reason of the admission.
    pub reason: AdmitReason,
    /// The digest that covers the incident, if it was opened during a storm.
    pub digest: Option<String>,
}
