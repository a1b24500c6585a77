//! Lints of the ticket forms: engines and causes exist, every field has content, every form has a source.

use std::collections::BTreeSet;

use super::file_lint::FileLint;
use knowledge::playbook::{Library, Lint, Problem, suggestion};

pub(super) fn tickets(library: &Library, problems: &mut Vec<Problem>) {
    let own = library.playbooks.values().flat_map(|playbook| &playbook.causes).filter_map(|cause| cause.id.as_ref());
    let causes: BTreeSet<&str> =
        library.playbooks.keys().chain(library.causes.keys()).chain(own).map(String::as_str).collect();
    for ticket in library.tickets.values() {
        let path = format!("tickets/{}.yaml", ticket.ticket);
        let mut lint = FileLint { library, path: &path, problems };
        for engine in &ticket.engines {
            lint.known(Lint::TicketEngine, engine, ("engine", engine), &library.engines);
        }
        for cause in ticket.causes.iter().filter(|cause| !causes.contains(cause.as_str())) {
            let hint = suggestion(cause, causes.iter().copied());
            lint.say(Lint::TicketCause, cause, format!("there is no cause `{cause}`"), hint);
        }
        let mut names = BTreeSet::new();
        for field in &ticket.fields {
            let name = field.name.as_str();
            if field.holds.is_empty() && field.add.is_none() {
                lint.say(Lint::TicketEmpty, name, format!("the field `{name}` is empty"), None);
            }
            if !names.insert(name) {
                lint.say(Lint::TicketTwice, name, format!("the field `{name}` is listed twice"), None);
            }
        }
        for source in ticket.source.iter().chain(&ticket.address).filter(|source| !source.starts_with("https://")) {
            lint.say(Lint::TicketSource, source, format!("`{source}` is no https address"), None);
        }
        if ticket.source.is_empty() {
            lint.say(
                Lint::TicketSource,
                "source",
                format!("`{}` does not say where its form was read", ticket.ticket),
                None,
            );
        }
    }
}
