//! Parsing of a model's `config.json`: strict about the numbers it uses, lenient about unknown keys.

use serde_json::{Map, Value};

use knowledge::clip::clip;
use knowledge::playbook::Problem;

/// An error in a configuration or a deployment, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CapacityError(pub(super) String);

pub(super) type Result<T> = std::result::Result<T, CapacityError>;

pub(super) fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(CapacityError(why.into()))
}

/// Keys under which multimodal configurations have their language model.
const LANGUAGE_MODEL_KEYS: [&str; 4] = ["text_config", "llm_config", "language_config", "thinker_config"];

/// The language model's part of a `config.json`.
pub(super) struct Config {
    own: Map<String, Value>,
    /// The whole file, if the language model is only a part of it.
    root: Option<Map<String, Value>>,
    /// The key of the part, for error messages.
    pub(super) nested_key: Option<&'static str>,
}

impl Config {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                return refuse(format!("not a config.json: {}", Problem::of_json("config.json", text, &error)));
            }
        };
        let Value::Object(mut own) = value else {
            return refuse("not a config.json: expected an object such as {\"num_hidden_layers\": 32, …}");
        };
        let (mut root, mut nested_key) = (None, None);
        // An omni model nests twice: `thinker_config.text_config`.
        while let Some(key) = LANGUAGE_MODEL_KEYS.into_iter().find(|key| own.get(*key).is_some_and(Value::is_object)) {
            let Some(Value::Object(part)) = own.remove(key) else { break };
            root.get_or_insert(std::mem::replace(&mut own, part));
            nested_key = Some(key);
        }
        Ok(Self { own, root, nested_key })
    }

    /// Returns the path and value of the first key that exists and is not null.
    pub(super) fn get(&self, keys: &[&str]) -> Option<(String, &Value)> {
        let key_and_value =
            keys.iter().find_map(|key| Some((*key, self.own.get(*key).filter(|value| !value.is_null())?)));
        key_and_value.map(|(key, value)| (self.path(key), value))
    }

    /// Returns the same as [`Config::get`], with the whole file as a fallback.
    pub(super) fn get_anywhere(&self, keys: &[&str]) -> Option<(String, &Value)> {
        self.get(keys).or_else(|| {
            let root = self.root.as_ref()?;
            keys.iter().find_map(|key| Some(((*key).to_owned(), root.get(*key).filter(|v| !v.is_null())?)))
        })
    }

    fn path(&self, key: &str) -> String {
        self.nested_key.map_or_else(|| key.to_owned(), |nested_key| format!("{nested_key}.{key}"))
    }

    /// Returns a whole number from 1 to `most`; `None` if no key exists.
    pub(super) fn number(&self, keys: &[&str], most: u64) -> Result<Option<u64>> {
        let Some((key, value)) = self.get(keys) else { return Ok(None) };
        match value.as_u64().filter(|n| (1..=most).contains(n)) {
            Some(n) => Ok(Some(n)),
            None => refuse(format!("`{key}` is {}: expected a whole number from 1 to {most}", shown(value))),
        }
    }

    /// Returns the same as [`Config::number`], but accepts 0.
    pub(super) fn count(&self, keys: &[&str], most: u64) -> Result<Option<u64>> {
        match self.get(keys) {
            Some((_, value)) if value.as_u64() == Some(0) => Ok(Some(0)),
            _ => self.number(keys, most),
        }
    }

    /// Returns a required number, or the default of the model's kind.
    pub(super) fn needed(&self, keys: &[&str], most: u64, default: Option<u64>) -> Result<u64> {
        match self.number(keys, most)?.or(default) {
            Some(n) => Ok(n),
            None => {
                let others = keys[1..].iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                let also = if others.is_empty() { others } else { format!(" (nor {others})") };
                refuse(format!(
                    "there is no `{}`{also}: is it the model's config.json, not the tokenizer's or an adapter's?",
                    self.path(keys[0])
                ))
            }
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some((key, value)) = self.get_anywhere(&[key]) else { return Ok(None) };
        match value.as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => refuse(format!("`{key}` is {}: expected true or false", shown(value))),
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.own.get(key).and_then(Value::as_str)
    }

    /// Returns the architecture's class, else the model type, for display.
    pub(super) fn title(&self) -> String {
        let class = self.get_anywhere(&["architectures"]).and_then(|(_, list)| list.get(0)?.as_str());
        class.or_else(|| self.text("model_type")).unwrap_or("model").to_owned()
    }
}

fn shown(value: &Value) -> String {
    clip(&value.to_string(), 40)
}
