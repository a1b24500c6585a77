//! Reads the `/metrics` of engines and GPU exporters over HTTP, and what else they tell there: the second source of
//! evidence, beside Prometheus.
//!
//! Read-only and bounded in every direction: allowed addresses only, no redirects, no proxy, a deadline and a size limit
//! per page, few pages at once.

mod allow;
mod config;
mod page;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::alert::Labels;

pub use allow::Allowed;
pub use config::{Config, Given};
pub use page::{Sample, parse};

/// How long one page may take.
const PAGE_WITHIN: Duration = Duration::from_secs(2);
/// The largest page that is read, in bytes after decompression; a vLLM page has about 0.1 MB.
const PAGE_BYTES: usize = 16 << 20;
/// Of an error, how long its body may take, and how much of it is kept.
const REASON_WITHIN: Duration = Duration::from_millis(200);
const REASON_BYTES: usize = 4 << 10;
/// Pages at once, over all that share a reader.
const AT_ONCE: usize = 8;
/// Exporters that one diagnosis reads at most.
pub const TARGETS_MOST: usize = 64;

/// Where a page is, and what a scrape would say of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The engine or exporter, as its signal file is called.
    pub engine: String,
    /// The page's address.
    pub url: String,
    /// The labels that a scrape attaches, and those of its series that tell the pool.
    pub labels: Labels,
    /// When Prometheus listed it last; none for configured ones.
    pub seen: Option<Timestamp>,
}

/// Shows no secret of the address.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        f.debug_struct("Target")
            .field("engine", &self.engine)
            .field("place", &place)
            .field("labels", &self.labels)
            .finish()
    }
}

impl Target {
    /// Its pod, else its host and port: never a path or a query, which may hold secrets.
    pub fn name(&self) -> String {
        let pod = self.labels.get("pod").filter(|pod| !pod.is_empty());
        pod.cloned().unwrap_or_else(|| self.place())
    }

    /// Host and port.
    pub fn place(&self) -> String {
        place(&self.url)
    }

    /// The sample with this target's labels, as a scrape without `honor_labels` would keep it.
    pub fn attach(&self, mut sample: Sample) -> Sample {
        for (name, value) in &self.labels {
            if let Some(own) = sample.labels.insert(name.clone(), value.clone())
                && own != *value
            {
                sample.labels.insert(format!("exported_{name}"), own);
            }
        }
        sample
    }
}

fn place(url: &str) -> String {
    let Ok(url) = url::Url::parse(url) else { return "an address that cannot be read".to_owned() };
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// An answer of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The status; never a redirect.
    pub status: u16,
    /// The media type without its parameters, lower case; empty when none is told.
    pub media: String,
    /// The body, decompressed; of one that is no success only what came at once.
    pub bytes: Vec<u8>,
    /// When it was there.
    pub at: Instant,
}

/// What a page may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes after decompression.
    pub bytes: usize,
    /// How long it may take, once it is its turn.
    pub within: Duration,
    /// When it must be there, the waiting for its turn included.
    pub deadline: Instant,
}

/// Why a page has not been read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExporterError {
    /// The machine is there and nobody listens.
    #[error("refuses connections")]
    Refused,
    /// No connection: no such host, no way to it, no answer to the attempt.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The deadline passed after the connection stood.
    #[error("took the connection and did not answer in time")]
    Late,
    /// It says itself that it cannot.
    #[error("answered HTTP {0}")]
    Status(u16),
    /// The page is elsewhere; redirects are not followed.
    #[error("answered with a redirect, which is not followed: name the page itself")]
    Redirect,
    /// More than anybody exposes.
    #[error("sent more than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The answer is no page of metrics.
    #[error("did not send metrics: {0}")]
    NotMetrics(String),
    /// The address is outside of what may be read.
    #[error("has an address that may not be read: {0} is in no network of `exporters.allow`, or never allowed")]
    NotAllowed(String),
}

impl ExporterError {
    /// Whether the exporter itself is away, as opposed to slow, odd or forbidden.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Refused | Self::Unreachable(_) => true,
            Self::Status(status) => *status >= 500,
            Self::Late | Self::Redirect | Self::TooLarge(_) | Self::NotMetrics(_) | Self::NotAllowed(_) => false,
        }
    }
}

/// Reads pages.
#[derive(Debug, Clone)]
pub struct Reader {
    http: reqwest::Client,
    allowed: Arc<[Allowed]>,
    running: Arc<Semaphore>,
}

