//! Findings in logs as observations.
//!
//! A log without findings changes nothing: only a first root error makes the other errors a "no", since it was the
//! actual one. The text of a log stays here; only the meaning of its lines is passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::observe::gather::merge;
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::needs;
use findings::ReplicaValue;
use findings::observation::{Observation, reduce};
use findings::{LogError, LogRead, LogsRead, Request, ValueSource};
use knowledge::clock;
use knowledge::gap::Gap;
use knowledge::playbook::{Library, LogRank};
use logs::{Log, LogAnalysis, LogMatch, LogReader, Patterns, UnknownLine};

/// Time within which a root error follows from the one before it in the same log: a collective operation notices a
/// dead peer after its timeout, which is ten minutes by default.
const SAME_FAULT_WITHIN: Duration = Duration::from_secs(900);
/// Maximum number of logs that are read in one diagnosis.
const MAX_LOGS: usize = 64;
/// Maximum clock difference between nodes.
const SKEW: Duration = Duration::from_secs(60);

/// Signals derived from logs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogFindings {
    /// Signal ─▶ replica ─▶ number of lines; zero if a first root error shows that it was another error.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// Signal ─▶ time of its first line.
    pub since: BTreeMap<String, Timestamp>,
    /// Signal ─▶ replica ─▶ median of the values in its statistics lines.
    pub values: BTreeMap<String, BTreeMap<String, f64>>,
    /// The replicas whose logs were read.
    pub replicas: BTreeSet<String>,
    /// The logs.
    pub read: Vec<LogRead>,
}

/// Derives signals from the log lines between `since` and `at`.
///
/// Statistics are of the last `window` before `at`, like the values of Prometheus.
pub fn log_findings(library: &Library, logs: &[Log], since: Timestamp, at: Timestamp, window: Duration) -> LogFindings {
    let mut findings = LogFindings::default();
    let until = clock::after(at, SKEW);
    let patterns = Patterns::new(library.logs.values());
    let reader = || LogReader::new(&patterns);
    for log in logs.iter().take(MAX_LOGS) {
        let report = reader().within(since, until).text(&log.text);
        let replica = replica(log);
        findings.errors(library, &replica, &report);
        // A container that has ended has no current values.
        if !log.previous && report.engine.is_some() {
            let lately = reader().within(clock::before(at, window), until).text(&log.text);
            for numbers in lately.statistics.iter().chain(&lately.startup) {
                if library.signals.contains_key(&numbers.name) {
                    let of = findings.values.entry(numbers.name.clone()).or_default();
                    of.insert(replica.clone(), numbers.median);
                }
            }
        }
        let root = report.root().map(known).or_else(|| report.unknown.began.as_ref().map(unknown));
        let LogAnalysis { engine, lines, from, to, .. } = report;
        findings.read.push(LogRead { name: log.name(), engine, lines, from, to, root });
        findings.replicas.insert(replica);
    }
    findings.read.sort_by_key(|read| read.root.is_none());
    findings
}

fn known(finding: &LogMatch) -> LogError {
    LogError {
        id: finding.id.clone(),
        // An exception's text may hold a client's words.
        title: match &finding.raised {
            Some(raised) => format!("{}: {}", finding.title, unknown(raised).title),
            None => finding.title.clone(),
        },
        line: finding.line,
        when: finding.first.clone(),
        action: finding.action.clone(),
        known: true,
    }
}

/// Tells an error that no finding explains by its class and place alone.
fn unknown(error: &UnknownLine) -> LogError {
    let names = [error.exception.as_deref(), error.place.as_deref()];
    LogError {
        id: "unknown".to_owned(),
        title: names.into_iter().flatten().collect::<Vec<_>>().join(", "),
        line: error.line,
        when: error.first.clone(),
        action: None,
        known: false,
    }
}

