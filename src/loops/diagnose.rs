//! The diagnose loop: runs the diagnoses that are due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, error, info, info_span, warn};

use super::{ms, pause};
use diagnose::{ExtraSources, diagnose_early, impact, moment};
use findings::{Diagnosis, Scope, Verdict};
use knowledge::clock::{self, Backoff};
use knowledge::incident::{AdmitReason, ChangeReason, Impact};
use prom::{Prometheus, choose};
use service::{Service, known_exporters};
use store::failpoint;
use store::{Due, Incident, StoreError};
use telemetry::DiagnosisLabels;
use telemetry::supervise::guard;

/// Time that updating the messages of other incidents may take.
const NEIGHBOURS_WITHIN: Duration = Duration::from_secs(2);
/// Diagnoses within one step of this length are evaluated at the same time.
pub const SHARED_STEP: Duration = Duration::from_secs(5);
/// The pauses before a degraded diagnosis is repeated.
pub(super) const RETRY: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(120) };
/// The time after which the outcome of a probe of Prometheus is looked at.
const PROBED_WITHIN: Duration = Duration::from_secs(2);

/// About the number of diagnoses that start within [`FLOOD_STEP`] while webhooks come in: a flood is stored first.
const FLOOD_MOST: usize = 32;
/// The time in which they are counted.
const FLOOD_STEP: Duration = Duration::from_secs(1);
/// The time since the last webhook after which a flood is over.
const FLOOD_OVER: Duration = Duration::from_millis(50);

/// Runs the diagnoses that are due, several concurrently, until stopped.
pub(super) async fn run(service: Arc<Service>, stop: CancellationToken, tasks: TaskTracker) {
    let slots = Arc::new(Semaphore::new(service.config.diagnose.concurrency as usize));
    let (mut step, mut started) = (Instant::now(), 0);
    while !stop.is_cancelled() {
        if step.elapsed() >= FLOOD_STEP {
            (step, started) = (Instant::now(), 0);
        } else if started >= FLOOD_MOST && service.last_intake.is_within(FLOOD_OVER) {
            tokio::time::sleep(FLOOD_OVER).await;
            continue;
        }
        // While every slot is in use, the work stays due: the store is queried only when a slot is free.
        tokio::select! {
            _ = slots.acquire() => {}
            () = stop.cancelled() => return,
        }
        let free = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX);
        let due = match take(&service, free).await {
            Ok(due) => due,
            Err(error) => {
                error!(%error, "cannot look for diagnoses that are due");
                Vec::new()
            }
        };
        if due.is_empty() {
            pause(&service.store, &service.diagnoses, &stop, None, |due| due.0).await;
            continue;
        }
        started += due.len();
        for due in due {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let service = Arc::clone(&service);
            let span = info_span!("diagnose", incident.id = due.id);
            tasks.spawn(
                async move {
                    guard("diagnosis", &service.metrics, process(&service, &due.id, due.tries)).await;
                    drop(slot);
                    service.diagnoses.notify_one();
                    service.deliveries.notify_one();
                }
                .instrument(span),
            );
        }
    }
}

async fn take(service: &Service, most: u32) -> Result<Vec<Due>, StoreError> {
    let now = service.store.keep_time().await?;
    service.store.take_diagnoses(now, ms(service.config.diagnose.lease()), most).await
}

async fn process(service: &Service, id: &str, tries: u32) {
    let mut incident = match service.store.incident(id).await {
        Ok(Some(incident)) => incident,
        Ok(None) => return,
        Err(error) if error.is_unreadable() => return service.store.set_incident_aside(id, &error).await,
        Err(error) => return error!(%error, "cannot read an incident"),
    };
    failpoint("diagnosis begun");
    let over = !incident.open && incident.diagnosis.is_some();
    let diagnosis = async {
        match over || incident.because.is_none() {
            false => {
                let playbook = incident.playbook.as_deref().unwrap_or_default();
                Some(Box::pin(diagnose(service, &incident, playbook)).await)
            }
            true => None,
        }
    };
    let (diagnosis, cost) = tokio::join!(diagnosis, Box::pin(cost(service, &incident)));
    let (diagnosis, shown_early) = diagnosis.unzip();
    let shown_early = shown_early.flatten();
    incident.revision += i64::from(shown_early.is_some());
    let now = service.store.now();
    let next = match &diagnosis {
        None => None,
        Some(d) if d.degraded => Some(clock::after(now, retry_in(service, &incident, tries))),
        Some(_) => Some(clock::after(now, service.config.diagnose.refresh)),
    };
    let recovering = incident.reason == ChangeReason::Notification(AdmitReason::FewerAlerts);
    let replacement =
        diagnosis.filter(|new| incident.diagnosis.as_ref().is_none_or(|old| old.gives_way_to(new, recovering)));
    let before = shown_early.as_ref().or(incident.diagnosis.as_ref());
    let says_more = replacement.as_ref().is_some_and(|new| differs(before, new));
    let pictured = replacement.as_ref().is_some_and(|new| has_cause_to_picture(incident.diagnosis.as_ref(), new));
    failpoint("diagnosis before commit");
    let saved = async {
        service.store.save_diagnosis(&incident, replacement.as_ref(), says_more, next, now).await?;
        if pictured {
            service.store.queue_picture(id, now).await?;
        }
        match incident.open {
            true => Ok(()),
            false => service.store.save_impact(id, cost.as_ref(), now).await,
        }
    };
    if let Err(error) = saved.await {
        return error!(%error, "cannot keep a diagnosis");
    }
    // The messages of others name this incident from its first diagnosis to its end.
    let first = replacement.as_ref().filter(|_| incident.diagnosis.is_none());
    let ended = replacement.as_ref().or(incident.diagnosis.as_ref()).filter(|_| !incident.open);
    if let Some(diagnosis) = first.or(ended) {
        // Its own message first.
        service.deliveries.notify_one();
        let update = service.store.update_neighbours(&incident, diagnosis, now);
        match tokio::time::timeout(NEIGHBOURS_WITHIN, update).await {
            Ok(Ok(())) => service.deliveries.notify_one(),
            Ok(Err(error)) => warn!(%error, "cannot update the messages that name this incident"),
            Err(_) => warn!("updating the messages that name this incident took too long"),
        }
    }
}

