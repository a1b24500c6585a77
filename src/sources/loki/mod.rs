//! Reads logs from Loki over its HTTP API; only queries, with limits on bytes, pages and time.

mod answer;
mod config;
mod error;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use serde::Deserialize;

use answer::{Entry, Gathered};
pub use config::Config;
pub use error::LokiError;
use http_client::{ResponseBodyError, media_type, read_beginning, read_body};
use knowledge::alert::Labels;
use knowledge::signal::any_of;
use logs::{HEAD_BYTES, Log, joined};

/// Timeout of one query; a query over object storage takes seconds.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest answer that is read, in bytes.
const ANSWER_BYTES: usize = 8 << 20;
/// Maximum number of bytes of an error body that are read.
const REFUSAL_BYTES: usize = 4 << 10;
/// Lines of the first page; Loki's default limit is 5000.
const LINES: u64 = 2_000;
/// Minimum number of lines of a page; if these are too large, the query fails.
const LINES_LEAST: u64 = 10;
/// Lines that are queried for the start of a truncated log.
const HEAD_LINES: u64 = 500;
/// Maximum number of pages of one query.
const PAGES_MOST: usize = 64;
/// Maximum number of queries for one incident. More pods share a query; separate queries keep a verbose pod from using
/// the space of the others.
const QUERIES_MOST: usize = 16;
/// Maximum number of concurrent queries.
const AT_ONCE: usize = 3;

/// A client of one Loki; cheap to clone.
#[derive(Clone)]
pub struct Loki {
    /// The address for display, without password.
    pub url: String,
    /// Labels that all firing alerts must have for this Loki to be queried.
    pub labels: Labels,
    base: String,
    namespace: String,
    pod: String,
    http: reqwest::Client,
}

