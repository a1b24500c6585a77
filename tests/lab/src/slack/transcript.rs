//! A channel as a person reads it, in plain text.
//!
//! The text of a message that has blocks is not shown, as in Slack; see [`super::Message::content`] for it.

use serde_json::Value;

use super::blocks::mrkdwn::readable;
use super::state::{Message, State};
use super::views::View;

/// The messages of a channel, threads below their first message, then the modals opened there, separated by empty
/// lines.
pub(super) fn transcript(state: &State, channel: &str) -> String {
    let messages: Vec<_> = state.all_messages(channel).collect();
    let replies = |parent: &Message| -> Vec<&Message> {
        messages.iter().copied().filter(|m| m.thread_ts.as_ref() == Some(&parent.ts) && !m.is_deleted).collect()
    };
    let mut shown = Vec::new();
    for parent in messages.iter().filter(|m| m.thread_ts.is_none() || m.is_broadcast) {
        let replies = if parent.thread_ts.is_none() { replies(parent) } else { Vec::new() };
        if parent.is_deleted && replies.is_empty() {
            continue;
        }
        let mut lines = if parent.is_deleted { vec!["(deleted)".into()] } else { self::lines(state, parent) };
        for reply in replies {
            for (index, line) in self::lines(state, reply).into_iter().enumerate() {
                lines.push(format!("  {} {line}", if index == 0 { "↳" } else { " " }).trim_end().into());
            }
        }
        shown.push(lines.join("\n"));
    }
    let id = state.channel(channel).map(|channel| channel.id.clone());
    shown.extend(
        state.views.iter().filter(|view| view.is_open && view.channel.is_some() && view.channel == id).map(modal),
    );
    shown.join("\n\n")
}

fn modal(view: &View) -> String {
    let content = &view.content;
    let mut lines = Vec::new();
    for block in list(&content["blocks"]) {
        self::block(block, &mut lines);
        if let Some(error) = view.errors[text(&block["block_id"])].as_str() {
            lines.push(format!("! {error}"));
        }
    }
    let close = if content["close"].is_object() { shown(&content["close"]) } else { "Cancel".into() };
    let submit =
        Some(&content["submit"]).filter(|submit| submit.is_object()).map(|submit| format!(" [{}]", shown(submit)));
    lines.push(format!("[{close}]{}", submit.unwrap_or_default()));
    let lines: Vec<_> = lines.iter().map(|line| format!("modal | {line}").trim_end().to_owned()).collect();
    format!("(modal of {}) {}\n{}", view.user, shown(&content["title"]), lines.join("\n"))
}

fn lines(state: &State, message: &Message) -> Vec<String> {
    let content = &message.content;
    let mut lines = Vec::new();
    if let Some(user) = &message.only_for {
        lines.push(format!("(only visible to {user})"));
    }
    if content.blocks.is_empty() {
        let author = message.user.as_deref().map(|user| {
            let name = state.user(user).map_or(user, |user| user.name.as_str());
            format!("@{name}: ")
        });
        push(&mut lines, "", &format!("{}{}", author.unwrap_or_default(), readable(&content.text)));
    }
    content.blocks.iter().for_each(|block| self::block(block, &mut lines));
    for attachment in &content.attachments {
        let mut inner = Vec::new();
        for key in ["pretext", "title", "text"] {
            push(&mut inner, "", &readable(text(&attachment[key])));
        }
        list(&attachment["blocks"]).for_each(|block| self::block(block, &mut inner));
        let colour = attachment["color"].as_str().map_or("grey", colour_name);
        lines.extend(inner.into_iter().map(|line| format!("{colour} | {line}").trim_end().to_owned()));
    }
    lines.extend(message.files.iter().map(|title| format!("[file: {title}]")));
    match message.edits() {
        0 => {}
        edits => lines.push(format!("(edited {edits}×)")),
    }
    lines
}

/// Adds a text's lines: the first after `lead`, the others under it.
fn push(lines: &mut Vec<String>, lead: &str, text: &str) {
    let indent = " ".repeat(lead.chars().count());
    for (index, line) in text.lines().enumerate() {
        lines.push(format!("{}{line}", if index == 0 { lead } else { &indent }).trim_end().to_owned());
    }
}

fn block(block: &Value, lines: &mut Vec<String>) {
    match text(&block["type"]) {
        "header" => push(lines, "# ", &shown(&block["text"])),
        "section" => {
            push(lines, "", &shown(&block["text"]));
            list(&block["fields"]).for_each(|field| push(lines, "· ", &shown(field)));
            if block["accessory"].is_object() {
                lines.push(element(&block["accessory"]));
            }
        }
        "context" => {
            let elements: Vec<_> = list(&block["elements"]).map(shown).collect();
            push(lines, "~ ", &elements.join(" ~ "));
        }
        "input" => push(lines, "", &format!("{}: {}", shown(&block["label"]), element(&block["element"]))),
        "divider" => lines.push("---".into()),
        "actions" | "context_actions" => {
            lines.push(list(&block["elements"]).map(element).collect::<Vec<_>>().join(" "));
        }
        "image" => lines.push(format!("[image: {}]", text(&block["alt_text"]))),
        "markdown" => push(lines, "", text(&block["text"])),
        "rich_text" => list(&block["elements"]).for_each(|part| rich(part, lines)),
        "table" | "data_table" => {
            for row in list(&block["rows"]) {
                lines.push(list(row).map(cell).collect::<Vec<_>>().join(" | "));
            }
        }
        "data_visualization" => {
            lines.push(format!("[{} chart: {}]", text(&block["chart"]["type"]), text(&block["title"])));
        }
        other => lines.push(format!("[{other}]")),
    }
}

