//! Extraction of a diagnosis' inputs from an untrusted bundle.
//!
//! Only the inputs of the diagnosis are unpacked, under names of our own; their size and their compression ratio are
//! bounded. A file with an entry that would be harmful to unpack is refused as a whole.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zip::ZipArchive;
use zip::read::ZipFile;

use super::OpenError;
use crate::series;
use logs::Log;
use report::{Report, SCHEMA};

/// The report's entry.
const SUMMARY: &str = "summary.json";
/// Maximum entries; our bundles have a few hundred.
const ENTRIES: usize = 10_000;
/// Maximum bytes of the summary.
const SUMMARY_BYTES: u64 = 64 << 20;
/// Maximum bytes of the series: four times the default of `bundle.series_bytes`.
pub(super) const SERIES_BYTES: u64 = 8 << 30;
/// Maximum logs, and their maximum total bytes: the default of `bundle.log_bytes`.
const LOGS: usize = 64;
const LOG_BYTES: u64 = 64 << 20;
/// Maximum compression ratio of an entry. Series reach about 30.
const GROWTH: u64 = 300;
/// Bytes up to which the compression ratio is not checked.
const SMALL: u64 = 16 << 20;
/// Bytes copied between two checks of `stopped`.
const CHUNK: usize = 256 << 10;

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// The extracted parts of a bundle.
#[derive(Debug)]
pub(super) struct Unpacked {
    /// The report.
    pub(super) report: Report,
    /// The path of the series file.
    pub(super) series: PathBuf,
    /// The logs that its diagnosis read.
    pub(super) logs: Vec<Log>,
}

/// Extracts the report, the logs and, as a file in `into`, the series.
///
/// # Errors
/// If it is not a bundle, has a newer schema, holds no series, or contains something harmful.
pub(super) fn unpack(file: &Path, into: &Path, stopped: &dyn Fn() -> bool) -> Result<Unpacked, OpenError> {
    let path = file.display().to_string();
    let broken = |why: String| OpenError::NoBundle(path.clone(), why);
    let mut zip = archive(file)?;
    let bad = |bad: Bad, name: &str| match bad {
        Bad::Harm(why) => OpenError::Harmful(path.clone(), format!("`{name}` {why}")),
        Bad::Broken(why) => broken(format!("`{name}`: {why}")),
    };
    let mut json = Vec::new();
    match zip.by_name(SUMMARY) {
        Ok(entry) => copy(entry, &mut json, SUMMARY_BYTES, stopped).map_err(|why| bad(why, SUMMARY))?,
        Err(error) => return Err(bad(Bad::Broken(error.to_string()), SUMMARY)),
    };
    let unreadable = |error: serde_json::Error| broken(format!("`{SUMMARY}`: {error}"));
    match serde_json::from_slice::<Head>(&json).map_err(unreadable)?.schema {
        schema if schema == SCHEMA => {}
        schema if schema.starts_with("llm-diagnose/report/") => return Err(OpenError::Newer(schema)),
        schema => return Err(broken(format!("`{SUMMARY}` is a `{}`", schema.escape_debug()))),
    }
    let report: Report = serde_json::from_slice(&json).map_err(unreadable)?;
    drop(json);
    let logs = logs(&mut zip, &report, stopped).map_err(|why| bad(why, "logs"))?;
    let part = report.parts.iter().find(|part| part.name == "series").map(|part| part.note.as_str());
    let none = OpenError::NoSeries(part.filter(|note| !note.is_empty()).map(|n| format!(": {n}")).unwrap_or_default());
    let Ok(entry) = zip.by_name(series::FILE) else { return Err(none) };
    let path = into.join("series.om");
    let mut out = File::create_new(&path).map_err(|error| OpenError::Disk(path.display().to_string(), error))?;
    let bytes = copy(entry, &mut out, SERIES_BYTES, stopped).map_err(|why| match stopped() {
        true => OpenError::Stopped,
        false => bad(why, series::FILE),
    })?;
    // Only the terminator.
    if bytes <= "# EOF\n".len() as u64 { Err(none) } else { Ok(Unpacked { report, series: path, logs }) }
}

/// Opens the file as an archive of which every entry is harmless to unpack.
///
/// # Errors
/// If it is no archive, or has a harmful entry.
pub(super) fn archive(file: &Path) -> Result<ZipArchive<BufReader<File>>, OpenError> {
    let path = file.display().to_string();
    let disk = |error| OpenError::Disk(path.clone(), error);
    let broken = |why: String| OpenError::NoBundle(path.clone(), why);
    let opened = File::open(file).map_err(disk)?;
    if !opened.metadata().map_err(disk)?.is_file() {
        return Err(broken("it is no file".to_owned()));
    }
    let mut zip = ZipArchive::new(BufReader::new(opened)).map_err(|error| broken(error.to_string()))?;
    harmless(&mut zip).map_err(|why| match why {
        Bad::Harm(why) => OpenError::Harmful(path.clone(), why),
        Bad::Broken(why) => broken(why),
    })?;
    Ok(zip)
}

