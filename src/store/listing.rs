//! Lists of incidents for users: with pagination, newest first, without the details of an incident's own page.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sqlx::Row;

use super::incidents::{of_incident, select_incidents};
use super::values::BindValues;
use super::{Incident, Store, StoreError};
use knowledge::clock::unix_ms;
use knowledge::incident::IncidentState;

/// Maximum number of alerts per incident in a list: a group may have thousands.
const ALERTS: i64 = 20;

/// The incidents of a list; without conditions all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncidentQuery {
    /// Only incidents in this state.
    pub state: Option<IncidentState>,
    /// Only incidents whose first notification came at this time or later.
    pub since: Option<Timestamp>,
    /// Only incidents older than the one with this id; empty for the newest.
    pub before: String,
}

impl IncidentQuery {
    /// Returns the query for a state.
    pub fn of_state(state: IncidentState) -> Self {
        Self { state: Some(state), ..Self::default() }
    }
}

/// Returns the pattern for the text of an alert with that severity. Label names and values are in that text as JSON
/// writes them, so that no value can look like a label.
fn severity_pattern(severity: &str) -> String {
    let text = serde_json::Value::from(severity.to_ascii_lowercase()).to_string();
    let escaped: String =
        text.chars().flat_map(|c| matches!(c, '!' | '%' | '_').then_some('!').into_iter().chain([c])).collect();
    format!("%\"labels\":{{%\"severity\":{escaped}%}},\"annotations\":{{%")
}

impl Store {
    /// Returns the incidents that a query selects; newest first, with at most [`ALERTS`] alerts each, and without notes.
    pub async fn listed(&self, query: &IncidentQuery, most: u32) -> Result<Vec<Incident>, StoreError> {
        let (mut incidents, mut before) = (Vec::new(), query.before.clone());
        let state = query.state.map(IncidentState::as_str).unwrap_or_default();
        // Unreadable incidents are skipped and replaced by older ones: a short list means that there are no more.
        loop {
            let missing = (most as usize).saturating_sub(incidents.len());
            // Ids begin with their time, so sorting by id sorts by time.
            let rows = sqlx::query(select_incidents!(
                "($1 = '' OR state = $1) AND ($2 = '' OR id < $2) AND opened_ms >= $4 ORDER BY id DESC LIMIT $3"
            ))
            .binds((state, &before, i64::try_from(missing).unwrap_or(i64::MAX), query.since.map_or(i64::MIN, unix_ms)))
            .fetch_all(&self.read)
            .await?;
            incidents.extend(self.unreadable.read_all("incident", &rows, |row| self.read_incident(row)));
            match rows.last().map(|row| row.try_get("id")) {
                Some(Ok(last)) if rows.len() == missing && incidents.len() < most as usize => before = last,
                _ => break,
            }
        }
        let (Some(first), Some(last)) = (incidents.first(), incidents.last()) else { return Ok(incidents) };
        let rows = sqlx::query(
            "SELECT incident_id, status, alert FROM
               (SELECT a.incident_id, a.status, a.alert, a.starts_ns,
                  ROW_NUMBER() OVER (PARTITION BY a.incident_id ORDER BY a.starts_ns, a.fingerprint) AS nth
                FROM alerts a JOIN incidents i ON i.id = a.incident_id
                WHERE a.incident_id >= $1 AND a.incident_id <= $2 AND ($3 = '' OR i.state = $3)) AS numbered
             WHERE nth <= $4 ORDER BY incident_id, nth",
        )
        .binds((&last.id, &first.id, state, ALERTS))
        .fetch_all(&self.read)
        .await?;
        let mut alerts: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (id, alert) in self.unreadable.read_all("alert", &rows, of_incident) {
            alerts.entry(id).or_default().push(alert);
        }
        for incident in &mut incidents {
            incident.alerts = alerts.remove(&incident.id).unwrap_or_default();
        }
        Ok(incidents)
    }

    /// Returns the ids of those of these listed incidents of which an alert has had this value of the label `severity`,
    /// in any case; `state` is that of their list. It reads all of their alerts.
    pub async fn with_severity(
        &self,
        listed: &[Incident],
        state: Option<IncidentState>,
        severity: &str,
    ) -> Result<BTreeSet<String>, StoreError> {
        let (Some(first), Some(last)) = (listed.first(), listed.last()) else { return Ok(BTreeSet::new()) };
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT a.incident_id FROM alerts a JOIN incidents i ON i.id = a.incident_id
             WHERE a.incident_id >= $1 AND a.incident_id <= $2 AND ($3 = '' OR i.state = $3)
               AND LOWER(a.alert) LIKE $4 ESCAPE '!'",
        )
        .binds((&last.id, &first.id, state.map(IncidentState::as_str).unwrap_or_default(), severity_pattern(severity)))
        .fetch_all(&self.read)
        .await?;
        Ok(ids.into_iter().collect())
    }

    /// Returns the number of open incidents and of all stored ones.
    pub async fn counts(&self) -> Result<(u64, u64), StoreError> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM incidents WHERE state = 'open') AS open, (SELECT COUNT(*) FROM incidents) AS kept",
        );
        let row = row.fetch_one(&self.read).await?;
        let count = |name| Ok::<_, sqlx::Error>(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or_default());
        Ok((count("open")?, count("kept")?))
    }
}
