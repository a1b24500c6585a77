//! Loads the shipped data and a user's directory over it; every problem has a file, a line and, where possible, a hint.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use rust_embed::RustEmbed;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use unicode_width::UnicodeWidthStr;

use super::{
    Cause, HealthyFleet, Library, LogFile, Playbook, QuickLook, Redaction, ReportSignals, SCHEMA, Table, Ticket,
};
use crate::signal::{Catalog, Engine, EngineSignals};

/// The shipped data: inside the binary in release builds, read from disk in debug builds.
#[derive(RustEmbed)]
#[folder = "playbooks"]
struct Shipped;

/// The catalog's path, as in [`Library::files`].
pub const CATALOG: &str = "signals/catalog.yaml";

/// The path of the healthy fleet, as in [`Library::files`].
pub const HEALTHY_FLEET: &str = "healthy-fleet.yaml";

/// The path of the redaction rules, as in [`Library::files`].
pub const REDACTION: &str = "redaction.yaml";

/// The suffix of the path of a user's file that joins the shipped one, in [`Library::files`].
pub(super) const JOINED: &str = "+own";

/// Maximum characters of a line in an excerpt.
const EXCERPT_CHARS: usize = 120;
/// Maximum characters of a message: parsers repeat values of any length.
const MESSAGE_CHARS: usize = 400;

/// A YAML file with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The path as the user would name it.
    pub path: String,
    /// The text.
    pub text: String,
    /// True if it is a user's own, and not shipped.
    pub own: bool,
}

impl SourceFile {
    /// Creates a shipped file; a byte order mark, which editors on Windows write, is removed.
    pub fn new(path: String, text: String) -> Self {
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Self { path, text, own: false }
    }

    /// Returns the 1-based number of the first line that contains `needle` as a whole word; 1 if none does.
    pub fn line_of(&self, needle: &str) -> usize {
        self.line_with(needle).unwrap_or(1)
    }

    /// As [`Self::line_of`]; `None` if no line does.
    pub(super) fn line_with(&self, needle: &str) -> Option<usize> {
        let whole = |line: &str| {
            line.match_indices(needle).any(|(at, _)| {
                let edge = |c: Option<char>| c.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == '-'));
                edge(line[..at].chars().next_back()) && edge(line[at + needle.len()..].chars().next())
            })
        };
        self.text.lines().position(whole).map(|i| i + 1)
    }
}

/// An error in the data, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The rule's name, such as `playbook/unknown-signal`.
    pub rule: &'static str,
    /// The file as the user would name it.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based character in the line; 0 if the whole line is meant.
    pub column: usize,
    /// The text of the line.
    pub excerpt: String,
    /// The description of the error.
    pub message: String,
    /// The action that fixes it.
    pub hint: Option<String>,
}

impl Problem {
    /// Creates a problem at the first line of `file` that contains `needle`.
    pub fn at(rule: &'static str, file: &SourceFile, needle: &str, message: String, hint: Option<String>) -> Self {
        Self::on_line(rule, file, file.line_of(needle), message, hint)
    }

    /// Creates a problem at a 1-based line of `file`.
    pub fn on_line(rule: &'static str, file: &SourceFile, line: usize, message: String, hint: Option<String>) -> Self {
        let excerpt = file.text.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
        Self { rule, file: file.path.clone(), line, column: 0, excerpt, message, hint }
    }

    /// Creates a problem from an error of the JSON parser, with its location.
    pub fn of_json(path: &str, text: &str, error: &serde_json::Error) -> Self {
        let file = SourceFile::new(path.to_owned(), text.to_owned());
        let problem = Self::on_line("json/shape", &file, error.line().max(1), error.to_string(), None);
        // The JSON parser counts bytes.
        let column = problem.excerpt.char_indices().take_while(|(at, _)| *at < error.column()).count();
        Self { column, ..problem }
    }

