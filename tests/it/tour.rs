//! The tour of the demo, shortened to its first stop: broken, diagnosed, bundled, and nothing left.

use std::fs;

use llm_diagnose_lab::demo::{self, Ended, Options};

use crate::harness::run;
use crate::running::BINARY;

#[test]
fn a_shortened_tour_finds_its_fault_makes_a_bundle_and_leaves_nothing() {
    let above = tempfile::tempdir().unwrap();
    let arguments = ["--tour", "--stops", "1"].map(str::to_owned);
    let variable = |name: &str| (name == "LLM_DIAGNOSE").then(|| BINARY.to_owned());
    let options = Options::read(arguments.into_iter(), variable).unwrap();
    let ended = run(demo::run(&options, &above.path().join("tour"))).unwrap();
    assert_eq!(ended, Ended::Passed);
    assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
}
