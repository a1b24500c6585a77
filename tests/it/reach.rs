//! The causes that an engine cannot show: none of their required checks has a signal there. `doctor` says the same of a pool.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use knowledge::playbook::{Evidence, Library};
use knowledge::signal::{Engine, EngineKind};

use crate::harness::library;

/// The signals of a check's alternatives that an engine lacks, if it lacks all of them and nobody else tells them.
fn lacking<'a>(library: &'a Library, engine: &Engine, check: &'a Evidence) -> Option<Vec<&'a str>> {
    let signals: Vec<&str> = check.checks().into_iter().map(|(signal, _)| signal).collect();
    let is_told = |signal: &&str| {
        let kinds = &library.signals[*signal].of;
        let by_others = kinds.iter().any(|kind| *kind != EngineKind::Serving);
        let against = library.signals[*signal].against.as_ref();
        let of_both = against.is_some_and(|against| {
            [&against.signal, &against.driver]
                .iter()
                .all(|signal| engine.signals.get(signal.as_str()).is_some_and(|own| own.query.is_some()))
        });
        by_others || of_both || engine.signals.get(*signal).is_some_and(|own| own.query.is_some())
    };
    (!signals.iter().any(is_told)).then_some(signals)
}

/// Every playbook, shared cause and leaf with its evidence.
fn nodes(library: &Library) -> BTreeMap<&str, &[Evidence]> {
    let playbooks =
        library.playbooks.values().map(|playbook| (playbook.playbook.as_str(), playbook.symptom.as_slice()));
    let causes = library.causes.values().map(|cause| (cause.cause.as_str(), cause.evidence.as_slice()));
    let entries = library.playbooks.values().flat_map(|playbook| &playbook.causes);
    let leaves = entries.filter_map(|entry| Some((entry.id.as_deref()?, entry.evidence.as_slice())));
    playbooks.chain(causes).chain(leaves).collect()
}

#[test]
fn the_causes_that_an_engine_cannot_show_are_known_and_have_a_reason() {
    let library = library();
    let mut listed = String::new();
    for engine in library.engines.values().filter(|engine| engine.kind == EngineKind::Serving) {
        writeln!(listed, "{}:", engine.engine).unwrap();
        for (id, evidence) in nodes(library) {
            let required: Vec<&Evidence> = evidence.iter().filter(|check| check.required).collect();
            let open: Vec<Vec<&str>> = required.iter().filter_map(|check| lacking(library, engine, check)).collect();
            // What an engine lacks closes no road while another required check has data.
            if required.is_empty() || open.len() < required.len() {
                continue;
            }
            let signals: BTreeSet<&str> = open.into_iter().flatten().collect();
            for signal in &signals {
                let reason = engine.signals.get(*signal).and_then(|own| own.unsupported.as_deref()).unwrap_or_default();
                assert!(
                    !reason.is_empty(),
                    "{}: {id} needs {signal}, and nobody says why it is not there",
                    engine.engine
                );
            }
            writeln!(listed, "  {id}: no {}", signals.into_iter().collect::<Vec<_>>().join(", ")).unwrap();
        }
    }
    insta::assert_snapshot!(listed);
}
