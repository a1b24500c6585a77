//! `doctor`'s checks of the bundles: their directory, the key of their links.

use std::path::{Path, PathBuf};

use super::{Findings, writable};
use bundle::{directory, public_key};
use service::check::Level;
use service::config::BundleConfig;
use service::known_signer;

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
    match known_signer(settings.link_key_file.as_deref(), state) {
        Ok(signer) => {
            let key = signer.as_ref().and_then(public_key);
            key.iter().for_each(|key| findings.ok("bundle key", format!("`bundle verify --key {key}`")));
        }
        // The service's own key may be readable by its user alone.
        Err(_) if settings.link_key_file.is_none() => {}
        Err(error) => {
            let todo = "make the file of `bundle.link_key_file` readable and not empty, the same at every replica";
            findings.say("bundle links", Level::Fail, format!("{error:#}"), todo);
        }
    }
}
