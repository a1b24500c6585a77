//! A pool's series as OpenMetrics text, exactly as they were scraped; `bundle open` loads them again.
//!
//! Each metric that a signal of the detected engines reads is queried by itself, one after the other with the next
//! ones already requested: answers stay small and the series of a metric stay together. Range selectors return no
//! stale markers, so in the file a target that vanished seems to live five minutes longer, as in every backfilled
//! Prometheus; its `up` is exact. Native histograms have no text format and are left out.

mod names;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::Timestamp;

use detect::{detection, read_detection};
use diagnose::times;
use findings::Request;
use findings::facts::Window;
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::gap::{Gap, GapReason};
use knowledge::playbook::Library;
use names::{Group, selector};
use prom::{PromError, Prometheus, Stream};
use redact::Redactor;
use text::{OpenMetricsWriter, SeriesEnd};

/// The name of the file in the bundle.
pub const FILE: &str = "series.om";

/// Target number of samples per answer, about 30 MB of JSON. Servers have limits of their own; a refused query is
/// split.
const ANSWER_SAMPLES: f64 = 1e6;
/// Maximum parts into which a metric's time is divided up front.
const MOST_PARTS: u32 = 64;
/// Maximum times that a refused time range is halved.
const HALVINGS: u32 = 5;
/// Queries in flight: one answer is read while Prometheus works on the next.
const AHEAD: usize = 3;
/// Failures in a row after which Prometheus counts as unavailable.
const AWAY: usize = 3;
/// Samples per second if the scrape interval is unknown.
const USUAL_RATE: f64 = 1.0 / 15.0;
/// The range in seconds for counting samples.
const RATE_SECONDS: u64 = 600;
/// Maximum targets listed in one selector.
const TARGETS: usize = 1_000;
/// Maximum names shown of a list.
const NAMED: usize = 12;

/// The result of writing the series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of series.
    pub series: u64,
    /// Number of samples.
    pub samples: u64,
    /// Number of queries.
    pub queries: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Left-out metrics or parts, each with the reason.
    pub left_out: Vec<Gap>,
}

/// Writes the pool's series of the window, and of the times that the request's diagnosis reads, until the size limit
/// is reached or the deadline passes; metrics of the request's playbook come first. Never fails as a whole.
///
/// `out` is written from blocking threads and flushed at the end; the text always ends with the terminator.
#[allow(clippy::too_many_arguments, reason = "each is another thing; a struct for them would be named once")]
pub async fn write(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    window: Window,
    bytes: u64,
    redactor: &Redactor,
    out: impl Write + Send + 'static,
    deadline: Instant,
) -> Written {
    let text = Arc::new(Mutex::new(OpenMetricsWriter::new(out, FILE, redactor, bytes)));
    let mut export = Export { prometheus, deadline, queries: 1, left: BTreeMap::new(), away: 0, text: text.clone() };
    match prometheus.query(&detection(library), request.at, deadline).await {
        Ok(rows) => {
            let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
            let detected = read_detection(library, &request.scope, &rows);
            let mut groups = Vec::new();
            for group in names::groups(library, request, &detected) {
                groups.extend(export.bound(group, request, window).await);
            }
            let metrics = export.sized(&groups, request, window).await;
            export.all(metrics).await;
        }
        Err(error) => export.leave("all series".to_owned(), GapReason::failed(error)),
    }
    let Export { queries, left, .. } = export;
    let end = tokio::task::spawn_blocking(move || {
        let mut text = lock(&text);
        text.finish();
        (text.series, text.samples, text.bytes(), text.unwritable, text.end.take())
    });
    let mut written = Written { queries, left_out: left_out_by_reason(left), ..Written::default() };
    if let Ok((series, samples, bytes, unwritable, end)) = end.await {
        (written.series, written.samples, written.bytes) = (series, samples, bytes);
        if unwritable > 0 {
            let why = "native histograms, or names that OpenMetrics text cannot hold";
            written.left_out.push(Gap::absent(format!("{unwritable} series"), why));
        }
        if let Some(SeriesEnd::Broken(error)) = end {
            written.left_out.push(Gap::failed("the end of the file", format!("it could not be written: {error}")));
        }
    }
    written
}

/// A metric and the sources to query for it.
struct Metric {
    name: String,
    /// Matchers of each source that has the metric.
    scopes: Vec<String>,
    series: f64,
    pieces: Vec<Piece>,
    later: bool,
}

