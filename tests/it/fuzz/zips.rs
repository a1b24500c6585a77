//! Bundles from outside: whatever is in the file, nothing is written beside it, and the refusal names the file.

use std::io::{Cursor, Write};
use std::path::Path;

use bundle::open::{OpenError, open};
use findings::facts::Window;
use knowledge::clock;
use proptest::prelude::*;
use report::{DiagnosisParameters, ReportSubject, SourceFindings};
use tokio_util::sync::CancellationToken;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::mutation::mutated;
use super::of_costly;
use crate::harness::run;

fn zipped(entries: &[(String, Vec<u8>)]) -> Option<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).ok()?;
        zip.write_all(bytes).ok()?;
    }
    Some(zip.finish().ok()?.into_inner())
}

fn summary() -> Vec<u8> {
    let about = ReportSubject {
        headline: "First tokens are late",
        incident: None,
        alerts: &[],
        diagnosis: None,
        asked: DiagnosisParameters::default(),
        window: Window { from: clock::now(), to: clock::now() },
        happened: &[],
    };
    serde_json::to_vec(&report::build(about, SourceFindings::default(), clock::now())).unwrap()
}

fn whole() -> Vec<(String, Vec<u8>)> {
    let series = b"# TYPE up gauge\nup{pod=\"a\"} 1 1795198462\n# EOF\n";
    vec![("summary.json".to_owned(), summary()), ("series.om".to_owned(), series.to_vec())]
}

/// Opens a file in a directory of its own, without a Prometheus; everything but the last step is done.
fn opened(bytes: &[u8]) -> Result<OpenError, TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bundle.zip");
    std::fs::write(&file, bytes).unwrap();
    let error = run(open(&file, Some(Path::new("/nowhere/prometheus")), &CancellationToken::new()));
    let error = error.err().ok_or_else(|| TestCaseError::fail("it was opened without a Prometheus"))?;
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    prop_assert_eq!(left, ["bundle.zip"]);
    prop_assert_eq!(std::fs::read(&file).unwrap(), bytes);
    Ok(error)
}

#[test]
fn a_whole_bundle_is_unpacked() {
    let error = opened(&zipped(&whole()).unwrap()).unwrap();
    assert!(matches!(error, OpenError::Missing(_)), "{error}");
}

#[test]
fn a_mutated_bundle_is_unpacked_or_refused_by_its_name_and_writes_nothing_beside_it() {
    let tokens = &[
        "PK\x01\x02",
        "PK\x03\x04",
        "PK\x05\x06",
        "../evil",
        "/etc/x",
        "summary.json",
        "series.om",
        "\0\0\0\0",
        "\u{7f}",
    ];
    let corpus = vec![zipped(&whole()).unwrap(), zipped(&whole()[..1]).unwrap()];
    of_costly(2, mutated(corpus, tokens), |bytes| {
        match opened(&bytes)? {
            OpenError::Missing(_) | OpenError::NoSeries(_) | OpenError::Newer(_) => {}
            error @ (OpenError::NoBundle(..) | OpenError::Harmful(..)) => {
                let said = error.to_string();
                prop_assert!(said.contains("bundle.zip") && !said.contains(['\0', '\u{1b}']), "{:?}", said);
            }
            error => return Err(TestCaseError::fail(format!("{error:?}"))),
        }
        Ok(())
    });
}

#[test]
fn entries_of_any_name_write_nothing_beside_the_file() {
    let name = prop_oneof![
        "(\\.\\./){0,3}[a-z.]{0,4}/?",
        "/(tmp|etc)/[a-z]{1,4}",
        "[A-Z]:[\\\\/][a-z]{1,4}",
        any::<String>(),
        Just("logs/a.log".to_owned()),
    ];
    let entry = (name, prop::collection::vec(any::<u8>(), 0..40));
    of_costly(2, prop::collection::vec(entry, 0..4), |more| {
        let all: Vec<_> = whole().into_iter().chain(more.clone()).collect();
        // Two entries of one name cannot be written.
        let Some(bytes) = zipped(&all) else { return Ok(()) };
        let error = opened(&bytes)?;
        let leads_out =
            more.iter().any(|(name, _)| name.split(['/', '\\']).any(|part| part == "..") || name.starts_with('/'));
        prop_assert!(!leads_out || matches!(error, OpenError::Harmful(..)), "{:?}: {}", more, error);
        Ok(())
    });
}
