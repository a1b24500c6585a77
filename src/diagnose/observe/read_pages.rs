//! Reads of metrics pages ─▶ the series that a Prometheus would have of them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::observe::batch::QueryAnswer;
use detect::names_behind;
use findings::{ExporterTarget, Request};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::Engine;
use prom::Recorded;
use sources::exporter::{ExporterError, Sample, attach};

/// Milliseconds after which a target of a record that no longer answers counts as down.
const SILENT: i64 = 30_000;
/// The time before the diagnosis of the last sample of an exporter that no longer answers, in milliseconds: within the hour
/// for which a replica that is gone belongs to its pool, and before what counts as now.
const GONE: i64 = 1_800_000;

/// The reads of one page.
#[derive(Debug, Clone, Default)]
pub struct PageReads {
    series: Recorded,
    /// The times of the reads in milliseconds, ascending; only their differences mean something.
    times: Vec<i64>,
    /// Metrics with a value that is negative or not finite, which is left out.
    unusable: BTreeSet<String>,
}

impl PageReads {
    /// Adds what a later read brought.
    pub fn add(&mut self, at: i64, samples: impl IntoIterator<Item = Sample>) {
        self.times.push(at);
        for Sample { name, labels, value } in samples {
            if value.is_finite() && value >= 0.0 {
                self.series.add(&name, labels, at, value);
            } else {
                self.unusable.insert(name);
            }
        }
    }

    /// Returns true if any read had a metric of this name.
    pub fn has(&self, name: &str) -> bool {
        self.series.series(name).next().is_some()
    }

    /// Returns the labels of series of these metrics on the last read, with the metric's name as one of them.
    pub(crate) fn labels_of(&self, metrics: impl IntoIterator<Item = String>) -> Vec<Labels> {
        let labels = metrics.into_iter().flat_map(|name| {
            let shown =
                self.series.series(&name).filter(|(_, points)| points.last().is_some_and(|(at, _)| *at == self.last()));
            shown.map(|(labels, _)| named(labels, &name)).collect::<Vec<_>>()
        });
        labels.collect()
    }

    /// Returns the same reads, with the labels of their target.
    pub(crate) fn attached(&self, target: &ExporterTarget) -> Self {
        let mut reads = Self { times: self.times.clone(), unusable: self.unusable.clone(), ..Self::default() };
        for (name, labels, points) in self.series.all() {
            let sample = Sample { name: String::new(), labels: Labels::clone(labels), value: 0.0 };
            reads.series.add_points(name, Arc::new(attach(target, sample).labels), points.iter().copied());
        }
        reads
    }

    fn last(&self) -> i64 {
        self.times.last().copied().unwrap_or_default()
    }

    /// Returns the time from the first to the last read; zero for a single one.
    pub(crate) fn span(&self) -> Duration {
        let apart = self.last() - self.times.first().copied().unwrap_or_default();
        Duration::from_millis(u64::try_from(apart).unwrap_or_default())
    }

    /// Returns true if a counter fell between two reads: the process was restarted, and increases mean nothing. Of more
    /// reads the others still tell it.
    pub(crate) fn anew(&self) -> bool {
        self.times.len() == 2 && self.series.fallen().next().is_some()
    }

    /// Returns the metrics that have no usable number.
    pub(crate) fn unusable(&self) -> impl Iterator<Item = &String> {
        self.unusable.iter()
    }
}

/// The reads of a page, or why there are none.
pub(crate) type ReadOutcome = Result<PageReads, ExporterError>;

/// An exporter and the result of reading it.
#[derive(Debug)]
pub(crate) struct PageRead<'a> {
    pub(crate) target: &'a ExporterTarget,
    pub(crate) engine: &'a Engine,
    pub(crate) outcome: &'a ReadOutcome,
    pub(crate) anew: bool,
}

/// Returns the visits to these exporters.
pub(crate) fn visits<'a>(library: &'a Library, outcomes: &'a [(ExporterTarget, ReadOutcome)]) -> Vec<PageRead<'a>> {
    let visit = |(target, outcome): &'a (ExporterTarget, ReadOutcome)| {
        let anew = outcome.as_ref().is_ok_and(PageReads::anew);
        Some(PageRead { target, engine: library.engines.get(&target.engine)?, outcome, anew })
    };
    outcomes.iter().filter_map(visit).collect()
}

