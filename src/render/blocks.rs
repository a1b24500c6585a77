//! Message ─▶ Slack Block Kit, inside Slack's limits, with all untrusted text escaped.
//!
//! Essential text is in top-level blocks, each with `expand` set: Slack's clients may hide the content of
//! attachments behind "Show more", but not that of top-level blocks
//! (<https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments/>, and `expand` in
//! <https://docs.slack.dev/reference/block-kit/blocks/section-block>). Only attachments have a colour, so the small
//! print at the end is one.
//!
//! Source of the limits: docs.slack.dev, Block Kit reference; the sum over all blocks is undocumented
//! (slackapi/bolt-js#2509 saw `msg_blocks_too_long` at about 13,200 characters).

use serde_json::{Value, json};

use super::is_unseen;
use super::text::clean;
use knowledge::clip::{utf16_start, utf16_units};
use message::{Block, Button, ButtonStyle, Line, Message, SlackMessage, TextSpan, Tone, time_of_day};

/// Maximum characters of a section; Slack allows 3,000.
const SECTION_CHARS: usize = 2_900;
/// Maximum characters of all blocks together; Slack allows about 13,200.
const TOTAL_CHARS: usize = 11_000;
/// Maximum characters of the headline; `chat.update` allows 4,000 as text.
const HEADLINE_CHARS: usize = 600;
/// Maximum number of blocks; Slack allows 50.
const BLOCKS: usize = 40;
/// Maximum number of buttons in an actions block, beside the overflow menu: as many as fit into two rows on a phone.
/// Slack allows 25 elements.
const BUTTONS: usize = 5;
/// Maximum number of options in an overflow menu.
const OPTIONS: usize = 5;
/// Maximum characters of a button's label.
const LABEL_CHARS: usize = 75;
/// Maximum characters of a button's confirmation question; Slack allows 300.
const QUESTION_CHARS: usize = 300;
/// Maximum characters of a section's title.
const TITLE_CHARS: usize = 300;
/// Maximum characters of a button's value; Slack allows 2,000.
const VALUE_CHARS: usize = 500;

/// The action id of the overflow menu; the value of an option is an action and its value: `right 01JD…`.
pub const MENU: &str = "more";

/// Prepends mentions, which notify when the message is posted.
pub fn with_mentions(mut message: SlackMessage, whom: &[&str]) -> SlackMessage {
    if whom.is_empty() {
        return message;
    }
    let mention = whom.iter().map(|id| mrkdwn(&Line(vec![TextSpan::whom(id)]))).collect::<Vec<_>>().join(" ");
    message.text = format!("{mention} {}", message.text);
    if let Some(Value::String(first)) = message.blocks.first_mut().and_then(|block| block.pointer_mut("/text/text")) {
        *first = format!("{mention} {first}");
    }
    message
}

/// Renders a message for Slack.
pub fn slack(message: &Message) -> SlackMessage {
    let text = clip_markup(&escape_markup(&message.headline), HEADLINE_CHARS);
    below(format!("*{text}*"), text, message.tone, &message.parts)
}

/// Renders a formatted line with parts below it.
pub fn slack_with_blocks(line: &Line, tone: Tone, parts: &[Block]) -> SlackMessage {
    let text = mrkdwn(line);
    below(text.clone(), text, tone, parts)
}

/// Renders one line without a colour; a mention in it notifies.
pub fn slack_line(line: &Line) -> SlackMessage {
    SlackMessage { text: mrkdwn(line), blocks: Vec::new(), attachments: Vec::new() }
}

/// Builds a message: the last note becomes the coloured attachment, all other parts become blocks below the first line.
fn below(first: String, text: String, tone: Tone, parts: &[Block]) -> SlackMessage {
    if parts.is_empty() {
        return SlackMessage { text, blocks: Vec::new(), attachments: Vec::new() };
    }
    let foot = parts.iter().rposition(|part| matches!(part, Block::Note(_)));
    let rest: Vec<Block> =
        parts.iter().enumerate().filter(|(at, _)| Some(*at) != foot).map(|(_, part)| part.clone()).collect();
    let foot = foot.map(|at| slack_blocks(&parts[at..=at])).filter(|blocks| !blocks.is_empty());
    let attachments = foot.map(|blocks| json!({ "color": tone.hex(), "blocks": blocks })).into_iter().collect();
    let mut blocks = vec![section(&first)];
    blocks.extend(slack_blocks(&rest));
    SlackMessage { text, blocks, attachments }
}

