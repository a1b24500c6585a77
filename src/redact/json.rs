//! Redaction of a JSON value: keys that name secrets, arguments in lists, pairs of name and value, and plain strings.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::names::Names;
use super::rules::{is_mark, merged};
use super::{Kind, PASSES, Redactor};

/// Maximum nesting depth; a value nested deeper is replaced as a whole.
const DEEPEST: usize = 100;
/// The fields of a name-value pair, as in a container's environment.
const PAIR_NAMES: [&str; 6] = ["name", "key", "Name", "Key", "NAME", "header"];
const PAIR_VALUES: [&str; 3] = ["value", "Value", "VALUE"];
/// Fields with environment variables, as a map or as a list of `NAME=value`.
const ENVIRONMENTS: [&str; 7] = ["env", "Env", "environ", "environment", "env_vars", "envVars", "extraEnv"];
/// Fields that refer to a Secret or a ConfigMap of Kubernetes: an object with one of them is a reference, no secret.
const REFERENCES: [&str; 4] = ["secretName", "secretKeyRef", "configMapKeyRef", "valueFrom"];
/// All fields of a volume's source that names a Secret by `name`.
const SECRET_SOURCE: [&str; 5] = ["name", "namespace", "key", "items", "optional"];
/// Maximum bytes of a command line that is searched as a whole.
const LONGEST_COMMAND: usize = 64 << 10;
/// Flags that take several values in vLLM.
const TAKES_SEVERAL: [&str; 4] = ["--api-key", "--api-keys", "--api_key", "--api_keys"];

pub(super) fn redact(redactor: &Redactor, place: &str, value: &mut Value, depth: usize) {
    if depth > DEEPEST {
        *value = Value::String("(nested too deep to be shown)".to_owned());
        return;
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            let clean = redactor.text(place, text);
            if let std::borrow::Cow::Owned(clean) = clean {
                *text = clean;
            }
        }
        Value::Array(items) => array(redactor, place, items, depth),
        Value::Object(fields) => object(redactor, place, fields, depth),
    }
}

fn array(redactor: &Redactor, place: &str, items: &mut [Value], depth: usize) {
    for _ in 0..PASSES {
        let before = items.iter().all(Value::is_string).then(|| items.to_vec());
        once(redactor, place, items, depth);
        // A command line that was changed may show more.
        if before.is_none_or(|before| before == items) {
            break;
        }
    }
}

fn once(redactor: &Redactor, place: &str, items: &mut [Value], depth: usize) {
    arguments(redactor, place, items);
    let pair = items.len() == 2;
    let mut before: Option<String> = None;
    for item in items.iter_mut() {
        let own = item.as_str().map(str::to_owned);
        let flag = own.as_deref().is_some_and(|text| text.starts_with("--"));
        // The value of a header in a pair, or of the flag before it; another flag is not a value.
        let rule = before.as_deref().filter(|name| (pair || name.starts_with('-')) && !flag);
        if let Some(rule) = rule.and_then(|name| redactor.rules.key(name, |_| false)) {
            whole(redactor, place, rule, item);
            if !before.as_deref().is_some_and(|name| TAKES_SEVERAL.contains(&name)) {
                before = None;
            }
            continue;
        }
        redact(redactor, place, item, depth + 1);
        before = own;
    }
}

fn object(redactor: &Redactor, place: &str, fields: &mut Map<String, Value>, depth: usize) {
    let text = |name: &&str| fields.get(*name).and_then(Value::as_str);
    let named = PAIR_NAMES.iter().find_map(|name| redactor.rules.key(text(name)?, |_| false));
    let named = named.or_else(|| redactor.rules.variable(text(&"name")?));
    let names: Vec<String> = fields.keys().cloned().collect();
    let siblings: HashSet<&str> = names.iter().map(String::as_str).collect();
    for (name, value) in fields.iter_mut() {
        let own = redactor.rules.key(name, |other| siblings.contains(other));
        let own = own.filter(|_| !is_reference(name, value));
        // A variable's value is a text; a number belongs to a replica or a quantity of that name.
        let pair = named.filter(|_| PAIR_VALUES.contains(&name.as_str()) && !value.is_number());
        match own.or(pair) {
            Some(rule) => {
                let text = matches!(value, Value::String(_) | Value::Array(_));
                let number = value.is_number() && redactor.rules.numbered(rule);
                if redactor.rules.texts_only(rule) && !text && !number {
                    redact(redactor, place, value, depth + 1);
                } else {
                    whole(redactor, place, rule, value);
                }
            }
            None => match value {
                Value::Array(_) | Value::Object(_) if ENVIRONMENTS.contains(&name.as_str()) => {
                    environment(redactor, place, value);
                    redact(redactor, place, value, depth + 1);
                }
                Value::String(text) => {
                    let clean = redactor.field(place, name, text);
                    if let std::borrow::Cow::Owned(clean) = clean {
                        *text = clean;
                    }
                }
                other => redact(redactor, place, other, depth + 1),
            },
        }
    }
    // Keys are untrusted too. The last number of each placeholder keeps many equal ones linear.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for name in &names {
        let std::borrow::Cow::Owned(clean) = redactor.field_name(place, name) else { continue };
        let Some(value) = fields.remove(name) else { continue };
        let number = numbers.entry(clean.clone()).or_default();
        let free = loop {
            *number += 1;
            let free = if *number == 1 { clean.clone() } else { format!("{clean} ({number})") };
            if !fields.contains_key(&free) {
                break free;
            }
        };
        fields.insert(free, value);
    }
}

