//! The base of the data suites: captured pages and bodies, one Prometheus that holds every case's history, and the
//! product's own way to it.
//!
//! A case has a time slot and a namespace of its own in that Prometheus, so that cases can run at once and in any order.

mod desk;
mod past;
mod planted;
mod prometheus;
mod replayed;

use std::future::Future;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use findings::{Baseline, Diagnosis, EvidenceResult, Request, Scope};
use jiff::Timestamp;
use knowledge::playbook;
use knowledge::playbook::{Library, Redaction};
use redact::Redactor;

use tokio::runtime::Runtime;

pub(crate) use desk::{desk, desk_with};
pub(crate) use past::{Page, Stamp, pages};
pub(crate) use planted::{INNOCENT, Planted, assert_clean, innocent, planted};
pub(crate) use prometheus::{KeptPrometheus, client, shared, simulated};
pub(crate) use replayed::replay;

/// The rate window that the service uses unless told otherwise.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);
/// How long a diagnosis may take here; a busy machine with two cores is slow.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// The first case's slot, in unix seconds; 2023, so that nothing depends on the present.
const FIRST_SLOT: i64 = 1_700_006_400;
/// Between slots: longer than a case with its past and the hour that detection looks back.
const SLOT_SECONDS: i64 = 3 * 3_600;

/// A file below `tests/fixtures`, as text.
pub(crate) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The shipped playbooks and signals.
pub(crate) fn library() -> &'static Library {
    static LIBRARY: LazyLock<Library> = LazyLock::new(|| match playbook::load(None) {
        Ok(library) => library,
        Err(problems) => panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    });
    &LIBRARY
}

/// The shipped rules of redaction, for one more text or bundle.
pub(crate) fn redactor(anonymize: bool) -> Redactor {
    static RULES: LazyLock<Redaction> = LazyLock::new(|| report::redaction(library()));
    static READY: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&RULES, false).unwrap());
    READY.another(&RULES, anonymize)
}

/// Runs a future on the runtime that all data suites share: the Prometheus and its client outlive a single test.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tls();
        Runtime::new().unwrap()
    });
    &RUNTIME
}

/// Installs the TLS provider of the process, once; without it every HTTP client panics.
pub(crate) fn tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The beginning of a case's time slot, in unix seconds.
pub(crate) fn slot(number: usize) -> i64 {
    FIRST_SLOT + SLOT_SECONDS * i64::try_from(number).unwrap()
}

/// A moment in unix seconds.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A request as the service makes it of an alert with these labels, compared with what lies before the incident.
pub(crate) fn request(playbook: &str, labels: &[(&str, &str)], when: i64) -> Request {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Request {
        playbook: playbook.to_owned(),
        screen: false,
        rules: Vec::new(),
        conditions: Vec::new(),
        scope: Scope::of_labels(&labels),
        at: at(when),
        since: None,
        window: WINDOW,
        is_young: false,
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: DEADLINE,
    }
}

/// Every piece of evidence of a diagnosis: of its symptom, its causes and their chains, and what was ruled out.
pub(crate) fn evidence(diagnosis: &Diagnosis) -> Vec<&EvidenceResult> {
    let links = diagnosis.causes.iter().flat_map(|cause| cause.via.iter().flat_map(|link| &link.evidence));
    let causes = diagnosis.causes.iter().flat_map(|cause| &cause.evidence);
    let against = diagnosis.ruled_out.iter().filter_map(|cause| cause.because.as_ref());
    diagnosis.symptom.evidence.iter().chain(links).chain(causes).chain(against).collect()
}
