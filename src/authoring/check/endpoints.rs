//! Lints of the paths that are requested from engines: no path with side effects, no entry that cannot be read.

use std::collections::BTreeSet;

use knowledge::playbook::{Library, Lint, Problem};
use knowledge::signal::endpoint::forbidden;

pub(super) fn endpoints(library: &Library, problems: &mut Vec<Problem>) {
    for engine in library.engines.values() {
        let Some(file) = library.files.get(&format!("signals/{}.yaml", engine.engine)) else { continue };
        let mut say = |lint, needle: &str, message: String, hint: Option<&str>| {
            problems.push(Problem::at(lint, file, needle, message, hint.map(str::to_owned)));
        };
        let mut paths = BTreeSet::new();
        for endpoint in &engine.endpoints {
            for path in endpoint.paths() {
                if let Some(why) = forbidden(&engine.engine, path) {
                    let hint = "only what is known to change nothing and to cost nothing may stand here";
                    say(Lint::EndpointForbidden, path, format!("may not be asked: {why}"), Some(hint));
                }
                if !paths.insert((endpoint.port, path)) {
                    say(Lint::EndpointTwice, path, format!("`{path}` is listed twice"), None);
                }
            }
            if endpoint.meaning.trim().is_empty() {
                let message = format!("`{}` does not say what it reports", endpoint.path);
                say(Lint::EndpointMeaning, &endpoint.path, message, Some("write a clause as its `meaning`"));
            }
            let wrong = |pointer: &&str| !pointer.is_empty() && !pointer.starts_with('/');
            if let Some(pointer) = endpoint.tells.pointers().find(wrong) {
                let message = format!("`{pointer}` is no JSON pointer");
                say(
                    Lint::EndpointPointer,
                    pointer,
                    message,
                    Some("write it like /data/*/id; \"\" is the whole answer"),
                );
            }
        }
    }
}
