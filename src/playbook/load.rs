//! Loads the shipped data and a user's directory on top of it; every problem names file, line and a way out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use rust_embed::RustEmbed;
use serde::de::DeserializeOwned;

use super::{Cause, Library, LogFile, Playbook, QuickLook, Redaction, ReportSignals, SCHEMA, Table, Ticket};
use crate::signal::{Catalog, Engine};

/// The shipped data: inside the binary in release builds, read from disk in debug builds.
#[derive(RustEmbed)]
#[folder = "playbooks"]
struct Shipped;

/// The catalog's path, as in [`Library::files`].
pub const CATALOG: &str = "signals/catalog.yaml";

/// The path of what must not leave, as in [`Library::files`].
pub const REDACTION: &str = "redaction.yaml";

/// A YAML file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Path as the user would name it.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl SourceFile {
    /// The 1-based line of the first line that contains `needle` as a whole word; 1 when none does.
    pub fn line_of(&self, needle: &str) -> usize {
        let whole = |line: &str| {
            line.match_indices(needle).any(|(at, _)| {
                let edge = |c: Option<char>| c.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == '-'));
                edge(line[..at].chars().next_back()) && edge(line[at + needle.len()..].chars().next())
            })
        };
        self.text.lines().position(whole).map_or(1, |i| i + 1)
    }
}

/// Something wrong in the data, shown with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The rule's name, such as `playbook/unknown-signal`.
    pub rule: &'static str,
    /// The file as the user would name it.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// The offending line's text.
    pub excerpt: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem at the first line of `file` that contains `needle`.
    pub fn at(rule: &'static str, file: &SourceFile, needle: &str, message: String, hint: Option<String>) -> Self {
        Self::on_line(rule, file, file.line_of(needle), message, hint)
    }

    /// A problem at a 1-based line of `file`.
    pub fn on_line(rule: &'static str, file: &SourceFile, line: usize, message: String, hint: Option<String>) -> Self {
        let excerpt = file.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
        Self { rule, file: file.path.clone(), line, excerpt, message, hint }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {} ({})", self.file, self.line, self.message, self.rule)?;
        write!(f, "  {:>4} | {}", self.line, self.excerpt)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n       = hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// ` (did you mean `x`?)` when one of `known` is close to `word`.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// The known words, the one most like `word` first.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known: Vec<&str> = known.into_iter().collect();
    let likeness = |candidate: &&str| strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase());
    known.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)).then_with(|| a.cmp(b)));
    known
}

/// The shipped files, by path below `playbooks/`.
pub fn shipped() -> BTreeMap<String, SourceFile> {
    Shipped::iter()
        .filter(|name| name.ends_with(".yaml"))
        .filter_map(|name| {
            let text = String::from_utf8(Shipped::get(&name)?.data.into_owned()).ok()?;
            Some((name.to_string(), SourceFile { path: format!("playbooks/{name}"), text }))
        })
        .collect()
}

/// The shipped phrases, by language and file: `phrases/en/message.ftl`.
pub fn phrases() -> Vec<SourceFile> {
    let mut names: Vec<_> = Shipped::iter().filter(|n| n.starts_with("phrases/") && n.ends_with(".ftl")).collect();
    names.sort();
    let text = |name: &str| String::from_utf8(Shipped::get(name)?.data.into_owned()).ok();
    names.iter().filter_map(|name| Some(SourceFile { path: format!("playbooks/{name}"), text: text(name)? })).collect()
}

/// Reads one YAML value strictly.
///
/// # Errors
/// The first problem, with its line and, for a misspelt key, a suggestion.
pub fn parse<T: DeserializeOwned>(file: &SourceFile) -> Result<T, Box<Problem>> {
    let budget = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 20_000, max_aliases: 0 },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(&file.text, budget).map_err(|error| {
        let line = error.location().map_or(1, |at| at.line() as usize);
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default().to_owned();
        let hint = misspelt_key(&message);
        Box::new(Problem::on_line("yaml/shape", file, line, message, hint))
    })
}

/// A suggestion for serde's "unknown field `x`, expected one of a, b".
fn misspelt_key(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unknown field `")?;
    let (wrong, rest) = rest.split_once('`')?;
    let known = rest.split_once("expected")?.1.split(" at line").next()?;
    suggestion(wrong, known.split([',', ' ', '`']).filter(|word| !word.is_empty()))
}

