//! Names that are replaced: nobody's are left, the same is the same everywhere, and the series tell the same cause.

use std::process::{Command, Stdio};

use bundle::Options;
use report::Report;

use super::site::{Bundle, CASE, NODE, PODS, Site, alert, options, subject};
use super::{LONG, run};
use crate::running::BINARY;

#[test]
fn an_anonymised_bundle_names_nobody_and_opens_with_the_same_root_cause() {
    let bundle = run(async {
        let site = Site::new().await;
        let mut alert = alert();
        alert.annotations.insert("where".to_owned(), format!("{} on {NODE} (10.42.0.1)", PODS[0]));
        site.cluster.log(CASE, PODS[2], "main", false, format!("INFO {} talks to {NODE} at 10.0.0.1\n", PODS[2]));
        let options = Options { anonymize: true, ..options(LONG) };
        Bundle::of(&site.sources().await, &subject(vec![alert]), &options).await
    });
    // The case is called like a cause and a fault, which are words of the trade.
    let names = [PODS[0], "vllm-llama-8b", NODE, "gpu-node", "10.42.0.", "10.0.0.", "namespace=\"longer-prompts\""];
    for (name, content) in &bundle.entries {
        let text = String::from_utf8_lossy(content);
        for real in names {
            let at = text.find(real).map(|at| text[..at].chars().rev().take(80).collect::<Vec<_>>());
            let at = at.map(|around| around.into_iter().rev().collect::<String>());
            assert!(
                !name.contains(real) && at.is_none(),
                "{real} is left in {name} behind: {}",
                at.unwrap_or_default()
            );
        }
    }
    let report: Report = serde_json::from_str(&bundle.text("summary.json")).unwrap();
    let alias = report.topology.first().unwrap().name.clone();
    assert!(alias.starts_with("pod-"), "{alias}");
    assert!(bundle.text("series.om").contains(&format!("pod=\"{alias}\"")), "the same name everywhere");
    assert!(
        bundle.names().iter().any(|name| name.starts_with("logs/") && name.contains(&alias)),
        "{:?}",
        bundle.names()
    );
    assert!(report.complete && report.redacted.iter().any(|r| r.rule == "anonymized"));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("b.zip"), &bundle.bytes).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["bundle", "open", "b.zip", "--once"]).current_dir(dir.path()).stdin(Stdio::null());
    let ran = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("the same as in the bundle: longer-prompts"), "{said}");
    assert_eq!(ran.status.code(), Some(0), "{said}");
}

#[test]
fn names_and_secrets_that_are_words_of_the_report_leave_it_readable() {
    let bundle = run(async {
        let site = Site::new().await;
        let mut alert = alert();
        for (label, value) in [
            ("exported_namespace", "metrics"),
            ("container", "logs"),
            ("team", "alerts"),
            ("zone", "confirmed"),
            ("api_key", "confirmed"),
            ("hf_token", "annotations"),
            ("s3_secret", "startsAt"),
        ] {
            alert.labels.insert(label.to_owned(), value.to_owned());
        }
        let options = Options { anonymize: true, ..options(LONG) };
        Bundle::of(&site.sources().await, &subject(vec![alert]), &options).await
    });
    // In their own labels they are gone all the same.
    let labels = &bundle.report().alerts.first().unwrap().labels;
    let shown: Vec<&str> = labels.values().map(String::as_str).collect();
    for name in ["metrics", "logs", "alerts", "confirmed", "annotations", "startsAt"] {
        assert!(!shown.contains(&name), "{labels:?}");
    }
}
