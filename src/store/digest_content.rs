//! The incidents of a digest, read in pages: a storm has thousands, each with a diagnosis and up to thousands of alerts.

use std::collections::BTreeMap;

use sqlx::Row;

use super::incidents::{of_incident, select_incidents};
use super::values::of_rows;
use super::{Incident, Store, StoreError};
use knowledge::alert::Alert;

/// Maximum number of incidents of a page.
const INCIDENTS: usize = 20;
/// Maximum number of alerts of a page; one incident may have more.
const ALERTS: i64 = 500;

/// The content of a digest: what is needed of each incident.
#[derive(Debug, Clone, PartialEq)]
pub struct DigestContent<T> {
    /// The values taken of its incidents, oldest first.
    pub incidents: Vec<T>,
    /// Number of further incidents that cannot be read.
    pub unreadable: usize,
    /// The sum of the revisions of all incidents.
    pub revisions: i64,
}

impl Store {
    /// Returns what `of` takes of each incident of a digest; empty if the digest does not exist.
    pub async fn digest_incidents<T>(
        &self,
        digest: &str,
        mut of: impl FnMut(Incident) -> T,
    ) -> Result<DigestContent<T>, StoreError> {
        // Read before the incidents, so that a change in between causes another edit. Unreadable incidents count too;
        // otherwise the digest would be edited for ever.
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(i.revision), 0) AS BIGINT) AS revisions, COUNT(DISTINCT i.id) AS incidents
             FROM deliveries d JOIN incidents i ON i.id = d.incident_id WHERE d.digest_id = $1",
        );
        let row = row.bind(digest).fetch_one(&self.read).await?;
        let (revisions, all): (i64, i64) = (row.try_get("revisions")?, row.try_get("incidents")?);
        let ids = "SELECT d.incident_id, (SELECT COUNT(*) FROM alerts a WHERE a.incident_id = d.incident_id) AS alerts
                   FROM deliveries d WHERE d.digest_id = $1 GROUP BY d.incident_id ORDER BY d.incident_id";
        let ids: Vec<(String, i64)> = sqlx::query_as(ids).bind(digest).fetch_all(&self.read).await?;
        let mut incidents = Vec::new();
        // Pages of ids, not of incidents: rows that cannot be decoded are not returned, and must not look like the end.
        for page in pages(&ids) {
            let rows = select_incidents!("id IN (SELECT value ->> 0 FROM {rows}) ORDER BY id");
            let (rows, given) = of_rows(self.engine, rows, page)?;
            let rows = sqlx::query(rows).bind(given).fetch_all(&self.read).await?;
            let readable = self.unreadable.read_all("incident", &rows, |row| self.read_incident(row));
            drop(rows);
            let mut alerts = self.alerts_of_page(page).await?;
            for mut incident in readable {
                incident.alerts = alerts.remove(&incident.id).unwrap_or_default();
                incidents.push(of(incident));
            }
        }
        let unreadable = usize::try_from(all).unwrap_or_default().saturating_sub(incidents.len());
        Ok(DigestContent { incidents, unreadable, revisions })
    }

    /// Returns those of these incidents that a person has acknowledged last, in the same order.
    pub async fn acknowledged_by(&self, who: &str, ids: &[String]) -> Result<Vec<String>, StoreError> {
        let given: Vec<[&String; 1]> = ids.iter().map(|id| [id]).collect();
        let own = "SELECT id FROM incidents WHERE acknowledged_by = $2 AND id IN (SELECT value ->> 0 FROM {rows})";
        let (own, given) = of_rows(self.engine, own, &given)?;
        let own: Vec<String> = sqlx::query_scalar(own).bind(given).bind(who).fetch_all(&self.read).await?;
        Ok(ids.iter().filter(|id| own.contains(*id)).cloned().collect())
    }

    /// Returns the alerts of a page's incidents, by incident, without those that cannot be read.
    async fn alerts_of_page(&self, page: &[(String, i64)]) -> Result<BTreeMap<String, Vec<Alert>>, StoreError> {
        let rows = "SELECT incident_id, status, alert FROM alerts WHERE incident_id IN (SELECT value ->> 0 FROM {rows})
                    ORDER BY incident_id, starts_ns, fingerprint";
        let (rows, given) = of_rows(self.engine, rows, page)?;
        let rows = sqlx::query(rows).bind(given).fetch_all(&self.read).await?;
        let mut alerts: BTreeMap<String, Vec<Alert>> = BTreeMap::new();
        for (incident, alert) in self.unreadable.read_all("alert", &rows, of_incident) {
            alerts.entry(incident).or_default().push(alert);
        }
        Ok(alerts)
    }
}

/// Divides incidents, each with its number of alerts, into pages that fit into memory.
fn pages(mut ids: &[(String, i64)]) -> impl Iterator<Item = &[(String, i64)]> {
    std::iter::from_fn(move || {
        let mut alerts = 0;
        let fits = ids.iter().take(INCIDENTS).take_while(|(_, own)| {
            alerts += own;
            alerts <= ALERTS
        });
        let (page, rest) = ids.split_at_checked(fits.count().max(1))?;
        ids = rest;
        Some(page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_few_incidents_and_few_alerts_but_at_least_one_incident() {
        let incidents = |alerts: &[i64]| -> Vec<(String, i64)> { alerts.iter().map(|n| (n.to_string(), *n)).collect() };
        let sizes = |alerts: &[i64]| -> Vec<usize> { pages(&incidents(alerts)).map(<[_]>::len).collect() };
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        assert_eq!(sizes(&[1; 45]), [20, 20, 5]);
        assert_eq!(sizes(&[10_000, 10_000, 1, 499, 1]), [1, 1, 2, 1]);
    }
}
