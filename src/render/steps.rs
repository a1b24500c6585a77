//! The steps of a diagnosis in a message: those to do now, and those that prevent a recurrence.

use super::facts::bullet;
use super::full_diagnosis::step;
use super::{IncidentView, Phrases, buttons, notes, restart};
use findings::{Diagnosis, Fix};
use message::{Block, Line};

/// Maximum number of fix steps shown.
const STEPS: usize = 3;
/// Maximum number of preventive steps shown.
const LASTING: usize = 2;

/// Renders the steps to do now: with a button beside each if clicks are received, else with the check that verifies it.
pub(super) fn now(diagnosis: &Diagnosis, view: &IncidentView<'_>, words: &Phrases) -> Vec<Block> {
    let now = &diagnosis.fix.now;
    let title = match now.len() {
        0 => return Vec::new(),
        n if n > STEPS => words.text("do-now-some", &[("shown", STEPS.into()), ("n", n.into())]),
        _ => words.text("do-now", &[]),
    };
    let shown = now.iter().take(STEPS);
    if !view.interactive {
        let brief = |fix: &Fix| step(&Fix { source: None, ..fix.clone() }, words);
        return vec![Block::Steps(title, shown.map(brief).collect())];
    }
    let one = |(i, fix): (usize, &Fix)| {
        let mark = if notes::is_done(fix, view.notes) { "✓ " } else { "" };
        let line = Line::default().plain(format!("{}. {mark}", i + 1)).then(Line::of(&fix.action.replace('\n', " ")));
        let step = match buttons::of_step(view, i, fix, words) {
            Some(button) => Block::Beside(line, button),
            None => Block::Paragraph(line),
        };
        std::iter::once(step).chain(restart::cost(fix, words).map(Block::Note))
    };
    std::iter::once(Block::Section(title, Vec::new())).chain(shown.enumerate().flat_map(one)).collect()
}

/// Renders the steps that prevent a recurrence.
pub(super) fn lasting(diagnosis: &Diagnosis, words: &Phrases) -> Option<Block> {
    let steps = diagnosis.fix.lasting.iter().take(LASTING);
    let steps: Vec<Line> = steps.map(|fix| bullet(Line::of(&fix.action.replace('\n', " ")))).collect();
    (!steps.is_empty()).then(|| Block::Section(words.text("lasting", &[]), steps))
}
