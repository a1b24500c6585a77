//! User actions on an incident, as its message shows them.

use super::{IncidentView, Phrases};
use findings::Fix;
use knowledge::clip::clip;
use knowledge::incident::MaintenanceWindow;
use knowledge::incident::{Act, Note};
use message::{Line, TextSpan};

/// Maximum number of notes shown.
const NOTES: usize = 3;
/// Maximum characters of a step in its note.
const STEP_CHARS: usize = 160;

/// Returns the last user judgement of the cause; shown beside the cause.
pub(super) fn judgement(view: &IncidentView<'_>, words: &Phrases) -> Option<Line> {
    judged(view).and_then(|judged| note(judged, words))
}

fn judged<'a>(view: &IncidentView<'a>) -> Option<&'a Note> {
    view.diagnosis?.root()?;
    view.notes.iter().rfind(|note| matches!(note.act, Act::Right | Act::Wrong))
}

/// Returns the last few other notes; the last acknowledgement is always among them.
pub(super) fn others(view: &IncidentView<'_>, words: &Phrases) -> Vec<Line> {
    let judged = judged(view);
    let shown = view.notes.iter().filter(|note| key(note).is_some());
    let notes: Vec<&Note> = shown.filter(|note| judged.is_none_or(|judged| !std::ptr::eq(*note, judged))).collect();
    let taken = notes.iter().rposition(|note| note.act == Act::Acknowledge);
    let late = notes.len().saturating_sub(NOTES);
    let shown = taken.filter(|at| *at < late).into_iter().chain(late..notes.len());
    shown.filter_map(|at| note(notes.get(at)?, words)).collect()
}

/// Says that a maintenance window keeps the incident quiet.
pub(super) fn maintenance(window: &MaintenanceWindow, words: &Phrases) -> Line {
    let line = words.line("maintenance-note", &[("until", TextSpan::Time(window.until).into())]);
    match window.reason.as_str() {
        "" => line,
        reason => words.line("note-detail", &[("note", line.into()), ("detail", clip(reason, 200).into())]),
    }
}

/// Returns the text of a step as its note shows it.
pub fn step_text(fix: &Fix) -> String {
    clip(fix.action.replace('\n', " ").trim(), STEP_CHARS)
}

/// Returns the id of a step in its buttons: a short hash of its text, because a new diagnosis may number its steps
/// differently.
pub fn step_id(fix: &Fix) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, step_text(fix).as_bytes());
    digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if a user did this step; compares its text, because a new diagnosis may number its steps differently.
pub fn is_done(fix: &Fix, notes: &[Note]) -> bool {
    let text = step_text(fix);
    notes.iter().any(|note| note.act == Act::Done && note.detail == text)
}

/// Returns the phrase of a note; `None` for actions that only show data or create a bundle.
fn key(note: &Note) -> Option<&'static str> {
    Some(match note.act {
        Act::Acknowledge => "note-acknowledge",
        Act::Snooze => "note-snooze",
        Act::Unsnooze => "note-unsnooze",
        Act::Again => "note-again",
        Act::Note => "note-note",
        Act::Right => "note-right",
        Act::Wrong => "note-wrong",
        Act::Silence => "note-silence",
        Act::Expire => "note-expire",
        Act::Escalate => "note-escalate",
        Act::Done => "note-done",
        Act::Verify if note.who.is_empty() => "note-verify-alone",
        Act::Verify => "note-verify",
        Act::Evidence | Act::Digest => return None,
        Act::Bundle => return None,
    })
}

/// Renders a note: user, action and time; `None` for actions that only show data or create a bundle.
pub fn note(note: &Note, words: &Phrases) -> Option<Line> {
    let key = key(note)?;
    let mut pieces = vec![("at", TextSpan::Time(note.at).into())];
    if key != "note-verify-alone" {
        pieces.push(("who", TextSpan::User(note.who.clone()).into()));
    }
    let line = words.line(key, &pieces);
    Some(match note.detail.trim() {
        "" => line,
        detail => words.line("note-detail", &[("note", line.into()), ("detail", clip(detail, 200).into())]),
    })
}
