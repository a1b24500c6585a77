//! Skeletons of new data: files that load and pass their test, in which `TODO` marks what a person fills in.

use anyhow::{Context, anyhow, bail, ensure};

use knowledge::playbook::{CATALOG, Library, PlaybookKind, SourceFile, shipped, suggestion};
use knowledge::signal::{Engine, Unit};

/// The lines that may open the block of signals: with entries, or empty.
const OPENING_LINES: [&str; 2] = ["signals:", "signals: {}"];

/// The end of a playbook and of a cause.
const END: &str = "lasting:
  - do: TODO what keeps it from coming back
    no_verify: prevents
    source: https://TODO
escalate: TODO who takes over, with which values
known_gaps:
  - TODO what it gets wrong
references:
  - https://TODO
";

/// A file of a directory of playbooks, to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// The path below the directory.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// True if the file exists already; its text is kept, with one entry more.
    pub grown: bool,
}

impl NewFile {
    fn fresh(path: String, text: String) -> Self {
        Self { path, text, grown: false }
    }
}

/// A signal to be added.
#[derive(Debug, Clone, Copy)]
pub struct NewSignal<'a> {
    /// The name: lower-case words joined by `_`.
    pub id: &'a str,
    /// The engine that exports it.
    pub engine: &'a str,
    /// The engine's PromQL.
    pub query: &'a str,
    /// The unit, if it is known.
    pub unit: Option<Unit>,
    /// The title, if it is known.
    pub title: Option<&'a str>,
    /// True if the query takes the place of the engine's.
    pub replace: bool,
}

/// Returns a playbook and its verdict test.
///
/// # Errors
/// If the id is not an id, or is taken.
pub fn playbook(library: &Library, id: &str, kind: PlaybookKind) -> anyhow::Result<Vec<NewFile>> {
    let (name, test_name) = (format!("{id}.yaml"), format!("{id}.test.yaml"));
    free(library, id, &name)?;
    free(library, id, &test_name)?;
    let folder = kind.folder();
    let (kind, entered, title) = match kind {
        PlaybookKind::Symptom => (
            "symptom",
            "matches: [] # TODO the alerts that enter here, such as [\"ChatLatency*\"], or `alerts:` for rules of its own\n",
            "first tokens come late",
        ),
        PlaybookKind::Mechanism => ("mechanism", "", "KV cache is exhausted"),
    };
    let text = format!(
        r#"# CONTRIBUTING.md of llm-diagnose lists the criteria of a good playbook.
playbook: {id}
schema: 1
kind: {kind}
title: "TODO a clause that fits into a chain: {title}"
{entered}meaning: TODO what it is, for a reader who is new to it
impact: TODO who is affected, and how
symptom:
  # TODO the signals and thresholds that tell whether it is so
  - {{ signal: ttft_p99, when: "> 2", required: true }}
causes: # the most frequent first
  # TODO what competes to explain it: leaves of `causes/`, other playbooks as `playbook:`, and leaves of its own
  - cause: traffic-surge
  - id: {id}-cause # TODO a name that says what it is, here and in the test
    title: "TODO a clause: prompts became longer"
    meaning: TODO what it is, for a reader who is new to it
    evidence:
      # TODO what tells it apart from the others is `required`
      - {{ signal: prompt_tokens_mean, when: "> 1.5x baseline", required: true }}
      - {{ signal: request_rate, when: "< 1.3x baseline" }}
    now:
      - do: TODO what relieves at once, with its exact command in back-ticks
        verify: {{ signal: prompt_tokens_mean, when: "< 1.2x baseline" }} # TODO false while it is wrong, true once it is not
        source: https://TODO
{END}"#
    );
    let test = format!(
        r#"# One case per cause, a healthy one that blames nobody, one that lacks data and claims nothing, and near misses.
playbook: {id}
healthy: [pool] # TODO the parts of healthy-fleet.yaml that it needs; what differs stands under `baseline:`
cases:
  - name: a healthy pool blames nobody
    expect: {{ symptom: absent, chain: [] }}

  - name: TODO what its own cause looks like
    now: {{ ttft_p99: 3, prompt_tokens_mean: 5400 }}
    expect: {{ symptom: confirmed, chain: [{id}, {id}-cause], verdict: likely, ruled_out: [traffic-surge] }}

  - name: TODO what another cause looks like
    now: {{ ttft_p99: 3, request_rate: 25 }}
    expect: {{ symptom: confirmed, chain: [{id}, traffic-surge], ruled_out: [{id}-cause] }}

  - name: without data it claims nothing
    now: {{ ttft_p99: no data }}
    expect: {{ symptom: no_data, chain: [] }}
"#
    );
    let fresh = |name, text| NewFile::fresh(format!("{folder}/{name}"), text);
    Ok(vec![fresh(name, text), fresh(test_name, test)])
}

