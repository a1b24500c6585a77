//! Short messages for every medium: few lines, no buttons.

use message::{Block, Line, Message};

/// Maximum number of parts.
const PARTS: usize = 5;
/// Maximum number of lines of a part.
const LINES: usize = 4;
/// Maximum characters of a line.
const CHARS: usize = 250;

/// Returns the message shortened and without buttons.
pub fn short(message: &Message) -> Message {
    let lines = |lines: &[Line]| lines.iter().take(LINES).map(cut).collect::<Vec<_>>();
    let parts = message.parts.iter().filter_map(|part| match part {
        Block::Paragraph(line) | Block::Beside(line, _) => Some(Block::Paragraph(cut(line))),
        Block::Gap(line) => Some(Block::Gap(cut(line))),
        Block::Section(title, all) => Some(Block::Section(title.chars().take(CHARS).collect(), lines(all))),
        Block::Steps(title, all) => Some(Block::Steps(title.chars().take(CHARS).collect(), lines(all))),
        Block::Note(line) => Some(Block::Note(cut(line))),
        Block::Buttons(_) | Block::Document(_) => None,
    });
    let headline = message.headline.chars().take(CHARS).collect();
    Message { tone: message.tone, headline, parts: parts.take(PARTS).collect() }
}

/// Truncates a line that is too long, as plain text: cutting its markup could leave it unclosed.
fn cut(line: &Line) -> Line {
    let text = line.text();
    match text.chars().count() > CHARS {
        true => Line::default().plain(text.chars().take(CHARS).collect::<String>()),
        false => line.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slack;
    use message::Tone;

    #[test]
    fn a_short_message_has_nothing_to_press_and_fits_anywhere() {
        let line = Line::default().plain("x".repeat(10_000));
        let parts = (0..60).map(|_| Block::Section("s".into(), vec![line.clone(); 60]));
        let message = Message { tone: Tone::Critical, headline: "h".repeat(5_000), parts: parts.collect() };
        let sent = serde_json::to_string(&slack(&short(&message))).unwrap();
        assert!(sent.len() < 9_000, "{}", sent.len());
    }
}
