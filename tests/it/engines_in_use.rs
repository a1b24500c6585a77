//! `generate rules --engines --labels`: a fraction of the file, which Prometheus takes, for those who run one engine.

use std::process::Command;

use crate::generated::assert_passes;
use crate::running::BINARY;

fn rules(arguments: &[&str]) -> Result<String, String> {
    let made = Command::new(BINARY).args(["generate", "rules"]).args(arguments).output().unwrap();
    match made.status.success() {
        true => Ok(String::from_utf8(made.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
    }
}

#[test]
fn the_rules_of_one_engine_are_short_and_hold_only_what_it_tells() {
    let own = rules(&["--engines", "vllm,kubernetes", "--labels", "cluster,namespace,model_name"]).unwrap();
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), &own).unwrap();
    assert_passes("promtool", &["check", "rules", file.path().to_str().unwrap()]);
    let all = rules(&[]).unwrap();
    assert!(own.len() < all.len() / 8 && own.lines().count() < all.lines().count() / 6, "{} bytes", own.len());
    for (part, is_told) in [
        ("alert: LLMHighTTFT\n", true),
        ("alert: LLMNoReadyReplicas\n", true),
        ("kind: \"batch\"", true),
        ("alert: LLMGatewayErrors\n", false),
        ("alert: LLMGPUXidError\n", false),
        ("exported_namespace", false),
        ("sglang", false),
    ] {
        assert_eq!(own.contains(part), is_told, "{part}");
    }
}

#[test]
fn an_engine_that_there_is_not_is_refused_with_the_nearest_name() {
    let refused = rules(&["--engines", "vlm"]).unwrap_err();
    assert!(refused.contains("no engine is called `vlm` (did you mean `vllm`?)"), "{refused}");
}
