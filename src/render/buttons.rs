//! The buttons of an incident's message.

use super::notes::{is_done, step_id};
use super::{IncidentView, Phrases};
use findings::Fix;
use knowledge::incident::Act;
use message::{Block, Button, ButtonStyle};

/// Returns the buttons of an incident: urgent ones directly, the others in the menu.
pub(super) fn of_incident(view: &IncidentView<'_>, words: &Phrases) -> Block {
    let open = view.resolved_at.is_none();
    let press = |act: Act, key: &str| button(act.as_str(), words.text(key, &[]), view.id);
    // After the incident there is time for feedback, so these buttons leave the menu.
    let later = |button: Button| Button { style: if open { ButtonStyle::InMenu } else { button.style }, ..button };
    let mut buttons = Vec::new();
    if open && !view.acknowledged {
        buttons.push(Button { style: ButtonStyle::Primary, ..press(Act::Acknowledge, "button-acknowledge") });
    }
    if view.diagnosis.is_some() {
        buttons.push(press(Act::Evidence, "button-evidence"));
    }
    if open && view.can_silence {
        buttons.push(press(Act::Silence, "button-silence"));
    }
    if open {
        buttons.push(press(Act::Again, "button-again"));
    }
    if open && view.snoozed {
        buttons.push(later(press(Act::Unsnooze, "button-unsnooze")));
    }
    if open && !view.snoozed {
        buttons.push(later(press(Act::Snooze, "button-snooze")));
    }
    if open && view.can_escalate {
        let confirm = Some(words.text("button-escalate-confirm", &[]));
        let escalate = press(Act::Escalate, "button-escalate");
        buttons.push(Button { style: ButtonStyle::Danger, confirm, ..escalate });
    }
    if view.diagnosis.is_some_and(|diagnosis| diagnosis.root().is_some()) {
        buttons.push(later(press(Act::Right, "button-right")));
        buttons.push(later(press(Act::Wrong, "button-wrong")));
    }
    buttons.push(later(press(Act::Bundle, "button-bundle")));
    Block::Buttons(buttons)
}

/// Returns the button beside a step: "done", then "verify"; `None` if the step is done and has no check.
pub(super) fn of_step(view: &IncidentView<'_>, step: usize, fix: &Fix, words: &Phrases) -> Option<Button> {
    let (act, key) = match (is_done(fix, view.notes), &fix.verify) {
        (false, _) => (Act::Done, "button-done"),
        (true, Some(_)) => (Act::Verify, "button-verify"),
        (true, None) => return None,
    };
    // A button's id must be unique within a message.
    Some(button(&format!("{}:{step}", act.as_str()), words.text(key, &[]), &format!("{}/{}", view.id, step_id(fix))))
}

/// Builds a plain button.
pub fn button(action: &str, label: String, value: &str) -> Button {
    Button { action: action.to_owned(), label, value: value.to_owned(), style: ButtonStyle::Plain, confirm: None }
}