/// Loads the shipped data with the files of `dir` on top: the same path replaces, another adds.
///
/// # Errors
/// Every file that cannot be read or parsed. Cross references are checked by [`crate::check`].
pub fn load(dir: Option<&Path>) -> Result<Library, Vec<Problem>> {
    let mut files = shipped();
    let mut problems = Vec::new();
    if let Some(dir) = dir {
        match read_dir(dir) {
            Ok(mut own) => {
                // Own signals and redaction rules join the shipped ones; nobody should have to copy them to add a line.
                for joined in [CATALOG, REDACTION] {
                    if let Some(file) = own.remove(joined) {
                        files.insert(format!("{joined}+own"), file);
                    }
                }
                files.extend(own);
            }
            Err(error) => problems.push(Problem {
                rule: "files/unreadable",
                file: dir.display().to_string(),
                line: 1,
                excerpt: String::new(),
                message: format!("cannot read the playbook directory: {error}"),
                hint: Some("`playbooks.dir` must name a readable directory laid out like the shipped one".into()),
            }),
        }
    }
    let mut library = Library::default();
    for (name, file) in &files {
        if let Err(problem) = add(&mut library, name, file) {
            problems.push(*problem);
        }
    }
    library.files = files;
    if problems.is_empty() { Ok(library) } else { Err(problems) }
}

fn add(library: &mut Library, name: &str, file: &SourceFile) -> Result<(), Box<Problem>> {
    if name.ends_with(".test.yaml") {
        return Ok(());
    }
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches("+own").trim_end_matches(".yaml");
    let same = |key: &str, id: &str, schema: u32| {
        if schema != SCHEMA {
            let message = format!("`schema: {schema}` is not known to this version, which reads {SCHEMA}");
            return Err(Box::new(Problem::at("yaml/schema", file, "schema", message, None)));
        }
        if id != stem {
            let message = format!("`{key}: {id}` must equal the file name `{stem}`");
            return Err(Box::new(Problem::at("yaml/id", file, key, message, None)));
        }
        Ok(())
    };
    match name.split('/').collect::<Vec<_>>().as_slice() {
        ["signals", catalog] if catalog.starts_with("catalog.yaml") => {
            let catalog: Catalog = parse(file)?;
            same("catalog", "catalog", catalog.schema)?;
            library.signals.extend(catalog.signals);
        }
        ["signals", _] => {
            let engine: Engine = parse(file)?;
            same("engine", &engine.engine, engine.schema)?;
            library.engines.insert(engine.engine.clone(), engine);
        }
        ["health.yaml"] => {
            let health: QuickLook = parse(file)?;
            same("health", "health", health.schema)?;
            library.health = health;
        }
        ["report.yaml"] => {
            let report: ReportSignals = parse(file)?;
            same("report", "report", report.schema)?;
            library.report = report;
        }
        [name] if name.starts_with(REDACTION) => {
            let redaction: Redaction = parse(file)?;
            same("redaction", "redaction", redaction.schema)?;
            library.redaction.join(redaction);
        }
        ["logs", _] => {
            let log: LogFile = parse(file)?;
            same("logs", &log.logs, log.schema)?;
            library.logs.insert(log.logs.clone(), log);
        }
        ["tickets", _] => {
            let ticket: Ticket = parse(file)?;
            same("ticket", &ticket.ticket, ticket.schema)?;
            library.tickets.insert(ticket.ticket.clone(), ticket);
        }
        ["causes", _] => {
            let cause: Cause = parse(file)?;
            same("cause", &cause.cause, cause.schema)?;
            library.causes.insert(cause.cause.clone(), cause);
        }
        ["tables", "litellm-codes.yaml"] => library.tables.litellm_codes = table(file, same)?,
        ["tables", "xid.yaml"] => library.tables.xid = table(file, same)?,
        ["tables", "memory-flags.yaml"] => library.tables.memory_flags = table(file, same)?,
        [_] => {
            let playbook: Playbook = parse(file)?;
            same("playbook", &playbook.playbook, playbook.schema)?;
            library.playbooks.insert(playbook.playbook.clone(), playbook);
        }
        _ => {
            let message = "a file in an unknown place".to_owned();
            let hint =
                "playbooks stand at the top, leaves in `causes/`, engines in `signals/`, their logs in `logs/`, \
                 known tables in `tables/`, forms in `tickets/`"
                    .to_owned();
            return Err(Box::new(Problem::on_line("files/place", file, 1, message, Some(hint))));
        }
    }
    Ok(())
}

fn table<R: DeserializeOwned>(
    file: &SourceFile,
    same: impl Fn(&str, &str, u32) -> Result<(), Box<Problem>>,
) -> Result<Table<R>, Box<Problem>> {
    let table: Table<R> = parse(file)?;
    same("table", &table.table, table.schema)?;
    Ok(table)
}

fn read_dir(dir: &Path) -> std::io::Result<BTreeMap<String, SourceFile>> {
    let mut out = BTreeMap::new();
    for prefix in ["", "causes/", "logs/", "signals/", "tables/", "tickets/"] {
        let place = dir.join(prefix);
        if !prefix.is_empty() && !place.exists() {
            continue;
        }
        for entry in std::fs::read_dir(&place)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
            if name.ends_with(".yaml") && path.is_file() {
                let text = std::fs::read_to_string(&path)?;
                out.insert(format!("{prefix}{name}"), SourceFile { path: path.display().to_string(), text });
            }
        }
    }
    Ok(out)
}
