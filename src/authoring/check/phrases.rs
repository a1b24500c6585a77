//! Lint of the phrases: readable, each defined once, and custom ones replace phrases that are used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fluent_bundle::FluentResource;
use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement};

use super::lint::unfinished;
use knowledge::playbook::{Lint, Problem, Replacement, SourceFile, phrases as shipped, suggestion};
use render::{OwnPhrases, own_phrases};

/// A phrase's name to its variables and the index of its file.
type PhraseTable = BTreeMap<String, (BTreeSet<String>, usize)>;

/// Returns the shipped phrases that those of `dir/phrases/en/` replace.
pub fn replaced_phrases(dir: Option<&Path>) -> Vec<Replacement> {
    let files = dir.map(own_phrases).unwrap_or_default().files;
    let english = variables_by_phrase(&shipped(), &mut Vec::new());
    let own = variables_by_phrase(&files, &mut Vec::new());
    let known = own.iter().filter(|(key, _)| english.contains_key(*key));
    let of = |(key, (_, at)): (&String, &(BTreeSet<String>, usize))| {
        let file = files.get(*at)?.path.clone();
        Some(Replacement { file, what: format!("the phrase `{key}`") })
    };
    known.filter_map(of).collect()
}

/// Returns the problems of the shipped phrases and of those in `dir/phrases/en/`, in the order of the files.
pub fn phrases(dir: Option<&Path>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let english = variables_by_phrase(&shipped(), &mut problems);
    let Some(dir) = dir else { return problems };
    let OwnPhrases { files, unreadable } = own_phrases(dir);
    let own = variables_by_phrase(&files, &mut problems);
    compare(&english, &own, &files, &mut problems);
    files.iter().for_each(|file| unfinished(file, &mut problems));
    problems.extend(unreadable);
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    problems
}

/// Reads the phrases of some files.
fn variables_by_phrase(files: &[SourceFile], problems: &mut Vec<Problem>) -> PhraseTable {
    let mut variables_by_phrase = PhraseTable::new();
    for (at, file) in files.iter().enumerate() {
        let resource = match FluentResource::try_new(file.text.to_string()) {
            Ok(resource) => resource,
            Err((resource, errors)) => {
                for error in errors {
                    let line = file.text.get(..error.pos.start).map_or(1, |before| before.split('\n').count());
                    problems.push(Problem::on_line(Lint::PhraseShape, file, line, error.kind.to_string(), None));
                }
                resource
            }
        };
        for entry in resource.entries() {
            let Entry::Message(message) = entry else { continue };
            let mut variables = BTreeSet::new();
            if let Some(pattern) = &message.value {
                self::variables(pattern, &mut variables);
            }
            let key = message.id.name;
            let earlier = variables_by_phrase.insert(key.to_owned(), (variables, at));
            if let Some(earlier) = earlier.and_then(|(_, earlier)| files.get(earlier)) {
                let message = format!("`{key}` is said twice: {} has it too, and the last one counts", earlier.path);
                let line = file
                    .text
                    .lines()
                    .enumerate()
                    .filter(|(_, line)| line.split('=').next().is_some_and(|k| k.trim() == key));
                let line = line.last().map_or(1, |(at, _)| at + 1);
                let hint = Some("remove one of them".to_owned());
                problems.push(Problem::on_line(Lint::PhraseTwice, file, line, message, hint));
            }
        }
    }
    variables_by_phrase
}

/// Checks that custom phrases replace existing ones, and use only variables that those have.
fn compare(english: &PhraseTable, own: &PhraseTable, files: &[SourceFile], problems: &mut Vec<Problem>) {
    for (key, (variables, at)) in own {
        let Some(file) = files.get(*at) else { continue };
        let Some((expected, _)) = english.get(key) else {
            let hint = suggestion(key, english.keys().map(String::as_str));
            problems.push(Problem::at(Lint::PhraseUnknown, file, key, format!("`{key}` is not used"), hint));
            continue;
        };
        let list = |names: &BTreeSet<String>| names.iter().map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        for unknown in variables.difference(expected) {
            let hint = match expected.is_empty() {
                true => "this phrase has no arguments".to_owned(),
                false => format!("given are {}", list(expected)),
            };
            let message = format!("`{key}` asks for `${unknown}`, which nobody gives");
            problems.push(Problem::at(Lint::PhraseVariable, file, key, message, Some(hint)));
        }
    }
}

fn variables(pattern: &Pattern<&str>, out: &mut BTreeSet<String>) {
    for element in &pattern.elements {
        if let PatternElement::Placeable { expression } = element {
            in_expression(expression, out);
        }
    }
}

fn in_expression(expression: &Expression<&str>, out: &mut BTreeSet<String>) {
    match expression {
        Expression::Inline(inline) => in_inline(inline, out),
        Expression::Select { selector, variants } => {
            in_inline(selector, out);
            variants.iter().for_each(|variant| variables(&variant.value, out));
        }
    }
}

fn in_inline(inline: &InlineExpression<&str>, out: &mut BTreeSet<String>) {
    match inline {
        InlineExpression::VariableReference { id } => {
            out.insert(id.name.to_owned());
        }
        InlineExpression::Placeable { expression } => in_expression(expression, out),
        InlineExpression::FunctionReference { arguments, .. } => {
            arguments.positional.iter().for_each(|argument| in_inline(argument, out));
        }
        InlineExpression::StringLiteral { .. }
        | InlineExpression::NumberLiteral { .. }
        | InlineExpression::MessageReference { .. }
        | InlineExpression::TermReference { .. } => {}
    }
}
