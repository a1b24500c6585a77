//! The commands that the documents show: the program takes each one as it is written, tests run each kind, and `make` has each
//! target.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use clap::error::ErrorKind;
use llm_diagnose::cli::Cli;
use llm_diagnose_lab::demo::Options;

const PROGRAM: &str = "llm-diagnose";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a directory whose names end so.
fn files(directory: &Path, end: &str, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match path.is_dir() {
            true => files(&path, end, into),
            false if path.to_str().unwrap().ends_with(end) => into.push(path),
            false => {}
        }
    }
}

/// The commands of a program that README, CONTRIBUTING and docs show, without its name: lines of blocks as "whole", in
/// back-ticks as mentions.
fn documented(program: &str) -> Vec<(String, bool)> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    files(&root().join("docs"), ".md", &mut pages);
    let mut all = BTreeSet::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for (i, part) in text.split("```").enumerate() {
            let is_block = i % 2 == 1;
            let lines: Vec<&str> =
                if is_block { part.lines().collect() } else { part.split('`').skip(1).step_by(2).collect() };
            let commands = lines.into_iter().filter_map(|line| {
                let line = line.trim().trim_start_matches("$ ").trim_start_matches("target/debug/");
                line.strip_prefix(program)?.strip_prefix(' ')
            });
            // Else it is a sentence, or another program's argument.
            let is_command =
                |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase()) && !line.contains("config/");
            all.extend(commands.filter(is_command).map(|line| (line.to_owned(), is_block)));
        }
    }
    all.into_iter().collect()
}

/// The words of a line as a shell reads them: quotes, and a comment or another program ends it. Of alternatives (`a|b`) the
/// first, and what a command in brackets prints is one word.
fn words(line: &str) -> Vec<String> {
    let line = &line.replace("$(date +%F)", "today");
    let (mut words, mut word, mut quote): (Vec<String>, Option<String>, Option<char>) = (Vec::new(), None, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | ';' | '&') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words.into_iter().map(|word| word.split('|').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_program_takes_every_documented_command_as_it_is_written() {
    let commands = documented(PROGRAM);
    assert!(commands.len() > 60, "{commands:#?}");
    let wrong: BTreeMap<&str, String> = commands
        .iter()
        .filter_map(|(line, is_whole)| {
            // A word in brackets may be left out, and a mention may leave out what it is not about.
            let line_words: Vec<String> =
                words(line).into_iter().filter(|word| word != "…" && !word.starts_with('[')).collect();
            let error = Cli::try_parse_from([PROGRAM.to_owned()].into_iter().chain(line_words)).err()?;
            let is_part = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    | ErrorKind::InvalidValue
            );
            (*is_whole || !is_part).then(|| (line.as_str(), error.to_string()))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_documented_command_is_run_in_a_test() {
    let mut sources = Vec::new();
    files(&root().join("tests/it"), ".rs", &mut sources);
    let texts: Vec<String> = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let running: Vec<&String> =
        texts.iter().filter(|text| ["BINARY", "command("].iter().any(|sign| text.contains(sign))).collect();
    let names: BTreeSet<String> =
        documented(PROGRAM).iter().filter_map(|(line, _)| words(line).into_iter().next()).collect();
    assert!(names.len() > 15, "{names:?}");
    let unrun = |name: &&String| !running.iter().any(|text| text.contains(&format!("\"{name}\"")));
    assert_eq!(names.iter().filter(unrun).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn make_knows_every_documented_target_and_the_demo_takes_what_make_passes_on() {
    let commands = documented("make");
    let mut demos = 0;
    for (line, _) in &commands {
        // Only what `make` would run is printed.
        let mut make = Command::new("make");
        // What the caller of these tests has set is not what a reader of the documents has.
        for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "FAULT", "MODE", "KEEP"] {
            make.env_remove(name);
        }
        let dry = make.arg("-n").args(words(line)).current_dir(root()).output().unwrap();
        assert!(dry.status.success(), "make {line}: {}", String::from_utf8_lossy(&dry.stderr));
        let printed = String::from_utf8(dry.stdout).unwrap();
        for line in printed.lines().filter(|line| line.contains("target/debug/demo")) {
            let (variables, arguments): (Vec<_>, Vec<_>) =
                words(line).into_iter().partition(|word| word.contains('=') && !word.contains('/'));
            let variables: BTreeMap<&str, &str> = variables.iter().filter_map(|word| word.split_once('=')).collect();
            let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
            let options = Options::read(arguments.into_iter().skip(1), variable).unwrap();
            assert_eq!(options.tour.is_some(), line.contains("MODE=tour"), "{line}");
            demos += 1;
        }
    }
    assert!(commands.len() > 10 && demos >= 3, "{commands:#?}");
}
