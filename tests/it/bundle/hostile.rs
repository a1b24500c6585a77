//! Names that somebody made up to do harm.

use std::collections::BTreeSet;
use std::process::Command;

use bundle::Sources;
use findings::ExporterTarget;

use super::site::{Bundle, CASE, Site, alert, options, replica, subject};
use super::{LONG, run};
use crate::chains::moment;

fn names() -> Vec<String> {
    let plain = [
        "../../etc/passwd",
        "/etc/shadow",
        "..",
        ".",
        "a\0b",
        "a\u{202e}gpj.exe",
        "💥",
        "con",
        "NUL.txt",
        "com1",
        "C:\\evil",
        "same/name",
        "same name",
        "SAME_NAME",
        "trailing.",
        "<script>alert(1)</script>",
        "a\nb | c",
    ];
    plain.iter().map(|name| (*name).to_owned()).chain(["x".repeat(300), "x".repeat(301)]).collect()
}

#[test]
fn names_do_no_harm_wherever_they_stand() {
    let names = names();
    let bundle = run(async {
        let site = Site::new().await;
        let mut hostile = alert();
        for (n, name) in names.iter().enumerate() {
            site.cluster.add(replica(name));
            site.cluster.log(CASE, name, "main", false, "said\n");
            let labels = [("namespace", CASE), ("pod", name.as_str()), ("container", "../main")];
            site.loki.push(&labels, (moment(CASE) - 60) * 1_000_000_000, "said");
            hostile.labels.insert(format!("l{n}"), name.clone());
            hostile.annotations.insert(name.clone(), name.clone());
        }
        let mut sources = site.sources().await;
        let targets = names.iter().map(|name| ExporterTarget {
            engine: "vllm".to_owned(),
            url: format!("{}?{}", site.engines[1].metrics(), name.len()),
            labels: [("pod".to_owned(), name.clone())].into(),
            seen: None,
        });
        let reader = sources.reader.take().unwrap();
        sources = Sources { reader: Some((reader.0, targets.collect())), ..sources };
        let mut subject = subject(vec![hostile]);
        subject.request.scope.replicas.extend(names.iter().cloned());
        subject.request.scope.replicas.extend(super::site::PODS.map(str::to_owned));
        Bundle::of(&sources, &subject, &options(LONG)).await
    });
    let mut seen = BTreeSet::new();
    for name in bundle.names() {
        assert!(seen.insert(name.to_lowercase()), "{name} is there twice where letters are equal");
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.+@=,/".contains(c);
        assert!(name.chars().all(fine) && name.len() < 300, "{name}");
        for part in name.split('/') {
            let stem = part.split('.').next().unwrap().to_lowercase();
            assert!(!["", ".", ".."].contains(&part) && !part.ends_with('.') && part.len() <= 130, "{name}");
            assert!(!["con", "nul", "com1"].contains(&stem.as_str()), "{name}");
        }
    }
    for name in ["report.html", "report.md", "README.txt"] {
        let text = bundle.text(name);
        for raw in ["\0", "\u{202e}"] {
            assert!(!text.contains(raw), "{raw:?} in {name}");
        }
    }
    assert!(!bundle.text("report.html").contains("<script>alert(1)"));
    let logs: BTreeSet<&str> = bundle.report().logs.iter().map(|log| log.file.as_str()).collect();
    assert!(logs.len() == bundle.report().logs.len() && logs.iter().all(|file| bundle.entries.contains_key(*file)));
    // Other people's programs read it too.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.zip");
    std::fs::write(&path, &bundle.bytes).unwrap();
    let tested = Command::new("unzip").arg("-tq").arg(&path).output();
    let tested = tested.or_else(|_| Command::new("python3").args(["-m", "zipfile", "-t"]).arg(&path).output()).unwrap();
    assert!(tested.status.success() && tested.stderr.is_empty(), "{tested:?}");
}
