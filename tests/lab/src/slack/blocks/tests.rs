use serde_json::{Value, json};

use super::{Rule, validate};

fn text(kind: &str, length: usize) -> Value {
    json!({ "type": kind, "text": "x".repeat(length) })
}

fn section(length: usize) -> Value {
    json!({ "type": "section", "text": text("mrkdwn", length) })
}

fn button(change: Value) -> Value {
    let mut button = json!({ "type": "button", "text": text("plain_text", 5), "action_id": "a", "value": "v" });
    for (key, value) in change.as_object().unwrap() {
        button[key] = value.clone();
    }
    json!({ "type": "actions", "elements": [button] })
}

fn option(text_length: usize, value_length: usize) -> Value {
    json!({ "text": text("plain_text", text_length), "value": "v".repeat(value_length) })
}

/// The broken rules and places of a message with these blocks.
fn broken(blocks: Value) -> Vec<(Rule, String)> {
    let message = json!({ "text": "t", "blocks": blocks });
    validate(&message).into_iter().map(|violation| (violation.rule, violation.pointer)).collect()
}

fn only(blocks: Value) -> (Rule, String) {
    let broken = broken(blocks);
    assert_eq!(broken.len(), 1, "{broken:?}");
    broken.into_iter().next().unwrap()
}

#[track_caller]
fn assert_only(block: Value, rule: Rule, pointer: &str) {
    assert_eq!(only(json!([block])), (rule, format!("/blocks/0{pointer}")));
}

#[test]
fn a_message_with_every_block_we_use_breaks_no_rule() {
    let span = json!({ "type": "rich_text_section", "elements": [
        { "type": "text", "text": "bold", "style": { "bold": true } }, { "type": "link", "url": "https://a.b", "text": "l" },
        { "type": "emoji", "name": "fire" },
    ] });
    let rich = json!({ "type": "rich_text", "elements": [
        span, { "type": "rich_text_list", "style": "ordered", "indent": 1, "elements": [span] },
        { "type": "rich_text_preformatted", "border": 0, "elements": [{ "type": "text", "text": "curl" }] },
        { "type": "rich_text_quote", "elements": [{ "type": "text", "text": "q" }] },
    ] });
    let blocks = json!([
        { "type": "header", "text": text("plain_text", 150), "block_id": "h" },
        section(3000),
        { "type": "section", "fields": vec![text("mrkdwn", 100); 10], "accessory": {
            "type": "overflow", "action_id": "more", "options": [option(75, 150)] } },
        { "type": "context", "elements": [text("mrkdwn", 9), { "type": "image", "image_url": "https://a.b/c.png", "alt_text": "c" }] },
        { "type": "divider" },
        { "type": "actions", "elements": [
            { "type": "button", "text": text("plain_text", 75), "action_id": "a", "value": "v", "style": "danger", "confirm": {
                "title": text("plain_text", 100), "text": text("mrkdwn", 300),
                "confirm": text("plain_text", 30), "deny": text("plain_text", 30) } },
            { "type": "button", "text": text("plain_text", 5), "action_id": "b", "url": "https://a.b" },
            { "type": "static_select", "action_id": "c", "placeholder": text("plain_text", 150), "options": [option(9, 9)] },
        ] },
        { "type": "image", "slack_file": { "id": "F1" }, "alt_text": "chart", "title": text("plain_text", 9) },
        rich,
        { "type": "markdown", "text": "# hi <b>" },
        { "type": "table", "column_settings": [{ "align": "right" }], "rows": [
            [{ "type": "raw_text", "text": "a" }, rich], [{ "type": "raw_number", "value": 1, "text": "1" }, { "type": "raw_text", "text": "b" }]] },
        { "type": "data_visualization", "title": "TTFT", "chart": { "type": "line",
            "series": [{ "name": "p99", "data": [{ "label": "18:00", "value": 1.5 }] }], "axis_config": { "categories": ["18:00"] } } },
        { "type": "context_actions", "elements": [{ "type": "feedback_buttons", "action_id": "f",
            "positive_button": { "text": text("plain_text", 4), "value": "y" },
            "negative_button": { "text": text("plain_text", 4), "value": "n" } }] },
    ]);
    assert_eq!(broken(blocks.clone()), []);
    let attached = json!({ "text": "t", "attachments": [{ "color": "#E01E5A", "fallback": "t", "blocks": blocks }] });
    assert_eq!(validate(&attached), []);
    assert_eq!(validate(&blocks), []);
}

