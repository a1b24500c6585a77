//! The page of one kubelet's cAdvisor, for the serving containers of its node.

use super::exposition::{Family, Kind, Labels};
use super::fleet::Replica;
use super::page_dcgm::CONTAINER;
use super::spec::FleetSpec;

/// Bytes that the server's process holds.
const WORKING_SET_BYTES: f64 = 6.2e9;

/// The page at `now` (unix seconds) of the node that runs `replicas`.
pub fn families(spec: &FleetSpec, replicas: &[Replica], now: f64) -> Vec<Family> {
    let mut usage =
        Family::new("container_cpu_usage_seconds_total", Kind::Counter, "Cumulative cpu time consumed in seconds.");
    let mut periods = Family::new(
        "container_cpu_cfs_periods_total",
        Kind::Counter,
        "Number of elapsed enforcement period intervals.",
    );
    let mut throttled = Family::new(
        "container_cpu_cfs_throttled_periods_total",
        Kind::Counter,
        "Number of throttled period intervals.",
    );
    let mut memory = Family::new("container_memory_working_set_bytes", Kind::Gauge, "Current working set in bytes.");
    let mut started = Family::new(
        "container_start_time_seconds",
        Kind::Gauge,
        "Start time of the container since unix epoch in seconds.",
    );
    for replica in replicas {
        let Some(stats) = replica.stats() else { continue };
        let labels = labels(spec, replica);
        let mut cpu = labels.clone();
        cpu.insert(1, ("cpu", "total".to_owned()));
        usage = usage.with(cpu, stats.container_cpu_seconds(now));
        // A container without a limit has no quota, and so no periods of it.
        if spec.engine.cpu_limit.is_some() {
            periods = periods.with(labels.clone(), stats.cfs_periods.0.round());
            throttled = throttled.with(labels.clone(), stats.cfs_periods.1.round());
        }
        memory = memory.with(labels.clone(), WORKING_SET_BYTES);
        started = started.with(labels, stats.started.floor());
    }
    vec![usage, periods, throttled, memory, started]
}

fn labels(spec: &FleetSpec, replica: &Replica) -> Labels {
    let pod = &replica.pod;
    vec![
        ("container", CONTAINER.to_owned()),
        ("image", "docker.io/vllm/vllm-openai".to_owned()),
        ("namespace", spec.namespace.clone()),
        ("pod", pod.name.clone()),
    ]
}
