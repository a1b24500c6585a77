//! Logs from files that somebody names: plain or `.gz`, or directories of them.
//!
//! A name may lead anywhere, so only ordinary files are opened: no symbolic links, pipes or devices. Of a file that is
//! larger than its share the end is kept, for what happened last is at the end.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::Log;

/// Files of one directory that are read at most.
const FILES_MOST: usize = 256;
/// How far a `.gz` is unpacked: its end is behind all the rest, and a few bytes may unpack to any size.
const UNPACKED_MOST: u64 = 1 << 30;
/// About how much smaller a packed log is; only decides in which order shares are given out.
const PACKED: u64 = 10;
/// Of a file, where it is looked whether it is text.
const LOOKED_AT: usize = 8 << 10;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Reads these files, and the `.log`, `.txt` and `.gz` files of these directories, of all together at most `bytes`.
///
/// The logs come in the order of `paths`, those of a directory by name; beside them what could not be read, and why.
pub fn read(paths: &[PathBuf], bytes: u64) -> (Vec<Log>, Vec<(String, String)>) {
    let mut missing = Vec::new();
    let mut found: Vec<(PathBuf, Metadata)> = Vec::new();
    for path in paths {
        match look(path) {
            Ok(meta) if meta.is_dir() => directory(path, &mut found, &mut missing),
            Ok(meta) => found.push((path.clone(), meta)),
            Err(why) => missing.push((shown(path), why)),
        }
    }
    // Small ones first, each with an equal share of what is left: what they do not need goes to the large ones.
    let mut turns: Vec<usize> = (0..found.len()).collect();
    turns.sort_by_key(|i| found.get(*i).map(|(path, meta)| meta.len() * if is_packed(path) { PACKED } else { 1 }));
    let (mut left, mut files) = (bytes, found.len() as u64);
    let mut logs: Vec<(usize, Log)> = Vec::new();
    for i in turns {
        let Some((path, meta)) = found.get(i) else { continue };
        let share = left / files.max(1);
        files = files.saturating_sub(1);
        match text(path, meta, share) {
            Ok((text, cut)) => {
                left = left.saturating_sub(text.len() as u64);
                let (pod, container) = whose(path);
                logs.push((i, Log { source: name(path), pod, container, previous: false, text, cut }));
            }
            Err(why) => missing.push((shown(path), why)),
        }
    }
    logs.sort_by_key(|(i, _)| *i);
    (logs.into_iter().map(|(_, log)| log).collect(), missing)
}

/// What stands at a path, when it is something to read.
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

fn directory(path: &Path, found: &mut Vec<(PathBuf, Metadata)>, missing: &mut Vec<(String, String)>) {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => return missing.push((shown(path), format!("is a directory that cannot be listed: {error}"))),
    };
    let is_log = |path: &PathBuf| {
        let ending = path.extension().map(|e| e.to_ascii_lowercase());
        ending.is_some_and(|ending| ["log", "txt", "gz"].iter().any(|known| ending == *known))
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_log).collect();
    files.sort();
    if files.is_empty() {
        missing.push((shown(path), "has no file that ends in .log, .txt or .gz".to_owned()));
    }
    if files.len() > FILES_MOST {
        let why = format!("has {} logs, of which the first {FILES_MOST} by name were read", files.len());
        missing.push((shown(path), why));
        files.truncate(FILES_MOST);
    }
    for file in files {
        match look(&file) {
            Ok(meta) if meta.is_dir() => {}
            Ok(meta) => found.push((file, meta)),
            Err(why) => missing.push((shown(&file), why)),
        }
    }
}

/// The end of a file, in whole lines; true when its beginning is missing.
fn text(path: &Path, looked: &Metadata, bytes: u64) -> Result<(String, bool), String> {
    let say = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => "may not be read".to_owned(),
        ErrorKind::InvalidInput | ErrorKind::InvalidData if is_packed(path) => "is no whole .gz file".to_owned(),
        ErrorKind::UnexpectedEof if is_packed(path) => "is a .gz file that breaks off".to_owned(),
        _ => format!("cannot be read to its end: {error}"),
    };
    let mut file = File::open(path).map_err(say)?;
    let opened = file.metadata().map_err(say)?;
    if !same(looked, &opened) {
        return Err("was replaced while it was opened".to_owned());
    }
    let (mut raw, mut cut) = if is_packed(path) {
        tail(MultiGzDecoder::new(file), bytes).map_err(say)?.ok_or_else(|| {
            format!("unpacks to more than {} GiB: unpack it, and name the part that counts", UNPACKED_MOST >> 30)
        })?
    } else {
        let cut = opened.len() > bytes;
        if cut {
            file.seek(SeekFrom::End(-i64::try_from(bytes).unwrap_or(i64::MAX))).map_err(say)?;
        }
        let mut raw = Vec::new();
        file.take(bytes).read_to_end(&mut raw).map_err(say)?;
        (raw, cut)
    };
    if raw.iter().take(LOOKED_AT).any(|byte| *byte == 0) {
        return Err("is no text".to_owned());
    }
    if cut {
        // The first line is a piece of one.
        raw.drain(..raw.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    }
    let mut text =
        String::from_utf8(raw).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    // Bytes that are no text grow when they are replaced.
    while text.len() as u64 > bytes {
        let over = text.len() - usize::try_from(bytes).unwrap_or(usize::MAX);
        let from = text.bytes().skip(over).position(|byte| byte == b'\n').map_or(text.len(), |at| over + at + 1);
        text.drain(..from);
        cut = true;
    }
    Ok((text, cut))
}

/// The last `bytes` of what unpacks, and whether there was more; none when it does not come to an end.
fn tail(mut source: impl Read, bytes: u64) -> std::io::Result<Option<(Vec<u8>, bool)>> {
    let most = usize::try_from(bytes).unwrap_or(usize::MAX);
    let (mut kept, mut all) = (VecDeque::new(), 0_u64);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match source.read(&mut chunk) {
            Ok(0) => return Ok(Some((kept.into(), all > bytes))),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        all += count as u64;
        if all > UNPACKED_MOST {
            return Ok(None);
        }
        kept.extend(&chunk[..count]);
        kept.drain(..kept.len().saturating_sub(most));
    }
}

#[cfg(unix)]
fn same(looked: &Metadata, opened: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    opened.is_file() && (looked.dev(), looked.ino()) == (opened.dev(), opened.ino())
}

#[cfg(not(unix))]
fn same(_: &Metadata, opened: &Metadata) -> bool {
    opened.is_file()
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
}

/// The path as it is shown; a name may hold anything.
fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().filter(|c| !c.is_control()).collect()
}

fn name(path: &Path) -> String {
    shown(Path::new(path.file_name().unwrap_or(path.as_os_str())))
}

/// The pod and container that a file's name tells without doubt: `llama-0.log`, `llama-7d9c5b6f4d-x2x9z.log`, and the
/// kubelet's `<pod>_<namespace>_<container>-<64 hexadecimal digits>.log`.
fn whose(path: &Path) -> (Option<String>, Option<String>) {
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
    // What Kubernetes makes suffixes of: no vowels, no 0, 1 and 3, so that they spell nothing.
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

/// A name as Kubernetes takes it for pods and containers, without dots.
fn is_name(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.len() <= 63 && text.chars().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(whose(Path::new(name)), expected, "{name}");
        }
    }
}
