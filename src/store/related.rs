//! Traits of incidents, by which others with the same are found: the cause in a pool, the pool, a node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use sqlx::Row;
use tracing::warn;

use super::connections::StoreConnection;
use super::incidents::{of_incident, select_incidents};
use super::{Incident, Store, StoreError};
use diagnose::{Diagnosis, SymptomVerdict, Verdict};
use knowledge::alert::Labels;
use knowledge::clock::{from_unix_ms, unix_ms};
use knowledge::incident::{AdmitReason, ChangeReason, LastTime, Neighbour, Related};

/// Maximum number of other open incidents that are named.
const OPEN: usize = 3;
/// Maximum number of open incidents with a shared trait that are looked at.
const OPEN_LOOKED_AT: i64 = 60;
/// Number of the newest incidents with a trait among which the last time is looked for.
const LOOKED_AT: i64 = 200;
/// Maximum number of earlier incidents of the place that are read: another pool of the namespace may have had the cause.
const CANDIDATES: i64 = 20;
/// Maximum number of notes of the last time.
const NOTES: usize = 20;
/// Maximum number of traits of an incident.
const TRAITS: usize = 40;
/// Maximum bytes of a trait; PostgreSQL's index takes no more than about 2,700. A longer one is left out.
const TRAIT_BYTES: usize = 1_000;
/// Number of incidents whose traits are recorded in one transaction.
const FILLED_AT_ONCE: i64 = 20;
/// Recorded for an earlier incident without traits, so that it is not looked at again.
const NO_TRAIT: &str = "[]";
/// Time that the look for related incidents may take; the message does without them after it.
const DEADLINE: Duration = Duration::from_secs(2);

/// Returns a trait: its kind, the source of the incident, and what it is about. Incidents of two sources share none.
fn trait_text(kind: &str, source: &str, about: &impl serde::Serialize) -> Option<String> {
    serde_json::to_string(&(kind, source, about)).ok().filter(|text| text.len() <= TRAIT_BYTES)
}

/// Returns where the pool is: its cluster and its namespace, without one its model, without that its job; `None` if the
/// labels have none of these. Rules of GPUs and of engines name the same pool with different labels.
fn place(labels: &Labels) -> Option<BTreeMap<&str, &str>> {
    let of = |dimension| labels.get_key_value(dimension).map(|(name, value)| (name.as_str(), value.as_str()));
    let finest = of("namespace").or_else(|| of("model")).or_else(|| of("job"))?;
    Some(of("cluster").into_iter().chain([finest]).collect())
}

/// Returns true if two diagnoses may be about one pool: they agree in all labels that both have. A job says less than a
/// namespace and a model.
fn same_pool(one: &Labels, other: &Labels) -> bool {
    let is_exact = |labels: &Labels| labels.contains_key("namespace") && labels.contains_key("model");
    let needs_job = !(is_exact(one) && is_exact(other));
    one.iter()
        .filter(|(dimension, _)| needs_job || *dimension != "job")
        .all(|(dimension, value)| other.get(dimension).is_none_or(|other| other == value))
}

/// Returns the trait of the pool's place.
fn pool(source: &str, diagnosis: &Diagnosis) -> Option<String> {
    trait_text("pool", source, &place(&diagnosis.scope.labels)?)
}

/// Returns the trait of a cause in the pool's place.
fn cause(source: &str, diagnosis: &Diagnosis, id: &str) -> Option<String> {
    trait_text("cause", source, &(place(&diagnosis.scope.labels)?, id))
}

/// Returns id and title of the cause, if it is at least possible; of a cause that is only what remains without a better
/// one, those of the mechanism before it.
fn named(diagnosis: &Diagnosis) -> Option<(&str, &str)> {
    let root = diagnosis.root().filter(|root| root.verdict >= Verdict::Possible)?;
    match root.fallback {
        false => Some((&root.id, &root.title)),
        true => root.via.last().map(|mechanism| (mechanism.id.as_str(), mechanism.title.as_str())),
    }
}

/// Returns the nodes of the affected replicas, each with its trait.
fn nodes<'a>(source: &str, diagnosis: &'a Diagnosis) -> Vec<(&'a str, String)> {
    let nodes = match diagnosis.root() {
        Some(root) if !root.replicas.nodes.is_empty() => &root.replicas.nodes,
        _ => &diagnosis.replicas.nodes,
    };
    let cluster = diagnosis.scope.labels.get("cluster");
    let with_trait = |node: &'a String| Some((node.as_str(), trait_text("node", source, &(cluster, node))?));
    nodes.iter().filter_map(with_trait).collect()
}