/// Returns a shared leaf; the playbooks that use it have its verdict tests.
///
/// # Errors
/// If the id is not an id, or is taken.
pub fn cause(library: &Library, id: &str) -> anyhow::Result<Vec<NewFile>> {
    let path = format!("causes/{id}.yaml");
    free(library, id, &path)?;
    let text = format!(
        r#"# List it as `- cause: {id}` in the playbooks that it explains, with a case in the test of each.
cause: {id}
schema: 1
title: "TODO a clause that fits into a chain: prompts became longer"
meaning: TODO what it is, for a reader who is new to it
evidence:
  # TODO what tells it apart from its siblings is `required`
  - {{ signal: prompt_tokens_mean, when: "> 1.5x baseline", required: true }}
now:
  - do: TODO what relieves at once, with its exact command in back-ticks
    # TODO what shows that it worked: verify: {{ signal: prompt_tokens_mean, when: "< 1.2x baseline" }}
    no_verify: looks
    source: https://TODO
{END}"#
    );
    Ok(vec![NewFile::fresh(path, text)])
}

/// Returns the catalog with the signal, unless the signal is known, and the engine's file with its query.
///
/// # Errors
/// If the id is not an id or names something else, there is no such engine, or the engine already reports the signal.
pub fn signal(library: &Library, new: NewSignal<'_>) -> anyhow::Result<Vec<NewFile>> {
    let NewSignal { id, engine, query, .. } = new;
    words(id, '_')?;
    let Some(engine) = library.engines.get(engine) else {
        let hint = suggestion(engine, library.engines.keys().map(String::as_str));
        let hint = hint.unwrap_or_else(|| format!("write its file `signals/{engine}.yaml` first"));
        bail!("unknown engine `{engine}`: {hint}");
    };
    let mut files = Vec::new();
    if !library.signals.contains_key(id) {
        ensure!(library.ids().all(|existing| existing != id), "`{id}` is taken: ids are unique over all data");
        files.push(with_entry(library, CATALOG, "schema: 1\nsignals:\n", id, &definition(new, engine))?);
    }
    let path = format!("signals/{}.yaml", engine.engine);
    if !new.replace && engine.signals.get(id).is_some_and(|entry| entry.query.is_some()) {
        let engine = &engine.engine;
        bail!("`{engine}` tells `{id}` already: `--replace` puts your query in its place");
    }
    let start = format!("# Joins the shipped file of this name.\nengine: {}\nschema: 1\nsignals:\n", engine.engine);
    files.push(with_entry(library, &path, &start, id, &format!("{id}:\n  query: {}\n", value(query)))?);
    Ok(files)
}

/// Returns a signal's entry in the catalog, without indentation.
fn definition(new: NewSignal<'_>, engine: &Engine) -> String {
    let word = |value: Option<serde_json::Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let title = match new.title {
        Some(title) => serde_json::Value::from(title).to_string(),
        None => "TODO a few words that fit into a sentence".to_owned(),
    };
    let unit = match word(new.unit.and_then(|unit| serde_json::to_value(unit).ok())) {
        Some(unit) => unit,
        None => "count # TODO ratio (0..1), seconds, tokens, requests, per_second, bytes, …".to_owned(),
    };
    let kind = word(serde_json::to_value(engine.kind).ok()).unwrap_or_default();
    format!(
        "{}:
  title: {title}
  unit: {unit}
  bad: neither # TODO high or low, if one direction is worse
  fleet: max # TODO how replicas make the pool: max, min, sum, mean; query for quantiles and ratios of sums
  of: [{kind}]
  meaning: TODO what it is, for a reader who is new to it
",
        new.id
    )
}

/// Returns the user's file at `path`, else `start`, with an entry more under `signals:`.
fn with_entry(library: &Library, path: &str, start: &str, id: &str, entry: &str) -> anyhow::Result<NewFile> {
    let own = library.joined(path).or_else(|| library.files.get(path)).filter(|file| file.own);
    let text = own.map_or(start, |file| &file.text);
    let text = inserted(text, id, entry).map_err(|error| anyhow!("`{path}` {error}"))?;
    Ok(NewFile { path: path.to_owned(), text, grown: own.is_some() })
}