/// Renders parts as the blocks of a message or a modal, within Slack's limits. Buttons are never left out; text is
/// cut to make room for them.
pub fn slack_blocks(parts: &[Block]) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut total: usize = parts.iter().map(always).sum();
    let mut full = false;
    for part in parts {
        let text = match part {
            Block::Paragraph(line) | Block::Gap(line) => mrkdwn(line),
            Block::Note(line) | Block::Beside(line, _) => mrkdwn(line),
            Block::Section(title, lines) => listed(title, lines, |_| String::new()),
            Block::Steps(title, lines) => listed(title, lines, |i| format!("{}. ", i + 1)),
            Block::Buttons(buttons) if buttons.is_empty() => continue,
            Block::Buttons(buttons) => {
                let (menu, shown): (Vec<&Button>, Vec<&Button>) =
                    buttons.iter().partition(|button| button.style == ButtonStyle::InMenu);
                let mut elements: Vec<Value> = shown.into_iter().map(button).collect();
                elements.extend((!menu.is_empty()).then(|| overflow(&menu)));
                let rows = elements.chunks(BUTTONS + 1);
                blocks.extend(rows.map(|row| json!({ "type": "actions", "elements": row })));
                continue;
            }
            Block::Document(_) => continue,
        };
        if text.is_empty() || full {
            continue;
        }
        total += utf16_units(&text);
        if total > TOTAL_CHARS || blocks.len() >= BLOCKS {
            blocks.push(context("…"));
            full = true;
            continue;
        }
        blocks.push(match part {
            Block::Note(_) => context(&text),
            Block::Beside(_, button) => beside(&text, button),
            _ => section(&text),
        });
    }
    blocks
}

/// Returns the characters of a part's buttons, which are never left out.
fn always(part: &Block) -> usize {
    let label = |b: &Button| utf16_units(&b.label).min(LABEL_CHARS) * 3;
    let question = |b: &Button| b.confirm.as_deref().map_or(0, utf16_units).min(QUESTION_CHARS);
    let of = |b: &Button| label(b) + utf16_units(&b.value).min(VALUE_CHARS) + question(b);
    match part {
        Block::Buttons(buttons) => buttons.iter().map(of).sum(),
        Block::Beside(_, button) => of(button),
        Block::Paragraph(_) | Block::Section(..) | Block::Steps(..) | Block::Note(_) => 0,
        Block::Gap(_) | Block::Document(_) => 0,
    }
}

/// Builds the overflow menu "⋯": the value of an option is the action and the value of its button.
fn overflow(buttons: &[&Button]) -> Value {
    let options = buttons.iter().take(OPTIONS).map(|button| {
        json!({ "text": plain(&button.label, LABEL_CHARS), "value": format!("{} {}", button.action, button.value) })
    });
    json!({ "type": "overflow", "action_id": MENU, "options": options.collect::<Vec<_>>() })
}

fn beside(text: &str, beside: &Button) -> Value {
    let mut section = section(text);
    section["accessory"] = button(beside);
    section
}

fn plain(text: &str, most: usize) -> Value {
    json!({ "type": "plain_text", "text": clip_markup(&clean(text), most), "emoji": false })
}

fn button(button: &Button) -> Value {
    let mut value = json!({
        "type": "button", "action_id": button.action, "value": clip_markup(&button.value, VALUE_CHARS), "text": plain(&button.label, LABEL_CHARS),
    });
    match button.style {
        ButtonStyle::Plain | ButtonStyle::InMenu => {}
        ButtonStyle::Primary => value["style"] = "primary".into(),
        ButtonStyle::Danger => value["style"] = "danger".into(),
    }
    if let Some(question) = &button.confirm {
        value["confirm"] = json!({
            "title": plain(&button.label, 100), "text": plain(question, QUESTION_CHARS),
            "confirm": plain(&button.label, 30), "deny": plain("✕", 30),
        });
    }
    value
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "expand": true, "text": { "type": "mrkdwn", "text": text, "verbatim": true } })
}