fn traits(source: &str, diagnosis: &Diagnosis) -> BTreeSet<String> {
    let cause = named(diagnosis).and_then(|(id, _)| cause(source, diagnosis, id));
    let nodes = nodes(source, diagnosis).into_iter().map(|(_, text)| text);
    pool(source, diagnosis).into_iter().chain(cause).chain(nodes).take(TRAITS).collect()
}

/// Replaces the traits of an incident by those of its newest diagnosis.
pub(super) async fn record_traits(
    db: &mut StoreConnection,
    incident: &Incident,
    diagnosis: &Diagnosis,
) -> Result<(), StoreError> {
    let known = sqlx::query_scalar("SELECT trait FROM traits WHERE incident_id = $1");
    let known: Vec<String> = known.bind(&incident.id).fetch_all(&mut *db).await?;
    let traits = traits(&incident.source, diagnosis);
    if known.len() == traits.len() && known.iter().all(|text| traits.contains(text)) {
        return Ok(());
    }
    sqlx::query("DELETE FROM traits WHERE incident_id = $1").bind(&incident.id).execute(&mut *db).await?;
    insert_traits(db, &incident.id, traits).await
}

async fn insert_traits(db: &mut StoreConnection, id: &str, traits: BTreeSet<String>) -> Result<(), StoreError> {
    for text in traits {
        let insert = "INSERT INTO traits (incident_id, trait) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        sqlx::query(insert).bind(id).bind(text).execute(&mut *db).await?;
    }
    Ok(())
}

/// The part of an earlier diagnosis that tells its pool.
#[derive(Deserialize)]
struct Earlier {
    scope: EarlierScope,
}

#[derive(Deserialize)]
struct EarlierScope {
    #[serde(default)]
    labels: Labels,
}

impl Store {
    /// Returns an incident as [`Self::incident`] does, with the incidents that share something with it.
    ///
    /// # Errors
    /// As [`Self::incident`]. Related incidents that cannot be read are left out: the message matters more.
    pub async fn incident_with_related(&self, id: &str) -> Result<Option<Incident>, StoreError> {
        let Some(mut incident) = self.incident(id).await? else { return Ok(None) };
        incident.related = match tokio::time::timeout(DEADLINE, self.related(&incident)).await {
            Ok(Ok(related)) => related,
            Ok(Err(error)) => {
                warn!(%error, incident.id = id, "cannot read the related incidents: going on without them");
                Related::default()
            }
            Err(_) => {
                warn!(incident.id = id, "reading the related incidents took too long: going on without them");
                Related::default()
            }
        };
        Ok(Some(incident))
    }

