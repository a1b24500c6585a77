//! Standard output, and files that a command writes.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};

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

/// True after standard output could not be written.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output. A reader that has gone, such as `head`, is no error. A full disk is: nothing is printed
/// after it, and the program ends with an error, because something is missing.
pub(super) fn print(text: std::fmt::Arguments<'_>) {
    if failed() {
        return;
    }
    let mut stdout = anstream::stdout();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        anstream::eprintln!("error: cannot write to standard output: {error}");
        FAILED.store(true, Ordering::Relaxed);
    }
}

/// Returns true if something could not be printed.
pub(super) fn failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Checks that a path is free or a file that may be replaced.
///
/// # Errors
/// When something else has this name: a directory, a device, a pipe, a symbolic link to nothing.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            bail!("{} is no file: name a file, or `-` for standard output", path.display())
        }
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
            bail!("{} is a symbolic link to nothing: remove it, or create its target", path.display())
        }
        _ => Ok(()),
    }
}

/// Writes a file as a whole: an error leaves the old one. A symbolic link stays one. Permissions are kept; a new file
/// has those that the umask leaves.
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
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let create = |part: &Path| File::options().write(true).create_new(true).mode(0o666).open(part);
    let mut part = tempfile::Builder::new().prefix(".").make_in(dir, create)?;
    if let Some(permissions) = permissions {
        part.as_file().set_permissions(permissions)?;
    }
    part.as_file_mut().write_all(text)?;
    // Some file systems report a full disk only here.
    part.as_file().sync_all()?;
    part.persist(&path)?;
    Ok(())
}