impl PageRead<'_> {
    /// Returns the labels of its detection series.
    pub(crate) fn detected(&self) -> Vec<Labels> {
        self.outcome.as_ref().map(|reads| reads.labels_of(self.engine.detected_by())).unwrap_or_default()
    }

    /// Returns true if the exporter is gone that is expected: configured, or listed within the last hour. A failed
    /// connection may be our own network, so it counts only if another exporter of the engine answered.
    fn is_gone(&self, request: &Request, others: &[Self]) -> bool {
        let known = self.target.seen.is_none_or(|seen| request.at.duration_since(seen).as_secs() <= 3_600);
        let answered = || others.iter().any(|v| v.engine.engine == self.engine.engine && v.outcome.is_ok());
        known
            && match self.outcome {
                Ok(_) => false,
                Err(ExporterError::Unreachable(_)) => answered(),
                Err(error) => error.is_gone(),
            }
    }

    /// Returns the labels that the series of an exporter had that is gone: the target's, and those of the scope.
    fn gone_labels(&self, request: &Request) -> Labels {
        let mut labels = self.target.labels.clone();
        for (dimension, value) in &request.scope.dimensions {
            let own = self.engine.scope.get(dimension).into_iter().flatten();
            if let Some(first) = own.clone().next().filter(|_| own.clone().all(|label| !labels.contains_key(label))) {
                labels.insert(first.clone(), value.clone());
            }
        }
        labels
    }
}

fn named(labels: &Labels, name: &str) -> Labels {
    let mut labels = labels.clone();
    labels.insert("__name__".to_owned(), name.to_owned());
    labels
}

/// The pages that a diagnosis read, each once, and their series as of the time of the request.
#[derive(Debug)]
pub(crate) struct ReadPages {
    /// The exporters, each with what came of reading it.
    pub(crate) outcomes: Vec<(ExporterTarget, ReadOutcome)>,
    /// Number of exporters that were too many.
    pub(crate) left_out: usize,
    /// The labels of the series that detect the engines, tell their version or name what is behind them.
    pub(crate) detected: Vec<Labels>,
    /// The time that all reads cover; `None` without a second read of any page.
    pub(crate) window: Option<Duration>,
    recorded: Recorded,
    /// The time of the request, in unix milliseconds.
    at: i64,
    answers: Mutex<BTreeMap<String, QueryAnswer>>,
}

impl ReadPages {
    /// Joins the reads of all pages. A Prometheus marks a target that it cannot read as down, and keeps its last samples.
    pub(crate) fn of(
        library: &Library,
        request: &Request,
        outcomes: Vec<(ExporterTarget, ReadOutcome)>,
        left_out: usize,
    ) -> Self {
        let visits = visits(library, &outcomes);
        let (at, up) = (request.at.as_millisecond(), "up");
        let (mut recorded, mut detected) = (Recorded::default(), Vec::new());
        // The targets of a record share its clock; pages that were read twice end together.
        let records =
            visits.iter().filter_map(|visit| visit.outcome.as_ref().ok()).filter(|reads| reads.times.len() > 2);
        let newest = records.map(PageReads::last).max();
        let end = |reads: &PageReads| newest.filter(|_| reads.times.len() > 2).unwrap_or(reads.last());
        let is_silent = |reads: &PageReads| end(reads) - reads.last() > SILENT;
        for visit in &visits {
            match visit.outcome {
                Ok(reads) => {
                    let since = if visit.anew { reads.last() } else { i64::MIN };
                    recorded.add_all(&reads.series, since, at - end(reads));
                    for time in reads.times.iter().filter(|time| **time >= since) {
                        recorded.add(up, visit.target.labels.clone(), at - end(reads) + time, 1.0);
                    }
                    if is_silent(reads) {
                        recorded.add(up, visit.target.labels.clone(), at, 0.0);
                    }
                    detected.extend(reads.labels_of(probes(visit.engine)));
                }
                Err(_) if visit.is_gone(request, &visits) => {
                    let labels = visit.gone_labels(request);
                    detected.push(named(&labels, &visit.engine.detect));
                    recorded.add(&visit.engine.detect, labels, at - GONE, 0.0);
                    recorded.add(up, visit.target.labels.clone(), at, 0.0);
                }
                Err(_) => {}
            }
        }
        let whole = visits.iter().filter_map(|visit| visit.outcome.as_ref().ok()).filter(|reads| !is_silent(reads));
        let spans = whole.map(PageReads::span);
        let window = spans.filter(|span| !span.is_zero()).min();
        Self { outcomes, left_out, detected, window, recorded, at, answers: Mutex::default() }
    }

    /// Answers a query; what was asked before is not evaluated again, unless it was late.
    pub(crate) fn answer(&self, query: String, deadline: Instant) -> QueryAnswer {
        let known = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = known().get(&query) {
            return answer.clone();
        }
        let answer = self.recorded.query(&query, self.at, deadline).map(Arc::new).map_err(Arc::new);
        if !answer.as_ref().is_err_and(|error| error.is_late()) {
            known().insert(query, answer.clone());
        }
        answer
    }
}

/// Returns the series that detect an engine, tell its version, or name the engines behind it.
fn probes(engine: &Engine) -> BTreeSet<String> {
    let probes = engine.versions.iter().map(|probe| probe.metric.as_str()).chain(engine.detection_series());
    probes.flat_map(|name| engine.spellings(name)).map(|(_, name)| name).chain(behind(engine)).collect()
}

/// Returns the series that name the engines behind a gateway.
pub(crate) fn behind(engine: &Engine) -> impl Iterator<Item = String> {
    engine.backends.iter().flat_map(|of| names_behind(engine, of))
}
