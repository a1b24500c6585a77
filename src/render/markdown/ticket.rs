//! Tickets: the form of the receiver, filled in. Always English, because the reader is outside the user's organisation.

use super::{blocks, line, plain, titled, written};
use crate::{Line, PartGroup, Phrases};
use diagnose::Diagnosis;
use knowledge::playbook::{Library, Section, Ticket};
use report::Report;

/// Renders a ticket, ready to be pasted.
pub fn ticket(ticket: &Ticket, report: &Report, words: &Phrases) -> String {
    let mut out = format!("<!-- {}\n", comment(&ticket.title));
    ticket.address.iter().for_each(|address| out.push_str(&format!("File it at: {}\n", comment(address))));
    ticket.before.iter().for_each(|step| out.push_str(&format!("- {}\n", comment(step))));
    out.push_str(&format!("-->\n\n# {}\n\n", plain(&report.headline)));
    let document = written(report, words);
    for field in &ticket.fields {
        out.push_str(&format!("## {}\n\n", field.name));
        let groups: Vec<&PartGroup> =
            field.holds.iter().flat_map(|which| keys(*which)).filter_map(|key| document.group(key)).collect();
        for group in &groups {
            out.push_str(&match groups.len() {
                1 => blocks(&group.parts, 3, words),
                _ => titled(group, 3, words),
            });
        }
        if let Some(add) = &field.add {
            let pieces = [("what", Line::of(add).into())];
            out.push_str(&format!("> {}\n\n", line(&words.line("report-add", &pieces))));
        }
    }
    out
}

/// Returns the keys of a section's groups in the document.
fn keys(which: Section) -> &'static [&'static str] {
    match which {
        Section::Summary => &["head"],
        Section::Chain => &["why"],
        Section::Evidence => &["evidence", "not", "unchecked"],
        Section::Fixes => &["do"],
        Section::Goal => &["goal"],
        Section::Model => &["model"],
        Section::Hardware => &["hardware"],
        Section::Metrics => &["metrics"],
        Section::Workload => &["workload"],
        Section::Deployment => &["deployment"],
        Section::Versions => &["versions"],
        Section::Timeline => &["timeline"],
        Section::Logs => &["logs"],
        Section::Topology => &["topology"],
        Section::Alerts => &["alerts", "rules"],
        Section::Open => &["open"],
        Section::Parts => &["parts"],
        Section::Redacted => &["redacted"],
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
    library.tickets.values().filter(move |ticket| named.contains(&ticket.ticket) || concerns(ticket))
}

/// Escapes text for an HTML comment, which it cannot end.
fn comment(text: &str) -> String {
    text.replace("--", "- -")
}