/// Returns the logs that the diagnosis read; other logs would change its result.
fn logs<R: Read + io::Seek>(
    zip: &mut ZipArchive<R>,
    report: &Report,
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<Log>, Bad> {
    let read = report.diagnosis.iter().flat_map(|diagnosis| &diagnosis.logs).flat_map(|read| &read.logs);
    let names: BTreeSet<&str> = read.map(|log| log.name.as_str()).collect();
    let (mut logs, mut bytes_left) = (Vec::new(), LOG_BYTES);
    for log in report.logs.iter().filter(|log| names.contains(log.name.as_str())).take(LOGS) {
        // A named log that is absent is missing evidence, which the comparison shows.
        let Ok(entry) = zip.by_name(&log.file) else { continue };
        let mut bytes = Vec::new();
        bytes_left -= copy(entry, &mut bytes, bytes_left, stopped)?;
        logs.push(named(&log.name, String::from_utf8_lossy(&bytes).into_owned()));
    }
    Ok(logs)
}

/// Builds a log from its name: `llama-0/vllm (previous)`, `llama-0`, or a file name.
fn named(name: &str, text: String) -> Log {
    let (whose, previous) = name.strip_suffix(" (previous)").map_or((name, false), |whose| (whose, true));
    // A container's name has neither dots nor slashes; a file name has one of them.
    let of_pod = whose.split_once('/').filter(|(pod, container)| !pod.is_empty() && !container.contains(['.', '/']));
    let (pod, container) = of_pod.map(|(pod, container)| (pod.to_owned(), container.to_owned())).unzip();
    Log { source: whose.to_owned(), pod, container, previous, text, cut: false }
}

/// The reason why an entry is not unpacked.
#[derive(Debug)]
pub(super) enum Bad {
    /// It would do harm.
    Harm(String),
    /// It cannot be read.
    Broken(String),
}

/// Checks every entry, whether it is needed or not.
fn harmless<R: Read + io::Seek>(zip: &mut ZipArchive<R>) -> Result<(), Bad> {
    if zip.len() > ENTRIES {
        return Err(Bad::Harm(format!("it has {} entries, {ENTRIES} at most are looked at", zip.len())));
    }
    if zip.has_duplicate_names() {
        return Err(Bad::Harm("two entries have the same name".to_owned()));
    }
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index).map_err(|error| Bad::Broken(error.to_string()))?;
        let raw = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let name = raw.escape_debug().to_string();
        if !is_below(&raw) {
            return Err(Bad::Harm(format!("the entry `{name}` leads out of it")));
        }
        if entry.is_symlink() {
            return Err(Bad::Harm(format!("the entry `{name}` is a symbolic link")));
        }
        if entry.encrypted() {
            return Err(Bad::Broken(format!("the entry `{name}` is encrypted")));
        }
    }
    Ok(())
}

/// Returns true if a name stays below the target directory on every system.
fn is_below(name: &str) -> bool {
    let fine = |part: &str| !part.is_empty() && part.chars().any(|c| c != '.');
    let unseen = |c: char| c.is_control() || c == '\\' || c == ':';
    !name.contains(unseen) && name.strip_suffix('/').unwrap_or(name).split('/').all(fine)
}

/// Copies an entry within its bounds; returns the bytes.
pub(super) fn copy<R: Read>(
    mut entry: ZipFile<'_, R>,
    out: &mut impl Write,
    most: u64,
    stopped: &dyn Fn() -> bool,
) -> Result<u64, Bad> {
    // The compressed size is reliable: no more compressed bytes are read than the file has.
    let grown = entry.compressed_size().saturating_mul(GROWTH).max(SMALL);
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        if stopped() {
            return Err(Bad::Broken("stopped".to_owned()));
        }
        let n = match entry.read(&mut chunk) {
            Ok(0) => return Ok(bytes),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Bad::Broken(error.to_string())),
        };
        bytes += n as u64;
        if bytes > most {
            return Err(Bad::Harm(format!("is larger than {} MiB", most >> 20)));
        }
        if bytes > grown {
            return Err(Bad::Harm(format!("grows to more than {GROWTH} times of its size, as a bomb does")));
        }
        out.write_all(&chunk[..n]).map_err(|error| Bad::Broken(format!("cannot unpack it: {error}")))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_its_pods_again_by_its_name() {
        let whose = |name: &str| {
            let log = named(name, String::new());
            assert_eq!(log.name(), name);
            (log.pod, log.previous)
        };
        assert_eq!(whose("llama-0/vllm (previous)"), (Some("llama-0".to_owned()), true));
        assert_eq!(whose("llama-0/vllm"), (Some("llama-0".to_owned()), false));
        for file in ["llama-0", "/var/log/llama-0.log", "logs/llama-0.log", "logs/pods/x"] {
            assert_eq!(whose(file), (None, false), "{file}");
        }
    }

    #[test]
    fn names_that_lead_out_are_known_on_every_system() {
        for out in ["../x", "a/../../x", "/etc/passwd", "C:\\x", "a\\..\\x", "a//b", "", ".", "a/..", "a\u{0}b", "c:x"]
        {
            assert!(!is_below(out), "{out:?}");
        }
        for fine in ["summary.json", "logs/vllm-0.log", "logs/", "a..b", ".hidden"] {
            assert!(is_below(fine), "{fine:?}");
        }
    }
}
