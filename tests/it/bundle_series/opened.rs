//! `bundle open`: the same cause from the file alone, and nothing left behind.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use diagnose::diagnose;
use findings::{Diagnosis, EvidenceResult, Request};
use knowledge::clock;
use report::{Report, ReportSubject, SourceFindings};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Kept, LONG, MIB, kept, window};
use crate::chains::asked;
use crate::harness::{client, evidence, library, run, shared};
use crate::running::BINARY;

/// A zip of these entries.
pub(super) fn zipped(path: &Path, entries: &[(&str, &[u8])]) {
    let mut zip = ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

/// The report of a case, as its bundle has it.
pub(super) fn reported(request: &Request) -> Report {
    let diagnosis = run(diagnose(library(), shared(), request));
    let started_at = request.since.unwrap();
    let incident = report::ReportIncident {
        id: "01ABC".into(),
        group_key: String::new(),
        open: true,
        playbook: Some(request.playbook.clone()),
        because: None,
        started_at,
        opened_at: started_at,
        resolved_at: None,
        refired: 0,
        truncated: 0,
        seen_before: 0,
        external_url: String::new(),
        acknowledged: None,
        impact: None,
        related: Default::default(),
    };
    let about = ReportSubject {
        headline: "First tokens are late",
        incident: Some(incident),
        alerts: &[],
        diagnosis: Some(&diagnosis),
        asked: report::DiagnosisParameters { since: request.since, baseline_seconds: Some(86_400) },
        window: window(request),
        happened: &[],
    };
    report::build(about, SourceFindings::default(), clock::now())
}

/// A case's bundle in a directory, beside an own one for temporary files.
fn bundled(report: &Report, kept: &Kept) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (json, series) = (serde_json::to_vec(report).unwrap(), std::fs::read(&kept.path).unwrap());
    zipped(&dir.path().join("bundle.zip"), &[("summary.json", &json), ("series.om", &series)]);
    std::fs::create_dir(dir.path().join("tmp")).unwrap();
    dir
}

/// `bundle open` of the bundle in a directory.
pub(super) fn open(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["bundle", "open"]).arg(dir.join("bundle.zip")).args(more);
    command.env("TMPDIR", dir.join("tmp")).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[track_caller]
pub(super) fn assert_clean(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir.join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_file_alone_tells_the_same_root_cause() {
    for (name, playbook, root) in [
        ("longer-prompts", "high-ttft", "longer-prompts"),
        ("gpu-throttling", "high-itl", "gpu-overheated"),
        ("lost-replicas", "replica-down", "crash-loop"),
    ] {
        let request = asked(name, playbook);
        let kept = run(kept(shared(), &request, 100 * MIB, LONG));
        let report = reported(&request);
        assert_eq!(report.diagnosis.as_ref().unwrap().root().unwrap().id, root);
        let dir = bundled(&report, &kept);
        let output = open(dir.path(), &["--once"]).output().unwrap();
        let (said, wrong) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(0), "{said}{wrong}");
        assert!(said.contains(&format!("the same as in the bundle: {root}")), "{said}");
        assert!(said.contains("First tokens are late") && said.contains("/graph?g0.expr="), "{said}");
        assert!(said.contains(&format!("--playbook {playbook} --label 'namespace={name}' --at ")), "{said}");
        assert_clean(dir.path());
    }
}

/// Cases and the playbooks that are entered, one of them for requests that are counted without a label of the pool.
const REPLAYED: [(&str, &str); 4] = [
    ("longer-prompts", "high-ttft"),
    ("gpu-throttling-by-address", "high-itl"),
    ("lost-replicas", "replica-down"),
    ("bad-replica", "high-error-rate"),
];

/// Every check of a diagnosis with what it saw, rounded: the window's edges may take in one sample more or less.
fn checks(diagnosis: &Diagnosis) -> Vec<String> {
    let round = |value: Option<f64>| value.map(|value| format!("{value:.3e}"));
    let told = |e: &EvidenceResult| {
        format!("{} {} {:?} {:?} {:?}", e.signal, e.when, e.outcome, round(e.value), round(e.baseline))
    };
    evidence(diagnosis).into_iter().map(told).collect()
}

