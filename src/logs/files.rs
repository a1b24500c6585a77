//! Logs from files given by the user: plain text or `.gz`, or directories of them.
//!
//! A path is untrusted, so only regular files are opened: no symbolic links, pipes or devices. A file larger than its
//! share is truncated in the middle: its start has the configuration, its end the latest events.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::{Log, NamedLogAnalysis, Patterns, stream};
use knowledge::gap::Gap;

/// Maximum files read of one directory.
const FILES_MOST: usize = 256;
/// Maximum uncompressed size of a `.gz`: its end is only reached through the rest, and few bytes may expand to any
/// size.
const UNPACKED_MOST: u64 = 1 << 30;
/// Estimated compression ratio of a log; only used to order the files by size.
const PACKED: u64 = 10;
/// Bytes that are checked for being text.
const SNIFFED_BYTES: usize = 8 << 10;
/// The share of the start in a truncated file, and its maximum bytes: the start holds versions, arguments and
/// capacity.
const HEAD_SHARE: u64 = 4;
const HEAD_MOST: u64 = 1 << 20;
/// Bytes reserved for the line that marks the gap.
const MARK_BYTES: usize = 96;
/// Bytes per read.
const CHUNK: usize = 64 << 10;

/// Reads these files, and the `.log`, `.txt` and `.gz` files of these directories, at most `bytes` in total.
///
/// Returns the logs in the order of `paths`, those of a directory by name, and the unreadable paths with the reasons.
pub fn read(paths: &[PathBuf], bytes: u64) -> (Vec<Log>, Vec<Gap>) {
    let (files_found, mut missing) = find(paths);
    // Smaller files first, each with an equal share of the rest: what they leave unused goes to the larger ones.
    let mut turns: Vec<usize> = (0..files_found.len()).collect();
    turns
        .sort_by_key(|i| files_found.get(*i).map(|(path, meta)| meta.len() * if is_packed(path) { PACKED } else { 1 }));
    let (mut bytes_left, mut files) = (bytes, files_found.len() as u64);
    let mut logs: Vec<(usize, Log)> = Vec::new();
    for i in turns {
        let Some((path, meta)) = files_found.get(i) else { continue };
        let share = bytes_left / files.max(1);
        files = files.saturating_sub(1);
        match text(path, meta, share) {
            Ok((text, cut)) => {
                bytes_left = bytes_left.saturating_sub(text.len() as u64);
                let (pod, container) = pod_and_container(path);
                logs.push((i, Log { source: name(path), pod, container, previous: false, text, cut }));
            }
            Err(why) => missing.push(Gap::failed(printable(path), why)),
        }
    }
    logs.sort_by_key(|(i, _)| *i);
    (logs.into_iter().map(|(_, log)| log).collect(), missing)
}

/// A readable file.
pub type FoundFile = (PathBuf, Metadata);

/// Lists the readable files, those of a directory by name, and the unreadable paths with the reasons.
pub fn find(paths: &[PathBuf]) -> (Vec<FoundFile>, Vec<Gap>) {
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    for path in paths {
        match look(path) {
            Ok(meta) if meta.is_dir() => directory(path, &mut files, &mut missing),
            Ok(meta) => files.push((path.clone(), meta)),
            Err(why) => missing.push(Gap::failed(printable(path), why)),
        }
    }
    (files, missing)
}

/// Analyses a file of any length; `watched` wraps the reader of the raw bytes.
///
/// # Errors
/// A sentence about the problem, without the file's name.
pub fn stream<R: Read>(
    path: &Path,
    metadata: &Metadata,
    patterns: &Patterns<'_>,
    watched: impl FnOnce(File) -> R,
) -> Result<NamedLogAnalysis, String> {
    // Bytes appended in the meantime are not read.
    let file = watched(open(path, metadata)?).take(metadata.len());
    let read = match is_packed(path) {
        true => stream::read_text(patterns, MultiGzDecoder::new(file)),
        false => stream::read_text(patterns, file),
    };
    let (pod, container) = pod_and_container(path);
    Ok(NamedLogAnalysis {
        name: name(path),
        pod,
        container,
        cut: false,
        report: read.map_err(|error| why(path, &error))?,
    })
}