/// A time range in unix milliseconds; the start is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    after: i64,
    to: i64,
}

impl Piece {
    fn seconds(self) -> f64 {
        (self.to - self.after) as f64 / 1e3
    }

    /// Divides the range into `n` parts.
    fn parts(self, n: u32) -> impl DoubleEndedIterator<Item = Self> {
        let at = move |i: u32| self.after + (self.to - self.after) * i64::from(i) / i64::from(n);
        (0..n).map(move |i| Self { after: at(i), to: at(i + 1) })
    }
}

/// One range query.
#[derive(Debug, Clone)]
struct Job {
    name: String,
    selector: String,
    source: usize,
    piece: Piece,
    /// True for the first query of a metric.
    first: bool,
    halvings: u32,
}

struct Export<'a, W> {
    prometheus: &'a Prometheus,
    deadline: Instant,
    queries: u64,
    /// Left-out metrics by reason.
    left: BTreeMap<GapReason, Vec<String>>,
    /// Failures in a row.
    away: usize,
    text: Arc<Mutex<OpenMetricsWriter<W>>>,
}

impl<W: Write + Send + 'static> Export<'_, W> {
    fn leave(&mut self, name: String, why: GapReason) {
        let names = self.left.entry(why).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }

    /// Fills in the targets or nodes of a group that is defined by them; `None` if there are none, or if their query fails.
    async fn bound(&mut self, group: Group, request: &Request, window: Window) -> Option<Group> {
        let Some(selector) = &group.targets_of else { return Some(group) };
        let mut labels: Vec<(&str, BTreeSet<String>)> =
            group.bound_by.iter().map(|label| (*label, BTreeSet::new())).collect();
        for piece in pieces(request, window, Duration::ZERO) {
            let query =
                format!("group by ({}) (last_over_time({selector}[{}ms]))", group.bound_by.join(", "), span(piece));
            self.queries += 1;
            match self.prometheus.query(&query, clock::from_unix_ms(piece.to), self.deadline).await {
                Ok(rows) => {
                    for (label, values) in &mut labels {
                        // A pod that waits has no node: an empty name would select every series without that label.
                        let absent = (*label != names::NODE).then(String::new);
                        values
                            .extend(rows.iter().filter_map(|row| row.labels.get(*label).or(absent.as_ref()).cloned()));
                    }
                }
                Err(error) => {
                    group.metrics.keys().for_each(|name| self.leave(name.clone(), GapReason::failed(&error)));
                    return None;
                }
            }
        }
        // Some servers refuse a list of thousands; selecting without it includes other targets of these jobs.
        let bound = labels.iter().all(|(_, values)| !values.is_empty());
        let count = labels.iter().map(|(_, values)| values.len()).max().filter(|_| bound)?;
        let listed = labels.iter().filter(|(label, _)| !["instance", names::NODE].contains(label) || count <= TARGETS);
        let scope = listed.map(|(label, values)| names::one_of(label, values)).collect::<Vec<_>>().join(",");
        Some(Group { scope, ..group })
    }

    /// Returns the metrics that exist, with their number of series; those of the playbook first.
    async fn sized(&mut self, groups: &[Group], request: &Request, window: Window) -> Vec<Metric> {
        let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
        for group in groups {
            let longest = group.metrics.values().map(|need| need.reach).max().unwrap_or_default();
            for piece in pieces(request, window, longest) {
                let query = format!("count by (__name__) (last_over_time({}[{}ms]))", group.selector(), span(piece));
                self.queries += 1;
                let rows = match self.prometheus.query(&query, clock::from_unix_ms(piece.to), self.deadline).await {
                    Ok(rows) => rows,
                    Err(error) => {
                        let names: Vec<String> = group.metrics.keys().cloned().collect();
                        names.into_iter().for_each(|name| self.leave(name, GapReason::failed(&error)));
                        break;
                    }
                };
                for row in rows.iter() {
                    let Some(name) = row.labels.get("__name__") else { continue };
                    let metric = metrics.entry(name.clone()).or_insert_with(|| Metric {
                        name: name.clone(),
                        scopes: Vec::new(),
                        series: 0.0,
                        pieces: Vec::new(),
                        later: true,
                    });
                    let need = group.need(name);
                    metric.later &= need.later;
                    metric.series = metric.series.max(row.value);
                    metric.pieces.extend(pieces(request, window, need.reach));
                    if !metric.scopes.contains(&group.scope) {
                        metric.scopes.push(group.scope.clone());
                    }
                }
            }
        }
        let mut metrics: Vec<Metric> = metrics.into_values().collect();
        metrics.iter_mut().for_each(|metric| metric.pieces = merged(std::mem::take(&mut metric.pieces)));
        metrics.sort_by_key(|metric| metric.later);
        metrics
    }

