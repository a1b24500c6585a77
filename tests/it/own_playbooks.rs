//! A user's own directory of playbooks: what joins the shipped data, what replaces it, and which names it may use.

use std::fs;

use llm_diagnose::check::{lint, run};
use llm_diagnose::playbook::{Library, Problem, load};
use tempfile::TempDir;

/// A directory with these files, by their path in it.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// The shipped data with these files over it.
fn with(files: &[(&str, &str)]) -> Result<Library, Vec<Problem>> {
    load(Some(directory(files).path()))
}

/// What the verdict tests of a library find, by message.
fn failures(library: &Library) -> Vec<String> {
    let cases = run(library).unwrap_or_else(|problems| panic!("{problems:?}"));
    cases.into_iter().flat_map(|case| case.failures).map(|problem| problem.message).collect()
}

#[test]
fn a_verdict_test_starts_from_the_parts_of_the_healthy_fleet_that_it_names() {
    let case = |head: &str, expect: &str| {
        let test = format!("playbook: high-ttft\n{head}cases:\n  - name: one\n    expect: {{ symptom: {expect} }}\n");
        failures(&with(&[("ours.test.yaml", &test)]).unwrap())
    };
    let none: [&str; 0] = [];
    assert_eq!(case("healthy: [pool]\n", "absent"), none);
    assert_eq!(case("healthy: [pool]\nbaseline: { ttft_p99: 9 }\n", "confirmed"), none);
    assert_eq!(case("healthy: [pool]\nbaseline: { ttft_p99: no data }\n", "no_data"), none);
    assert_eq!(case("healthy: [gateway]\n", "no_data"), none);
    assert_eq!(case("", "no_data"), none);
}

#[test]
fn a_healthy_fleet_joins_the_shipped_one_and_takes_no_name_of_it() {
    let test = "playbook: high-ttft\nhealthy: [ours]\ncases:\n  - name: one\n    expect: { symptom: absent }\n";
    let fleet = "schema: 1\nparts:\n  ours: { ttft_p99: 0.4, ttft_p50: 0.1 }\n";
    let library = with(&[("ours.test.yaml", test), ("healthy-fleet.yaml", fleet)]).unwrap();
    assert_eq!((failures(&library), lint(&library)), (vec![], vec![]));

    let problems = run(&with(&[("ours.test.yaml", test)]).unwrap()).unwrap_err();
    assert_eq!(problems[0].message, "the healthy fleet has no part `ours`");
    assert_eq!(problems[0].hint.as_deref(), Some("expected one of details, gateway, pool"));
    let problems = with(&[("healthy-fleet.yaml", &fleet.replace("ours", "pool"))]).unwrap_err();
    assert_eq!(problems[0].message, "the shipped healthy fleet has a part `pool`");
    let library = with(&[("healthy-fleet.yaml", &fleet.replace("ttft_p50", "ttft_p5"))]).unwrap();
    let found: Vec<_> = lint(&library).into_iter().map(|problem| problem.message).collect();
    assert_eq!(found, ["unknown signal `ttft_p5`"]);
}
