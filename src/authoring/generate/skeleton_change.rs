//! Skeletons of changes to what is shipped: an override of a playbook or cause, and a phrase.

use super::skeleton::NewFile;
use knowledge::playbook::{Evidence, Library, Node, Step, nearest, phrases, similar_ids, suggestion};

/// The path of the user's phrases, below the directory.
pub const PHRASES: &str = "phrases/en/own.ftl";

/// Returns an override, which lists in comments what can be changed.
///
/// # Errors
/// If there is no such playbook or cause, or it is the user's own.
pub fn override_of(library: &Library, id: &str) -> Result<Vec<NewFile>, String> {
    let Some((node, path)) = library.node_by_id(id) else {
        return Err(format!("there is no playbook or cause `{id}`: {}", similar_ids(library, id)));
    };
    if let Some(own) = library.files.get(&path).filter(|file| file.own) {
        return Err(format!("`{id}` stands in a file of your own: change it in {}", own.path));
    }
    let id = node.id;
    let mut text = format!(
        "# Changes to the shipped `{id}`, {}. Keep what you need; the keys: docs/playbook-format.md.\noverride: {id}\nschema: 1\n",
        node.title
    );
    let checks: Vec<_> = node.evidence.iter().flat_map(Evidence::checks).collect();
    if let Some((signal, when)) = checks.first() {
        text.push_str("# Its conditions:\n");
        let mut lines: Vec<String> = checks.iter().map(|(signal, when)| format!("#   {signal} {when}\n")).collect();
        lines.sort();
        lines.dedup();
        text.extend(lines);
        text.push_str(&format!(
            "conditions:\n  - {{ signal: {signal}, was: \"{when}\", when: \"{when}\" }} # TODO `when:` for your fleet\n"
        ));
    }
    text.push_str(&steps(node));
    Ok(vec![NewFile { path: format!("overrides/{id}.yaml"), text, grown: false }])
}

fn steps(node: Node<'_>) -> String {
    let list = |steps: &[Step]| -> String {
        let line = |step: &Step| format!("  #   {}\n", step.action.split_whitespace().collect::<Vec<_>>().join(" "));
        steps.iter().map(line).collect()
    };
    let shipped = match node.now {
        [] => String::new(),
        steps => format!(
            "  # The shipped steps; `replace:` and `remove:` name one by words of it:\n{}  # replace: [{{ step: …, with: {{ do: …, no_verify: looks }} }}]\n  # remove: […]\n",
            list(steps)
        ),
    };
    format!(
        "now:\n  first: # or `last:`\n    - do: TODO what to do at once, with its exact command in back-ticks\n      no_verify: looks # TODO or `verify:`, the condition that shows that it worked\n      source: https://TODO\n{shipped}"
    )
}

/// Returns the user's phrases with the shipped text of one more, to be changed.
///
/// # Errors
/// If there is no such phrase, or the user's file has it.
pub fn phrase(own: Option<&str>, key: &str) -> Result<Vec<NewFile>, String> {
    let shipped = phrases();
    let Some(text) = shipped.iter().find_map(|file| entry(&file.text, key)) else {
        let keys = shipped.iter().flat_map(|file| file.text.lines().filter_map(|line| Some(line.split_once(" =")?.0)));
        let keys: Vec<&str> = keys.filter(|key| !key.starts_with([' ', '#'])).collect();
        let near = nearest(key, keys.iter().copied()).into_iter().take(5).collect::<Vec<_>>().join("`, `");
        let hint = suggestion(key, keys).unwrap_or_else(|| format!("the most similar ones are `{near}`"));
        return Err(format!("there is no phrase `{key}`: {hint}"));
    };
    let own = own.unwrap_or_default();
    if entry(own, key).is_some() {
        return Err(format!("`{PHRASES}` has a phrase `{key}`: change it there"));
    }
    let end = if own.is_empty() || own.ends_with('\n') { "" } else { "\n" };
    Ok(vec![NewFile { path: PHRASES.to_owned(), text: format!("{own}{end}{text}"), grown: !own.is_empty() }])
}

/// Returns the lines of a phrase: that of its key, and the indented ones below it.
fn entry(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.split_once('=').is_none_or(|(name, _)| name.trim_end() != key));
    let first = lines.next()?;
    let rest: Vec<&str> = lines.take_while(|line| line.starts_with([' ', '}'])).collect();
    Some(std::iter::once(first).chain(rest).map(|line| format!("{line}\n")).collect())
}
