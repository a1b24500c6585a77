//! Reads and updates incidents and their diagnoses.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::attention::end_snooze;
use super::deliveries::{bump, outdate};
use super::duplicates::hasten_duplicate_checks;
use super::errors::unreadable;
use super::values::BindValues;
use super::{Store, StoreError};
use findings::Diagnosis;
use knowledge::alert::{Alert, AlertStatus};
use knowledge::clock::{before, from_unix_ms, unix_ms};
use knowledge::incident::{Acknowledged, ChangeReason, Impact, Note, Related};

/// Maximum bytes of an incident's id; a ULID has 26.
const ID_BYTES: usize = 40;
/// Period in which earlier incidents of a group are counted.
const DAY: Duration = Duration::from_secs(86_400);

/// Maximum number of stale incidents that are closed in one transaction.
const STALE_AT_ONCE: i64 = 500;

/// An incident as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// Unique id, sortable by time.
    pub id: String,
    /// Alertmanager's group key.
    pub group_key: String,
    /// True while at least one alert fires.
    pub open: bool,
    /// The playbook that the alerts select; `None` if the pool is screened. See [`Self::entered`].
    pub playbook: Option<String>,
    /// The reason for that playbook or for the screening; `None` if nothing is diagnosed.
    pub because: Option<String>,
    /// The reason of the last change.
    pub reason: ChangeReason,
    /// The start of the first alert.
    pub started_at: Timestamp,
    /// The time of the first notification.
    pub opened_at: Timestamp,
    /// The time at which it was resolved; `None` while it is open.
    pub resolved_at: Option<Timestamp>,
    /// Number of times that it fired again.
    pub refired: u32,
    /// Number of alerts of the last notification that are not stored: Alertmanager left them out, or there were too
    /// many.
    pub truncated: u64,
    /// The newest diagnosis.
    pub diagnosis: Option<Diagnosis>,
    /// The revision; grows with every change that the message shows.
    pub revision: i64,
    /// All alerts seen so far.
    pub alerts: Vec<Alert>,
    /// True if something critical fires, or fired until the end.
    pub critical: bool,
    /// The acknowledgement; `None` if nobody has acknowledged.
    pub acknowledged: Option<Acknowledged>,
    /// True while somebody wants to hear nothing more of it until it gets worse.
    pub snoozed: bool,
    /// The impact; `None` until the incident is over.
    pub impact: Option<Impact>,
    /// The public address of the Alertmanager that sent it; may be empty.
    pub external_url: String,
    /// The source of its group: the configured name of the sender, or else the alerts' cluster; may be empty.
    pub source: String,
    /// The last time that it became critical and calls were due; `None` before that.
    pub critical_at: Option<Timestamp>,
    /// Number of other incidents of the same group in the 24 hours before; not counted for digests.
    pub seen_before: u32,
    /// Completed actions of users, oldest first.
    pub notes: Vec<Note>,
    /// The incidents that share something with it; not read for lists.
    pub related: Related,
}

impl Incident {
    /// Returns the playbook that the diagnosis used, or else the one that the alerts select.
    pub fn entered(&self) -> Option<&str> {
        let diagnosed = self.diagnosis.as_ref().map(|diagnosis| diagnosis.symptom.playbook.as_str());
        diagnosed.filter(|id| !id.is_empty()).or(self.playbook.as_deref())
    }

    /// Returns the firing alerts.
    pub fn firing(&self) -> Vec<&Alert> {
        self.alerts.iter().filter(|alert| alert.status == AlertStatus::Firing).collect()
    }
}

/// A query for incidents without their alerts, in the columns that [`read`] expects.
macro_rules! select_incidents {
    ($which:literal) => {
        concat!(
            "SELECT id, group_key, state, playbook, because, reason, started_ms, opened_ms, resolved_ms, refired,
               truncated, diagnosis, revision, critical, acknowledged_by, acknowledged_ms, impact,
               (SELECT snoozed_firing FROM attention WHERE incident_id = incidents.id) AS snoozed_firing,
               external_url, source, critical_ms
             FROM incidents WHERE ",
            $which
        )
    };
}
pub(super) use select_incidents;