impl std::fmt::Debug for Loki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loki").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Loki {
    /// Creates a client; sends nothing.
    ///
    /// # Errors
    /// When the address or a header is malformed, or a secret cannot be read.
    pub fn new(config: &Config) -> Result<Self, LokiError> {
        let (base, url) = config.address()?;
        let http = http_client::builder(Duration::from_secs(3))
            .default_headers(config.headers()?)
            .build()
            .map_err(|e| LokiError::Other(format!("cannot prepare the HTTP client: {e}")))?;
        let (namespace, pod) = (config.namespace.clone(), config.pod.clone());
        Ok(Self { url, labels: config.labels.clone(), base, namespace, pod, http })
    }

    /// Returns the logs of these pods, or of the whole namespace if no pod is named: one log for each pod and
    /// container, oldest line first, in total about `bytes` of the newest lines.
    ///
    /// # Errors
    /// When neither namespace nor pod is named, or logs are missing; [`LokiError::Partly`] holds the received ones.
    pub async fn logs(
        &self,
        namespace: Option<&str>,
        pods: &[String],
        from: Timestamp,
        to: Timestamp,
        bytes: u64,
        deadline: Instant,
    ) -> Result<Vec<Log>, LokiError> {
        let pods: Vec<String> =
            pods.iter().filter(|pod| !pod.is_empty()).cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let groups: Vec<Vec<String>> = match pods.len().div_ceil(QUERIES_MOST) {
            0 => vec![Vec::new()],
            size => pods.chunks(size).map(<[String]>::to_vec).collect(),
        };
        let share = bytes / groups.len() as u64;
        let reads = groups.into_iter().map(|group| async move {
            let outcome = match self.selector(namespace, &group) {
                Ok(selector) => match self.read(&selector, from, to, share, deadline).await {
                    // The start is optional: without it the rest is still useful.
                    Ok((gathered, true)) => {
                        let starts = self.starts(&selector, from, to, deadline).await.unwrap_or_default();
                        Ok((gathered, starts, true))
                    }
                    Ok((gathered, false)) => Ok((gathered, Vec::new(), false)),
                    Err(error) => Err(error),
                },
                Err(error) => Err((Gathered::default(), error)),
            };
            (group, outcome)
        });
        let outcomes: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
        let (mut logs, mut missing, mut reason) = (Vec::new(), Vec::new(), None);
        for (group, outcome) in outcomes {
            match outcome {
                Ok((gathered, starts, cut)) => {
                    let pod_logs = gathered.logs(share, cut);
                    let each = share / pod_logs.len().max(1) as u64;
                    logs.extend(pod_logs.into_iter().map(|log| with_start(log, &starts, each)));
                }
                Err((gathered, error)) => {
                    // The lines received before the failure are the newest.
                    logs.extend(gathered.logs(share, true));
                    missing.extend(group);
                    reason.get_or_insert(error);
                }
            }
        }
        match reason {
            None if logs.is_empty() => self.check_labels_exist(namespace, deadline).await.map(|()| logs),
            None => Ok(logs),
            Some(error) if logs.is_empty() => Err(error),
            Some(error) => Err(LokiError::Partly { logs, missing, why: Box::new(error) }),
        }
    }

    /// Checks that the server answers as Loki does; used to check a configuration.
    pub async fn ready(&self, deadline: Instant) -> Result<(), LokiError> {
        self.check_labels_exist(Some(""), deadline).await
    }

    /// Builds a selector such as `{namespace="llm",pod=~"llama-0|llama-1"}`.
    fn selector(&self, namespace: Option<&str>, pods: &[String]) -> Result<String, LokiError> {
        let namespace: Vec<String> = namespace.filter(|name| !name.is_empty()).map(str::to_owned).into_iter().collect();
        let parts: Vec<String> =
            [any_of(&self.namespace, &namespace), any_of(&self.pod, pods)].into_iter().flatten().collect();
        match parts.is_empty() {
            false => Ok(format!("{{{}}}", parts.join(","))),
            true => Err(LokiError::Other(
                "Loki is asked by namespace and pod, and neither is known, or `namespace` and `pod` of `loki:` are no \
                 label names"
                    .to_owned(),
            )),
        }
    }

    /// Reads pages backwards in time. If a later page fails, the error includes the lines so far. The flag is true if
    /// the log was truncated.
    async fn read(
        &self,
        selector: &str,
        from: Timestamp,
        to: Timestamp,
        bytes: u64,
        deadline: Instant,
    ) -> Result<(Gathered, bool), (Gathered, LokiError)> {
        let nanoseconds = |at: Timestamp| i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX);
        let (start, mut end, mut lines) = (nanoseconds(from), nanoseconds(to), LINES);
        let mut gathered = Gathered::default();
        let mut at_last_time: BTreeSet<Entry> = BTreeSet::new();
        for _ in 0..PAGES_MOST {
            if start >= end {
                return Ok((gathered, false));
            }
            let times = [("start", start.to_string()), ("end", end.to_string()), ("limit", lines.to_string())];
            let query = [("query", selector.to_owned()), ("direction", "backward".to_owned())];
            let page = match self.get("query_range", &[&query[..], &times[..]].concat(), deadline).await {
                Ok(body) => match answer::read(&body) {
                    Ok(page) => page,
                    Err(error) => return Err((gathered, error)),
                },
                Err(error) => match fewer(&error, lines) {
                    Some(less) => {
                        lines = less;
                        continue;
                    }
                    None => return Err((gathered, error)),
                },
            };
            let entry_count = page.iter().map(|stream| stream.entries.len() as u64).sum::<u64>();
            let oldest = page.iter().flat_map(|stream| &stream.entries).map(|entry| entry.at).min();
            let at_oldest =
                page.iter().flat_map(|s| &s.entries).filter(|e| Some(e.at) == oldest).cloned().collect::<BTreeSet<_>>();
            let before = gathered.bytes();
            gathered.add(page, &self.pod, &at_last_time);
            let Some(oldest) = oldest.filter(|_| entry_count >= lines) else { return Ok((gathered, false)) };
            if gathered.bytes() >= bytes {
                return Ok((gathered, true));
            }
            // The end is exclusive, and there may be more lines with the oldest timestamp: it is queried once more.
            end = if gathered.bytes() > before { oldest.saturating_add(1).min(end) } else { oldest };
            at_last_time = at_oldest;
        }
        Ok((gathered, true))
    }

    /// Returns the first lines of these logs in the time range: they describe the engine's configuration if it was
    /// started then.
    async fn starts(
        &self,
        selector: &str,
        from: Timestamp,
        to: Timestamp,
        deadline: Instant,
    ) -> Result<Vec<Log>, LokiError> {
        let mut lines = HEAD_LINES;
        loop {
            let query = [
                ("query", selector.to_owned()),
                ("direction", "forward".to_owned()),
                ("start", from.as_nanosecond().to_string()),
                ("end", to.as_nanosecond().to_string()),
                ("limit", lines.to_string()),
            ];
            match self.get("query_range", &query, deadline).await {
                Ok(body) => {
                    let mut gathered = Gathered::default();
                    let mut page = answer::read(&body)?;
                    // Logs are built from pages with the newest line first.
                    page.iter_mut().for_each(|stream| stream.entries.reverse());
                    gathered.add(page, &self.pod, &BTreeSet::new());
                    return Ok(gathered.logs(u64::MAX, true));
                }
                Err(error) => lines = fewer(&error, lines).ok_or(error)?,
            }
        }
    }

    /// Checks, after an empty answer, that Loki knows the labels used in the query.
    async fn check_labels_exist(&self, namespace: Option<&str>, deadline: Instant) -> Result<(), LokiError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            data: Vec<String>,
        }
        let body = self.get("labels", &[], deadline).await?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|e| LokiError::NotLoki(e.to_string()))?;
        let required = [(&self.pod, "pod"), (&self.namespace, "namespace")];
        let required = required.into_iter().filter(|(_, key)| *key == "pod" || namespace.is_some());
        // A Loki without recent logs returns no labels at all.
        let mut unknown = required.filter(|(label, _)| !answer.data.is_empty() && !answer.data.contains(label));
        match unknown.next() {
            None => Ok(()),
            Some((label, key)) => {
                let first_labels: Vec<&str> = answer.data.iter().map(String::as_str).take(20).collect();
                let known = first_labels.join(", ");
                Err(LokiError::Other(format!(
                    "Loki has no streams with the label `{label}`: set `{key}` of `loki:` to one of {known}"
                )))
            }
        }
    }

    async fn get(&self, what: &str, query: &[(&str, String)], deadline: Instant) -> Result<Vec<u8>, LokiError> {
        let until = deadline.min(Instant::now() + QUERY_TIMEOUT);
        let lines = query.iter().find(|(name, _)| *name == "limit").and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
        let call = async {
            let request = self.http.get(format!("{}/loki/api/v1/{what}", self.base)).query(query);
            let response = request.send().await.map_err(LokiError::of)?;
            let (status, media) = (response.status(), media_type(response.headers()));
            if !status.is_success() {
                let body = read_beginning(response, REFUSAL_BYTES).await;
                return Err(LokiError::refused(status.as_u16(), &media, &body));
            }
            read_body(response, ANSWER_BYTES).await.map_err(|error| match error {
                ResponseBodyError::TooLarge(bytes) => LokiError::TooLarge { bytes, lines },
                ResponseBodyError::Broken(error) => LokiError::of(error),
            })
        };
        tokio::time::timeout_at(until.into(), call).await.unwrap_or(Err(LokiError::Late))
    }
}