/// Returns true for an object that names a Secret of Kubernetes, or says how a token is made, and holds no secret itself.
fn is_reference(name: &str, value: &Value) -> bool {
    let Value::Object(fields) = value else { return false };
    name == "serviceAccountToken"
        || REFERENCES.iter().any(|reference| fields.contains_key(*reference))
        || fields.contains_key("name") && fields.keys().all(|field| SECRET_SOURCE.contains(&field.as_str()))
}

/// Redacts the variables of an environment; the names stay.
fn environment(redactor: &Redactor, place: &str, value: &mut Value) {
    match value {
        Value::Object(variables) => {
            for (name, value) in variables {
                if let Some(rule) =
                    redactor.rules.variable(name).filter(|_| redactor.rules.key(name, |_| false).is_none())
                    && value.is_string()
                {
                    whole(redactor, place, rule, value);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                let Some((name, value)) = item.as_str().and_then(|text| text.split_once('=')) else { continue };
                let rule = redactor.rules.key(name, |_| false).or_else(|| redactor.rules.variable(name));
                if let Some(rule) = rule.filter(|rule| !redactor.rules.harmless(*rule, value)) {
                    redactor.know(rule, value);
                    *item = Value::String(format!("{name}={}", redactor.mark(place, rule, value)));
                }
            }
        }
        _ => {}
    }
}

/// Redacts arguments that only the words before them show to be secret: `["redis-cli", "-a", "…"]`.
fn arguments(redactor: &Redactor, place: &str, items: &mut [Value]) {
    let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let Some(words) = words else { return };
    let program =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
    let command = words.first().is_some_and(|first| program(first) && !first.starts_with('-'));
    if !command {
        return;
    }
    let line = words.join(" ");
    if line.len() > LONGEST_COMMAND {
        return;
    }
    let mut at = 0;
    let spans = merged(&line, redactor.spans(&line));
    for item in items {
        let Value::String(word) = item else { continue };
        let end = at + word.len();
        // From the last one, so that the places of those before it stay as they are.
        for span in spans.iter().rev().filter(|span| span.at.start < end && span.at.end > at) {
            let (from, to) = (span.at.start.max(at), span.at.end.min(end));
            if is_mark(&line[from..to]) {
                continue;
            }
            let mark = redactor.mark(place, span.rule, &line[from..to]);
            word.replace_range(from - at..to - at, &mark);
        }
        at = end + 1;
    }
}

/// Redacts a value of any type. Null, booleans, empty lists and objects, and harmless strings stay.
fn whole(redactor: &Redactor, place: &str, rule: usize, value: &mut Value) {
    let stays = match value {
        Value::Null | Value::Bool(_) => true,
        Value::String(text) => redactor.rules.harmless(rule, text),
        Value::Number(_) => false,
        Value::Array(items) => items.iter().all(|item| item.as_str().is_some_and(is_mark)),
        Value::Object(fields) => fields.is_empty(),
    };
    if !stays {
        know(redactor, rule, value, 0);
        // A list stays a list: a program that reads the file again expects one.
        if let Value::Array(items) = value {
            *items = vec![Value::String(redactor.mark(place, rule, ""))];
            return;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        *value = Value::String(redactor.mark(place, rule, &text));
    }
}

/// Stores all strings of a value that is redacted as a whole, at any depth.
fn know(redactor: &Redactor, rule: usize, value: &Value, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::String(text) => redactor.know(rule, text),
        Value::Array(items) => items.iter().for_each(|item| know(redactor, rule, item, depth + 1)),
        Value::Object(fields) => fields.values().for_each(|value| know(redactor, rule, value, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Learns the names in fields that hold names, before anything is replaced.
pub(super) fn learn(names: &mut Names, value: &Value, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| learn(names, item, depth + 1)),
        Value::Object(fields) => {
            // A Kubernetes object.
            let name = fields.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
            if let (Some(kind), Some(name)) = (fields.get("kind").and_then(Value::as_str).and_then(kind_of), name) {
                names.learn(kind, name);
            }
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) => names.field_tells(key, text),
                    None => learn(names, value, depth + 1),
                }
            }
        }
        Value::String(text) => {
            // `Pod/llama-0`
            if let Some((kind, name)) = text.split_once('/').and_then(|(kind, name)| Some((kind_of(kind)?, name))) {
                names.learn(kind, name);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the kind of name of a Kubernetes object; `None` if its name is not replaced.
pub(super) fn kind_of(kind: &str) -> Option<Kind> {
    Some(match kind {
        "Pod" => Kind::Pod,
        "Node" => Kind::Node,
        "Namespace" => Kind::Namespace,
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "LeaderWorkerSet" | "RayCluster" => {
            Kind::Workload
        }
        _ => return None,
    })
}
