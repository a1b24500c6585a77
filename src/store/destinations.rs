//! Destinations of an admitted incident: its deliveries, and when critical alerts call people.
//!
//! They are chosen on every admission, per firing alert, and only grow. Becoming critical calls everybody whom the routes
//! of the critical alerts name, each once; the store knows by delivery who was called.

use std::time::Duration;

use super::StoreError;
use super::connections::StoreConnection;
use super::deliveries::Sink;
use super::storms::Storm;
use super::values::{BindValues, write_rows};
use knowledge::alert::{Alert, AlertGroup, AlertStatus};
use knowledge::incident::{IncidentState, KnownIncident};

/// Number of times that an incident becomes critical and somebody is called; from then on it counts as flapping.
const CALLS: i64 = 2;
/// The shortest time between two calls for an incident that flaps.
const CALL_AGAIN_MS: i64 = 30 * 60 * 1_000;

/// The data that admission stores in addition to the group.
#[derive(Debug, Clone)]
pub struct AdmissionPlan {
    /// The playbook and the reason for its selection; `None` if none matches.
    pub selection: Option<(String, String)>,
    /// The destinations of messages: sink and channel.
    pub sinks: Vec<(Sink, String)>,
    /// Channels that get no message of it, because its severity is too low for them: their daily summary counts it.
    pub filtered: Vec<String>,
    /// Time that the first message waits for its diagnosis.
    pub grace: Duration,
    /// The conditions under which the incident joins a digest instead.
    pub storm: Storm,
}

impl AdmissionPlan {
    /// Returns the deliveries: sink, channel, and the state in which each begins.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = (Sink, &str, DeliveryBegins)> {
        let sinks = self.sinks.iter().map(|(sink, channel)| (*sink, channel.as_str(), DeliveryBegins::Pending));
        let filtered = self.filtered.iter().map(|channel| (Sink::Slack, channel.as_str(), DeliveryBegins::Filtered));
        sinks.chain(filtered)
    }
}

/// The state in which a delivery begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryBegins {
    /// It is to be delivered.
    Pending,
    /// The incident was over before it was seen, so no message is sent.
    Suppressed,
    /// The severity is too low for the channel, so no message is sent until it rises.
    Filtered,
}

impl DeliveryBegins {
    /// Returns the state in the store, and the note about it.
    fn stored(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Pending => ("pending", None),
            Self::Suppressed => ("suppressed", Some("it was over before we saw it fire")),
            Self::Filtered => ("filtered", Some("its severity is too low for the channel")),
        }
    }
}

/// A delivery that is not written yet.
pub(super) struct NewDelivery<'a> {
    pub(super) incident: &'a str,
    pub(super) sink: Sink,
    pub(super) channel: &'a str,
    /// The time from which it is due.
    pub(super) due_ms: i64,
    pub(super) begins: DeliveryBegins,
    pub(super) storm: &'a Storm,
}

/// Writes new deliveries. Whether one in Slack joins a digest is chosen when it is about to be delivered
/// ([`Store::choose_digests`](super::Store::choose_digests)).
pub(super) async fn insert_deliveries(
    db: &mut StoreConnection,
    deliveries: &[NewDelivery<'_>],
) -> Result<(), StoreError> {
    let rows: Vec<_> = deliveries
        .iter()
        .map(|NewDelivery { incident, sink, channel, due_ms, begins, storm }| {
            let (state, note) = begins.stored();
            let storm = storm.to_choose().filter(|_| *sink == Sink::Slack && *begins == DeliveryBegins::Pending);
            (incident, sink.as_str(), channel, state, due_ms, note, storm)
        })
        .collect();
    write_rows(
        db,
        "INSERT INTO deliveries (incident_id, sink, channel, state, due_ms, note, storm)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, CAST(value ->> 4 AS BIGINT), value ->> 5, value ->> 6
         FROM {rows}",
        &rows,
    )
    .await
}

/// Adds the wanted sinks that a known incident does not have yet.
pub(super) async fn send_to(
    db: &mut StoreConnection,
    id: &str,
    plan: &AdmissionPlan,
    now_ms: i64,
) -> Result<(), StoreError> {
    let existing = sqlx::query_as("SELECT sink, channel, state FROM deliveries WHERE incident_id = $1");
    let existing: Vec<(String, String, String)> = existing.bind(id).fetch_all(&mut *db).await?;
    let (due_ms, storm) = (now_ms, &plan.storm);
    let mut new = Vec::new();
    for (sink, channel, begins) in plan.deliveries() {
        match existing.iter().find(|(of, place, _)| of == sink.as_str() && place == channel) {
            None => new.push(NewDelivery { incident: id, sink, channel, due_ms, begins, storm }),
            Some((.., state)) if begins == DeliveryBegins::Pending && state == "filtered" => {
                sqlx::query(
                    "UPDATE deliveries SET state = 'pending', note = NULL, due_ms = $3, storm = $4
                     WHERE incident_id = $1 AND sink = 'slack' AND channel = $2",
                )
                .binds((id, channel, now_ms, storm.to_choose()))
                .execute(&mut *db)
                .await?;
            }
            Some(_) => {}
        }
    }
    insert_deliveries(db, &new).await
}

/// Updates whether something critical fires in a known incident (after the end: whether something did), and the time
/// from which calls are due: when the incident becomes critical and when it comes back, but at most every
/// [`CALL_AGAIN_MS`] while it flaps. Returns true if it has become critical now.
pub(super) async fn mark_critical(
    db: &mut StoreConnection,
    id: &str,
    group: &AlertGroup,
    before: Option<&KnownIncident>,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let Some(critical) = is_critical(group) else { return Ok(false) };
    let was_critical =
        before.is_some_and(|incident| incident.id == id && incident.state == IncidentState::Open && incident.critical);
    // Replicas' clocks differ, so a later mark of the same incident is made larger than the one before.
    let mark = sqlx::query(
        "UPDATE incidents SET critical = $2, critical_turns = critical_turns + $3,
           critical_ms = CASE WHEN $3 = 0 OR (critical_turns >= $5 AND critical_ms > $6 AND critical_ms <= $4) THEN critical_ms
                              WHEN critical_ms >= $4 THEN critical_ms + 1 ELSE $4 END
         WHERE id = $1",
    );
    let turn = i64::from(critical && !was_critical);
    let mark = mark.bind(id).bind(i64::from(critical)).bind(turn).bind(now_ms).bind(CALLS).bind(now_ms - CALL_AGAIN_MS);
    mark.execute(&mut *db).await?;
    Ok(turn > 0)
}

/// Returns whether a critical alert fires; `None` if unknown: nothing fires any more, or an alert that was left out may
/// be critical.
pub(super) fn is_critical(group: &AlertGroup) -> Option<bool> {
    let mut firing = group.alerts.iter().filter(|a| a.status == AlertStatus::Firing).peekable();
    firing.peek()?;
    let critical = firing.any(Alert::is_critical);
    (critical || group.truncated_alerts == 0).then_some(critical)
}
