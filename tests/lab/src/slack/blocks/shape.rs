//! Compares a value with its shape.

use serde_json::{Map, Value};

use super::schema::{Field, Kind, Shape};
use super::{Rule, Violation};

/// A text's length in UTF-16 code units.
pub(super) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The pointer of a field or an item below another.
pub(super) fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Reports where a value differs from its shape.
pub(super) fn check(value: &Value, shape: &Shape, pointer: &str, out: &mut Vec<Violation>) {
    let mut fail = |rule, message: String| out.push(Violation::new(pointer, rule, message));
    match shape {
        Shape::Str(least, most) => match value.as_str().map(units) {
            None => fail(Rule::WrongType, "must be a string".into()),
            Some(length) if length > *most => {
                fail(Rule::TooLong, format!("must be less than {} characters", most + 1));
            }
            Some(length) if length < *least => {
                fail(Rule::TooShort, format!("must be more than {} characters", least - 1));
            }
            Some(_) => {}
        },
        Shape::Word(words) => {
            if !value.as_str().is_some_and(|word| words.contains(&word)) {
                fail(Rule::InvalidValue, format!("must be one of {words:?}"));
            }
        }
        Shape::Bool => {
            if !value.is_boolean() {
                fail(Rule::WrongType, "must be a boolean".into());
            }
        }
        Shape::Number => {
            if !value.is_number() {
                fail(Rule::WrongType, "must be a number".into());
            }
        }
        Shape::Whole(least, most) => {
            if !value.as_i64().is_some_and(|number| (*least..=*most).contains(&number)) {
                fail(Rule::InvalidValue, format!("must be a whole number from {least} to {most}"));
            }
        }
        Shape::Link(most) => address(value, &["http://", "https://", "mailto:", "tel:", "slack://"], *most, &mut fail),
        Shape::Image => address(value, &["http://", "https://"], 3000, &mut fail),
        Shape::List(least, most, item) => list(value, (*least, *most), item, pointer, out),
        Shape::Object(fields) => match value.as_object() {
            Some(object) => check_fields(object, fields, false, pointer, out),
            None => fail(Rule::WrongType, "must be an object".into()),
        },
        Shape::Typed(kinds) => typed(value, kinds, pointer, out),
        Shape::Text(types, most) => text_object(value, types, *most, pointer, out),
    }
}

fn address(value: &Value, schemes: &[&str], most: usize, fail: &mut impl FnMut(Rule, String)) {
    match value.as_str() {
        None => fail(Rule::WrongType, "must be a string".into()),
        Some(url) if units(url) > most => fail(Rule::TooLong, format!("must be less than {} characters", most + 1)),
        Some(url) if url.contains(char::is_whitespace) || !schemes.iter().any(|scheme| url.starts_with(scheme)) => {
            fail(Rule::InvalidUrl, format!("invalid url `{url}`"));
        }
        Some(_) => {}
    }
}

fn list(value: &Value, (least, most): (usize, usize), item: &Shape, pointer: &str, out: &mut Vec<Violation>) {
    let Some(items) = value.as_array() else {
        out.push(Violation::new(pointer, Rule::WrongType, "must be an array"));
        return;
    };
    if items.len() > most {
        out.push(Violation::new(pointer, Rule::TooMany, format!("no more than {most} items allowed")));
    }
    if items.len() < least {
        out.push(Violation::new(pointer, Rule::TooFew, format!("no less than {least} items allowed")));
    }
    for (index, value) in items.iter().enumerate() {
        check(value, item, &child(pointer, &index.to_string()), out);
    }
}

fn typed(value: &Value, kinds: &[Kind], pointer: &str, out: &mut Vec<Violation>) {
    let Some(object) = value.as_object() else {
        out.push(Violation::new(pointer, Rule::WrongType, "must be an object"));
        return;
    };
    let Some(name) = object.get("type") else {
        out.push(Violation::new(pointer, Rule::MissingField, "missing required field: type"));
        return;
    };
    match kinds.iter().find(|kind| name == kind.name) {
        Some(kind) => check_fields(object, kind.fields, true, pointer, out),
        None => {
            let allowed: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
            let message = format!("unsupported type: {name}, allowed here: {}", allowed.join(", "));
            out.push(Violation::new(child(pointer, "type"), Rule::UnknownType, message));
        }
    }
}

fn check_fields(
    object: &Map<String, Value>,
    fields: &[Field],
    is_typed: bool,
    pointer: &str,
    out: &mut Vec<Violation>,
) {
    for field in fields.iter().filter(|field| field.required && !object.contains_key(field.name)) {
        out.push(Violation::new(pointer, Rule::MissingField, format!("missing required field: {}", field.name)));
    }
    for (name, value) in object {
        match fields.iter().find(|field| field.name == name) {
            Some(field) => check(value, &field.shape, &child(pointer, name), out),
            None if is_typed && name == "type" => {}
            None => {
                out.push(Violation::new(pointer, Rule::UnknownField, format!("invalid additional property: {name}")))
            }
        }
    }
}

fn text_object(value: &Value, types: &[&str], most: usize, pointer: &str, out: &mut Vec<Violation>) {
    let kinds: Vec<_> = [
        Kind { name: "plain_text", fields: &[Field { name: "emoji", required: false, shape: Shape::Bool }] },
        Kind { name: "mrkdwn", fields: &[Field { name: "verbatim", required: false, shape: Shape::Bool }] },
    ]
    .into_iter()
    .filter(|kind| types.contains(&kind.name))
    .collect();
    let Some(mut object) = value.as_object().cloned() else {
        out.push(Violation::new(pointer, Rule::WrongType, "must be a text object"));
        return;
    };
    match object.remove("text") {
        Some(text) => check(&text, &Shape::Str(1, most), &child(pointer, "text"), out),
        None => out.push(Violation::new(pointer, Rule::MissingField, "missing required field: text")),
    }
    typed(&Value::Object(object), &kinds, pointer, out);
}