/// Returns the replica of a log; else the file's name without its extension.
fn replica(log: &Log) -> String {
    log.pod.clone().unwrap_or_else(|| {
        let file = log.source.rsplit(['/', '\\']).next().unwrap_or(&log.source);
        file.strip_suffix(".log").or_else(|| file.strip_suffix(".txt")).unwrap_or(file).to_owned()
    })
}

/// Returns the root errors that do not follow from an earlier one.
fn roots(report: &LogAnalysis) -> Vec<&LogMatch> {
    let mut roots: Vec<&LogMatch> = Vec::new();
    for finding in report.findings.iter().filter(|finding| finding.rank == LogRank::Root) {
        let apart = roots.last().is_none_or(|last| {
            last.at.zip(finding.at).is_some_and(|(last, at)| at > last && clock::between(last, at) > SAME_FAULT_WITHIN)
        });
        if apart {
            roots.push(finding);
        }
    }
    roots
}

impl LogFindings {
    fn errors(&mut self, library: &Library, replica: &str, report: &LogAnalysis) {
        let roots = roots(report);
        let signs = report.findings.iter().filter(|finding| finding.rank == LogRank::Sign);
        let telling: Vec<(&str, &LogMatch)> = roots
            .iter()
            .copied()
            .chain(signs)
            .filter_map(|finding| Some((finding.tells.as_deref()?, finding)))
            .collect();
        // The actual error is known, so it was none of the others. A root error without a signal counts too.
        if !roots.is_empty() {
            let ends = library.logs.values().flat_map(|file| &file.findings).filter(|f| f.rank == LogRank::Root);
            for signal in ends.filter_map(|finding| finding.tells.as_deref()) {
                self.counts.entry(signal.to_owned()).or_default().entry(replica.to_owned()).or_default();
            }
        }
        for (signal, finding) in telling {
            *self.counts.entry(signal.to_owned()).or_default().entry(replica.to_owned()).or_default() += finding.count;
            if let Some(at) = finding.at {
                let since = self.since.entry(signal.to_owned()).or_insert(at);
                *since = (*since).min(at);
            }
        }
    }

    /// Adds the values from logs where no other source has one.
    pub(crate) fn fill(self, library: &Library, request: &Request, missing: Vec<Gap>, into: &mut ObserveResult) {
        let needs = needs(library, &request.playbook);
        for (signal, counts) in self.counts.iter().filter(|(signal, _)| needs.contains_key(signal.as_str())) {
            let replicas: Vec<ReplicaValue> =
                counts.iter().map(|(name, n)| ReplicaValue { name: name.clone(), value: *n as f64 }).collect();
            let value = Some(replicas.iter().map(|r| r.value).sum());
            let since = self.since.get(signal).copied();
            let observation =
                Observation { value, replicas, since, answered: true, source: ValueSource::Log, ..Default::default() };
            into.observations.signals.insert(signal.clone(), observation);
        }
        // Logs of a part of the pool give no value for the pool.
        let covers_pool = into.observations.pool.iter().all(|replica| self.replicas.contains(replica));
        for (signal, values) in self.values.into_iter().filter(|_| covers_pool) {
            let Some(definition) = library.signals.get(&signal).filter(|_| needs.contains_key(signal.as_str())) else {
                continue;
            };
            let o = into.observations.signals.entry(signal).or_default();
            if o.value.is_some() || !o.replicas.is_empty() {
                continue;
            }
            let mut replicas = Vec::new();
            merge(&mut replicas, values.into_iter().collect(), definition.fleet);
            let only = replicas.first().filter(|_| replicas.len() == 1).map(|r| r.value);
            if let Some(value) = reduce(definition.fleet, replicas.iter().map(|r| r.value)).or(only) {
                (o.value, o.replicas, o.source) = (Some(value), replicas, ValueSource::Log);
                (o.answered, o.why) = (true, None);
            }
        }
        into.logs = Some(LogsRead { logs: self.read, missing });
    }
}
