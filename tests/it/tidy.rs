//! Conventions that the compiler does not check: layers, file sizes, module docs, no `unwrap`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the edges down; a module uses only what stands below it, and in its own row where [`BESIDE`] allows it.
const LAYERS: [&[&str]; 6] = [
    &["cli", "server", "app", "pipeline", "config"],
    &["chatops", "notify", "check", "bundle", "generate", "health"],
    &["incident", "diagnose", "render"],
    &["prom", "slack", "store"],
    &["signal", "playbook"],
    &["alert", "clock", "telemetry"],
];

/// Uses within a row. The edges may use each other; the modules that talk to the outside never do.
const BESIDE: [(&str, &str); 2] = [("playbook", "signal"), ("render", "diagnose")];

/// Uses upward, each with its reason.
const UPWARD: [(&str, &str, &str); 3] = [
    ("store", "incident", "admission is decided inside the transaction that stores it"),
    ("store", "diagnose", "a diagnosis is kept with its incident as the value it is"),
    ("slack", "render", "what is posted is a rendered message"),
];

const MOST_LINES: usize = 500;

struct Source {
    /// Path below `src/`.
    path: PathBuf,
    /// The first component of the path, without `.rs`.
    module: String,
    text: String,
}

impl Source {
    /// The lines that are no comments and stand before the tests.
    fn code(&self) -> impl Iterator<Item = &str> {
        let product = self.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        product.filter(|line| !line.trim_start().starts_with("//"))
    }

    /// The crate's modules that it names: `crate::x::…`, and each of `crate::{x::…, y}`.
    fn uses(&self) -> BTreeSet<String> {
        let code: Vec<&str> = self.code().collect();
        let code = code.join(" ");
        let word = |text: &str| text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let mut modules = BTreeSet::new();
        for (at, path) in code.match_indices("crate::") {
            let after = &code[at + path.len()..];
            match after.strip_prefix('{') {
                Some(list) => modules.extend(list[..list.find("};").unwrap()].split(',').map(|item| word(item.trim()))),
                None => _ = modules.insert(word(after)),
            }
        }
        modules
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
        let first = path.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs").to_owned();
        Source { path, module, text }
    })
    .collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&module))
}

#[test]
fn every_module_has_its_layer() {
    let ends = ["lib", "main"];
    let modules: BTreeSet<String> = sources().into_iter().map(|source| source.module).collect();
    let homeless: Vec<_> = modules.iter().filter(|m| layer(m).is_none() && !ends.contains(&m.as_str())).collect();
    assert!(homeless.is_empty(), "give them a row in LAYERS: {homeless:?}");
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let mut wrong = BTreeSet::new();
    for source in sources() {
        let Some(from) = layer(&source.module) else { continue };
        for to in source.uses().into_iter().filter(|to| *to != source.module) {
            let Some(below) = layer(&to) else { continue };
            let pair = (source.module.as_str(), to.as_str());
            let beside = below == from && (from == 0 || BESIDE.contains(&pair));
            let known = UPWARD.iter().any(|(a, b, _)| (*a, *b) == pair);
            if below <= from && !beside && !known {
                wrong.insert(format!("{} uses {to}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "upward or sideways: {wrong:#?}");
}

#[test]
fn exceptions_that_nobody_needs_any_more_are_taken_off_the_list() {
    let of = |source: Source| source.uses().into_iter().map(move |to| (source.module.clone(), to));
    let uses: BTreeSet<(String, String)> = sources().into_iter().flat_map(of).collect();
    let listed = BESIDE.iter().copied().chain(UPWARD.iter().map(|(from, to, _)| (*from, *to)));
    let stale: Vec<_> = listed.filter(|(from, to)| !uses.contains(&((*from).to_owned(), (*to).to_owned()))).collect();
    assert!(stale.is_empty(), "{stale:?}");
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
        .filter(|(lines, _)| *lines > MOST_LINES)
        .collect();
    assert!(long.is_empty(), "more than {MOST_LINES} lines: {long:?}");
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

#[test]
fn nothing_reads_from_outside_the_repository() {
    let place = ["/work", "shared"].join("/");
    let all = ["src", "tests", "playbooks", "config"].map(|name| files_below(&root().join(name)));
    let readers: Vec<_> = all
        .into_iter()
        .flatten()
        .filter(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).contains(&place))
        .collect();
    assert!(readers.is_empty(), "{readers:?}");
}
