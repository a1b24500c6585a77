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
    let named = |key: &String| code.contains(&format!("\"{key}\""));
    let unused: Vec<&String> = english.iter().filter(|key| !key.starts_with("said-") && !named(key)).collect();
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
}

/// The string literals of product code, continued lines joined, with `{}` where something is put in.
fn literals(code: &str) -> Vec<String> {
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = Vec::new();
    let joined = code.join("\n").replace("'\"'", "' '").replace("\\\"", "\u{1}");
    for literal in joined.split('"').skip(1).step_by(2) {
        let lines: Vec<&str> =
            literal.split("\\\n").enumerate().map(|(i, l)| if i == 0 { l } else { l.trim_start() }).collect();
        found.push(blank(&lines.concat().replace('\u{1}', "\"")));
    }
    found
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

/// Literals in data's modules that look like sentences.
const NO_SENTENCES: [&str; 6] = [
    "a range was not answered",
    "the cluster's API cannot be used: diagnoses and bundles go without it",
    "symptom of {}",
    "{} {} bit",
    // Arguments of an error of the command line.
    "its attention layers differ in the shape of their KV cache",
    "its KV cache is compressed by layer",
];

/// Without the arguments of `refuse`, which ends the command line.
fn errors_left_out(code: &str) -> String {
    let mut parts = code.split("refuse(");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, rest| {
        let mut open = 1_usize;
        let end = rest.char_indices().find(|(_, c)| {
            open = match c {
                '(' => open + 1,
                ')' => open - 1,
                _ => open,
            };
            open == 0
        });
        out + &rest[end.map_or(0, |(at, _)| at)..]
    })
}

/// The English shapes of sentences in data, with `{}` where something is put in.
fn shapes() -> BTreeSet<String> {
    let files = playbook::phrases();
    let said = files.iter().find(|file| file.path.ends_with("en/said.ftl")).unwrap();
    said.text.lines().filter_map(|line| line.split_once(" = ")).map(|(_, shape)| blank(shape)).collect()
}

#[test]
fn what_is_shown_in_slack_is_no_literal_of_the_code() {
    let shown = ["chatops", "notify", "render", "capacity", "health"];
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

#[test]
fn sentences_in_data_have_a_shape_in_every_language() {
    let mut stored = product(&["diagnose", "health", "readiness.rs", "capacity", "report/story.rs"]);
    // What is wrong with a file or a flag is an error of the command line.
    stored.retain(|(path, _)| !path.ends_with("config.rs") && !path.ends_with("gpu.rs"));
    let shapes = shapes();
    let mut wrong = Vec::new();
    for (path, code) in &stored {
        let code = errors_left_out(code);
        let queries = |l: &str| l.contains('(') && !l.contains("`index_topk`");
        let sentence = |l: &&String| l.split(' ').filter(|word| word.len() > 1).count() > 2 && !queries(l);
        wrong.extend(
            literals(&code)
                .iter()
                .filter(sentence)
                .filter(|literal| !shapes.contains(*literal) && !NO_SENTENCES.contains(&literal.as_str()))
                .map(|literal| format!("{path}: {literal}")),
        );
    }
    assert_eq!(wrong, Vec::<String>::new(), "add a shape to playbooks/phrases/*/said.ftl");
}

#[test]
fn every_shape_is_that_of_a_sentence_in_the_code() {
    let code = product(&[
        "diagnose",
        "health",
        "readiness.rs",
        "capacity",
        "prom",
        "exporter",
        "slack",
        "alertmanager",
        "chatops",
        "report/story.rs",
    ]);
    let known: BTreeSet<String> = code.iter().flat_map(|(_, code)| literals(code)).collect();
    // Of clap, and one that ends in two things.
    let of_others = ["said-value", "said-choice", "said-unexpected", "said-required", "said-slack-refused"];
    let files = playbook::phrases();
    let said = files.iter().find(|file| file.path.ends_with("en/said.ftl")).unwrap();
    let shapes = said.text.lines().filter_map(|line| line.split_once(" = "));
    let stale: Vec<&str> = shapes
        .filter(|(key, shape)| !of_others.contains(key) && !known.contains(&blank(shape)))
        .map(|(k, _)| k)
        .collect();
    assert_eq!(stale, Vec::<&str>::new(), "the code says this in other words now");
}

#[test]
fn what_is_put_into_a_sentence_of_data_is_never_read_as_markup() {
    let evil = "**x** \u{e000}0\u{e001} <!channel>";
    let data = format!("no vllm series of the last hour has model=`{evil}`");
    let line = Words::english().said(&data);
    assert!(line.text().ends_with(&format!("has model={evil}")), "{line:?}");
    assert!(line.0.iter().all(|span| !matches!(span, llm_diagnose::render::Span::Bold(_))), "{line:?}");
}

#[test]
fn a_team_changes_what_is_said_of_data_too() {
    let own = tempfile::tempdir().unwrap();
    fs::create_dir_all(own.path().join("phrases/en")).unwrap();
    fs::write(own.path().join("phrases/en/ours.ftl"), "said-no-series = nothing scraped\n").unwrap();
    let words = Words::load("en", Some(own.path())).unwrap();
    assert_eq!([words.said_text("no series"), words.said_text("no value")], ["nothing scraped", "no value"]);
}
