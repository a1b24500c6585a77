//! Explanations of a single item: an Xid, a LiteLLM status, a flag, a log line, a signal, an engine.
//!
//! Each function returns the text, or an error with a hint.

use std::collections::BTreeSet;

use super::format_error;
use crate::check::{OwnedStep, steps};
use knowledge::playbook::{
    CodeRow, Direction, Library, LogFile, LogFinding, LogLineMatch, LogNumbers, LogRank, MemoryLine, XidCounts, XidRow,
    match_log_line, suggestion,
};
use knowledge::signal::{EngineKind, SignalQuery, format_value};

/// Returns the command that explains a row of a table.
pub(super) fn how_to_ask(table: &str) -> &'static str {
    match table {
        "xid" => "`explain xid NUMBER`",
        "litellm-codes" => "`explain litellm STATUS`",
        "engine-flags" => "`explain flag NAME`",
        _ => "`explain log \"LINE\"`",
    }
}

pub(super) fn xid(library: &Library, code: &str) -> Result<String, String> {
    let digits = code.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number: u32 = digits.parse().map_err(|_| format!("`{code}` is no Xid: expected a number such as 79"))?;
    let Some(row) = library.tables.xid(number) else {
        let mut codes: Vec<u32> = library.tables.xid.rows.iter().flat_map(XidRow::codes).collect();
        codes.sort_unstable();
        let known =
            codes.first().zip(codes.last()).map_or_else(String::new, |(a, b)| format!("known are {a} to {b}; "));
        let hint = format!("{known}a newer one may be in {}; give support the whole line", address(library));
        return Err(format_error(format!("the table has no Xid {number}"), Some(hint)));
    };
    let counts = match row.counts {
        XidCounts::Critical => "gpu_xid_critical",
        XidCounts::Application => "gpu_xid_application",
        XidCounts::Neither => "no signal",
    };
    let blame = if row.workload { "mostly the workload's" } else { "not the workload's" };
    let mut out = format!("Xid {}: {}\n\n", row.shown(), row.title);
    line(&mut out, "at once", &row.immediate);
    line(&mut out, "then", row.investigate.as_deref().unwrap_or("nothing named"));
    line(&mut out, "whose", blame);
    line(&mut out, "counted by", counts);
    line(&mut out, "do", &row.action);
    row.note.iter().for_each(|note| line(&mut out, "note", note));
    line(&mut out, "source", &row.source);
    Ok(out)
}

fn address(library: &Library) -> &str {
    library.tables.xid.references.first().map_or("NVIDIA's catalog", String::as_str)
}

pub(super) fn litellm(library: &Library, code: &str) -> Result<String, String> {
    let number: u16 = code.parse().map_err(|_| format!("`{code}` is no HTTP status: expected a number such as 429"))?;
    let rows = library.tables.code(number);
    if rows.is_empty() {
        let mut codes: Vec<String> = library.tables.litellm_codes.rows.iter().map(|r| r.code.to_string()).collect();
        codes.dedup();
        return Err(format_error(
            format!("the table has no status {number}"),
            Some(format!("known are {}", codes.join(", "))),
        ));
    }
    let mut out = format!("{number} at LiteLLM is one of {}; the class in the error body tells which.\n", rows.len());
    for CodeRow { class, engine, situation, means, action, playbook, source, .. } in rows {
        out.push_str(&format!("\n{class} ({engine})\n"));
        line(&mut out, "when", situation);
        line(&mut out, "means", means);
        line(&mut out, "do", action);
        playbook.iter().for_each(|id| line(&mut out, "playbook", id));
        line(&mut out, "source", source);
    }
    Ok(out)
}

