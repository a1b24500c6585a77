//! Logging, and the service's own metrics.

pub mod supervise;

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;

/// Histogram buckets in seconds: from a cached answer to a deadline.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Histogram buckets for the duration of a bundle in seconds, including the time in the queue: up to several deadlines.
const BUNDLE_SECONDS: [f64; 10] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0];
/// Histogram buckets for the size of a bundle in bytes.
const BUNDLE_BYTES: [f64; 8] =
    [65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0, 67_108_864.0, 268_435_456.0, 1_073_741_824.0];

/// Metric labels with one dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabels {
    /// The outcome; for some metrics the loop or the reason instead.
    pub result: String,
}

/// Metric labels of a diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DiagnosisLabels {
    /// The playbook used; `none` if a screened pool shows no symptom.
    pub playbook: String,
    /// The symptom's verdict.
    pub verdict: String,
    /// The best root cause, or `none`.
    pub cause: String,
}

/// Metric labels of a user action.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ActionLabels {
    /// The kind of input (command, press, …), or the action.
    pub kind: String,
    /// The outcome: done, refused, failed, …
    pub result: String,
}

/// Metric labels of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DeliveryLabels {
    /// The sink or kind of message: slack, console, answer, …
    pub sink: String,
    /// The outcome: posted, updated, retried, failed, …
    pub result: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByChannel {
    channel: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySource {
    source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByServer {
    server: String,
}

#[derive(Debug, Clone)]
struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS)
    }
}

/// The metrics of this service.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    webhooks: Family<OutcomeLabels, Counter>,
    admissions: Family<OutcomeLabels, Counter>,
    diagnoses: Family<DiagnosisLabels, Counter>,
    diagnosis_seconds: Histogram,
    queries: Family<OutcomeLabels, Counter>,
    /// Duration of one Prometheus query, in seconds.
    pub query_seconds: Histogram,
    circuits_open: Family<ByServer, Gauge>,
    queries_unsent: Family<ByServer, Counter>,
    deliveries: Family<DeliveryLabels, Counter>,
    delivery_seconds: Family<DeliveryLabels, Histogram, Buckets>,
    rate_limit_waits: Family<OutcomeLabels, Counter>,
    refused_channels: Family<ByChannel, Gauge>,
    watchdog_ages: Family<BySource, Gauge<f64, AtomicU64>>,
    inbound: Family<ActionLabels, Counter>,
    acts: Family<ActionLabels, Counter>,
    bundles: Family<OutcomeLabels, Counter>,
    bundle_seconds: Histogram,
    bundle_bytes: Histogram,
    downloads: Family<OutcomeLabels, Counter>,
    restarts: Family<OutcomeLabels, Counter>,
    panics: Family<OutcomeLabels, Counter>,
    cuts: Family<OutcomeLabels, Counter>,
    accept_errors: Counter,
    /// Webhooks accepted and not yet stored.
    pub webhook_queue: Gauge<i64, AtomicI64>,
    /// Open incidents.
    pub open_incidents: Gauge<i64, AtomicI64>,
    /// Diagnoses that are due.
    pub diagnosis_queue: Gauge<i64, AtomicI64>,
    /// Messages that are not up to date, without those of pagers.
    pub delivery_queue: Gauge<i64, AtomicI64>,
    /// Open Socket Mode connections.
    pub socket_connections: Gauge<i64, AtomicI64>,
    /// Rows of the store that cannot be read.
    pub unreadable_rows: Gauge<i64, AtomicI64>,
    /// 1 while the store fails.
    pub store_failing: Gauge<i64, AtomicI64>,
    /// Free bytes of the file system with the state directory.
    pub state_disk_free: Gauge<i64, AtomicI64>,
    /// Size in bytes of the file system with the state directory.
    pub state_disk_size: Gauge<i64, AtomicI64>,
    /// Open connections of the HTTP server.
    pub connections: Gauge<i64, AtomicI64>,
    /// Exporters discovered in Prometheus' target list.
    pub exporters: Gauge<i64, AtomicI64>,
    /// Problems by which something in the user's directory of playbooks is not used.
    pub playbook_problems: Gauge<i64, AtomicI64>,
    reload_successful: Gauge,
    reload_success_seconds: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("llm_diagnose"),
            webhooks: Family::default(),
            admissions: Family::default(),
            diagnoses: Family::default(),
            diagnosis_seconds: Histogram::new(BUCKETS),
            queries: Family::default(),
            query_seconds: Histogram::new(BUCKETS),
            circuits_open: Family::default(),
            queries_unsent: Family::default(),
            deliveries: Family::default(),
            delivery_seconds: Family::new_with_constructor(Buckets),
            rate_limit_waits: Family::default(),
            refused_channels: Family::default(),
            watchdog_ages: Family::default(),
            inbound: Family::default(),
            acts: Family::default(),
            bundles: Family::default(),
            bundle_seconds: Histogram::new(BUNDLE_SECONDS),
            bundle_bytes: Histogram::new(BUNDLE_BYTES),
            downloads: Family::default(),
            restarts: Family::default(),
            panics: Family::default(),
            cuts: Family::default(),
            accept_errors: Counter::default(),
            webhook_queue: Gauge::default(),
            open_incidents: Gauge::default(),
            diagnosis_queue: Gauge::default(),
            delivery_queue: Gauge::default(),
            socket_connections: Gauge::default(),
            unreadable_rows: Gauge::default(),
            store_failing: Gauge::default(),
            state_disk_free: Gauge::default(),
            state_disk_size: Gauge::default(),
            connections: Gauge::default(),
            exporters: Gauge::default(),
            playbook_problems: Gauge::default(),
            reload_successful: Gauge::default(),
            reload_success_seconds: Gauge::default(),
        };
        metrics.registered()
    }
}

