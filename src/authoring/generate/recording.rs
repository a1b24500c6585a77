//! The recording half of `generate rules`: engine-neutral `llm:<signal>` series, one rule per signal and engine.
//!
//! All engines' series get the same names and the same labels `cluster`, `namespace`, `model_name`, `engine`, so that
//! alerts and dashboards are written once. If a gateway reports the same as the engines behind it, its rule is silent
//! while an engine of the same model has data; a gateway whose series name no model is silent while an engine of its
//! namespace has data. `llm:<signal>:replica` has one series per replica.

use std::collections::BTreeSet;
use std::time::Duration;

use super::yaml::{RuleGroup, block, indented, quoted};
use knowledge::playbook::{AlertRule, AlertScope, Evidence, Library};
use knowledge::signal::{
    Engine, EngineKind, Fill, RECORDED_POOL, RECORDED_WINDOW, Signal, choice, fill, histograms, matchers, recorded_name,
};

/// The fewest failures that are a slow burn.
const LEAST_OF_LONG: u32 = 20;
/// The fewest hours with requests that tell a slow burn.
const LEAST_HOURS: u32 = 3;

/// A recorded series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordingRule<'a> {
    /// The signal.
    pub signal: &'a str,
    /// The level: the pool, or each replica.
    pub each: AlertScope,
}

impl RecordingRule<'_> {
    /// Returns the name of the series.
    pub(super) fn name(&self) -> String {
        recorded_name(self.signal, self.each == AlertScope::Replica)
    }

    /// Returns the labels of its series, whichever engine reports them.
    pub(super) fn labels(&self, library: &Library) -> Vec<String> {
        let mut labels: Vec<String> = vec!["cluster".into(), "namespace".into()];
        let tellers = || library.engines.values().filter(|engine| tells(engine, self.signal));
        if tellers().any(|engine| engine.kind.is_pool()) {
            labels.push("model_name".into());
        }
        labels.push("engine".into());
        if self.each == AlertScope::Replica {
            for label in tellers().flat_map(|engine| &engine.replica) {
                if !labels.contains(label) {
                    labels.push(label.clone());
                }
            }
        }
        labels
    }
}

/// Returns the series that alerts, dashboards and kinds of pools use, and those that a diagnosis would compute from many
/// histograms.
pub(super) fn recording_rules(library: &Library) -> BTreeSet<RecordingRule<'_>> {
    let alerts = library.playbooks.values().flat_map(|playbook| &playbook.alerts).flat_map(|alert: &AlertRule| {
        let checks = alert.when.iter().flat_map(Evidence::checks);
        checks.map(|(signal, _)| RecordingRule { signal, each: alert.each }).collect::<Vec<_>>()
    });
    let on_dashboard = library.signals.iter().flat_map(|(signal, definition): (&String, &Signal)| {
        let each = [(definition.row.is_some(), AlertScope::Pool), (definition.by_replica, AlertScope::Replica)];
        each.into_iter().filter(|(is_recorded, _)| *is_recorded).map(move |(_, each)| RecordingRule { signal, each })
    });
    let kinds = library.kinds.moving().flat_map(|kind| &kind.when).flat_map(Evidence::checks);
    let kinds = kinds.map(|(signal, _)| RecordingRule { signal, each: AlertScope::Pool });
    alerts.chain(on_dashboard).chain(kinds).chain(of_histograms(library)).collect()
}

/// Returns the signals that are computed from histograms; for symptoms, each replica's value too.
fn of_histograms(library: &Library) -> impl Iterator<Item = RecordingRule<'_>> {
    let symptoms = library.playbooks.values().flat_map(|playbook| &playbook.symptom).flat_map(Evidence::checks);
    let symptoms: BTreeSet<&str> = symptoms.map(|(signal, _)| signal).collect();
    let reads = |signal: &&String| {
        let queries = library.engines.values().filter_map(|engine| engine.signals.get(*signal)?.query.as_deref());
        queries.into_iter().any(|query| histograms(query).next().is_some())
    };
    // The burn rate of a replica is never used, and its four parts are costly.
    let counted = |signal: &str| library.signals.get(signal).is_some_and(|signal| signal.burn.is_none());
    library.signals.keys().filter(reads).flat_map(move |signal| {
        let replica = (symptoms.contains(signal.as_str()) && counted(signal)).then_some(AlertScope::Replica);
        [Some(AlertScope::Pool), replica].into_iter().flatten().map(move |each| RecordingRule { signal, each })
    })
}

/// Returns true if an engine reports a signal in PromQL alone; numbers in labels cannot be computed with.
pub(super) fn tells(engine: &Engine, signal: &str) -> bool {
    engine.signals.get(signal).is_some_and(|s| s.query.is_some() && s.from_labels.is_empty())
}