/// Puts the log's start before it; the start takes at most a quarter of the log's share, `bytes`.
fn with_start(mut log: Log, starts: &[Log], bytes: u64) -> Log {
    let own = |start: &&Log| start.pod == log.pod && start.container == log.container;
    if let Some(start) = starts.iter().find(own) {
        let most = usize::try_from((bytes / 4).min(HEAD_BYTES)).unwrap_or(usize::MAX).min(start.text.len());
        let head = &start.text[..start.text.floor_char_boundary(most)];
        // The timestamps before its lines do not count.
        let (head_and_tail, complete) = joined(head, &log.text, bytes.max(log.text.len() as u64));
        (log.text, log.cut) = (head_and_tail, log.cut && !complete);
    }
    log
}

/// Returns the number of lines for another attempt with a smaller page; `None` if a smaller page does not help.
fn fewer(error: &LokiError, lines: u64) -> Option<u64> {
    let less = match error {
        LokiError::TooLarge { .. } => lines / 8,
        // `max entries limit per query exceeded, limit > max_entries_limit_per_query (2000 > 500)`
        LokiError::Limit(said) if said.contains("max entries limit") => {
            let limit = said.rsplit_once('>').map(|(_, rest)| rest);
            let digits: String = limit?.chars().filter(char::is_ascii_digit).collect();
            digits.parse().ok()?
        }
        _ => return None,
    };
    (less < lines && less >= LINES_LEAST).then_some(less)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_inside_their_quotes() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let loki = Loki::new(&Config::default()).unwrap();
        let pods = ["a|b.*".to_owned(), "x\"} |= `y`\n".to_owned()];
        let selector = loki.selector(Some("n\"s"), &pods).unwrap();
        assert_eq!(selector, r#"{namespace="n\"s",pod=~"a\\|b\\.\\*|x\"\\} \\|= `y`\n"}"#);
        assert_eq!(loki.selector(None, &pods[..1]).unwrap(), r#"{pod="a|b.*"}"#);
        assert!(loki.selector(None, &[]).is_err() && loki.selector(Some(""), &[]).is_err());
        assert!(Loki::new(&Config { url: "loki".into(), ..Config::default() }).is_err());
    }
}