    /// Returns the samples per second of a series, from the scraped targets.
    async fn rate(&mut self, at: Timestamp) -> f64 {
        self.queries += 1;
        let rows =
            self.prometheus.query(&format!("max(count_over_time(up[{RATE_SECONDS}s]))"), at, self.deadline).await;
        let counted = rows.ok().and_then(|rows| Some(rows.first()?.value)).filter(|counted| *counted >= 1.0);
        counted.map_or(USUAL_RATE, |counted| counted / RATE_SECONDS as f64)
    }

    /// Queries all metrics, in order.
    async fn all(&mut self, metrics: Vec<Metric>) {
        let Some(last) = metrics.iter().flat_map(|m| &m.pieces).map(|piece| piece.to).max() else { return };
        let rate = self.rate(clock::from_unix_ms(last)).await;
        // A list, because the compiler cannot prove `Send` for the iterator.
        let jobs: Vec<Job> = metrics.iter().flat_map(|metric| jobs(metric, rate)).collect();
        let mut jobs = jobs.into_iter().peekable();
        let (prometheus, deadline) = (self.prometheus, self.deadline);
        let mut under_way = futures::stream::iter(std::iter::from_fn(|| jobs.next()))
            .map(|job| async move { (open(prometheus, &job, deadline).await, job) })
            .buffered(AHEAD);
        let mut stopped_at = None;
        while let Some((opened, job)) = under_way.next().await {
            let name = job.name.clone();
            if let ControlFlow::Break(why) = self.write_answer(opened, job).await {
                stopped_at = Some((name, why));
                break;
            }
        }
        drop(under_way);
        if let Some((name, why)) = stopped_at {
            // Includes the current metric, since a part of it may be missing.
            let from = metrics.iter().position(|metric| metric.name == name).unwrap_or_default();
            for metric in &metrics[from..] {
                self.leave(metric.name.clone(), why.clone());
            }
        }
    }

    /// Writes one answer; halves the time range if it was too large. Breaks with the reason why nothing more can
    /// come.
    async fn write_answer(&mut self, opened: Result<Stream, PromError>, job: Job) -> ControlFlow<GapReason> {
        let mut todo = vec![(Some(opened), job)];
        while let Some((opened, job)) = todo.pop() {
            self.queries += 1;
            let opened = match opened {
                Some(opened) => opened,
                None => open(self.prometheus, &job, self.deadline).await,
            };
            let answer = match opened {
                Ok(stream) => self.taken(stream, &job).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(warnings) => {
                    self.away = 0;
                    for warning in warnings {
                        self.leave(format!("parts of {}", job.name), GapReason::Failed(warning));
                    }
                }
                Err(error) if error.is_too_much() && job.halvings < HALVINGS => {
                    let halves = job.piece.parts(2).rev();
                    todo.extend(halves.map(|piece| (None, Job { piece, halvings: job.halvings + 1, ..job.clone() })));
                }
                Err(PromError::Late) => return ControlFlow::Break(GapReason::failed(PromError::Late)),
                Err(error) => {
                    self.away = if error.is_unavailable() { self.away + 1 } else { 0 };
                    self.leave(job.name.clone(), GapReason::failed(&error));
                    if self.away >= AWAY {
                        return ControlFlow::Break(GapReason::failed(error));
                    }
                }
            }
            if let Some(end) = &lock(&self.text).end {
                return ControlFlow::Break(match end {
                    SeriesEnd::Full => {
                        GapReason::Absent("the bound for series was reached (`bundle.series_bytes`)".to_owned())
                    }
                    SeriesEnd::Broken(error) => GapReason::Failed(format!("it could not be written: {error}")),
                });
            }
        }
        ControlFlow::Continue(())
    }

    async fn taken(&self, stream: Stream, job: &Job) -> Result<Vec<String>, PromError> {
        let (text, source, Piece { after, to }) = (self.text.clone(), job.source, job.piece);
        if job.first {
            lock(&text).metric();
        }
        stream.each(move |raw| lock(&text).take(raw, source, after, to)).await
    }
}