/// Returns the rule groups, one per engine.
pub(super) fn groups(library: &Library, window: Duration) -> Vec<RuleGroup> {
    let rules = recording_rules(library);
    let mut groups = Vec::new();
    for engine in library.engines.values() {
        let own: Vec<&RecordingRule<'_>> = rules.iter().filter(|recorded| tells(engine, recorded.signal)).collect();
        if own.is_empty() {
            continue;
        }
        let mut group = RuleGroup::recording(&engine.engine);
        rule(&mut group.rules, engine, RECORDED_WINDOW, &format!("vector({})", window.as_secs()));
        for recorded in own {
            write(&mut group.rules, library, engine, recorded, &recorded.name(), window);
        }
        groups.push(group);
    }
    for (i, promised) in library.promised.iter().enumerate() {
        let moved: Vec<RecordingRule<'_>> =
            rules.iter().filter(|recorded| promised.is_moved(recorded.signal)).copied().collect();
        let engines = promised.library.engines.values();
        for engine in engines.filter(|engine| moved.iter().any(|recorded| tells(engine, recorded.signal))) {
            let mut group = RuleGroup::recording(&format!("slo{}.{}", i + 1, engine.engine));
            for recorded in moved.iter().filter(|recorded| tells(engine, recorded.signal)) {
                let name = promised_name(&recorded.name(), i);
                write(&mut group.rules, &promised.library, engine, recorded, &name, window);
            }
            groups.push(group);
        }
    }
    groups
}

/// Returns the name of a burn rate for the threshold of the promise at index `i` of the configuration.
pub(super) fn promised_name(name: &str, i: usize) -> String {
    format!("{name}:slo{}", i + 1)
}

fn rule(out: &mut String, engine: &Engine, name: &str, expr: &str) {
    record(out, name, expr, &[("engine", &engine.engine)]);
}

/// Writes a recording rule.
pub(super) fn record(out: &mut String, name: &str, expr: &str, labels: &[(&str, &str)]) {
    out.push_str(&format!("      - record: {name}\n"));
    block(out, 8, "expr", expr);
    if !labels.is_empty() {
        let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}: {}", quoted(value))).collect();
        out.push_str(&format!("        labels: {{ {} }}\n", labels.join(", ")));
    }
}

fn write(
    out: &mut String,
    library: &Library,
    engine: &Engine,
    recorded: &RecordingRule<'_>,
    name: &str,
    window: Duration,
) {
    let mut rule = |name: &str, expr: &str| rule(out, engine, name, expr);
    let burn = library.signals.get(recorded.signal).and_then(|signal| signal.burn.as_ref());
    let query_of = |signal: &str| engine.signals.get(signal).and_then(|entry| entry.query.as_deref());
    let parts = burn.and_then(|burn| burn.parts(query_of(&burn.of), burn.mean.as_deref().and_then(query_of)));
    let Some(parts) = parts else {
        let query = engine.signals.get(recorded.signal).and_then(|entry| entry.query.as_deref());
        return rule(name, &expression(library, engine, recorded, query.unwrap_or_default(), window));
    };
    // In parts, so that the rules stay readable and each is queried once.
    for (part, query) in
        [("window", &parts.window), ("hour", &parts.hour), ("requests", &parts.requests), ("recent", &parts.recent)]
    {
        rule(&format!("{name}:{part}"), &expression(library, engine, recorded, query, window));
    }
    let of = |part: &str| format!("{name}:{part}{{engine=\"{}\"}}", engine.engine);
    rule(name, &parts.over(&of("window"), &of("hour"), &of("requests"), &of("recent")));
    for over in slow_burns(library, recorded.signal) {
        rule(&long_name(name, over), &share_over(over, &of("hour"), &of("requests")));
    }
}

/// Returns the long times over which alerts look at a burn rate.
fn slow_burns<'a>(library: &'a Library, signal: &str) -> BTreeSet<&'a str> {
    let alerts = library.playbooks.values().flat_map(|playbook| &playbook.alerts);
    let of_signal = |alert: &&AlertRule| alert.when.iter().flat_map(Evidence::checks).any(|(own, _)| own == signal);
    alerts.filter(of_signal).filter_map(|alert| alert.over.as_deref()).collect()
}

/// Returns the name of the share of failures over a long time.
pub(super) fn long_name(name: &str, over: &str) -> String {
    format!("{name}:{over}")
}

/// Builds the share of failures among the requests of a long time, from those of each hour.
///
/// It is silent before three hours have requests, and below the failures of a burn.
fn share_over(over: &str, hour: &str, requests: &str) -> String {
    // A share of no requests is not a number.
    let failures = format!("sum_over_time(({hour} * {requests} >= 0)[{over}:1h])");
    format!(
        "{failures} / sum_over_time({requests}[{over}:1h])\n  \
         and {failures} >= {LEAST_OF_LONG}\n  and count_over_time(({requests} > 0)[{over}:1h]) >= {LEAST_HOURS}"
    )
}