/// A signal whose series are not in the file would have no data here, or another value.
#[test]
fn every_check_has_the_same_data_from_the_file_alone() {
    let mut seen = std::collections::BTreeSet::new();
    for (name, playbook) in REPLAYED {
        let request = asked(name, playbook);
        let kept = run(kept(shared(), &request, 100 * MIB, LONG));
        let then = run(diagnose(library(), shared(), &request));
        let dir = bundled(&reported(&request), &kept);
        let mut child = open(dir.path(), &[]).spawn().unwrap();
        let url = served(&mut child);
        let now = run(diagnose(library(), &client(&url), &request));
        let ended = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(ended.success() && child.wait().unwrap().success());
        assert_eq!(checks(&now), checks(&then), "{name} {playbook}");
        assert_eq!(now.unchecked, then.unchecked, "{name} {playbook}");
        seen.extend(then.symptom.evidence.into_iter().filter(|e| e.value.is_some()).map(|e| e.signal));
    }
    assert!(seen.contains("error_ratio"), "{seen:?}");
}

#[test]
fn another_cause_than_the_bundles_is_status_1() {
    let request = asked("longer-prompts", "high-ttft");
    let kept = run(kept(shared(), &request, 100 * MIB, LONG));
    let mut report = reported(&request);
    report.diagnosis.as_mut().unwrap().causes[0].id = "prefix-cache-collapse".into();
    let dir = bundled(&report, &kept);
    let output = open(dir.path(), &["--once"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another: longer-prompts") && said.contains("has prefix-cache-collapse"), "{said}");
}

#[test]
fn it_serves_until_it_is_ended_and_leaves_nothing_behind() {
    let request = asked("healthy", "high-ttft");
    let kept = run(kept(shared(), &request, 100 * MIB, LONG));
    let dir = bundled(&reported(&request), &kept);
    let mut child = open(dir.path(), &[]).spawn().unwrap();
    let url = served(&mut child);
    let prometheus = client(&url);
    let counted = "count(vllm:num_requests_running{namespace=\"healthy\"})";
    let rows = run(prometheus.query(counted, request.at, Instant::now() + LONG)).unwrap();
    assert_eq!(rows[0].value, 4.0);
    let ended = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(ended.success() && child.wait().unwrap().success());
    let after = run(client(&url).query("up", request.at, Instant::now() + LONG));
    assert!(after.unwrap_err().to_string().contains("cannot be reached"), "its Prometheus still runs");
    assert_clean(dir.path());
}

#[test]
fn where_nothing_can_be_printed_it_ends_and_leaves_nothing_behind() {
    let request = asked("healthy", "high-ttft");
    let kept = run(kept(shared(), &request, 100 * MIB, LONG));
    let dir = bundled(&reported(&request), &kept);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = open(dir.path(), &[]).stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.matches("cannot write to standard output").count(), 1, "{said}");
    assert_clean(dir.path());
}

/// The address that it serves at, once it does.
fn served(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut url = None;
    for line in lines.by_ref().map_while(Result::ok) {
        url = line.trim().strip_prefix("Prometheus").map(|url| url.trim().to_owned()).or(url);
        if line.contains("served until") {
            break;
        }
    }
    // What is said at the end has somewhere to go.
    std::thread::spawn(move || lines.for_each(drop));
    url.ok_or_else(|| io::Error::other("it ended early")).unwrap()
}

#[test]
fn without_prometheus_it_says_what_to_install_and_leaves_nothing_behind() {
    let request = asked("healthy", "high-ttft");
    let kept = run(kept(shared(), &request, 100 * MIB, LONG));
    let dir = bundled(&reported(&request), &kept);
    let output = open(dir.path(), &["--once"]).env("PATH", "/nonexistent").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`promtool` was not found") && said.contains("--prometheus-binary"), "{said}");
    assert_clean(dir.path());
}
