//! Files and folders of a user's directory that look like data, and are not read.

use std::path::{Path, PathBuf};

use knowledge::playbook::{FOLDERS, Problem, SourceFile, suggestion};

/// The folder of the phrases, which have lints of their own.
const PHRASES: &str = "phrases";

/// Returns a problem for each of them.
pub fn unread(dir: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |path: &Path, what: &str, hint: String| {
        let file = SourceFile::new(path.display().to_string(), String::new());
        problems.push(Problem::on_line("files/unread", &file, 1, format!("{what} is not read"), Some(hint)));
    };
    let is_data = |path: &PathBuf| {
        let is_file = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        is_file || (path.is_dir() && FOLDERS.contains(&name(path).as_str()))
    };
    let known = entries(dir).into_iter().filter(|path| FOLDERS.contains(&name(path).as_str()));
    for path in std::iter::once(dir.to_owned()).chain(known).flat_map(|folder| entries(&folder)) {
        if path.is_file() && path.extension().is_some_and(|end| end == "yml") {
            say(&path, "it", "let its name end in `.yaml`".to_owned());
        }
    }
    for path in entries(dir).into_iter().filter(|path| path.is_dir()) {
        let (name, inside) = (name(&path), entries(&path));
        if name == PHRASES || FOLDERS.contains(&name.as_str()) || !inside.iter().any(is_data) {
            continue;
        }
        let hint = match suggestion(&name, FOLDERS.into_iter().chain([PHRASES])) {
            Some(hint) => hint,
            None if inside.iter().any(|path| path.is_dir()) => "is it the directory that you mean?".to_owned(),
            None => format!("the folders are {} and {PHRASES}", FOLDERS.join(", ")),
        };
        say(&path, &format!("the folder `{name}`"), hint);
    }
    problems
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns what a folder holds, by name; names with a leading dot are other programs'.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = inside.filter(|path| !name(path).starts_with('.')).collect();
    paths.sort();
    paths
}
