//! Redaction of a text that arrives in chunks.

use super::Redactor;

/// Bytes that are searched together.
const BLOCK: usize = 1 << 20;
/// Bytes of whole lines that are held back, because a secret may begin there and end in the next chunk; a private key
/// of 4,096 bits has 3,300.
const KEPT: usize = 64 << 10;
/// Maximum length of a line in bytes; a longer line is treated as binary data and left out.
const LONGEST: usize = 8 << 20;

/// A streaming redactor for a text of any length in bounded memory. It cuts at ends of lines that are not inside a
/// secret.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    place: String,
    held: String,
    /// True while the rest of a line that is too long is skipped.
    skipping: bool,
}

impl Redactor {
    /// Returns a streaming redactor for a text in chunks, which may end anywhere.
    pub fn lines(&self, place: &str) -> StreamRedactor {
        StreamRedactor { redactor: self.clone(), place: place.to_owned(), held: String::new(), skipping: false }
    }
}

impl StreamRedactor {
    /// Takes the next chunk and returns the text that is ready to be written, often none.
    pub fn push(&mut self, mut piece: &str) -> String {
        if self.skipping {
            let Some(end) = piece.find('\n') else { return String::new() };
            piece = &piece[end..];
            self.skipping = false;
        }
        self.held.push_str(piece);
        if self.held.len() < BLOCK + KEPT {
            return String::new();
        }
        let spans = self.redactor.rules.spans(&self.held);
        let mut until = self.held.len() - KEPT;
        // The last end of a line before `until` that is not inside a secret.
        let cut = loop {
            while !self.held.is_char_boundary(until) {
                until -= 1;
            }
            let Some(end) = self.held[..until].rfind('\n').map(|at| at + 1) else { break None };
            let at = spans.partition_point(|span| span.at.end <= end);
            match spans.get(at).filter(|span| span.at.start < end) {
                Some(span) => until = span.at.start,
                None => break Some(end),
            }
        };
        match cut {
            Some(cut) if cut > 0 => {
                let rest = self.held.split_off(cut);
                let ready = std::mem::replace(&mut self.held, rest);
                self.redactor.text(&self.place, &ready).into_owned()
            }
            _ if self.held.len() > LONGEST => {
                let whole = std::mem::take(&mut self.held);
                self.skipping = !whole.ends_with('\n');
                let line = whole.rfind('\n').map_or(0, |at| at + 1);
                let shown = self.redactor.text(&self.place, &whole[..line]).into_owned();
                format!("{shown}(a line of more than {} MiB is left out)", LONGEST >> 20)
            }
            _ => String::new(),
        }
    }

    /// Returns the redacted rest of the text.
    pub fn finish(self) -> String {
        self.redactor.text(&self.place, &self.held).into_owned()
    }
}
