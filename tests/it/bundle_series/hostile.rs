//! Files that somebody else made up.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::opened::{assert_clean, open, zipped};

const SUMMARY: &str = r#"{"schema":"llm-diagnose/report/v1"}"#;

/// What is said of a file that `make` wrote; it must be refused, and nothing may be left.
#[track_caller]
fn refused(make: impl FnOnce(&Path)) -> String {
    let dir: TempDir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tmp")).unwrap();
    make(&dir.path().join("bundle.zip"));
    let output = open(dir.path(), &["--once"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_clean(dir.path());
    let all: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(all.len() <= 2, "something was unpacked beside it: {all:?}");
    said
}

#[test]
fn names_that_lead_out_are_refused_wherever_they_lead() {
    for name in ["../evil", "/tmp/evil", "logs/../../evil", "C:\\evil", "logs\\..\\..\\evil", "a\nb"] {
        let said = refused(|path| zipped(path, &[("summary.json", SUMMARY.as_bytes()), (name, b"x")]));
        assert!(said.contains("is refused, nothing of it was used") && said.contains("leads out of it"), "{said}");
        assert!(!said.trim_end().contains("\nb"), "{said}");
    }
}

#[test]
fn a_symbolic_link_is_refused() {
    let said = refused(|path| {
        let mut zip = ZipWriter::new(File::create(path).unwrap());
        zip.add_symlink("summary.json", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
    });
    assert!(said.contains("`summary.json` is a symbolic link"), "{said}");
}

#[test]
fn a_bomb_is_noticed_while_it_grows() {
    let said = refused(|path| {
        let mut zip = ZipWriter::new(File::create(path).unwrap());
        zip.start_file("summary.json", SimpleFileOptions::default()).unwrap();
        let spaces = vec![b' '; 1 << 20];
        (0..40).for_each(|_| zip.write_all(&spaces).unwrap());
        zip.finish().unwrap();
        assert!(std::fs::metadata(path).unwrap().len() < 100_000);
    });
    assert!(said.contains("`summary.json` grows to more than"), "{said}");
}

#[test]
fn a_truncated_file_another_file_and_a_directory_are_no_bundles() {
    let cut = refused(|path| {
        zipped(path, &[("summary.json", SUMMARY.as_bytes()), ("series.om", &[b'a'; 10_000])]);
        let whole = std::fs::read(path).unwrap();
        std::fs::write(path, &whole[..whole.len() / 2]).unwrap();
    });
    let text = refused(|path| std::fs::write(path, "not a zip").unwrap());
    let other = refused(|path| zipped(path, &[("word/document.xml", b"<x/>")]));
    let directory = refused(|path| std::fs::create_dir(path).unwrap());
    for said in [cut, text, other, directory] {
        assert!(said.contains("is no whole bundle of llm-diagnose"), "{said}");
    }
    let missing = refused(|_| {});
    assert!(missing.contains("No such file"), "{missing}");
}

#[test]
fn a_newer_bundle_and_a_strange_summary_are_told_apart() {
    let newer = r#"{"schema":"llm-diagnose/report/v9"}"#;
    let said = refused(|path| zipped(path, &[("summary.json", newer.as_bytes())]));
    assert!(said.contains("llm-diagnose/report/v9") && said.contains("take a newer llm-diagnose"), "{said}");
    for summary in ["{}", "[", r#"{"schema":"\u001b[31m"}"#, SUMMARY] {
        let said = refused(|path| zipped(path, &[("summary.json", summary.as_bytes())]));
        assert!(said.contains("is no whole bundle") && !said.contains('\u{1b}'), "{said}");
    }
}

#[test]
fn two_entries_of_one_name_are_refused() {
    let said = refused(|path| {
        zipped(path, &[("summary.json", SUMMARY.as_bytes()), ("summary.jsoN", b"x")]);
        let text = std::fs::read(path).unwrap();
        let twice: Vec<u8> = text.iter().map(|byte| if *byte == b'N' { b'n' } else { *byte }).collect();
        std::fs::write(path, twice).unwrap();
    });
    assert!(said.contains("two entries have the same name"), "{said}");
}
