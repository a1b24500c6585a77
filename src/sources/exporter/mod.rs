//! Reads the `/metrics` pages and other HTTP paths of engines and GPU exporters: evidence beside Prometheus.
//!
//! It is read-only and bounded: allowed addresses only, no redirects, no proxy, timeouts, size limits, few requests at
//! once.

mod aiperf;
mod allow;
mod config;
mod page;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

pub use aiperf::{BenchmarkError, RecordedPage, no_pages, read_line};
pub use allow::Allowed;
pub use config::{Config, ConfiguredExporter};
use findings::ExporterTarget;
use http_client::{ResponseBodyError, media_type, read_body};
pub use page::{Sample, parse};

/// Timeout of one page.
const PAGE_WITHIN: Duration = Duration::from_secs(2);
/// Maximum size of a page, in bytes after decompression; a vLLM page has about 0.1 MB.
const PAGE_BYTES: usize = 16 << 20;
/// Timeout and maximum bytes for the body of an error response.
const REASON_WITHIN: Duration = Duration::from_millis(200);
const REASON_BYTES: usize = 4 << 10;
/// Maximum number of concurrent requests, over all users of a reader.
const AT_ONCE: usize = 8;
/// Maximum number of exporters that one diagnosis reads.
pub const TARGETS_MOST: usize = 64;

/// Adds a target's labels to a sample, as a scrape without `honor_labels` does.
pub fn attach(target: &ExporterTarget, mut sample: Sample) -> Sample {
    for (name, value) in &target.labels {
        if let Some(own) = sample.labels.insert(name.clone(), value.clone())
            && own != *value
        {
            sample.labels.insert(format!("exported_{name}"), own);
        }
    }
    sample
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code; never a redirect.
    pub status: u16,
    /// The media type without its parameters, in lower case; empty if the header is missing.
    pub media: String,
    /// The body, decompressed; of an error response only its first chunk.
    pub bytes: Vec<u8>,
    /// The time at which it was complete.
    pub at: Instant,
}

/// The limits of one request.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum bytes after decompression.
    pub bytes: usize,
    /// The timeout, without the wait for a slot.
    pub within: Duration,
    /// The deadline, including the wait for a slot.
    pub deadline: Instant,
}

/// The reason why a page could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExporterError {
    /// The host is up and refuses the connection.
    #[error("refuses connections")]
    Refused,
    /// No connection: no such host, no route, no answer to the attempt.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The deadline passed after the connection was established.
    #[error("took the connection and did not answer in time")]
    Late,
    /// The status is an error.
    #[error("answered HTTP {0}")]
    Status(u16),
    /// The response is a redirect; redirects are not followed.
    #[error("answered with a redirect, which is not followed: name the page itself")]
    Redirect,
    /// The body is larger than the limit.
    #[error("sent more than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The body is not a page of metrics.
    #[error("did not send metrics: {0}")]
    NotMetrics(String),
    /// The address is not on the allow-list.
    #[error("has an address that may not be read: {0} is in no network of `exporters.allow`, or never allowed")]
    NotAllowed(String),
}

impl ExporterError {
    /// Returns true if the exporter is unavailable, as opposed to slow, malformed or forbidden.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Refused | Self::Unreachable(_) => true,
            Self::Status(status) => *status >= 500,
            Self::Late | Self::Redirect | Self::TooLarge(_) | Self::NotMetrics(_) | Self::NotAllowed(_) => false,
        }
    }
}

/// The HTTP client of pages.
#[derive(Debug, Clone)]
pub struct ExporterReader {
    http: reqwest::Client,
    allowed: Arc<[Allowed]>,
    running: Arc<Semaphore>,
}

