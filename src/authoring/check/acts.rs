//! Lints of what a person does in a step: its act, and the causes that it serves.

use super::steps::steps;
use knowledge::playbook::{Library, Lint, NoVerify, Problem, Step, is_unfinished};

/// Words that mark a text in back-ticks as a query, or as the name of a series.
const QUERY_WORDS: [&str; 9] = ["sum ", "sum(", "rate(", "topk(", "_total", "_metric", "_seconds", "vllm:", "select "];
/// Words that name a place where a person looks; a text in back-ticks names one as well.
const PLACES: [&str; 8] = ["log", "logs", "answer", "answers", "page", "trace", "evidence", "table"];

/// Reports steps under `now` that name no act: no command, request or query, and no place to look at.
pub(super) fn acts(library: &Library, problems: &mut Vec<Problem>) {
    // A step that is still to be filled in is reported as such.
    let lacks = |step: &Step| !is_unfinished(&step.action) && !names_act(step);
    for owned in steps(library).into_iter().filter(|owned| owned.now && lacks(owned.step)) {
        let looks = owned.step.no_verify == Some(NoVerify::Looks);
        let message =
            if looks { "it looks, and does not say where" } else { "it names no act that a person can do now" };
        let hint = "write the command, the request or the query in back-ticks; a flag needs `changes`";
        problems.extend(owned.problem(library, Lint::StepAct, message.to_owned(), Some(hint.to_owned())));
    }
}

fn names_act(step: &Step) -> bool {
    let query = |span: &str| QUERY_WORDS.iter().any(|word| span.contains(word));
    // Programs of users are unknown: a flag with its value is the only text of several words that is no command.
    let command = |span: &str| span.starts_with('/') || span.contains(' ') && !span.starts_with('-');
    let does = Step::commands(&step.action).next().is_some()
        || Step::code(&step.action).any(|span| command(span) || query(span));
    let place = |word: &str| PLACES.contains(&word.trim_matches(|c: char| !c.is_alphanumeric()));
    let looks = step.no_verify == Some(NoVerify::Looks)
        && (step.action.contains('`') || step.action.split_whitespace().any(place));
    step.changes.is_some() || does || looks
}

/// Reports steps that serve a cause to which their playbook does not lead.
pub(super) fn only_for(library: &Library, problems: &mut Vec<Problem>) {
    for owned in steps(library) {
        let below = library.reachable(owned.id);
        let unknown = owned.step.only_for.iter().find(|id| below.iter().all(|node| node.id != id.as_str()));
        if let Some(id) = unknown {
            let message = format!("it serves `{id}`, which is not below `{}`", owned.id);
            let hint = "name causes or mechanisms that can follow it in a chain".to_owned();
            problems.extend(owned.problem(library, Lint::StepOnlyFor, message, Some(hint)));
        }
    }
}
