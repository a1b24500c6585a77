//! Labels that a person typed: their names must select a pool, and a pool must have their values.
//!
//! Of an alert's labels those that select nothing are ignored, because no person chose them. A typed label is refused
//! instead: ignored, the answer would be about the whole fleet.

use std::collections::{BTreeMap, BTreeSet};

use super::scope::{DIMENSIONS, REPLICA_LABELS};
use crate::alert::Labels;
use crate::playbook::{Library, nearest, suggestion};

/// Values that are named where none fits.
const FEW: usize = 5;

/// Refuses a label name that does not select a pool, and suggests a similar one; `also` are more names that are allowed.
///
/// # Errors
/// A sentence about the first name that is unknown.
pub fn known_names<'a>(
    labels: impl IntoIterator<Item = &'a str>,
    also: impl IntoIterator<Item = &'a str>,
) -> Result<(), String> {
    let dimensions = DIMENSIONS.iter().flat_map(|(_, names)| names.iter().copied());
    let known: Vec<&str> = dimensions.chain(REPLICA_LABELS).chain(also).collect();
    match labels.into_iter().find(|label| !known.contains(label)) {
        None => Ok(()),
        Some(unknown) => {
            let hint = suggestion(unknown, known.iter().copied());
            let hint = hint.unwrap_or_else(|| "expected one of cluster, namespace, model_name, job, pod".to_owned());
            Err(format!("label `{unknown}` does not select a pool: {hint}"))
        }
    }
}

/// Refuses a value of a scope that no series has, where series have that dimension at all, and names values that they have.
///
/// # Errors
/// A sentence about the first value that no series has.
pub fn known_values(library: &Library, dimensions: &BTreeMap<String, String>, rows: &[Labels]) -> Result<(), String> {
    for (dimension, value) in dimensions {
        let labels: BTreeSet<&String> =
            library.engines.values().filter_map(|engine| engine.scope.get(dimension)).flatten().collect();
        let told = rows.iter().flat_map(|row| labels.iter().filter_map(|label| row.get(*label)));
        let told: BTreeSet<&str> = told.map(String::as_str).filter(|value| !value.is_empty()).collect();
        if told.is_empty() || told.contains(value.as_str()) {
            continue;
        }
        let more = told.len().saturating_sub(FEW);
        let near = nearest(value, told).into_iter().take(FEW).map(|value| format!("`{value}`"));
        let near = near.collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(format!("no {dimension} `{value}`; there is {near}{more}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playbook::load;

    #[test]
    fn a_misspelt_label_is_shown_with_the_one_that_was_meant() {
        assert_eq!(known_names(["namespace", "model_name", "pod", "site"], ["site"]), Ok(()));
        let said = known_names(["modle_name"], []).unwrap_err();
        assert_eq!(said, "label `modle_name` does not select a pool: did you mean `model_name`?");
        assert!(known_names(["colour"], []).unwrap_err().contains("expected one of cluster, namespace, model_name"));
    }

    #[test]
    fn a_value_that_nobody_has_is_shown_with_the_nearest_and_one_that_nobody_could_have_is_left() {
        let library = load(None).unwrap();
        let row = |labels: &[(&str, &str)]| labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let rows: Vec<Labels> =
            vec![row(&[("model_name", "tiny-llama"), ("namespace", "")]), row(&[("model", "qwen")])];
        let asked = |dimension: &str, value: &str| {
            known_values(&library, &[(dimension.to_owned(), value.to_owned())].into(), &rows)
        };
        assert_eq!(asked("model", "tiny-lama").unwrap_err(), "no model `tiny-lama`; there is `tiny-llama`, `qwen`");
        assert_eq!([asked("model", "qwen"), asked("namespace", "llm")], [Ok(()), Ok(())]);
    }
}
