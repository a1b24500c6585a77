//! Building a bundle: queries every source, builds the report, and writes the file.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::join;

use super::archive::Archive;
use super::files::Files;
use super::gather::{self, PartInProgress, until};
use super::seal::{MANIFEST, Manifest, SIGNATURE, Signature};
use super::{BuiltBundle, BundleError, BundleProgress, Options, Sources, series, text};
use diagnose::diagnose;
use findings::endpoint::{AnswerBody, EndpointAnswer, EndpointInfo};
use findings::facts::Window;
use findings::{Diagnosis, Request};
use knowledge::clock;
use knowledge::gap::Gap;
use knowledge::playbook::{Library, Ticket};
use logs::{Log, LogReader, Patterns};
use redact::{Kind, Redactor};
use render::{self, Phrases, ReportPageContext};
use report::{self, Report, SourceFindings};
use service::{Signer, Subject};

/// The parts, in the order in which they are shown.
const PARTS: [&str; 7] = ["metrics", "series", "endpoints", "kubernetes", "logs", "diagnosis", "report"];

/// Builds a bundle at `path`. Failed sources are reported inside the bundle.
///
/// # Errors
/// If the file cannot be written.
pub async fn make(
    sources: &Sources,
    subject: &Subject,
    options: &Options,
    path: &Path,
    progress: &BundleProgress,
) -> Result<BuiltBundle, BundleError> {
    progress.expect(&PARTS);
    let until = until(options, Instant::now());
    let archive = Archive::create(path, options.file_bytes)?;
    // Boxed because it is large; the explicit type lets the compiler prove `Send`.
    let writing: BoxFuture<'_, _> = Box::pin(write(sources, subject, options, &archive, until, progress));
    let written = writing.await;
    // The writer's own error comes first: it is the cause of errors while adding.
    let bytes = archive.finish().await?;
    Ok(BuiltBundle { report: Box::new(written?), bytes })
}

async fn write(
    sources: &Sources,
    subject: &Subject,
    options: &Options,
    archive: &Archive,
    until: Instant,
    progress: &BundleProgress,
) -> Result<Report, BundleError> {
    let redactor = match options.redact {
        true => sources.redactor.another(&report::redaction(&sources.library), options.anonymize),
        false => Redactor::off(),
    };
    let files = Files { archive, redactor: &redactor };
    // A Prometheus that hangs must leave time for the sources that do not depend on it.
    let remaining = until.saturating_duration_since(Instant::now());
    let subject = &diagnosed(sources, subject, until - remaining * 3 / 4, progress).await;
    let facts = gather::metrics(sources, subject, until - remaining / 2, progress).await;
    let mut findings = SourceFindings { facts, ..SourceFindings::default() };
    register_names(&redactor, subject, &findings);
    redactor.learn_from(&options.payload);
    let pods = pods(subject, &findings);
    let log_bytes = options.log_bytes / 2;
    let (series, endpoints, kubernetes, (mut logs, mut missing)) = join!(
        write_series(sources, subject, options, archive, &redactor, until, progress),
        gather::endpoints(sources, subject, until, progress),
        gather::cluster(sources, subject, &pods, log_bytes, until, progress),
        gather::logs(sources, subject, &pods, log_bytes, until),
    );
    series?;
    findings.endpoints = endpoints.into_iter().map(|answer| with_info(&sources.library, answer)).collect();
    findings.kubernetes = kubernetes;
    if let Some(kubernetes) = &mut findings.kubernetes {
        logs.extend(std::mem::take(&mut kubernetes.logs));
    }
    let part = PartInProgress::of(progress, "logs");
    let (library, window) = (Arc::clone(&sources.library), subject.window);
    let reading = tokio::task::spawn_blocking(move || read(&library, logs, window));
    findings.logs = reading.await.map_err(|_| BundleError::Stopped)?;
    register_names(&redactor, subject, &findings);
    let (names, bytes) = files.logs(&mut findings.logs).await?;
    match findings.logs.len() {
        0 if missing.is_empty() => part.skipped("no source of logs: `kubernetes:`, `loki:`, or files with --logs"),
        0 => part.over(String::new(), &missing, 0),
        n => {
            let cut = findings.logs.iter().filter(|(log, _)| log.cut);
            missing.extend(cut.map(|(log, _)| Gap::absent(log.name(), "a part was left out")));
            part.over(format!("{n} logs"), &missing, bytes);
        }
    }
    files.raw(subject, options.payload.as_ref(), &findings).await?;
    files.missing(&progress.missing()).await?;
    let part = PartInProgress::of(progress, "report");
    let mut report = report::build(subject.about(), findings, clock::now());
    report.logs.iter_mut().zip(names).for_each(|(log, name)| log.file = name);
    part.over("report.html, report.md, summary.json, tickets".to_owned(), &[], 0);
    report.parts = progress.board();
    report.complete = !report.parts.iter().any(|part| part.stage.is_trouble());
    let cleaned = redactor.cleaned("summary.json", &report);
    let mut report = cleaned.map_err(|error| BundleError::Unclean(error.to_string()))?;
    report.redacted = redactor.redactions();
    write_report_formats(sources, subject, options, &report, &files, until).await?;
    let (library, signer) = (Arc::clone(&sources.library), options.signer.clone());
    archive.seal(move |files| seal(&Manifest::new(&library, &redactor, files), signer.as_deref())).await?;
    Ok(report)
}

