//! What can be pressed below an incident.

use super::message::STEPS;
use super::{Act, Button, ButtonLook, IncidentView, Part, Words};

/// The rows of buttons of an incident.
pub(super) fn of_incident(view: &IncidentView<'_>, words: &Words) -> Vec<Part> {
    let open = view.resolved_at.is_none();
    let press = |act: Act, key: &str| button(act.as_str(), words.text(key, &[]), view.id);
    let mut first = Vec::new();
    if open && !view.acknowledged {
        first.push(Button { look: ButtonLook::Primary, ..press(Act::Acknowledge, "button-acknowledge") });
    }
    if open {
        first.push(press(Act::Again, "button-again"));
    }
    if view.diagnosis.is_some() {
        first.push(press(Act::Evidence, "button-evidence"));
    }
    if open {
        first.push(press(Act::Silence, "button-silence"));
        let confirm = Some(words.text("button-escalate-confirm", &[]));
        let escalate = press(Act::Escalate, "button-escalate");
        first.push(Button { look: ButtonLook::Danger, confirm, ..escalate });
    }
    first.push(press(Act::Bundle, "button-bundle"));
    let mut second = Vec::new();
    if let Some(diagnosis) = view.diagnosis {
        if diagnosis.root().is_some() {
            second.push(press(Act::Right, "button-right"));
            second.push(press(Act::Wrong, "button-wrong"));
        }
        let steps = diagnosis.fix.now.iter().enumerate().take(STEPS).filter(|(_, fix)| open && fix.verify.is_some());
        second.extend(steps.map(|(i, _)| {
            let label = words.text("button-verify", &[("n", (i + 1).into())]);
            // Within a message a button's id stands once.
            button(&format!("{}:{i}", Act::Verify.as_str()), label, &format!("{}/{i}", view.id))
        }));
    }
    [first, second].into_iter().filter(|row| !row.is_empty()).map(Part::Buttons).collect()
}

/// A plain one.
pub(super) fn button(action: &str, label: String, value: &str) -> Button {
    Button { action: action.to_owned(), label, value: value.to_owned(), look: ButtonLook::Plain, confirm: None }
}
