//! `bundle verify`: as it was made, by whom, and the same verdict again.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use bundle::Options;
use bundle::open::examine;
use service::Signer;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use super::site::{Bundle, Site, alert, options, subject};
use super::{LONG, run};
use crate::harness::library;
use crate::running::BINARY;

/// A signed bundle and the public key of its signature; making one takes seconds.
static SIGNED: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
    let signer = Signer::new(&[7; 32]).unwrap();
    let public = bundle::public_key(&signer).unwrap();
    let bundle = run(async {
        let site = Site::new().await;
        let options = Options { signer: Some(Arc::new(signer)), ..options(LONG) };
        Bundle::of(&site.sources().await, &subject(vec![alert()]), &options).await
    });
    (bundle.bytes, public)
});

/// The bundle in a directory of its own, and the key.
fn signed() -> (TempDir, &'static str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bundle.zip"), &SIGNED.0).unwrap();
    (dir, &SIGNED.1)
}

/// Writes the bundle again, with the entries as `change` leaves them; `None` removes one.
fn changed(dir: &Path, change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>) {
    let path = dir.join("bundle.zip");
    let mut from = ZipArchive::new(std::io::Cursor::new(std::fs::read(&path).unwrap())).unwrap();
    let mut into = ZipWriter::new(std::fs::File::create(&path).unwrap());
    for index in 0..from.len() {
        let mut entry = from.by_index(index).unwrap();
        let (name, mut bytes) = (entry.name().unwrap().into_owned(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        if let Some(bytes) = change(&name, bytes) {
            into.start_file(&*name, SimpleFileOptions::default()).unwrap();
            into.write_all(&bytes).unwrap();
        }
    }
    into.finish().unwrap();
}

fn verify(dir: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(BINARY);
    command.args(["bundle", "verify"]).arg(dir.join("bundle.zip")).args(more);
    let output = command.env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    (output.status.code(), said)
}

#[test]
fn a_bundle_as_it_was_made_is_reproduced_and_other_playbooks_are_named() {
    let (dir, key) = signed();
    let (code, said) = verify(dir.path(), &["--key", key]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("reproduced: high-ttft (high-ttft ←") && said.contains("longer-prompts)"), "{said}");
    assert!(said.contains(&format!("by the given key {key}")), "{said}");

    let own = dir.path().join("own");
    std::fs::create_dir_all(own.join("causes")).unwrap();
    let shipped = &library().files["causes/longer-prompts.yaml"].text;
    let strict = shipped.replace("> 1.", "> 1000.");
    assert_ne!(*shipped, strict);
    std::fs::write(own.join("causes/longer-prompts.yaml"), strict).unwrap();
    let (code, said) = verify(dir.path(), &["--playbooks", &own.display().to_string()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 differ: causes/longer-prompts.yaml") && said.contains("not reproduced"), "{said}");
    assert!(said.contains("cause longer-prompts:") && said.contains(", in the bundle likely"), "{said}");
    assert!(said.contains("whose key this is says `--key`"), "{said}");
}

#[test]
fn a_changed_byte_a_removed_file_and_an_added_one_are_named() {
    let (dir, key) = signed();
    changed(dir.path(), |name, mut bytes| {
        if name == "raw/prometheus.json" {
            bytes[10] ^= 1;
        }
        (name != "report.md").then_some(bytes)
    });
    let mut zip = ZipWriter::new_append(
        std::fs::File::options().read(true).write(true).open(dir.path().join("bundle.zip")).unwrap(),
    )
    .unwrap();
    zip.start_file("logs/999-more.log", SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap();
    let (code, said) = verify(dir.path(), &["--key", key]);
    assert_eq!(code, Some(2), "{said}");
    for fault in ["`raw/prometheus.json` was changed", "`report.md` was removed", "`logs/999-more.log` was added"] {
        assert!(said.contains(fault), "{fault}: {said}");
    }
    assert!(!said.contains("reproduced"), "a damaged bundle is not opened: {said}");
}

#[test]
fn a_forged_signature_another_key_and_none_at_all_are_refused() {
    let (dir, key) = signed();
    let others = bundle::public_key(&Signer::new(&[8; 32]).unwrap()).unwrap();
    let (code, said) = verify(dir.path(), &["--key", &others]);
    assert!(code == Some(2) && said.contains(&format!("by another key than the given one: {key}")), "{said}");
    // Whoever changes a file has to change the manifest too, and cannot sign it.
    changed(dir.path(), |name, bytes| match name {
        "manifest.json" => {
            Some(String::from_utf8(bytes).unwrap().replacen("\"program\": \"", "\"program\": \"9", 1).into())
        }
        _ => Some(bytes),
    });
    let (code, said) = verify(dir.path(), &[]);
    assert!(code == Some(2) && said.contains("forged: it does not fit the manifest"), "{said}");
    changed(dir.path(), |name, bytes| (name != "manifest.sig").then_some(bytes));
    let (code, said) = verify(dir.path(), &["--key", key]);
    assert!(code == Some(2) && said.contains("missing: the bundle is not signed"), "{said}");
    assert_eq!(examine(&dir.path().join("bundle.zip"), &|| false).unwrap().signed_by, None);
    changed(dir.path(), |name, bytes| (name != "manifest.json").then_some(bytes));
    let (code, said) = verify(dir.path(), &[]);
    assert!(code == Some(2) && said.contains("`manifest.json` is missing"), "{said}");
}

/// The place and the size of the central directory, and the place of its end record.
fn directory(zip: &[u8]) -> (usize, usize, usize) {
    let end = zip.windows(4).rposition(|bytes| bytes == b"PK\x05\x06").unwrap();
    let number = |at: usize| u32::from_le_bytes(zip[end + at..end + at + 4].try_into().unwrap()) as usize;
    (number(16), number(12), end)
}

/// Some programs read every header of the directory, others as many as its end tells.
#[test]
fn an_entry_that_the_end_of_the_archive_does_not_count_is_refused() {
    let (dir, key) = signed();
    let mut evil = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    evil.start_file("report.html", SimpleFileOptions::default()).unwrap();
    evil.write_all(b"<h1>nothing happened</h1>").unwrap();
    let evil = evil.finish().unwrap().into_inner();
    let (local, size, _) = directory(&evil);
    let mut header = evil[local..local + size].to_vec();
    let bytes = &SIGNED.0;
    let (begin, size, end) = directory(bytes);
    header[42..46].copy_from_slice(&u32::try_from(begin).unwrap().to_le_bytes());
    let mut record = bytes[end..].to_vec();
    record[12..16].copy_from_slice(&u32::try_from(size + header.len()).unwrap().to_le_bytes());
    record[16..20].copy_from_slice(&u32::try_from(begin + local).unwrap().to_le_bytes());
    let hidden = [&bytes[..begin], &evil[..local], &bytes[begin..begin + size], &header, &record].concat();
    std::fs::write(dir.path().join("bundle.zip"), hidden).unwrap();
    let (code, said) = verify(dir.path(), &["--key", key]);
    assert!(code == Some(2) && said.contains("hidden entries"), "{said}");
}
