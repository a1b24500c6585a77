//! Properties of everything that reads text from outside, over inputs that are made or mutated.
//!
//! `make test` tries the same few inputs every time; `make fuzz` tries new ones for MINUTES each. An input that failed
//! becomes a named test beside its property.
#![allow(clippy::print_stderr, reason = "the number of inputs is the result of `make fuzz`")]

mod answers;
mod conditions;
mod encoded;
mod logs;
mod matchers;
mod mutation;
mod pages;
mod playbooks;
mod redaction;
mod slack;
mod webhook;
mod zips;

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

/// Inputs of each property in `make test`.
const FEW: u32 = 200;
/// Inputs between two looks at the time in `make fuzz`.
const BATCH: u32 = 500;
/// The seed of `make test`, so that what is green stays green.
const SEED: u64 = 20_261_120;

/// Asserts that a property holds for these inputs.
#[track_caller]
pub(crate) fn holds<S: Strategy>(inputs: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    of_costly(1, inputs, property);
}

/// As [`holds`], with fewer inputs, because each takes long.
#[track_caller]
fn of_costly<S: Strategy>(times: u32, inputs: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let minutes: Option<f64> = std::env::var("FUZZ_MINUTES").ok().map(|text| text.parse().unwrap());
    let (began, mut tried) = (Instant::now(), 0);
    loop {
        let cases = if minutes.is_some() { BATCH / times } else { FEW / times };
        let rng_seed = if minutes.is_some() { RngSeed::Random } else { RngSeed::Fixed(SEED) };
        let config =
            Config { cases, rng_seed, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
        if let Err(failed) = TestRunner::new(config).run(&inputs, &property) {
            panic!("after {tried} inputs: {failed}");
        }
        tried += cases;
        let Some(minutes) = minutes else { return };
        if began.elapsed() >= Duration::from_secs_f64(60.0 * minutes) {
            eprintln!("{tried} inputs in {:.1} minutes", began.elapsed().as_secs_f64() / 60.0);
            return;
        }
    }
}

/// The files below `tests/fixtures` in this folder with this extension, in order.
fn corpus(folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    assert!(!paths.is_empty(), "{}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// A source that gives at most so many bytes at once.
struct Slowly<'a>(&'a [u8], usize);

impl Read for Slowly<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(into.len());
        self.0.read(&mut into[..most])
    }
}