/// Returns the time until a degraded diagnosis is repeated: its own pause, or the time until its Prometheus was probed.
fn retry_in(service: &Service, incident: &Incident, tries: u32) -> Duration {
    let pause = RETRY.pause(tries);
    let prometheus = choose(&service.prometheus, &incident.alerts);
    match prometheus.and_then(Prometheus::pause_left) {
        None => pause,
        // A probe that hangs is not waited for again and again.
        Some(Duration::ZERO) => RETRY.first,
        // At the very end of the server's pause its probe would still be under way.
        Some(left) => pause.min(left + PROBED_WITHIN),
    }
}

/// Queries the impact of an incident that is over.
async fn cost(service: &Service, incident: &Incident) -> Option<Impact> {
    let (at, prometheus) = (incident.resolved_at?, choose(&service.prometheus, &incident.alerts)?);
    let scope = Scope::of_alerts(&incident.alerts);
    let period = [incident.started_at, at];
    impact(&service.library, prometheus, &scope, period, service.config.diagnose.deadline).await
}

/// Diagnoses an incident. Also returns the diagnosis that was shown early, if any: the first diagnosis of an
/// incident is shown before its onsets are known.
async fn diagnose(service: &Service, incident: &Incident, playbook: &str) -> (Diagnosis, Option<Diagnosis>) {
    // Rounded to a few seconds, so that incidents that start together share their query results.
    let now = clock::now();
    let ended = incident.resolved_at.filter(|_| !incident.open);
    let at = ended.map_or(now, |ended| moment(incident.started_at, Some(ended), now));
    let at = clock::floor(at, SHARED_STEP);
    let request = service.config.diagnose.request(playbook, &incident.alerts, incident.started_at, at);
    let Some(prometheus) = service.prometheus_of(&incident.alerts) else {
        unreachable!("the configuration names at least one Prometheus")
    };
    let exporters = known_exporters(&service.store, &service.config.exporters, &service.reader, &prometheus).await;
    let logs = service.logs.of(&incident.alerts);
    // Exporters' pages have only current values.
    let beside = ExtraSources { exporters: Some(&exporters).filter(|_| ended.is_none()), logs: Some(&logs) };
    let (early, first) = oneshot::channel();
    let early = Some(early).filter(|_| incident.open && incident.diagnosis.is_none());
    let shown = async { show(service, incident, first.await.ok()).await };
    let diagnosis = diagnose_early(&service.library, &prometheus, &request, beside, early);
    let (shown_early, diagnosis) = tokio::join!(shown, diagnosis);
    let cause = diagnosis.root().map_or("none", |cause| cause.id.as_str());
    let entered = Some(diagnosis.symptom.playbook.as_str()).filter(|id| !id.is_empty()).unwrap_or("none");
    service.metrics.diagnosis(
        DiagnosisLabels {
            playbook: entered.to_owned(),
            verdict: diagnosis.symptom.verdict.as_str().to_owned(),
            cause: cause.to_owned(),
        },
        diagnosis.queries,
        diagnosis.degraded,
        diagnosis.took_seconds,
    );
    let took = (diagnosis.took_seconds * 1e3) as u64;
    info!(playbook.id = entered, cause, degraded = diagnosis.degraded, duration_ms = took, "diagnosed");
    (diagnosis, shown_early)
}

/// Saves the first diagnosis for delivery; returns it if it was stored.
async fn show(service: &Service, incident: &Incident, first: Option<Diagnosis>) -> Option<Diagnosis> {
    let first = first?;
    match service.store.show_diagnosis(incident, &first, service.store.now()).await {
        Ok(true) => {
            service.deliveries.notify_one();
            Some(first)
        }
        Ok(false) => None,
        Err(error) => {
            warn!(%error, "cannot keep a diagnosis without its times");
            None
        }
    }
}

/// Returns true if a root cause is likely since the new diagnosis.
fn has_cause_to_picture(old: Option<&Diagnosis>, new: &Diagnosis) -> bool {
    fn likely(diagnosis: &Diagnosis) -> Option<&str> {
        diagnosis.root().filter(|root| root.verdict == Verdict::Likely).map(|root| root.id.as_str())
    }
    likely(new).is_some_and(|cause| old.and_then(likely) != Some(cause))
}

/// Returns true if the new diagnosis contains something new for a reader.
fn differs(old: Option<&Diagnosis>, new: &Diagnosis) -> bool {
    let Some(old) = old else { return true };
    // In a pool that suffers as a whole, the affected replicas change from minute to minute; they count only if they
    // are few.
    let gist = |d: &Diagnosis| {
        let cause = d.root().map(|c| {
            let few = 2 * c.replicas.affected.len() < c.replicas.total;
            (c.chain.clone(), c.verdict, few.then(|| c.replicas.affected.clone()))
        });
        (d.symptom.verdict, d.degraded, d.incomplete.is_some(), cause)
    };
    // Onsets and other symptoms are added last. They count when they appear for the first time.
    let also = |d: &Diagnosis| d.screening.as_ref().is_some_and(|screening| !screening.also.is_empty());
    let appeared = |condition: fn(&Diagnosis) -> bool| !condition(old) && condition(new);
    gist(old) != gist(new) || appeared(|d| !d.timeline.is_empty()) || appeared(also)
}
