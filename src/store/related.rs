//! Traits of incidents, by which others with the same are found: the cause in a pool, the pool, a node.

use std::collections::BTreeSet;

use sqlx::Row;

use super::connections::StoreConnection;
use super::incidents::{of_incident, select_incidents};
use super::{Incident, Store, StoreError};
use diagnose::{CauseFound, Diagnosis, SymptomVerdict, Verdict};
use knowledge::clock::{from_unix_ms, unix_ms};
use knowledge::incident::{LastTime, Neighbour, Related};

/// Maximum number of other open incidents that are named.
const OPEN: usize = 3;
/// Number of the newest incidents with a trait among which open ones are looked for.
const LOOKED_AT: i64 = 200;
/// Maximum number of notes of the last time.
const NOTES: usize = 20;
/// Maximum number of nodes of an incident.
const NODES: usize = 8;
/// Maximum bytes of a trait; PostgreSQL's index takes no more than about 2,700. A longer one is left out.
const TRAIT_BYTES: usize = 1_000;
/// The beginnings of the ids of GPUs, which stand beside the names of nodes.
const GPU_IDS: [&str; 2] = ["GPU-", "MIG-"];

/// Returns a trait: its kind, the source of the incident, and what it is about. Incidents of two sources share none.
fn trait_text(kind: &str, source: &str, about: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(&(kind, source, about)).ok().filter(|text| text.len() <= TRAIT_BYTES)
}

/// Returns the trait of the pool; `None` if the diagnosis is about no pool.
fn pool(source: &str, diagnosis: &Diagnosis) -> Option<String> {
    let labels = &diagnosis.scope.labels;
    trait_text("pool", source, labels).filter(|_| !labels.is_empty())
}

/// Returns the trait of a cause in the pool.
fn cause(source: &str, diagnosis: &Diagnosis, id: &str) -> Option<String> {
    let labels = &diagnosis.scope.labels;
    trait_text("cause", source, &(labels, id)).filter(|_| !labels.is_empty())
}

/// Returns the cause, if it is at least possible and says more than that nothing else was found.
fn named(diagnosis: &Diagnosis) -> Option<&CauseFound> {
    diagnosis.root().filter(|root| root.verdict >= Verdict::Possible && !root.fallback)
}

/// Returns the nodes of the affected replicas, each with its trait.
fn nodes<'a>(source: &str, diagnosis: &'a Diagnosis) -> Vec<(&'a str, String)> {
    let places = match diagnosis.root() {
        Some(root) if !root.replicas.places.is_empty() => &root.replicas.places,
        _ => &diagnosis.replicas.places,
    };
    let is_node = |place: &&String| !GPU_IDS.iter().any(|start| place.starts_with(start));
    let nodes: BTreeSet<&str> = places.values().flatten().filter(is_node).map(String::as_str).collect();
    let cluster = diagnosis.scope.labels.get("cluster");
    let with_trait = |node| Some((node, trait_text("node", source, &(cluster, node))?));
    nodes.into_iter().take(NODES).filter_map(with_trait).collect()
}

fn traits(source: &str, diagnosis: &Diagnosis) -> BTreeSet<String> {
    let cause = named(diagnosis).and_then(|root| cause(source, diagnosis, &root.id));
    let nodes = nodes(source, diagnosis).into_iter().map(|(_, text)| text);
    pool(source, diagnosis).into_iter().chain(cause).chain(nodes).collect()
}

/// Replaces the traits of an incident by those of its newest diagnosis; without one they stay.
pub(super) async fn record_traits(
    db: &mut StoreConnection,
    incident: &Incident,
    diagnosis: Option<&Diagnosis>,
) -> Result<(), StoreError> {
    let Some(diagnosis) = diagnosis else { return Ok(()) };
    let known = sqlx::query_scalar("SELECT trait FROM traits WHERE incident_id = $1");
    let known: Vec<String> = known.bind(&incident.id).fetch_all(&mut *db).await?;
    let traits = traits(&incident.source, diagnosis);
    if known.len() == traits.len() && known.iter().all(|text| traits.contains(text)) {
        return Ok(());
    }
    sqlx::query("DELETE FROM traits WHERE incident_id = $1").bind(&incident.id).execute(&mut *db).await?;
    for text in traits {
        let insert = "INSERT INTO traits (incident_id, trait) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        sqlx::query(insert).bind(&incident.id).bind(text).execute(&mut *db).await?;
    }
    Ok(())
}

impl Store {
    /// Returns the incidents that share something with a stored one; none for one without a diagnosis.
    ///
    /// # Errors
    /// When the store fails; also in the methods below.
    pub(super) async fn related(&self, incident: &Incident) -> Result<Related, StoreError> {
        let Some(diagnosis) = &incident.diagnosis else { return Ok(Related::default()) };
        let open = if incident.open { self.neighbours(incident, diagnosis).await? } else { Vec::new() };
        Ok(Related { last: self.last_time(incident, diagnosis).await?, open })
    }

