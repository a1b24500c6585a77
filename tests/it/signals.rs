//! Every signal of an engine, asked on a real Prometheus over pages of real servers, by the product's own path:
//! detection, plan, observe. Expected values are worked out by hand from the pages.

mod captured;
mod elsewhere;
mod exporters;
mod sglang;
mod small;
mod spellings;

use std::collections::BTreeMap;
use std::time::Duration;

use llm_diagnose::diagnose::{Observed, Scope, observe};
use llm_diagnose::playbook::{Library, Playbook, SourceFile, parse};

use crate::harness::{library, request, run, shared};

/// Pages are a minute apart. A second more, because newer Prometheus leave out a sample at the window's very start.
const WINDOW: Duration = Duration::from_secs(61);
/// A playbook that asks for everything.
const EVERYTHING: &str = "everything";

/// Captured pages as history.
pub(crate) fn history() -> String {
    let mut all = captured::pages();
    all.extend(spellings::pages());
    all.extend(elsewhere::pages());
    all.extend(sglang::pages());
    all.extend(small::pages());
    crate::harness::pages(&all)
}

/// Simulated exporters as OpenMetrics lines.
pub(crate) fn histories() -> Vec<String> {
    exporters::histories()
}

/// What the product reads of every signal there is, for an alert with these labels at a time.
fn observed(labels: &[(&str, &str)], when: i64) -> Observed {
    let library = with_everything();
    let mut request = request(EVERYTHING, labels, when);
    request.window = WINDOW;
    let prometheus = shared();
    run(observe(&library, prometheus, &request))
}

/// The shipped library and one more playbook, whose symptom names every signal.
fn with_everything() -> Library {
    let mut library = library().clone();
    let checks: String =
        library.signals.keys().map(|name| format!("  - {{ signal: {name}, when: present }}\n")).collect();
    let text = format!(
        "playbook: {EVERYTHING}\nschema: 1\nkind: symptom\ntitle: t\nmeaning: m\nimpact: i\nsymptom:\n{checks}causes: []\n"
    );
    let playbook: Playbook = parse(&SourceFile { path: "everything.yaml".to_owned(), text }).unwrap();
    library.playbooks.insert(EVERYTHING.to_owned(), playbook);
    library
}

/// The pool's value of a signal.
fn value(seen: &Observed, signal: &str) -> Option<f64> {
    seen.seen.signals.get(signal).and_then(|o| o.value)
}

/// Each replica's value of a signal.
fn replicas<'a>(seen: &'a Observed, signal: &str) -> BTreeMap<&'a str, f64> {
    seen.seen.signals[signal].replicas.iter().map(|r| (r.name.as_str(), r.value)).collect()
}

/// Every listed signal has its value within 2 %, a zero within a hundredth; rates over 61 s of 60 s differ by so much.
fn assert_values(seen: &Observed, expected: &[(&str, f64)]) {
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(signal, expected)| {
            let tolerance = if *expected == 0.0 { 0.01 } else { 0.02 * expected.abs() };
            !value(seen, signal).is_some_and(|value| (value - expected).abs() <= tolerance)
        })
        .map(|(signal, expected)| {
            let o = &seen.seen.signals[*signal];
            format!("{signal}: {:?}, expected {expected} ({})", o.value, o.query.as_deref().unwrap_or_default())
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new(), "{:?}", seen.problems);
}

/// None of the listed signals has a value; each says why.
fn assert_no_data(seen: &Observed, signals: &[&str]) {
    for signal in signals {
        let o = &seen.seen.signals[*signal];
        assert_eq!((o.value, o.replicas.as_slice()), (None, &[][..]), "{signal}");
        assert!(o.why.as_deref().is_some_and(|why| !why.is_empty()), "{signal} does not say why it has no data");
    }
}

/// The signals that an engine's file has a query for.
fn told_by(engine: &str) -> Vec<&'static str> {
    let signals = library().engines[engine].signals.iter();
    signals.filter(|(_, entry)| entry.query.is_some()).map(|(name, _)| name.as_str()).collect()
}

/// Every signal that an engine's file has a query for stands in one of the lists.
fn assert_complete(engine: &str, expected: &[(&str, f64)], silent: &[&str]) {
    let named = |signal: &&str| expected.iter().any(|(name, _)| name == signal) || silent.contains(signal);
    let forgotten: Vec<&str> = told_by(engine).into_iter().filter(|signal| !named(signal)).collect();
    assert_eq!(forgotten, Vec::<&str>::new(), "a signal of {engine}.yaml that this table lacks");
}

/// The lowest version that was recognised.
fn version(seen: &Observed, engine: &str) -> Option<String> {
    let engine = seen.found.engines.iter().find(|e| e.engine == engine)?;
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