impl Store {
    /// Returns the incidents with these ids, in the same order; deleted and unreadable ones are left out.
    pub async fn each(&self, ids: &[String]) -> Result<Vec<Incident>, StoreError> {
        let mut incidents = Vec::with_capacity(ids.len());
        for id in ids {
            match self.incident(id).await {
                Ok(incident) => incidents.extend(incident),
                Err(error) if error.is_unreadable() => self.unreadable.note("incident", id, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(incidents)
    }

    /// Returns the alerts of an incident without those that cannot be read.
    pub(super) async fn alerts_of(&self, id: &str) -> Result<Vec<Alert>, StoreError> {
        let sql =
            "SELECT incident_id, status, alert FROM alerts WHERE incident_id = $1 ORDER BY starts_ns, fingerprint";
        let rows = sqlx::query(sql).bind(id).fetch_all(&self.read).await?;
        Ok(self.unreadable.read_all("alert", &rows, of_incident).into_iter().map(|(_, alert)| alert).collect())
    }

    /// Returns an incident with its alerts; `None` if the id is unknown. A diagnosis or an alert that cannot be read is
    /// left out.
    ///
    /// # Errors
    /// When the store fails, or the incident itself cannot be read.
    pub async fn incident(&self, id: &str) -> Result<Option<Incident>, StoreError> {
        // Other text is no id, and PostgreSQL refuses some of it.
        if id.len() > ID_BYTES || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        let row = sqlx::query(select_incidents!("id = $1")).bind(id).fetch_optional(&self.read).await?;
        let Some(row) = row else { return Ok(None) };
        let mut incident = self.read_incident(&row)?;
        incident.alerts = self.alerts_of(id).await?;
        let earlier: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM incidents WHERE group_key = $1 AND id <> $2 AND opened_ms >= $3 AND opened_ms <= $4
               AND reason <> 'resolved_unseen' AND source = $5",
        )
        .binds((&incident.group_key, id, unix_ms(before(incident.opened_at, DAY)), unix_ms(incident.opened_at)))
        .bind(&incident.source)
        .fetch_one(&self.read)
        .await?;
        incident.seen_before = u32::try_from(earlier).unwrap_or(u32::MAX);
        incident.notes = self.notes(id).await?;
        Ok(Some(incident))
    }

    /// Returns the ids of the newest incidents.
    pub async fn recent(&self, most: u32) -> Result<Vec<String>, StoreError> {
        let ids = sqlx::query_scalar("SELECT id FROM incidents ORDER BY opened_ms DESC, id DESC LIMIT $1");
        Ok(ids.bind(i64::from(most)).fetch_all(&self.read).await?)
    }

    /// Records an acknowledgement. Returns false if the incident is over, or this person has acknowledged already.
    pub async fn acknowledge(&self, incident: &str, who: &str, now: Timestamp) -> Result<bool, StoreError> {
        let update = sqlx::query(
            "UPDATE incidents SET acknowledged_by = $2, acknowledged_ms = $3
             WHERE id = $1 AND state = 'open'
               AND (COALESCE(acknowledged_by, '') <> $2 OR acknowledged_ms < critical_ms)",
        )
        .binds((incident, who, unix_ms(now)))
        .execute(&self.write)
        .await?;
        Ok(update.rows_affected() > 0)
    }

    /// Increments the revision, so that the message is updated.
    pub async fn touch(&self, incident: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        bump(&mut tx, incident).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Resolves open incidents without a notification since `before`, at most [`STALE_AT_ONCE`] at once. Returns their
    /// number.
    pub async fn resolve_stale(&self, before: Timestamp, now: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let resolved: Vec<String> = sqlx::query_scalar(self.engine.sql(
            "UPDATE incidents SET state = 'resolved', reason = $3, resolved_ms = $2, revision = revision + 1,
               diagnose_due_ms = NULL WHERE id IN
               (SELECT id FROM incidents WHERE state = 'open' AND notified_ms < $1 LIMIT $4 /*postgres FOR UPDATE SKIP LOCKED*/)
             RETURNING id",
        ))
        .binds((unix_ms(before), unix_ms(now), ChangeReason::Stale.as_str(), STALE_AT_ONCE))
        .fetch_all(&mut *tx)
        .await?;
        for id in &resolved {
            end_snooze(&mut tx, id, unix_ms(now)).await?;
            outdate(&mut tx, id).await?;
            hasten_duplicate_checks(&mut tx, id, unix_ms(now)).await?;
        }
        tx.commit().await?;
        Ok(u64::try_from(resolved.len()).unwrap_or(u64::MAX))
    }
}

fn alert(row: &AnyRow, incident: &str) -> Result<Alert, StoreError> {
    let json: &str = row.try_get("alert")?;
    let mut alert: Alert = serde_json::from_str(json).map_err(|e| unreadable("alert", incident, &e))?;
    // The alert left the group, so it has ended although its last notification said firing.
    if row.try_get::<&str, _>("status")? == "resolved" {
        alert.status = AlertStatus::Resolved;
    }
    Ok(alert)
}

/// Reads a row of alerts, with the id of its incident.
pub(super) fn of_incident(row: &AnyRow) -> Result<(String, Alert), StoreError> {
    let id: String = row.try_get("incident_id")?;
    let alert = alert(row, &id)?;
    Ok((id, alert))
}

impl Store {
    /// Reads a row of incidents, without its alerts.
    pub(super) fn read_incident(&self, row: &AnyRow) -> Result<Incident, StoreError> {
        let id: String = row.try_get("id")?;
        let diagnosis = self.unreadable.json(row, "diagnosis", &id);
        let impact = self.unreadable.json(row, "impact", &id);
        let who: Option<String> = row.try_get("acknowledged_by")?;
        let at: Option<i64> = row.try_get("acknowledged_ms")?;
        let refired: i64 = row.try_get("refired")?;
        let truncated: i64 = row.try_get("truncated")?;
        Ok(Incident {
            group_key: row.try_get("group_key")?,
            open: row.try_get::<&str, _>("state")? == "open",
            playbook: row.try_get::<Option<String>, _>("playbook")?.filter(|id| !id.is_empty()),
            because: row.try_get("because")?,
            reason: ChangeReason::from_name(row.try_get("reason")?),
            started_at: from_unix_ms(row.try_get("started_ms")?),
            opened_at: from_unix_ms(row.try_get("opened_ms")?),
            resolved_at: row.try_get::<Option<i64>, _>("resolved_ms")?.map(from_unix_ms),
            refired: u32::try_from(refired).unwrap_or(u32::MAX),
            truncated: u64::try_from(truncated).unwrap_or_default(),
            diagnosis,
            revision: row.try_get("revision")?,
            alerts: Vec::new(),
            critical: row.try_get::<i64, _>("critical")? == 1,
            acknowledged: who.zip(at).map(|(who, at)| Acknowledged { who, at: from_unix_ms(at) }),
            snoozed: row.try_get::<Option<i64>, _>("snoozed_firing")?.is_some(),
            impact,
            external_url: row.try_get("external_url")?,
            source: row.try_get("source")?,
            critical_at: row.try_get::<Option<i64>, _>("critical_ms")?.map(from_unix_ms),
            seen_before: 0,
            notes: Vec::new(),
            related: Related::default(),
            id,
        })
    }
}
