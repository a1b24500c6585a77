//! Skeletons of changes to what is shipped: an override of a playbook or cause, and a phrase.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::bail;

use super::skeleton::NewFile;
use super::yaml::quoted;
use knowledge::playbook::{Evidence, Library, SourceFile, Step, nearest, phrases, suggestion};

/// The path of the user's phrases, below the directory.
pub const PHRASES: &str = "phrases/en/own.ftl";

/// Returns an override with every possible change as a comment, so that it changes nothing yet.
///
/// # Errors
/// If there is no such playbook or cause, or it is the user's own.
pub fn override_of(library: &Library, id: &str) -> anyhow::Result<Vec<NewFile>> {
    let Some((node, path)) = library.node_by_id(id) else {
        bail!("there is no playbook or cause `{id}`: {}", library.similar_ids(id));
    };
    if let Some(own) = library.files.get(&path).filter(|file| file.own) {
        bail!("`{id}` is in your own file: change it in {}", own.path);
    }
    let id = node.id;
    let mut text = format!(
        "# TODO Change the shipped `{id}` ({}): take the `# ` away where you do, change the values, and remove this line.\n\
         # All keys: `llm-diagnose generate format`.\noverride: {id}\nschema: 1\n",
        node.title
    );
    let rules = library.playbooks.get(id).into_iter().flat_map(|playbook| &playbook.alerts);
    let checks = node.evidence.iter().chain(rules.flat_map(|rule| &rule.when)).flat_map(Evidence::checks);
    let lines: BTreeSet<String> = checks
        .map(|(signal, when)| {
            let when = when.to_string();
            format!("#   - {{ signal: {signal}, was: {}, when: {} }}\n", quoted(&when), quoted(&when))
        })
        .collect();
    if !lines.is_empty() {
        text.push_str("# conditions:\n");
        text.extend(lines);
    }
    text.push_str(&steps("now", node.now));
    text.push_str(&steps("lasting", node.lasting));
    if library.playbooks.contains_key(id) {
        text.push_str("# causes:\n#   - { cause: id-of-a-cause }\n# matches: [NameOfAnAlert]\n");
    }
    if library.playbooks.contains_key(id) || library.causes.contains_key(id) {
        text.push_str("# escalate: The team, with what it needs to know\n");
    }
    Ok(vec![NewFile { path: format!("overrides/{id}.yaml"), text, grown: false }])
}

/// Returns what can be changed of a list of steps, with its shipped ones.
fn steps(key: &str, steps: &[Step]) -> String {
    let plain = |step: &Step| quoted(&step.action.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut text = format!(
        "# {key}:\n\
         #   first: # or `last:`\n\
         #     - do: What to do, with its exact command in back-ticks\n\
         #       no_verify: looks # or `verify: {{ signal: …, when: … }}`, the condition that shows that it worked\n\
         #       source: https://example.org/runbook\n"
    );
    if !steps.is_empty() {
        text.push_str(
            "#   # The shipped steps, each by words of it. `replace:` takes the same, with another step:\n\
             #   #   - { step: words of it, with: { do: …, no_verify: looks, source: … } }\n\
             #   remove:\n",
        );
        // Steps of one text, for several engines, are one here.
        let mut lines: Vec<String> = steps.iter().map(|step| format!("#     - {}\n", plain(step))).collect();
        let mut seen = BTreeSet::new();
        lines.retain(|line| seen.insert(line.clone()));
        text.extend(lines);
    }
    text
}

/// Returns the user's phrases in [`PHRASES`] with the shipped text of one more, to be changed; `own` are all files of
/// phrases that the user has, with `dir` before their paths.
///
/// # Errors
/// If there is no such phrase, or a user's file has it.
pub fn phrase(own: &[SourceFile], dir: &Path, key: &str) -> anyhow::Result<Vec<NewFile>> {
    let shipped = phrases();
    let Some(text) = shipped.iter().find_map(|file| entry(&file.text, key)) else {
        let keys = shipped.iter().flat_map(|file| file.text.lines().filter_map(|line| Some(line.split_once(" =")?.0)));
        let keys: Vec<&str> = keys.filter(|key| !key.starts_with([' ', '#'])).collect();
        let near = nearest(key, keys.iter().copied()).into_iter().take(5).collect::<Vec<_>>().join("`, `");
        let hint = suggestion(key, keys).unwrap_or_else(|| format!("the most similar ones are `{near}`"));
        bail!("there is no phrase `{key}`: {hint}");
    };
    if let Some(file) = own.iter().find(|file| entry(&file.text, key).is_some()) {
        bail!("{} has a phrase `{key}`: change it there", file.path);
    }
    let path = dir.join(PHRASES);
    let own = own.iter().find(|file| Path::new(&file.path) == path);
    let before = own.map_or("", |file| &*file.text);
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let text = format!("{before}{end}{text}");
    Ok(vec![NewFile { path: PHRASES.to_owned(), text, grown: own.is_some() }])
}

/// Returns the lines of a phrase: that of its key, and the indented ones below it.
fn entry(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.split_once('=').is_none_or(|(name, _)| name.trim_end() != key));
    let first = lines.next()?;
    let rest: Vec<&str> = lines.take_while(|line| line.starts_with([' ', '}'])).collect();
    Some(std::iter::once(first).chain(rest).map(|line| format!("{line}\n")).collect())
}
