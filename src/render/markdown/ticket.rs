//! Tickets: the form of the receiver, filled in. Always English, because the reader is outside the user's organisation.

use super::{Wording, blocks, line, plain, text_document, titled};
use crate::Phrases;
use crate::document::SectionKey;
use crate::report_document::Medium;
use findings::Diagnosis;
use knowledge::playbook::{Library, Section, Ticket};
use message::{BlockGroup, Line};
use report::Report;

/// Renders a ticket, ready to be pasted.
pub fn ticket(ticket: &Ticket, report: &Report, words: &Phrases) -> String {
    let mut out = format!("<!-- {}\n", comment(&ticket.title));
    ticket.address.iter().for_each(|address| out.push_str(&format!("File it at: {}\n", comment(address))));
    ticket.before.iter().for_each(|step| out.push_str(&format!("- {}\n", comment(step))));
    out.push_str(&format!("-->\n\n# {}\n\n", plain(&report.headline)));
    let medium = if ticket.internal { Medium::Text } else { Medium::Ticket };
    let document = text_document(report, medium, words);
    // A ticket has no file beside it that holds the rest.
    let wording = &Wording { words, left_out: "and-others" };
    for field in &ticket.fields {
        out.push_str(&format!("## {}\n\n", field.name));
        let keys: Vec<SectionKey> = field.holds.iter().flat_map(|which| keys(*which)).copied().collect();
        let groups = keys.iter().filter_map(|key| document.group(*key));
        // The name of the field is the title of its only group.
        let shown = |group: &BlockGroup| match keys.len() {
            1 => blocks(&group.parts, 3, wording),
            _ => titled(group, 3, wording),
        };
        groups.for_each(|group| out.push_str(&shown(group)));
        if let Some(add) = &field.add {
            let pieces = [("what", Line::of(add).into())];
            out.push_str(&format!("> {}\n\n", line(&words.line("report-add", &pieces))));
        }
    }
    out
}

/// Returns the keys of a section's groups in the document.
fn keys(which: Section) -> &'static [SectionKey] {
    match which {
        Section::Summary => &[SectionKey::Head],
        Section::Chain => &[SectionKey::Why],
        Section::Evidence => &[SectionKey::Evidence, SectionKey::Not, SectionKey::Unchecked],
        Section::Fixes => &[SectionKey::Do],
        Section::Goal => &[SectionKey::Goal],
        Section::Model => &[SectionKey::Model],
        Section::Hardware => &[SectionKey::Hardware],
        Section::Metrics => &[SectionKey::Metrics],
        Section::Workload => &[SectionKey::Workload],
        Section::Tenants => &[SectionKey::Tenants],
        Section::Deployment => &[SectionKey::Deployment],
        Section::Versions => &[SectionKey::Versions],
        Section::Timeline => &[SectionKey::Timeline],
        Section::Logs => &[SectionKey::Logs],
        Section::Topology => &[SectionKey::Topology],
        Section::Alerts => &[SectionKey::Alerts, SectionKey::Rules],
        Section::Open => &[SectionKey::Open],
        Section::Parts => &[SectionKey::Parts],
        Section::Redacted => &[SectionKey::Redacted],
    }
}

/// Returns the ticket forms that match the engine and the root cause, and those in `named`.
pub fn tickets_for<'a>(
    library: &'a Library,
    report: &'a Report,
    named: &'a [String],
) -> impl Iterator<Item = &'a Ticket> {
    let found = |engine: &String| report.diagnosis.iter().flat_map(|d| &d.engines).any(|known| known.engine == *engine);
    let root = report.diagnosis.as_ref().and_then(Diagnosis::root).map(|root| root.id.as_str());
    let concerns = move |ticket: &Ticket| {
        let engine = ticket.engines.is_empty() || ticket.engines.iter().any(found);
        let cause = match root {
            _ if ticket.causes.is_empty() => true,
            Some(root) => ticket.causes.iter().any(|cause| cause == root),
            None => ticket.unknown,
        };
        engine && cause
    };
    let wanted = move |ticket: &&Ticket| named.contains(&ticket.ticket) || (!ticket.internal && concerns(ticket));
    library.tickets.values().filter(wanted)
}

/// Escapes text for an HTML comment, which it cannot end.
fn comment(text: &str) -> String {
    text.replace("--", "- -")
}
