//! Sentences are data: complete in every language, all of them used, and a team may say them its own way.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use llm_diagnose::check::phrases;
use llm_diagnose::playbook;
use llm_diagnose::render::Words;

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
    let lines = files.iter().filter(|file| file.path.contains("/en/")).flat_map(|file| file.text.lines());
    let key =
        |line: &str| line.split_once(" =").map(|(key, _)| key.to_owned()).filter(|key| !key.starts_with([' ', '#']));
    lines.filter_map(key).collect()
}

#[test]
fn every_language_says_everything_with_the_same_things_put_in() {
    let problems: Vec<String> = phrases(None).iter().map(ToString::to_string).collect();
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn every_phrase_is_used_and_every_used_phrase_exists() {
    let mut code = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
    let english = english();
    let unused: Vec<&String> = english.iter().filter(|key| !code.contains(&format!("\"{key}\""))).collect();
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
    let words = Words::load("en", Some(own.path())).unwrap();
    assert_eq!([words.text("do-now", &[]), words.text("why", &[])], ["Hop to it", "Why"]);
    insta::assert_snapshot!(say("do-nov = Hop\nand-more = { $shown } + { $m }\nwhy = { $\n"));
    let german = Words::load("de", Some(own.path())).unwrap();
    assert_eq!(german.text("do-now", &[]), "Jetzt tun");
}
