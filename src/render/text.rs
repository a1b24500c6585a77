//! Message ─▶ terminal. Readable without colour; the caller chooses if colour is shown.

use anstyle::{AnsiColor, Style};

use super::is_unseen;
use message::{Block, Line, Message, TextSpan, Tone, time_of_day};

/// Maximum characters of a URL.
const ADDRESS: usize = 160;

/// The commands shown beside links that are too long for a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands {
    /// The command that prints the queries of the graph; empty if there is none.
    pub queries: String,
    /// The command that creates the silence of the form; empty if there is none.
    pub silence: String,
}

impl Commands {
    /// Returns the commands for an incident in the store.
    pub fn of_incident(id: &str) -> Self {
        Self {
            queries: format!("llm-diagnose explain --queries {id}"),
            silence: format!("llm-diagnose silence create {id}"),
        }
    }
}

/// Renders a message as terminal text with ANSI styles; `anstream` strips them where they are not supported.
pub fn terminal(message: &Message) -> String {
    terminal_with(message, &Commands::default())
}

/// Renders as [`terminal`] does; links that are too long are shortened and get their command.
pub fn terminal_with(message: &Message, commands: &Commands) -> String {
    let spans = |line: &Line| spans(line, commands);
    let tone = tone_style(message.tone);
    let mut out = format!("{tone}▌ {}{tone:#}\n", clean(&message.headline));
    for part in &message.parts {
        match part {
            Block::Paragraph(line) | Block::Gap(line) | Block::Beside(line, _) => {
                out.push_str(&format!("\n{}\n", spans(line)))
            }
            Block::Section(title, lines) => {
                out.push_str(&heading(title));
                let indent = if title.is_empty() { "" } else { "  " };
                lines.iter().for_each(|line| out.push_str(&format!("{indent}{}\n", spans(line))));
            }
            Block::Steps(title, lines) => {
                out.push_str(&heading(title));
                for (i, line) in lines.iter().enumerate() {
                    out.push_str(&format!("  {}. {}\n", i + 1, spans(line)));
                }
            }
            Block::Note(line) => {
                let dim = Style::new().dimmed();
                out.push_str(&format!("\n{dim}{}{dim:#}\n", spans(line)));
            }
            // A terminal shows no buttons and blocks of documents.
            Block::Buttons(_) | Block::Document(_) => {}
        }
    }
    out
}

/// Returns the style of a first line.
pub fn tone_style(tone: Tone) -> Style {
    let colour = match tone {
        Tone::Critical => AnsiColor::Red,
        Tone::Warning => AnsiColor::Yellow,
        Tone::Good => AnsiColor::Green,
        Tone::Firing | Tone::Unknown => AnsiColor::BrightBlack,
    };
    Style::new().bold().fg_color(Some(colour.into()))
}

fn heading(title: &str) -> String {
    if title.is_empty() {
        return "\n".to_owned();
    }
    let bold = Style::new().bold();
    format!("\n{bold}{}{bold:#}\n", clean(title))
}

fn spans(line: &Line, commands: &Commands) -> String {
    let (bold, code) = (Style::new().bold(), Style::new().fg_color(Some(AnsiColor::Cyan.into())));
    line.0
        .iter()
        .map(|span| match span {
            TextSpan::Plain(text) => clean(text),
            TextSpan::Bold(text) => format!("{bold}{}{bold:#}", clean(text)),
            TextSpan::Code(text) => format!("{code}`{}`{code:#}", clean(text)),
            TextSpan::Link(label, url) => format!("{}: {}", clean(label), clean(&short(url, commands))),
            TextSpan::Time(at) => time_of_day(*at),
            TextSpan::User(_) | TextSpan::Group(_) => clean(&span.text()),
            TextSpan::Moment(_) | TextSpan::State(..) | TextSpan::Small(_) => clean(&span.text()),
        })
        .collect()
}

/// Shortens a URL for a terminal. A form is useless without its query: if that is too long, the command stands beside
/// the server's URL.
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

/// Replaces characters that could move the cursor, break lines, change colours or turn the text direction by spaces.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Wraps a text into lines of at most `width` characters, between words; a longer word gets its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
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
