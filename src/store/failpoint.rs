//! Failpoints: named stages of the work, at which a test ends the process as abruptly as `kill -9` does.
//!
//! A build without debug assertions, as every release is, contains none of them and reads no environment variable. Own
//! code instead of the `fail` crate, which needs a second build with its feature on.

use std::fs;
use std::path::Path;

/// The environment variable with the path of a directory, in which a test makes a file named after each armed stage.
const DIRECTORY: &str = "LLM_DIAGNOSE_FAILPOINTS";

/// Ends the process without any cleanup if the stage is armed. Its file is removed first, so that a stage ends one
/// process.
pub fn failpoint(stage: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    if fs::remove_file(Path::new(&directory).join(stage)).is_ok() {
        std::process::abort();
    }
}
