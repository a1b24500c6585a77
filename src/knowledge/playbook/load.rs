//! Loads the shipped data and a user's directory over it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use rust_embed::RustEmbed;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::directory::{CATALOG, HEALTHY_FLEET, KINDS, NON_PLAYBOOK_FILES, REDACTION, library_path, read_dir};
use super::{
    Cause, HealthyFleet, Library, Lint, LintEntry, LogFile, Override, Playbook, PoolKinds, Problem, QuickLook,
    Redaction, RedactionRule, Replacement, ReportSignals, SCHEMA, SourceFile, Table, Ticket, overrides, parse,
    suggestion,
};
use crate::signal::{Catalog, Engine, EngineSignals};

/// The shipped data: inside the binary in release builds, read from disk in debug builds.
#[derive(RustEmbed)]
#[folder = "../../playbooks"]
struct Shipped;

/// The folder of the descriptions of the lints: they are no data of a diagnosis.
const LINTS: &str = "lints/";

/// The problems of a user's file that leave out what it says; all others refuse the data.
const LEFT_OUT: [Lint; 2] = [Lint::SignalsEngine, Lint::HealthyFleetTaken];

/// The suffix of the path of a user's file that joins the shipped one, in [`Library::files`].
pub(super) const JOINED: &str = "+own";

/// Returns the shipped files, by path as in [`Library::files`].
pub fn shipped() -> BTreeMap<String, SourceFile> {
    Shipped::iter()
        .filter(|name| name.ends_with(".yaml") && !name.starts_with(LINTS))
        .filter_map(|name| {
            let (path, folder) = library_path(&name);
            Some((path.to_owned(), SourceFile { folder, ..shipped_file(&name)? }))
        })
        .collect()
}

fn shipped_file(name: &str) -> Option<SourceFile> {
    let text: Cow<'static, str> = match Shipped::get(name)?.data {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok()?.into(),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok()?.into(),
    };
    Some(SourceFile::new(format!("playbooks/{name}"), text))
}

/// Returns the descriptions of the lints.
///
/// # Errors
/// The first file that cannot be parsed.
pub fn lint_entries() -> Result<BTreeMap<Lint, LintEntry>, Box<Problem>> {
    let files = Shipped::iter().filter(|name| name.starts_with(LINTS)).filter_map(|name| shipped_file(&name));
    let parsed: Vec<_> = files.map(|file| parse(&file)).collect::<Result<Vec<BTreeMap<_, _>>, _>>()?;
    Ok(parsed.into_iter().flatten().collect())
}

/// Returns the shipped phrases, by file: `phrases/en/message.ftl`.
pub fn phrases() -> Vec<SourceFile> {
    let mut names: Vec<_> = Shipped::iter().filter(|n| n.starts_with("phrases/") && n.ends_with(".ftl")).collect();
    names.sort();
    names.iter().filter_map(|name| shipped_file(name)).collect()
}

