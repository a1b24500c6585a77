//! What a person puts into a field, checked as Slack's own programs check it.

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

/// An element's part of `state.values` (and of `actions`) once it has this value; `offers` are an external menu's
/// options.
pub(super) fn chosen(element: &Value, value: &str, offers: &[Value]) -> anyhow::Result<Value> {
    let kind = element["type"].as_str().unwrap_or_default();
    let id = &element["action_id"];
    let option = |value: &str| -> anyhow::Result<Value> {
        let groups = element["option_groups"].as_array().into_iter().flatten();
        let grouped = groups.flat_map(|group| group["options"].as_array().into_iter().flatten());
        let own = element["options"].as_array().into_iter().flatten().chain(grouped);
        let found = own.chain(offers).find(|option| option["value"] == value);
        found.cloned().with_context(|| format!("{id} offers no option {value:?}"))
    };
    let options = || value.split(',').filter(|part| !part.is_empty()).map(option).collect::<anyhow::Result<Vec<_>>>();
    let chosen = match kind {
        "plain_text_input" | "email_text_input" | "url_text_input" | "number_input" => {
            let length = value.encode_utf16().count() as u64;
            ensure!(length <= element["max_length"].as_u64().unwrap_or(3000), "{id}: {length} characters are too many");
            ensure!(length >= element["min_length"].as_u64().unwrap_or(0), "{id}: {length} characters are too few");
            if kind == "number_input" {
                value.parse::<f64>().with_context(|| format!("{id} takes a number, not {value:?}"))?;
            }
            json!({ "value": if value.is_empty() { Value::Null } else { value.into() } })
        }
        "static_select" | "external_select" | "radio_buttons" | "overflow" => {
            json!({ "selected_option": option(value)? })
        }
        "checkboxes" | "multi_static_select" | "multi_external_select" => json!({ "selected_options": options()? }),
        "users_select" => json!({ "selected_user": value }),
        "channels_select" => json!({ "selected_channel": value }),
        "conversations_select" => json!({ "selected_conversation": value }),
        "datepicker" => json!({ "selected_date": value }),
        "timepicker" => json!({ "selected_time": value }),
        "datetimepicker" => {
            json!({ "selected_date_time": value.parse::<i64>().context("a datetimepicker takes seconds")? })
        }
        other => bail!("{id} is a {other}, into which nothing can be put"),
    };
    let mut chosen = chosen;
    chosen["type"] = kind.into();
    Ok(chosen)
}

/// What an element holds before anybody touches it.
fn initial(element: &Value) -> Value {
    let kind = element["type"].as_str().unwrap_or_default();
    let pairs = [
        ("initial_value", "value"),
        ("initial_option", "selected_option"),
        ("initial_options", "selected_options"),
        ("initial_user", "selected_user"),
        ("initial_channel", "selected_channel"),
        ("initial_conversation", "selected_conversation"),
        ("initial_date", "selected_date"),
        ("initial_time", "selected_time"),
        ("initial_date_time", "selected_date_time"),
    ];
    let key = match kind {
        "static_select" | "external_select" | "radio_buttons" => "selected_option",
        "checkboxes" | "multi_static_select" | "multi_external_select" => "selected_options",
        "users_select" => "selected_user",
        "channels_select" => "selected_channel",
        "conversations_select" => "selected_conversation",
        "datepicker" => "selected_date",
        "timepicker" => "selected_time",
        "datetimepicker" => "selected_date_time",
        _ => "value",
    };
    let mut held = json!({ "type": kind });
    held[key] = if key == "selected_options" { json!([]) } else { Value::Null };
    for (initial, name) in pairs {
        if let Some(value) = element.get(initial) {
            held[name] = value.clone();
        }
    }
    held
}

/// `state.values` of a view into which these values were put, by `action_id`.
pub(super) fn values(view: &Value, given: &[(&str, &str)], offers: &[(String, Vec<Value>)]) -> anyhow::Result<Value> {
    let mut values: Map<String, Value> = Map::new();
    let mut known = Vec::new();
    for block in view["blocks"].as_array().into_iter().flatten() {
        let inside = block["elements"].as_array().into_iter().flatten();
        for element in inside.chain([&block["element"], &block["accessory"]]) {
            let kind = element["type"].as_str().unwrap_or_default();
            let Some(id) = element["action_id"].as_str().filter(|_| !matches!(kind, "button" | "overflow")) else {
                continue;
            };
            let offered = offers.iter().find(|(action, _)| action == id).map(|(_, offered)| offered.as_slice());
            let held = match given.iter().find(|(action, _)| *action == id) {
                Some((_, value)) => chosen(element, value, offered.unwrap_or_default())?,
                None => initial(element),
            };
            known.push(id);
            let is_needed = block["type"] == "input" && block["optional"] != true;
            let is_empty =
                held.as_object().into_iter().flatten().all(|(name, value)| {
                    name == "type" || value.is_null() || value.as_array().is_some_and(Vec::is_empty)
                });
            ensure!(!(is_needed && is_empty), "{id:?} must be filled in");
            let block_id = block["block_id"].as_str().unwrap_or_default().to_owned();
            let of_block = values.entry(block_id).or_insert_with(|| json!({}));
            of_block[id] = held;
        }
    }
    if let Some((action, _)) = given.iter().find(|(action, _)| !known.contains(action)) {
        bail!("the modal has no field {action:?}, but {known:?}");
    }
    Ok(Value::Object(values))
}
