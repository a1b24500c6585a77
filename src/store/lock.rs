//! The lock of a state directory: two services on one SQLite store would post everything twice.
//!
//! It is a lock of the kernel, so it ends with the process in any case. Read-only commands do not take it.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::StoreError;

/// The lock file in the state directory; it remains after the lock is released.
const NAME: &str = "llm-diagnose.lock";

/// The lock of a state directory; released on drop.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock of an existing directory.
    ///
    /// # Errors
    /// When another process holds it, or the file cannot be created or locked.
    pub fn take(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(NAME);
        let failed = |error| StoreError::File { path: path.clone(), error };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The process id is only a hint for the user.
                let _ = file.read_to_string(&mut holder);
                return Err(StoreError::Locked { directory: directory.to_owned(), process: holder.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }
}