fn context(text: &str) -> Value {
    json!({ "type": "context", "elements": [{ "type": "mrkdwn", "text": text, "verbatim": true }] })
}

/// Renders a title with as many whole lines as fit, and the number of lines left out.
fn listed(title: &str, lines: &[Line], prefix: impl Fn(usize) -> String) -> String {
    let mut out = match title.is_empty() {
        true => String::new(),
        false => format!("*{}*", escape_markup(&clip_markup(title, TITLE_CHARS))),
    };
    for (i, line) in lines.iter().enumerate() {
        let between = if out.is_empty() { "" } else { "\n" };
        // The first line stands alone where there is no title.
        let text = if out.is_empty() { clip_markup(&mrkdwn(line), SECTION_CHARS - 100) } else { mrkdwn(line) };
        let next = format!("{between}{}{text}", prefix(i));
        if utf16_units(&out) + utf16_units(&next) > SECTION_CHARS - 40 {
            out.push_str(&format!("\n… +{}", lines.len() - i));
            break;
        }
        out.push_str(&next);
    }
    out
}

fn mrkdwn(line: &Line) -> String {
    let text: String = line
        .0
        .iter()
        .map(|span| match span {
            TextSpan::Plain(text) => escape_markup(text),
            TextSpan::Bold(text) => format!("*{}*", escape_markup(text)),
            // A back-tick inside would end the code span.
            TextSpan::Code(text) => format!("`{}`", escape(&text.replace('`', "'"))),
            TextSpan::Link(label, url) if linkable(url) => format!("<{url}|{}>", escape(&label.replace('|', "/"))),
            TextSpan::Link(label, _) => escape_markup(label),
            TextSpan::Time(at) => format!("<!date^{}^{{time}}|{}>", at.as_second(), time_of_day(*at)),
            TextSpan::User(id) if is_id(id) => format!("<@{id}>"),
            TextSpan::Group(id) if is_id(id) => format!("<!subteam^{id}>"),
            TextSpan::User(id) if id.starts_with("page:") => escape_markup(&span.text()),
            TextSpan::User(id) | TextSpan::Group(id) => escape_markup(id),
            TextSpan::Moment(_) | TextSpan::State(..) | TextSpan::Small(_) => escape_markup(&span.text()),
        })
        .collect();
    if utf16_units(&text) > SECTION_CHARS { clip_line(line) } else { text }
}

/// Truncates a line that is too long, as plain text: cutting its markup could leave it unclosed.
fn clip_line(line: &Line) -> String {
    escape_markup(&clip_markup(&line.text(), SECTION_CHARS / 6))
}

/// Returns true if a text has the form of a Slack id: letters and digits.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 32 && id.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn linkable(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://"))
        && utf16_units(url) < 2_000
        && !url.contains(['<', '>', '|', ' ', '"'])
        && !url.chars().any(char::is_control)
}

/// Escapes the three characters that Slack reads as markup of links and mentions; invisible characters become spaces.
/// Source: docs.slack.dev, "Formatting message text", escaping.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if is_unseen(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Escapes as [`escape`] does, and prevents formatting by untrusted `*`, `_`, `~`, back-ticks and emoji names: a
/// zero-width space keeps them from being read as markup.
fn escape_markup(text: &str) -> String {
    let escaped = escape(text);
    let mut out = String::with_capacity(escaped.len());
    let mut before = ' ';
    for (at, c) in escaped.char_indices() {
        let rest = &escaped[at + c.len_utf8()..];
        match c {
            '*' | '~' | '`' => out.push('\u{200b}'),
            // Inside a word, as in `kv_cache`, it is not markup.
            '_' if !before.is_alphanumeric() || !rest.starts_with(char::is_alphanumeric) => out.push('\u{200b}'),
            _ => {}
        }
        out.push(c);
        if c == ':' && begins_emoji(rest) {
            out.push('\u{200b}');
        }
        before = c;
    }
    out
}

