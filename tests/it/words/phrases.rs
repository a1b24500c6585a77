//! Sentences are data: all of them used, none in the code, and a team may replace single ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use authoring::check::phrases;
use knowledge::playbook;
use render::Phrases;

/// Every text of a program file below `dir`.
fn sources(dir: &Path, out: &mut String) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => sources(&path, out),
            path if path.extension().is_some_and(|e| e == "rs") => out.push_str(&fs::read_to_string(path).unwrap()),
            _ => {}
        }
    }
}

/// The names of the English phrases.
fn english() -> BTreeSet<String> {
    let files = playbook::phrases();
    let lines = files.iter().flat_map(|file| file.text.lines());
    let key =
        |line: &str| line.split_once(" =").map(|(key, _)| key.to_owned()).filter(|key| !key.starts_with([' ', '#']));
    lines.filter_map(key).collect()
}

#[test]
fn the_shipped_phrases_can_be_read_and_each_stands_once() {
    let problems: Vec<String> = phrases(None).iter().map(ToString::to_string).collect();
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn every_phrase_is_used_and_every_used_phrase_exists() {
    let mut code = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
    let english = english();
    let named = |key: &String| code.contains(&format!("\"{key}\""));
    let unused: Vec<&String> = english.iter().filter(|key| !named(key)).collect();
    assert_eq!(unused, Vec::<&String>::new());
    let asked: BTreeSet<&str> = ["words.line(", "words.text("]
        .into_iter()
        .flat_map(|call| code.split(call).skip(1))
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .collect();
    let unknown: Vec<&&str> = asked.iter().filter(|key| !english.contains(**key)).collect();
    assert!(asked.len() > 50, "{asked:?}");
    assert_eq!(unknown, Vec::<&&str>::new());
}

#[test]
fn a_team_changes_single_sentences_and_hears_what_is_wrong_in_them() {
    let own = tempfile::tempdir().unwrap();
    let say = |text: &str| {
        fs::create_dir_all(own.path().join("phrases/en")).unwrap();
        fs::write(own.path().join("phrases/en/ours.ftl"), text).unwrap();
        let dir = own.path().display().to_string();
        phrases(Some(own.path())).iter().map(|p| p.to_string().replace(&dir, "own")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(say("do-now = Hop to it\n"), "");
    let words = Phrases::load(Some(own.path())).unwrap();
    assert_eq!([words.text("do-now", &[]), words.text("why", &[])], ["Hop to it", "Why"]);
    insta::assert_snapshot!(say("do-nov = Hop\nand-more = { $shown } + { $m }\nwhy = { $\n"));
}

/// What is put in becomes `{}`.
fn blank(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once('{') {
        out.push_str(before);
        out.push_str("{}");
        rest = inside.split_once('}').map_or("", |(_, after)| after);
    }
    out + rest
}

/// Product code below `src/`, without its tests.
fn product(paths: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    fn walk(path: &Path, out: &mut Vec<(String, String)>) {
        assert!(path.exists(), "{} is not there", path.display());
        if path.is_dir() {
            fs::read_dir(path).unwrap().flatten().for_each(|entry| walk(&entry.path(), out));
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(path).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            out.push((path.display().to_string(), product));
        }
    }
    let mut out = Vec::new();
    paths.iter().for_each(|path| walk(&root.join(path), &mut out));
    assert!(out.len() >= paths.len(), "{paths:?}");
    out
}

#[test]
fn what_is_shown_in_slack_is_no_literal_of_the_code() {
    let shown = ["chat", "notify", "render", "capacity", "diagnose/health"];
    let calls = [".plain(\"", ".plain(format!(\"", ".bold(\"", ".bold(format!(\"", "Line::of(\"", "headline: \""];
    let mut wrong = Vec::new();
    for (path, code) in product(&shown) {
        for call in calls {
            for rest in code.split(call).skip(1) {
                let literal = blank(rest.split('"').next().unwrap());
                if literal.split(|c: char| !c.is_alphabetic()).any(|word| word.len() > 1) {
                    wrong.push(format!("{path}: {call}{literal}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "name a phrase of playbooks/phrases/ instead");
}
