//! A user's own directory of playbooks: what joins the shipped data, what replaces it, and which names it may use.

use std::fs;

use authoring::check::{lint, run};
use knowledge::playbook::{Library, Problem, load};
use tempfile::TempDir;

/// A directory with these files, by their path in it.
pub(crate) fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// The shipped data with these files over it.
pub(crate) fn with(files: &[(&str, &str)]) -> Result<Library, Vec<Problem>> {
    load(Some(directory(files).path()))
}

/// What the verdict tests of a library find, by message.
pub(crate) fn failures(library: &Library) -> Vec<String> {
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
fn a_healthy_fleet_of_ones_own_joins_the_shipped_one() {
    let test = "playbook: high-ttft\nhealthy: [ours]\ncases:\n  - name: one\n    expect: { symptom: absent }\n";
    let fleet = "schema: 1\nparts:\n  ours: { ttft_p99: 0.4, ttft_p50: 0.1 }\n";
    let library = with(&[("ours.test.yaml", test), ("healthy-fleet.yaml", fleet)]).unwrap();
    assert_eq!((failures(&library), lint(&library)), (vec![], vec![]));

    let problems = run(&with(&[("ours.test.yaml", test)]).unwrap()).unwrap_err();
    assert_eq!(problems[0].message, "the healthy fleet has no part `ours`");
    assert_eq!(problems[0].hint.as_deref(), Some("expected one of details, gateway, pool"));
    let library = with(&[("healthy-fleet.yaml", &fleet.replace("ttft_p50", "ttft_p5"))]).unwrap();
    let found: Vec<_> = lint(&library).into_iter().map(|problem| problem.message).collect();
    assert_eq!(found, ["unknown signal `ttft_p5`"]);
}

#[test]
fn a_part_with_a_shipped_name_and_other_values_is_left_out() {
    let fleet = "schema: 1\nparts:\n  pool: { ttft_p99: 0.4 }\n";
    let problems = with(&[("healthy-fleet.yaml", fleet)]).unwrap().left_out;
    assert_eq!(problems[0].message, "the shipped healthy fleet has a part `pool` with other values");
}

#[test]
fn problems_stand_in_the_order_of_the_files() {
    let names = ["e.yaml", "b.yaml", "g.yaml", "a.yaml", "d.yaml", "f.yaml", "c.yaml"];
    let own = directory(&names.map(|name| (name, "playbook: [")));
    let problems = load(Some(own.path())).unwrap_err();
    let files: Vec<&str> = problems.iter().map(|problem| problem.file.rsplit('/').next().unwrap()).collect();
    assert_eq!(files, ["a.yaml", "b.yaml", "c.yaml", "d.yaml", "e.yaml", "f.yaml", "g.yaml"]);
}

#[test]
fn a_file_of_the_top_is_refused_in_a_folder_of_playbooks() {
    for name in
        ["mechanisms/report.yaml", "symptoms/health.yaml", "symptoms/healthy-fleet.yaml", "symptoms/redaction.yaml"]
    {
        let problems = with(&[(name, "schema: 1\n")]).unwrap_err();
        assert_eq!((problems.len(), problems[0].message.as_str()), (1, "a file in an unknown place"), "{name}");
    }
}

#[test]
fn the_name_of_the_directory_itself_is_no_folder() {
    let above = directory(&[("mechanisms/high-ttft.yaml", &ours("symptoms/high-ttft.yaml"))]);
    let library = load(Some(&above.path().join("mechanisms"))).unwrap();
    assert_eq!((library.playbooks["high-ttft"].title.as_str(), lint(&library)), ("ours", vec![]));
}

#[test]
fn the_checkouts_own_data_may_be_named_as_a_directory() {
    let library = load(Some(std::path::Path::new("playbooks"))).unwrap();
    assert_eq!((lint(&library), failures(&library)), (vec![], vec![]));
}

/// A shipped playbook with another title.
fn ours(path: &str) -> String {
    let text = fs::read_to_string(format!("playbooks/{path}")).unwrap();
    let title = text.lines().find(|line| line.starts_with("title: ")).unwrap();
    text.replace(title, "title: ours")
}

#[test]
fn a_playbook_at_the_top_of_a_directory_or_in_its_folder_overrides_the_shipped_one() {
    let text = ours("symptoms/high-ttft.yaml");
    let test =
        "playbook: high-ttft\nbaseline: { ttft_p99: 9 }\ncases:\n  - name: ours\n    expect: { symptom: confirmed }\n";
    let shipped = load(None).unwrap();
    for folder in ["", "symptoms/"] {
        let (playbook, tests) = (format!("{folder}high-ttft.yaml"), format!("{folder}high-ttft.test.yaml"));
        let library = with(&[(&playbook, &text), (&tests, test)]).unwrap();
        assert_eq!(library.playbooks["high-ttft"].title, "ours");
        assert_eq!((library.playbooks.len(), lint(&library)), (shipped.playbooks.len(), vec![]));
        let cases = run(&library).unwrap().into_iter().filter(|case| case.playbook == "high-ttft");
        assert_eq!(cases.map(|case| case.name).collect::<Vec<_>>(), ["ours"]);
    }
}

#[test]
fn a_new_playbook_stands_at_the_top_or_in_the_folder_of_its_kind() {
    let text = ours("symptoms/high-ttft.yaml").replace("playbook: high-ttft\n", "playbook: ours\n");
    let test = "playbook: ours\nhealthy: [pool]\ncases:\n  - name: one\n    expect: { symptom: absent }\n";
    let found = |folder: &str| {
        let (playbook, tests) = (format!("{folder}ours.yaml"), format!("{folder}ours.test.yaml"));
        let library = with(&[(&playbook, &text), (&tests, test)]).unwrap();
        assert_eq!(failures(&library), [""; 0]);
        lint(&library).into_iter().map(|problem| (problem.message, problem.hint.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!((found(""), found("symptoms/")), (vec![], vec![]));
    let said = ("`mechanisms/` is for mechanisms".to_owned(), "move it and its test to `symptoms/`".to_owned());
    assert_eq!(found("mechanisms/"), [said]);
}

#[test]
fn a_playbook_that_stands_in_two_folders_is_not_taken() {
    let text = ours("symptoms/high-ttft.yaml");
    let problems = with(&[("high-ttft.yaml", &text), ("symptoms/high-ttft.yaml", &text)]).unwrap_err();
    assert!(problems[0].message.ends_with("/high-ttft.yaml has the same name: remove one of them"), "{problems:?}");
}

#[test]
fn one_id_is_a_playbook_or_a_cause() {
    let cause = ours("causes/traffic-surge.yaml").replace("cause: traffic-surge", "cause: lost-replica");
    let playbook = ours("mechanisms/slot-limit.yaml").replace("playbook: slot-limit", "playbook: traffic-surge");
    for (path, text) in [("causes/lost-replica.yaml", cause), ("mechanisms/traffic-surge.yaml", playbook)] {
        let problems = with(&[(path, &text)]).unwrap_err();
        assert!(problems[0].message.contains("is the id of another file"), "{path}: {problems:?}");
    }
}
