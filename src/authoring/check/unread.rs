//! Files of a user's directory that look like data, and are not read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knowledge::playbook::{FOLDERS, Library, Lint, Problem, SourceFile, data_files, suggestion};
use render::{ENGLISH, own_phrases};

/// The folder of the phrases.
const PHRASES: &str = "phrases";

/// Returns a problem for each of them.
pub fn unread(library: &Library, dir: &Path) -> Vec<Problem> {
    let phrases = own_phrases(dir);
    let files = library.files.values().filter(|file| file.own).chain(&phrases.files).map(|file| &file.path);
    // Those that cannot be read are told by that.
    let unreadable = phrases.unreadable.iter().map(|problem| &problem.file);
    let read: BTreeSet<PathBuf> = files.chain(unreadable).map(PathBuf::from).collect();
    let unread = data_files(dir).into_iter().filter(|path| !read.contains(path));
    unread
        .map(|path| {
            let file = SourceFile::new(path.display().to_string(), String::new());
            let hint = hint(path.strip_prefix(dir).unwrap_or(&path));
            Problem::on_line(Lint::FilesUnread, &file, 1, "the file is not read".to_owned(), Some(hint))
        })
        .collect()
}

/// Returns the right place of a file with this path below the directory.
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
