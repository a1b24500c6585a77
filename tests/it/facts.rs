//! What Prometheus tells of a pool beyond a diagnosis, of simulated fleets on a real Prometheus.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use llm_diagnose::facts::{Seen, Windows, look};
use llm_diagnose::prom::Prometheus;
use llm_diagnose::report::{HappenedKind, Measured, Replica, Window};
use llm_diagnose_lab::sim::{Dialect, Fault, Fleet, FleetSpec, History};
use llm_diagnose_lab::stack;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::adverse::HOSTILE;
use crate::harness::{at, client, library, request, run};

/// The histories begin here, hours apart; unix seconds in 2023.
const BEGIN: i64 = 1_700_006_400;
const APART: i64 = 4 * 3_600;
/// Normal service, then the fault, then normal service again.
const NORMAL: i64 = 1_500;
const FAULT: i64 = 900;
const AFTER: i64 = 600;

/// A fleet with its dialect and what goes wrong.
type Case = (&'static str, Dialect, &'static [&'static str]);
const CASES: [Case; 4] = [
    ("longer", Dialect::Vllm, &["longer-prompts"]),
    ("sglang", Dialect::Sglang, &["longer-prompts"]),
    ("lost", Dialect::Vllm, &["lost-replica:replica=0"]),
    ("rollout", Dialect::Vllm, &["slot-limit"]),
];

fn begun(name: &str) -> i64 {
    let case = CASES.iter().position(|(case, ..)| *case == name).unwrap();
    BEGIN + APART * i64::try_from(case).unwrap() + NORMAL
}

fn windows(name: &str) -> Windows {
    let fault = begun(name);
    let window = |from: i64, to: i64| Window { from: at(from), to: at(to) };
    Windows {
        before: window(fault - 900, fault),
        during: window(fault, fault + FAULT),
        after: Some(window(fault + FAULT + 120, fault + FAULT + AFTER)),
    }
}

/// Written once; every case is a history of its own, for they lie far apart.
fn history(name: &str, dialect: Dialect, faults: &[&str]) -> String {
    let begin = begun(name) - NORMAL;
    let mut spec = FleetSpec { namespace: name.to_owned(), dialect, ..FleetSpec::sized(3) };
    spec.dcgm.nvlink = true;
    let mut fleet = Fleet::new(spec, 1, (begin - 3_900) as f64).unwrap();
    fleet.advance_to(begin as f64);
    let mut history = History::new(15.0);
    history.record(&mut fleet, (begin + NORMAL) as f64);
    for fault in faults {
        fleet.inject(fault.parse::<Fault>().unwrap()).unwrap();
    }
    history.record(&mut fleet, (begin + NORMAL + FAULT) as f64);
    fleet.clear();
    history.record(&mut fleet, (begin + NORMAL + FAULT + AFTER) as f64);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}
