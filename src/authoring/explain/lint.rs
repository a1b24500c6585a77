//! The description of one lint, for `explain`, and the page with all of them, for `generate lints`.

use std::collections::BTreeMap;

use knowledge::playbook::{Lint, LintEntry, Problem, lint_entries};

/// Returns the page of the lints.
///
/// # Errors
/// The first file of descriptions that cannot be parsed.
pub fn lints() -> Result<String, Box<Problem>> {
    let section = |(lint, entry): (&Lint, &LintEntry)| {
        let untested = entry.untested.as_ref().map(|why| format!("\nNo test tries this example. {why}\n"));
        format!("\n## {lint}\n\n{}{}", description(entry), untested.unwrap_or_default())
    };
    Ok(lint_entries()?.iter().fold(include_str!("lints_intro.md").to_owned(), |page, entry| page + &section(entry)))
}

/// Returns the description of a lint with its name.
pub(super) fn named(lint: Lint) -> Result<String, String> {
    let entries = lint_entries().map_err(|problem| problem.to_string())?;
    let entry = entries.get(&lint).ok_or_else(|| format!("`{lint}` has no description"))?;
    let bold = anstyle::Style::new().bold();
    Ok(format!("{bold}{lint}{bold:#}\n\n{}", description(entry)))
}

fn description(LintEntry { finds, mend, bad, good, untested: _ }: &LintEntry) -> String {
    format!("{finds}\n\n{}\n{mend}\n\n{}", blocks(bad), blocks(good))
}

/// Returns each file as a block of code, with its path in the first line.
fn blocks(files: &BTreeMap<String, String>) -> String {
    let block = |(path, text): (&String, &String)| {
        let language = path.rsplit('.').next().unwrap_or_default();
        format!("```{language}\n# {path}\n{text}```\n")
    };
    files.iter().map(block).collect()
}