impl Metrics {
    fn registered(mut self) -> Self {
        let r = &mut self.registry;
        r.register("webhooks", "Webhook calls by what was answered", self.webhooks.clone());
        r.register("admissions", "Stored alert groups by what they meant", self.admissions.clone());
        r.register("diagnoses", "Diagnoses by playbook, symptom verdict and best cause", self.diagnoses.clone());
        r.register("diagnosis_duration_seconds", "From the first query to the verdict", self.diagnosis_seconds.clone());
        r.register(
            "prometheus_queries",
            "Queries asked of Prometheus by outcome of their diagnosis",
            self.queries.clone(),
        );
        r.register("prometheus_query_duration_seconds", "One query at Prometheus", self.query_seconds.clone());
        r.register(
            "prometheus_circuit_open",
            "1 for a Prometheus server that is not asked for a while, because it did not answer",
            self.circuits_open.clone(),
        );
        r.register(
            "prometheus_queries_unsent",
            "Queries that were not sent, because the server did not answer those before",
            self.queries_unsent.clone(),
        );
        r.register("deliveries", "Messages by sink and result", self.deliveries.clone());
        r.register("delivery_duration_seconds", "One call of a sink", self.delivery_seconds.clone());
        r.register(
            "rate_limit_waits",
            "Deliveries put off, by whose limit: ours or Slack's",
            self.rate_limit_waits.clone(),
        );
        r.register("slack_inbound", "What people did in Slack, by kind and what became of it", self.inbound.clone());
        r.register("acts", "Buttons and commands that act, by result", self.acts.clone());
        r.register("bundles", "Bundles asked for, by what became of them", self.bundles.clone());
        r.register("bundle_duration_seconds", "From the question to the file", self.bundle_seconds.clone());
        r.register("bundle_size_bytes", "Size of a bundle's file", self.bundle_bytes.clone());
        r.register("bundle_downloads", "Downloads of bundles by what was answered", self.downloads.clone());
        r.register(
            "loop_restarts",
            "Loops of the service that broke and were restarted, by name",
            self.restarts.clone(),
        );
        r.register("panics", "Pieces of work that a bug broke off, by kind", self.panics.clone());
        r.register("http_connections_cut", "Connections that we closed, by why", self.cuts.clone());
        r.register("http_accept_errors", "Connections that could not be accepted", self.accept_errors.clone());
        r.register("http_connections", "Connections that are open", self.connections.clone());
        r.register("webhook_queue_depth", "Webhooks accepted and not yet stored", self.webhook_queue.clone());
        r.register("incidents_open", "Incidents that are open", self.open_incidents.clone());
        r.register("diagnosis_queue_depth", "Diagnoses that are due", self.diagnosis_queue.clone());
        r.register(
            "delivery_queue_depth",
            "Messages that are not up to date, without those of pagers",
            self.delivery_queue.clone(),
        );
        r.register(
            "slack_channel_refused",
            "1 for a channel that does not take messages",
            self.refused_channels.clone(),
        );
        r.register(
            "watchdog_age_seconds",
            "Time since an expected Alertmanager's always-firing alert was received last, or expected first",
            self.watchdog_ages.clone(),
        );
        r.register("slack_connections", "Socket Mode's connections that are up", self.socket_connections.clone());
        r.register("store_unreadable_rows", "Rows of the store that cannot be read", self.unreadable_rows.clone());
        r.register("store_failing", "1 while the store fails", self.store_failing.clone());
        let disk = "of the file system with the state directory";
        r.register("state_disk_free_bytes", format!("Free bytes {disk}"), self.state_disk_free.clone());
        r.register("state_disk_size_bytes", format!("Size {disk}"), self.state_disk_size.clone());
        r.register(
            "config_last_reload_successful",
            "1 if the last configuration read is in force",
            self.reload_successful.clone(),
        );
        r.register(
            "config_last_reload_success_timestamp_seconds",
            "When the configuration in force was taken over",
            self.reload_success_seconds.clone(),
        );
        r.register(
            "playbook_problems",
            "Problems by which something in the directory of playbooks is not used",
            self.playbook_problems.clone(),
        );
        r.register("exporters_learnt", "Exporters learnt from Prometheus' targets", self.exporters.clone());
        self
    }

