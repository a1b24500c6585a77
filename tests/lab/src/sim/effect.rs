//! What the active faults together do to the clients, to the Deployment and to one replica.

use super::engine::EngineConfig;
use super::fault::Fault;
use super::gpu::Throttle;
use super::spec::FleetSpec;
use super::workload::Bend;

/// What faults do to one replica that is up.
#[derive(Debug)]
pub struct OnReplica {
    /// Its steps take so many times as long.
    pub slowdown: f64,
    /// Its GPU's clocks are pulled down.
    pub throttle: Option<Throttle>,
    /// Its engine hangs.
    pub stalled: bool,
}

/// What the clients do under `faults`.
pub fn bend(faults: &[Fault]) -> Bend {
    let mut bend = Bend::NONE;
    for fault in faults {
        match *fault {
            Fault::LongerPrompts { factor } => bend.prompt *= factor,
            Fault::LongerOutputs { factor } => {
                bend.output *= factor;
                bend.max_tokens *= factor;
            }
            Fault::TrafficSurge { factor } => bend.rate *= factor,
            Fault::PrefillBound { factor } => {
                // Fewer but heavier requests: the queue stays short while each waits for long prefills.
                bend.rate *= 0.5;
                bend.prompt *= factor;
                bend.output /= 6.0;
                bend.reuse *= 0.1;
            }
            Fault::PrefixCacheCollapse { share } => bend.reuse *= share,
            Fault::RunawayGeneration { share } => bend.runaway_share = share,
            Fault::ClientErrors { share, .. } => bend.error_share = share,
            Fault::LostReplica { .. }
            | Fault::SlotLimit { .. }
            | Fault::CapacityShrunk { .. }
            | Fault::BadReplica { .. }
            | Fault::GpuThrottling { .. }
            | Fault::StalledEngine { .. }
            | Fault::RoutingSkew { .. } => {}
        }
    }
    bend
}

/// The engine configuration that the Deployment asks for under `faults`.
pub fn config(spec: &FleetSpec, faults: &[Fault]) -> EngineConfig {
    let engine = &spec.engine;
    let mut config = EngineConfig { max_num_seqs: engine.max_num_seqs, num_gpu_blocks: engine.num_gpu_blocks };
    for fault in faults {
        match *fault {
            Fault::SlotLimit { limit } => config.max_num_seqs = config.max_num_seqs.min(limit),
            Fault::CapacityShrunk { share } => {
                let blocks = (f64::from(config.num_gpu_blocks) * share) as u32;
                // vLLM does not start with less than one request of the greatest length.
                config.num_gpu_blocks = blocks.max(engine.min_blocks() + 1);
            }
            _ => {}
        }
    }
    config
}

/// What `faults` do to replica `i`.
pub fn on_replica(faults: &[Fault], i: usize) -> OnReplica {
    let mut slowdown = 1.0;
    let mut throttle = None;
    let mut stalled = false;
    for fault in faults {
        match *fault {
            Fault::BadReplica { replica, slowdown: factor } if replica == i => slowdown *= factor,
            Fault::GpuThrottling { replica, slowdown: factor, cause } if replica.is_none_or(|r| r == i) => {
                slowdown *= factor;
                throttle = Some(Throttle { slowdown: factor, cause });
            }
            Fault::StalledEngine { replica } if replica == i => stalled = true,
            _ => {}
        }
    }
    OnReplica { slowdown, throttle, stalled }
}
