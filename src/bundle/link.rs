//! Expiring download links of bundles, valid for anyone who has them: HMAC-SHA256 over name and expiry.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::Name;
use knowledge::clock;

/// The file of the generated key.
const KEY_FILE: &str = "bundle-links.key";
/// Bytes of a generated key; a configured key has at least half as many.
const KEY_BYTES: usize = 32;
/// Domain separation: a signature of the same key for another purpose is not valid here.
const PURPOSE: &str = "llm-diagnose bundle link v1";

/// The reason why a link is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The signature is not ours, or belongs to another name or expiry.
    Forged,
    /// The link expired at this time.
    Expired(Timestamp),
}

/// The error for a key of download links with too few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key of download links has {0} bytes: at least 16 are needed")]
pub struct ShortKey(pub usize);

/// Creates and verifies links.
#[derive(Debug)]
pub struct Links {
    key: hmac::Key,
    public_url: String,
    good_for: Duration,
}

impl Links {
    /// Creates a signer with a key of at least 16 bytes. With an empty `public_url`, no links can be created.
    ///
    /// # Errors
    /// If the key is too short.
    pub fn new(key: &[u8], public_url: &str, good_for: Duration) -> Result<Self, ShortKey> {
        if key.len() < KEY_BYTES / 2 {
            return Err(ShortKey(key.len()));
        }
        let public_url = public_url.trim_end_matches('/').to_owned();
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), public_url, good_for })
    }

    /// Returns a URL of the bundle and its expiry; `None` without a `public_url`.
    pub fn link(&self, name: &Name, now: Timestamp) -> Option<(String, Timestamp)> {
        if self.public_url.is_empty() {
            return None;
        }
        let until = clock::after(now, self.good_for);
        let expires = until.as_second();
        let signature = self.sign(&signed(name, expires));
        Some((format!("{}/bundles/{name}?expires={expires}&signature={signature}", self.public_url), until))
    }

    /// Signs a text, which begins with its purpose: a signature for one purpose is not valid for another.
    pub fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, text.as_bytes()))
    }

    /// Returns true if the signature of a text is ours; compares in constant time.
    pub fn has_signed(&self, text: &str, signature: &str) -> bool {
        let signature = URL_SAFE_NO_PAD.decode(signature);
        signature.is_ok_and(|signature| hmac::verify(&self.key, text.as_bytes(), &signature).is_ok())
    }

    /// Checks that a link is valid for the bundle at `now`; compares in constant time.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn check(&self, name: &Name, expires: &str, signature: &str, now: Timestamp) -> Result<(), Refused> {
        let expires: i64 = expires.parse().map_err(|_| Refused::Forged)?;
        if !self.has_signed(&signed(name, expires), signature) {
            return Err(Refused::Forged);
        }
        let until = Timestamp::from_second(expires).map_err(|_| Refused::Forged)?;
        if now > until { Err(Refused::Expired(until)) } else { Ok(()) }
    }
}

fn signed(name: &Name, expires: i64) -> String {
    format!("{PURPOSE}\n{name}\n{expires}")
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

    fn name(text: &str) -> Name {
        Name::read(text).unwrap()
    }

    #[test]
    fn a_link_opens_one_bundle_until_its_end_and_nothing_else() {
        let links = Links::new(&[7; 32], "https://diagnose.example.com/", Duration::from_secs(60)).unwrap();
        let now: Timestamp = "2026-11-20T03:00:00Z".parse().unwrap();
        let bundle = name("llm-diagnose-01ABC-20261120T025900Z.zip");
        let (link, until) = links.link(&bundle, now).unwrap();
        let (page, query) = link.split_once('?').unwrap();
        assert_eq!(page, "https://diagnose.example.com/bundles/llm-diagnose-01ABC-20261120T025900Z.zip");
        let (expires, signature) = query.split_once('&').unwrap();
        let (expires, signature) = (&expires["expires=".len()..], &signature["signature=".len()..]);
        assert_eq!(links.check(&bundle, expires, signature, now), Ok(()));
        assert_eq!(links.check(&bundle, expires, signature, until), Ok(()));
        let late = clock::after(until, Duration::from_secs(1));
        assert_eq!(links.check(&bundle, expires, signature, late), Err(Refused::Expired(until)));
        let other = name("llm-diagnose-01ABD-20261120T025900Z.zip");
        assert_eq!(links.check(&other, expires, signature, now), Err(Refused::Forged));
        let longer = (until.as_second() + 60).to_string();
        for (expires, signature) in
            [(longer.as_str(), signature), (expires, ""), (expires, "AAAA"), ("soon", signature)]
        {
            assert_eq!(links.check(&bundle, expires, signature, now), Err(Refused::Forged), "{expires} {signature}");
        }
        let foreign = Links::new(&[8; 32], "https://diagnose.example.com", Duration::from_secs(60)).unwrap();
        assert_eq!(foreign.check(&bundle, expires, signature, now), Err(Refused::Forged));
        assert!(Links::new(b"short", "", Duration::ZERO).is_err());
        assert_eq!(Links::new(&[7; 32], "", Duration::ZERO).unwrap().link(&bundle, now), None);
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        let key = own_key(state.path()).unwrap();
        assert_eq!(own_key(state.path()).unwrap(), key);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(state.path().join(KEY_FILE)).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert_ne!(own_key(tempfile::tempdir().unwrap().path()).unwrap(), key);
    }

    #[test]
    fn names_that_are_not_ours_are_none() {
        for text in [
            "",
            "../etc/passwd",
            "llm-diagnose-..-20261120T025900Z.zip",
            "llm-diagnose-a/b-20261120T025900Z.zip",
            "llm-diagnose-a\0-20261120T025900Z.zip",
            "llm-diagnose--20261120T025900Z.zip",
            "llm-diagnose-a-20261120T025900Z.zip.part",
            "llm-diagnose-a-20261120T025900.zip",
            "llm-diagnose-a-2026112T025900Z.zip",
            "llm-diagnose-a-20261340T025900Z.zip",
            "bundle-links.key",
        ] {
            assert_eq!(Name::read(text), None, "{text:?}");
        }
        let long = format!("llm-diagnose-{}-20261120T025900Z.zip", "a".repeat(65));
        assert_eq!(Name::read(&long), None);
        let text = "llm-diagnose-high-ttft-20261120T025900Z.zip";
        assert_eq!(name(text).to_string(), text);
        assert_eq!(name(text).of, "high-ttft");
    }
}
