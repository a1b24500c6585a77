//! Discovery of exporters: Prometheus' targets, assigned to engines by the series that came from them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use findings::{ExporterTarget, Request};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::Engine;
use prom::{PromError, Prometheus};

/// Returns the exporters whose pages can be read and whose series Prometheus had within the last hour.
///
/// # Errors
/// If Prometheus cannot be queried, or does not return its targets.
pub async fn discover_exporters(
    library: &Library,
    prometheus: &Prometheus,
    at: Timestamp,
    deadline: Instant,
) -> Result<Vec<ExporterTarget>, PromError> {
    learn_of(library, prometheus, super::is_readable, at, deadline).await
}

/// Returns the targets of a request's pool whose engines `selects` accepts; a GPU exporter serves every pool of its node.
///
/// # Errors
/// As [`discover_exporters`].
pub async fn targets(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    selects: fn(&Engine) -> bool,
    deadline: Instant,
) -> Result<Vec<ExporterTarget>, PromError> {
    let mut targets = learn_of(library, prometheus, selects, request.at, deadline).await?;
    targets.retain(|target| {
        library.engines.get(&target.engine).is_some_and(|engine| !super::outside(request, engine, target))
    });
    Ok(targets)
}

/// Returns the engines and exporters whose metrics a page has, by those that detect each; `instance` names the page.
pub fn identify(library: &Library, url: &str, instance: &str, has: impl Fn(&str) -> bool) -> Vec<ExporterTarget> {
    let engines = library.engines.values().filter(|engine| super::is_readable(engine));
    let detected = engines.filter(|engine| engine.detected_by().iter().any(|name| has(name)));
    let target = |engine: &Engine| {
        let labels = Labels::from([("instance".to_owned(), instance.to_owned())]);
        ExporterTarget { engine: engine.engine.clone(), url: url.to_owned(), labels, seen: None }
    };
    detected.map(target).collect()
}

async fn learn_of(
    library: &Library,
    prometheus: &Prometheus,
    selects: fn(&Engine) -> bool,
    at: Timestamp,
    deadline: Instant,
) -> Result<Vec<ExporterTarget>, PromError> {
    let readable: Vec<&Engine> = library.engines.values().filter(|engine| selects(engine)).collect();
    let names: BTreeMap<String, &Engine> =
        readable.iter().flat_map(|engine| engine.detected_by().into_iter().map(|name| (name, *engine))).collect();
    let by: BTreeSet<&str> = ["__name__", "job", "instance"]
        .into_iter()
        .chain(readable.iter().flat_map(|e| e.scope.values().flatten()).map(String::as_str))
        .collect();
    let query = format!(
        "count by ({}) (last_over_time({{__name__=~\"{}\"}}[1h]))",
        by.into_iter().collect::<Vec<_>>().join(", "),
        names.keys().map(String::as_str).collect::<Vec<_>>().join("|")
    );
    let (series, active) = futures::join!(prometheus.query(&query, at, deadline), prometheus.targets(deadline));
    let series = series.map_err(|error| (*error).clone())?;
    let mut learnt: BTreeMap<(String, String), ExporterTarget> = BTreeMap::new();
    for target in active? {
        let same = |row: &Labels| ["job", "instance"].iter().all(|label| row.get(*label) == target.labels.get(*label));
        for row in series.iter().map(|row| &row.labels).filter(|row| same(row)) {
            let Some(engine) = row.get("__name__").and_then(|name| names.get(name)) else { continue };
            let exporter =
                learnt.entry((target.url.clone(), engine.engine.clone())).or_insert_with(|| ExporterTarget {
                    engine: engine.engine.clone(),
                    url: target.url.clone(),
                    labels: target.labels.clone(),
                    seen: Some(at),
                });
            // These labels identify the pool of an exporter that no longer answers; several values identify none.
            let serving = engine.kind.is_pool();
            for label in engine.scope.values().flatten().filter(|_| serving) {
                if let Some(value) = row.get(label).filter(|v| !v.is_empty() && !target.labels.contains_key(label)) {
                    match exporter.labels.get(label) {
                        Some(other) if other != value => _ = exporter.labels.insert(label.clone(), String::new()),
                        _ => _ = exporter.labels.insert(label.clone(), value.clone()),
                    }
                }
            }
        }
    }
    let mut learnt: Vec<ExporterTarget> = learnt.into_values().collect();
    learnt.iter_mut().for_each(|target| target.labels.retain(|_, value| !value.is_empty()));
    Ok(learnt)
}
