//! Traits of incidents, by which others with the same are found: the cause in a pool, the pool, a node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;
use tracing::warn;

use super::connections::StoreConnection;
use super::incidents::{of_incident, select_incidents};
use super::values::BindValues;
use super::{Incident, Store, StoreError};
use findings::{Diagnosis, SymptomVerdict, Verdict};
use knowledge::alert::Labels;
use knowledge::clock::{from_unix_ms, unix_ms};
use knowledge::incident::{AdmitReason, ChangeReason, LastTime, Neighbour, Related, SharedTrait};

/// Maximum number of other open incidents that are named.
const OPEN: usize = 3;
/// Maximum number of open incidents with a shared trait that are looked at.
const OPEN_LOOKED_AT: i64 = 60;
/// Number of the newest incidents with a trait among which the last time is looked for.
const LOOKED_AT: i64 = 200;
/// Maximum number of notes of the last time.
const NOTES: usize = 20;
/// Maximum number of traits of an incident.
const TRAITS: usize = 40;
/// Maximum bytes of a trait; PostgreSQL's index takes no more than about 2,700. A longer one is left out.
const TRAIT_BYTES: usize = 1_000;
/// Maximum number of other incidents whose messages are updated.
const TOLD: usize = 20;
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

/// The fit of two sets of pool labels of one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// They are of one pool.
    Pool,
    /// One of them names no model, or no job: they may be of one pool.
    Place,
    /// They contradict one another.
    None,
}

/// Compares pool labels of one place. A job tells pools apart only where one of both names no model.
fn fit(one: &Labels, other: &Labels) -> Fit {
    let of = |dimension: &str| match (one.get(dimension), other.get(dimension)) {
        (Some(one), Some(other)) if one != other => Fit::None,
        (one, other) if one.is_some() != other.is_some() => Fit::Place,
        _ => Fit::Pool,
    };
    match of("model") {
        Fit::Pool if one.contains_key("model") => Fit::Pool,
        model => model.max(of("job")),
    }
}

/// Returns the trait of the pool's place.
fn pool(source: &str, diagnosis: &Diagnosis) -> Option<String> {
    trait_text("pool", source, &place(&diagnosis.scope.labels)?)
}

/// Returns the trait with the pool's labels, by which the pools of one place are compared.
fn labels(source: &str, diagnosis: &Diagnosis) -> Option<String> {
    trait_text("labels", source, &diagnosis.scope.labels).filter(|_| place(&diagnosis.scope.labels).is_some())
}

