//! A message as it looks in Slack's window: one HTML page without scripts and external files.
//!
//! Shows the blocks that the product posts; of any other block, its type. All text is escaped.
//! Source of the blocks: <https://docs.slack.dev/reference/block-kit/blocks>.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::blocks::mrkdwn::{Piece, pieces, readable};
use super::state::{Message, State};

const STYLE: &str = include_str!("window.css");
/// The app's icon beside its name: a pulse.
const ICON: &str = "<svg viewBox='0 0 36 36' width='36' height='36'><rect width='36' height='36' rx='8' fill='#1b3a57'/>\
    <path d='M4 19h8l3-9 6 17 4-8h7' fill='none' stroke='#5fd0a5' stroke-width='2.6' stroke-linejoin='round' \
    stroke-linecap='round'/></svg>";
/// The product puts it before a character that is no markup.
const LITERAL: char = '\u{200b}';

/// The page of a message of the product, with the number of replies in its thread. `time` stands beside the author.
pub(super) fn page(state: &State, message: &Message, time: &str) -> String {
    let channel = state.channel(&message.channel).map_or(message.channel.as_str(), |channel| channel.name.as_str());
    let content = &message.content;
    let mut body = String::new();
    if content.blocks.is_empty() {
        body.push_str(&format!("<p>{}</p>", formatted(&content.text)));
    }
    body.extend(content.blocks.iter().map(|block| self::block(state, block)));
    for attachment in &content.attachments {
        let colour = attachment["color"].as_str().unwrap_or("#dddddd");
        let blocks: String = list(&attachment["blocks"]).map(|block| self::block(state, block)).collect();
        body.push_str(&format!("<aside style='border-color:{}'>{blocks}</aside>", escape(colour)));
    }
    if message.edits() > 0 {
        body.push_str("<small>(edited)</small>");
    }
    match state.messages(&message.channel).filter(|reply| reply.thread_ts.as_ref() == Some(&message.ts)).count() {
        0 => {}
        1 => body.push_str("<p class='thread'>1 reply</p>"),
        n => body.push_str(&format!("<p class='thread'>{n} replies</p>")),
    }
    let (channel, time) = (escape(channel), escape(time));
    format!(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>#{channel}</title><style>{STYLE}</style>\
         <header><i>#</i> {channel}</header><article>{ICON}<div><p><b>llm-diagnose</b> \
         <small class='app'>APP</small> <small>{time}</small></p>{body}</div></article>\
         <footer><p>Message #{channel}</p></footer></html>"
    )
}

fn block(state: &State, block: &Value) -> String {
    match text(&block["type"]) {
        "header" => format!("<h1>{}</h1>", words(&block["text"])),
        "section" => {
            let beside = if block["accessory"].is_object() { element(&block["accessory"]) } else { String::new() };
            format!("<section><p>{}</p>{beside}</section>", words(&block["text"]))
        }
        "context" => {
            let elements: Vec<String> = list(&block["elements"]).map(words).collect();
            format!("<p class='context'>{}</p>", elements.join(" "))
        }
        "actions" => {
            format!("<div class='actions'>{}</div>", list(&block["elements"]).map(element).collect::<String>())
        }
        "divider" => "<hr>".to_owned(),
        "image" => picture(state, block),
        other => format!("<p>[{}]</p>", escape(other)),
    }
}

/// A button, or a menu with its options as a tooltip.
fn element(element: &Value) -> String {
    match text(&element["type"]) {
        "button" => format!("<button class='{}'>{}</button>", escape(text(&element["style"])), words(&element["text"])),
        "overflow" => {
            let options: Vec<&str> = list(&element["options"]).map(|option| text(&option["text"]["text"])).collect();
            format!("<button class='menu' title='{}'>⋯</button>", escape(&options.join(" / ")))
        }
        other => format!("<button>[{}]</button>", escape(other)),
    }
}

/// An uploaded picture, or its alternative text.
fn picture(state: &State, block: &Value) -> String {
    let (id, alt) = (text(&block["slack_file"]["id"]), escape(text(&block["alt_text"])));
    let file = state.files().iter().find(|file| file.id == id && file.name.ends_with(".png"));
    match file.and_then(|file| file.bytes.as_ref()) {
        Some(bytes) => format!("<img alt='{alt}' src='data:image/png;base64,{}'>", STANDARD.encode(bytes)),
        None => format!("<p>[{alt}]</p>"),
    }
}

/// A text object as HTML.
fn words(object: &Value) -> String {
    match text(&object["type"]) {
        "mrkdwn" => formatted(text(&object["text"])),
        _ => escape(text(&object["text"])),
    }
}

