//! Files of a user's directory that look like data, and are not read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knowledge::playbook::{FOLDERS, Library, Problem, SourceFile, suggestion};
use render::{ENGLISH, own_phrases};

/// The folder of the phrases.
const PHRASES: &str = "phrases";
/// Depth to which folders are looked into: files that are read have at most two folders above them.
const DEPTH: usize = 4;

/// Returns a problem for each of them.
pub fn unread(library: &Library, dir: &Path) -> Vec<Problem> {
    let phrases = own_phrases(dir).unwrap_or_default();
    let files = library.files.values().filter(|file| file.own).chain(&phrases);
    let read: BTreeSet<PathBuf> = files.map(|file| PathBuf::from(&file.path)).collect();
    let mut found = Vec::new();
    list(dir, DEPTH, &mut found);
    let unread = found.into_iter().filter(|path| !read.contains(path));
    unread
        .map(|path| {
            let file = SourceFile::new(path.display().to_string(), String::new());
            let hint = hint(path.strip_prefix(dir).unwrap_or(&path));
            Problem::on_line("files/unread", &file, 1, "the file is not read".to_owned(), Some(hint))
        })
        .collect()
}

/// Returns where a file with this path below the directory should stand.
fn hint(path: &Path) -> String {
    let folders: Vec<String> =
        path.parent().into_iter().flatten().map(|name| name.to_string_lossy().into_owned()).collect();
    let is_phrases = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("ftl"));
    let expected = if is_phrases { "ftl" } else { "yaml" };
    let of_phrases = format!("phrases are read from `{PHRASES}/{ENGLISH}/*.ftl`: messages are in English");
    match folders.first().map(String::as_str) {
        Some(PHRASES) => of_phrases,
        _ if is_phrases => of_phrases,
        Some(folder) if !FOLDERS.contains(&folder) => suggestion(folder, FOLDERS.into_iter().chain([PHRASES]))
            .unwrap_or_else(|| {
                format!("the folders are {} and {PHRASES}; is this the directory that you mean?", FOLDERS.join(", "))
            }),
        Some(folder) if folders.len() > 1 => format!("move it to `{folder}/`: folders in it are not read"),
        _ => format!("let its name end in `.{expected}`"),
    }
}

/// Adds the files that look like data; names with a leading dot are other programs'.
fn list(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let hidden = |path: &PathBuf| path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut paths: Vec<PathBuf> = inside.filter(|path| !hidden(path)).collect();
    paths.sort();
    let is_data = |path: &Path| {
        let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
        end.is_some_and(|end| ["yaml", "yml", "ftl"].contains(&end.as_str()))
    };
    for path in paths {
        if path.is_dir() && depth > 0 {
            list(&path, depth - 1, found);
        } else if is_data(&path) && path.is_file() {
            found.push(path);
        }
    }
}
