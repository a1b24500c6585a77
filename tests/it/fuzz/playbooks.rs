//! Files of playbooks: a mutated one is a playbook, or a problem that points at its place.

use knowledge::playbook::{LogFile, Playbook, Redaction, SourceFile, parse, shipped};
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::mutation::mutated_text;
use super::of_costly;

const TOKENS: &[&str] = &[
    "\n",
    "  ",
    "\t",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "#",
    "---\n",
    "...\n",
    "%YAML 9.9\n",
    "? ",
    "\u{feff}",
    "\u{2028}",
    "\0",
    "null",
    "~",
    "1e999",
    ".nan",
    "0o9",
    "yes",
    "schema: 2\n",
];

/// The shipped files whose path, as a user names it, satisfies a condition.
fn files(is_one: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let files: Vec<_> = shipped().into_values().filter(|file| is_one(&file.path)).map(|file| file.text).collect();
    assert!(!files.is_empty());
    files.into_iter().map(|text| text.into_owned().into_bytes()).collect()
}

fn point_at_their_place<T: DeserializeOwned>(corpus: Vec<Vec<u8>>, times: u32) {
    of_costly(times, mutated_text(corpus, TOKENS), |text| {
        let file = SourceFile::new("a/b.yaml".to_owned(), text);
        let Err(problem) = parse::<T>(&file) else { return Ok(()) };
        let lines = file.text.split(['\n', '\r']).count();
        prop_assert!((1..=lines + 1).contains(&problem.line), "line {} of {}: {}", problem.line, lines, problem);
        prop_assert!(!problem.message.trim().is_empty() && problem.message.chars().count() <= 400, "{:?}", problem);
        let shown = problem.to_string();
        let first = shown.lines().next().unwrap_or_default();
        prop_assert!(first.starts_with(&format!("a/b.yaml:{}: ", problem.line)), "{}", shown);
        prop_assert!(shown.len() < 8_000, "{}", shown.len());
        Ok(())
    });
}

#[test]
fn a_mutated_playbook_is_one_or_a_problem_that_points_at_its_place() {
    let is_playbook = |path: &str| {
        let folders = ["playbooks/symptoms/", "playbooks/mechanisms/"];
        folders.iter().any(|folder| path.starts_with(folder)) && !path.ends_with(".test.yaml")
    };
    point_at_their_place::<Playbook>(files(is_playbook), 4);
}

#[test]
fn a_mutated_file_of_log_lines_is_one_or_a_problem_that_points_at_its_place() {
    point_at_their_place::<LogFile>(files(|path| path.starts_with("playbooks/logs/")), 10);
}

#[test]
fn mutated_rules_of_redaction_are_rules_or_a_problem_that_points_at_its_place() {
    point_at_their_place::<Redaction>(files(|path| path == "playbooks/redaction.yaml"), 10);
}
