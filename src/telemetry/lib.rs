//! Logging, and the service's own metrics.

pub mod otlp;
pub mod supervise;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Histogram buckets in seconds: from a cached answer to a deadline.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Labels of a metric: names and values.
type Labels<const N: usize> = [(&'static str, String); N];
type ByResult = Family<Labels<1>, Counter>;

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

#[derive(Debug, Clone)]
struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS)
    }
}

/// Declares all metrics in the order of the page: field, type, initial value if it is not the default, name, help text.
macro_rules! metrics {
    (@initial) => { Default::default() };
    (@initial $initial:expr) => { $initial };
    ($($vis:vis $field:ident: $type:ty $(= $initial:expr)?, $name:literal, $help:literal;)*) => {
        /// The metrics of this service.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $(#[doc = $help] $vis $field: $type,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("llm_diagnose");
                $(
                    let $field: $type = metrics!(@initial $($initial)?);
                    registry.register($name, $help, $field.clone());
                )*
                Self { registry, $($field,)* }
            }
        }
    };
}

metrics! {
    webhooks: ByResult, "webhooks", "Webhook calls by what was answered";
    admissions: ByResult, "admissions", "Stored alert groups by what they meant";
    diagnoses: Family<DiagnosisLabels, Counter>, "diagnoses", "Diagnoses by playbook, symptom verdict and best cause";
    diagnosis_seconds: Histogram = Histogram::new(BUCKETS),
        "diagnosis_duration_seconds", "From the first query to the verdict";
    queries: ByResult, "prometheus_queries", "Queries asked of Prometheus by outcome of their diagnosis";
    pub query_seconds: Histogram = Histogram::new(BUCKETS),
        "prometheus_query_duration_seconds", "One query at Prometheus";
    circuits_open: Family<Labels<1>, Gauge>,
        "prometheus_circuit_open", "1 for a Prometheus server that is not asked for a while, because it did not answer";
    queries_unsent: ByResult,
        "prometheus_queries_unsent", "Queries that were not sent, because the server did not answer those before";
    deliveries: Family<Labels<2>, Counter>, "deliveries", "Messages by sink and result";
    delivery_seconds: Family<Labels<2>, Histogram, Buckets> = Family::new_with_constructor(Buckets),
        "delivery_duration_seconds", "One call of a sink";
    rate_limit_waits: ByResult, "rate_limit_waits", "Deliveries put off, by whose limit: ours or Slack's";
    inbound: Family<Labels<2>, Counter>, "slack_inbound", "Requests of people in Slack, by kind and result";
    acts: Family<Labels<2>, Counter>, "acts", "Buttons and commands that act, by result";
    bundles: ByResult, "bundles", "Bundles asked for, by what became of them";
    // With the time in the queue: up to several deadlines.
    bundle_seconds: Histogram = Histogram::new([0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0]),
        "bundle_duration_seconds", "From the question to the file";
    bundle_bytes: Histogram = Histogram::new(exponential_buckets(65_536.0, 4.0, 8)),
        "bundle_size_bytes", "Size of a bundle's file";
    downloads: ByResult, "bundle_downloads", "Downloads of bundles by what was answered";
    restarts: ByResult, "loop_restarts", "Loops of the service that broke and were restarted, by name";
    panics: ByResult, "panics", "Pieces of work that a bug broke off, by kind";
    cuts: ByResult, "http_connections_cut", "Connections that we closed, by why";
    accept_errors: Counter, "http_accept_errors", "Connections that could not be accepted";
    pub connections: Gauge, "http_connections", "Connections that are open";
    pub webhook_queue: Gauge, "webhook_queue_depth", "Webhooks accepted and not yet stored";
    pub open_incidents: Gauge, "incidents_open", "Incidents that are open";
    pub diagnosis_queue: Gauge, "diagnosis_queue_depth", "Diagnoses that are due";
    pub delivery_queue: Gauge, "delivery_queue_depth", "Messages that are not up to date, without those of pagers";
    refused_channels: Family<Labels<2>, Gauge>,
        "slack_channel_refused", "1 for a channel that does not take messages";
    watchdog_ages: Family<Labels<1>, Gauge<f64, AtomicU64>>, "watchdog_age_seconds",
        "Time since an expected Alertmanager's always-firing alert was received last, or expected first";
    pub socket_connections: Gauge, "slack_connections", "Socket Mode's connections that are up";
    pub unreadable_rows: Gauge, "store_unreadable_rows", "Rows of the store that cannot be read";
    pub store_failing: Gauge, "store_failing", "1 while the store fails";
    pub state_disk_free: Gauge, "state_disk_free_bytes", "Free bytes of the file system with the state directory";
    pub state_disk_size: Gauge, "state_disk_size_bytes", "Size of the file system with the state directory";
    reload_successful: Gauge, "config_last_reload_successful", "1 if the last configuration read is in force";
    reload_success_seconds: Gauge,
        "config_last_reload_success_timestamp_seconds", "When the configuration in force was taken over";
    pub playbook_problems: Gauge,
        "playbook_problems", "Problems by which something in the directory of playbooks is not used";
    pub exporters: Gauge, "exporters_learnt", "Exporters learnt from Prometheus' targets";
}

