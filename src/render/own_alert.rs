//! The section of an alert of our own, and the section of an incident without a diagnosis.

use super::{IncidentView, Phrases};
use knowledge::alert::OwnAlert;
use message::{Block, Line};

/// Returns the section that marks a self test; `None` for every other incident.
pub(super) fn self_test(view: &IncidentView<'_>, words: &Phrases) -> Option<Block> {
    let is_test = OwnAlert::of(view.alerts) == Some(OwnAlert::SelfTest);
    is_test.then(|| Block::Section(words.text("self-test", &[]), vec![words.line("self-test-means", &[])]))
}

/// Returns the title and the lines of the section that replaces a diagnosis.
pub(super) fn undiagnosed(view: &IncidentView<'_>, words: &Phrases) -> (String, Vec<Line>) {
    match (OwnAlert::of(view.alerts), view.resolved_at) {
        (None | Some(OwnAlert::SelfTest), _) => {
            (words.text("no-playbook", &[]), vec![words.line("no-playbook-why", &[])])
        }
        (Some(OwnAlert::AlertmanagerSilent), Some(_)) => {
            (words.text("silent-over", &[]), vec![words.line("silent-over-means", &[])])
        }
        (Some(OwnAlert::AlertmanagerSilent), None) => {
            let lines = ["silent-means", "silent-runs", "silent-route", "silent-rule"];
            (words.text("silent", &[]), lines.iter().map(|key| words.line(key, &[])).collect())
        }
    }
}
