//! Message ─▶ HTML that shows it as Slack would. Server-rendered, no script, no request to anywhere else.

use super::{Line, Message, Part, Span, Words, is_unseen, time_of_day};

const STYLE: &str = "
:root{color-scheme:light dark;--fg:#1d1c1d;--bg:#f4f5f7;--card:#fff;--dim:#616061;--code:#c01343;--line:#dcdde1}
@media(prefers-color-scheme:dark){:root{--fg:#d9dadd;--bg:#131518;--card:#1b1e22;--dim:#9a9ca1;--code:#ff8fa8;--line:#34373c}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:860px;margin:0 auto;padding:24px 16px}
article{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px 20px;margin:0 0 16px}
.who{font-weight:700}.who small{font-weight:400;color:var(--dim)}
.card{border-left:4px solid var(--tone);padding:4px 0 4px 14px;margin-top:10px}
h1{font-size:16px;margin:6px 0 0;overflow-wrap:anywhere}h2{font-size:15px;margin:14px 0 2px}
p,li{margin:2px 0;overflow-wrap:anywhere}ol{margin:0;padding-left:22px}
code{font:12.5px ui-monospace,monospace;color:var(--code);background:var(--bg);border:1px solid var(--line);border-radius:3px;padding:1px 3px}
.note{color:var(--dim);font-size:12.5px;margin-top:12px}a{color:#1264a3}@media(prefers-color-scheme:dark){a{color:#6bb0e8}}
table{width:100%;border-collapse:collapse}td,th{text-align:left;padding:6px 8px;border-bottom:1px solid var(--line);vertical-align:top}
";

/// A whole page with one message.
pub fn message_page(title: &str, message: &Message) -> String {
    page(title, &article(message), true)
}

/// A whole page with a list: link, headline and small print of each entry.
pub fn index_page(entries: &[(String, String, String)], words: &Words) -> String {
    let title = words.text("incidents", &[]);
    let rows: String = entries
        .iter()
        .map(|(url, headline, note)| {
            format!(
                "<tr><td><a href=\"{}\">{}</a><br><small>{}</small></td></tr>",
                escape(url),
                escape(headline),
                escape(note)
            )
        })
        .collect();
    let body = match entries.is_empty() {
        true => format!("<p>{}</p>", escape(&words.text("no-incidents", &[]))),
        false => format!("<table>{rows}</table>"),
    };
    page(&title, &format!("<article><h1>{}</h1>{body}</article>", escape(&title)), true)
}

fn page(title: &str, body: &str, live: bool) -> String {
    let refresh = if live { "<meta http-equiv=\"refresh\" content=\"2\">" } else { "" };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">{refresh}\
         <title>{}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>",
        escape(title)
    )
}

fn article(message: &Message) -> String {
    let mut inside = String::new();
    for part in &message.parts {
        inside.push_str(&match part {
            Part::Paragraph(line) => format!("<p>{}</p>", html(line)),
            Part::Section(title, lines) => {
                let lines: String = lines.iter().map(|l| format!("<p>{}</p>", html(l))).collect();
                format!("<h2>{}</h2>{lines}", escape(title))
            }
            Part::Steps(title, lines) => {
                let lines: String = lines.iter().map(|l| format!("<li>{}</li>", html(l))).collect();
                format!("<h2>{}</h2><ol>{lines}</ol>", escape(title))
            }
            Part::Note(line) => format!("<p class=\"note\">{}</p>", html(line)),
            Part::Buttons(_) | Part::Picture { .. } => String::new(),
        });
    }
    format!(
        "<article><div class=\"who\">llm-diagnose <small>APP</small></div><h1>{}</h1>\
         <div class=\"card\" style=\"--tone:{}\">{inside}</div></article>",
        escape(&message.headline),
        message.tone.hex(),
    )
}

fn html(line: &Line) -> String {
    line.0
        .iter()
        .map(|span| match span {
            Span::Plain(text) => escape(text),
            Span::Bold(text) => format!("<b>{}</b>", escape(text)),
            Span::Code(text) => format!("<code>{}</code>", escape(text)),
            Span::Link(label, url) if url.starts_with("http://") || url.starts_with("https://") => {
                format!("<a href=\"{}\" rel=\"noopener noreferrer\">{}</a>", escape(url), escape(label))
            }
            Span::Link(label, _) => escape(label),
            Span::Time(at) => format!("<time datetime=\"{at}\">{}</time>", time_of_day(*at)),
            Span::User(_) | Span::Group(_) => escape(&span.text()),
        })
        .collect()
}

fn escape(text: &str) -> String {
    let text: String = text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Tone;

    #[test]
    fn labels_cannot_bring_markup_or_script_into_the_page() {
        let line =
            Line::default().plain("<script>").link("x", "javascript:alert(1)").link("y", "https://a/\"onload=\"");
        let message = Message { tone: Tone::Good, headline: "<b>".into(), parts: vec![Part::Paragraph(line)] };
        let page = message_page("</title>", &message);
        assert!(!page.contains("<script>") && !page.contains("javascript:") && !page.contains("\"onload="));
    }
}
