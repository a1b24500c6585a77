//! `doctor`'s checks of the bundles: their directory, the key of their links.

use std::path::{Path, PathBuf};

use super::{Findings, writable};
use bundle::directory;
use service::check::Level;
use service::config::{BundleConfig, secret};

pub(super) fn check(findings: &mut Findings, settings: &BundleConfig, state: &Path) {
    let dir = match settings.dir.as_os_str().is_empty() {
        true => state.join("bundles"),
        false => settings.dir.clone(),
    };
    let path = dir.display();
    let nearest: PathBuf = match writable(&dir) {
        Ok(nearest) => nearest,
        Err(error) => {
            let todo = "let the service's user write there, or set `bundle.dir` to a directory that it may write";
            return findings.say("bundles", Level::Fail, format!("{path} cannot be written: {error}"), todo);
        }
    };
    match directory::room(&nearest, settings.min_free_bytes) {
        Ok(room) => {
            findings.ok("bundles", format!("{path} can be written and has room for {} MiB", room >> 20));
        }
        Err(error) => {
            let todo = "free the disk, or lower `bundle.min_free_bytes`";
            findings.say("bundles", Level::Warn, error.to_string(), todo);
        }
    }
    if let Some(file) = &settings.link_key_file
        && let Err(error) = secret(file)
    {
        let todo = "make the file of `bundle.link_key_file` readable and not empty, the same at every replica";
        findings.say("bundle links", Level::Fail, format!("{error:#}"), todo);
    }
}
