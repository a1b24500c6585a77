//! Client of Alertmanager's v2 API. It writes nothing but silences, and those only on request.
//!
//! Source: `api/v2/openapi.yaml` of prometheus/alertmanager; differences of 0.25 are noted where they matter.

mod config;
mod error;
mod silences;

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Method, RequestBuilder, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use config::Config;
pub use error::AlertmanagerError;
use findings::silence::SilenceMatcher;
use http_client::{ResponseBodyError, read_body};
use knowledge::alert::Labels;
pub use silences::{
    COMMENT_CHARS, CreatedSilence, LONGEST, SHORTEST, SilenceError, SilenceParameters, create, expire, list, others,
};

/// Timeout of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes.
const ANSWER_BYTES: usize = 8 << 20;
/// Maximum number of characters of an error text that are kept.
const ERROR_CHARS: usize = 300;

/// A client of one Alertmanager.
#[derive(Clone)]
pub struct Alertmanager {
    /// The address for display, without password.
    pub url: String,
    /// Labels that all firing alerts must have.
    pub labels: Labels,
    base: String,
    http: reqwest::Client,
}

impl std::fmt::Debug for Alertmanager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alertmanager").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A silence to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSilence {
    /// All matchers that an alert must meet; at least one.
    pub matchers: Vec<SilenceMatcher>,
    /// The start; a time in the past means now.
    pub starts_at: Timestamp,
    /// The end.
    pub ends_at: Timestamp,
    /// The author.
    pub created_by: String,
    /// The reason.
    pub comment: String,
}

/// An existing silence.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    /// A UUID.
    pub id: String,
    /// All matchers that an alert must meet.
    pub matchers: Vec<SilenceMatcher>,
    /// The start.
    pub starts_at: Timestamp,
    /// The end.
    pub ends_at: Timestamp,
    /// The author.
    #[serde(default)]
    pub created_by: String,
    /// The reason.
    #[serde(default)]
    pub comment: String,
    /// The state of the silence.
    pub status: SilenceStatus,
}

/// The state of a silence.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct SilenceStatus {
    /// `active`, `pending` or `expired`.
    pub state: String,
}

impl Silence {
    /// Returns true if the silence has expired.
    pub fn is_over(&self) -> bool {
        self.status.state == "expired"
    }
}

/// Returns the Alertmanagers for a group's alerts: the first whose labels all match, then others with the same labels
/// as fallbacks.
pub fn chosen<'a>(all: &'a [Alertmanager], common: &Labels) -> Vec<&'a Alertmanager> {
    let matches = |one: &&Alertmanager| one.labels.iter().all(|(name, value)| common.get(name) == Some(value));
    let Some(first) = all.iter().find(matches) else { return Vec::new() };
    all.iter().filter(|one| one.labels == first.labels).collect()
}

impl Alertmanager {
    /// Creates a client; sends nothing.
    ///
    /// # Errors
    /// When the address is malformed or a secret cannot be read.
    pub fn new(config: &Config) -> Result<Self, AlertmanagerError> {
        let (base, url) = config.address()?;
        let http = http_client::builder(Duration::from_secs(2))
            .default_headers(config.headers()?)
            .timeout(CALL_TIMEOUT)
            .build()
            .map_err(|e| AlertmanagerError::Configuration(format!("cannot prepare the HTTP client: {e}")))?;
        Ok(Self { url, labels: config.labels.clone(), base, http })
    }

    /// Creates a silence; returns its id.
    ///
    /// # Errors
    /// When Alertmanager refuses or cannot be reached; also in the methods below.
    pub async fn create(&self, silence: &NewSilence) -> Result<String, AlertmanagerError> {
        #[derive(Deserialize)]
        struct CreateAnswer {
            #[serde(rename = "silenceID")]
            id: String,
        }
        let created: CreateAnswer = self.json(self.request(Method::POST, &["silences"]).json(silence)).await?;
        Ok(created.id)
    }