/// Returns the metadata of a path if it is a regular file or a directory.
fn look(path: &Path) -> Result<Metadata, String> {
    let meta = std::fs::symlink_metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "may not be read".to_owned(),
        _ => error.to_string(),
    })?;
    match meta.file_type() {
        kind if kind.is_symlink() => {
            Err("is a symbolic link, which is not followed: name the file it leads to".to_owned())
        }
        kind if kind.is_file() || kind.is_dir() => Ok(meta),
        _ => Err("is a pipe, a socket or a device, and no file".to_owned()),
    }
}

fn directory(path: &Path, log_files: &mut Vec<(PathBuf, Metadata)>, missing: &mut Vec<Gap>) {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            return missing
                .push(Gap::failed(printable(path), format!("is a directory that cannot be listed: {error}")));
        }
    };
    let is_log = |path: &PathBuf| {
        let ending = path.extension().map(|e| e.to_ascii_lowercase());
        ending.is_some_and(|ending| ["log", "txt", "gz"].iter().any(|suffix| ending == *suffix))
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_log).collect();
    files.sort();
    if files.is_empty() {
        missing.push(Gap::absent(printable(path), "has no file that ends in .log, .txt or .gz"));
    }
    if files.len() > FILES_MOST {
        let why = format!("has {} logs, of which the first {FILES_MOST} by name were read", files.len());
        missing.push(Gap::absent(printable(path), why));
        files.truncate(FILES_MOST);
    }
    for file in files {
        match look(&file) {
            Ok(meta) if meta.is_dir() => {}
            Ok(meta) => log_files.push((file, meta)),
            Err(why) => missing.push(Gap::failed(printable(&file), why)),
        }
    }
}

fn open(path: &Path, metadata: &Metadata) -> Result<File, String> {
    let say = |error: std::io::Error| why(path, &error);
    let file = File::open(path).map_err(say)?;
    match same(metadata, &file.metadata().map_err(say)?) {
        true => Ok(file),
        false => Err("was replaced while it was opened".to_owned()),
    }
}

/// Returns the reason why a file cannot be read.
fn why(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => "may not be read".to_owned(),
        ErrorKind::Unsupported => "is no text".to_owned(),
        ErrorKind::InvalidInput | ErrorKind::InvalidData if is_packed(path) => "is no whole .gz file".to_owned(),
        ErrorKind::UnexpectedEof if is_packed(path) => "is a .gz file that breaks off".to_owned(),
        _ => format!("cannot be read to its end: {error}"),
    }
}

/// Returns the start and the end of a file in whole lines, with a mark between them for the gap; true if there is a
/// gap.
fn text(path: &Path, metadata: &Metadata, bytes: u64) -> Result<(String, bool), String> {
    let mut file = open(path, metadata)?;
    let ends = match is_packed(path) {
        true => Ends::of_stream(MultiGzDecoder::new(file), bytes),
        false => Ends::of_file(&mut file, bytes).map(Some),
    };
    let ends = ends.map_err(|error| why(path, &error))?.ok_or_else(|| {
        format!("unpacks to more than {} GiB: unpack it, and name the part that counts", UNPACKED_MOST >> 30)
    })?;
    match ends.head.iter().chain(&ends.tail).take(SNIFFED_BYTES).any(|byte| *byte == 0) {
        true => Err("is no text".to_owned()),
        false => Ok(ends.text(bytes)),
    }
}

/// The first and last bytes of a file.
#[derive(Debug, Default)]
struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Bytes of the whole file.
    all: u64,
}

impl Ends {
    /// Returns the bytes for the start, which holds what an engine writes only once.
    fn head_bytes(bytes: u64) -> u64 {
        (bytes / HEAD_SHARE).min(HEAD_MOST)
    }

