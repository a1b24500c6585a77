//! Tickets: the form of the receiver, filled in. Always English, because the reader is outside the user's organisation.

use super::sections::{section, title};
use super::{line, plain};
use crate::diagnose::Diagnosis;
use crate::playbook::{Library, Ticket};
use crate::render::{Line, Phrases};
use crate::report::Report;

/// Renders a ticket, ready to be pasted.
pub fn ticket(ticket: &Ticket, report: &Report, words: &Phrases) -> String {
    let mut out = format!("<!-- {}\n", comment(&ticket.title));
    ticket.address.iter().for_each(|address| out.push_str(&format!("File it at: {}\n", comment(address))));
    ticket.before.iter().for_each(|step| out.push_str(&format!("- {}\n", comment(step))));
    out.push_str(&format!("-->\n\n# {}\n\n", plain(&report.headline)));
    for field in &ticket.fields {
        out.push_str(&format!("## {}\n\n", field.name));
        for which in &field.holds {
            let body = section(*which, report, words);
            if body.trim().is_empty() {
                continue;
            }
            if field.holds.len() > 1 {
                out.push_str(&format!("### {}\n\n", title(*which, words)));
            }
            out.push_str(&body);
        }
        if let Some(add) = &field.add {
            let pieces = [("what", Line::of(add).into())];
            out.push_str(&format!("> {}\n\n", line(&words.line("doc-add", &pieces))));
        }
    }
    out
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
