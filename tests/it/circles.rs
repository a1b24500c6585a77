//! No circle of modules: what a module takes from another one never leads back to it. The graph is that of the paths
//! `crate::…` and `super::…` in the text of the product, by file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path in its crate: `["judge", "evidence"]`; the crate's root has none.
type Module = Vec<String>;

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // A folder with a manifest is a crate of its own.
        if path.is_dir() && !path.join("Cargo.toml").exists() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") {
            out.push(path);
        }
    }
}

/// The text without comments and tests.
fn product(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    lines.map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths that begin at `text`, with a tree of `use` in braces taken apart.
fn paths(text: &str, before: &Module, out: &mut Vec<Module>) {
    let text = text.trim_start();
    if let Some(tree) = text.strip_prefix('{') {
        let (mut depth, mut start) = (0_usize, 0);
        for (i, c) in tree.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    paths(&tree[start..i], before, out);
                    start = i + 1;
                    if c == '}' {
                        return;
                    }
                }
                _ => {}
            }
        }
        return;
    }
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    if word.is_empty() {
        return;
    }
    let path: Module = before.iter().cloned().chain([word.clone()]).collect();
    match text[word.len()..].strip_prefix("::") {
        Some(rest) => paths(rest, &path, out),
        None => out.push(path),
    }
}

/// The paths in a module's text, from the root of its crate.
fn used(module: &Module, text: &str) -> Vec<Module> {
    let mut out = Vec::new();
    for (at, _) in text.match_indices("crate::").filter(|(at, _)| !text[..*at].ends_with([':', '_'])) {
        paths(&text[at + "crate::".len()..], &Vec::new(), &mut out);
    }
    for (at, _) in text.match_indices("super::").filter(|(at, _)| !text[..*at].ends_with("::")) {
        let (mut rest, mut up) = (&text[at..], 0);
        while let Some(next) = rest.strip_prefix("super::") {
            (rest, up) = (next, up + 1);
        }
        let before: Module = module[..module.len().saturating_sub(up)].to_vec();
        paths(rest, &before, &mut out);
    }
    out
}

/// The names that a crate's root gives out, with the place that they come from.
fn re_exports(root: &str) -> BTreeMap<String, Module> {
    let mut out = Vec::new();
    for line in root.split(';').filter_map(|item| item.trim_start().strip_prefix("pub use ")) {
        paths(line, &Vec::new(), &mut out);
    }
    out.into_iter().filter(|path| path.len() > 1).map(|path| (path[path.len() - 1].clone(), path)).collect()
}

/// Which modules each module of a crate uses. What a child takes from its parent is left out: the parent names the child.
fn graph(folder: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = Vec::new();
    rust_files(folder, &mut files);
    let module = |file: &PathBuf| {
        let path = file.strip_prefix(folder).unwrap().with_extension("");
        let mut parts: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
            parts.pop();
        }
        parts
    };
    let texts: BTreeMap<Module, String> =
        files.iter().map(|file| (module(file), product(&fs::read_to_string(file).unwrap()))).collect();
    let given = texts.get(&Module::new()).map(|root| re_exports(root)).unwrap_or_default();
    let mut graph: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, text) in texts.iter().filter(|(module, _)| !module.is_empty()) {
        for path in used(module, text) {
            let is_module = path.first().is_some_and(|first| texts.contains_key(std::slice::from_ref(first)));
            let path = path.first().and_then(|first| given.get(first)).filter(|_| !is_module).unwrap_or(&path);
            let known = (1..=path.len()).rev().map(|n| path[..n].to_vec()).find(|path| texts.contains_key(path));
            if let Some(known) = known.filter(|known| known != module && !module.starts_with(known)) {
                graph.entry(module.clone()).or_default().insert(known);
            }
        }
    }
    graph
}

/// A way from a module back to itself.
fn circle(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<String>> {
    for start in graph.keys() {
        let (mut seen, mut ways) = (BTreeSet::new(), vec![vec![start]]);
        while let Some(way) = ways.pop() {
            for next in graph.get(*way.last()?).into_iter().flatten() {
                if next == start {
                    return Some(way.iter().map(|module| module.join("::")).collect());
                }
                if seen.insert(next) {
                    ways.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
    }
    None
}

#[test]
fn no_module_depends_on_itself_by_way_of_others() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let crates = fs::read_dir(&src).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = crates.filter(|path| path.join("Cargo.toml").exists()).chain([src.clone()]).collect();
    assert!(folders.len() > 10, "{folders:?}");
    let (all, mut read) = (folders.len(), 0);
    for folder in folders {
        let graph = graph(&folder);
        read += usize::from(!graph.is_empty());
        assert_eq!(circle(&graph), None, "a circle of modules in {}", folder.display());
    }
    // Few crates are so small that their modules take nothing from each other.
    assert!(read > all / 2, "paths were read in {read} of {all} crates");
}

#[test]
fn a_circle_is_found_by_paths_trees_and_re_exports() {
    let path = |text: &str| -> Module { text.split("::").map(str::to_owned).collect() };
    let text = "use crate::{judge::{evidence::{check, holds}, onset}, Request};\nuse super::plan::Needs;\nsuper::super::kinds();";
    let all: BTreeSet<Module> = used(&path("observe::batch"), text).into_iter().collect();
    let expected = [
        "judge::evidence::check",
        "judge::evidence::holds",
        "judge::onset",
        "Request",
        "observe::plan::Needs",
        "kinds",
    ];
    assert_eq!(all, expected.map(path).into_iter().collect());
    assert_eq!(re_exports("mod a;\npub use a::b::{C, D};")["D"], path("a::b::D"));
    let two = [(path("a"), [path("b")].into()), (path("b"), [path("a")].into())].into();
    assert_eq!(circle(&two), Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(circle(&[(path("a"), [path("b")].into())].into()), None);
}