/// Returns the manifest and its signature, as the last entries.
fn seal(manifest: &Manifest, signer: Option<&Signer>) -> Vec<(&'static str, Vec<u8>)> {
    let json = serde_json::to_vec_pretty(manifest).unwrap_or_default();
    let signature = signer.and_then(|signer| Signature::of(&json, signer));
    let signature = signature.map(|signature| (SIGNATURE, serde_json::to_vec_pretty(&signature).unwrap_or_default()));
    std::iter::once((MANIFEST, json)).chain(signature).collect()
}

/// Writes the report in all its formats.
async fn write_report_formats(
    sources: &Sources,
    subject: &Subject,
    options: &Options,
    report: &Report,
    files: &Files<'_>,
    until: Instant,
) -> Result<(), BundleError> {
    let (archive, words) = (files.archive, &sources.words);
    let english = Phrases::english();
    let tickets: Vec<(&Ticket, String)> = render::tickets_for(&sources.library, report, &options.tickets)
        .map(|ticket| (ticket, render::ticket(ticket, report, &english)))
        .collect();
    let ticket_texts: Vec<_> = tickets.iter().map(|(ticket, text)| (ticket.title.clone(), text.clone())).collect();
    let context = ReportPageContext {
        pictures: &super::pictures::drawn(sources, subject, files.redactor, until).await,
        tickets: &ticket_texts,
        ..ReportPageContext::default()
    };
    archive.add("README.txt", text::readme(report, !options.redact, words)).await?;
    archive.add("report.html", render::report_page(report, &context, words)).await?;
    archive.add("report.md", render::report_markdown(report, words)).await?;
    for (ticket, text) in tickets {
        archive.add(&format!("tickets/{}.md", ticket.ticket), text).await?;
    }
    archive.add("summary.json", serde_json::to_vec_pretty(report).unwrap_or_default()).await?;
    Ok(())
}

/// Writes the series directly into the archive.
async fn write_series(
    sources: &Sources,
    subject: &Subject,
    options: &Options,
    archive: &Archive,
    redactor: &Redactor,
    until: Instant,
    progress: &BundleProgress,
) -> Result<(), BundleError> {
    let part = PartInProgress::of(progress, "series");
    let Some(prometheus) = &sources.prometheus else {
        part.skipped("no Prometheus is configured");
        return Ok(());
    };
    archive.begin(series::FILE).await?;
    let (library, request, bytes) = (&sources.library, &subject.request, options.series_bytes);
    let out = archive.pipe();
    let export = series::write(library, prometheus, request, subject.window, bytes, redactor, out, until).await;
    let note = match export.series {
        0 => String::new(),
        series => format!("{} samples of {series} series, {} queries", export.samples, export.queries),
    };
    part.over(note, &export.left_out, export.bytes);
    Ok(())
}