    fn of_file(file: &mut File, bytes: u64) -> std::io::Result<Self> {
        let mut ends = Self { all: file.metadata()?.len(), ..Self::default() };
        let head = Self::head_bytes(bytes);
        file.take(head).read_to_end(&mut ends.head)?;
        if ends.all > bytes {
            file.seek(SeekFrom::Start(ends.all - (bytes - head)))?;
        }
        file.take(bytes - head).read_to_end(&mut ends.tail)?;
        Ok(ends)
    }

    /// Returns `None` if the stream exceeds [`UNPACKED_MOST`].
    fn of_stream(mut source: impl Read, bytes: u64) -> std::io::Result<Option<Self>> {
        let mut ends = Self::default();
        let head = Self::head_bytes(bytes);
        (&mut source).take(head).read_to_end(&mut ends.head)?;
        ends.all = ends.head.len() as u64;
        let most = usize::try_from(bytes - head).unwrap_or(usize::MAX);
        let (mut last_bytes, mut chunk) = (VecDeque::new(), vec![0; CHUNK]);
        loop {
            let count = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            ends.all += count as u64;
            if ends.all > UNPACKED_MOST {
                return Ok(None);
            }
            last_bytes.extend(&chunk[..count]);
            last_bytes.drain(..last_bytes.len().saturating_sub(most));
        }
        ends.tail = last_bytes.into();
        Ok(Some(ends))
    }

    /// Returns both parts in at most `bytes`; true if there is a gap.
    fn text(self, bytes: u64) -> (String, bool) {
        let Self { mut head, mut tail, all } = self;
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        let read = |raw: Vec<u8>| {
            String::from_utf8(raw).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        };
        if (head.len() + tail.len()) as u64 >= all {
            head.append(&mut tail);
            let text = read(std::mem::take(&mut head));
            if text.len() <= most {
                return (text, false);
            }
            // Invalid UTF-8 grows when it is replaced.
            tail = text.into_bytes();
        }
        // The head's last line and the tail's first line may be incomplete; the mark needs space too.
        let room = usize::try_from(Self::head_bytes(bytes)).unwrap_or(usize::MAX);
        head.truncate(head.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
        let (mut head, tail) = (read(head), read(tail));
        while head.len() > room {
            head.pop();
            head.truncate(head.rfind('\n').map_or(0, |at| at + 1));
        }
        let over = (head.len() + tail.len() + MARK_BYTES).saturating_sub(most);
        let after_line_end =
            |at: usize| tail.as_bytes()[at..].iter().position(|byte| *byte == b'\n').map(|end| at + end + 1);
        let tail = &tail[after_line_end(over.min(tail.len())).unwrap_or(tail.len())..];
        let out = all.saturating_sub((head.len() + tail.len()) as u64);
        (format!("{head}[llm-diagnose: {out} bytes of this log are left out here]\n{tail}"), true)
    }
}

#[cfg(unix)]
fn same(listed: &Metadata, opened: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    opened.is_file() && (listed.dev(), listed.ino()) == (opened.dev(), opened.ino())
}

#[cfg(not(unix))]
fn same(_: &Metadata, opened: &Metadata) -> bool {
    opened.is_file()
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
}

/// Returns the path for display; a path may contain any character.
fn printable(path: &Path) -> String {
    path.to_string_lossy().chars().filter(|c| !c.is_control()).collect()
}

fn name(path: &Path) -> String {
    printable(Path::new(path.file_name().unwrap_or(path.as_os_str())))
}

/// Returns the pod and container if a file's name identifies them unambiguously: `llama-0.log`,
/// `llama-7d9c5b6f4d-x2x9z.log`, and the kubelet's `<pod>_<namespace>_<container>-<64 hexadecimal digits>.log`.
fn pod_and_container(path: &Path) -> (Option<String>, Option<String>) {
    let name = name(path);
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = name.strip_suffix(".log").or_else(|| name.strip_suffix(".txt")).unwrap_or(name);
    let parts: Vec<&str> = stem.split('_').collect();
    if let [pod, _, last] = parts.as_slice() {
        let of_kubelet = |(container, id): (&str, &str)| {
            let fine = id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit()) && is_name(container);
            fine.then(|| container.to_owned())
        };
        return match last.rsplit_once('-').and_then(of_kubelet).filter(|_| is_name(pod)) {
            Some(container) => (Some((*pod).to_owned()), Some(container)),
            None => (None, None),
        };
    }
    let segments: Vec<&str> = stem.split('-').collect();
    let number = |segment: &&str| segment.chars().all(|c| c.is_ascii_digit());
    // The alphabet of Kubernetes' random suffixes: no vowels, no 0, 1 and 3, to avoid words.
    let suffix = |segment: &str| segment.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c));
    let pod = match segments.as_slice() {
        [.., hash, random] if segments.len() > 2 && random.len() == 5 && suffix(random) => {
            (6..=10).contains(&hash.len()) && suffix(hash)
        }
        [_, .., ordinal] => ordinal.len() <= 4 && number(ordinal) && segments.iter().filter(|s| number(s)).count() == 1,
        _ => false,
    };
    ((pod && is_name(stem)).then(|| stem.to_owned()), None)
}