    /// Counts an answered webhook call.
    pub fn webhook(&self, result: &str) {
        self.webhooks.get_or_create(&OutcomeLabels { result: result.to_owned() }).inc();
    }

    /// Counts an input from Slack, by kind and outcome.
    pub fn inbound(&self, kind: &str, result: &str) {
        self.inbound.get_or_create(&ActionLabels { kind: kind.to_owned(), result: result.to_owned() }).inc();
    }

    /// Counts an action, executed or refused.
    pub fn act(&self, act: &str, result: &str) {
        self.acts.get_or_create(&ActionLabels { kind: act.to_owned(), result: result.to_owned() }).inc();
    }

    /// Records a finished bundle.
    pub fn bundle(&self, complete: bool, bytes: u64, took: Duration) {
        self.bundles
            .get_or_create(&OutcomeLabels { result: if complete { "complete" } else { "incomplete" }.to_owned() })
            .inc();
        self.bundle_seconds.observe(took.as_secs_f64());
        self.bundle_bytes.observe(bytes as f64);
    }

    /// Counts a requested bundle that was not created: busy, failed, stopped.
    pub fn no_bundle(&self, result: &str) {
        self.bundles.get_or_create(&OutcomeLabels { result: result.to_owned() }).inc();
    }

    /// Counts a download request for a bundle.
    pub fn download(&self, result: &str) {
        self.downloads.get_or_create(&OutcomeLabels { result: result.to_owned() }).inc();
    }

    /// Counts a restart of a loop.
    pub fn restart(&self, name: &str) {
        self.restarts.get_or_create(&OutcomeLabels { result: name.to_owned() }).inc();
    }

    /// Counts a panic in a piece of work.
    pub fn panic(&self, name: &str) {
        self.panics.get_or_create(&OutcomeLabels { result: name.to_owned() }).inc();
    }

