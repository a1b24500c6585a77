//! The note that a part of the data is missing; it stands before everything else that a diagnosis says.

use super::Phrases;
use findings::Diagnosis;
use knowledge::gap::store_named;
use message::Line;

/// Returns the note with the server's words, and what to look at first; nothing if all data were read.
pub(super) fn note(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Line> {
    let Some(said) = diagnosis.incomplete.as_deref() else { return Vec::new() };
    let look = match store_named(said) {
        Some(store) => words.line("part-missing-store", &[("store", Line::default().code(store).into())]),
        None => words.line("part-missing-stores", &[]),
    };
    vec![words.line("part-missing", &[("said", said.into())]), look]
}
