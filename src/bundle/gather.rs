//! Collection from every source within the deadline, with the outcome of each.

use std::time::{Duration, Instant};

use futures::future::join;

use super::{BundleProgress, Options, Sources};
use diagnose::{NoCluster, targets};
use knowledge::clip::clip;
use knowledge::gap::{Gap, GapReason};
use knowledge::signal::Engine;
use logs::Log;

use findings::ExporterTarget;
use findings::facts::Window;
use report::Stage;
use service::Subject;
use sources::endpoint;
use sources::kubernetes::SnapshotRequest;

/// The part of the deadline that is reserved for the report and for closing the file.
const RESERVE: Duration = Duration::from_secs(3);
/// Maximum reasons in a part's note; all of them are in `raw/missing.json`.
const REASONS_IN_NOTE: usize = 4;
/// Maximum characters for the list of what is missing for one reason.
const WHAT_CHARS: usize = 80;

/// A part that is being built.
pub(super) struct PartInProgress<'a> {
    progress: &'a BundleProgress,
    name: &'static str,
    began: Instant,
}

impl<'a> PartInProgress<'a> {
    /// Starts the part.
    pub(super) fn of(progress: &'a BundleProgress, name: &'static str) -> Self {
        Self { progress, name, began: progress.begin(name) }
    }

    /// Ends the part as skipped: it has no source.
    pub(super) fn skipped(self, why: &str) {
        self.progress.end(self.name, self.began, Stage::Skipped, why, 0);
    }

    /// Ends the part as done, partial or failed, depending on what there is (`note`) and what is missing.
    pub(super) fn over(self, note: String, missing: &[Gap], bytes: u64) {
        self.progress.lacks(self.name, missing);
        let stage = match (missing.is_empty(), note.is_empty()) {
            (true, _) => Stage::Done,
            (false, false) => Stage::Partial,
            (false, true) => Stage::Failed,
        };
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for Gap { what, reason } in missing {
            let why = reason.as_str();
            match reasons.iter_mut().find(|(listed, _)| *listed == why) {
                Some((_, gaps)) => gaps.push(what),
                None => reasons.push((why, vec![what])),
            }
        }
        let reason_line = |(why, gaps): &(&str, Vec<&str>)| format!("{}: {why}", clip(&gaps.join(", "), WHAT_CHARS));
        let mut lines: Vec<String> = reasons.iter().take(REASONS_IN_NOTE).map(reason_line).collect();
        if reasons.len() > REASONS_IN_NOTE {
            lines.push(format!("and {} more reasons", reasons.len() - REASONS_IN_NOTE));
        }
        let note = [note].into_iter().filter(|note| !note.is_empty()).chain(lines).collect::<Vec<_>>().join("; ");
        self.progress.end(self.name, self.began, stage, note, bytes);
    }
}

/// Returns the deadline of the sources.
pub(super) fn until(options: &Options, began: Instant) -> Instant {
    began + options.deadline.saturating_sub(RESERVE).max(options.deadline / 2)
}

/// Collects the metrics beyond the diagnosis from Prometheus.
pub(super) async fn metrics(
    sources: &Sources,
    subject: &Subject,
    until: Instant,
    progress: &BundleProgress,
) -> Option<findings::facts::PrometheusFacts> {
    let part = PartInProgress::of(progress, "metrics");
    let Some(prometheus) = &sources.prometheus else {
        part.skipped("no Prometheus is configured");
        return None;
    };
    let diagnosis = subject.diagnosis.as_ref();
    let windows = subject.windows();
    let facts = facts::collect_facts(&sources.library, prometheus, &subject.request, diagnosis, &windows, until).await;
    let measured = facts.measured.iter().filter(|quantity| quantity.during.is_some()).count();
    let note = match measured {
        0 => String::new(),
        n => format!("{n} quantities over {} replicas", facts.replicas.len()),
    };
    part.over(note, &facts.failed(), 0);
    Some(facts)
}