    /// Counts a connection that this service closed.
    pub fn cut(&self, why: &str) {
        self.cuts.get_or_create(&OutcomeLabels { result: why.to_owned() }).inc();
    }

    /// Counts a connection that could not be accepted.
    pub fn accept_error(&self) {
        self.accept_errors.inc();
    }

    /// Counts a stored alert group.
    pub fn admission(&self, reason: &str) {
        self.admissions.get_or_create(&OutcomeLabels { result: reason.to_owned() }).inc();
    }

    /// Records a finished diagnosis.
    pub fn diagnosis(&self, labels: DiagnosisLabels, queries: usize, degraded: bool, took: f64) {
        self.diagnoses.get_or_create(&labels).inc();
        self.diagnosis_seconds.observe(took);
        let result = if degraded { "degraded" } else { "ok" };
        self.queries.get_or_create(&OutcomeLabels { result: result.to_owned() }).inc_by(queries as u64);
    }

    /// Records an attempt to send a message, with its duration if there was a call.
    pub fn delivery(&self, sink: &str, result: &str, took: Option<Duration>) {
        let labels = DeliveryLabels { sink: sink.to_owned(), result: result.to_owned() };
        self.deliveries.get_or_create(&labels).inc();
        if let Some(took) = took {
            self.delivery_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// Sets the channels that refuse messages, with Slack's error codes; clears all others.
    pub fn refused<'a>(&self, channels: impl Iterator<Item = (&'a str, &'a str)>) {
        self.refused_channels.clear();
        for (channel, code) in channels {
            let labels = ByChannel { channel: channel.to_owned(), code: code.to_owned() };
            self.refused_channels.get_or_create(&labels).set(1);
        }
    }

    /// Sets the time since each expected source sent its always-firing alert; clears all others.
    pub fn watchdogs<'a>(&self, ages: impl Iterator<Item = (&'a str, Duration)>) {
        self.watchdog_ages.clear();
        for (source, age) in ages {
            self.watchdog_ages.get_or_create(&BySource { source: source.to_owned() }).set(age.as_secs_f64());
        }
    }

    /// Sets for each Prometheus server whether it is not asked, and how many queries were not sent.
    pub fn circuits<'a>(&self, servers: impl IntoIterator<Item = (&'a str, (bool, u64))>) {
        for (server, (is_open, unsent)) in servers {
            let labels = ByServer { server: server.to_owned() };
            self.circuits_open.get_or_create(&labels).set(i64::from(is_open));
            // Several may ask for the page at the same time, and a counter never falls.
            self.queries_unsent.get_or_create(&labels).inner().fetch_max(unsent, Ordering::Relaxed);
        }
    }

    /// Forgets the Prometheus servers of an earlier configuration.
    pub fn forget_circuits(&self) {
        self.circuits_open.clear();
        self.queries_unsent.clear();
    }

    /// Sets that the last configuration read has been in force since `at`; `None` if it cannot be used.
    pub fn reloaded(&self, at: Option<Timestamp>) {
        self.reload_successful.set(i64::from(at.is_some()));
        if let Some(at) = at {
            self.reload_success_seconds.set(at.as_second());
        }
    }

    /// Counts a delivery that had to wait for a rate limit.
    pub fn rate_limit_wait(&self, whose: &str) {
        self.rate_limit_waits.get_or_create(&OutcomeLabels { result: whose.to_owned() }).inc();
    }

    /// Renders the metrics page for Prometheus, in OpenMetrics text.
    pub fn page(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut out, &self.registry);
        out
    }
}

/// Starts logging to standard error. `LLM_DIAGNOSE_LOG` sets the filter; the default level is `info`.
pub fn start_logging(json: bool) {
    let filter = EnvFilter::try_from_env("LLM_DIAGNOSE_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,hyper_util=warn,sqlx=warn,slack_morphism=warn"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // If logging was started before in this process, the first configuration stays.
    let _ = match json {
        true => subscriber.json().try_init(),
        false => subscriber.with_ansi(false).try_init(),
    };
}
