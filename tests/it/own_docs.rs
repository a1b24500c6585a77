//! The examples of `docs/own`: their files are written and their commands run as they stand there.

use std::fs;
use std::path::Path;
use std::process::Command;

use authoring::check::{all, run, verifies};
use authoring::generate::{KINDS, schema};
use knowledge::playbook::load;

use crate::running::BINARY;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/own").join(name)).unwrap()
}

/// The fenced blocks of a page, each with its language.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

/// Writes the file of a block, which says its path in its first line.
fn write(block: &str, directory: &Path) {
    let path = block.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, block).unwrap();
}

fn write_all(name: &str, directory: &Path) {
    let page = page(name);
    blocks(&page)
        .filter(|(language, _)| ["yaml", "ftl"].contains(language))
        .for_each(|(_, text)| write(text, directory));
}

/// Runs a line of a page and returns what it prints, with DIR for the directory.
fn printed(line: &str, directory: &Path) -> (bool, String) {
    let dir = directory.display().to_string();
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("llm-diagnose"), "{line}");
    let arguments = words.map(|word| if word == "DIR" { dir.clone() } else { word.to_owned() });
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), said.replace(&dir, "DIR"))
}

/// Compares what a page shows with what is printed; `…` stands for anything.
fn assert_shown(command: &str, shown: &str, printed: &str) {
    let mut rest = printed;
    for part in shown.split('…').map(str::trim).filter(|part| !part.is_empty()) {
        let at = rest.find(part).unwrap_or_else(|| panic!("{command} does not print:\n{part}\nbut:\n{printed}"));
        rest = &rest[at + part.len()..];
    }
    let cut = shown.trim_end().ends_with('…');
    assert!(cut || rest.trim().is_empty(), "{command} prints more than the page shows:\n{rest}");
}

fn assert_well(directory: &Path) {
    let library = load(Some(directory)).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!((all(&library, Some(directory)), verifies(&library)), (vec![], vec![]));
    let cases = run(&library).unwrap();
    let failed: Vec<_> = cases.iter().filter(|case| case.own).flat_map(|case| &case.failures).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Follows a page from its top: files are written, commands are run.
fn assert_page_works(name: &str, others: &[&str]) {
    let own = tempfile::tempdir().unwrap();
    others.iter().for_each(|other| write_all(other, own.path()));
    let mut commands = 0;
    let page = page(name);
    for (language, block) in blocks(&page) {
        match language {
            "yaml" | "ftl" => write(block, own.path()),
            "console" => {
                for part in block.split("$ ").skip(1) {
                    let (command, shown) = part.split_once('\n').unwrap();
                    let shows_problem = shown.contains("(override/");
                    if !shows_problem {
                        assert_well(own.path());
                    }
                    let (succeeds, said) = printed(command, own.path());
                    assert_shown(command, shown, &said);
                    assert_eq!(succeeds, !shows_problem, "{command}: {said}");
                    commands += 1;
                }
            }
            _ => panic!("{name} has a block that is not tested:\n{block}"),
        }
    }
    assert!(commands >= 2, "{name} shows {commands} commands");
}

#[test]
fn the_example_of_a_signal_works_as_it_stands_in_the_docs() {
    assert_page_works("signal.md", &[]);
}

#[test]
fn the_example_of_a_cause_and_a_playbook_works_as_it_stands_in_the_docs() {
    assert_page_works("cause.md", &["signal.md"]);
}

#[test]
fn the_example_of_a_change_works_as_it_stands_in_the_docs() {
    assert_page_works("change.md", &[]);
}

#[test]
fn the_examples_work_in_one_directory() {
    let own = tempfile::tempdir().unwrap();
    ["signal.md", "cause.md", "change.md"].iter().for_each(|name| write_all(name, own.path()));
    // The mistake that the last page shows.
    fs::remove_file(own.path().join("overrides/slot-limit.yaml")).unwrap();
    assert_well(own.path());
}

#[test]
fn every_kind_of_file_has_a_schema_that_knows_its_keys() {
    for kind in KINDS {
        let schema = schema(Some(kind.name));
        let text = schema.to_string();
        let references = text.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next());
        let unknown: Vec<&str> = references.filter(|name| schema["$defs"].get(*name).is_none()).collect();
        assert!(unknown.is_empty(), "{kind:?}: {unknown:?}");
        assert_eq!(schema["anyOf"].as_array().map(Vec::len), Some(1), "{kind:?}");
    }
}
