//! Message ─▶ terminal. Readable without colour; colour is added by the caller's choice.

use anstyle::{AnsiColor, Style};

use super::{Line, Message, Part, Span, Tone, is_unseen, time_of_day};

/// Characters of an address that are shown at most.
const ADDRESS: usize = 160;

/// What prints the queries of links that are too long for a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands {
    /// Prints the queries of the graph; empty when nothing does.
    pub queries: String,
    /// Makes the silence of the form; empty when nothing does.
    pub silence: String,
}

impl Commands {
    /// Of an incident that the store has.
    pub fn of_incident(id: &str) -> Self {
        Self {
            queries: format!("llm-diagnose explain --queries {id}"),
            silence: format!("llm-diagnose silence create {id}"),
        }
    }
}

/// The message as terminal text with ANSI styles; `anstream` strips them where they do not belong.
pub fn terminal(message: &Message) -> String {
    terminal_with(message, &Commands::default())
}

/// As [`terminal`], with the commands that stand beside links that are too long.
pub fn terminal_with(message: &Message, commands: &Commands) -> String {
    let spans = |line: &Line| spans(line, commands);
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

fn spans(line: &Line, commands: &Commands) -> String {
    let (bold, code) = (Style::new().bold(), Style::new().fg_color(Some(AnsiColor::Cyan.into())));
    line.0
        .iter()
        .map(|span| match span {
            Span::Plain(text) => clean(text),
            Span::Bold(text) => format!("{bold}{}{bold:#}", clean(text)),
            Span::Code(text) => format!("{code}`{}`{code:#}", clean(text)),
            Span::Link(label, url) => format!("{}: {}", clean(label), clean(&short(url, commands))),
            Span::Time(at) => time_of_day(*at),
            Span::User(_) | Span::Group(_) => clean(&span.text()),
        })
        .collect()
}

/// An address that fits a terminal. A form is nothing without its query: where that is too long, the command stands beside
/// the server's address.
fn short(url: &str, commands: &Commands) -> String {
    let forms = [("/graph", &commands.queries), ("/#/silences/new", &commands.silence)];
    match url.split_once('?') {
        Some((place, _)) if url.len() > ADDRESS => {
            let form = forms.into_iter().find_map(|(form, command)| Some((place.strip_suffix(form)?, command)));
            match form {
                Some((server, command)) if command.is_empty() => server.to_owned(),
                Some((server, command)) => format!("{server} ({command})"),
                None => place.to_owned(),
            }
        }
        _ => url.to_owned(),
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