/// Queries the engines' own HTTP endpoints.
pub(super) async fn endpoints(
    sources: &Sources,
    subject: &Subject,
    until: Instant,
    progress: &BundleProgress,
) -> Vec<findings::endpoint::EndpointAnswer> {
    let part = PartInProgress::of(progress, "endpoints");
    let Some((reader, configured)) = &sources.reader else {
        part.skipped("engines are not read directly");
        return Vec::new();
    };
    let mut addresses: Vec<ExporterTarget> = configured.clone();
    let mut missing = Vec::new();
    if let Some(prometheus) = &sources.prometheus {
        let has_endpoints: fn(&Engine) -> bool = |engine| !engine.endpoints.is_empty();
        // If Prometheus hangs, the addresses already known still have time to answer.
        let half = until - until.saturating_duration_since(Instant::now()) / 2;
        match targets(&sources.library, prometheus, &subject.request, has_endpoints, half).await {
            Ok(learnt) => addresses.extend(learnt),
            Err(error) => missing.push(Gap::failed("addresses of the engines", error)),
        }
    }
    if addresses.is_empty() && missing.is_empty() {
        part.skipped(
            "no engine's address is known: Prometheus scrapes none for this pool, `exporters.targets` has none",
        );
        return Vec::new();
    }
    let answers = endpoint::request_endpoints(reader, &sources.library, &addresses, until).await;
    for answer in answers.iter().filter(|answer| answer.is_trouble()) {
        if let findings::endpoint::AnswerBody::Nothing(why) = &answer.said {
            missing.push(Gap::failed(format!("{} of {}", answer.path, answer.target), why));
        }
    }
    let answered =
        answers.iter().filter(|answer| !matches!(answer.said, findings::endpoint::AnswerBody::Nothing(_))).count();
    let note = if answered == 0 { String::new() } else { format!("{answered} answers of {} asked", answers.len()) };
    part.over(note, &missing, 0);
    answers
}

/// Reads the cluster's API, including the logs of the containers.
pub(super) async fn cluster(
    sources: &Sources,
    subject: &Subject,
    pods: &[String],
    log_bytes: u64,
    until: Instant,
    progress: &BundleProgress,
) -> Option<findings::cluster::ClusterSnapshot> {
    let part = PartInProgress::of(progress, "kubernetes");
    let Some(kubernetes) = &sources.kubernetes else {
        match &sources.no_cluster {
            None => part.skipped("not configured (`kubernetes:`)"),
            // A source that the user requires is reported as missing.
            Some(NoCluster { why, wanted: true }) => {
                part.over(String::new(), &[Gap::failed("the cluster", why)], 0);
            }
            Some(NoCluster { why, wanted: false }) => part.skipped(why),
        }
        return None;
    };
    let request = SnapshotRequest {
        namespace: subject.request.scope.dimensions.get("namespace").cloned(),
        pods: pods.to_vec(),
        since: subject.window.from,
        log_bytes,
    };
    let snapshot = kubernetes.snapshot(&request, until).await;
    // Metrics include replicas of the past; that their pods are gone is an answer, not an error.
    let (gone, missing): (Vec<_>, Vec<_>) =
        snapshot.missing.iter().cloned().partition(|gap| matches!(gap.reason, GapReason::Gone(_)));
    let note = match snapshot.pods.len() + snapshot.objects.len() + snapshot.events.len() {
        0 => String::new(),
        _ => {
            let gone = if gone.is_empty() { String::new() } else { format!(", {} pods are gone", gone.len()) };
            format!(
                "{} pods, {} events, {} objects{gone}",
                snapshot.pods.len(),
                snapshot.events.len(),
                snapshot.objects.len()
            )
        }
    };
    part.over(note, &missing, 0);
    Some(snapshot)
}

/// Reads logs from Loki and from files; those of the cluster come with [`cluster`].
pub(super) async fn logs(
    sources: &Sources,
    subject: &Subject,
    pods: &[String],
    bytes: u64,
    until: Instant,
) -> (Vec<Log>, Vec<Gap>) {
    let from_files = async {
        if sources.files.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let files = sources.files.clone();
        let reading = tokio::task::spawn_blocking(move || logs::files::read(&files, bytes));
        match tokio::time::timeout_at(until.into(), reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => (Vec::new(), vec![Gap::failed("log files", "the program stops")]),
            Err(_) => (Vec::new(), vec![Gap::failed("log files", "were not read in time")]),
        }
    };
    let from_loki = async {
        let Some(loki) = &sources.loki else { return (Vec::new(), Vec::new()) };
        let namespace = subject.request.scope.dimensions.get("namespace").map(String::as_str);
        let Window { from, to } = subject.window;
        match loki.logs(namespace, pods, from, to, bytes, until).await {
            Ok(logs) => (logs, Vec::new()),
            Err(error) => {
                let gap = Gap::failed("Loki", &error);
                (error.into_logs(), vec![gap])
            }
        }
    };
    let ((mut logs, mut missing), (loki_logs, failed)) = join(from_files, from_loki).await;
    logs.extend(loki_logs);
    missing.extend(failed);
    (logs, missing)
}