    /// Returns one silence; `None` if the id is unknown or invalid.
    pub async fn silence(&self, id: &str) -> Result<Option<Silence>, AlertmanagerError> {
        match self.json(self.request(Method::GET, &["silence", id])).await {
            Ok(silence) => Ok(Some(silence)),
            Err(AlertmanagerError::Refused { status: 404 | 422, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all active and pending silences, the one that ends first at the top.
    pub async fn silences(&self) -> Result<Vec<Silence>, AlertmanagerError> {
        let all: Vec<Value> = self.json(self.request(Method::GET, &["silences"])).await?;
        // A newer version may use fields that cannot be parsed; such silences are left out.
        let read = all.into_iter().filter_map(|one| serde_json::from_value::<Silence>(one).ok());
        let mut running: Vec<Silence> = read.filter(|one| !one.is_over()).collect();
        running.sort_by(|a, b| (a.ends_at, &a.id).cmp(&(b.ends_at, &b.id)));
        Ok(running)
    }

    /// Ends a silence; a silence that is over stays unchanged.
    ///
    /// # Errors
    /// See [`Self::create`]; an unknown id is 404, on 0.25 it is 500, so query [`Self::silence`] first.
    pub async fn expire(&self, id: &str) -> Result<(), AlertmanagerError> {
        self.send(self.request(Method::DELETE, &["silence", id])).await.map(drop)
    }

    /// Returns the labels of the alerts in Alertmanager that meet all matchers.
    pub async fn alerts(&self, matchers: &[SilenceMatcher]) -> Result<Vec<Labels>, AlertmanagerError> {
        #[derive(Deserialize)]
        struct AlertAnswer {
            labels: Labels,
        }
        let filters: Vec<(&str, String)> = matchers.iter().map(|matcher| ("filter", matcher.filter())).collect();
        let all: Vec<AlertAnswer> = self.json(self.request(Method::GET, &["alerts"]).query(&filters)).await?;
        Ok(all.into_iter().map(|alert| alert.labels).collect())
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        // The id is entered by a person: escaping keeps it inside one segment of the path.
        let path: Vec<String> =
            path.iter().map(|part| url::form_urlencoded::byte_serialize(part.as_bytes()).collect()).collect();
        self.http.request(method, format!("{}/api/v2/{}", self.base, path.join("/")))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Vec<u8>, AlertmanagerError> {
        let response = request.send().await.map_err(AlertmanagerError::of)?;
        let status = response.status();
        let body = read(response).await?;
        if status.is_success() {
            return Ok(body);
        }
        let text: String = match serde_json::from_slice::<Value>(&body) {
            Ok(Value::String(text)) => text,
            Ok(value) => value["message"].as_str().unwrap_or_default().to_owned(),
            Err(_) => String::from_utf8_lossy(&body).into_owned(),
        };
        Err(AlertmanagerError::Refused {
            status: status.as_u16(),
            said: text.trim().chars().take(ERROR_CHARS).collect(),
        })
    }

    async fn json<T: for<'de> Deserialize<'de>>(&self, request: RequestBuilder) -> Result<T, AlertmanagerError> {
        let body = self.send(request).await?;
        serde_json::from_slice(&body).map_err(|e| AlertmanagerError::NotAlertmanager(e.to_string()))
    }
}

async fn read(response: Response) -> Result<Vec<u8>, AlertmanagerError> {
    read_body(response, ANSWER_BYTES).await.map_err(|error| match error {
        ResponseBodyError::TooLarge(_) => AlertmanagerError::NotAlertmanager(error.to_string()),
        ResponseBodyError::Broken(error) => AlertmanagerError::of(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str, labels: &[(&str, &str)]) -> Alertmanager {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Alertmanager::new(&Config { url: url.into(), labels, ..Config::default() }).unwrap()
    }

    #[test]
    fn the_first_that_matches_is_used_and_its_peers_stand_by() {
        let all =
            [at("http://eu-a", &[("cluster", "eu")]), at("http://us", &[]), at("http://eu-b", &[("cluster", "eu")])];
        let urls = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            chosen(&all, &labels).iter().map(|one| one.url.clone()).collect::<Vec<_>>()
        };
        assert_eq!(urls(&[("cluster", "eu")]), ["http://eu-a", "http://eu-b"]);
        assert_eq!(urls(&[]), ["http://us"]);
        assert!(chosen(&all[..1], &Labels::new()).is_empty());
    }

    #[test]
    fn a_matcher_quotes_what_it_is_given() {
        assert_eq!(SilenceMatcher::equal("model", "a\"b\\").to_string(), r#"model="a\"b\\""#);
    }
}