/// `mrkdwn` as HTML: bold and code within a line, links, references and mentions.
fn formatted(text: &str) -> String {
    let mut out = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut before = ' ';
    for piece in pieces(text) {
        if !matches!(piece, Piece::Text(_)) {
            before = ' ';
        }
        match piece {
            Piece::Text(text) => {
                for c in text.chars() {
                    let is_code = open.last() == Some(&"code");
                    match c {
                        '`' if before != LITERAL => toggle("code", &mut open, &mut out),
                        '*' if before != LITERAL && !is_code => toggle("b", &mut open, &mut out),
                        '\n' => {
                            close(&mut open, &mut out);
                            out.push(c);
                        }
                        c => push_escaped(c, &mut out),
                    }
                    before = c;
                }
            }
            Piece::Escaped(c) => push_escaped(c, &mut out),
            Piece::Link { url, label } => {
                let label = label.map_or_else(|| url.to_owned(), readable);
                out.push_str(&format!("<a href='{}'>{}</a>", escape(&readable(url)), escape(&label)));
            }
            Piece::Reference(label) => out.push_str(&escape(label)),
            Piece::Mention(name) => {
                out.push_str(&format!("<a class='mention'>{}</a>", escape(&readable(&format!("<{name}>")))));
            }
            Piece::Stray(rest) => rest.chars().take(1).for_each(|c| push_escaped(c, &mut out)),
        }
    }
    close(&mut open, &mut out);
    out
}

fn toggle(tag: &'static str, open: &mut Vec<&'static str>, out: &mut String) {
    if open.last() == Some(&tag) {
        open.pop();
        out.push_str(&format!("</{tag}>"));
    } else {
        open.push(tag);
        out.push_str(&format!("<{tag}>"));
    }
}

fn close(open: &mut Vec<&'static str>, out: &mut String) {
    while let Some(tag) = open.pop() {
        out.push_str(&format!("</{tag}>"));
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_escaped(c, &mut out));
    out
}

fn push_escaped(c: char, out: &mut String) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        c => out.push(c),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Options;
    use super::super::tests::{Bot, CHANNEL};
    use super::*;

    /// The visible text of a page: without tags, with entities decoded.
    fn read(html: &str) -> String {
        let (_, body) = html.split_once("</style>").unwrap();
        let parts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        let names = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        names.iter().fold(parts.collect::<String>(), |text, (name, character)| text.replace(name, character))
    }

    /// Every text of a value, as a person reads it.
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| texts(one, found)),
            Value::Object(fields) => {
                if let Some(text) = fields.get("text").and_then(Value::as_str) {
                    found.push(readable(text).replace(['*', '`', '↗'], ""));
                }
                fields.values().for_each(|value| texts(value, found));
            }
            _ => {}
        }
    }

    async fn shown(message: Value) -> String {
        let bot = Bot::start(Options { allowed_mentions: vec!["@U0ANN".into()], ..Options::unlimited() }).await;
        let ts = bot.post(message).await;
        let message = bot.slack.messages(CHANNEL).remove(0);
        assert_eq!((message.ts, bot.slack.violations()), (ts.clone(), vec![]));
        bot.slack.html(CHANNEL, &ts, "02:14").unwrap()
    }

    #[tokio::test]
    async fn every_text_of_a_message_is_in_its_page() {
        let mrkdwn = |text: &str| json!({ "type": "mrkdwn", "text": text, "verbatim": true });
        let plain = |text: &str| json!({ "type": "plain_text", "text": text, "emoji": false });
        let button = |label: &str| json!({ "type": "button", "action_id": label, "text": plain(label), "value": "1" });
        let mut blocks = vec![
            json!({ "type": "header", "text": plain("Fleet <health> & more") }),
            json!({ "type": "section", "text": mrkdwn("*CRITICAL · first tokens come late · llm/chat*") }),
            json!({ "type": "section", "text": mrkdwn("*Why*\n← *all slots* are taken, began <!date^1700000000^{time}|02:14 UTC>"),
                "accessory": button("Done") }),
            json!({ "type": "section", "text": mrkdwn("1. Compare `--max-num-seqs` with `kubectl -n llm get pods &gt; a*b`") }),
            json!({ "type": "divider" }),
            json!({ "type": "context", "elements": [mrkdwn("since <https://a.b/?c=1&amp;d=2|Incident>, says <@U0ANN>")] }),
            json!({ "type": "actions", "elements": [button("Acknowledge"), button("Show evidence")] }),
        ];
        let attachments =
            json!([{ "color": "#b3202c", "blocks": [{ "type": "context", "elements": [mrkdwn("new")] }] }]);
        let html =
            shown(json!({ "channel": CHANNEL, "text": "t", "blocks": &blocks, "attachments": &attachments })).await;
        let page = read(&html);
        let mut expected = vec!["llm-alerts".to_owned(), "02:14".to_owned()];
        blocks.push(attachments);
        blocks.iter().for_each(|block| texts(block, &mut expected));
        assert_eq!(expected.len(), 11, "{expected:?}");
        for text in expected {
            // A star inside of code is one.
            assert!(page.replace('*', "").contains(&text), "{text}: {page}");
        }
        assert!(html.contains("<b>CRITICAL · first") && html.contains("<code>kubectl -n llm get pods &gt; a*b</code>"));
        assert!(html.contains("<a href='https://a.b/?c=1&amp;d=2'>Incident</a>"), "{html}");
    }

    #[tokio::test]
    async fn text_from_outside_stays_text() {
        let evil = "&lt;script&gt;alert(1)&lt;/script&gt; ' onclick='x \u{200b}*not bold\u{200b}* *open\nnext";
        let blocks = json!([{ "type": "section", "text": { "type": "mrkdwn", "text": evil } }]);
        let html = shown(json!({ "channel": CHANNEL, "text": "t", "blocks": blocks })).await;
        assert!(!html.contains("<script") && !html.contains("' onclick"), "{html}");
        assert!(html.contains("*not bold") && html.contains("<b>open</b>\nnext"), "{html}");
    }
}
