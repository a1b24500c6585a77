//! The message of an incident, readable in 10 seconds on a phone. Details are behind "Show evidence".

use super::facts::FEW;
use super::full_diagnosis::{diagnosis_notes, explain_no_root_cause};
use super::{
    IncidentView, Phrases, buttons, foot, headline, latency, notes, own_alert, related, rollout, root_cause, screened,
    steps, symptom,
};
use findings::{Diagnosis, SymptomVerdict};
use message::{Block, Message};

/// Builds the message of an incident.
pub fn incident_message(view: &IncidentView<'_>, words: &Phrases) -> Message {
    let mut parts: Vec<Block> = own_alert::self_test(view, words).into_iter().collect();
    let mut first = Vec::new();
    match (view.diagnosis, view.because) {
        (Some(diagnosis), _) => {
            let impact = symptom::first_sentence(&diagnosis.symptom.impact);
            first.extend(symptom::lines(diagnosis, &impact, view.resolved_at.is_some(), words));
            let is_unknown = diagnosis
                .screening
                .as_ref()
                .is_some_and(|screening| screening.asked.is_none() && !screening.looked_at.is_empty());
            if is_unknown && diagnosis.symptom.playbook.is_empty() {
                first.push(words.line("alert-unknown", &[]));
            }
            first.extend(latency::parts(diagnosis, view.resolved_at.is_some(), words));
            first.extend(view.impact.and_then(|impact| symptom::meanwhile(&impact, words)));
        }
        (None, Some(_)) => first.push(words.line("looking", &[])),
        (None, None) => {
            let (title, lines) = own_alert::undiagnosed(view, words);
            parts.push(Block::Section(title, lines));
        }
    }
    first.extend(symptom::flapping(view, words));
    parts.push(Block::Section(String::new(), first));
    if let Some(diagnosis) = view.diagnosis {
        parts.extend(diagnosed(diagnosis, view, words));
    }
    parts.push(foot::alerts(view, words));
    parts.extend(notes::others(view, words).into_iter().map(Block::Note));
    parts.extend(view.maintenance.as_ref().map(|window| Block::Note(notes::maintenance(window, words))));
    parts.push(Block::Note(foot::line(view, words)));
    if view.interactive {
        parts.push(buttons::of_incident(view, words));
    }
    Message { tone: headline::tone(view), headline: headline::line(view, words), parts }
}

fn diagnosed(diagnosis: &Diagnosis, view: &IncidentView<'_>, words: &Phrases) -> Vec<Block> {
    let resolved = view.resolved_at.is_some();
    let (mut parts, mut details) = (Vec::new(), Vec::new());
    match diagnosis.root() {
        Some(root) => {
            let judged = notes::judgement(view, words);
            let changed = rollout::in_short(diagnosis, words);
            let lines = judged.into_iter().chain(root_cause::chain(diagnosis, root, words)).chain(changed).collect();
            parts.push(Block::Section(words.text("why", &[]), lines));
            details = root_cause::reservations(diagnosis, root, words);
        }
        None if diagnosis.symptom.verdict == SymptomVerdict::Confirmed => {
            parts.push(Block::Section(words.text("why", &[]), explain_no_root_cause(diagnosis, words)));
        }
        None => {}
    }
    // While the incident is open only the steps to do now; the rest is behind "Show evidence".
    match resolved {
        false => parts.extend(steps::now(diagnosis, view, words)),
        true => parts.extend(steps::lasting(diagnosis, words)),
    }
    parts.extend(related::last_time(view, words).map(Block::Paragraph));
    if !details.is_empty() {
        parts.push(Block::Section(words.text("why-sure", &[]), details));
    }
    let mut odd = diagnosis_notes(diagnosis, words);
    if !odd.is_empty() {
        odd.truncate(FEW);
        parts.push(Block::Section(words.text("while-looking", &[]), odd));
    }
    let open = related::open_here(view, words);
    if !open.is_empty() {
        parts.push(Block::Section(words.text("open-others", &[]), open));
    }
    if !resolved {
        parts.extend(screened::other_symptoms(diagnosis, words));
    }
    parts
}
