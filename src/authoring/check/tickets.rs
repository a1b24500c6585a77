//! Lints of the ticket forms: engines and causes exist, every field has content, every form has a source.

use std::collections::BTreeSet;

use knowledge::playbook::{Library, Lint, Problem, suggestion};

pub(super) fn tickets(library: &Library, problems: &mut Vec<Problem>) {
    let own = library.playbooks.values().flat_map(|playbook| &playbook.causes).filter_map(|cause| cause.id.as_ref());
    let causes: BTreeSet<&str> =
        library.playbooks.keys().chain(library.causes.keys()).chain(own).map(String::as_str).collect();
    for ticket in library.tickets.values() {
        let Some(file) = library.files.get(&format!("tickets/{}.yaml", ticket.ticket)) else { continue };
        let mut say = |lint, at: &str, message: String, hint| problems.push(Problem::at(lint, file, at, message, hint));
        for engine in ticket.engines.iter().filter(|engine| !library.engines.contains_key(*engine)) {
            let hint = suggestion(engine, library.engines.keys().map(String::as_str));
            say(Lint::TicketEngine, engine, format!("there is no engine `{engine}`"), hint);
        }
        for cause in ticket.causes.iter().filter(|cause| !causes.contains(cause.as_str())) {
            let hint = suggestion(cause, causes.iter().copied());
            say(Lint::TicketCause, cause, format!("there is no cause `{cause}`"), hint);
        }
        let mut names = BTreeSet::new();
        for field in &ticket.fields {
            let name = field.name.as_str();
            if field.holds.is_empty() && field.add.is_none() {
                say(Lint::TicketEmpty, name, format!("the field `{name}` is empty"), None);
            }
            if !names.insert(name) {
                say(Lint::TicketTwice, name, format!("the field `{name}` is listed twice"), None);
            }
        }
        for source in ticket.source.iter().chain(&ticket.address).filter(|source| !source.starts_with("https://")) {
            say(Lint::TicketSource, source, format!("`{source}` is no https address"), None);
        }
        if ticket.source.is_empty() {
            say(
                Lint::TicketSource,
                "source",
                format!("`{}` does not say where its form was read", ticket.ticket),
                None,
            );
        }
    }
}
