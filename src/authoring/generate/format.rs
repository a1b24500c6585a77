//! `generate format`: every key of the data files, in Markdown, from the types that read them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::schema::{FileKind, KINDS, definitions};

/// Returns the reference of the playbook format.
pub fn format_reference() -> String {
    let kinds: Vec<&FileKind> = KINDS.iter().collect();
    let (refs, types) = definitions(&kinds);
    let mut out = include_str!("format_intro.md").to_owned();
    let names: Vec<&str> = refs.iter().filter_map(|schema| referred(schema.as_value())).collect();
    for (kind, name) in kinds.iter().zip(&names) {
        out.push_str(&format!("| {} | [{}]({}) | {} |\n", kind.place, kind.title, anchor(name), kind.over));
    }
    out.push('\n');
    out.push_str(include_str!("format_conditions.md"));
    // The files in their order, then their parts, by name.
    let parts = types.keys().map(String::as_str).filter(|name| !names.contains(name) && *name != "Condition");
    let mut seen = BTreeSet::new();
    for name in names.iter().copied().chain(parts).filter(|name| seen.insert(*name)) {
        if let Some(schema) = types.get(name) {
            section(&mut out, name, schema);
        }
    }
    out
}

/// Writes the section of one type.
fn section(out: &mut String, name: &str, schema: &Value) {
    out.push_str(&format!("\n## {name}\n"));
    let meaning = text(schema);
    if !meaning.is_empty() {
        out.push_str(&format!("\n{meaning}\n"));
    }
    if let Some(keys) = schema["properties"].as_object() {
        keys_table(out, keys, &schema["required"]);
    } else if let Some(values) = values(schema) {
        out.push_str("\n| value | |\n|---|---|\n");
        values.iter().for_each(|(value, meaning)| out.push_str(&format!("| {value} | {meaning} |\n")));
    } else {
        out.push_str(&format!("\nWritten as {}.\n", type_of(schema)));
    }
}

fn keys_table(out: &mut String, keys: &Map<String, Value>, required: &Value) {
    let is_required = |key: &String| required.as_array().is_some_and(|list| list.iter().any(|name| name == key));
    out.push_str("\n| key | value | |\n|---|---|---|\n");
    // What must be there comes first.
    let (first, rest): (Vec<_>, Vec<_>) = keys.iter().partition(|(key, _)| is_required(key));
    for (key, schema) in first.into_iter().chain(rest) {
        let needed = if is_required(key) { ", required" } else { "" };
        out.push_str(&format!("| `{key}` | {}{needed} | {} |\n", type_of(schema), text(schema)));
    }
}

/// Returns the values of an enumeration with their meanings.
fn values(schema: &Value) -> Option<Vec<(String, String)>> {
    if let Some(list) = schema["enum"].as_array() {
        return Some(list.iter().map(|value| (code(value), String::new())).collect());
    }
    let list = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array())?;
    let value = |one: &Value| match (one.get("const"), one["enum"].as_array()) {
        (Some(value), _) => (code(value), text(one)),
        (None, Some(several)) => (several.iter().map(code).collect::<Vec<_>>().join(", "), text(one)),
        (None, None) => (type_of(one), text(one)),
    };
    Some(list.iter().map(value).collect())
}

fn code(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Returns the description of a schema, in one line of a table.
fn text(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Returns the link to the section of a type.
fn anchor(name: &str) -> String {
    match name {
        "Condition" => "#conditions".to_owned(),
        name => format!("#{}", name.to_lowercase()),
    }
}

/// Returns what is written as a value, in words.
fn type_of(schema: &Value) -> String {
    if let Some(name) = referred(schema) {
        return format!("[{name}]({})", anchor(name));
    }
    if let Some(value) = schema.get("const") {
        return code(value);
    }
    let is_null = |schema: &Value| schema["type"] == "null";
    if let Some(list) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        let types: Vec<String> = list.iter().filter(|schema| !is_null(schema)).map(type_of).collect();
        return types.join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(list) => list.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
        _ => vec![],
    };
    let word = |name: &&str| match *name {
        "string" => "text".to_owned(),
        "integer" => "whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" => match schema.get("additionalProperties") {
            Some(values) if values.is_object() => format!("names to {}", type_of(values)),
            _ => "names to values".to_owned(),
        },
        other => other.to_owned(),
    };
    match names.as_slice() {
        [] => "any value".to_owned(),
        names => names.iter().map(word).collect::<Vec<_>>().join(" or "),
    }
}
