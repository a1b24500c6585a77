//! Conventions that the compiler does not check: file sizes, module docs, plain names, no `unwrap`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file of the product, and of a file of tests.
const MOST_LINES: [usize; 2] = [450, 500];

struct Source {
    /// Path below `src/`.
    path: PathBuf,
    text: String,
}

impl Source {
    /// The lines that are no comments and stand before the tests.
    fn code(&self) -> impl Iterator<Item = &str> {
        // A module of tests in a file of its own has the mark where it is named.
        let tests = self.path.file_name().is_some_and(|name| name == "tests.rs");
        let product = self.text.lines().take_while(move |line| !tests && line.trim() != "#[cfg(test)]");
        product.filter(|line| !line.trim_start().starts_with("//"))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let rust = files_below(&src).into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    rust.map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(&src).unwrap().to_owned();
        Source { path, text }
    })
    .collect()
}

#[test]
fn no_file_is_longer_than_one_can_read() {
    let folders = ["src", "tests", "benches"].map(|name| root().join(name));
    let all = folders.iter().filter(|folder| folder.exists()).flat_map(|folder| files_below(folder));
    let rust = all.filter(|path| {
        path.extension().is_some_and(|e| e == "rs") && !path.components().any(|c| c.as_os_str() == "target")
    });
    let long: Vec<_> = rust
        .map(|path| (fs::read_to_string(&path).unwrap().lines().count(), path))
        .filter(|(lines, path)| *lines > MOST_LINES[usize::from(!path.starts_with(root().join("src")))])
        .collect();
    assert!(long.is_empty(), "more than {MOST_LINES:?} lines: {long:?}");
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<_> = sources().into_iter().filter(|s| !s.text.starts_with("//!")).map(|s| s.path).collect();
    assert!(silent.is_empty(), "no `//!` at the top: {silent:?}");
}

#[test]
fn nothing_unwraps_outside_tests() {
    let unwraps: Vec<_> = sources()
        .iter()
        .flat_map(|source| {
            let lines = source.code().filter(|line| line.contains(".unwrap()"));
            lines.map(|line| format!("{}: {}", source.path.display(), line.trim())).collect::<Vec<_>>()
        })
        .collect();
    assert!(unwraps.is_empty(), "{unwraps:#?}");
}

/// Words that begin a question, not a description.
const INTERROGATIVES: [&str; 12] =
    ["Who", "Whom", "Whose", "What", "Whatever", "Whoever", "Whether", "How", "When", "Where", "Which", "Why"];

/// The first line of each doc comment, with the line's number.
fn first_doc_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
    let lines = text.lines().map(str::trim_start).enumerate();
    let firsts = lines.scan(false, move |inside, (i, line)| {
        let first = doc(line) && !*inside;
        *inside = doc(line);
        Some(first.then(|| (i + 1, line.trim_start_matches(['/', '!']).trim_start())))
    });
    firsts.flatten()
}

#[test]
fn a_doc_comment_says_what_something_is_or_does_and_does_not_begin_like_a_question() {
    let begins = |line: &str| {
        let word = line.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        INTERROGATIVES.contains(&word) || line.starts_with("The one that ") || line.starts_with("Of ")
    };
    let found: Vec<_> = sources()
        .iter()
        .flat_map(|source| {
            let lines = first_doc_lines(&source.text).filter(|(_, line)| begins(line));
            lines.map(|(i, line)| format!("src/{}:{i}: {line}", source.path.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Names that every component may have of its own.
const SHARED_NAMES: [&str; 2] = ["Config", "Error"];

#[test]
fn no_two_public_types_have_the_same_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        for line in source.code().filter_map(|line| line.trim_start().strip_prefix("pub")) {
            let line = line.split_once(") ").filter(|_| line.starts_with('(')).map_or(line, |(_, rest)| rest);
            let mut words = line.split_whitespace();
            if !words.next().is_some_and(|word| ["struct", "enum", "trait", "type"].contains(&word)) {
                continue;
            }
            let name =
                words.next().unwrap_or_default().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            places.entry(name.to_owned()).or_default().push(source.path.display().to_string());
        }
    }
    assert!(places.len() > 300, "{} types", places.len());
    places.retain(|name, places| places.len() > 1 && !SHARED_NAMES.contains(&name.as_str()));
    assert!(places.is_empty(), "{places:#?}");
}