#[test]
fn a_text_above_its_limit_is_too_long_where_it_stands() {
    assert_only(json!({ "type": "header", "text": text("plain_text", 151) }), Rule::TooLong, "/text/text");
    assert_only(section(3001), Rule::TooLong, "/text/text");
    assert_only(json!({ "type": "section", "fields": [text("mrkdwn", 2001)] }), Rule::TooLong, "/fields/0/text");
    assert_only(json!({ "type": "context", "elements": [text("mrkdwn", 3001)] }), Rule::TooLong, "/elements/0/text");
    assert_only(button(json!({ "text": text("plain_text", 76) })), Rule::TooLong, "/elements/0/text/text");
    assert_only(button(json!({ "value": "x".repeat(2001) })), Rule::TooLong, "/elements/0/value");
    assert_only(button(json!({ "action_id": "x".repeat(256) })), Rule::TooLong, "/elements/0/action_id");
    assert_only(button(json!({ "url": format!("https://{}", "x".repeat(2993)) })), Rule::TooLong, "/elements/0/url");
    assert_only(json!({ "type": "divider", "block_id": "x".repeat(256) }), Rule::TooLong, "/block_id");
    let image = json!({ "type": "image", "image_url": "https://a.b", "alt_text": "x".repeat(2001) });
    assert_only(image, Rule::TooLong, "/alt_text");
    let select = json!({ "type": "static_select", "options": [option(76, 151)] });
    let broken = broken(json!([{ "type": "actions", "elements": [select] }]));
    assert_eq!(broken.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), [Rule::TooLong; 2]);
}

#[test]
fn an_empty_text_is_too_short() {
    assert_only(section(0), Rule::TooShort, "/text/text");
    assert_only(json!({ "type": "markdown", "text": "" }), Rule::TooShort, "/text");
}

#[test]
fn a_list_outside_its_limits_is_reported() {
    assert_eq!(only(json!(vec![json!({ "type": "divider" }); 51])), (Rule::TooMany, "/blocks".into()));
    assert_only(json!({ "type": "section", "fields": vec![text("mrkdwn", 1); 11] }), Rule::TooMany, "/fields");
    assert_only(json!({ "type": "context", "elements": vec![text("mrkdwn", 1); 11] }), Rule::TooMany, "/elements");
    assert_only(json!({ "type": "context", "elements": [] }), Rule::TooFew, "/elements");
    let buttons = vec![json!({ "type": "button", "text": text("plain_text", 1) }); 26];
    assert_only(json!({ "type": "actions", "elements": buttons }), Rule::TooMany, "/elements");
    let overflow = json!({ "type": "overflow", "options": vec![option(1, 1); 6] });
    assert_only(json!({ "type": "actions", "elements": [overflow] }), Rule::TooMany, "/elements/0/options");
    let row = vec![json!({ "type": "raw_text", "text": "x" }); 21];
    assert_only(json!({ "type": "table", "rows": [row] }), Rule::TooMany, "/rows/0");
    let message = json!({ "text": "t", "attachments": vec![json!({}); 101] });
    assert_eq!(validate(&message)[0].rule, Rule::TooMany);
}

#[test]
fn an_unknown_type_or_field_and_a_missing_field_are_reported() {
    assert_only(json!({ "type": "sektion", "text": text("mrkdwn", 1) }), Rule::UnknownType, "/type");
    assert_only(json!({ "type": "alert", "text": text("mrkdwn", 1) }), Rule::UnknownType, "/type");
    assert_only(json!({ "text": text("mrkdwn", 1) }), Rule::MissingField, "");
    assert_only(json!({ "type": "section" }), Rule::MissingField, "");
    assert_only(json!({ "type": "header" }), Rule::MissingField, "");
    assert_only(json!({ "type": "header", "text": text("mrkdwn", 1) }), Rule::UnknownType, "/text/type");
    assert_only(json!({ "type": "divider", "color": "red" }), Rule::UnknownField, "");
    assert_only(
        json!({ "type": "section", "text": { "type": "mrkdwn", "text": "x", "emoji": true } }),
        Rule::UnknownField,
        "/text",
    );
    assert_only(button(json!({ "style": "success" })), Rule::InvalidValue, "/elements/0/style");
    assert_only(button(json!({ "url": "grafana/d/1" })), Rule::InvalidUrl, "/elements/0/url");
    assert_only(json!({ "type": "image", "alt_text": "x" }), Rule::MissingField, "");
    assert_only(
        json!({ "type": "actions", "elements": [{ "type": "static_select" }] }),
        Rule::MissingField,
        "/elements/0",
    );
    assert_only(json!({ "type": "section", "text": "bare" }), Rule::WrongType, "/text");
}

#[test]
fn ids_are_unique() {
    let divider = json!({ "type": "divider", "block_id": "same" });
    assert_eq!(only(json!([divider, divider])), (Rule::DuplicateId, "/blocks/1/block_id".into()));
    let one = json!({ "type": "button", "text": text("plain_text", 1), "action_id": "same" });
    assert_only(json!({ "type": "actions", "elements": [one, one] }), Rule::DuplicateId, "/elements/1/action_id");
    let actions = json!({ "type": "actions", "elements": [one] });
    assert_eq!(broken(json!([actions, actions])), [], "an action_id may come again in another block");
}