    /// Records the traits of some earlier incidents that an older version diagnosed, older than the one with the id
    /// `before`, or the newest if it is empty. Returns the id before which to go on; `None` if there are no more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn fill_traits(&self, before: &str) -> Result<Option<String>, StoreError> {
        let rows = sqlx::query(select_incidents!(
            "state = 'resolved' AND diagnosis IS NOT NULL AND ($1 = '' OR id < $1)
               AND NOT EXISTS (SELECT 1 FROM traits WHERE incident_id = incidents.id) ORDER BY id DESC LIMIT $2"
        ))
        .bind(before)
        .bind(FILLED_AT_ONCE)
        .fetch_all(&self.read)
        .await?;
        let incidents = self.unreadable.read_all("incident", &rows, |row| self.read_incident(row));
        let mut tx = self.begin().await?;
        for incident in &incidents {
            let traits = incident.diagnosis.as_ref().map(|diagnosis| traits(&incident.source, diagnosis));
            let none = || BTreeSet::from([NO_TRAIT.to_owned()]);
            let traits = traits.filter(|traits| !traits.is_empty()).unwrap_or_else(none);
            insert_traits(&mut tx, &incident.id, traits).await?;
        }
        tx.commit().await?;
        Ok(rows.last().map(|row| row.try_get("id")).transpose()?)
    }

    async fn related(&self, incident: &Incident) -> Result<Related, StoreError> {
        let Some(diagnosis) = &incident.diagnosis else { return Ok(Related::default()) };
        let mut related = Related { last: self.last_time(incident, diagnosis).await?, open: Vec::new() };
        if incident.open {
            for (id, node) in self.neighbours(incident, diagnosis).await? {
                related.open.extend(self.neighbour(incident, &id, node).await?);
            }
        }
        Ok(related)
    }

    /// Updates the messages of other open incidents that name this one, or begin to: at its first diagnosis and at its
    /// end.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn update_neighbours(&self, incident: &Incident, diagnosis: &Diagnosis) -> Result<(), StoreError> {
        for (id, _) in self.neighbours(incident, diagnosis).await? {
            self.touch(&id).await?;
        }
        Ok(())
    }

    /// Returns the last incident of the same pool with the same cause that was over before this one began. Incidents
    /// that ended without Alertmanager saying so do not count.
    async fn last_time(&self, incident: &Incident, diagnosis: &Diagnosis) -> Result<Option<LastTime>, StoreError> {
        let Some((current, _)) = named(diagnosis) else { return Ok(None) };
        // Older incidents have the ids that the cause had then.
        let former = self.aliases.names().filter(|name| self.aliases.id(name) == current).map(String::as_str);
        let mut last: Option<LastTime> = None;
        for id in [current].into_iter().chain(former) {
            let Some(text) = cause(&incident.source, diagnosis, id) else { continue };
            let rows = sqlx::query(
                "SELECT i.id, i.started_ms, i.resolved_ms, i.diagnosis FROM
                   (SELECT incident_id FROM traits WHERE trait = $1 AND incident_id <> $2
                    ORDER BY incident_id DESC LIMIT $8) AS newest JOIN incidents i ON i.id = newest.incident_id
                 WHERE i.state = 'resolved' AND i.resolved_ms <= $3 AND i.reason NOT IN ($4, $5, $6, $7)
                 ORDER BY i.resolved_ms DESC LIMIT $9",
            )
            .bind(text)
            .bind(&incident.id)
            .bind(unix_ms(incident.opened_at))
            .bind(ChangeReason::Stale.as_str())
            .bind(ChangeReason::Unreadable.as_str())
            .bind(ChangeReason::ReadableAgain.as_str())
            .bind(AdmitReason::ResolvedUnseen.as_str())
            .bind(LOOKED_AT)
            .bind(CANDIDATES)
            .fetch_all(&self.read)
            .await?;
            let candidates = self.unreadable.read_all("incident", &rows, |row| {
                let id: String = row.try_get("id")?;
                let earlier: Option<Earlier> = self.unreadable.json(row, "diagnosis", &id);
                let times = (from_unix_ms(row.try_get("started_ms")?), from_unix_ms(row.try_get("resolved_ms")?));
                Ok((id, times, earlier))
            });
            let is_here = |earlier: &Option<Earlier>| {
                earlier.as_ref().is_some_and(|earlier| same_pool(&earlier.scope.labels, &diagnosis.scope.labels))
            };
            let found = candidates.into_iter().find(|(_, _, earlier)| is_here(earlier));
            let Some((id, (started_at, resolved_at), _)) = found else { continue };
            if last.as_ref().is_none_or(|last| last.resolved_at < resolved_at) {
                last = Some(LastTime { id, started_at, resolved_at, notes: Vec::new() });
            }
        }
        if let Some(last) = &mut last {
            last.notes = self.notes(&last.id).await?.into_iter().filter(LastTime::tells).collect();
            last.notes.drain(..last.notes.len().saturating_sub(NOTES));
        }
        Ok(last)
    }

    /// Returns the other open incidents that are named, with the node that both share; those of the pool first, with
    /// none, the newest of each first.
    async fn neighbours<'a>(
        &self,
        incident: &Incident,
        diagnosis: &'a Diagnosis,
    ) -> Result<Vec<(String, Option<&'a str>)>, StoreError> {
        let pool = pool(&incident.source, diagnosis);
        let nodes: BTreeMap<String, &str> =
            nodes(&incident.source, diagnosis).into_iter().map(|(node, text)| (text, node)).collect();
        if pool.is_none() && nodes.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT i.id, theirs.trait FROM traits own
               JOIN traits theirs ON theirs.trait = own.trait AND theirs.incident_id <> own.incident_id
               JOIN incidents i ON i.id = theirs.incident_id
             WHERE own.incident_id = $1 AND own.trait NOT LIKE '[\"cause\"%' AND i.state = 'open'
             ORDER BY i.id DESC, theirs.trait LIMIT $2",
        )
        .bind(&incident.id)
        .bind(OPEN_LOOKED_AT)
        .fetch_all(&self.read)
        .await?;
        let in_place = rows.iter().filter(|(_, text)| pool.as_ref() == Some(text)).map(|(id, _)| id);
        let on_node = rows.iter().filter_map(|(id, text)| Some((id, *nodes.get(text)?)));
        let mut named: Vec<(String, Option<&str>)> = Vec::new();
        for id in in_place {
            if named.len() < OPEN && self.is_of_pool(id, &diagnosis.scope.labels).await? {
                named.push((id.clone(), None));
            }
        }
        for (id, node) in on_node {
            if named.len() < OPEN && !named.iter().any(|(known, _)| known == id) {
                named.push((id.clone(), Some(node)));
            }
        }
        Ok(named)
    }

    /// Returns true if the newest diagnosis of an incident may be about the pool with these labels.
    async fn is_of_pool(&self, id: &str, labels: &Labels) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT id, diagnosis FROM incidents WHERE id = $1").bind(id);
        let Some(row) = row.fetch_optional(&self.read).await? else { return Ok(false) };
        let other: Option<Earlier> = self.unreadable.json(&row, "diagnosis", id);
        Ok(other.is_some_and(|other| same_pool(&other.scope.labels, labels)))
    }

    /// Returns what is said of another open incident; `None` if it was deleted meanwhile, or cannot be read. Of another
    /// pool nothing but the node is said where an incident of that pool is not shown itself.
    async fn neighbour(
        &self,
        incident: &Incident,
        id: &str,
        node: Option<&str>,
    ) -> Result<Option<Neighbour>, StoreError> {
        let row = sqlx::query(select_incidents!("id = $1")).bind(id).fetch_optional(&self.read).await?;
        let rows: Vec<_> = row.into_iter().collect();
        let Some(other) = self.unreadable.read_all("incident", &rows, |row| self.read_incident(row)).pop() else {
            return Ok(None);
        };
        let (id, started_at, node_name) = (other.id.clone(), other.started_at, node.map(str::to_owned));
        if node.is_some() && !self.is_shown_beside(&incident.id, &id).await? {
            let pool = Labels::new();
            return Ok(Some(Neighbour { id, started_at, what: None, cause: None, pool, node: node_name }));
        }
        let symptom = other.diagnosis.as_ref().map(|diagnosis| &diagnosis.symptom);
        let there = symptom.filter(|symptom| symptom.verdict != SymptomVerdict::Absent && !symptom.title.is_empty());
        let what = match there {
            Some(symptom) => Some(symptom.title.clone()),
            None => self.first_alert(&id).await?,
        };
        let cause = other.diagnosis.as_ref().and_then(named).map(|(_, title)| title.to_owned());
        let pool = other.diagnosis.map(|diagnosis| diagnosis.scope.labels).unwrap_or_default();
        Ok(Some(Neighbour { id, started_at, what, cause, pool, node: node_name }))
    }

    /// Returns the name of an incident's first alert.
    async fn first_alert(&self, id: &str) -> Result<Option<String>, StoreError> {
        let first = "SELECT incident_id, status, alert FROM alerts WHERE incident_id = $1
                     ORDER BY starts_ns, fingerprint LIMIT 1";
        let rows = sqlx::query(first).bind(id).fetch_all(&self.read).await?;
        let alerts = self.unreadable.read_all("alert", &rows, of_incident);
        Ok(alerts.first().map(|(_, alert)| alert.name().to_owned()))
    }

    /// Returns true if the other incident has a message in every Slack channel in which the first one has one.
    async fn is_shown_beside(&self, incident: &str, other: &str) -> Result<bool, StoreError> {
        let elsewhere: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM deliveries own WHERE own.incident_id = $1 AND own.sink = 'slack' AND NOT EXISTS
               (SELECT 1 FROM deliveries theirs WHERE theirs.incident_id = $2 AND theirs.sink = own.sink
                  AND theirs.channel = own.channel)",
        )
        .bind(incident)
        .bind(other)
        .fetch_one(&self.read)
        .await?;
        Ok(elsewhere == 0)
    }
}
