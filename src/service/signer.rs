//! Signatures of texts that come back: download links, forms of the pages. HMAC-SHA256.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::ExposeSecret;

use crate::config::secret;

/// The file of the generated key.
const KEY_FILE: &str = "bundle-links.key";
/// Bytes of a generated key; a configured key has at least half as many.
const KEY_BYTES: usize = 32;

/// The error for a key with too few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key of download links has {0} bytes: at least 16 are needed")]
pub struct ShortKey(pub usize);

/// Signs texts, and knows its signatures again.
#[derive(Debug)]
pub struct Signer(hmac::Key);

impl Signer {
    /// Creates a signer with a key of at least 16 bytes.
    ///
    /// # Errors
    /// If the key is too short.
    pub fn new(key: &[u8]) -> Result<Self, ShortKey> {
        match key.len() {
            bytes if bytes < KEY_BYTES / 2 => Err(ShortKey(bytes)),
            _ => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, key))),
        }
    }

    /// Signs a text, which begins with its purpose: a signature for one purpose is not valid for another.
    pub fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, text.as_bytes()))
    }

    /// Derives the 32 bytes of another key, one for each purpose.
    pub fn derive(&self, purpose: &str) -> [u8; KEY_BYTES] {
        let tag = hmac::sign(&self.0, purpose.as_bytes());
        // The output of HMAC-SHA256 is as long as a key.
        std::array::from_fn(|i| tag.as_ref().get(i).copied().unwrap_or_default())
    }

    /// Returns true if the signature of a text is ours; compares in constant time.
    pub fn has_signed(&self, text: &str, signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature);
        signature.is_ok_and(|signature| hmac::verify(&self.0, text.as_bytes(), &signature).is_ok())
    }
}

/// Returns the configured signer; `None` if its key is still to be made in the state directory.
///
/// # Errors
/// If the key cannot be read, or is too short.
pub fn known_signer(link_key_file: Option<&Path>, state_dir: &Path) -> anyhow::Result<Option<Signer>> {
    let key = match link_key_file {
        Some(file) => secret(file)?.expose_secret().as_bytes().to_vec(),
        None if !state_dir.join(KEY_FILE).exists() => return Ok(None),
        None => own_key(state_dir).context("cannot read the key of download links")?,
    };
    Ok(Some(Signer::new(&key)?))
}

/// Returns the key in the state directory, created at the first call, readable by its owner only.
///
/// # Errors
/// If it can be neither read nor created.
pub fn own_key(state_dir: &Path) -> io::Result<Vec<u8>> {
    let path = state_dir.join(KEY_FILE);
    match fs::read(&path) {
        Ok(key) if key.len() >= KEY_BYTES => return Ok(key),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        // A partly written key: links signed with it become invalid.
        _ => {}
    }
    let mut key = vec![0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    fs::create_dir_all(state_dir)?;
    let mut file: File = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(&key)?;
    file.sync_all()?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        let key = own_key(state.path()).unwrap();
        assert_eq!(own_key(state.path()).unwrap(), key);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(state.path().join(KEY_FILE)).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Signer::new(b"short").unwrap_err(), ShortKey(5));
        assert_ne!(own_key(tempfile::tempdir().unwrap().path()).unwrap(), key);
    }
}
