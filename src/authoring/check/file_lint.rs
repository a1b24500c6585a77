//! The lint of one file: the place where its problems are collected.

use knowledge::playbook::{Library, Lint, Problem};

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
}