/// Loads the shipped data with the files of `dir` over it. A playbook replaces the shipped one with the same id,
/// whatever its folder; another file replaces the one with the same path; all others add. The catalog, the healthy
/// fleet, the redaction rules, and files of engines that hold nothing but signals join the shipped file instead; files
/// of `overrides/` change single parts of a shipped one.
///
/// An entry of `overrides/` that does not fit, or cannot be read, is ignored and listed in [`Library::left_out`]: a new version must not keep a
/// service from its start.
///
/// # Errors
/// Every other file that cannot be read or parsed, and two of them with one name. Cross references are checked by
/// `authoring::check`.
pub fn load(dir: Option<&Path>) -> Result<Library, Vec<Problem>> {
    let mut library = Library::default();
    let mut problems = Vec::new();
    for (name, file) in shipped() {
        load_file(&mut library, name, file, &mut problems);
    }
    let mut changes = Vec::new();
    for (name, file) in dir.map(read_dir).unwrap_or_default() {
        let is_change = name.split('/').next() == Some(overrides::FOLDER);
        match file {
            Ok(file) if is_change => changes.push(file),
            Ok(file) => {
                // Joined, so that a user who adds an entry needs no copy of the shipped file, which would become
                // outdated.
                let joins =
                    [CATALOG, HEALTHY_FLEET, REDACTION].contains(&name.as_str()) || has_only_signals(&name, &file);
                let name = if joins { format!("{name}{JOINED}") } else { name };
                load_file(&mut library, name, file, &mut problems);
            }
            Err(problem) if is_change => {
                let file = SourceFile { own: true, ..SourceFile::new(problem.file.clone(), String::new()) };
                leave_out(&mut library, file, *problem);
            }
            Err(problem) => problems.push(*problem),
        }
    }
    // They change what the other files say.
    let changes = changes.into_iter().filter_map(|file| read_override(&mut library, file)).collect();
    overrides::apply(&mut library, changes);
    library.derive_burns();
    if problems.is_empty() { Ok(library) } else { Err(problems) }
}

/// Adds a file; it replaces the shipped one with this name.
fn load_file(library: &mut Library, name: String, file: SourceFile, problems: &mut Vec<Problem>) {
    if let Err(problem) = parse_file(library, &name, &file) {
        if LEFT_OUT.contains(&problem.lint) { library.left_out.push(*problem) } else { problems.push(*problem) }
    }
    let replaced = library.files.insert(name.clone(), file.clone());
    match replaced {
        Some(other) if other.own => {
            let message = format!("{} has the same name: remove one of them", other.path);
            problems.push(Problem::on_line(Lint::FilesTwice, &file, 1, message, None));
        }
        Some(other) if other.text != file.text => {
            let id = name.split('.').next().unwrap_or(&name);
            let what = match name.as_str() {
                test if test.ends_with(".test.yaml") => {
                    format!("the verdict tests of `{id}`, whole; a file of another name would add to them")
                }
                other if other.contains('/') || NON_PLAYBOOK_FILES.contains(&other) => format!("`{other}`, whole"),
                _ => format!("the playbook `{id}`, whole"),
            };
            library.replacements.push(Replacement { file: file.path, what });
        }
        Some(_) | None => {}
    }
}

/// Leaves out a file of `overrides/`.
fn leave_out(library: &mut Library, file: SourceFile, problem: Problem) {
    library.files.insert(file.path.clone(), file);
    library.left_out.push(problem);
}

