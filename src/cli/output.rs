//! Standard output, and files that a command writes.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::USAGE;

/// Prints to standard output without a line break; the arguments are those of `format!`.
macro_rules! out {
    ($($argument:tt)*) => {
        $crate::cli::output::print(format_args!($($argument)*))
    };
}

/// Prints a line to standard output; the arguments are those of `format!`.
macro_rules! outln {
    ($($argument:tt)*) => {
        $crate::cli::output::print(format_args!("{}\n", format_args!($($argument)*)))
    };
}

pub(super) use {out, outln};

/// Prints to standard output. A reader that has gone, such as `head`, is no error; a full disk ends the program with a
/// message, because what follows would be missing without a trace.
pub(super) fn print(text: std::fmt::Arguments<'_>) {
    let mut stdout = anstream::stdout();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        anstream::eprintln!("error: cannot write to standard output: {error}");
        std::process::exit(USAGE.into());
    }
}

/// Checks that a path is free or a file that may be replaced.
///
/// # Errors
/// When something else has this name: a directory, a device, a pipe.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    if !metadata.is_file() {
        bail!("{} is no file: name a file, or `-` for standard output", path.display());
    }
    Ok(())
}

/// Writes a file as a whole: an error leaves the old one. A symbolic link stays one, and permissions are kept.
///
/// # Errors
/// When the path is no file, or it cannot be written.
pub(super) fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    check(path)?;
    replace(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let (path, permissions) = match fs::canonicalize(path) {
        // A file that must not be written is not replaced either.
        Ok(path) => {
            let permissions = File::options().write(true).open(&path)?.metadata()?.permissions();
            (path, Some(permissions))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (path.to_owned(), None),
        Err(error) => return Err(error),
    };
    let mut part = path.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    // Created for its owner alone until its permissions are known.
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    let written = file
        .set_permissions(permissions.unwrap_or_else(|| Permissions::from_mode(0o644)))
        .and_then(|()| file.write_all(text))
        // Some file systems report a full disk only here.
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&part, &path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
