//! The seal of a bundle: `manifest.json` has a checksum of every file, the playbooks and the program that made it;
//! `manifest.sig` is its signature by Ed25519, which needs no secret to be verified.

use std::collections::BTreeMap;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use knowledge::playbook::Library;
use redact::Redactor;
use service::Signer;

/// The entry with the checksums.
pub(super) const MANIFEST: &str = "manifest.json";
/// The entry with the signature.
pub(super) const SIGNATURE: &str = "manifest.sig";
/// The version of the manifest; an incompatible change gets a new name.
const SCHEMA: &str = "llm-diagnose/manifest/v1";
/// The purpose of the derived key, and of its signatures.
const PURPOSE: &str = "llm-diagnose bundle manifest v1\n";

/// The content of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    schema: String,
    /// The version of the program, with its commit if known.
    pub program: String,
    /// The SHA-256 of every file of playbooks and other data that the diagnosis could read, by its path.
    pub playbooks: BTreeMap<String, String>,
    /// The SHA-256 of every other entry of the bundle, by its name.
    pub files: BTreeMap<String, String>,
}

/// The content of `manifest.sig`, in URL-safe base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The public key, as `doctor` prints it.
    pub public_key: String,
    signature: String,
}

impl Manifest {
    /// Describes a bundle of these files, made by this program with these playbooks.
    pub(super) fn new(library: &Library, redactor: &Redactor, files: BTreeMap<String, String>) -> Self {
        let playbooks = playbooks(library).into_iter().map(|(name, hash)| (redactor.path(&name), hash)).collect();
        Self { schema: SCHEMA.to_owned(), program: service::version(), playbooks, files }
    }

    /// Reads a manifest of a known version; `None` for anything else.
    pub(super) fn read(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok().filter(|manifest: &Self| manifest.schema == SCHEMA)
    }

    /// Returns the names of the playbooks that differ from those of a library, or that only one of them has.
    pub fn other_playbooks(&self, library: &Library) -> Vec<String> {
        let own = playbooks(library);
        let names = self.playbooks.keys().chain(own.keys().filter(|name| !self.playbooks.contains_key(*name)));
        names.filter(|name| self.playbooks.get(*name) != own.get(*name)).cloned().collect()
    }
}

impl Signature {
    /// Signs the bytes of a manifest; `None` if the key cannot be derived.
    pub(super) fn of(manifest: &[u8], signer: &Signer) -> Option<Self> {
        let pair = key_pair(signer)?;
        let signature = URL_SAFE_NO_PAD.encode(pair.sign(&signed(manifest)));
        Some(Self { public_key: URL_SAFE_NO_PAD.encode(pair.public_key()), signature })
    }

    /// Returns true if it is the signature of these bytes by its public key.
    pub(super) fn fits(&self, manifest: &[u8]) -> bool {
        let decoded = (URL_SAFE_NO_PAD.decode(&self.public_key), URL_SAFE_NO_PAD.decode(&self.signature));
        let (Ok(key), Ok(signature)) = decoded else { return false };
        UnparsedPublicKey::new(&ED25519, key).verify(&signed(manifest), &signature).is_ok()
    }
}

/// Returns the public key of the bundles that this signer seals; `None` if it cannot be derived.
pub fn public_key(signer: &Signer) -> Option<String> {
    key_pair(signer).map(|pair| URL_SAFE_NO_PAD.encode(pair.public_key()))
}

/// Derives the key from that of the links, so that all replicas with one `bundle.link_key_file` sign with one key.
fn key_pair(signer: &Signer) -> Option<Ed25519KeyPair> {
    Ed25519KeyPair::from_seed_unchecked(&signer.derive(PURPOSE)).ok()
}

fn signed(manifest: &[u8]) -> Vec<u8> {
    [PURPOSE.as_bytes(), manifest].concat()
}

/// Returns the SHA-256 of each file of the library, and of the promises that the configuration adds. Verdict tests are no
/// input of a diagnosis; files that are left out have their path on this machine as a name.
fn playbooks(library: &Library) -> BTreeMap<String, String> {
    let used = library.files.iter().filter(|(name, file)| !name.ends_with(".test.yaml") && **name != file.path);
    let mut hashes: BTreeMap<String, String> = used.map(|(name, file)| (name.clone(), hash(&file.text))).collect();
    if !library.promised.is_empty() {
        hashes.insert("slo".to_owned(), hash(&format!("{:?}", library.promised)));
    }
    hashes
}

fn hash(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Computes the SHA-256 of the bytes that are written to it.
#[derive(Clone)]
pub(super) struct Hashing(Context);

impl Default for Hashing {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hashing {
    /// Returns the checksum in hexadecimal.
    pub(super) fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_fits_one_manifest_and_one_key() {
        let ours = Signer::new(&[7; 32]).unwrap();
        let signature = Signature::of(b"{}", &ours).unwrap();
        assert!(signature.fits(b"{}") && !signature.fits(b"{ }"));
        assert_eq!(Some(&signature.public_key), public_key(&ours).as_ref());
        let other = Signature::of(b"{}", &Signer::new(&[8; 32]).unwrap()).unwrap();
        assert_ne!(other.public_key, signature.public_key);
        assert!(!Signature { public_key: other.public_key, ..signature }.fits(b"{}"));
    }

    #[test]
    fn another_text_of_a_playbook_is_named_and_a_verdict_test_is_not() {
        let library = knowledge::playbook::load(None).unwrap();
        let manifest = Manifest::new(&library, &Redactor::off(), BTreeMap::new());
        assert!(manifest.other_playbooks(&library).is_empty());
        let mut other = library.clone();
        for name in ["high-ttft.yaml", "high-ttft.test.yaml"] {
            other.files.get_mut(name).unwrap().text = "another".into();
        }
        other.files.remove("kinds.yaml").unwrap();
        assert_eq!(manifest.other_playbooks(&other), ["high-ttft.yaml", "kinds.yaml"]);
    }
}
