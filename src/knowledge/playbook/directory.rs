//! A user's directory of data: which of its files look like data, and the text of those that are read.

use std::io::Error;
use std::path::{Path, PathBuf};

use super::{Lint, PlaybookKind, Problem, SourceFile, overrides};

/// The catalog's path, as in [`Library::files`].
pub const CATALOG: &str = "signals/catalog.yaml";

/// The path of the healthy fleet, as in [`Library::files`].
pub const HEALTHY_FLEET: &str = "healthy-fleet.yaml";

/// The path of the kinds of pools, as in [`Library::files`].
pub const KINDS: &str = "kinds.yaml";

/// The path of the redaction rules, as in [`Library::files`].
pub const REDACTION: &str = "redaction.yaml";

/// The folders of a directory of data that are read, beside that of the phrases.
pub const FOLDERS: [&str; 8] =
    ["symptoms", "mechanisms", "causes", "logs", "signals", "tables", "tickets", overrides::FOLDER];

/// The files at the top that are no playbooks.
pub(super) const NON_PLAYBOOK_FILES: [&str; 5] = ["health.yaml", HEALTHY_FLEET, KINDS, REDACTION, "report.yaml"];

/// Depth to which folders are looked into: files that are read have at most two folders above them.
const DEPTH: usize = 4;

/// Returns the files that look like data, read or not, in a fixed order. Names with a leading dot are other programs':
/// Kubernetes' copies, an editor's.
pub fn data_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    list(dir, DEPTH, &mut found);
    found
}

fn list(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let is_hidden = |path: &PathBuf| path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = inside.filter(|path| !is_hidden(path)).collect();
    paths.sort();
    for path in paths {
        let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
        if path.is_dir() {
            if depth > 0 {
                list(&path, depth - 1, found);
            }
        } else if end.is_some_and(|end| ["yaml", "yml", "ftl"].contains(&end.as_str())) && path.is_file() {
            found.push(path);
        }
    }
}

/// Returns the files of a directory, each with its path as in [`Library::files`], or the reason why it cannot be read; so
/// for a folder.
pub(super) fn read_dir(dir: &Path) -> Vec<(String, Result<SourceFile, Box<Problem>>)> {
    let mut out = Vec::new();
    // A playbook may stand at the top too.
    for folder in std::iter::once("").chain(FOLDERS) {
        let (place, prefix) = match folder {
            "" => (dir.to_owned(), String::new()),
            folder => (dir.join(folder), format!("{folder}/")),
        };
        if !folder.is_empty() && !place.exists() {
            continue;
        }
        let paths = match paths(&place) {
            Ok(paths) => paths,
            Err(error) => {
                let hint = "`playbooks.dir` must name a readable directory laid out like the shipped one";
                out.push((prefix, Err(unreadable(&place, "the playbook directory", &error, hint))));
                continue;
            }
        };
        for path in paths {
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
            if !name.ends_with(".yaml") || name.starts_with('.') || !path.is_file() {
                continue;
            }
            let place = format!("{prefix}{name}");
            let (name, folder) = library_path(&place);
            let file = std::fs::read_to_string(&path).map_err(|error| {
                unreadable(&path, "the file", &error, "save it as UTF-8, and let the service's user read it")
            });
            let file =
                file.map(|text| SourceFile { own: true, folder, ..SourceFile::new(path.display().to_string(), text) });
            out.push((name.to_owned(), file));
        }
    }
    // Directories have no order. Of two files with one name, the one at the top comes first.
    out.sort_by(|(a, _), (b, _)| a.cmp(b));
    out
}

fn paths(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

fn unreadable(path: &Path, what: &str, error: &Error, hint: &str) -> Box<Problem> {
    let file = SourceFile::new(path.display().to_string(), String::new());
    let message = format!("cannot read {what}: {error}");
    Box::new(Problem::on_line(Lint::FilesUnreadable, &file, 1, message, Some(hint.to_owned())))
}

/// Returns the path of a file as in [`Library::files`]: that of a playbook or its test has no folder, which is returned
/// beside it.
pub(super) fn library_path(path: &str) -> (&str, Option<PlaybookKind>) {
    let without = |kind: PlaybookKind| Some((path.strip_prefix(kind.folder())?.strip_prefix('/')?, Some(kind)));
    let kind_and_path =
        PlaybookKind::ALL.into_iter().find_map(without).filter(|(name, _)| !NON_PLAYBOOK_FILES.contains(name));
    kind_and_path.unwrap_or((path, None))
}
