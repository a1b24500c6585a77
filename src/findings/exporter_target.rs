//! The page of an exporter that may be read.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use knowledge::alert::Labels;

/// An exporter's page, with the labels that a scrape would attach.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExporterTarget {
    /// The engine or exporter, by the name of its signal file.
    pub engine: String,
    /// The URL of the page.
    pub url: String,
    /// The labels that a scrape attaches, and those of its series that identify the pool.
    pub labels: Labels,
    /// The time at which Prometheus listed it last; `None` if it is configured.
    pub seen: Option<Timestamp>,
}

/// Formats the target without secrets of the URL.
impl fmt::Debug for ExporterTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        f.debug_struct("Target")
            .field("engine", &self.engine)
            .field("place", &place)
            .field("labels", &self.labels)
            .finish()
    }
}

impl ExporterTarget {
    /// Returns its pod, else its host and port: never a path or a query, which may contain secrets. A saved page has the
    /// name of its file.
    pub fn name(&self) -> String {
        let label = |name: &str| self.labels.get(name).filter(|value| !value.is_empty()).cloned();
        let saved = || label("instance").filter(|_| url::Url::parse(&self.url).is_err());
        label("pod").or_else(saved).unwrap_or_else(|| self.place())
    }

    /// Returns host and port.
    pub fn place(&self) -> String {
        place(&self.url)
    }
}

/// Returns host and port of a URL.
pub fn place(url: &str) -> String {
    let Ok(url) = url::Url::parse(url) else { return "an address that cannot be read".to_owned() };
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