#[test]
fn what_is_counted_over_the_message_includes_attachments() {
    let row = json!([{ "type": "raw_text", "text": "x" }]);
    let table = json!({ "type": "table", "rows": [row] });
    let message = json!({ "text": "t", "blocks": [table], "attachments": [{ "blocks": [table] }] });
    let found = validate(&message);
    assert_eq!(found[0].rule, Rule::OneTable);
    assert_eq!(found[0].pointer, "/attachments/0/blocks/0");

    let markdown = json!({ "type": "markdown", "text": "x".repeat(6001) });
    assert_eq!(only(json!([markdown, markdown])).0, Rule::TooLong);

    assert_eq!(broken(json!([section(3000), section(3000), section(3000), section(3000), section(1200)])), []);
    let broken = only(json!([section(3000), section(3000), section(3000), section(3000), section(1201)]));
    assert_eq!(broken.0, Rule::BlocksTooLong);
}

#[test]
fn lengths_are_counted_in_utf_16_units() {
    let header = |text: String| json!([{ "type": "header", "text": { "type": "plain_text", "text": text } }]);
    assert_eq!(broken(header("é".repeat(150))), []);
    assert_eq!(only(header("🔥".repeat(76))).0, Rule::TooLong);
}

#[test]
fn rows_of_a_table_and_labels_of_a_chart_match() {
    let cell = json!({ "type": "raw_text", "text": "x" });
    assert_only(json!({ "type": "table", "rows": [[cell, cell], [cell]] }), Rule::InvalidValue, "/rows");
    let long = json!({ "type": "raw_text", "text": "x".repeat(10_001) });
    assert_only(json!({ "type": "table", "rows": [[long]] }), Rule::TooLong, "/rows");
    let chart = json!({ "type": "bar", "axis_config": { "categories": ["a"] },
        "series": [{ "name": "s", "data": [{ "label": "b", "value": 1 }] }] });
    let block = json!({ "type": "data_visualization", "title": "t", "chart": chart });
    assert_only(block, Rule::InvalidValue, "/chart/series/0/data");
}

#[test]
fn unescaped_text_and_live_mentions_are_reported_but_not_refused() {
    let raw = json!({ "type": "section", "text": { "type": "mrkdwn", "text": "pod <a> & b" } });
    let found = broken(json!([raw]));
    assert!(found.iter().all(|(rule, at)| *rule == Rule::Unescaped && at == "/blocks/0/text/text"), "{found:?}");
    let plain = json!({ "type": "header", "text": { "type": "plain_text", "text": "pod <a> & b" } });
    assert_eq!(broken(json!([plain])), []);
    let live = json!({ "type": "context", "elements": [{ "type": "mrkdwn", "text": "hey <!here>" }] });
    assert_only(live, Rule::Mention, "/elements/0/text");
    assert_only(json!({ "type": "markdown", "text": "hey <@U012AB3CD>" }), Rule::Mention, "/text");
    let span = json!({ "type": "broadcast", "range": "channel" });
    let rich = json!({ "type": "rich_text", "elements": [{ "type": "rich_text_section", "elements": [span] }] });
    assert_only(rich, Rule::Mention, "/elements/0/elements/0");
    let found = validate(
        &json!({ "text": "a < b", "attachments": [{ "text": "<!channel>", "fields": [{ "value": "R&D" }] }] }),
    );
    let found: Vec<_> = found.iter().map(|violation| (violation.rule, violation.pointer.as_str())).collect();
    let expected = [
        (Rule::Unescaped, "/text"),
        (Rule::Mention, "/attachments/0/text"),
        (Rule::Unescaped, "/attachments/0/fields/0/value"),
    ];
    assert_eq!(found, expected);
    assert!([Rule::Unescaped, Rule::Mention].iter().all(|rule| !rule.is_refused()));
}

#[test]
fn an_attachment_with_blocks_takes_only_a_colour_and_a_fallback() {
    let message = json!({ "text": "t", "attachments": [{ "title": "no", "blocks": [{ "type": "divider" }] }] });
    let found = validate(&message);
    assert_eq!((found[0].rule, found[0].pointer.as_str()), (Rule::UnknownField, "/attachments/0/title"));
}

#[test]
fn a_message_shows_something_and_notifies_with_words() {
    assert_eq!(validate(&json!({}))[0].rule, Rule::NoText);
    let divider = json!([{ "type": "divider" }]);
    assert_eq!(validate(&json!({ "blocks": divider }))[0].rule, Rule::NoFallback);
    assert_eq!(validate(&json!({ "attachments": [{ "blocks": divider, "fallback": "f" }] })), []);
    assert_eq!(validate(&json!({ "text": "x".repeat(40_001) }))[0].rule, Rule::Truncated);
}

#[test]
fn a_violation_reads_like_slacks_own_message() {
    let found = validate(&json!([section(3001)]));
    assert_eq!(found[0].to_string(), "[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]");
}