/// Returns the subject with its diagnosis; runs a diagnosis if it has none.
async fn diagnosed(sources: &Sources, subject: &Subject, until: Instant, progress: &BundleProgress) -> Subject {
    let part = PartInProgress::of(progress, "diagnosis");
    let mut subject = subject.clone();
    let at = |diagnosis: &Diagnosis| format!("of {}", diagnosis.at.strftime("%Y-%m-%d %H:%M:%S UTC"));
    match (&subject.diagnosis, &sources.prometheus) {
        (Some(diagnosis), _) => {
            let missing: Vec<_> = diagnosis.problems.iter().map(|text| Gap::failed("Prometheus", text)).collect();
            part.over(at(diagnosis), &missing, 0);
        }
        (None, None) => part.skipped("no Prometheus is configured"),
        (None, Some(_)) if subject.request.playbook.is_empty() && !subject.request.screen => {
            part.skipped("no playbook matches, and none was named")
        }
        (None, Some(prometheus)) => {
            let deadline = subject.request.deadline.min(until.saturating_duration_since(Instant::now()));
            let request = Request { deadline, ..subject.request.clone() };
            let diagnosis = diagnose(&sources.library, prometheus, &request).await;
            let missing: Vec<_> = diagnosis.problems.iter().map(|text| Gap::failed("Prometheus", text)).collect();
            part.over(at(&diagnosis), &missing, 0);
            subject.diagnosis = Some(diagnosis);
        }
    }
    if subject.headline.is_empty()
        && let Some(diagnosis) = &subject.diagnosis
    {
        subject.headline = render::diagnosis_message(diagnosis, None, &sources.words).headline;
    }
    subject
}

/// Adds to an engine's answer the values parsed from it.
fn with_info(library: &Library, answer: EndpointAnswer) -> (EndpointAnswer, EndpointInfo) {
    let info = findings::endpoint::read(library, &answer);
    (answer, info)
}

/// Analyses each log for the window, and for the engine's start.
fn read(library: &Library, logs: Vec<Log>, Window { from, to }: Window) -> Vec<(Log, logs::LogAnalysis)> {
    let patterns = Patterns::new(library.logs.values());
    let read = |log: Log| {
        let report = LogReader::new(&patterns).within(from, to).text(&log.text);
        (log, report)
    };
    logs.into_iter().map(read).collect()
}

/// Returns the known pods of the pool, the affected ones first.
fn pods(subject: &Subject, findings: &SourceFindings) -> Vec<String> {
    let mut pods: Vec<String> = Vec::new();
    let affected = subject.diagnosis.iter().flat_map(|diagnosis| {
        let root = diagnosis.root().map(|root| root.replicas.affected.as_slice()).unwrap_or_default();
        root.iter().chain(&diagnosis.replicas.affected)
    });
    let replicas = findings.facts.iter().flat_map(|facts| facts.replicas.iter().map(|replica| &replica.name));
    for name in affected.chain(&subject.request.scope.replicas).chain(replicas) {
        // An address is not a pod.
        if !pods.contains(name) && !name.contains(':') {
            pods.push(name.clone());
        }
    }
    pods
}

/// Registers names and secrets with the redactor before it processes free text, whichever file is written first.
fn register_names(redactor: &Redactor, subject: &Subject, findings: &SourceFindings) {
    subject.request.scope.dimensions.get("namespace").iter().for_each(|name| redactor.learn(Kind::Namespace, name));
    subject.request.scope.replicas.iter().for_each(|name| redactor.learn(Kind::Pod, name));
    for replica in findings.facts.iter().flat_map(|facts| &facts.replicas) {
        redactor.learn(Kind::Pod, &replica.name);
        replica.node.iter().for_each(|node| redactor.learn(Kind::Node, node));
    }
    if let Some(kubernetes) = &findings.kubernetes {
        kubernetes.pods.iter().for_each(|pod| redactor.learn(Kind::Pod, &pod.name));
        kubernetes.pods.iter().for_each(|pod| redactor.learn(Kind::Namespace, &pod.namespace));
        kubernetes.nodes.iter().for_each(|node| redactor.learn(Kind::Node, &node.name));
        let owners = kubernetes.pods.iter().filter_map(|pod| pod.owner.as_ref()?.split_once('/'));
        owners.for_each(|(_, owner)| redactor.learn(Kind::Workload, owner));
        redactor.learn_from(&kubernetes.events);
        kubernetes.objects.iter().for_each(|object| redactor.learn_from(&object.value));
    }
    for (answer, _) in &findings.endpoints {
        redactor.learn(Kind::Pod, &answer.target);
        if let AnswerBody::Json(value) = &answer.said {
            redactor.learn_from(value);
        }
    }
    findings.logs.iter().filter_map(|(log, _)| log.pod.as_ref()).for_each(|pod| redactor.learn(Kind::Pod, pod));
    redactor.learn_from(&findings.facts);
    redactor.learn_from(&subject.diagnosis);
    redactor.learn_from(&subject.alerts);
}