fn element(element: &Value) -> String {
    match text(&element["type"]) {
        "button" | "icon_button" => format!("[{}]", shown(&element["text"])),
        "overflow" => format!("[⋯ {}]", labels(&element["options"])),
        "image" => format!("[image: {}]", text(&element["alt_text"])),
        kind if kind.ends_with("_input") => format!("[{:_<8}]", text(&element["initial_value"])),
        "checkboxes" | "radio_buttons" => format!("[○ {}]", labels(&element["options"])),
        "feedback_buttons" => {
            format!("[{}] [{}]", shown(&element["positive_button"]["text"]), shown(&element["negative_button"]["text"]))
        }
        _ => {
            let chosen =
                list(&element["initial_options"]).chain(Some(&element["initial_option"]).filter(|o| o.is_object()));
            match chosen.map(|option| shown(&option["text"])).collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => format!("[{} ▾]", shown(&element["placeholder"])),
                chosen => format!("[{chosen} ▾]"),
            }
        }
    }
}

fn labels(options: &Value) -> String {
    list(options).map(|option| shown(&option["text"])).collect::<Vec<_>>().join(" / ")
}

fn rich(part: &Value, lines: &mut Vec<String>) {
    let spans = |part: &Value| list(&part["elements"]).map(span).collect::<String>();
    match text(&part["type"]) {
        "rich_text_list" => {
            let indent = "  ".repeat(part["indent"].as_u64().unwrap_or_default().min(8) as usize);
            for (index, item) in list(&part["elements"]).enumerate() {
                let mark = if part["style"] == "ordered" { format!("{}. ", index + 1) } else { "• ".into() };
                push(lines, &format!("{indent}{mark}"), &spans(item));
            }
        }
        "rich_text_quote" => lines.extend(spans(part).lines().map(|line| format!("> {line}"))),
        "rich_text_preformatted" => lines.extend(spans(part).lines().map(|line| format!("    {line}"))),
        _ => push(lines, "", &spans(part)),
    }
}

fn span(span: &Value) -> String {
    match text(&span["type"]) {
        "text" => text(&span["text"]).into(),
        "link" => format!("{}↗", span["text"].as_str().unwrap_or(text(&span["url"]))),
        "emoji" => format!(":{}:", text(&span["name"])),
        "user" => format!("@{}", text(&span["user_id"])),
        "usergroup" => format!("@{}", text(&span["usergroup_id"])),
        "broadcast" => format!("@{}", text(&span["range"])),
        "channel" => format!("#{}", text(&span["channel_id"])),
        "date" => text(&span["fallback"]).into(),
        _ => String::new(),
    }
}

fn cell(cell: &Value) -> String {
    if cell["type"] != "rich_text" {
        return text(&cell["text"]).into();
    }
    let mut lines = Vec::new();
    block(cell, &mut lines);
    lines.join(" ")
}

/// A text object or a context image.
fn shown(object: &Value) -> String {
    match text(&object["type"]) {
        "mrkdwn" => readable(text(&object["text"])),
        "image" => format!("[image: {}]", text(&object["alt_text"])),
        _ => text(&object["text"]).into(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The name of an attachment's colour bar: what a person calls its hue.
fn colour_name(colour: &str) -> &'static str {
    match colour {
        "good" => return "green",
        "warning" => return "yellow",
        "danger" => return "red",
        _ => {}
    }
    let Ok(rgb) = u32::from_str_radix(colour.trim_start_matches('#'), 16) else { return "grey" };
    let [red, green, blue] = [16, 8, 0].map(|shift| (rgb >> shift & 0xff) as f64);
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let range = most - least;
    if range < 40.0 {
        return "grey";
    }
    let sector = if most == red {
        ((green - blue) / range).rem_euclid(6.0)
    } else if most == green {
        (blue - red) / range + 2.0
    } else {
        (red - green) / range + 4.0
    };
    match (sector * 60.0) as u32 {
        0..15 | 330.. => "red",
        15..40 => "orange",
        40..70 => "yellow",
        70..170 => "green",
        170..260 => "blue",
        _ => "purple",
    }
}

#[cfg(test)]
mod tests {
    use super::colour_name;

    #[test]
    fn a_colour_has_the_name_of_its_hue() {
        let named = ["danger", "#E01E5A", "#d32f2f", "#F2A900", "#ECB22E", "#2EB67D", "36C5F0", "#868686", "nonsense"];
        let names = named.map(colour_name);
        assert_eq!(names, ["red", "red", "red", "yellow", "yellow", "green", "blue", "grey", "grey"]);
    }
}
