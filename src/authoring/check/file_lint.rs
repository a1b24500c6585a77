//! The lint of one file: the place where its problems are collected.

use knowledge::playbook::{Library, Problem};

/// A file under check, with the library that it belongs to.
pub(super) struct Lint<'a> {
    pub(super) library: &'a Library,
    /// The path of the file, as in [`Library::files`].
    pub(super) path: &'a str,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Lint<'_> {
    /// Adds a problem at the line that contains `needle`, in the file or in the user's one that changes it.
    pub(super) fn say(&mut self, rule: &'static str, needle: &str, message: String, hint: Option<String>) {
        let file = self.library.file_naming(self.path, needle);
        self.problems.extend(file.map(|file| Problem::at(rule, file, needle, message, hint)));
    }
}