pub(super) fn log(library: &Library, text: &str) -> Result<String, String> {
    let matches = match_log_line(library.logs.values(), text);
    if matches.is_empty() {
        let code = text.split_once("Xid (").and_then(|(_, rest)| Some(rest.split_once("): ")?.1.trim_start()));
        let code =
            code.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()).filter(|code| !code.is_empty());
        if let Some(code) = code {
            return xid(library, code);
        }
        // Another number is another thing, however alike the words are.
        let numbers = |text: &str| -> BTreeSet<String> {
            text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).map(str::to_owned).collect()
        };
        let own = numbers(text);
        let patterns = library.logs.values().flat_map(|file| &file.findings).flat_map(|f| &f.lines);
        let patterns = patterns.filter(|pattern| numbers(pattern).is_subset(&own));
        let message = "no known line of a log is in it".to_owned();
        let hint = suggestion(text, patterns.map(String::as_str));
        return Err(format_error(message, Some(hint.unwrap_or_else(|| "give the whole line, in quotes".to_owned()))));
    }
    let findings: Vec<(&LogFile, &LogFinding)> = matches.iter().filter_map(LogLineMatch::finding).collect();
    if let [(_, first), others @ ..] = findings.as_slice()
        && !others.is_empty()
        && findings.len() == matches.len()
        && first.cause.is_some()
        && others.iter().all(|(_, finding)| common(finding) == common(first))
    {
        return Ok(shared(library, first, &findings));
    }
    let texts = matches.into_iter().map(|line_match| match line_match {
        LogLineMatch::Finding(file, finding) => self::finding(library, file, finding),
        LogLineMatch::Numbers(file, numbers) => self::numbers(library, file, numbers, text),
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

fn whose<'a>(file: &'a LogFile, finding: &'a LogFinding) -> &'a str {
    finding.engine.as_deref().unwrap_or(&file.logs)
}

fn rank(finding: &LogFinding) -> &'static str {
    match finding.rank {
        LogRank::Root => "root: it went wrong here",
        LogRank::Sign => "sign: worth knowing, and not what ended the engine",
        LogRank::Secondary => "follows from another error in the log",
        LogRank::Benign => "harmless",
    }
}

/// Returns what findings must share to be explained as one.
fn common(finding: &LogFinding) -> (&str, Option<&str>, LogRank, Option<&str>, u64) {
    let LogFinding { id, cause, rank, tells, harmless_up_to, .. } = finding;
    (id, cause.as_deref(), *rank, tells.as_deref(), *harmless_up_to)
}

/// Explains a line that several engines write alike: once what is common, then the part of each engine.
fn shared(library: &Library, first: &LogFinding, findings: &[(&LogFile, &LogFinding)]) -> String {
    let engines: Vec<&str> = findings.iter().map(|(file, finding)| whose(file, finding)).collect();
    let mut out = format!("{} (in the logs of {}; {})\n\n", first.title, engines.join(", "), first.id);
    line(&mut out, "rank", rank(first));
    first.cause.iter().for_each(|cause| line(&mut out, "see", &format!("`explain {cause}`")));
    first.tells.iter().for_each(|signal| line(&mut out, "counted by", signal));
    for (file, finding) in findings {
        out.push_str(&format!("\n{}\n", whose(file, finding)));
        line(&mut out, "means", &finding.meaning);
        finding.action.iter().for_each(|action| line(&mut out, "do", action));
        which_way(&mut out, library, file, finding.direction);
        line(&mut out, "source", &finding.source);
    }
    out
}

fn finding(library: &Library, file: &LogFile, finding: &LogFinding) -> String {
    let mut out = format!("{} ({}, {})\n\n", finding.title, whose(file, finding), finding.id);
    line(&mut out, "rank", rank(finding));
    if finding.harmless_up_to > 0 {
        line(&mut out, "harmless", &format!("up to {} times within ten minutes", finding.harmless_up_to));
    }
    line(&mut out, "means", &finding.meaning);
    finding.action.iter().for_each(|action| line(&mut out, "do", action));
    which_way(&mut out, library, file, finding.direction);
    finding.cause.iter().for_each(|cause| line(&mut out, "see", &format!("`explain {cause}`")));
    finding.tells.iter().for_each(|signal| line(&mut out, "counted by", signal));
    line(&mut out, "source", &finding.source);
    out
}

fn numbers(library: &Library, file: &LogFile, numbers: &LogNumbers, text: &str) -> String {
    let mut out = format!("numbers ({})\n\n", file.logs);
    let values = numbers.read(text).unwrap_or_default();
    for name in numbers.in_order() {
        if let Some((definition, value)) = numbers.values.get(name).zip(values.get(name)) {
            line(&mut out, "tells", &format!("{}: {}", definition.title, format_value(*value, definition.unit)));
        }
    }
    numbers.meaning.iter().for_each(|meaning| line(&mut out, "means", meaning));
    numbers.action.iter().for_each(|action| line(&mut out, "do", action));
    which_way(&mut out, library, file, numbers.direction);
    line(&mut out, "source", numbers.source.as_ref().or(file.references.first()).map_or("", String::as_str));
    out
}

fn which_way(out: &mut String, library: &Library, file: &LogFile, direction: Option<Direction>) {
    if let Some((direction, flag)) = direction.zip(library.tables.memory_flag(&file.logs)) {
        line(out, "flag", &format!("{} {flag}", direction.word()));
    }
}

pub(super) fn flag(library: &Library, name: &str) -> Result<String, String> {
    let mut out = format!("{name}\n\n");
    let before = out.len();
    for row in library.tables.engine_flags.rows.iter().filter(|row| row.flag == name) {
        let since = row.since.as_ref().map(|since| format!("since {since}"));
        let default = row.default.as_ref().map(|default| format!("default {default}"));
        let remarks: Vec<String> = since.into_iter().chain(row.end()).chain(default).chain(row.note.clone()).collect();
        line(&mut out, &row.engine, &remarks.join("; "));
    }
    for row in library.tables.memory_flags.rows.iter().filter(|row| row.flag == name) {
        for MemoryLine { lines, engine, direction, .. } in
            library.logs.get(&row.engine).into_iter().flat_map(LogFile::memory)
        {
            line(&mut out, engine, &format!("{} it when the log says: {}", direction.word(), lines.join(" | ")));
        }
    }
    let steps = steps(library);
    for OwnedStep { id, step, .. } in steps.iter().filter(|owned| words(&owned.step.action).any(|word| word == name)) {
        let action = step.action.split_whitespace().collect::<Vec<_>>().join(" ");
        line(&mut out, step.holds_for().as_deref().unwrap_or("any engine"), &format!("{id}: {action}"));
    }
    if out.len() > before {
        return Ok(out);
    }
    let flags = library.tables.engine_flags.rows.iter().map(|row| row.flag.as_str());
    let named = steps.iter().flat_map(|owned| words(&owned.step.action)).filter(|word| word.starts_with("--"));
    let message = format!("no table or step names `{name}`");
    Err(format_error(message, suggestion(name, flags.chain(named))))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).filter(|word| !word.is_empty())
}

