//! The fleets of the chain cases: an hour of normal service, then what goes wrong.

use std::thread;

use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History};

use crate::harness::{simulated, slot};

/// Before the fault: longer than the past that a diagnosis compares with.
const NORMAL_SECONDS: i64 = 3_300;
/// From the fault to the diagnosis: the alert's `for` and a minute.
pub(crate) const FAULT_SECONDS: i64 = 360;
/// A fleet has run so long when its history begins, so that it is not taken for freshly started.
const AGE_SECONDS: i64 = 3_900;
/// The first slot of this suite; see [`slot`].
const FIRST_SLOT: usize = 40;

/// A fleet with what goes wrong in it.
struct Case {
    /// The fleet's namespace too.
    name: &'static str,
    replicas: usize,
    /// Requests per second and replica; 3 fill a bit under half of the cache.
    load: f64,
    faults: &'static [&'static str],
    scraped: Scraped,
    /// What goes wrong in the namespace's other Deployment, if there is one.
    neighbour: Option<&'static [&'static str]>,
}

/// What Prometheus sees of a fleet.
#[derive(Clone, Copy, PartialEq)]
enum Scraped {
    /// Engines, GPUs and kube-state-metrics.
    Everything,
    /// Neither GPUs nor Kubernetes.
    Engines,
    /// Everything, but the engines by address alone, without a label `pod`.
    EnginesByAddress,
}

/// A fleet of four at the usual load, alone in its namespace.
const fn usual(name: &'static str, faults: &'static [&'static str]) -> Case {
    Case { name, replicas: 4, load: 3.0, faults, scraped: Scraped::Everything, neighbour: None }
}

const CASES: [Case; 28] = [
    usual("healthy", &[]),
    usual("longer-prompts", &["longer-prompts"]),
    usual("longer-outputs", &["longer-outputs"]),
    usual("runaway-generation", &["runaway-generation"]),
    usual("traffic-surge", &["traffic-surge"]),
    usual("lost-replicas", &["lost-replica:replica=0", "lost-replica:replica=2"]),
    usual("slot-limit", &["slot-limit"]),
    usual("bad-replica", &["bad-replica"]),
    Case { load: 0.5, ..usual("bad-replica-at-night", &["bad-replica"]) },
    usual("prefill-bound", &["prefill-bound"]),
    usual("gpu-throttling", &["gpu-throttling"]),
    Case { load: 0.3, ..usual("gpu-throttling-at-night", &["gpu-throttling"]) },
    Case { scraped: Scraped::Engines, ..usual("gpu-throttling-unseen", &["gpu-throttling"]) },
    Case { scraped: Scraped::EnginesByAddress, ..usual("gpu-throttling-by-address", &["gpu-throttling"]) },
    usual("gpu-power", &["gpu-throttling:replica=2,cause=power"]),
    usual("stalled-engine", &["stalled-engine"]),
    usual("prefix-cache-collapse", &["prefix-cache-collapse"]),
    Case { load: 4.2, ..usual("prefix-cache-collapse-at-peak", &["prefix-cache-collapse"]) },
    usual("routing-skew", &["routing-skew"]),
    usual("capacity-shrunk", &["capacity-shrunk"]),
    Case { neighbour: Some(&["slot-limit", "lost-replica"]), ..usual("beside-trouble", &[]) },
    Case { neighbour: Some(&["slot-limit", "lost-replica"]), ..usual("trouble-beside-trouble", &["longer-prompts"]) },
    Case { replicas: 1, ..usual("one-replica", &["longer-prompts"]) },
    Case { replicas: 1, ..usual("one-replica-bad", &["bad-replica:replica=0"]) },
    Case { replicas: 2, ..usual("two-replicas", &[]) },
    Case { replicas: 8, ..usual("eight-replicas", &[]) },
    Case { replicas: 16, ..usual("sixteen-replicas", &[]) },
    Case { replicas: 2, load: 1e-9, ..usual("idle", &[]) },
];

/// The moment of a case's diagnosis, in unix seconds.
pub(crate) fn moment(name: &str) -> i64 {
    let case = CASES.iter().position(|case| case.name == name).unwrap();
    slot(FIRST_SLOT + case) + NORMAL_SECONDS + FAULT_SECONDS
}

/// The history of every case, as OpenMetrics lines.
pub(crate) fn histories() -> Vec<String> {
    let half = CASES.len() / 2;
    thread::scope(|scope| {
        let first = scope.spawn(|| (0..half).map(history).collect::<Vec<_>>());
        let mut rest: Vec<_> = (half..CASES.len()).map(history).collect();
        let mut all = first.join().unwrap();
        all.append(&mut rest);
        all
    })
}

/// The history of a case, as OpenMetrics lines.
pub(crate) fn history_of(name: &str) -> String {
    history(CASES.iter().position(|case| case.name == name).unwrap())
}

fn history(number: usize) -> String {
    let case = &CASES[number];
    let mut spec = FleetSpec { namespace: case.name.to_owned(), ..FleetSpec::sized(case.replicas) };
    spec.requests_per_second = case.load * case.replicas as f64;
    spec.dcgm.nvlink = true;
    let lines = recorded(spec, slot(FIRST_SLOT + number), case.faults);
    let of_engine = |line: &&str| line.contains("job=\"vllm\"");
    let lines = match case.scraped {
        Scraped::Everything => lines,
        Scraped::Engines => lines.split_inclusive('\n').filter(of_engine).collect(),
        Scraped::EnginesByAddress => lines
            .split_inclusive('\n')
            .map(|line| if of_engine(&line) { line.replacen("pod=", "node=", 1) } else { line.to_owned() })
            .collect(),
    };
    let Some(faults) = case.neighbour else { return lines };
    let mut spec = FleetSpec { namespace: case.name.to_owned(), ..FleetSpec::sized(2) };
    (spec.deployment, spec.model_name) = ("other".to_owned(), "other".to_owned());
    let other = recorded(spec, slot(FIRST_SLOT + number), faults);
    // Other addresses, nodes and GPUs; one kube-state-metrics tells of both.
    let other = other.replace("\"10.42.0.", "\"10.42.9.").replace("\"10.0.0.", "\"10.0.9.");
    let other = other.replace("gpu-node-", "gpu-node-9").replace("UUID=\"GPU-", "UUID=\"GPU-9");
    let own_up = |line: &&str| !(line.starts_with("up{") && line.contains("job=\"kube-state-metrics\""));
    lines + &other.split_inclusive('\n').filter(own_up).collect::<String>()
}

fn recorded(spec: FleetSpec, begin: i64, faults: &[&str]) -> String {
    let mut fleet = Fleet::new(spec, 1, (begin - AGE_SECONDS) as f64).unwrap();
    fleet.advance_to(begin as f64);
    let begun = (begin + NORMAL_SECONDS) as f64;
    let mut normal = History::new(60.0);
    normal.record(&mut fleet, begun);
    for fault in faults {
        fleet.inject(fault.parse::<Fault>().unwrap()).unwrap();
    }
    let mut wrong = History::new(15.0);
    // The scrape at the fault's own second is in the first history already.
    fleet.advance_to(begun + 1.0);
    wrong.record(&mut fleet, begun + FAULT_SECONDS as f64);
    simulated(&normal) + &simulated(&wrong)
}
