//! The lint of one file: the place where its problems are collected.

use knowledge::playbook::{Library, Problem, SourceFile};

/// A file under check, with the library that it belongs to.
pub(super) struct Lint<'a> {
    pub(super) library: &'a Library,
    pub(super) file: &'a SourceFile,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Lint<'_> {
    /// Adds a problem at the line that contains `needle`.
    pub(super) fn say(&mut self, rule: &'static str, needle: &str, message: String, hint: Option<String>) {
        self.problems.push(Problem::at(rule, self.file, needle, message, hint));
    }
}
