//! Queries that detect the engines, and the times at which they had data.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::DetectionResult;
use crate::names::SERVICE;
use findings::scope::fits;
use knowledge::playbook::Library;
use knowledge::signal::{Backends, Engine, EngineKind, prometheus_duration};
use prom::Row;

/// The time before the evaluation in which series count as present.
const HOUR: &str = "1h";

/// Builds the detection query: every engine's detection series and version probes of the last hour, by the labels
/// that scopes are made of. If a gateway names the engines behind it: those names too, and the names of the engines.
pub fn detection(library: &Library) -> String {
    detection_within(library, HOUR)
}

/// Builds the query of [`detection()`] for the time before the evaluation: `1h`, `1d`.
pub fn detection_within(library: &Library, before: &str) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut labels: BTreeSet<&str> = BTreeSet::from(["__name__"]);
    let mut behind: BTreeSet<String> = BTreeSet::new();
    let mut called: BTreeSet<&str> = BTreeSet::from([SERVICE]);
    for engine in library.engines.values() {
        for metric in engine.detection_series().chain(engine.versions.iter().map(|v| v.metric.as_str())) {
            names.extend(engine.spellings(metric).into_iter().map(|(_, name)| name));
        }
        labels.extend(telling_labels(engine));
        behind.extend(engine.backends.iter().flat_map(|of| names_behind(engine, of)));
        called.extend(engine.backends.iter().flat_map(|of| of.model.iter().chain(&of.address)).map(String::as_str));
        if engine.kind == EngineKind::Serving || !engine.backends.is_empty() {
            called.extend(engine.replica.iter().map(String::as_str));
        }
    }
    let serving = library.engines.values().filter(|engine| engine.kind == EngineKind::Serving);
    let detection_names: BTreeSet<String> =
        serving.flat_map(Engine::detected_by).chain(behind.iter().cloned()).collect();
    called.extend(&labels);
    let all = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join("|");
    let by = |labels: BTreeSet<&str>| labels.into_iter().collect::<Vec<_>>().join(", ");
    let present = format!("count by ({}) (last_over_time({{__name__=~\"{}\"}}[{before}]))", by(labels), all(names));
    if behind.is_empty() {
        return present;
    }
    format!(
        "{present} or (count by ({}) (last_over_time({{__name__=~\"{}\"}}[{before}])) \
         and on () group(last_over_time({{__name__=~\"{}\"}}[{before}])))",
        by(called),
        all(detection_names),
        all(behind)
    )
}

/// Returns every spelling of the series that name the engines behind a gateway.
pub fn names_behind(engine: &Engine, of: &Backends) -> Vec<String> {
    of.series.iter().flat_map(|metric| engine.spellings(metric)).map(|(_, name)| name).collect()
}

/// Builds the query for the pools that had data so long ago, by the labels that scopes are made of.
pub fn presence(library: &Library, ago: Duration) -> String {
    served_by_scope(library, "", "", &format!(" offset {}", prometheus_duration(ago)))
}

/// Builds the query for the pools of the last day, with the names of the series, by the labels of scopes.
pub fn last_day(library: &Library) -> String {
    served_by_scope(library, "", "__name__, ", "[1d]")
}

/// Builds the query that counts serving series, by the labels of scopes and `more`, at one time or within a range.
pub(crate) fn served_by_scope(library: &Library, matchers: &str, more: &str, range: &str) -> String {
    let pools = || library.engines.values().filter(|e| e.kind.is_pool());
    let names: Vec<String> = pools().flat_map(Engine::detected_by).collect();
    let labels: BTreeSet<&str> = pools().flat_map(telling_labels).collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let series = format!("{{__name__=~\"{}\", {matchers}}}{range}", names.join("|"));
    let series = if range.starts_with('[') { format!("last_over_time({series})") } else { series };
    format!("count by ({more}{}) ({series})", labels.join(", "))
}

/// Builds the query for the time of the serving engines' newest sample, in Unix seconds.
pub fn newest(library: &Library) -> String {
    let serving = library.engines.values().filter(|e| e.kind == EngineKind::Serving);
    let names: Vec<String> = serving.flat_map(Engine::detected_by).collect();
    format!("max(timestamp({{__name__=~\"{}\"}}))", names.join("|"))
}

/// Returns true if the rows of [`presence`] contain the detected pool.
pub fn was_present(library: &Library, detection: &DetectionResult, rows: &[Row]) -> bool {
    let mut pool = detection.pool(library);
    pool.any(|(_, engine_seen)| rows.iter().any(|row| fits(&engine_seen.matchers, &row.labels)))
}

/// Returns the labels that bind an engine's series to a scope, or identify them as another program's.
fn telling_labels(engine: &Engine) -> impl Iterator<Item = &str> {
    engine.scope.values().flatten().chain(&engine.foreign).map(String::as_str)
}
