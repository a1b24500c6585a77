//! The pipeline, from top to bottom: receive ─▶ admit ─▶ select ─▶ diagnose ─▶ deliver.
//!
//! Three loops process the work that the store lists as due; a wake-up is only a hint. Interrupted work is due again
//! after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug, error, info, info_span, warn};

use crate::alert::AlertGroup;
use crate::clock;
use crate::config::Config;
use crate::diagnose::{Diagnosis, Exporters, ExtraSources, LogSources, Scope, Verdict, begin, impact, learn, moment};
use crate::exporter::ExporterReader;
use crate::incident::{AdmissionRules, AdmitReason, Impact};
use crate::notify::{Notifier, Taken};
use crate::playbook::{Library, select};
use crate::prom::{Prometheus, choose};
use crate::store::{AdmissionPlan, Admitted, Due, Incident, Sink, Store, StoreError, Storm};
use crate::supervise::guard;
use crate::telemetry::{DiagnosisLabels, Metrics};

/// Maximum number of webhooks that are committed in one transaction.
const COMMIT_MOST: usize = 64;
/// Maximum number of messages that are sent concurrently.
const DELIVER_MOST: usize = 16;
/// The longest sleep of a loop without a wake-up.
const IDLE: Duration = Duration::from_secs(5);
/// Lease of a delivery: time for the search for an earlier copy in Slack, the post, and a shorter post if Slack refuses
/// the first. After it another worker may try.
pub(crate) const DELIVERY_LEASE: Duration = Duration::from_secs(90);
/// Diagnoses within one step of this length are evaluated at the same time.
pub const SHARED_STEP: Duration = Duration::from_secs(5);
/// The first pause before a degraded diagnosis is repeated; doubles up to [`LONGEST_RETRY`].
const RETRY: Duration = Duration::from_secs(5);
/// The longest pause before a degraded diagnosis is repeated.
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(120);
/// Maximum number of characters in a digest's topic: labels may be long.
const TOPIC_CHARS: usize = 150;
/// Interval between two reads of Prometheus' target list; a new exporter is known after this time at the latest.
const LEARN: Duration = Duration::from_secs(30);

/// A received alert group, and the channel that returns the result to the waiting webhook.
pub type Received = (AlertGroup, oneshot::Sender<Result<Admitted, String>>);

/// The parts that all loops share.
#[derive(Debug)]
pub struct Pipeline {
    /// The configuration.
    pub config: Config,
    /// The playbooks and signals.
    pub library: Arc<Library>,
    /// The store.
    pub store: Store,
    /// The Prometheus servers, each with its labels.
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    /// The client that reads exporters directly when Prometheus has no data.
    pub reader: ExporterReader,
    /// The sources of the replicas' logs.
    pub logs: LogSources,
    /// Delivers messages.
    pub notifier: Arc<Notifier>,
    /// The service's own metrics.
    pub metrics: Arc<Metrics>,
    /// Wakes the diagnose loop when a diagnosis is due.
    pub diagnoses: Arc<Notify>,
    /// Wakes the deliver loop when a delivery is due.
    pub deliveries: Arc<Notify>,
}

