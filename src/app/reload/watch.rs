//! Watches the files of a configuration by their content: Kubernetes changes a mounted file by exchanging a link.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::digest::{Context, SHA256};

use super::Settings;
use knowledge::playbook::data_files;

/// The digest of all files of a configuration.
pub(super) type ContentDigest = Vec<u8>;

/// Completes when the files differ from `seen`; they are read every `interval`, and never if that is zero.
pub(super) async fn changed(interval: Duration, settings: &Settings, seen: &ContentDigest) {
    if interval.is_zero() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(interval).await;
        if digest(settings).await != *seen {
            return;
        }
    }
}

/// Reads the configuration file, the secrets and the playbooks.
pub(super) async fn digest(settings: &Settings) -> ContentDigest {
    let mut files: Vec<PathBuf> = settings.file.iter().cloned().collect();
    files.extend(settings.config.secret_files().into_iter().map(Path::to_path_buf));
    let playbooks = settings.config.playbooks.dir.clone();
    let reading = tokio::task::spawn_blocking(move || {
        // Also those that are not read: that they are there is told, and must end when they are gone.
        files.extend(playbooks.iter().flat_map(|directory| data_files(directory)));
        digest_of(&files)
    });
    // A reading that panicked looks like a change, and the reload then tells what is wrong.
    reading.await.unwrap_or_default()
}

fn digest_of(files: &[PathBuf]) -> ContentDigest {
    let mut digest = Context::new(&SHA256);
    for path in files {
        // Lengths keep two files apart from one with both contents.
        let name = path.as_os_str().as_encoded_bytes();
        let content = std::fs::read(path);
        let length = content.as_ref().map_or(u64::MAX, |content| content.len() as u64);
        digest.update(&(name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update(&length.to_le_bytes());
        digest.update(&content.unwrap_or_default());
    }
    digest.finish().as_ref().to_vec()
}
