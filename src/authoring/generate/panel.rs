//! The parts that all panels of the dashboard share.

use serde_json::{Value, json};

/// A panel's height in grid units.
pub(super) const HEIGHT: u64 = 8;

/// The template variables, each a label of the recorded series.
pub(super) const VARIABLES: [(&str, &str); 4] =
    [("cluster", "Cluster"), ("namespace", "Namespace"), ("model_name", "Model"), ("engine", "Engine")];

pub(super) fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// Returns matchers for the selected variables: `{namespace=~"$namespace"}`.
pub(super) fn matchers<'a>(variables: impl Iterator<Item = &'a str>) -> String {
    let each: Vec<String> = variables.map(|variable| format!("{variable}=~\"${variable}\"")).collect();
    if each.is_empty() { String::new() } else { format!("{{{}}}", each.join(", ")) }
}
