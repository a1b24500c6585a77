//! Message ─▶ terminal. Readable without colour; the caller chooses if colour is shown.

use anstyle::{AnsiColor, Style};

use super::is_unseen;
use message::{Block, DocumentBlock, Line, Message, StateStyle, TextSpan, Tone, time_of_day};

/// Maximum characters of a URL.
const ADDRESS: usize = 160;
/// Maximum width of a screen's line.
const COLUMNS: usize = 100;
/// The indent of tables.
const INDENT: &str = "  ";
/// Maximum width that a long word may claim for its column.
const WORD: usize = 60;

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

/// Writes a text behind a mark, wrapped to a screen, with a hanging indent.
pub(super) fn hang(out: &mut String, gap: &str, mark: &str, text: &str) {
    let width = mark.chars().count();
    for (i, line) in wrap(&clean(text), COLUMNS - gap.len() - width).iter().enumerate() {
        let before = if i == 0 { mark.to_owned() } else { " ".repeat(width) };
        out.push_str(&format!("{gap}{before}{line}\n"));
    }
}

/// Writes a line behind a mark, and each remark on it behind an arrow.
pub(super) fn hang_line(out: &mut String, mark: &str, line: &Line) {
    let (text, remarks) = apart(line);
    hang(out, INDENT, mark, &text);
    remarks.iter().for_each(|remark| hang(out, INDENT, "  → ", remark));
}

/// Renders a table within a screen: long cells wrap between words, and the remarks on a row stand below it. A row with
/// a bad state has its colour. Other blocks and empty tables give nothing.
pub(super) fn table(block: &Block) -> String {
    let (heads, rows) = match block {
        Block::Document(DocumentBlock::Table { heads, rows, .. }) if !rows.is_empty() => (heads, rows),
        _ => return String::new(),
    };
    let texts: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| apart(cell).0).collect()).collect();
    let widest = |width: fn(&str) -> usize| -> Vec<usize> {
        let of = |i: usize| texts.iter().chain([heads]).filter_map(|row| row.get(i)).map(|cell| width(cell)).max();
        (0..heads.len()).filter_map(of).collect()
    };
    let words = widest(|cell| cell.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0).min(WORD));
    let mut widths = widest(|cell| cell.chars().count());
    let height = |widths: &[usize]| -> usize { texts.iter().map(|row| table_row(row, widths).len()).sum() };
    while widths.iter().map(|width| width + INDENT.len()).sum::<usize>() > COLUMNS {
        let shrinkable = (0..widths.len()).filter(|i| widths.get(*i) > words.get(*i));
        let narrower =
            shrinkable.map(|i| widths.iter().enumerate().map(move |(at, width)| width - usize::from(at == i)));
        let narrower = narrower.map(Iterator::collect::<Vec<usize>>);
        // The column whose wrapping costs the fewest lines gives way.
        let Some(best) = narrower.min_by_key(|widths| height(widths)) else { break };
        widths = best;
    }
    let styled = |style: Style, cells: &[String]| -> String {
        table_row(cells, &widths).iter().map(|line| format!("{style}{line}{style:#}\n")).collect()
    };
    let mut out = styled(Style::new().dimmed(), heads);
    for (row, cells) in rows.iter().zip(&texts) {
        let state = row.iter().flat_map(|cell| &cell.0).find_map(|span| match span {
            TextSpan::State(StateStyle::Bad, _) => Some(tone_style(Tone::Critical)),
            TextSpan::State(StateStyle::Warn, _) => Some(tone_style(Tone::Warning)),
            _ => None,
        });
        out.push_str(&styled(state.unwrap_or_default(), cells));
        row.iter().flat_map(|cell| apart(cell).1).for_each(|remark| hang(&mut out, &INDENT.repeat(3), "", &remark));
    }
    out
}

/// Returns the lines of a row with columns of these widths.
fn table_row(cells: &[String], widths: &[usize]) -> Vec<String> {
    let cells: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
    let line = |n: usize| {
        let cells = cells.iter().zip(widths);
        let cells = cells.map(|(lines, width)| format!("{INDENT}{:<width$}", lines.get(n).map_or("", String::as_str)));
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..cells.iter().map(Vec::len).max().unwrap_or(0)).map(line).collect()
}

/// Returns a line's text without the remarks in it, and these.
fn apart(line: &Line) -> (String, Vec<String>) {
    let (remarks, text): (Vec<_>, Vec<_>) = line.0.iter().partition(|span| matches!(span, TextSpan::Small(_)));
    let remarks = remarks.into_iter().filter_map(|span| match span {
        TextSpan::Small(remark) => Some(remark.text()),
        _ => None,
    });
    (clean(&text.into_iter().map(TextSpan::text).collect::<String>()), remarks.collect())
}
