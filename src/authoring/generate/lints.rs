//! `generate lints`: the page with the description of every lint.

use knowledge::playbook::{LintEntry, Problem, lint_entries};

use crate::explain::lint_description;

/// Returns the page of the lints.
///
/// # Errors
/// The first file of descriptions that cannot be parsed.
pub fn lints() -> Result<String, Box<Problem>> {
    let mut out = include_str!("lints_intro.md").to_owned();
    for (lint, entry) in lint_entries()? {
        out.push_str(&format!("\n## {lint}\n\n{}", lint_description(&entry)));
        if let LintEntry { untested: Some(why), .. } = &entry {
            out.push_str(&format!("\nNo test tries this example. {why}\n"));
        }
    }
    Ok(out)
}