/// Returns true if Kubernetes accepts the name for a pod or container, without dots.
fn is_name(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.len() <= 63 && text.chars().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_start_and_the_end_are_kept_with_what_is_left_out_between_them() {
        let line = |n: u32| format!("line {n:06} ü {}\n", "x".repeat(80));
        let log: String = (0..10_000).map(line).collect();
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("a.log");
        std::fs::write(&plain, &log).unwrap();
        let packed = directory.path().join("b.log.gz");
        let mut gz = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gz, log.as_bytes()).unwrap();
        gz.finish().unwrap();
        for path in [plain, packed] {
            let (logs, missing) = read(std::slice::from_ref(&path), 100_000);
            let Log { text, cut, .. } = &logs[0];
            assert!(*cut && missing.is_empty() && text.len() <= 100_000 && text.len() > 90_000, "{}", text.len());
            assert!(text.starts_with(&line(0)) && text.ends_with(&line(9_999)));
            let mark = text.lines().find(|line| !line.starts_with("line ")).unwrap();
            let left_out = log.len() - (text.len() - mark.len() - 1);
            assert_eq!(mark, format!("[llm-diagnose: {left_out} bytes of this log are left out here]"));
            assert!(text.lines().filter(|line| line.starts_with("line ")).all(|text| text.len() == line(0).len() - 1));
            let (logs, _) = read(&[path], 10 << 20);
            assert!(logs[0].text == log && !logs[0].cut);
        }
    }

    #[test]
    fn only_names_that_leave_no_doubt_tell_a_pod() {
        let id = "0123456789abcdef".repeat(4);
        let kubelet = format!("llama-0_llm_vllm-{id}.log");
        for (name, pod, container) in [
            ("llama-0.log", Some("llama-0"), None),
            ("/var/log/llama-13.log.gz", Some("llama-13"), None),
            ("llama-7d9c5b6f4d-x2x9z.txt", Some("llama-7d9c5b6f4d-x2x9z"), None),
            (&kubelet, Some("llama-0"), Some("vllm")),
            ("vllm.log", None, None),
            ("engine-killed.log", None, None),
            ("0.32-startup.log", None, None),
            ("2026-11-22.log", None, None),
            ("vllm-2026-11-22.log", None, None),
            ("vllm-20261122.log", None, None),
            ("LLAMA-0.log", None, None),
            ("a_b_c.log", None, None),
            ("../-0.log", None, None),
        ] {
            let expected = (pod.map(str::to_owned), container.map(str::to_owned));
            assert_eq!(pod_and_container(Path::new(name)), expected, "{name}");
        }
    }
}
