//! Lints of log patterns: each one matches its real lines, every number is read, every cause exists.

use std::collections::BTreeSet;

use knowledge::playbook::{Library, Lint, LogFile, LogRank, LogTells, Problem, SourceFile, suggestion};
use knowledge::signal::VersionReq;

/// Maximum relative difference between a number that was read and the example's.
const TOLERANCE: f64 = 1e-9;
/// Minimum length of a pattern that distinguishes one line from another.
const MIN_PATTERN_CHARS: usize = 10;

pub(super) fn lint(library: &Library, problems: &mut Vec<Problem>) {
    for log in library.logs.values() {
        if let Some(file) = library.files.get(&format!("logs/{}.yaml", log.logs)) {
            lint_file(library, log, file, problems);
        }
    }
}

fn lint_file(library: &Library, log: &LogFile, file: &SourceFile, problems: &mut Vec<Problem>) {
    let mut say = |lint, at: &str, message: String| problems.push(Problem::at(lint, file, at, message, None));
    let mut ids = BTreeSet::new();
    for finding in &log.findings {
        let id = finding.id.as_str();
        if !ids.insert(id) {
            say(Lint::LogTwice, id, format!("`{id}` is listed twice"));
        }
        if finding.lines.is_empty() || finding.examples.is_empty() {
            say(Lint::LogExample, id, format!("`{id}` needs a pattern and a real line that it matches"));
        }
        for example in &finding.examples {
            let best = log.findings.iter().filter_map(|f| Some((f.matched(example)?, f.id.as_str()))).max();
            if best.map(|(_, best)| best) != Some(id) {
                let matched = best.map_or("nothing".to_owned(), |(_, best)| format!("`{best}`"));
                say(Lint::LogExample, id, format!("the example of `{id}` is found by {matched}: {example}"));
            }
        }
        if finding.rank == LogRank::Root && finding.action.is_none() {
            say(Lint::LogDo, id, format!("`{id}` is a root and has no `do:`"));
        }
        if let Some(cause) = &finding.cause
            && !library.playbooks.contains_key(cause)
            && !library.causes.contains_key(cause)
            && !library.playbooks.values().flat_map(|p| &p.causes).any(|c| c.id.as_ref() == Some(cause))
        {
            say(Lint::LogCause, cause, format!("there is no playbook or cause `{cause}`"));
        }
        let known = |of: &LogFile, id: &String| of.findings.iter().any(|finding| finding.id == *id);
        let anywhere = || library.logs.values().filter(|of| of.anywhere);
        for id in finding.follows.iter().filter(|id| !known(log, id) && !anywhere().any(|of| known(of, id))) {
            say(Lint::LogFollows, id, format!("there is no finding `{id}` in this file or in those of any log"));
        }
        for id in finding.own_fault.iter().filter(|id| !known(log, id)) {
            say(Lint::LogFollows, id, format!("there is no finding `{id}` in this file"));
        }
        if let Some(signal) = &finding.tells {
            let log_signals =
                |(name, signal): (&String, &knowledge::signal::Signal)| signal.is_of_log().then(|| name.clone());
            let log_signals: Vec<String> = library.signals.iter().filter_map(log_signals).collect();
            if !log_signals.contains(signal) {
                let hint = suggestion(signal, log_signals.iter().map(String::as_str)).unwrap_or_default();
                say(Lint::LogTells, signal, format!("there is no signal `{signal}` that is `of: [log]` {hint}"));
            }
            if finding.rank > LogRank::Sign {
                say(Lint::LogTells, signal, format!("`{id}` is no error of its own and cannot tell `{signal}`"));
            }
        }
        if let Some(engine) = &finding.engine
            && engine.parse::<VersionReq>().is_err()
        {
            say(Lint::LogEngine, id, format!("`{engine}` is no engine with versions"));
        }
        if finding.direction.is_some() && library.tables.memory_flag(&log.logs).is_none() {
            say(Lint::LogDirection, id, format!("`{id}` turns a flag that tables/memory-flags.yaml does not name"));
        }
        if finding.lines.iter().any(|pattern| pattern.trim().len() < MIN_PATTERN_CHARS) {
            say(Lint::LogPattern, id, format!("a pattern of `{id}` is too short to tell one line from another"));
        }
        if !finding.source.starts_with("https://") {
            say(Lint::LogSource, id, format!("`{id}` has no https source"));
        }
    }
    for (text, _) in log.stages.texts().filter(|(text, _)| text.trim().len() < MIN_PATTERN_CHARS) {
        say(Lint::LogPattern, text, format!("`{text}` of `stages` is too short to tell one line from another"));
    }
    for fact in &log.facts {
        if fact.what.is_some() != (fact.tells == LogTells::Version) {
            say(
                Lint::LogFact,
                &fact.mark,
                format!("`of` says of what `{}` tells the version, and of nothing else", fact.mark),
            );
        }
        if fact.examples.is_empty() {
            say(Lint::LogExample, &fact.mark, format!("`{}` needs a real line", fact.mark));
        }
        for example in &fact.examples {
            let read = logs::start::read(fact, &example.line);
            if example.told.is_empty() || !example.told.iter().all(|told| read.iter().any(|(n, v)| (n, v) == told)) {
                say(Lint::LogFact, &fact.mark, format!("read {read:?} instead of {:?}", example.told));
            }
        }
    }
    for numbers in log.statistics.iter().chain(&log.startup) {
        for example in &numbers.examples {
            let read = numbers.read(&example.line).unwrap_or_default();
            let same = read.len() == example.values.len()
                && example.values.iter().all(|(name, expected)| {
                    read.get(name.as_str()).is_some_and(|v| (v - expected).abs() <= TOLERANCE * expected.abs().max(1.0))
                });
            if !same {
                say(Lint::LogNumbers, &numbers.mark, format!("read {read:?} instead of {:?}", example.values));
            }
        }
        if numbers.direction.is_some() && numbers.source.as_ref().is_none_or(|source| !source.starts_with("https://")) {
            say(Lint::LogSource, &numbers.mark, format!("`{}` has no https source", numbers.mark));
        }
        if numbers.examples.is_empty() {
            say(Lint::LogExample, &numbers.mark, format!("`{}` needs a real line", numbers.mark));
        }
    }
}
