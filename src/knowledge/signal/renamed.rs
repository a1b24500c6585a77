//! Names of metrics that an expression reads and newer versions of the engines no longer have. Pure.

use super::{Engine, RenamedMetric};

/// Endings of a histogram's series.
const PARTS: [&str; 4] = ["", "_bucket", "_sum", "_count"];

/// Returns the renamed metrics that an expression reads, each with its engine. One that reads the new name as well
/// fits both versions, and is left out.
pub fn outdated<'a>(
    engines: impl IntoIterator<Item = &'a Engine>,
    expression: &str,
) -> Vec<(&'a Engine, &'a RenamedMetric)> {
    let names: Vec<&str> = expression.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c)).collect();
    let reads =
        |metric: &str| names.iter().any(|name| name.strip_prefix(metric).is_some_and(|part| PARTS.contains(&part)));
    let is_outdated = |metric: &RenamedMetric| reads(&metric.old) && !metric.new.as_deref().is_some_and(reads);
    let of_engine = |engine: &'a Engine| engine.renamed.iter().map(move |metric| (engine, metric));
    engines.into_iter().flat_map(of_engine).filter(|(_, metric)| is_outdated(metric)).collect()
}