/// Reads the labels of such a trait.
fn read_labels(text: &str) -> Labels {
    serde_json::from_str(text).map(|(_, _, labels): (String, String, Labels)| labels).unwrap_or_default()
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
    pool(source, diagnosis)
        .into_iter()
        .chain(labels(source, diagnosis))
        .chain(cause)
        .chain(nodes)
        .take(TRAITS)
        .collect()
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
    for text in traits {
        let insert = "INSERT INTO traits (incident_id, trait) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        sqlx::query(insert).bind(&incident.id).bind(text).execute(&mut *db).await?;
    }
    Ok(())
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

    async fn related(&self, incident: &Incident) -> Result<Related, StoreError> {
        let Some(diagnosis) = &incident.diagnosis else { return Ok(Related::default()) };
        let mut related = Related { last: self.last_time(incident, diagnosis).await?, open: Vec::new() };
        if incident.open {
            let mut open = self.open_in_place(incident, diagnosis).await?;
            open.truncate(OPEN);
            if open.len() < OPEN {
                open.extend(self.open_on_nodes(incident, diagnosis).await?);
            }
            let mut known = BTreeSet::new();
            open.retain(|(id, _)| known.insert(id.clone()));
            for (id, shared) in open.iter().take(OPEN) {
                related.open.extend(self.neighbour(incident, id, shared).await?);
            }
        }
        Ok(related)
    }

    /// Has the Slack messages of other open incidents updated that name this one, or begin to: at its first diagnosis
    /// and at its end. At most [`TOLD`] of the place and of its nodes; those of digests name nobody.
    pub async fn update_neighbours(
        &self,
        incident: &Incident,
        diagnosis: &Diagnosis,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut others = self.open_in_place(incident, diagnosis).await?;
        others.extend(self.open_on_nodes(incident, diagnosis).await?);
        let others: BTreeSet<String> = others.into_iter().map(|(id, _)| id).take(TOLD).collect();
        for id in others {
            let mut tx = self.begin().await?;
            // Due at once: a later due time would delay what else is to be said of the incident.
            let due = "UPDATE deliveries SET state = 'pending', due_ms = $2
                       WHERE incident_id = $1 AND sink = 'slack' AND state = 'delivered' AND posted_ts IS NOT NULL";
            let due = sqlx::query(due).bind(&id).bind(unix_ms(now));
            if due.execute(&mut *tx).await?.rows_affected() > 0 {
                let revise = "UPDATE incidents SET revision = revision + 1 WHERE id = $1 AND state = 'open'";
                sqlx::query(revise).bind(&id).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
        Ok(())
    }

    /// Returns the last incident of the same pool with the same cause that was over before this one began. Incidents
    /// that ended without Alertmanager saying so do not count.
    async fn last_time(&self, incident: &Incident, diagnosis: &Diagnosis) -> Result<Option<LastTime>, StoreError> {
        let cause = named(diagnosis).and_then(|(id, _)| cause(&incident.source, diagnosis, id));
        let Some(cause) = cause else { return Ok(None) };
        let rows = sqlx::query(
            "SELECT i.id, i.started_ms, i.resolved_ms, l.trait FROM
               (SELECT incident_id FROM traits WHERE trait = $1 AND incident_id <> $2
                ORDER BY incident_id DESC LIMIT $3) AS newest
               JOIN incidents i ON i.id = newest.incident_id JOIN traits l ON l.incident_id = i.id
             WHERE i.state = 'resolved' AND i.resolved_ms <= $4 AND i.reason NOT IN ($5, $6, $7, $8)
               AND l.trait LIKE '[\"labels\"%' ORDER BY i.resolved_ms DESC",
        )
        .binds((cause, &incident.id, LOOKED_AT, unix_ms(incident.opened_at), ChangeReason::Stale.as_str()))
        .binds((ChangeReason::Unreadable.as_str(), ChangeReason::ReadableAgain.as_str()))
        .bind(AdmitReason::ResolvedUnseen.as_str())
        .fetch_all(&self.read)
        .await?;
        let candidates = self.unreadable.read_all("incident", &rows, |row| {
            let times = (from_unix_ms(row.try_get("started_ms")?), from_unix_ms(row.try_get("resolved_ms")?));
            Ok((row.try_get::<String, _>("id")?, times, read_labels(row.try_get("trait")?)))
        });
        let here = |labels: &Labels| fit(labels, &diagnosis.scope.labels) == Fit::Pool;
        let last = candidates.into_iter().find(|(_, _, labels)| here(labels));
        let Some((id, (started_at, resolved_at), _)) = last else { return Ok(None) };
        let mut notes = self.notes(&id).await?;
        notes.retain(LastTime::tells);
        notes.drain(..notes.len().saturating_sub(NOTES));
        Ok(Some(LastTime { id, started_at, resolved_at, notes }))
    }

    /// Returns the other open incidents of the place whose labels do not contradict: those of the pool first, the newest
    /// of each first.
    async fn open_in_place(
        &self,
        incident: &Incident,
        diagnosis: &Diagnosis,
    ) -> Result<Vec<(String, SharedTrait)>, StoreError> {
        let Some(pool) = pool(&incident.source, diagnosis) else { return Ok(Vec::new()) };
        // Open incidents are few, those of the place many: `CROSS JOIN` keeps SQLite to this order, and the expression
        // from walking through all ids.
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT i.id, l.trait FROM incidents i CROSS JOIN traits p CROSS JOIN traits l
             WHERE i.state = 'open' AND i.id <> $1 AND p.incident_id = i.id AND p.trait = $2
               AND l.incident_id = i.id AND l.trait LIKE '[\"labels\"%'
             ORDER BY COALESCE(i.id, '') DESC LIMIT $3",
        )
        .binds((&incident.id, pool, OPEN_LOOKED_AT))
        .fetch_all(&self.read)
        .await?;
        let fits = rows.into_iter().map(|(id, text)| (fit(&read_labels(&text), &diagnosis.scope.labels), id));
        let mut fits: Vec<(Fit, String)> = fits.filter(|(fit, _)| *fit != Fit::None).collect();
        fits.sort_by_key(|(fit, _)| *fit);
        let shared = |fit| if fit == Fit::Pool { SharedTrait::Pool } else { SharedTrait::Place };
        Ok(fits.into_iter().map(|(fit, id)| (id, shared(fit))).collect())
    }

    /// Returns the other open incidents on the nodes, each with one node that both share, the newest first.
    async fn open_on_nodes(
        &self,
        incident: &Incident,
        diagnosis: &Diagnosis,
    ) -> Result<Vec<(String, SharedTrait)>, StoreError> {
        let nodes = nodes(&incident.source, diagnosis);
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let nodes: BTreeMap<String, &str> = nodes.into_iter().map(|(node, text)| (text, node)).collect();
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT i.id, MIN(theirs.trait) FROM incidents i CROSS JOIN traits theirs CROSS JOIN traits own
             WHERE i.state = 'open' AND i.id <> $1 AND theirs.incident_id = i.id AND own.incident_id = $1
               AND own.trait = theirs.trait AND own.trait LIKE '[\"node\"%'
             GROUP BY i.id ORDER BY COALESCE(i.id, '') DESC LIMIT $2",
        )
        .binds((&incident.id, OPEN_LOOKED_AT))
        .fetch_all(&self.read)
        .await?;
        let shared = |text: &String| nodes.get(text).map(|node| SharedTrait::Node((*node).to_owned()));
        Ok(rows.into_iter().filter_map(|(id, text)| Some((id, shared(&text)?))).collect())
    }

    /// Returns what is said of another open incident; `None` if it was deleted meanwhile, or cannot be read. Of what may
    /// be another pool no more is said than that there is an incident, where that one is not shown itself.
    async fn neighbour(
        &self,
        incident: &Incident,
        id: &str,
        shared: &SharedTrait,
    ) -> Result<Option<Neighbour>, StoreError> {
        let rows = sqlx::query(select_incidents!("id = $1")).bind(id).fetch_all(&self.read).await?;
        let Some(other) = self.unreadable.read_all("incident", &rows, |row| self.read_incident(row)).pop() else {
            return Ok(None);
        };
        let (id, started_at, shared) = (other.id.clone(), other.started_at, shared.clone());
        if shared != SharedTrait::Pool && !self.is_shown_beside(&incident.id, &id).await? {
            return Ok(Some(Neighbour { id, started_at, what: None, cause: None, pool: Labels::new(), shared }));
        }
        let symptom = other.diagnosis.as_ref().map(|diagnosis| &diagnosis.symptom);
        let there = symptom.filter(|symptom| symptom.verdict != SymptomVerdict::Absent && !symptom.title.is_empty());
        let what = match there {
            Some(symptom) => Some(symptom.title.clone()),
            None => self.first_alert(&id).await?,
        };
        let cause = other.diagnosis.as_ref().and_then(named).map(|(_, title)| title.to_owned());
        let pool = other.diagnosis.map(|diagnosis| diagnosis.scope.labels).unwrap_or_default();
        Ok(Some(Neighbour { id, started_at, what, cause, pool, shared }))
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
            "SELECT COUNT(*) FROM deliveries own WHERE own.incident_id = $1 AND own.sink = 'slack'
               AND own.state NOT IN ('suppressed', 'filtered') AND NOT EXISTS
               (SELECT 1 FROM deliveries theirs WHERE theirs.incident_id = $2 AND theirs.sink = own.sink
                  AND theirs.channel = own.channel AND theirs.state NOT IN ('suppressed', 'filtered'))",
        )
        .binds((incident, other))
        .fetch_one(&self.read)
        .await?;
        Ok(elsewhere == 0)
    }
}