    /// Returns the newest incident of the same pool with the same cause that was over before this one began.
    async fn last_time(&self, incident: &Incident, diagnosis: &Diagnosis) -> Result<Option<LastTime>, StoreError> {
        let Some(root) = named(diagnosis) else { return Ok(None) };
        // Older incidents have the ids that the cause had then.
        let former = self.aliases.names().filter(|name| self.aliases.id(name) == root.id);
        let mut newest: Option<LastTime> = None;
        for id in [&root.id].into_iter().chain(former) {
            let Some(text) = cause(&incident.source, diagnosis, id) else { continue };
            let row = sqlx::query(
                "SELECT i.id, i.started_ms, i.resolved_ms FROM traits t JOIN incidents i ON i.id = t.incident_id
                 WHERE t.trait = $1 AND t.incident_id < $2 AND i.state = 'resolved' AND i.resolved_ms <= $3
                 ORDER BY t.incident_id DESC LIMIT 1",
            )
            .bind(text)
            .bind(&incident.id)
            .bind(unix_ms(incident.opened_at))
            .fetch_optional(&self.read)
            .await?;
            let Some(row) = row else { continue };
            let id: String = row.try_get("id")?;
            if newest.as_ref().is_none_or(|newest| newest.id < id) {
                newest = Some(LastTime {
                    id,
                    started_at: from_unix_ms(row.try_get("started_ms")?),
                    resolved_at: from_unix_ms(row.try_get("resolved_ms")?),
                    notes: Vec::new(),
                });
            }
        }
        if let Some(last) = &mut newest {
            let notes = self.notes(&last.id).await?.into_iter().filter(LastTime::tells);
            last.notes = notes.collect();
            last.notes.drain(..last.notes.len().saturating_sub(NOTES));
        }
        Ok(newest)
    }

    /// Returns other open incidents of the pool, then those on its nodes, the newest of each first.
    async fn neighbours(&self, incident: &Incident, diagnosis: &Diagnosis) -> Result<Vec<Neighbour>, StoreError> {
        let pool = pool(&incident.source, diagnosis).map(|text| (None, text));
        let nodes = nodes(&incident.source, diagnosis).into_iter().map(|(node, text)| (Some(node), text));
        let mut neighbours: Vec<Neighbour> = Vec::new();
        for (node, text) in pool.into_iter().chain(nodes) {
            let rows = sqlx::query(select_incidents!(
                "state = 'open' AND id IN (SELECT incident_id FROM (SELECT incident_id FROM traits
                   WHERE trait = $1 AND incident_id <> $2 ORDER BY incident_id DESC LIMIT $3) AS newest)
                 ORDER BY id DESC LIMIT $4"
            ))
            .bind(text)
            .bind(&incident.id)
            .bind(LOOKED_AT)
            .bind(i64::try_from(OPEN).unwrap_or(i64::MAX))
            .fetch_all(&self.read)
            .await?;
            for other in self.unreadable.read_all("incident", &rows, |row| self.read_incident(row)) {
                if neighbours.len() >= OPEN {
                    return Ok(neighbours);
                }
                if !neighbours.iter().any(|known| known.id == other.id) {
                    neighbours.push(self.neighbour(other, node).await?);
                }
            }
        }
        Ok(neighbours)
    }

    async fn neighbour(&self, other: Incident, node: Option<&str>) -> Result<Neighbour, StoreError> {
        let symptom = other.diagnosis.as_ref().map(|diagnosis| &diagnosis.symptom);
        let there = symptom.filter(|symptom| symptom.verdict != SymptomVerdict::Absent && !symptom.title.is_empty());
        let what = match there {
            Some(symptom) => symptom.title.clone(),
            None => {
                let first = "SELECT incident_id, status, alert FROM alerts WHERE incident_id = $1
                             ORDER BY starts_ns, fingerprint LIMIT 1";
                let rows = sqlx::query(first).bind(&other.id).fetch_all(&self.read).await?;
                let alerts = self.unreadable.read_all("alert", &rows, of_incident);
                alerts.first().map(|(_, alert)| alert.name().to_owned()).unwrap_or_default()
            }
        };
        let cause = other.diagnosis.as_ref().and_then(named).map(|root| root.title.clone());
        let pool = other.diagnosis.map(|diagnosis| diagnosis.scope.labels).unwrap_or_default();
        Ok(Neighbour { id: other.id, started_at: other.started_at, what, cause, pool, node: node.map(str::to_owned) })
    }
}