/// Returns true if a text after a colon makes it `:name:`; a time of day does not.
fn begins_emoji(rest: &str) -> bool {
    let Some((name, _)) = rest.split_once(':') else { return false };
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '\'');
    !name.is_empty()
        && name.len() <= 100
        && name.chars().all(part)
        && !(name.len() <= 2 && name.bytes().all(|b| b.is_ascii_digit()))
}

/// Truncates text to `most` UTF-16 units, and never inside an entity such as `&amp;`.
fn clip_markup(text: &str, most: usize) -> String {
    if utf16_units(text) <= most {
        return text.to_owned();
    }
    let kept = utf16_start(text, most.saturating_sub(1));
    let kept = match kept.rfind('&') {
        Some(at) if !kept[at..].contains(';') => &kept[..at],
        _ => kept,
    };
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Tone;

    fn message(parts: Vec<Block>) -> Message {
        Message { tone: Tone::Critical, headline: "h <!channel> & co".into(), parts }
    }

    #[test]
    fn mentions_links_and_markup_in_labels_are_harmless() {
        let line =
            Line::default().plain("<!channel> <http://evil|ok> *x*").code("a`b").link("l|m", "javascript:alert(1)");
        let out = slack(&message(vec![Block::Paragraph(line)]));
        assert_eq!(out.text, "h &lt;!channel&gt; &amp; co");
        let text = out.blocks[1]["text"]["text"].as_str().unwrap();
        assert!(!text.contains("<!") && !text.contains("<http") && text.contains("`a'b`"), "{text}");
    }

    #[test]
    fn a_flood_of_lines_stays_inside_slacks_limits() {
        let lines: Vec<Line> = (0..500).map(|i| Line::of(&format!("pod-{i} & {}", "x".repeat(90)))).collect();
        let parts = (0..60).map(|i| Block::Section(format!("s{i}"), lines.clone())).collect();
        let out = slack(&message(parts));
        let blocks = &out.blocks;
        assert!(blocks.len() <= 50);
        let total: usize = blocks.iter().filter_map(|b| b["text"]["text"].as_str()).map(utf16_units).sum();
        assert!(total <= 12_000, "{total}");
        assert!(blocks.iter().filter_map(|b| b["text"]["text"].as_str()).all(|t| utf16_units(t) <= 3_000));
    }

    #[test]
    fn names_of_emoji_are_text_and_times_of_day_stay() {
        assert_eq!(escape_markup(":+1: :fire: 14:05:30"), ":\u{200b}+1: :\u{200b}fire: 14:05:30");
    }

    #[test]
    fn endless_titles_and_labels_of_buttons_leave_room_for_text() {
        let endless = "&\u{202e}\n".repeat(2_000);
        let button = |n: usize| Button {
            action: format!("ask-{n}"),
            label: endless.clone(),
            value: endless.clone(),
            style: ButtonStyle::Plain,
            confirm: Some(endless.clone()),
        };
        let parts = [
            Block::Section(endless.clone(), vec![Line::of("still there")]),
            Block::Buttons((0..5).map(button).collect()),
        ];
        let blocks = slack_blocks(&parts);
        let text = blocks[0]["text"]["text"].as_str().unwrap();
        assert!(text.contains("still there") && utf16_units(text) <= 3_000, "{text}");
        let button = &blocks[1]["elements"][0];
        let shown = format!("{}{}", button["text"], button["confirm"]);
        assert!(!shown.contains('\u{202e}') && !shown.contains('\n') && shown.len() < 1_000, "{shown}");
    }

    #[test]
    fn one_endless_label_is_cut_and_cut_between_entities() {
        let out = slack(&message(vec![Block::Paragraph(Line::default().plain("&".repeat(5_000)))]));
        let text = out.blocks[1]["text"]["text"].as_str().unwrap();
        assert!(utf16_units(text) <= 3_000 && text.ends_with("&amp;…"), "{}", &text[text.len() - 20..]);
    }
}
