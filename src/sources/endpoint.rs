//! Information that engines return over HTTP beside their metrics: `/version`, `/v1/models`, `/server_info`.
//!
//! Only paths that the engine's signal file lists, only GET, only addresses that `exporters.allow` allows, never a
//! credential. Few replicas are requested: they represent the others, and an overloaded engine needs no extra load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};

use crate::exporter::{Bounds, ExporterError, ExporterReader, HttpResponse};
use findings::ExporterTarget;
use findings::endpoint::{AnswerBody, EndpointAnswer, NO_SUCH_PATH, WANTS_A_KEY};
use knowledge::playbook::Library;
use knowledge::signal::Endpoint;
use knowledge::signal::endpoint::{forbidden, shown};

/// Maximum number of replicas.
pub const TARGETS_MOST: usize = 16;
/// Maximum number of replicas whose whole metrics page is read.
const PAGES_MOST: usize = 4;
/// Concurrent replicas. Diagnoses read exporters through the same reader, which has as many slots.
const AT_ONCE: usize = 8;
/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum bytes of an answer; vLLM's `/server_info` has about 0.1 MB.
const ANSWER_BYTES: usize = 2 << 20;
/// Maximum bytes of a metrics page.
const PAGE_BYTES: usize = 16 << 20;
/// Maximum bytes that are retained of a text answer that is not a metrics page.
const TEXT_BYTES: usize = 64 << 10;
/// Memory limit of all answers together, in bytes.
const MAX_ANSWER_BYTES: usize = 96 << 20;
/// The ratio of the memory of a JSON tree to its text; the maximum, reached by hostile arrays of numbers.
const JSON_TREE_FACTOR: usize = 16;
/// Timeouts after which a replica is not requested again.
const MAX_TIMEOUTS: usize = 2;
/// Maximum length of an error's text, in characters.
const REASON_CHARS: usize = 160;

/// Requests from `targets` the paths that their engines list; engines take turns, targets keep the given order.
///
/// Every path of every chosen replica has an answer or a reason; targets beyond [`TARGETS_MOST`] are left out.
pub async fn request_endpoints(
    reader: &ExporterReader,
    library: &Library,
    targets: &[ExporterTarget],
    deadline: Instant,
) -> Vec<EndpointAnswer> {
    let room = &Room(AtomicUsize::new(MAX_ANSWER_BYTES));
    let visits = chosen(targets).into_iter().enumerate().map(|(place, target)| {
        let listed = library.engines.get(&target.engine).map(|e| e.endpoints.as_slice()).unwrap_or_default();
        let visit = ReplicaRequests { reader, target, room, deadline, late: 0, over: None, answers: Vec::new() };
        visit.make(listed, place < PAGES_MOST)
    });
    // They are collected first, because a lazy stream of them is not `Send`.
    let visits: Vec<_> = visits.collect();
    let answers: Vec<Vec<EndpointAnswer>> = stream::iter(visits).buffered(AT_ONCE).collect().await;
    answers.into_iter().flatten().collect()
}

/// Chooses the replicas: one of every engine before the second of any; deduplicates URLs.
fn chosen(targets: &[ExporterTarget]) -> Vec<&ExporterTarget> {
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, &ExporterTarget)> = Vec::new();
    for target in targets {
        if ranked.iter().any(|(_, other)| other.engine == target.engine && other.url == target.url) {
            continue;
        }
        let turn = turns.entry(&target.engine).or_default();
        ranked.push((*turn, target));
        *turn += 1;
    }
    ranked.sort_by_key(|(turn, _)| *turn);
    ranked.into_iter().take(TARGETS_MOST).map(|(_, target)| target).collect()
}

/// The memory that is left for all answers, in bytes.
struct Room(AtomicUsize);

impl Room {
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// The requests to one replica.
struct ReplicaRequests<'a> {
    reader: &'a ExporterReader,
    target: &'a ExporterTarget,
    room: &'a Room,
    deadline: Instant,
    late: usize,
    over: Option<String>,
    answers: Vec<EndpointAnswer>,
}

