//! Examination of a bundle: is every file as it was sealed, and does its diagnosis come out again?

use std::collections::BTreeMap;
use std::path::Path;

use zip::read::ZipArchive;

use super::OpenError;
use super::unpack::{Bad, SERIES_BYTES, archive, copy};
use crate::seal::{Hashing, MANIFEST, Manifest, SIGNATURE, Signature};
use findings::Diagnosis;

/// Maximum bytes of the manifest: it has some 100 bytes for each entry.
const MANIFEST_BYTES: u64 = 8 << 20;

/// A difference between the entries of a bundle and its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Its bytes are others.
    Changed(String),
    /// It cannot be read, with the reason.
    Unreadable(String, String),
    /// It is not there.
    Missing(String),
    /// The manifest does not name it.
    Added(String),
}

/// The result of an examination.
#[derive(Debug)]
pub struct Examined {
    /// The manifest.
    pub manifest: Manifest,
    /// The differences between manifest and entries.
    pub faults: Vec<Fault>,
    /// The public key, and whether its signature fits; `None` if the bundle is not signed.
    pub signed_by: Option<(String, bool)>,
}

/// Compares every entry with the manifest, and the manifest with its signature; `stopped` ends that early.
///
/// # Errors
/// If it is no bundle, has no manifest, or has a harmful entry.
pub fn examine(file: &Path, stopped: &dyn Fn() -> bool) -> Result<Examined, OpenError> {
    let path = file.display().to_string();
    let mut zip = archive(file)?;
    // Other programs may read what the list of entries does not show.
    let hidden =
        |error: zip::result::ZipError| OpenError::Harmful(path.clone(), format!("it has hidden entries: {error}"));
    zip.validate_header_consistency().map_err(hidden)?;
    let mut small = |name: &str| -> Result<Option<Vec<u8>>, OpenError> {
        let Ok(entry) = zip.by_name(name) else { return Ok(None) };
        let mut bytes = Vec::new();
        match copy(entry, &mut bytes, MANIFEST_BYTES, stopped) {
            Ok(_) => Ok(Some(bytes)),
            Err(Bad::Harm(why)) => Err(OpenError::Harmful(path.clone(), format!("`{name}` {why}"))),
            Err(Bad::Broken(why)) => Err(OpenError::NoBundle(path.clone(), format!("`{name}`: {why}"))),
        }
    };
    let bad = |why: &str| OpenError::NoBundle(path.clone(), format!("`{MANIFEST}` {why}"));
    let json = small(MANIFEST)?.ok_or_else(|| bad("is missing: an older version made it, or it was removed"))?;
    let signature = small(SIGNATURE)?;
    let manifest = Manifest::read(&json).ok_or_else(|| bad("cannot be read, or is of a newer version"))?;
    let signed_by = signature.map(|bytes| match serde_json::from_slice::<Signature>(&bytes) {
        Ok(signature) => (signature.public_key.clone(), signature.fits(&json)),
        Err(_) => (String::new(), false),
    });
    let mut faults = Vec::new();
    let names: Vec<String> = zip.file_names().flatten().map(|name| name.into_owned()).collect();
    for name in names.iter().filter(|name| ![MANIFEST, SIGNATURE].contains(&name.as_str())) {
        let Some(expected) = manifest.files.get(name) else {
            faults.push(Fault::Added(name.clone()));
            continue;
        };
        match checksum(&mut zip, name, stopped) {
            _ if stopped() => return Err(OpenError::Stopped),
            Ok(found) if found == *expected => {}
            Ok(_) => faults.push(Fault::Changed(name.clone())),
            Err(Bad::Broken(why)) => faults.push(Fault::Unreadable(name.clone(), why)),
            Err(Bad::Harm(why)) => return Err(OpenError::Harmful(path, format!("`{name}` {why}"))),
        }
    }
    let missing = manifest.files.keys().filter(|name| !names.contains(name));
    faults.extend(missing.map(|name| Fault::Missing(name.clone())));
    Ok(Examined { manifest, faults, signed_by })
}

fn checksum<R: std::io::Read + std::io::Seek>(
    zip: &mut ZipArchive<R>,
    name: &str,
    stopped: &dyn Fn() -> bool,
) -> Result<String, Bad> {
    let mut hashing = Hashing::default();
    let entry = zip.by_name(name).map_err(|error| Bad::Broken(error.to_string()))?;
    copy(entry, &mut hashing, SERIES_BYTES, stopped)?;
    Ok(hashing.finish())
}

/// Compares two diagnoses by their symptom, best chain and verdicts; returns each difference as what was and what is now.
/// Scores and values are not compared: the edge of a window may take in one sample more or less.
pub fn differences(then: &Diagnosis, now: &Diagnosis) -> Vec<(String, String, String)> {
    let (then, now) = (told(then), told(now));
    let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
    let of =
        |told: &BTreeMap<String, String>, name: &str| told.get(name).map_or("not judged", String::as_str).to_owned();
    let all = names.map(|name| (name.clone(), of(&then, name), of(&now, name)));
    all.filter(|(_, then, now)| then != now).collect()
}

fn told(diagnosis: &Diagnosis) -> BTreeMap<String, String> {
    let symptom = &diagnosis.symptom;
    let chain = diagnosis.root().map_or("none".to_owned(), |root| root.chain.join(" ← "));
    let causes = diagnosis.causes.iter().map(|cause| (&cause.id, cause.verdict));
    let ruled_out = diagnosis.ruled_out.iter().map(|cause| (&cause.id, cause.verdict));
    // The first of several chains to one cause is the best.
    let mut told = BTreeMap::new();
    for (id, verdict) in causes.chain(ruled_out) {
        told.entry(format!("cause {id}")).or_insert_with(|| format!("{verdict:?}").to_lowercase());
    }
    told.insert("symptom".to_owned(), format!("{} ({})", symptom.playbook, symptom.verdict.as_str()));
    told.insert("chain".to_owned(), chain);
    told
}
