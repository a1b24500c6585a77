//! Traces for an OpenTelemetry collector; off unless its usual variables name one.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>. The library reads the variables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http_client::{innermost, read_beginning};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::{Builder, Runtime};
use tracing::{Level, Metadata, info, warn};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use super::LogLayer;

/// The variables of which one turns traces on, and the one that turns them off.
const ON: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
const OFF: &str = "OTEL_SDK_DISABLED";
/// The crates whose spans are exported: those of others, and all log lines, may hold texts from outside.
const CRATES: [&str; 5] = ["bundle", "chat", "diagnose", "loops", "service"];
/// Timeout of one call; the library does not repeat it.
const CALL: Duration = Duration::from_secs(5);
/// Maximum wait for the last spans when the process ends.
const LAST: Duration = Duration::from_secs(5);
/// Maximum number of bytes of an answer, which nobody reads.
const ANSWER_BYTES: usize = 4 << 10;

/// The reason why traces cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A variable of OpenTelemetry has a value that does not fit.
    #[error("cannot export traces as the OTEL_ variables say: {0}; {name} is an address such as http://127.0.0.1:4318", name = ON[0])]
    Settings(#[from] ExporterBuildError),
    /// No runtime or HTTP client can be made.
    #[error("cannot export traces: {0}")]
    Client(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// The exporter of this process' spans.
///
/// A thread of its own sends them in batches. When the collector does not keep up, the library's queue of 2,048 spans is
/// full, and later spans are dropped; a span that could not be sent is lost.
#[derive(Debug)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// Starts the export, if a variable names a collector.
    ///
    /// # Errors
    /// If a variable has a wrong value, or no thread can be started.
    pub fn start() -> Result<Self, TraceError> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_off = std::env::var(OFF).is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        if is_off || !ON.iter().any(is_set) {
            return Ok(Self(None));
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Collector::new()?).build()?;
        // The library lets OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES add to it.
        let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_attribute(version);
        let resource = match std::env::var_os("OTEL_SERVICE_NAME") {
            Some(_) => resource,
            None => resource.with_service_name("llm-diagnose"),
        };
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build());
        Ok(Self(Some(provider.build())))
    }

    /// Returns what hands the spans of this process to the exporter; `None` if traces are off.
    pub fn layer(&self) -> Option<LogLayer> {
        let tracer = self.0.as_ref()?.tracer("llm-diagnose");
        let layer = tracing_opentelemetry::layer::<Registry>().with_tracer(tracer);
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false);
        Some(layer.with_filter(filter_fn(is_exported)).boxed())
    }

    /// Sends the last spans; waits at most 5 s.
    pub fn end(self) {
        if let Some(Err(error)) = self.0.map(|provider| provider.shutdown_with_timeout(LAST)) {
            warn!(%error, "the last traces are lost");
        }
    }
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    let from = metadata.target().split("::").next().unwrap_or_default();
    metadata.is_span() && *metadata.level() <= Level::DEBUG && CRATES.contains(&from)
}

/// The client of the collector, on the exporter's thread.
#[derive(Debug)]
struct Collector {
    http: reqwest::Client,
    /// The exporter's thread has none.
    runtime: Runtime,
    is_failing: AtomicBool,
}

impl Collector {
    fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let http = reqwest::Client::builder().timeout(CALL).build()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { http, runtime, is_failing: AtomicBool::new(false) })
    }

    async fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.http.execute(request.try_into()?).await?;
        let status = answer.status();
        let body = read_beginning(answer, ANSWER_BYTES).await;
        Ok(Response::builder().status(status).body(body.into())?)
    }

    /// Logs that the collector fails, or that it takes spans again; each once.
    fn note(&self, trouble: Option<String>) {
        let was_failing = self.is_failing.swap(trouble.is_some(), Ordering::Relaxed);
        match trouble {
            Some(error) if !was_failing => warn!(error, "the collector does not take traces: spans are lost"),
            None if was_failing => info!("the collector takes traces again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.runtime.block_on(self.post(request));
        self.note(match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("HTTP {}", answer.status())),
            Err(error) => Some(innermost(&**error)),
        });
        answer
    }
}