fn expression(
    library: &Library,
    engine: &Engine,
    recorded: &RecordingRule<'_>,
    query: &str,
    window: Duration,
) -> String {
    let Some(entry) = engine.signals.get(recorded.signal) else { return String::new() };
    let window = entry.own_window().unwrap_or(window);
    by_pool(library, engine, recorded, query, window)
}

/// Fills a query for all pools of an engine, over exactly this window; the result has the labels of recorded series.
pub(super) fn by_pool(
    library: &Library,
    engine: &Engine,
    recorded: &RecordingRule<'_>,
    query: &str,
    window: Duration,
) -> String {
    let pool = pool(engine);
    let mut by: Vec<String> = pool.iter().map(|(_, label)| (*label).to_owned()).collect();
    if recorded.each == AlertScope::Replica {
        by.extend(engine.replica.iter().filter(|label| !by.contains(label)).cloned().collect::<Vec<_>>());
    }
    // Names without a prefix may be another program's, which no rule for a whole fleet can know.
    let prefixes: Vec<String> = engine.prefixes.iter().filter(|prefix| !prefix.is_empty()).cloned().collect();
    let prefix = prefixes.first().map(|written| (written.as_str(), prefixes.as_slice()));
    let own = matchers(&engine.own_series().collect::<Vec<_>>());
    // A query that sums over the models counts requests without one too.
    let mut models = engine.scope.get("model").into_iter().flatten();
    let over_models = models.any(|label| query.contains(&format!("without ({label})")));
    let scope = if over_models { own } else { named(engine, own) };
    let mut expr =
        fill(query, &Fill { scope: &scope, workload: "", window, by: &by, target: &engine.target(), prefix });
    // If relabelling already set the common name, it stays.
    let renamed: Vec<String> = pool
        .iter()
        .filter(|(name, label)| name != label)
        .map(|(name, label)| format!(", \"{name}\", \"$1\", \"{label}\", \"(.+)\")"))
        .collect();
    if !renamed.is_empty() {
        expr = format!("{}\n{}\n{}", "label_replace(".repeat(renamed.len()), indented(&expr), renamed.concat());
    }
    let (same, other): (Vec<&Engine>, Vec<&Engine>) =
        better(library, engine, recorded.signal).into_iter().partition(|other| other.kind == engine.kind);
    let names_models = engine.scope.contains_key("model");
    // A stand-in runs beside its engine. A gateway may run in a namespace of its own: it repeats the values of
    // engines of its model, and in its own namespace those of engines that name no model.
    let repeated: &[(&str, &str, &[&Engine])] = match names_models {
        true => &[
            ("cluster, model_name", ",model_name!=\"\"", &other),
            ("cluster, namespace", ",model_name=\"\"", &other),
            ("cluster, namespace", "", &same),
        ],
        false => &[("cluster, namespace", "", &other), ("cluster, namespace", "", &same)],
    };
    for (on, models, engines) in repeated.iter().filter(|(.., engines)| !engines.is_empty()) {
        let names: Vec<&str> = engines.iter().map(|other| other.engine.as_str()).collect();
        let (own, name, names) = (indented(&expr), recorded.name(), names.join("|"));
        expr = format!("(\n{own}\n) unless on ({on}) {name}{{engine=~\"{names}\"{models}}}");
    }
    expr
}

/// Adds matchers that exclude values that are no model: requests for an unknown name belong to no pool.
fn named(engine: &Engine, scope: String) -> String {
    let labels = engine.scope.get("model").into_iter().flatten().filter(|_| !engine.no_model.is_empty());
    let none = labels.map(|label| format!("{label}!~{}", choice(&engine.no_model)));
    Some(scope).filter(|scope| !scope.is_empty()).into_iter().chain(none).collect::<Vec<_>>().join(",")
}

/// Returns the labels with which an engine's series may name the pool, each with its common name; the preferred one
/// last.
///
/// A scrape may keep or rename a page's own labels (`exported_namespace`), so all spellings are grouped by.
fn pool(engine: &Engine) -> Vec<(&'static str, &str)> {
    let spelt = |(dimension, name): &(&str, &'static str)| -> Vec<(&'static str, &str)> {
        let labels = engine.scope.get(*dimension).map(Vec::as_slice).unwrap_or_default();
        labels.iter().rev().map(|label| (*name, label.as_str())).collect()
    };
    RECORDED_POOL.iter().flat_map(spelt).collect()
}

/// Returns the engines that take precedence over this one.
fn better<'a>(library: &'a Library, engine: &Engine, signal: &str) -> Vec<&'a Engine> {
    let of = library.signals.get(signal).map(|s| s.of.as_slice()).unwrap_or_default();
    let rank = |kind: EngineKind| of.iter().position(|k| *k == kind).unwrap_or(of.len());
    let own = (rank(engine.kind), engine.stand_in);
    let others = library.engines.values().filter(|other| tells(other, signal));
    others.filter(|other| (rank(other.kind), other.stand_in) < own).collect()
}
