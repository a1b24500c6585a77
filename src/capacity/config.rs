//! A model's `config.json`: strict about numbers that decide, lenient about keys it does not know.

use serde_json::{Map, Value};

use crate::playbook::Problem;

/// What is wrong with a configuration or a deployment: what on which thing, and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CapacityError(pub(super) String);

pub(super) type Result<T> = std::result::Result<T, CapacityError>;

pub(super) fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(CapacityError(why.into()))
}

/// Where multimodal configurations keep their language model.
const INSIDE: [&str; 4] = ["text_config", "llm_config", "language_config", "thinker_config"];

/// The language model's part of a `config.json`.
pub(super) struct Config {
    own: Map<String, Value>,
    /// The whole file, where `text_config` and the like are a part of it.
    whole: Option<Map<String, Value>>,
    /// The key of the part, for errors.
    pub(super) inside: Option<&'static str>,
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
        let (mut whole, mut inside) = (None, None);
        // An omni model nests twice: `thinker_config.text_config`.
        while let Some(key) = INSIDE.into_iter().find(|key| own.get(*key).is_some_and(Value::is_object)) {
            let Some(Value::Object(part)) = own.remove(key) else { break };
            whole.get_or_insert(std::mem::replace(&mut own, part));
            inside = Some(key);
        }
        Ok(Self { own, whole, inside })
    }

    /// The value of the first key that is there and not null.
    pub(super) fn get(&self, keys: &[&str]) -> Option<(String, &Value)> {
        let found = keys.iter().find_map(|key| Some((*key, self.own.get(*key).filter(|value| !value.is_null())?)));
        found.map(|(key, value)| (self.path(key), value))
    }

    /// As [`Config::get`], and if the language model's part lacks it, the whole file's.
    pub(super) fn get_anywhere(&self, keys: &[&str]) -> Option<(String, &Value)> {
        self.get(keys).or_else(|| {
            let whole = self.whole.as_ref()?;
            keys.iter().find_map(|key| Some(((*key).to_owned(), whole.get(*key).filter(|v| !v.is_null())?)))
        })
    }

    fn path(&self, key: &str) -> String {
        self.inside.map_or_else(|| key.to_owned(), |inside| format!("{inside}.{key}"))
    }

    /// A whole number from 1 to `most`; none when no key is there.
    pub(super) fn number(&self, keys: &[&str], most: u64) -> Result<Option<u64>> {
        let Some((key, value)) = self.get(keys) else { return Ok(None) };
        match value.as_u64().filter(|n| (1..=most).contains(n)) {
            Some(n) => Ok(Some(n)),
            None => refuse(format!("`{key}` is {}: expected a whole number from 1 to {most}", shown(value))),
        }
    }

    /// As [`Config::number`], but 0 is a number too.
    pub(super) fn count(&self, keys: &[&str], most: u64) -> Result<Option<u64>> {
        match self.get(keys) {
            Some((_, value)) if value.as_u64() == Some(0) => Ok(Some(0)),
            _ => self.number(keys, most),
        }
    }

    /// A number that must be there, unless the model's kind has a default.
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

    /// The architecture's class, else the kind of model, for people.
    pub(super) fn title(&self) -> String {
        let class = self.get_anywhere(&["architectures"]).and_then(|(_, list)| list.get(0)?.as_str());
        class.or_else(|| self.text("model_type")).unwrap_or("model").to_owned()
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
