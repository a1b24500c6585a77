//! Message ─▶ terminal. Readable without colour; colour is added by the caller's choice.

use anstyle::{AnsiColor, Style};

use super::{Line, Message, Part, Span, Tone, is_unseen, time_of_day};

/// Characters of an address that are shown at most.
const ADDRESS: usize = 160;

/// The message as terminal text with ANSI styles; `anstream` strips them where they do not belong.
pub fn terminal(message: &Message) -> String {
    let tone = Style::new().bold().fg_color(Some(
        match message.tone {
            Tone::Critical => AnsiColor::Red,
            Tone::Warning => AnsiColor::Yellow,
            Tone::Good => AnsiColor::Green,
            Tone::Firing | Tone::Unknown => AnsiColor::BrightBlack,
        }
        .into(),
    ));
    let mut out = format!("{tone}▌ {}{tone:#}\n", clean(&message.headline));
    for part in &message.parts {
        match part {
            Part::Paragraph(line) | Part::Beside(line, _) => out.push_str(&format!("\n{}\n", spans(line))),
            Part::Section(title, lines) => {
                out.push_str(&heading(title));
                lines.iter().for_each(|line| out.push_str(&format!("  {}\n", spans(line))));
            }
            Part::Steps(title, lines) => {
                out.push_str(&heading(title));
                for (i, line) in lines.iter().enumerate() {
                    out.push_str(&format!("  {}. {}\n", i + 1, spans(line)));
                }
            }
            Part::Note(line) => {
                let dim = Style::new().dimmed();
                out.push_str(&format!("\n{dim}{}{dim:#}\n", spans(line)));
            }
            // Nobody can press or see it here.
            Part::Buttons(_) | Part::Picture { .. } => {}
        }
    }
    out
}

fn heading(title: &str) -> String {
    let bold = Style::new().bold();
    format!("\n{bold}{}{bold:#}\n", clean(title))
}

fn spans(line: &Line) -> String {
    let (bold, code) = (Style::new().bold(), Style::new().fg_color(Some(AnsiColor::Cyan.into())));
    line.0
        .iter()
        .map(|span| match span {
            Span::Plain(text) => clean(text),
            Span::Bold(text) => format!("{bold}{}{bold:#}", clean(text)),
            Span::Code(text) => format!("{code}`{}`{code:#}", clean(text)),
            Span::Link(label, url) => format!("{}: {}", clean(label), clean(short(url))),
            Span::Time(at) => time_of_day(*at),
            Span::User(_) | Span::Group(_) => clean(&span.text()),
        })
        .collect()
}

/// An address without its query when that fills lines: queries in PromQL stand in the JSON output and on the page.
fn short(url: &str) -> &str {
    match url.split_once('?') {
        Some((place, _)) if url.len() > ADDRESS => place,
        _ => url,
    }
}

/// Control characters from outside must not move the cursor, make lines or change colours.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Lines of at most `width` characters, broken between words; a longer word has a line of its own.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
