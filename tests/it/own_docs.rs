//! The examples of `docs/own`: their files are written and their commands run as they stand there.

use std::fs;
use std::path::Path;
use std::process::Command;

use llm_diagnose::check::{lint, phrases, run, verifies};
use llm_diagnose::generate::{KINDS, schema};
use llm_diagnose::playbook::load;
use tempfile::TempDir;

use crate::running::BINARY;

/// The fenced blocks of a page in one of these languages.
fn blocks<'a>(page: &'a str, languages: &[&str]) -> Vec<&'a str> {
    let of = |block: &'a str| block.split_once('\n').filter(|(language, _)| languages.contains(language));
    page.split("```").skip(1).step_by(2).filter_map(of).map(|(_, text)| text).collect()
}

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/own").join(name)).unwrap()
}

/// A directory with the files of some pages; each says its path in its first line.
fn directory(pages: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for page in pages.iter().map(|name| self::page(name)) {
        for block in blocks(&page, &["yaml", "ftl"]) {
            let path = block.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, block).unwrap();
        }
    }
    directory
}

/// Runs a line of a page and returns what it prints, with DIR for the directory.
fn printed(line: &str, directory: &Path) -> String {
    let dir = directory.display().to_string();
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("llm-diagnose"), "{line}");
    let arguments = words.map(|word| if word == "DIR" { dir.clone() } else { word.to_owned() });
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    said.replace(&dir, "DIR")
}

/// Compares what a page shows with what is printed; a line with nothing but `…` stands for any lines.
fn assert_shown(command: &str, shown: &str, printed: &str) {
    let mut rest = printed;
    for part in shown.split("…\n").map(str::trim_end).filter(|part| !part.trim().is_empty()) {
        let at = rest.find(part).unwrap_or_else(|| panic!("{command} does not print:\n{part}\nbut:\n{printed}"));
        rest = &rest[at + part.len()..];
    }
    let cut = shown.trim_end().ends_with('…');
    assert!(cut || rest.trim().is_empty(), "{command} prints more than the page shows:\n{rest}");
}

fn assert_page_works(name: &str, others: &[&str]) {
    let pages: Vec<&str> = others.iter().copied().chain([name]).collect();
    let own = directory(&pages);
    let library = load(Some(own.path())).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!((lint(&library), phrases(Some(own.path())), verifies(&library)), (vec![], vec![], vec![]), "{name}");
    let cases = run(&library).unwrap();
    let failed: Vec<_> = cases.iter().filter(|case| case.own).flat_map(|case| &case.failures).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let mut commands = 0;
    for block in blocks(&page(name), &["console"]) {
        for part in block.split("$ ").skip(1) {
            let (command, shown) = part.split_once('\n').unwrap();
            assert_shown(command, shown, &printed(command, own.path()));
            commands += 1;
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
