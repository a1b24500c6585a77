//! Every signal of an engine, asked on a real Prometheus over pages of real servers, by the product's own path:
//! detection, plan, observe. Expected values are worked out by hand from the pages.

mod captured;
mod cluster;
mod computed;
mod denied;
mod dynamo;
mod elsewhere;
mod embeddings;
mod exporters;
mod gpus;
mod litellm;
mod llm_d;
mod losses;
mod routers;
mod sglang;
mod small;
mod spellings;
mod standstill;
mod workloads;

use std::collections::BTreeMap;
use std::time::Duration;

use diagnose::{ObserveResult, observe};
use findings::Scope;
use knowledge::playbook::{Library, Playbook, SourceFile, parse};

use crate::harness::{Page, Stamp, library, request, run, shared, slot};

/// Pages are a minute apart. A second more, because newer Prometheus leave out a sample at the window's very start.
const WINDOW: Duration = Duration::from_secs(61);
/// A playbook that asks for everything.
const EVERYTHING: &str = "everything";

/// Captured pages as histories. Importing one takes as long as its pages times the time that they span, so cases whose
/// slots lie far apart are not put into one.
pub(crate) fn captured_histories() -> [String; 2] {
    let engines = captured::pages().into_iter().chain(spellings::pages()).chain(elsewhere::pages());
    let engines = engines.chain(sglang::pages()).chain(small::pages()).chain(standstill::pages());
    let engines = engines.chain(embeddings::pages());
    let neighbours = litellm::pages().into_iter().chain(dynamo::pages()).chain(llm_d::pages());
    let neighbours = neighbours.chain(routers::pages()).chain(gpus::pages()).chain(crate::mixed_fleet::pages());
    [crate::harness::pages(&engines.collect::<Vec<_>>()), crate::harness::pages(&neighbours.collect::<Vec<_>>())]
}

/// Simulated exporters as OpenMetrics lines.
pub(crate) fn histories() -> Vec<String> {
    exporters::histories()
}

/// What is lost or shared unevenly, and what a workload tells over hours, as OpenMetrics lines of their own time.
pub(crate) fn losses() -> String {
    losses::history() + &workloads::history()
}

/// What the product reads of every signal there is, for an alert with these labels at a time; it computes what Prometheus does.
fn observed(labels: &[(&str, &str)], when: i64) -> ObserveResult {
    let library = with_everything();
    let mut request = request(EVERYTHING, labels, when);
    request.window = WINDOW;
    let prometheus = shared();
    run(async {
        let seen = observe(&library, prometheus, &request, None).await;
        computed::assert_as_prometheus_does(&library, prometheus, &request, &seen).await;
        seen
    })
}

/// The shipped library and one more playbook, whose symptom names every signal.
fn with_everything() -> Library {
    let mut library = library().clone();
    let checks: String =
        library.signals.keys().map(|name| format!("  - {{ signal: {name}, when: present }}\n")).collect();
    let text = format!(
        "playbook: {EVERYTHING}\nschema: 1\nkind: symptom\ntitle: t\nmeaning: m\nimpact: i\nsymptom:\n{checks}causes: []\n"
    );
    let playbook: Playbook = parse(&SourceFile::new("everything.yaml".to_owned(), text)).unwrap();
    library.playbooks.insert(EVERYTHING.to_owned(), playbook);
    library
}

/// The pool's value of a signal.
fn value(seen: &ObserveResult, signal: &str) -> Option<f64> {
    seen.observations.signals.get(signal).and_then(|o| o.value)
}

/// Each replica's value of a signal.
fn replicas<'a>(seen: &'a ObserveResult, signal: &str) -> BTreeMap<&'a str, f64> {
    seen.observations.signals[signal].replicas.iter().map(|r| (r.name.as_str(), r.value)).collect()
}

/// Every listed signal has its value within 2 %, a zero within a hundredth; rates over 61 s of 60 s differ by so much.
fn assert_values(seen: &ObserveResult, expected: &[(&str, f64)]) {
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(signal, expected)| {
            let tolerance = if *expected == 0.0 { 0.01 } else { 0.02 * expected.abs() };
            !value(seen, signal).is_some_and(|value| (value - expected).abs() <= tolerance)
        })
        .map(|(signal, expected)| {
            let o = &seen.observations.signals[*signal];
            format!("{signal}: {:?}, expected {expected} ({})", o.value, o.query.as_deref().unwrap_or_default())
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new(), "{:?}", seen.problems);
}