impl Reader {
    /// Prepares a client; nothing is sent.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(allow: &[Allowed]) -> Result<Self, reqwest::Error> {
        let allowed: Arc<[Allowed]> = allow.into();
        let http = reqwest::Client::builder()
            .connect_timeout(PAGE_WITHIN / 2)
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would reach what we check the address of.
            .no_proxy()
            .dns_resolver(AllowedOnly(Arc::clone(&allowed)))
            .pool_max_idle_per_host(1)
            .user_agent(concat!("llm-diagnose/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, allowed, running: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// The same with slots of its own: neither waits for what the other reads.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { running: Arc::new(Semaphore::new(AT_ONCE)), ..self.clone() }
    }

    /// The samples of a page whose names are wanted, with the target's labels, and the moment it came.
    ///
    /// # Errors
    /// When it is not allowed, away, late, or no page of metrics.
    pub async fn read(
        &self,
        target: &Target,
        wanted: impl Fn(&str) -> bool,
        deadline: Instant,
    ) -> Result<(Vec<Sample>, Instant), ExporterError> {
        let bounds = Bounds { bytes: PAGE_BYTES, within: PAGE_WITHIN, deadline };
        let page = self.get(&target.url, "text/plain;version=0.0.4,*/*;q=0.1", &bounds).await?;
        if !(200..300).contains(&page.status) {
            return Err(ExporterError::Status(page.status));
        }
        let text = String::from_utf8(page.bytes)
            .map_err(|_| ExporterError::NotMetrics("the page is no UTF-8 text".to_owned()))?;
        let samples = parse(&text, wanted)?;
        Ok((samples.into_iter().map(|sample| target.attach(sample)).collect(), page.at))
    }

    /// Gets one page, whatever its status, without any credentials.
    ///
    /// # Errors
    /// When the address is not allowed, away, late, elsewhere, or the answer too large or broken off.
    pub async fn get(&self, url: &str, accept: &'static str, bounds: &Bounds) -> Result<Page, ExporterError> {
        let url = self.checked(url)?;
        let late = |_| ExporterError::Late;
        let slot = tokio::time::timeout_at(bounds.deadline.into(), self.running.acquire()).await.map_err(late)?;
        let _slot = slot.map_err(|_| ExporterError::Late)?;
        let until = bounds.deadline.min(Instant::now() + bounds.within);
        tokio::time::timeout_at(until.into(), self.fetch(url, accept, bounds.bytes)).await.map_err(late)?
    }

    /// The address, when it is one of HTTP and, where it is written as a number, allowed. Names are checked when they
    /// are resolved, so that what was checked is what is connected to.
    fn checked(&self, url: &str) -> Result<url::Url, ExporterError> {
        let refused = || ExporterError::NotAllowed(place(url));
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

    async fn fetch(&self, url: url::Url, accept: &'static str, most: usize) -> Result<Page, ExporterError> {
        let asked = self.http.get(url).header(reqwest::header::ACCEPT, accept);
        let mut response = asked.send().await.map_err(|e| failure(&e))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(ExporterError::Redirect);
        }
        let told = response.headers().get(reqwest::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media = told.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase();
        let mut bytes = Vec::new();
        if !status.is_success() {
            // What stands behind an error may explain it, and is not worth waiting for.
            if let Ok(Ok(Some(chunk))) = tokio::time::timeout(REASON_WITHIN, response.chunk()).await {
                bytes.extend(chunk.iter().take(REASON_BYTES));
            }
            return Ok(Page { status: status.as_u16(), media, bytes, at: Instant::now() });
        }
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() > most => return Err(ExporterError::TooLarge(most)),
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => return Ok(Page { status: status.as_u16(), media, bytes, at: Instant::now() }),
                Err(_) => return Err(ExporterError::NotMetrics("the answer breaks off".to_owned())),
            }
        }
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

/// A name leads to an address that is not allowed.
#[derive(Debug, thiserror::Error)]
#[error("{0} may not be read")]
struct Forbidden(String);

/// Resolves names to allowed addresses only.
struct AllowedOnly(Arc<[Allowed]>);

impl Resolve for AllowedOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let (fine, other): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|address| allow::permits(&allowed, &host, address.ip()));
            match other.first() {
                Some(address) if fine.is_empty() => Err(Forbidden(format!("{host} at {}", address.ip())).into()),
                _ => Ok(Box::new(fine.into_iter()) as Addrs),
            }
        })
    }
}