    /// Returns the part of the line that is shown, and the terminal columns before the error in it.
    fn shown(&self) -> (String, usize) {
        let at = self.column.saturating_sub(1);
        let chars: Vec<char> = self.excerpt.chars().collect();
        let from = if chars.len() > EXCERPT_CHARS { at.saturating_sub(EXCERPT_CHARS / 2).min(chars.len()) } else { 0 };
        let to = (from + EXCERPT_CHARS).min(chars.len());
        // Tabs and control characters take one column here, so that the caret stands below the error.
        let seen = |c: &char| if c.is_control() { ' ' } else { *c };
        let text = |part: &[char]| part.iter().map(seen).collect::<String>();
        let dots = |cut: bool| if cut { "…" } else { "" };
        let before = format!("{}{}", dots(from > 0), text(&chars[from..at.clamp(from, to)]));
        let rest = format!("{}{}", text(&chars[at.clamp(from, to)..to]), dots(to < chars.len()));
        (format!("{before}{rest}"), before.width())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {} ({})", self.file, self.line, self.message, self.rule)?;
        let (excerpt, before) = self.shown();
        write!(f, "  {:>4} | {excerpt}", self.line)?;
        if self.column > 0 {
            write!(f, "\n       | {}^", " ".repeat(before))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n       = hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Returns ``did you mean `x`?`` if one of `known` is similar to `word`.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// Returns the known words, the most similar to `word` first.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known: Vec<&str> = known.into_iter().collect();
    let likeness = |candidate: &&str| strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase());
    known.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)).then_with(|| a.cmp(b)));
    known
}

/// Returns the shipped files, by path below `playbooks/`.
pub fn shipped() -> BTreeMap<String, SourceFile> {
    Shipped::iter()
        .filter(|name| name.ends_with(".yaml"))
        .filter_map(|name| {
            let text = String::from_utf8(Shipped::get(&name)?.data.into_owned()).ok()?;
            Some((name.to_string(), SourceFile::new(format!("playbooks/{name}"), text)))
        })
        .collect()
}

/// Returns the shipped phrases, by file: `phrases/en/message.ftl`.
pub fn phrases() -> Vec<SourceFile> {
    let mut names: Vec<_> = Shipped::iter().filter(|n| n.starts_with("phrases/") && n.ends_with(".ftl")).collect();
    names.sort();
    let text = |name: &str| String::from_utf8(Shipped::get(name)?.data.into_owned()).ok();
    names.iter().filter_map(|name| Some(SourceFile::new(format!("playbooks/{name}"), text(name)?))).collect()
}

/// Parses a YAML file strictly.
///
/// # Errors
/// The first problem, with its line and, for a misspelt key, a suggestion.
pub fn parse<T: DeserializeOwned>(file: &SourceFile) -> Result<T, Box<Problem>> {
    let budget = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 20_000, max_aliases: 0 },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(&file.text, budget).map_err(|error| {
        let (line, column) = error.location().map_or((1, 0), |at| (at.line() as usize, at.column() as usize));
        let message = error.to_string();
        let message: String = message.lines().next().unwrap_or_default().chars().take(MESSAGE_CHARS).collect();
        let hint = misspelt_key(&message);
        Box::new(Problem { column, ..Problem::on_line("yaml/shape", file, line, message, hint) })
    })
}

/// Returns a suggestion for serde's "unknown field `x`, expected one of a, b".
fn misspelt_key(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("unknown field `")?;
    let (wrong, rest) = rest.split_once('`')?;
    let known = rest.split_once("expected")?.1.split(" at line").next()?;
    suggestion(wrong, known.split([',', ' ', '`']).filter(|word| !word.is_empty()))
}