/// None of the listed signals has a value; each says why.
fn assert_no_data(seen: &ObserveResult, signals: &[&str]) {
    for signal in signals {
        let o = &seen.observations.signals[*signal];
        assert_eq!((o.value, o.replicas.as_slice()), (None, &[][..]), "{signal}");
        assert!(o.why.as_deref().is_some_and(|why| !why.is_empty()), "{signal} does not say why it has no data");
    }
}

/// A target that shows one page twice and another a minute later, so that `rate` and `offset` have what they need.
fn minute(case: usize, namespace: &'static str, pod: &'static str, before: &str, after: &str) -> [Page; 3] {
    let stamp = Stamp { job: "some-job", instance: pod, namespace, pod, time: slot(case) };
    let page = |text: &str, time: i64| Page::new(text, Stamp { time, ..stamp });
    [page(before, slot(case) - 60), page(before, slot(case)), page(after, slot(case) + 60)]
}

/// The page before anything was counted: the same series, counters at zero.
fn uncounted(page: &str) -> String {
    let line = |line: &str| match line.rsplit_once(' ') {
        Some((series, _)) if is_counter(series) => format!("{series} 0\n"),
        _ => format!("{line}\n"),
    };
    page.lines().map(line).collect()
}

/// Whether a series counts, by its name's ending.
fn is_counter(series: &str) -> bool {
    let name = series.split(['{', ' ']).next().unwrap_or_default();
    !series.starts_with('#') && ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end))
}

/// The listed signals have their values, the silent ones none, and no signal that the engine's file tells is missing.
fn assert_table(seen: &ObserveResult, engine: &str, expected: &[(&str, f64)], silent: &[&str]) {
    assert_values(seen, expected);
    assert_no_data(seen, silent);
    let named = |signal: &&str| expected.iter().any(|(name, _)| name == signal) || silent.contains(signal);
    let forgotten: Vec<&str> = told_by(engine).into_iter().filter(|signal| !named(signal)).collect();
    assert_eq!(forgotten, Vec::<&str>::new(), "a signal of {engine}.yaml that this table lacks");
    assert_eq!(seen.problems, Vec::<String>::new());
}

/// Signals that compare with the hour before, which a page of minutes has not: `config/prometheus/tests/hour-before.test.yaml`
/// has what each engine tells of them.
const AGAINST_AN_HOUR_AGO: [&str; 2] = ["traffic_kept", "output_length_kept"];

/// The signals that an engine's file has a query for.
fn told_by(engine: &str) -> Vec<&'static str> {
    let signals = library().engines[engine].signals.iter();
    // Burn rates are made of other signals: `config/prometheus/tests/` has what they are worth.
    let own = signals.filter(|(name, _)| library().signals.get(*name).is_none_or(|signal| signal.burn.is_none()));
    let of_now = own.filter(|(name, _)| !AGAINST_AN_HOUR_AGO.contains(&name.as_str()));
    of_now.filter(|(_, entry)| entry.query.is_some()).map(|(name, _)| name.as_str()).collect()
}

/// Every signal that an engine's file has a query for stands in one of the lists.
fn assert_complete(engine: &str, expected: &[(&str, f64)], silent: &[&str]) {
    let named = |signal: &&str| expected.iter().any(|(name, _)| name == signal) || silent.contains(signal);
    let forgotten: Vec<&str> = told_by(engine).into_iter().filter(|signal| !named(signal)).collect();
    assert_eq!(forgotten, Vec::<&str>::new(), "a signal of {engine}.yaml that this table lacks");
}

/// The lowest version that was recognised.
fn version(seen: &ObserveResult, engine: &str) -> Option<String> {
    let engine = seen.detection.engines.iter().find(|e| e.engine == engine)?;
    engine.version.as_ref().map(ToString::to_string)
}

#[test]
fn a_scope_is_made_of_labels_and_never_of_replicas() {
    let labels = [("namespace", "llm"), ("pod", "vllm-0"), ("severity", "page")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let scope = Scope::of_labels(&labels);
    assert_eq!(scope.dimensions.keys().collect::<Vec<_>>(), ["namespace"]);
    assert_eq!(scope.replicas.iter().collect::<Vec<_>>(), ["vllm-0"]);
}
