//! Labels that select no pool: the unknown name or value, and the most similar known ones.
//!
//! Typed labels are then refused: ignoring them would give an answer about the whole fleet. For an alert the
//! diagnosis reports them.

use std::collections::{BTreeMap, BTreeSet};

use crate::pools;
use findings::UnknownLabelValue;
use findings::scope::{DIMENSIONS, REPLICA_LABELS, pool_name};
use knowledge::alert::Labels;
use knowledge::clip::clip;
use knowledge::playbook::{Library, suggestion};
use knowledge::signal::Engine;

/// Maximum length of a value in a message, in characters.
const VALUE_CHARS: usize = 120;

/// Checks that label names select a pool, and suggests a similar name; `also` are more names that are allowed.
///
/// # Errors
/// Returns a sentence about the first unknown name.
pub fn known_names<'a>(
    labels: impl IntoIterator<Item = &'a str>,
    also: impl IntoIterator<Item = &'a str>,
) -> Result<(), String> {
    let dimensions = DIMENSIONS.iter().flat_map(|(_, names)| names.iter().copied());
    let known_labels: Vec<&str> = dimensions.chain(REPLICA_LABELS).chain(also).collect();
    match labels.into_iter().find(|label| !known_labels.contains(label)) {
        None => Ok(()),
        Some(unknown) => {
            let hint = suggestion(unknown, known_labels.iter().copied());
            let hint = hint.unwrap_or_else(|| "expected one of cluster, namespace, model_name, job, pod".to_owned());
            Err(format!("label `{unknown}` does not select a pool: {hint}"))
        }
    }
}

/// Parses a target like `model=tiny-llama` into dimension and value; `None` if it is a plain name.
///
/// # Errors
/// Returns a sentence about an unknown label, as [`known_names`] does.
pub fn typed_label(target: &str) -> Result<Option<(&'static str, &str)>, String> {
    let Some((label, value)) = target.split_once('=') else { return Ok(None) };
    let label = label.trim();
    let dimension = DIMENSIONS.iter().find(|(_, names)| names.contains(&label)).map(|(dimension, _)| *dimension);
    match dimension {
        Some(dimension) => Ok(Some((dimension, value.trim().trim_matches('"')))),
        None => {
            let pool_labels = DIMENSIONS.iter().flat_map(|(_, names)| names.iter().copied());
            let hint =
                suggestion(label, pool_labels).unwrap_or_else(|| "expected cluster, namespace or model".to_owned());
            Err(format!("label `{}` does not select a pool: {hint}", clip(label, VALUE_CHARS)))
        }
    }
}

/// Returns the first value of a scope that no pool has although pools have that dimension; else the scope itself, if
/// no pool has all of its values.
pub(crate) fn unknown(
    library: &Library,
    scope: &BTreeMap<String, String>,
    rows: &[Labels],
) -> Option<UnknownLabelValue> {
    // A job label of the rule that fired is often another exporter's.
    let telling = scope.iter().filter(|(dimension, _)| *dimension != "job");
    unknown_value(library, telling, rows).or_else(|| {
        let pool_names: BTreeSet<String> =
            pools(library, rows).iter().map(pool_name).filter(|name| !name.is_empty()).collect();
        let requested = pool_name(scope);
        let comparable = !requested.is_empty() && !pool_names.is_empty();
        comparable.then(|| UnknownLabelValue::new("pool", &requested, pool_names.iter().map(String::as_str)))
    })
}

/// Returns the first value of a scope that no pool has although pools have that dimension.
fn unknown_value<'a>(
    library: &Library,
    scope: impl IntoIterator<Item = (&'a String, &'a String)>,
    rows: &[Labels],
) -> Option<UnknownLabelValue> {
    scope.into_iter().find_map(|(dimension, value)| {
        let present = values(library, dimension, rows);
        (!present.is_empty() && !present.contains(value.as_str()))
            .then(|| UnknownLabelValue::new(dimension, value, present))
    })
}

/// Returns the values of a dimension; exporters that are no pool count only for jobs.
fn values<'a>(library: &Library, dimension: &str, rows: &'a [Labels]) -> BTreeSet<&'a str> {
    let engines = || library.engines.values().filter(|engine| engine.kind.is_pool() || dimension == "job");
    let labels: BTreeSet<&String> = engines().filter_map(|engine| engine.scope.get(dimension)).flatten().collect();
    let beside: BTreeSet<String> = library
        .engines
        .values()
        .filter(|engine| !engine.kind.is_pool() && dimension != "job")
        .flat_map(Engine::detected_by)
        .collect();
    let counts = |row: &&Labels| row.get("__name__").is_none_or(|name| !beside.contains(name));
    let label_values = rows.iter().filter(counts).flat_map(|row| labels.iter().filter_map(|label| row.get(*label)));
    let no_model = |value: &String| dimension == "model" && engines().any(|engine| engine.no_model.contains(value));
    label_values.filter(|value| !value.is_empty() && !no_model(value)).map(String::as_str).collect()
}

/// Checks that pools have a scope's values, if they have the dimension at all, and suggests values.
///
/// # Errors
/// Returns the first value that no series has.
pub fn known_values(
    library: &Library,
    dimensions: &BTreeMap<String, String>,
    rows: &[Labels],
) -> Result<(), UnknownLabelValue> {
    unknown_value(library, dimensions, rows).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::playbook::load;

    #[test]
    fn a_misspelt_label_is_shown_with_the_one_that_was_meant() {
        assert_eq!(known_names(["namespace", "model_name", "pod", "site"], ["site"]), Ok(()));
        let error = known_names(["modle_name"], []).unwrap_err();
        assert_eq!(error, "label `modle_name` does not select a pool: did you mean `model_name`?");
        assert!(known_names(["colour"], []).unwrap_err().contains("expected one of cluster, namespace, model_name"));
    }

    #[test]
    fn a_value_that_nobody_has_is_shown_with_the_nearest_and_one_that_nobody_could_have_is_left() {
        let library = load(None).unwrap();
        let row = |labels: &[(&str, &str)]| labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let rows: Vec<Labels> =
            vec![row(&[("model_name", "tiny-llama"), ("namespace", "")]), row(&[("model", "qwen")])];
        let checked = |dimension: &str, value: &str| {
            known_values(&library, &[(dimension.to_owned(), value.to_owned())].into(), &rows)
        };
        assert_eq!(
            checked("model", "tiny-lama").unwrap_err().to_string(),
            "no model `tiny-lama`; there is `tiny-llama`, `qwen`"
        );
        assert_eq!([checked("model", "qwen"), checked("namespace", "llm")], [Ok(()), Ok(())]);
    }
}