/// Loads the shipped data with the files of `dir` over it: a file with the same path replaces, another one adds. The
/// catalog, the healthy fleet, the redaction rules, and files of engines that hold nothing but signals join the shipped
/// file instead.
///
/// # Errors
/// Every file that cannot be read or parsed. Cross references are checked by [`crate::check`].
pub fn load(dir: Option<&Path>) -> Result<Library, Vec<Problem>> {
    let mut files = shipped();
    let mut problems = Vec::new();
    if let Some(dir) = dir {
        match read_dir(dir) {
            Ok(own) => {
                for (name, file) in own {
                    // Joined, so that a user who adds an entry needs no copy of the shipped file, which would become
                    // outdated.
                    let joins = [CATALOG, HEALTHY_FLEET, REDACTION].contains(&name.as_str())
                        || (files.contains_key(&name) && has_only_signals(&name, &file));
                    files.insert(if joins { format!("{name}{JOINED}") } else { name }, file);
                }
            }
            Err(error) => problems.push(Problem {
                rule: "files/unreadable",
                file: dir.display().to_string(),
                line: 1,
                column: 0,
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
    library.derive_burns();
    library.files = files;
    if problems.is_empty() { Ok(library) } else { Err(problems) }
}

/// Returns true for a file of `signals/` without `kind` and `detect`: it adds signals to an engine.
fn has_only_signals(name: &str, file: &SourceFile) -> bool {
    #[derive(Deserialize)]
    struct Described {
        kind: Option<IgnoredAny>,
        detect: Option<IgnoredAny>,
    }
    let described = |Described { kind, detect }: Described| kind.is_some() || detect.is_some();
    name.starts_with("signals/") && parse::<Described>(file).is_ok_and(|file| !described(file))
}

fn add(library: &mut Library, name: &str, file: &SourceFile) -> Result<(), Box<Problem>> {
    if name.ends_with(".test.yaml") {
        return Ok(());
    }
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(JOINED).trim_end_matches(".yaml");
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
        ["signals", engine] if engine.ends_with(JOINED) => {
            let more: EngineSignals = parse(file)?;
            same("engine", &more.engine, more.schema)?;
            if let Some(engine) = library.engines.get_mut(&more.engine) {
                engine.signals.extend(more.signals);
            }
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
        [name] if name.starts_with(HEALTHY_FLEET) => {
            let fleet: HealthyFleet = parse(file)?;
            same("healthy-fleet", "healthy-fleet", fleet.schema)?;
            let taken = fleet.parts.keys().find(|part| library.healthy_fleet.parts.contains_key(*part));
            if let Some(part) = taken {
                let message = format!("the shipped healthy fleet has a part `{part}`");
                let hint = "give it another name: the shipped verdict tests start from that one".to_owned();
                return Err(Box::new(Problem::at("healthy-fleet/taken", file, part, message, Some(hint))));
            }
            library.healthy_fleet.parts.extend(fleet.parts);
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
        ["tables", "engine-flags.yaml"] => library.tables.engine_flags = table(file, same)?,
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
                let file = SourceFile::new(path.display().to_string(), std::fs::read_to_string(&path)?);
                out.insert(format!("{prefix}{name}"), SourceFile { own: true, ..file });
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the column in the shown line that the caret points at, and the shown line.
    fn pointed(problem: &Problem) -> (usize, String) {
        let shown = problem.to_string();
        let mut lines = shown.lines().skip(1);
        let (line, caret) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(caret.ends_with('^') && caret.trim() != "^", "{shown}");
        (caret.len() - 1 - "       | ".len(), line.split_once("| ").unwrap().1.to_owned())
    }

    fn problem(text: &str) -> Problem {
        let file = SourceFile::new("a.yaml".to_owned(), text.to_owned());
        *parse::<BTreeMap<String, u32>>(&file).unwrap_err()
    }

    #[test]
    fn json_has_a_caret_below_its_place_too() {
        let text = "{\n  \"näme\": ☃\n}";
        let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
        let shown = Problem::of_json("a.json", text, &error).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "a.json:2: expected value at line 2 column 12 (json/shape)");
        assert_eq!(lines[1..], ["     2 |   \"näme\": ☃", "       |           ^"]);
        let cut = serde_json::from_str::<serde_json::Value>("").unwrap_err();
        assert!(Problem::of_json("a.json", "", &cut).to_string().starts_with("a.json:1: EOF while parsing"));
    }

    #[test]
    fn the_caret_stands_below_its_place_behind_tabs_wide_characters_and_a_byte_order_mark() {
        for (text, before) in [("a: 1\nb: x\n", "b: "), ("\u{feff}b: x\n", "b: "), ("{ \t b: x }", "{   b: ")] {
            let (column, line) = pointed(&problem(text));
            assert_eq!((column, &line[..column]), (before.len(), before), "{text:?}");
        }
        let (column, line) = pointed(&problem("{ 模型: x }"));
        assert_eq!((column, line.as_str()), ("{ 模型: ".width(), "{ 模型: x }"));
    }

    #[test]
    fn a_long_line_is_cut_around_its_place() {
        let long = format!("{{ {}: 1, b: x, {}: 1 }}", "c".repeat(500), "d".repeat(500));
        let (column, line) = pointed(&problem(&long));
        assert!(line.chars().count() <= EXCERPT_CHARS + 2 && line.starts_with('…') && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().nth(column), Some('x'), "{line}");
    }
}