impl Pipeline {
    /// Builds the pipeline without log sources.
    pub fn new(
        config: Config,
        library: Arc<Library>,
        store: Store,
        prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
        reader: ExporterReader,
        notifier: Arc<Notifier>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            config,
            library,
            store,
            prometheus,
            reader,
            logs: LogSources::default(),
            notifier,
            metrics,
            diagnoses: Arc::new(Notify::new()),
            deliveries: Arc::new(Notify::new()),
        }
    }

    /// Adds logs as evidence.
    pub fn with_logs(self, logs: LogSources) -> Self {
        Self { logs, ..self }
    }

    /// Stores groups as they arrive, in batches, until all senders are dropped. The inbox outlives this loop.
    pub async fn admit_loop(self: Arc<Self>, inbox: Arc<Mutex<mpsc::Receiver<Received>>>) {
        let mut inbox = inbox.lock().await;
        loop {
            let mut batch = Vec::with_capacity(COMMIT_MOST);
            match tokio::time::timeout(IDLE, inbox.recv_many(&mut batch, COMMIT_MOST)).await {
                // No message; the timeout lets the supervisor see that this loop is alive.
                Err(_) => continue,
                Ok(0) => return,
                Ok(_) => {}
            }
            self.metrics.webhook_queue.set(i64::try_from(inbox.len()).unwrap_or(i64::MAX));
            // If a batch panics, its senders get 503 and retry, most likely in another batch.
            guard("admission", &self.metrics, self.admit(batch)).await;
            self.diagnoses.notify_one();
            self.deliveries.notify_one();
        }
    }

    async fn admit(&self, batch: Vec<Received>) {
        let rules = AdmissionRules {
            duplicate_within: self.config.incident.duplicate_within,
            reopen_within: self.config.incident.reopen_within,
        };
        let (groups, waiting): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|(group, reply)| (self.wanted(group), reply)).unzip();
        let stored = self.store.admit(&groups, self.store.now(), &rules).instrument(info_span!("admit")).await;
        let answers: Vec<Result<Admitted, String>> = match stored {
            Ok(results) => results.into_iter().map(|r| r.map_err(|e| e.to_string())).collect(),
            Err(error) => waiting.iter().map(|_| Err(error.to_string())).collect(),
        };
        for (answer, reply) in answers.into_iter().zip(waiting) {
            match &answer {
                Ok(admitted) => {
                    self.metrics.admission(admitted.reason.as_str());
                    if admitted.digest.is_some() {
                        self.metrics.delivery("slack", "digested", None);
                    }
                    info!(incident.id = admitted.incident, reason = admitted.reason.as_str(), "stored an alert group");
                }
                Err(error) => error!(error, "cannot store an alert group"),
            }
            // The caller may have closed the connection; the group is stored anyway.
            let _ = reply.send(answer);
        }
    }

    fn wanted(&self, group: AlertGroup) -> (AlertGroup, AdmissionPlan) {
        let firing = group.active();
        let mut sinks = Vec::new();
        if self.config.prints() {
            sinks.push((Sink::Console, String::new()));
        }
        let channels = self.config.slack.channels_for(&firing);
        sinks.extend(channels.into_iter().map(|channel| (Sink::Slack, channel.to_owned())));
        let pagers = self.config.pagers.iter().filter(|pager| pager.takes(&firing));
        sinks.extend(pagers.map(|pager| (Sink::Pager, pager.name.clone())));
        let selection = select(&self.library, &group.alerts).map(|s| (s.playbook, s.because));
        // An alert that names a pool is diagnosed whatever its name is: with an empty playbook the pool is screened.
        let named = Scope::of_alerts(&group.alerts).names_pool();
        let selection = selection.or_else(|| named.then(|| (String::new(), "the pool is screened".to_owned())));
        let storm = Storm {
            incidents: self.config.slack.storm.incidents,
            within: self.config.slack.storm.within,
            queue: self.config.slack.queue,
            topic: self.topic(&group, selection.as_ref().map(|(playbook, _)| playbook)),
        };
        (group, AdmissionPlan { selection, sinks, grace: self.config.diagnose.grace, storm })
    }

    /// Returns the topic of a group in the digest that it may join: its symptom, or else its alert name, with cluster
    /// and namespace.
    fn topic(&self, group: &AlertGroup, playbook: Option<&String>) -> String {
        let title = playbook.and_then(|id| self.library.playbooks.get(id)).map(|playbook| playbook.title.as_str());
        let what = title.or_else(|| group.active().first().map(|alert| alert.name()));
        let scope = Scope::of_alerts(&group.alerts).dimensions;
        let whose: Vec<&str> =
            ["cluster", "namespace"].iter().filter_map(|d| scope.get(*d)).map(String::as_str).collect();
        let topic = match whose.is_empty() {
            true => what.unwrap_or_default().to_owned(),
            false => format!("{} · {}", what.unwrap_or_default(), whose.join("/")),
        };
        topic.chars().take(TOPIC_CHARS).collect()
    }

    /// Runs the diagnoses that are due, several concurrently, until stopped.
    pub async fn diagnose_loop(self: Arc<Self>, stop: CancellationToken, tasks: TaskTracker) {
        let slots = Arc::new(Semaphore::new(self.config.diagnose.concurrency as usize));
        while !stop.is_cancelled() {
            // While every slot is in use, the work stays due: the store is queried only when a slot is free.
            tokio::select! {
                _ = slots.acquire() => {}
                () = stop.cancelled() => return,
            }
            let free = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX);
            let due = match self.take_diagnoses(free).await {
                Ok(due) => due,
                Err(error) => {
                    error!(%error, "cannot look for diagnoses that are due");
                    Vec::new()
                }
            };
            if due.is_empty() {
                self.pause(&self.diagnoses, &stop, None, |due| due.0).await;
                continue;
            }
            for due in due {
                let Ok(slot) = slots.clone().acquire_owned().await else { return };
                let this = Arc::clone(&self);
                let span = info_span!("diagnose", incident.id = due.id);
                tasks.spawn(
                    async move {
                        guard("diagnosis", &this.metrics, this.diagnose_one(&due.id, due.tries)).await;
                        drop(slot);
                        this.diagnoses.notify_one();
                        this.deliveries.notify_one();
                    }
                    .instrument(span),
                );
            }
        }
    }

    async fn take_diagnoses(&self, most: u32) -> Result<Vec<Due>, StoreError> {
        let now = self.store.keep_time().await?;
        self.store.take_diagnoses(now, ms(self.config.diagnose.lease()), most).await
    }

    async fn diagnose_one(&self, id: &str, tries: u32) {
        let mut incident = match self.store.incident(id).await {
            Ok(Some(incident)) => incident,
            Ok(None) => return,
            Err(error) if error.is_unreadable() => return self.store.set_incident_aside(id, &error).await,
            Err(error) => return error!(%error, "cannot read an incident"),
        };
        let over = !incident.open && incident.diagnosis.is_some();
        let diagnosis = async {
            match over || incident.because.is_none() {
                false => {
                    Some(self.diagnose_incident(&incident, incident.playbook.as_deref().unwrap_or_default()).await)
                }
                true => None,
            }
        };
        let (diagnosis, cost) = tokio::join!(diagnosis, self.cost(&incident));
        let (diagnosis, shown) = diagnosis.unzip();
        let shown = shown.flatten();
        incident.revision += i64::from(shown.is_some());
        let now = self.store.now();
        let next = match &diagnosis {
            None => None,
            Some(d) if d.degraded => {
                Some(clock::after(now, RETRY.saturating_mul(1 << tries.min(5)).min(LONGEST_RETRY)))
            }
            Some(_) => Some(clock::after(now, self.config.diagnose.refresh)),
        };
        let recovering = incident.reason == AdmitReason::FewerAlerts.as_str();
        let keep =
            diagnosis.filter(|new| incident.diagnosis.as_ref().is_none_or(|old| old.gives_way_to(new, recovering)));
        let before = shown.as_ref().or(incident.diagnosis.as_ref());
        let says_more = keep.as_ref().is_some_and(|new| differs(before, new));
        let shows = keep.as_ref().and_then(|new| newly_likely(incident.diagnosis.as_ref(), new));
        let saved = async {
            self.store.save_diagnosis(&incident, keep.as_ref(), says_more, next, now).await?;
            if let Some(cause) = shows {
                self.store.queue_picture(id, cause, now).await?;
            }
            match incident.open {
                true => Ok(()),
                false => self.store.save_impact(id, cost.as_ref(), now).await,
            }
        };
        if let Err(error) = saved.await {
            error!(%error, "cannot keep a diagnosis");
        }
    }

    /// Queries the impact of an incident that is over.
    async fn cost(&self, incident: &Incident) -> Option<Impact> {
        let (at, prometheus) = (incident.resolved_at?, choose(&self.prometheus, &incident.alerts)?);
        let scope = Scope::of_alerts(&incident.alerts);
        let whole = [incident.started_at, at];
        impact(&self.library, prometheus, &scope, whole, self.config.diagnose.deadline).await
    }

    /// Diagnoses an incident. Also returns the diagnosis that was shown early, if any: the first diagnosis of an
    /// incident is shown before its onsets are known.
    async fn diagnose_incident(&self, incident: &Incident, playbook: &str) -> (Diagnosis, Option<Diagnosis>) {
        // Rounded to a few seconds, so that incidents that start together share their query results.
        let now = clock::now();
        let ended = incident.resolved_at.filter(|_| !incident.open);
        let at = ended.map_or(now, |ended| moment(incident.started_at, Some(ended), now));
        let at = clock::floor(at, SHARED_STEP);
        let request = self.config.diagnose.request(playbook, &incident.alerts, incident.started_at, at);
        let Some(prometheus) = choose(&self.prometheus, &incident.alerts) else {
            unreachable!("the configuration names at least one Prometheus")
        };
        let exporters = self.exporters(prometheus).await;
        let logs = self.logs.of(&incident.alerts);
        // Exporters' pages have only current values.
        let beside = ExtraSources { exporters: Some(&exporters).filter(|_| ended.is_none()), logs: Some(&logs) };
        let begun = begin(&self.library, prometheus, &request, beside).await;
        let first = if incident.open && incident.diagnosis.is_none() { begun.so_far() } else { None };
        let (shown, diagnosis) = tokio::join!(self.show(incident, first), begun.finish());
        let cause = diagnosis.root().map_or("none", |cause| cause.id.as_str());
        let entered = Some(diagnosis.symptom.playbook.as_str()).filter(|id| !id.is_empty()).unwrap_or("none");
        self.metrics.diagnosis(
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
        (diagnosis, shown)
    }

    /// Saves the first diagnosis for delivery; returns it if it was stored.
    async fn show(&self, incident: &Incident, first: Option<Diagnosis>) -> Option<Diagnosis> {
        let first = first?;
        match self.store.show_diagnosis(incident, &first, self.store.now()).await {
            Ok(true) => {
                self.deliveries.notify_one();
                Some(first)
            }
            Ok(false) => None,
            Err(error) => {
                warn!(%error, "cannot keep a diagnosis without its times");
                None
            }
        }
    }

    /// Returns the configured exporters, and those that this Prometheus listed last.
    async fn exporters(&self, prometheus: &Prometheus) -> Exporters {
        let mut targets: Vec<_> = self.config.exporters.given().collect();
        if self.config.exporters.learn {
            match self.store.exporters(&prometheus.url).await {
                Ok(remembered) => targets.extend(remembered),
                Err(error) => warn!(%error, "cannot read the remembered exporters"),
            }
        }
        Exporters { reader: self.reader.clone(), targets, learn: false, fresh: false }
    }

    /// Reads the target list of each Prometheus every [`LEARN`] and stores it for times when that Prometheus is down.
    pub async fn learn_loop(self: Arc<Self>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LEARN);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            for (prometheus, _) in &self.prometheus {
                let until = Instant::now() + self.config.diagnose.deadline;
                tokio::select! {
                    () = self.learn(prometheus, until) => {}
                    () = stop.cancelled() => return,
                }
            }
        }
    }

    async fn learn(&self, prometheus: &Prometheus, until: Instant) {
        match learn(&self.library, prometheus, clock::now(), until).await {
            // An empty list may mean that Prometheus has just lost its data, so the stored list stays.
            Ok(targets) if targets.is_empty() => {}
            Ok(targets) => match self.store.remember_exporters(&prometheus.url, &targets).await {
                Ok(()) => _ = self.metrics.exporters.set(i64::try_from(targets.len()).unwrap_or(i64::MAX)),
                Err(error) => warn!(%error, "cannot remember exporters"),
            },
            Err(error) => debug!(prometheus = prometheus.name, %error, "cannot learn the exporters"),
        }
    }

    /// Delivers the messages that are due, several concurrently, until stopped.
    pub async fn deliver_loop(self: Arc<Self>, stop: CancellationToken, tasks: TaskTracker) {
        let slots = Arc::new(Semaphore::new(DELIVER_MOST));
        while !stop.is_cancelled() {
            let free = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX);
            let taken = match self.take_deliveries(free).await {
                Ok(taken) => taken,
                Err(error) => {
                    error!(%error, "cannot look for deliveries that are due");
                    Taken::default()
                }
            };
            if taken.work.is_empty() {
                self.pause(&self.deliveries, &stop, taken.wait, |due| due.1).await;
                continue;
            }
            for work in taken.work {
                let Ok(slot) = slots.clone().acquire_owned().await else { return };
                let this = Arc::clone(&self);
                tasks.spawn(async move {
                    guard("delivery", &this.metrics, this.notifier.deliver(work)).await;
                    drop(slot);
                    this.deliveries.notify_one();
                });
            }
        }
    }

    async fn take_deliveries(&self, most: u32) -> Result<Taken, StoreError> {
        let now = self.store.keep_time().await?;
        self.notifier.take(now, ms(DELIVERY_LEASE), most).await
    }

    /// Waits for a wake-up, the next due time, or the stop; at most for `most`.
    async fn pause(
        &self,
        wake: &Notify,
        stop: &CancellationToken,
        most: Option<Duration>,
        pick: impl Fn((Option<i64>, Option<i64>)) -> Option<i64>,
    ) {
        let now = self.store.now();
        let due = self.store.next_due(now).await.ok().and_then(&pick);
        let wait = due.map_or(IDLE, |due| Duration::from_millis(u64::try_from(due - clock::unix_ms(now)).unwrap_or(0)));
        let wait = wait.min(most.unwrap_or(IDLE)).min(IDLE);
        tokio::select! {
            () = wake.notified() => {}
            () = stop.cancelled() => {}
            // A minimum, so that work that other replicas hold does not make this loop spin.
            () = tokio::time::sleep(wait.max(Duration::from_millis(5))) => {}
        }
    }
}

/// Returns the root cause that is likely since the new diagnosis, for a chart; `None` if there is none or it was likely
/// before.
fn newly_likely<'a>(old: Option<&Diagnosis>, new: &'a Diagnosis) -> Option<&'a str> {
    let before = old.and_then(likely_root);
    likely_root(new).filter(|cause| before != Some(*cause))
}

fn likely_root(diagnosis: &Diagnosis) -> Option<&str> {
    diagnosis.root().filter(|root| root.verdict == Verdict::Likely).map(|root| root.id.as_str())
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
        (d.symptom.verdict, d.degraded, cause)
    };
    // Onsets and other symptoms are added last. They count when they appear for the first time.
    let also = |d: &Diagnosis| d.screening.as_ref().is_some_and(|screening| !screening.also.is_empty());
    let late = |told: fn(&Diagnosis) -> bool| !told(old) && told(new);
    gist(old) != gist(new) || late(|d| !d.timeline.is_empty()) || late(also)
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
