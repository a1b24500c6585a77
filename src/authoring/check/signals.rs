//! Lints of the catalog and the engines' files: every signal has a source, and every query is valid.

use super::file_lint::FileLint;
use super::promql;
use knowledge::playbook::{CATALOG, Library, Lint, Problem, parse, shipped, suggestion};
use knowledge::signal::{Catalog, EngineKind, Signal};

pub(super) fn signals(library: &Library, problems: &mut Vec<Problem>) {
    let names: Vec<&str> = library.signals.keys().map(String::as_str).collect();
    let shipped_files = shipped();
    let our_signals =
        shipped_files.get(CATALOG).and_then(|file| parse::<Catalog>(file).ok()).map(|catalog| catalog.signals);
    let is_ours = |name: &str| our_signals.as_ref().is_some_and(|signals| signals.contains_key(name));
    for engine in library.engines.values() {
        let path = format!("signals/{}.yaml", engine.engine);
        let mut lints = FileLint { library, path: &path, problems };
        for (name, entry) in &engine.signals {
            lints.known(Lint::SignalUnknown, name, ("signal", name), &library.signals);
            match (&entry.query, &entry.unsupported) {
                // Computed from another signal, whose query is checked.
                (Some(_), None) if library.signals.get(name).is_some_and(|signal| signal.burn.is_some()) => {}
                (Some(query), None) => {
                    if let Some((lint, message, hint)) = promql::problem(engine, query) {
                        lints.say(lint, name, format!("signal `{name}`: {message}"), hint);
                    }
                }
                (None, Some(_)) => {}
                _ => lints.say(
                    Lint::SignalShape,
                    name,
                    format!("signal `{name}` needs either `query` or `unsupported`"),
                    None,
                ),
            }
            if let Some(window) = entry.window.as_deref().filter(|w| humantime::parse_duration(w).is_err()) {
                lints.say(
                    Lint::SignalWindow,
                    name,
                    format!("`{window}` is no duration"),
                    Some("write it like `30m`".into()),
                );
            }
        }
        for probe in &engine.versions {
            if let Err(error) = probe.at_least.parse::<knowledge::signal::EngineVersion>() {
                lints.say(Lint::SignalVersion, &probe.metric, error, None);
            }
        }
        // A user's own file may cover only the signals that it was written for, and a user's own signal only the
        // engines that the user has: an engine without an entry cannot report it.
        let complete = shipped_files.contains_key(&path);
        // A burn rate is computed from the engine's query of another signal.
        let must_have = |signal: &Signal| complete && signal.burn.is_none() && signal.of.contains(&engine.kind);
        for (name, _) in library.signals.iter().filter(|(_, signal)| must_have(signal)) {
            if is_ours(name) && !engine.signals.contains_key(name) {
                let hint = "write its `query`, or `unsupported:` with the reason".to_owned();
                lints.say(
                    Lint::SignalUnanswered,
                    "signals",
                    format!("{} does not answer `{name}`", engine.engine),
                    Some(hint),
                );
            }
        }
        for name in engine.signals.keys() {
            if library.signals.get(name).is_some_and(|s| !s.of.contains(&engine.kind)) {
                let hint = "add the kind to the signal's `of:` in the catalog, or leave it out here".to_owned();
                lints.say(Lint::SignalKind, name, format!("`{name}` is not asked of engines of this kind"), Some(hint));
            }
        }
        let serving = engine.kind == EngineKind::Serving;
        if serving && !engine.signals.contains_key("replicas_serving") {
            lints.say(Lint::SignalPool, "signals", "a serving engine must tell `replicas_serving`".into(), None);
        }
    }
    for &name in &names {
        let mut lints = FileLint { library, path: CATALOG, problems };
        let definition = library.signals.get(name);
        let burn = definition.and_then(|signal| signal.burn.as_ref());
        let against = definition.and_then(|signal| signal.against.as_ref());
        let parts = burn.into_iter().flat_map(|burn| std::iter::once(&burn.of).chain(&burn.mean));
        let parts = parts.chain(against.into_iter().flat_map(|against| [&against.signal, &against.driver]));
        for unknown in parts.filter(|part| !library.signals.contains_key(*part)) {
            let hint = suggestion(unknown, names.iter().copied());
            let message = format!("signal `{name}` is made of `{unknown}`, which is not in the catalog");
            lints.say(Lint::SignalUnknown, name, message, hint);
        }
        if against.is_some() {
            continue;
        }
        let log = definition.is_some_and(|signal| signal.is_of_log());
        let has_source = match log {
            true => library.logs.values().flat_map(|log| &log.findings).any(|f| f.tells.as_deref() == Some(name)),
            false => library.engines.values().any(|e| e.signals.contains_key(name)),
        };
        if !has_source {
            let message = match log {
                true => format!("no finding in `logs/` says `tells: {name}`"),
                false => format!("no engine tells signal `{name}`, not even as unsupported"),
            };
            let hint = (!log).then(|| "write its `query` into `signals/<engine>.yaml` beside the catalog".to_owned());
            lints.say(Lint::SignalUntold, name, message, hint);
        }
    }
}