/// Inserts an entry at the end of the block `signals:`, which may be `{}`, with the indentation of its neighbours.
fn inserted(text: &str, id: &str, entry: &str) -> anyhow::Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let opens = |line: &&str| line.split(" #").next().is_some_and(|key| OPENING_LINES.contains(&key.trim_end()));
    let begin = lines.iter().position(opens).context("has no block `signals:` to put it under")? + 1;
    let inside = |line: &&&str| line.is_empty() || line.starts_with([' ', '#']);
    let block: Vec<&str> = lines.iter().skip(begin).take_while(inside).copied().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let pad = " ".repeat(block.iter().copied().find(is_content).map_or(2, indent));
    let is_own = |line: &&str| line.starts_with(&format!("{pad}{id}:"));
    ensure!(!block.iter().any(is_own), "has an entry `{id}`: change it there");
    // What stands between the last entry and the next key belongs to that key.
    let end = begin + block.iter().rposition(is_content).map_or(0, |last| last + 1);
    let entry: String = entry.lines().map(|line| format!("{pad}{line}\n")).collect();
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let key = lines[begin - 1].replacen(" {}", "", 1);
    let (before, block, after) = (&lines[..begin - 1], &lines[begin..end], &lines[end..]);
    Ok(format!("{}{key}\n{}{entry}{}", joined(before), joined(block), joined(after)))
}

/// Checks that an id of a playbook or a cause is free.
fn free(library: &Library, id: &str, path: &str) -> anyhow::Result<()> {
    words(id, '-')?;
    let own = |file: &&SourceFile| file.own;
    if let Some(file) = library.files.get(path).filter(own) {
        bail!("{} exists", file.path);
    }
    let is_taken = shipped().contains_key(path) || library.ids().any(|existing| existing == id);
    ensure!(!is_taken, "`{id}` is taken: ids are unique over all data");
    Ok(())
}

/// Checks that an id is lower-case words of letters and digits, joined by `joint`.
fn words(id: &str, joint: char) -> anyhow::Result<()> {
    ensure!(id != "null", "`null` is no id: YAML reads it as no value");
    let word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_id = id.starts_with(|c: char| c.is_ascii_lowercase()) && id.split(joint).all(word);
    ensure!(is_id, "`{id}` is no id: expected lower-case words joined by `{joint}`");
    Ok(())
}

/// Writes PromQL as a value of `query:`: a line in quotes, several as a block, because a comment ends with its line.
fn value(query: &str) -> String {
    let printable = |line: &str| line.replace(char::is_control, " ").trim_end().to_owned();
    let lines: Vec<String> = query.trim().lines().map(printable).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [line] => format!("'{}'", line.replace('\'', "''")),
        lines => lines.iter().fold("|".to_owned(), |block, line| format!("{block}\n    {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_joins_its_block_as_its_neighbours_stand_and_before_what_belongs_to_the_next_key() {
        let entry = "b:\n  query: 'x'\n";
        let grown = |text: &str| inserted(text, "b", entry).unwrap();
        assert_eq!(grown("signals:\n"), "signals:\n  b:\n    query: 'x'\n");
        assert_eq!(grown("signals: {}\ninfo: []"), "signals:\n  b:\n    query: 'x'\ninfo: []\n");
        assert_eq!(
            grown("signals: # ours\n    a:\n        query: y\n\n# what restarts\nchanges:\n  x: y\n"),
            "signals: # ours\n    a:\n        query: y\n    b:\n      query: 'x'\n\n# what restarts\nchanges:\n  x: y\n"
        );
        assert_eq!(
            inserted("signals:\n  b: {}\n", "b", entry).unwrap_err().to_string(),
            "has an entry `b`: change it there"
        );
        assert!(inserted("signals: { a: {} }\n", "b", entry).unwrap_err().to_string().contains("no block"));
    }

    #[test]
    fn an_id_is_lower_case_words() {
        for id in ["a", "chat-slow", "gpu-2-hot"] {
            assert!(words(id, '-').is_ok(), "{id}");
        }
        for id in ["", "Chat", "2-hot", "a--b", "a-", "a_b", "../a", "a.test", "ä", "a b"] {
            assert!(words(id, '-').is_err(), "{id}");
        }
    }

    #[test]
    fn a_query_of_several_lines_is_a_block_in_which_none_stands_before_the_first() {
        assert_eq!(value("x{a='b'}\n"), "'x{a=''b''}'");
        assert_eq!(value("  max( # a: 'b'\r\n\n\tx{a=\"b\"}\n)"), "|\n    max( # a: 'b'\n     x{a=\"b\"}\n    )");
    }
}
