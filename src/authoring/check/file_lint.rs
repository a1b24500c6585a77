//! The lint of one file: the place where its problems are collected.

use std::collections::BTreeMap;

use knowledge::playbook::{Library, Lint, Problem, suggestion};

/// A file under check, with the library that it belongs to.
pub(super) struct FileLint<'a> {
    pub(super) library: &'a Library,
    /// The path of the file, as in [`Library::files`].
    pub(super) path: &'a str,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl FileLint<'_> {
    /// Adds a problem at the line that contains `needle`, in the file or in the user's one that changes it.
    pub(super) fn say(&mut self, lint: Lint, needle: &str, message: String, hint: Option<String>) {
        let file = self.library.file_naming(self.path, needle);
        self.problems.extend(file.map(|file| Problem::at(lint, file, needle, message, hint)));
    }

    /// Checks that a name is a key of the map.
    pub(super) fn known<T>(&mut self, lint: Lint, needle: &str, (what, name): (&str, &str), all: &BTreeMap<String, T>) {
        if !all.contains_key(name) {
            let hint = suggestion(name, all.keys().map(String::as_str));
            self.say(lint, needle, format!("unknown {what} `{name}`"), hint);
        }
    }
}