impl ReplicaRequests<'_> {
    async fn make(mut self, listed: &[Endpoint], with_page: bool) -> Vec<EndpointAnswer> {
        for endpoint in listed {
            let mut paths = endpoint.paths().peekable();
            while let Some(path) = paths.next() {
                let body = match forbidden(&self.target.engine, path) {
                    Some(why) => AnswerBody::Nothing(format!("was not asked: {why}")),
                    None => match place(&self.target.url, endpoint.port, path) {
                        Some(url) => self.get(&url, false).await,
                        None => AnswerBody::Nothing("was not asked: its address cannot be read".to_owned()),
                    },
                };
                let unknown = body == AnswerBody::Nothing(NO_SUCH_PATH.to_owned());
                if !(unknown && paths.peek().is_some()) {
                    self.note(shown(path), body);
                    break;
                }
            }
        }
        if with_page {
            let path =
                url::Url::parse(&self.target.url).map_or_else(|_| "/metrics".to_owned(), |u| u.path().to_owned());
            let url = self.target.url.clone();
            let body = self.get(&url, true).await;
            self.note(&path, body);
        }
        self.answers
    }

    fn note(&mut self, path: &str, body: AnswerBody) {
        let (engine, target) = (self.target.engine.clone(), self.target.name());
        self.answers.push(EndpointAnswer { engine, target, path: path.to_owned(), said: body });
    }

    async fn get(&mut self, url: &str, metrics: bool) -> AnswerBody {
        if let Some(why) = &self.over {
            return AnswerBody::Nothing(format!("was not asked: it {why}"));
        }
        if Instant::now() >= self.deadline {
            return AnswerBody::Nothing("was not asked: the time was up".to_owned());
        }
        let accept = if metrics { "text/plain;version=0.0.4,*/*;q=0.1" } else { "application/json,*/*;q=0.5" };
        let bytes = if metrics { PAGE_BYTES } else { ANSWER_BYTES };
        let bounds = Bounds { bytes, within: REQUEST_TIMEOUT, deadline: self.deadline };
        match self.reader.get(url, accept, &bounds).await {
            Ok(page) if page.status == 404 => AnswerBody::Nothing(NO_SUCH_PATH.to_owned()),
            Ok(page) if [401, 403].contains(&page.status) => {
                AnswerBody::Nothing(format!("{WANTS_A_KEY} (HTTP {})", page.status))
            }
            Ok(page) if !(200..300).contains(&page.status) => AnswerBody::Nothing(refusal(&page)),
            Ok(page) => self.read_body(page, metrics),
            Err(error) => AnswerBody::Nothing(self.failure(error)),
        }
    }

    /// Describes a failure. A replica that is unreachable or repeatedly times out is not requested again.
    fn failure(&mut self, error: ExporterError) -> String {
        let why = match &error {
            ExporterError::Redirect => {
                "answered with a redirect, which is not followed: it may lead anywhere".to_owned()
            }
            ExporterError::NotMetrics(why) => format!("did not answer properly: {why}"),
            other => other.to_string(),
        };
        self.late += usize::from(error == ExporterError::Late);
        let away =
            matches!(error, ExporterError::Refused | ExporterError::Unreachable(_) | ExporterError::NotAllowed(_));
        if away || self.late >= MAX_TIMEOUTS {
            self.over = Some(why.clone());
        }
        why
    }

    fn read_body(&self, page: HttpResponse, metrics: bool) -> AnswerBody {
        let HttpResponse { media, bytes, .. } = page;
        let length = bytes.len();
        let Ok(mut text) = String::from_utf8(bytes) else {
            return AnswerBody::Nothing(format!("answered with {length} bytes that are no text"));
        };
        if media == "text/html" || text.trim_start().to_ascii_lowercase().starts_with("<!doctype html") {
            let hint = "another program listens there, or a login page is in front of it";
            return AnswerBody::Nothing(format!("answered with a web page: {hint}"));
        }
        let full =
            || AnswerBody::Nothing("was left out: the answers so far take all the memory that is given".to_owned());
        if metrics {
            return if self.room.take(length) { AnswerBody::Text(text) } else { full() };
        }
        if !self.room.take(length * JSON_TREE_FACTOR) {
            return full();
        }
        match serde_json::from_str(&text) {
            Ok(value) => AnswerBody::Json(value),
            Err(error) if media.ends_with("json") => {
                AnswerBody::Nothing(format!("answered with JSON that cannot be read: {error}"))
            }
            Err(_) if text.is_empty() => AnswerBody::Text("HTTP 200".to_owned()),
            Err(_) if text.chars().any(|c| c.is_control() && !c.is_ascii_whitespace()) => {
                AnswerBody::Nothing(format!("answered with {length} bytes that are no text"))
            }
            Err(_) => {
                text.truncate(text.floor_char_boundary(TEXT_BYTES));
                text.shrink_to_fit();
                AnswerBody::Text(text)
            }
        }
    }
}

/// Builds the URL of `path` on the metrics page's host, or on another port of it; the page's query and fragment are
/// dropped.
fn place(metrics: &str, port: Option<u16>, path: &str) -> Option<String> {
    let mut url = url::Url::parse(metrics).ok()?;
    if let Some(port) = port {
        url.set_port(Some(port)).ok()?;
    }
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    url.set_path(path);
    url.set_query(query);
    url.set_fragment(None);
    Some(url.into())
}

/// Describes an error response: its status and the start of its body.
fn refusal(page: &HttpResponse) -> String {
    let text = String::from_utf8_lossy(&page.bytes);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
    match line.is_empty() || page.media == "text/html" {
        true => format!("answered HTTP {}", page.status),
        false => format!("answered HTTP {}: {line}", page.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::alert::Labels;

    fn target(engine: &str, url: &str) -> ExporterTarget {
        ExporterTarget { engine: engine.to_owned(), url: url.to_owned(), labels: Labels::new(), seen: None }
    }

    #[test]
    fn every_engine_has_its_turn_before_the_second_replica_of_any() {
        let mut targets: Vec<ExporterTarget> =
            (0..40).map(|i| target("vllm", &format!("http://10.0.0.{i}/metrics"))).collect();
        targets.push(target("vllm", "http://10.0.0.0/metrics"));
        targets.push(target("litellm", "http://10.0.1.1/metrics"));
        let urls: Vec<&str> = chosen(&targets).into_iter().map(|t| t.url.as_str()).collect();
        assert_eq!(urls.len(), TARGETS_MOST);
        assert_eq!(urls[..3], ["http://10.0.0.0/metrics", "http://10.0.1.1/metrics", "http://10.0.0.1/metrics"]);
        assert_eq!(urls.iter().filter(|url| **url == "http://10.0.0.0/metrics").count(), 1);
    }

    #[test]
    fn a_path_takes_nothing_of_the_metrics_address_but_scheme_host_and_port() {
        let at = |path| place("https://h:8002/prometheus/metrics?token=x#y", None, path).unwrap();
        assert_eq!(at("/version"), "https://h:8002/version");
        assert_eq!(at("/server_info?config_format=json"), "https://h:8002/server_info?config_format=json");
        assert_eq!(place("http://[fd00::1]:8002/metrics", Some(8000), "/v2").unwrap(), "http://[fd00::1]:8000/v2");
        assert_eq!(place("no address", None, "/v2"), None);
    }
}
