//! Extracts information from answers, by the JSON pointers of the engine's signal file.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AnswerBody, EndpointAnswer};
use knowledge::playbook::Library;
use redact::is_secret;

/// Maximum number of values of one pointer; an answer is untrusted.
const FOUND_MOST: usize = 512;
/// Maximum depth of nested settings; vLLM's have two levels.
const DEPTH: usize = 3;
/// Maximum length of a value, in characters.
const VALUE_CHARS: usize = 400;
/// The information of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointInfo {
    /// Product and version; sorted, without duplicates.
    pub versions: Vec<(String, String)>,
    /// Names of the served models.
    pub models: Vec<String>,
    /// Sources of their weights: a path, or a repository's name.
    pub weights: Vec<String>,
    /// Effective settings, by name; never one whose name marks a secret.
    pub settings: BTreeMap<String, String>,
    /// Arguments of the command line.
    pub arguments: Vec<String>,
}

/// Extracts the information of one answer; empty if the engine's file lacks the path or the answer's shape differs.
pub fn read(library: &Library, answer: &EndpointAnswer) -> EndpointInfo {
    let mut info = EndpointInfo::default();
    let AnswerBody::Json(value) = &answer.said else { return info };
    let Some(engine) = library.engines.get(&answer.engine) else { return info };
    for endpoint in engine.endpoints.iter().filter(|endpoint| endpoint.is_at(&answer.path)) {
        let tells = &endpoint.tells;
        for (what, pointer) in &tells.versions {
            info.versions.extend(texts(value, pointer).into_iter().map(|version| (what.clone(), version)));
        }
        tells.models.iter().for_each(|pointer| info.models.extend(texts(value, pointer)));
        tells.weights.iter().for_each(|pointer| info.weights.extend(texts(value, pointer)));
        for pointer in &tells.settings {
            for field in values_at(value, pointer) {
                let key = pointer.rsplit('/').next().unwrap_or_default();
                settings(&mut info.settings, if field.is_object() { "" } else { key }, field, DEPTH);
            }
        }
        for field in tells.arguments.iter().flat_map(|pointer| values_at(value, pointer)) {
            match field {
                Value::Array(words) => info.arguments.extend(words.iter().take(FOUND_MOST).filter_map(text)),
                value => info.arguments.extend(text(value)),
            }
        }
    }
    info.tidy();
    info
}

impl EndpointInfo {
    /// Adds the information of another answer; the first value of a setting wins.
    pub fn add(&mut self, other: Self) {
        self.versions.extend(other.versions);
        self.models.extend(other.models);
        self.weights.extend(other.weights);
        for (name, value) in other.settings {
            self.settings.entry(name).or_insert(value);
        }
        if self.arguments.is_empty() {
            self.arguments = other.arguments;
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.versions = std::mem::take(&mut self.versions).into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        for list in [&mut self.models, &mut self.weights] {
            *list = std::mem::take(list).into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        }
    }
}

/// Returns all values that the pointer matches.
fn values_at<'a>(value: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let mut at = vec![value];
    for segment in pointer.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let next = at.into_iter().flat_map(|value| -> Vec<&Value> {
            match (value, segment.as_str()) {
                (Value::Array(all), "*") => all.iter().take(FOUND_MOST).collect(),
                (Value::Object(all), "*") => all.values().take(FOUND_MOST).collect(),
                (Value::Array(all), index) => index.parse().ok().and_then(|i: usize| all.get(i)).into_iter().collect(),
                (Value::Object(all), name) => all.get(name).into_iter().collect(),
                _ => Vec::new(),
            }
        });
        at = next.take(FOUND_MOST).collect();
    }
    at
}

fn texts(value: &Value, pointer: &str) -> Vec<String> {
    values_at(value, pointer).into_iter().filter_map(text).collect()
}

/// Returns a scalar as text; `None` if it is empty or not a scalar.
fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(VALUE_CHARS).collect();
    (!line.is_empty()).then_some(line)
}

/// Collects scalars and lists of them; nested objects as `name.key`.
fn settings(into: &mut BTreeMap<String, String>, name: &str, value: &Value, depth: usize) {
    if into.len() >= FOUND_MOST || is_secret(name) {
        return;
    }
    match value {
        Value::Object(all) if depth > 0 => {
            for (key, value) in all {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                settings(into, &name, value, depth - 1);
            }
        }
        Value::Array(all) if all.len() <= 16 && all.iter().all(|one| !one.is_object() && !one.is_array()) => {
            let list: Vec<String> = all.iter().filter_map(text).collect();
            if !list.is_empty() {
                into.insert(name.to_owned(), list.join(", "));
            }
        }
        plain => {
            if let Some(text) = text(plain) {
                into.insert(name.to_owned(), text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pointer_with_a_star_finds_every_element_and_odd_shapes_nothing() {
        let value = json!({"data": [{"id": "a"}, {"id": 7}, {"x": 1}, null], "a/b": {"~": true}});
        assert_eq!(texts(&value, "/data/*/id"), ["a", "7"]);
        assert_eq!(texts(&value, "/a~1b/~0"), ["true"]);
        for odd in ["/data/id", "/data/9/id", "/data/x", "/nothing/*", "/data/*/id/deeper"] {
            assert!(texts(&value, odd).is_empty(), "{odd}");
        }
        assert_eq!(values_at(&json!([1, 2]), ""), [&json!([1, 2])]);
    }

    #[test]
    fn settings_are_flat_and_never_named_like_a_secret() {
        let mut into = BTreeMap::new();
        let value = json!({
            "tp_size": 8, "api_key": "sk-1", "admin_api_key": "x", "max_total_tokens": null, "hf_token": "hf_1",
            "max_prefill_tokens": 16384, "cuda_graph_bs": [1, 2, 4], "cache": {"block_size": 16, "auth": {"password": "p"}},
            "lora": [{"a": 1}], "ssl_keyfile_password": "p", "line": "a\nb"
        });
        settings(&mut into, "", &value, DEPTH);
        let all: Vec<String> = into.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            all,
            ["cache.block_size=16", "cuda_graph_bs=1, 2, 4", "line=a b", "max_prefill_tokens=16384", "tp_size=8"]
        );
    }

    #[test]
    fn hostile_depth_and_width_stay_bounded() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({ "x": inner }));
        let mut into = BTreeMap::new();
        settings(&mut into, "", &deep, DEPTH);
        assert!(into.is_empty());
        let wide: Value = (0..5_000).map(|i| (format!("k{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
        settings(&mut into, "", &wide, DEPTH);
        assert_eq!(into.len(), FOUND_MOST);
        assert_eq!(values_at(&json!(vec![0; 5_000]), "/*").len(), FOUND_MOST);
    }
}
