//! The files that commands read, or standard input.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, ensure};

/// Reads a file, or standard input for `-`, as text without a byte order mark, and returns its name in messages and the
/// text. `what` is its content.
///
/// # Errors
/// If it cannot be read, is no UTF-8, or has more than `most` bytes.
pub(super) fn text(path: &str, what: &str, most: u64) -> anyhow::Result<(String, String)> {
    let name = if path == "-" { "standard input" } else { path };
    let failed = || format!("cannot read {what} from {name}");
    let source: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(File::open(path).with_context(failed)?),
    };
    let mut text = String::new();
    source.take(most + 1).read_to_string(&mut text).with_context(failed)?;
    ensure!(text.len() as u64 <= most, "{name} is longer than {} MiB: pass less of it", most >> 20);
    // Editors on Windows begin a file with a byte order mark.
    Ok((name.to_owned(), text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}