/// Declares methods that count what happened, by the value of one label.
macro_rules! counts {
    ($($(#[$doc:meta])* $method:ident $family:ident;)*) => {
        impl Metrics {
            $($(#[$doc])*
            pub fn $method(&self, result: &str) {
                self.$family.get_or_create(&[("result", result.to_owned())]).inc();
            })*
        }
    };
}

counts! {
    /// Counts an answered webhook call.
    webhook webhooks;
    /// Counts a requested bundle that was not created: busy, failed, stopped.
    no_bundle bundles;
    /// Counts a download request for a bundle.
    download downloads;
    /// Counts a restart of a loop.
    restart restarts;
    /// Counts a panic in a piece of work.
    panic panics;
    /// Counts a connection that this service closed.
    cut cuts;
    /// Counts a stored alert group, by what it meant.
    admission admissions;
    /// Counts a delivery that had to wait, by whose rate limit it was.
    rate_limit_wait rate_limit_waits;
}

impl Metrics {
    /// Counts an input from Slack, by kind and outcome.
    pub fn inbound(&self, kind: &str, result: &str) {
        self.inbound.get_or_create(&labels(["kind", "result"], [kind, result])).inc();
    }

    /// Counts an action, executed or refused.
    pub fn act(&self, act: &str, result: &str) {
        self.acts.get_or_create(&labels(["kind", "result"], [act, result])).inc();
    }

    /// Records a finished bundle.
    pub fn bundle(&self, complete: bool, bytes: u64, took: Duration) {
        self.no_bundle(if complete { "complete" } else { "incomplete" });
        self.bundle_seconds.observe(took.as_secs_f64());
        self.bundle_bytes.observe(bytes as f64);
    }

    /// Counts a connection that could not be accepted.
    pub fn accept_error(&self) {
        self.accept_errors.inc();
    }

    /// Records a finished diagnosis.
    pub fn diagnosis(&self, labels: DiagnosisLabels, queries: usize, degraded: bool, took: f64) {
        self.diagnoses.get_or_create(&labels).inc();
        self.diagnosis_seconds.observe(took);
        let result = if degraded { "degraded" } else { "ok" };
        self.queries.get_or_create(&[("result", result.to_owned())]).inc_by(queries as u64);
    }

    /// Records an attempt to send a message, with its duration if there was a call.
    pub fn delivery(&self, sink: &str, result: &str, took: Option<Duration>) {
        let labels = labels(["sink", "result"], [sink, result]);
        self.deliveries.get_or_create(&labels).inc();
        if let Some(took) = took {
            self.delivery_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// Sets the channels that refuse messages, with Slack's error codes; clears all others.
    pub fn refused<'a>(&self, channels: impl Iterator<Item = (&'a str, &'a str)>) {
        self.refused_channels.clear();
        for (channel, code) in channels {
            self.refused_channels.get_or_create(&labels(["channel", "code"], [channel, code])).set(1);
        }
    }

    /// Sets the time since each expected source sent its always-firing alert; clears all others.
    pub fn watchdogs<'a>(&self, ages: impl Iterator<Item = (&'a str, Duration)>) {
        self.watchdog_ages.clear();
        for (source, age) in ages {
            self.watchdog_ages.get_or_create(&[("source", source.to_owned())]).set(age.as_secs_f64());
        }
    }

    /// Sets for each Prometheus server whether it is not asked, and how many queries were not sent.
    pub fn circuits<'a>(&self, servers: impl IntoIterator<Item = (&'a str, (bool, u64))>) {
        for (server, (is_open, unsent)) in servers {
            let labels = [("server", server.to_owned())];
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

    /// Renders the metrics page for Prometheus, in OpenMetrics text.
    pub fn page(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut out, &self.registry);
        out
    }
}

fn labels<const N: usize>(names: [&'static str; N], values: [&str; N]) -> Labels<N> {
    std::array::from_fn(|i| (names[i], values[i].to_owned()))
}

/// A taker of the log lines and spans of this process.
pub type LogLayer = Box<dyn Layer<tracing_subscriber::Registry> + Send + Sync>;

/// Returns the log on standard error. `LLM_DIAGNOSE_LOG` sets the filter; the default level is `info`.
pub fn log(json: bool) -> LogLayer {
    let filter = EnvFilter::try_from_env("LLM_DIAGNOSE_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,hyper_util=warn,sqlx=warn,slack_morphism=warn"));
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    match json {
        true => log.json().with_filter(filter).boxed(),
        false => log.with_ansi(false).with_filter(filter).boxed(),
    }
}

/// Starts logging. If it was started before in this process, the first configuration stays.
pub fn start_logging(layers: Vec<LogLayer>) {
    let _ = tracing_subscriber::registry().with(layers).try_init();
}
