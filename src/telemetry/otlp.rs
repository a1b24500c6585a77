//! Traces for an OpenTelemetry collector; off unless its usual variables name one.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>. The library reads the variables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http_client::{address, innermost, read_beginning};
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, ResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use reqwest::Url;
use tokio::runtime::{Builder, Runtime};
use tracing::{Level, Metadata, error, info, warn};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::{Layer, Registry};

use super::LogLayer;

/// The variables of which one turns traces on.
const ON: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/// The variables that turn traces off, with the value that does.
const OFF: [(&str, &str); 2] = [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")];
/// Variables of which we have one value only; the library ignores others silently.
const ONLY: [(&str, &str); 4] = [
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
    ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
    ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none"),
];
/// The crates whose spans are exported: those of others, and all log lines, may hold texts from outside.
const CRATES: [&str; 5] = ["bundle", "chat", "diagnose", "loops", "service"];
/// Timeout of one call, which is not repeated: at the end of the process the last spans wait for it.
const CALL: Duration = Duration::from_secs(3);
/// Maximum wait for the last spans when the process ends.
const LAST: Duration = Duration::from_secs(4);
/// Maximum number of bytes of an answer, which nobody reads.
const ANSWER_BYTES: usize = 4 << 10;

/// The exporter of this process' spans.
///
/// A thread of its own sends them in batches. When the collector does not keep up, the library's queue of 2,048 spans is
/// full, and later spans are dropped; a span that could not be sent is lost.
#[derive(Debug)]
pub struct Traces(Result<Option<SdkTracerProvider>, String>);

impl Traces {
    /// Starts the export, if a variable names a collector. A wrong value turns traces off, and nothing else: alerts count more.
    pub fn start() -> Self {
        Self(provider())
    }

    /// Logs why no traces are exported although a variable names a collector.
    pub fn report(&self) {
        if let Err(error) = &self.0 {
            error!(%error, "no traces are exported");
        }
    }

    /// Returns what hands the spans of this process to the exporter; `None` if traces are off.
    pub fn layer(&self) -> Option<LogLayer> {
        let tracer = self.0.as_ref().ok()?.as_ref()?.tracer("llm-diagnose");
        let layer = tracing_opentelemetry::layer::<Registry>().with_tracer(tracer);
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_target(false);
        let filter = filter_fn(is_exported).with_max_level_hint(LevelFilter::DEBUG);
        Some(layer.with_filter(filter).boxed())
    }

    /// Sends the last spans; waits at most 4 s.
    pub fn end(self) {
        let ended = self.0.ok().flatten().map(|provider| provider.shutdown_with_timeout(LAST));
        if let Some(Err(error)) = ended {
            warn!(%error, "the last traces are lost");
        }
    }
}

/// Builds the exporter that the variables ask for; `None` if they ask for none.
fn provider() -> Result<Option<SdkTracerProvider>, String> {
    let is_off = OFF.iter().any(|(name, off)| set(name).is_some_and(|value| value.eq_ignore_ascii_case(off)));
    let addresses: Vec<_> = ON.iter().filter_map(|name| Some((*name, set(name)?))).collect();
    if is_off || addresses.is_empty() {
        return Ok(None);
    }
    for (name, value) in addresses {
        let is_plain = |url: Url| url.has_host() && url.username().is_empty() && url.password().is_none();
        if !value.parse().is_ok_and(is_plain) {
            let value = address(&value);
            return Err(format!(
                "cannot export traces to {name}={value}: it is an address such as http://127.0.0.1:4318, without a user; a key goes to OTEL_EXPORTER_OTLP_HEADERS"
            ));
        }
    }
    for (name, only) in ONLY {
        if let Some(value) = set(name).filter(|value| value != only) {
            return Err(format!("cannot export traces with {name}={value}: {only} is the only value here"));
        }
    }
    let collector = Collector::new().map_err(|e| format!("cannot export traces: {e}"))?;
    let exporter = SpanExporter::builder().with_http().with_http_client(collector);
    let exporter = exporter.with_retry_policy(RetryPolicy::disabled()).build();
    let exporter = exporter.map_err(|e| format!("cannot export traces as the OTEL_ variables say: {e}"))?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource());
    Ok(Some(provider.build()))
}

/// Returns the value of a variable that is not empty.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Describes this process. `OTEL_SERVICE_NAME` counts before the name in `OTEL_RESOURCE_ATTRIBUTES`, as specified; the
/// library has it the other way round.
fn resource() -> Resource {
    let named = EnvResourceDetector::new().detect().get(&Key::new("service.name")).map(|name| name.to_string());
    let name = set("OTEL_SERVICE_NAME").or(named).unwrap_or_else(|| "llm-diagnose".to_owned());
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder().with_service_name(name).with_attribute(version).build()
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    let from = metadata.target().split("::").next().unwrap_or_default();
    metadata.is_span() && *metadata.level() <= Level::DEBUG && CRATES.contains(&from)
}

/// The client of the collector, on the exporter's thread.
#[derive(Debug)]
struct Collector {
    http: reqwest::Client,
    /// The exporter's thread has none. `None` only while it is dropped.
    runtime: Option<Runtime>,
    is_failing: AtomicBool,
}

impl Collector {
    fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        // A redirect would carry the key in the headers to another host.
        let http = reqwest::Client::builder().timeout(CALL).redirect(reqwest::redirect::Policy::none()).build()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { http, runtime: Some(runtime), is_failing: AtomicBool::new(false) })
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

impl Drop for Collector {
    fn drop(&mut self) {
        // A name that is being resolved must not keep the process.
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let Some(runtime) = &self.runtime else { return Err("the exporter ends".into()) };
        let answer = runtime.block_on(self.post(request));
        self.note(match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("HTTP {}", answer.status())),
            Err(error) => Some(innermost(&**error)),
        });
        answer
    }
}
