//! Short messages for every medium: few lines, no buttons, no pictures.

use super::{Line, Message, MessagePart};

/// Maximum number of parts.
const PARTS: usize = 5;
/// Maximum number of lines of a part.
const LINES: usize = 4;
/// Maximum characters of a line.
const CHARS: usize = 250;

/// Returns the message shortened and without buttons and pictures.
pub fn short(message: &Message) -> Message {
    let lines = |lines: &[Line]| lines.iter().take(LINES).map(cut).collect::<Vec<_>>();
    let parts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Paragraph(line) | MessagePart::Beside(line, _) => Some(MessagePart::Paragraph(cut(line))),
        MessagePart::Gap(line) => Some(MessagePart::Gap(cut(line))),
        MessagePart::Section(title, said) => {
            Some(MessagePart::Section(title.chars().take(CHARS).collect(), lines(said)))
        }
        MessagePart::Steps(title, said) => Some(MessagePart::Steps(title.chars().take(CHARS).collect(), lines(said))),
        MessagePart::Note(line) => Some(MessagePart::Note(cut(line))),
        MessagePart::Buttons(_) | MessagePart::Picture { .. } | MessagePart::Block(_) => None,
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
    use crate::{Tone, slack};

    #[test]
    fn a_short_message_has_nothing_to_press_and_fits_anywhere() {
        let line = Line::default().plain("x".repeat(10_000));
        let picture = MessagePart::Picture { file: "F1".into(), alt: "a".into() };
        let parts =
            std::iter::once(picture).chain((0..60).map(|_| MessagePart::Section("s".into(), vec![line.clone(); 60])));
        let message = Message { tone: Tone::Critical, headline: "h".repeat(5_000), parts: parts.collect() };
        let said = serde_json::to_string(&slack(&short(&message))).unwrap();
        assert!(said.len() < 9_000 && !said.contains("image"), "{}", said.len());
    }
}