pub(super) fn signal(library: &Library, name: &str) -> Result<String, String> {
    let Some(signal) = library.signals.get(name) else {
        let hint = suggestion(name, library.signals.keys().map(String::as_str));
        return Err(format_error(format!("there is no signal `{name}`"), hint));
    };
    let mut out = format!("{name}: {}\n\n{}\n\n", signal.title, signal.meaning.trim());
    line(&mut out, "unit", &word(signal.unit));
    line(&mut out, "worse when", &word(signal.bad));
    line(&mut out, "of the pool", &word(signal.fleet));
    for engine in library.engines.values() {
        let Some(SignalQuery { query, unsupported, enable, since, .. }) = engine.signals.get(name) else { continue };
        out.push_str(&format!("\n{}\n", engine.engine));
        query.iter().for_each(|query| line(&mut out, "query", query));
        unsupported.iter().for_each(|why| line(&mut out, "cannot tell", why));
        enable.iter().for_each(|how| line(&mut out, "enable", how));
        since.iter().for_each(|since| line(&mut out, "mind", since));
    }
    Ok(out)
}

pub(super) fn engine(library: &Library, name: &str) -> Result<String, String> {
    let Some(engine) = library.engines.get(name) else {
        let hint = suggestion(name, library.engines.keys().map(String::as_str));
        return Err(format_error(format!("there is no engine `{name}`"), hint));
    };
    let with_query = engine.signals.values().filter(|signal| signal.query.is_some()).count();
    let mut out = format!("{name}: {}\n\n", kind(engine.kind));
    line(&mut out, "found by", &engine.detected_by().join(", "));
    engine.enable.iter().for_each(|how| line(&mut out, "enable", how));
    line(&mut out, "replica", &engine.replica.join(", "));
    for (dimension, labels) in &engine.scope {
        line(&mut out, dimension, &labels.join(", "));
    }
    for probe in &engine.versions {
        line(&mut out, &format!(">= {}", probe.at_least), &format!("has {}", probe.metric));
    }
    line(&mut out, "signals", &format!("{with_query} of {}", engine.signals.len()));
    for (signal, why) in engine.signals.iter().filter_map(|(name, s)| Some((name, s.unsupported.as_ref()?))) {
        line(&mut out, "cannot tell", &format!("{signal}: {why}"));
    }
    for row in library.tables.engine_flags.rows.iter().filter(|row| row.engine == engine.engine) {
        row.end().iter().for_each(|end| line(&mut out, "dead", &format!("{}, {end}", row.flag)));
    }
    engine.source.iter().for_each(|source| line(&mut out, "source", source));
    Ok(out)
}

fn kind(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Serving => "a serving engine",
        EngineKind::Gateway => "a gateway",
        EngineKind::Gpu => "a GPU exporter",
        EngineKind::Platform => "the orchestrator",
        EngineKind::Log => "log lines of programs",
    }
}

/// Returns a value as spelled in the YAML.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Appends `  name       text`, with the lines of a query below each other.
fn line(out: &mut String, name: &str, text: &str) {
    let text = text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n                ");
    out.push_str(&format!("  {name:<12}  {text}\n"));
}
