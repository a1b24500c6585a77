//! `logs`: what an engine's log says, on a laptop.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::{HealthOutput, LogsArgs};
use super::library;
use crate::logs::{LINE_BYTES, Log, Reader};
use crate::playbook::suggestion;
use crate::render::{self, Words};

/// Exit status when something went wrong in the log.
const ROOT_FOUND: u8 = 1;
/// Of a log that is evidence, the end that is read.
const FILE_BYTES: u64 = 64 << 20;

pub(super) fn run(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let library = match library(args.playbooks.as_deref()) {
        Ok(library) => library,
        Err(code) => return Ok(code),
    };
    let files: Vec<_> = match &args.engine {
        None => library.logs.values().collect(),
        Some(engine) => match library.logs.get(engine) {
            Some(file) => vec![file],
            None => {
                let known: Vec<&str> = library.logs.keys().map(String::as_str).collect();
                let hint = suggestion(engine, known.iter().copied()).unwrap_or_default();
                bail!("no log of `{engine}` is known, only of {} {hint}", known.join(", "));
            }
        },
    };
    let shown = if args.file == "-" { "standard input" } else { &args.file };
    let source: Box<dyn Read> = match args.file.as_str() {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(std::fs::File::open(path).with_context(|| format!("cannot read the log {path}"))?),
    };
    let mut reader = Reader::new(files);
    let mut source = BufReader::new(source);
    let mut line = Vec::new();
    while next(&mut source, &mut line).with_context(|| format!("cannot read {shown} to its end"))? {
        reader.line(&String::from_utf8_lossy(&line));
    }
    let report = reader.finish();
    match args.output {
        HealthOutput::Json => anstream::println!("{}", serde_json::to_string_pretty(&report)?),
        HealthOutput::Text => {
            let known: Vec<&str> = library.logs.keys().map(String::as_str).collect();
            anstream::print!("{}", render::terminal(&render::logs(&report, &known, &Words::english())));
        }
    }
    Ok(if report.first_root.is_some() { ExitCode::from(ROOT_FOUND) } else { ExitCode::SUCCESS })
}

/// The ends of logs as files; what could not be read is told with its reason.
pub(super) fn files(paths: &[PathBuf]) -> (Vec<Log>, Vec<(String, String)>) {
    let (mut logs, mut missing) = (Vec::new(), Vec::new());
    for path in paths {
        match tail(path) {
            Ok((text, cut)) => logs.push(Log { source: path.display().to_string(), text, cut, ..Log::default() }),
            Err(error) => missing.push((path.display().to_string(), error.to_string())),
        }
    }
    (logs, missing)
}

fn tail(path: &Path) -> std::io::Result<(String, bool)> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(FILE_BYTES);
    if from > 0 {
        file.seek(SeekFrom::Start(from))?;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), from > 0))
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