/// Reads a file of `overrides/`; one that cannot be parsed is left out.
fn read_override(library: &mut Library, file: SourceFile) -> Option<(SourceFile, Override)> {
    let name = Path::new(&file.path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let changes = parse::<Override>(&file)
        .and_then(|changes| same(&file, ("override", name), &changes.id, changes.schema).map(|()| changes));
    let changes = match changes {
        Ok(changes) => changes,
        Err(problem) => {
            leave_out(library, file, *problem);
            return None;
        }
    };
    library.files.insert(format!("{}/{}.yaml", overrides::FOLDER, changes.id), file.clone());
    Some((file, changes))
}

/// Checks the format's version, and that an id equals the name of its file.
fn same(file: &SourceFile, (key, name): (&str, &str), id: &str, schema: u32) -> Result<(), Box<Problem>> {
    if schema != SCHEMA {
        let message = format!("`schema: {schema}` is not known to this version, which reads {SCHEMA}");
        return Err(Box::new(Problem::at(Lint::YamlSchema, file, "schema", message, None)));
    }
    if id != name {
        let message = format!("`{key}: {id}` must equal the file name `{name}`");
        return Err(Box::new(Problem::at(Lint::YamlId, file, key, message, None)));
    }
    Ok(())
}

/// Refuses the id of a cause that is a playbook, or of a playbook that is a cause: only one of them would be used.
fn free(file: &SourceFile, key: &str, id: &str, taken: bool) -> Result<(), Box<Problem>> {
    if !taken {
        return Ok(());
    }
    let message = format!("`{id}` is the id of another file, which is no {key}");
    let hint = "give it another id, or change the other one in `overrides/`".to_owned();
    Err(Box::new(Problem::at(Lint::YamlId, file, key, message, Some(hint))))
}

/// Returns true for a file of `signals/` without `kind` and `detect`: it adds signals to an engine.
fn has_only_signals(name: &str, file: &SourceFile) -> bool {
    #[derive(Deserialize)]
    struct Described {
        kind: Option<IgnoredAny>,
        detect: Option<IgnoredAny>,
    }
    let described = |Described { kind, detect }: Described| kind.is_some() || detect.is_some();
    let is_engine = name.starts_with("signals/") && !name.ends_with(".test.yaml");
    is_engine && parse::<Described>(file).is_ok_and(|file| !described(file))
}

fn parse_file(library: &mut Library, name: &str, file: &SourceFile) -> Result<(), Box<Problem>> {
    if name.ends_with(".test.yaml") {
        return Ok(());
    }
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(JOINED).trim_end_matches(".yaml");
    let same = |key: &str, id: &str, schema: u32| same(file, (key, stem), id, schema);
    match name.split('/').collect::<Vec<_>>().as_slice() {
        ["signals", catalog] if catalog.starts_with("catalog.yaml") => {
            let catalog: Catalog = parse(file)?;
            same("catalog", "catalog", catalog.schema)?;
            add_catalog(library, catalog, file);
        }
        ["signals", engine] if engine.ends_with(JOINED) => {
            let more: EngineSignals = parse(file)?;
            same("engine", &more.engine, more.schema)?;
            add_signals(library, more, file)?;
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
            add_healthy_fleet(library, fleet, file)?;
        }
        [name] if *name == KINDS => {
            let kinds: PoolKinds = parse(file)?;
            same("kinds", "kinds", kinds.schema)?;
            library.kinds = kinds;
            library.expect_kinds();
        }
        ["report.yaml"] => {
            let report: ReportSignals = parse(file)?;
            same("report", "report", report.schema)?;
            library.report = report;
        }
        [name] if name.starts_with(REDACTION) => {
            let redaction: Redaction = parse(file)?;
            same("redaction", "redaction", redaction.schema)?;
            add_redaction(library, redaction, file)?;
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
            free(file, "cause", &cause.cause, library.playbooks.contains_key(&cause.cause))?;
            library.causes.insert(cause.cause.clone(), cause);
        }
        ["tables", "litellm-codes.yaml"] => library.tables.litellm_codes = table(file, same)?,
        ["tables", "xid.yaml"] => library.tables.xid = table(file, same)?,
        ["tables", "memory-flags.yaml"] => library.tables.memory_flags = table(file, same)?,
        ["tables", "engine-flags.yaml"] => library.tables.engine_flags = table(file, same)?,
        ["tables", "incident-studies.yaml"] => library.tables.incident_studies = table(file, same)?,
        [_] => {
            let playbook: Playbook = parse(file)?;
            same("playbook", &playbook.playbook, playbook.schema)?;
            free(file, "playbook", &playbook.playbook, library.causes.contains_key(&playbook.playbook))?;
            library.playbooks.insert(playbook.playbook.clone(), playbook);
        }
        _ => {
            let message = "a file in an unknown place".to_owned();
            let hint =
                "playbooks stand in `symptoms/` and `mechanisms/`, leaves in `causes/`, engines in `signals/`, their \
                 logs in `logs/`, known tables in `tables/`, forms in `tickets/`, changes to shipped ones in `overrides/`"
                    .to_owned();
            return Err(Box::new(Problem::on_line(Lint::FilesPlace, file, 1, message, Some(hint))));
        }
    }
    Ok(())
}

/// Adds a catalog's signals, and notes shipped ones that a user's file replaces.
fn add_catalog(library: &mut Library, catalog: Catalog, file: &SourceFile) {
    for (name, signal) in catalog.signals {
        let replaced = library.signals.insert(name.clone(), signal.clone());
        if file.own && replaced.is_some_and(|shipped| shipped != signal) {
            let what = format!("the signal `{name}` of the catalog");
            library.replacements.push(Replacement { file: file.path.clone(), what });
        }
    }
}

/// Adds signals to an engine, and notes entries that they replace and what these then lack.
fn add_signals(library: &mut Library, more: EngineSignals, file: &SourceFile) -> Result<(), Box<Problem>> {
    let Some(engine) = library.engines.get_mut(&more.engine) else {
        let name = &more.engine;
        let known: Vec<&str> = library.engines.keys().map(String::as_str).collect();
        let hint = suggestion(name, known.iter().copied()).unwrap_or_else(|| {
            let known = known.join(", ");
            format!("the engines are {known}; a file of another one has `kind`, `detect` and more")
        });
        let message = format!("there is no engine `{name}` to add signals to");
        return Err(Box::new(Problem::at(Lint::SignalsEngine, file, name, message, Some(hint))));
    };
    for (name, own) in more.signals {
        let shipped = engine.signals.get(&name).filter(|shipped| **shipped != own).cloned();
        let entry = shipped.as_ref().map_or(own.clone(), |shipped| own.instead_of(shipped));
        if let Some(shipped) = shipped {
            let gone: Vec<String> = entry.lacking(&shipped).map(|key| format!("`{key}`")).collect();
            let without = if gone.is_empty() { "" } else { ", without its " };
            let what = format!("the entry of `{name}` for {}{without}{}", engine.engine, gone.join(", "));
            library.replacements.push(Replacement { file: file.path.clone(), what });
        }
        engine.signals.insert(name, entry);
    }
    Ok(())
}

/// Adds parts of the healthy fleet; a shipped part with other values is refused.
fn add_healthy_fleet(library: &mut Library, fleet: HealthyFleet, file: &SourceFile) -> Result<(), Box<Problem>> {
    if let Some(part) = changed(&library.healthy_fleet.parts, &fleet.parts) {
        let message = format!("the shipped healthy fleet has a part `{part}` with other values");
        let hint = "give it another name: the shipped verdict tests start from that one".to_owned();
        return Err(Box::new(Problem::at(Lint::HealthyFleetTaken, file, part, message, Some(hint))));
    }
    library.healthy_fleet.parts.extend(fleet.parts);
    Ok(())
}

/// Returns the first entry that is shipped with another value.
fn changed<'a, V: PartialEq>(shipped: &BTreeMap<String, V>, own: &'a BTreeMap<String, V>) -> Option<&'a String> {
    own.iter().find(|(name, value)| shipped.get(*name).is_some_and(|shipped| shipped != *value)).map(|(name, _)| name)
}

/// Adds rules of redaction, and notes shipped ones that they replace; a shipped word with another pattern is refused.
fn add_redaction(library: &mut Library, redaction: Redaction, file: &SourceFile) -> Result<(), Box<Problem>> {
    if let Some(word) = changed(&library.redaction.words, &redaction.words) {
        let message = format!("the shipped rules have a word `{word}` with another pattern");
        let hint = "give it another name: shipped rules are made of that one, and would find less".to_owned();
        return Err(Box::new(Problem::at(Lint::RedactionWord, file, word, message, Some(hint))));
    }
    let is_replaced = |rule: &&RedactionRule| library.redaction.rules.iter().any(|r| r.id == rule.id && r != *rule);
    for rule in redaction.rules.iter().filter(is_replaced) {
        let what = format!("the redaction rule `{}`", rule.id);
        library.replacements.push(Replacement { file: file.path.clone(), what });
    }
    library.redaction.join(redaction);
    library.redaction.has_own |= file.own;
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