async fn open(prometheus: &Prometheus, job: &Job, deadline: Instant) -> Result<Stream, PromError> {
    let length = Duration::from_millis(u64::try_from(span(job.piece)).unwrap_or(1));
    prometheus.stream(&job.selector, clock::from_unix_ms(job.piece.to), length, deadline).await
}

/// Returns the range of a selector in milliseconds; only before Prometheus 3 does the range include its start.
fn span(piece: Piece) -> i64 {
    (piece.to - piece.after).max(1)
}

/// Returns the queries of one metric: source by source, each in order of time.
fn jobs(metric: &Metric, rate: f64) -> impl Iterator<Item = Job> {
    let part = move |piece: &Piece| {
        let expected = metric.series * piece.seconds() * rate / ANSWER_SAMPLES;
        // A cast from float to integer saturates.
        piece.parts((expected.ceil() as u32).clamp(1, MOST_PARTS)).collect::<Vec<_>>()
    };
    let pieces: Vec<Piece> = metric.pieces.iter().flat_map(part).collect();
    let sources = metric.scopes.iter().enumerate();
    let all =
        sources.flat_map(move |(source, scope)| pieces.clone().into_iter().map(move |piece| (source, scope, piece)));
    all.enumerate().map(|(i, (source, scope, piece))| Job {
        name: metric.name.clone(),
        selector: selector("=", &metric.name, scope),
        source,
        piece,
        first: i == 0,
        halvings: 0,
    })
}

/// Returns the window and the times that the request's diagnosis reads, for queries with a range of `reach`.
fn pieces(request: &Request, window: Window, reach: Duration) -> Vec<Piece> {
    let of = |(from, to): (Timestamp, Timestamp)| Piece { after: clock::unix_ms(from) - 1, to: clock::unix_ms(to) };
    let all = std::iter::once((window.from, window.to)).chain(times(request, reach));
    merged(all.map(of).filter(|piece| piece.after < piece.to).collect())
}

/// Sorts the ranges and merges those that touch or overlap.
fn merged(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| piece.after);
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match out.last_mut() {
            Some(last) if piece.after <= last.to => last.to = last.to.max(piece.to),
            _ => out.push(piece),
        }
    }
    out
}

/// Lists what was left out by reason, with long lists shortened.
fn left_out_by_reason(left_out: BTreeMap<GapReason, Vec<String>>) -> Vec<Gap> {
    let listed = |names: Vec<String>| match names.len() {
        n if n > NAMED => format!("{} and {} more", names[..NAMED].join(", "), n - NAMED),
        _ => names.join(", "),
    };
    left_out.into_iter().map(|(why, names)| Gap::new(listed(names), why)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_touch_are_asked_once_and_parts_leave_no_gap() {
        let piece = |after, to| Piece { after, to };
        assert_eq!(
            merged(vec![piece(50, 90), piece(0, 10), piece(5, 20), piece(20, 30)]),
            [piece(0, 30), piece(50, 90)]
        );
        assert_eq!(piece(0, 10).parts(3).collect::<Vec<_>>(), [piece(0, 3), piece(3, 6), piece(6, 10)]);
    }

    #[test]
    fn a_large_metric_is_asked_in_parts_and_each_source_begins_anew() {
        let metric = Metric {
            name: "a".into(),
            scopes: vec![String::new(), "b=\"c\"".into()],
            series: 10_000.0,
            pieces: vec![Piece { after: 0, to: 3_600_000 }],
            later: false,
        };
        let jobs: Vec<Job> = jobs(&metric, 1.0 / 15.0).collect();
        assert_eq!(jobs.iter().map(|j| j.piece.to).collect::<Vec<_>>(), [1_200_000, 2_400_000, 3_600_000].repeat(2));
        assert_eq!(jobs.iter().map(|j| j.first).filter(|first| *first).count(), 1);
        assert_eq!(
            (jobs[0].selector.as_str(), jobs[5].selector.as_str()),
            ("{__name__=\"a\"}", "{__name__=\"a\",b=\"c\"}")
        );
    }

    #[test]
    fn what_was_left_out_is_told_by_reason_and_never_as_an_endless_list() {
        let names: Vec<String> = (0..20).map(|i| format!("m{i:02}")).collect();
        let gaps = left_out_by_reason([(GapReason::failed("late"), names)].into());
        assert!(gaps[0].what.ends_with("m11 and 8 more") && gaps[0].reason.as_str() == "late", "{gaps:?}");
    }
}