impl ExporterReader {
    /// Creates a client; nothing is sent.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn new(allow: &[Allowed]) -> Result<Self, reqwest::Error> {
        let allowed: Arc<[Allowed]> = allow.into();
        let http = http_client::builder(PAGE_WITHIN / 2)
            // A proxy would connect to addresses that are not checked here.
            .no_proxy()
            .dns_resolver(AllowedOnly(Arc::clone(&allowed)))
            .pool_max_idle_per_host(1)
            .build()?;
        Ok(Self { http, allowed, running: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// Returns the same reader with its own slots, so that neither waits for the other's requests.
    #[must_use]
    pub fn with_own_slots(&self) -> Self {
        Self { running: Arc::new(Semaphore::new(AT_ONCE)), ..self.clone() }
    }

    /// Reads the samples whose names are `wanted`, with the target's labels; also returns the time of the response.
    ///
    /// # Errors
    /// If the address is not allowed or unreachable, the deadline passes, or the body is not a page of metrics.
    pub async fn read(
        &self,
        target: &ExporterTarget,
        is_needed: impl Fn(&str) -> bool,
        deadline: Instant,
    ) -> Result<(Vec<Sample>, Instant), ExporterError> {
        let bounds = Bounds { bytes: PAGE_BYTES, within: PAGE_WITHIN, deadline };
        let page = self.get(&target.url, "text/plain;version=0.0.4,*/*;q=0.1", &bounds).await?;
        if !(200..300).contains(&page.status) {
            return Err(ExporterError::Status(page.status));
        }
        let text = String::from_utf8(page.bytes)
            .map_err(|_| ExporterError::NotMetrics("the page is no UTF-8 text".to_owned()))?;
        let samples = parse(&text, is_needed)?;
        Ok((samples.into_iter().map(|sample| attach(target, sample)).collect(), page.at))
    }

    /// Sends one GET without credentials; returns the response whatever its status.
    ///
    /// # Errors
    /// If the address is not allowed or unreachable, the deadline passes, or the answer is a redirect, too large or cut
    /// off.
    pub async fn get(&self, url: &str, accept: &'static str, bounds: &Bounds) -> Result<HttpResponse, ExporterError> {
        let url = self.checked(url)?;
        let late = |_| ExporterError::Late;
        let slot = tokio::time::timeout_at(bounds.deadline.into(), self.running.acquire()).await.map_err(late)?;
        let _slot = slot.map_err(|_| ExporterError::Late)?;
        let until = bounds.deadline.min(Instant::now() + bounds.within);
        tokio::time::timeout_at(until.into(), self.fetch(url, accept, bounds.bytes)).await.map_err(late)?
    }

    /// Parses a URL and checks that its scheme is HTTP and that an IP address in it is allowed. Host names are checked
    /// when they are resolved, so that the checked address is the one that is connected to.
    fn checked(&self, url: &str) -> Result<url::Url, ExporterError> {
        let refused = || ExporterError::NotAllowed(findings::place(url));
        let url = url::Url::parse(url).map_err(|_| refused())?;
        if !["http", "https"].contains(&url.scheme()) || !url.username().is_empty() || url.password().is_some() {
            return Err(refused());
        }
        let address: Option<IpAddr> = match url.host() {
            Some(url::Host::Ipv4(v4)) => Some(v4.into()),
            Some(url::Host::Ipv6(v6)) => Some(v6.into()),
            Some(url::Host::Domain(_)) => None,
            None => return Err(refused()),
        };
        match address {
            Some(address) if !allow::permits(&self.allowed, &address.to_string(), address) => Err(refused()),
            _ => Ok(url),
        }
    }

    async fn fetch(&self, url: url::Url, accept: &'static str, most: usize) -> Result<HttpResponse, ExporterError> {
        let request = self.http.get(url).header(reqwest::header::ACCEPT, accept);
        let mut response = request.send().await.map_err(|e| failure(&e))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(ExporterError::Redirect);
        }
        let (media, status) = (media_type(response.headers()), status.as_u16());
        if !response.status().is_success() {
            let mut bytes = Vec::new();
            // The body of an error may explain it, but is not worth a longer wait.
            if let Ok(Ok(Some(chunk))) = tokio::time::timeout(REASON_WITHIN, response.chunk()).await {
                bytes.extend(chunk.iter().take(REASON_BYTES));
            }
            return Ok(HttpResponse { status, media, bytes, at: Instant::now() });
        }
        let bytes = read_body(response, most).await.map_err(|error| match error {
            ResponseBodyError::TooLarge(most) => ExporterError::TooLarge(most),
            ResponseBodyError::Broken(_) => ExporterError::NotMetrics("the answer breaks off".to_owned()),
        })?;
        Ok(HttpResponse { status, media, bytes, at: Instant::now() })
    }
}

fn failure(error: &reqwest::Error) -> ExporterError {
    let mut inner: &(dyn std::error::Error + 'static) = error;
    loop {
        if let Some(Forbidden(address)) = inner.downcast_ref() {
            return ExporterError::NotAllowed(address.clone());
        }
        let refused = std::io::ErrorKind::ConnectionRefused;
        if inner.downcast_ref().is_some_and(|io: &std::io::Error| io.kind() == refused) {
            return ExporterError::Refused;
        }
        match inner.source() {
            Some(source) => inner = source,
            None => break,
        }
    }
    match error.is_connect() {
        true => ExporterError::Unreachable(inner.to_string()),
        false if error.is_timeout() => ExporterError::Late,
        false => ExporterError::NotMetrics(inner.to_string()),
    }
}

/// The error that a host name resolves to addresses that are not allowed.
#[derive(Debug, thiserror::Error)]
#[error("{0} may not be read")]
struct Forbidden(String);

/// A DNS resolver that returns allowed addresses only.
struct AllowedOnly(Arc<[Allowed]>);

impl Resolve for AllowedOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let addresses: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let (fine, other): (Vec<_>, Vec<_>) =
                addresses.into_iter().partition(|address| allow::permits(&allowed, &host, address.ip()));
            match other.first() {
                Some(address) if fine.is_empty() => Err(Forbidden(format!("{host} at {}", address.ip())).into()),
                _ => Ok(Box::new(fine.into_iter()) as Addrs),
            }
        })
    }
}
