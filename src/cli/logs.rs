//! `logs`: what engines' logs say, on a laptop.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;

use super::args::{HealthOutput, LogsArgs};
use super::{USAGE, library};
use crate::logs::{LINE_BYTES, Reader, Told, files, first};
use crate::playbook::{LogFile, suggestion};
use crate::render::{self, Words};

/// The version of the JSON output; a change that breaks readers gives it another name.
const SCHEMA: &str = "llm-diagnose/logs/v1";
/// Exit status when something went wrong in a log.
const ROOT_FOUND: u8 = 1;
/// Of all files together, what is read; of larger ones the end.
const BYTES: u64 = 256 << 20;

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    /// The log with the earliest root error.
    first: Option<&'a str>,
    logs: &'a [Told],
    /// What could not be read, and why.
    missing: &'a [(String, String)],
}

pub(super) fn run(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.playbooks.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    let known: Vec<&str> = library.logs.keys().map(String::as_str).collect();
    let of: Vec<&LogFile> = match &args.engine {
        None => library.logs.values().collect(),
        // What the driver and the kernel write stands in any engine's log.
        Some(engine) if library.logs.contains_key(engine) => {
            library.logs.values().filter(|file| file.logs == *engine || file.anywhere).collect()
        }
        Some(engine) => {
            let hint = suggestion(engine, known.iter().copied()).unwrap_or_default();
            bail!("no log of `{engine}` is known, only of {} {hint}", known.join(", "));
        }
    };
    let (piped, named): (Vec<PathBuf>, Vec<PathBuf>) = args.files.iter().cloned().partition(|f| f == Path::new("-"));
    let mut logs = Vec::new();
    if !piped.is_empty() {
        logs.push(standard_input(Reader::new(of.iter().copied()))?);
    }
    let (read, missing) = files::read(&named, BYTES);
    logs.extend(read.into_iter().map(|log| {
        let report = Reader::new(of.iter().copied()).text(&log.text);
        Told { name: log.source, pod: log.pod, container: log.container, cut: log.cut, report }
    }));
    let first = first(&logs);
    match args.output {
        HealthOutput::Json => {
            let first = first.map(|log| log.name.as_str());
            let answer = Answer { schema: SCHEMA, first, logs: &logs, missing: &missing };
            anstream::println!("{}", serde_json::to_string_pretty(&answer)?);
        }
        HealthOutput::Text => {
            missing.iter().for_each(|(what, why)| anstream::eprintln!("error: {what} {why}"));
            if !logs.is_empty() {
                anstream::print!("{}", render::terminal(&render::logs(&logs, &known, &Words::english())));
            }
        }
    }
    Ok(match (first.is_some(), missing.is_empty()) {
        (true, _) => ExitCode::from(ROOT_FOUND),
        (false, false) => ExitCode::from(USAGE),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// However long it is: nothing of it is kept.
fn standard_input(mut reader: Reader<'_>) -> anyhow::Result<Told> {
    let mut source = BufReader::new(std::io::stdin().lock());
    let mut line = Vec::new();
    while next(&mut source, &mut line).context("cannot read standard input to its end")? {
        reader.line(&String::from_utf8_lossy(&line));
    }
    Ok(Told { name: "standard input".to_owned(), pod: None, container: None, cut: false, report: reader.finish() })
}

/// The next line without its end, cut to what is looked at; false at the end of the log.
fn next(source: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LINE_BYTES.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(&part[..room]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        source.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}
