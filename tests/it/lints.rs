//! The lints: each has a description, its bad example is what it finds, and its good one is clean.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use authoring::check;
use knowledge::playbook::{Lint, LintEntry, Problem, lint_entries, load};
use strum::VariantNames;

use crate::own_playbooks::directory;

/// A small directory of data without a problem, whose keys the examples change.
const BASE: &str = "tests/fixtures/lints";

/// The lints whose problem keeps others from being found.
const ALONE: [Lint; 12] = [
    Lint::FilesPlace,
    Lint::FilesTwice,
    Lint::RedactionPattern,
    Lint::RedactionWord,
    Lint::SignalPool,
    Lint::TableGone,
    Lint::TestPlaybook,
    Lint::TestUnknownPart,
    Lint::TestUnknownSignal,
    Lint::YamlId,
    Lint::YamlSchema,
    Lint::YamlShape,
];

/// Top-level keys with their text, by file.
type Keys = BTreeMap<(String, String), String>;

/// Examples that change different keys, so that one check tries all of them.
#[derive(Default)]
struct Group {
    keys: Keys,
    lints: BTreeSet<Lint>,
}

/// The top-level keys of a text, each with all of its lines.
fn keys_of(path: &str, text: &str) -> Keys {
    let mut blocks: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        match blocks.last_mut() {
            Some(block) if !line.starts_with(char::is_alphabetic) => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
    }
    let key = |(at, block): (usize, &String)| match path.ends_with(".ftl") {
        true => at.to_string(),
        false => block.split(':').next().unwrap_or_default().to_owned(),
    };
    blocks.iter().enumerate().map(|block| ((path.to_owned(), key(block)), block.1.clone())).collect()
}

fn base() -> Keys {
    let files =
        ["symptoms", "causes", "signals", "logs", "tickets", "tables", "."].map(|folder| Path::new(BASE).join(folder));
    let paths = files.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.is_file());
    files
        .flat_map(|path| {
            let name = path.strip_prefix(BASE).unwrap().to_str().unwrap().trim_start_matches("./").to_owned();
            keys_of(&name, &fs::read_to_string(&path).unwrap())
        })
        .collect()
}

/// Groups of the examples that can be tried, bad or good.
fn groups(files: impl Fn(&LintEntry) -> &BTreeMap<String, String>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let is_test = |lint: &Lint| lint.to_string().starts_with("test/");
    for (lint, entry) in lint_entries().unwrap().into_iter().filter(|(_, entry)| entry.untested.is_none()) {
        let keys: Keys = files(&entry).iter().flat_map(|(path, text)| keys_of(path, text)).collect();
        let fits = |group: &Group| {
            let is_alone = group.lints.iter().chain([&lint]).any(|lint| ALONE.contains(lint));
            let of_kind = group.lints.iter().all(|other| is_test(other) == is_test(&lint));
            !is_alone && of_kind && keys.iter().all(|(key, text)| group.keys.get(key).is_none_or(|other| other == text))
        };
        let at = groups.iter().position(fits).unwrap_or_else(|| {
            groups.push(Group::default());
            groups.len() - 1
        });
        groups[at].keys.extend(keys);
        groups[at].lints.insert(lint);
    }
    groups
}

/// What `check` says of a group, and for verdict tests `test`.
fn problems(group: &Group) -> Vec<Problem> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut keys = base();
    keys.extend(group.keys.clone());
    keys.into_iter().for_each(|((path, _), text)| files.entry(path).or_default().push_str(&text));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let own = directory(&files);
    let mut library = match load(Some(own.path())) {
        Ok(library) => library,
        Err(problems) => return problems,
    };
    // The shipped rules and tests take most of the time, and others try them.
    library.redaction.rules.retain(|rule| group.keys.values().any(|text| text.contains(&format!("id: {}", rule.id))));
    let mut problems = check::all(&library, Some(own.path()));
    if group.lints.iter().any(|lint| lint.to_string().starts_with("test/")) {
        library.files.retain(|name, file| file.own || !name.ends_with(".test.yaml"));
        match check::run(&library) {
            Ok(cases) => problems.extend(cases.into_iter().flat_map(|case| case.failures)),
            Err(broken) => problems.extend(broken),
        }
        problems.extend(check::verifies(&library));
    }
    problems
}

#[test]
fn every_lint_has_a_description_and_every_description_a_lint() {
    let described: BTreeSet<String> = lint_entries().unwrap().keys().map(Lint::to_string).collect();
    assert_eq!(described, Lint::VARIANTS.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn the_bad_example_of_a_lint_is_what_it_finds() {
    for group in groups(|entry| &entry.bad) {
        let found = problems(&group);
        let lints: BTreeSet<Lint> = found.iter().map(|problem| problem.lint).collect();
        assert_eq!(lints, group.lints, "{found:#?}");
    }
}

#[test]
fn the_good_example_of_a_lint_has_no_problem() {
    for group in groups(|entry| &entry.good) {
        assert_eq!(problems(&group), [], "{:?}", group.lints);
    }
}
