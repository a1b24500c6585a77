//! What the active faults together do to the clients, to the Deployment and to one replica.

use super::engine::EngineConfig;
use super::fault::{Fault, Link, Share};
use super::gpu::Throttle;
use super::spec::FleetSpec;
use super::workload::Bend;

/// What faults do to one replica that is up.
#[derive(Debug, Clone, PartialEq)]
pub struct OnReplica {
    /// Its steps take so many times as long.
    pub slowdown: f64,
    /// Its GPU's clocks are pulled down.
    pub throttle: Option<Throttle>,
    /// Its engine hangs.
    pub stalled: bool,
    /// Its API server's work is so many times as much.
    pub frontend: f64,
    /// Part of a core, 0..1, that its API server gets.
    pub cpu: f64,
    /// The rest is denied by its own CPU limit.
    pub cpu_throttled: bool,
    /// Share of its requests that want a grammar, and the seconds each takes to compile.
    pub grammar: (f64, f64),
    /// Adapters that its clients ask for, if not those of the spec.
    pub adapters: Option<usize>,
    /// Acceptance of draft tokens, if not that of the spec.
    pub acceptance: Option<f64>,
    /// Multiple of the time of a KV transfer, and the share that fails.
    pub transfer: (f64, f64),
    /// Share of its requests that fail inside the engine.
    pub errors: f64,
    /// Share of its requests that are answered 5xx.
    pub refusals: f64,
    /// What is wrong between its GPUs.
    pub link: Option<Link>,
    /// Another process has a part of its GPU.
    pub gpu_shared: bool,
    /// It was put to sleep.
    pub asleep: bool,
    /// Its scheduler admits nothing.
    pub deadlocked: bool,
    /// Seconds for which it holds the blocks of a prompt that others need, if they do not end that themselves.
    pub lease: Option<f64>,
}

impl OnReplica {
    /// Nothing.
    pub const NONE: OnReplica = OnReplica {
        slowdown: 1.0,
        throttle: None,
        stalled: false,
        frontend: 1.0,
        cpu: 1.0,
        cpu_throttled: false,
        grammar: (0.0, 0.0),
        adapters: None,
        acceptance: None,
        transfer: (1.0, 0.0),
        errors: 0.0,
        refusals: 0.0,
        link: None,
        gpu_shared: false,
        asleep: false,
        deadlocked: false,
        lease: None,
    };
}

/// Whether a replica's process can live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It can.
    Lives,
    /// It dies soon after each start.
    Crashes,
    /// Its node is gone.
    NodeLost,
}

/// The pod template that the Deployment asks for; a change is a rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// The engine's configuration.
    pub engine: EngineConfig,
    /// What becomes of a pod that is made from it.
    pub image: Image,
}

/// What becomes of a pod of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// It serves.
    Works,
    /// It dies while it loads the model.
    FailsToLoad,
    /// It cannot be pulled.
    Missing,
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
            Fault::TrafficSurge { factor }
            | Fault::AutoscalerAtMax { factor }
            | Fault::DemandDrop { factor }
            | Fault::Blip { factor, .. } => bend.rate *= factor,
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
            Fault::HeadOfLineBlocking { share, factor } => bend.huge = (share, factor),
            Fault::ClientAborts { share, seconds } => bend.leave = (share, seconds),
            _ => {}
        }
    }
    bend
}

/// The pod template that the Deployment has under `faults`.
pub fn template(spec: &FleetSpec, faults: &[Fault]) -> Template {
    let engine = &spec.engine;
    let mut config = EngineConfig {
        max_num_seqs: engine.max_num_seqs,
        num_gpu_blocks: engine.num_gpu_blocks,
        slowdown: 1.0,
        corrupted_share: 0.0,
    };
    let mut image = Image::Works;
    for fault in faults {
        match *fault {
            Fault::SlotLimit { limit } => config.max_num_seqs = config.max_num_seqs.min(limit),
            Fault::SlotsRaised { limit } => {
                // Each sequence of the batch needs a token of the budget, and one must be left for prompts.
                let most = engine.max_num_batched_tokens as usize - 1;
                config.max_num_seqs = config.max_num_seqs.max(limit).min(most);
            }
            Fault::CapacityShrunk { share } => {
                let blocks = (f64::from(config.num_gpu_blocks) * share) as u32;
                // vLLM does not start with less than one request of the greatest length.
                config.num_gpu_blocks = blocks.max(engine.min_blocks() + 1);
            }
            Fault::RolloutRegression { slowdown } => config.slowdown *= slowdown,
            Fault::OutputCorrupted { share } => config.corrupted_share = share,
            Fault::ModelLoadFailure {} => image = Image::FailsToLoad,
            Fault::ImagePullFailure {} => image = Image::Missing,
            _ => {}
        }
    }
    Template { engine: config, image }
}

/// What `faults` do to replica `i` while it is up.
pub fn on_replica(faults: &[Fault], i: usize) -> OnReplica {
    let mut on = OnReplica::NONE;
    for fault in faults.iter().filter(|fault| fault.replica().is_none_or(|replica| replica == i)) {
        match *fault {
            Fault::BadReplica { slowdown, .. } | Fault::SlowDecode { slowdown } => on.slowdown *= slowdown,
            Fault::GpuThrottling { slowdown, cause, .. } => {
                on.slowdown *= slowdown;
                on.throttle = Some(Throttle { slowdown, cause });
            }
            Fault::InterconnectSlow { slowdown, link, .. } => {
                on.slowdown *= slowdown;
                on.link = Some(link);
            }
            Fault::NoisyNeighbour { takes, slowdown, .. } => {
                on.slowdown *= slowdown;
                on.gpu_shared |= takes == Share::Gpu;
                on.cpu_throttled |= takes == Share::Throttle;
                if takes != Share::Gpu {
                    on.cpu /= slowdown;
                }
            }
            // A link with errors is slow only by what it repeats.
            Fault::GpuHardwareFault { xid: 74, .. } => on.link = Some(Link::Nvlink),
            Fault::StalledEngine { .. } => on.stalled = true,
            Fault::EngineAsleep { .. } => on.asleep = true,
            Fault::EngineDeadlocked { .. } => on.deadlocked = true,
            Fault::KvLeasesKept { seconds } => on.lease = Some(seconds),
            Fault::FrontendCpuBound { factor } => on.frontend *= factor,
            Fault::DeferredQueue { share, seconds } => on.grammar = (share, seconds),
            Fault::LoraThrash { adapters } => on.adapters = Some(adapters),
            Fault::SpecDecodeIneffective { acceptance } => on.acceptance = Some(acceptance),
            Fault::KvTransferSlow { factor, failed } => on.transfer = (factor, failed),
            Fault::EngineErrors { share, .. } => on.errors = share,
            Fault::ReplicaErrors { share, .. } => on.refusals = share,
            _ => {}
        }
    }
    on
}

/// What `faults` leave of replica `i`, which runs on the node of that index.
pub fn fate(faults: &[Fault], i: usize, node: usize) -> Fate {
    let lost = |fault: &Fault| matches!(fault, Fault::NodeDown { node: lost } if *lost == node);
    let crashes = |fault: &Fault| match *fault {
        Fault::LostReplica { replica } => replica == i,
        Fault::GpuHardwareFault { replica, xid, dies } => replica == i && dies && !is_survivable(xid),
        _ => false,
    };
    match () {
        () if faults.iter().any(lost) => Fate::NodeLost,
        () if faults.iter().any(crashes) => Fate::Crashes,
        () => Fate::Lives,
    }
}

/// After this Xid the next process on the GPU works: at most the one that met it ends (NVIDIA's Xid catalogue).
pub fn is_survivable(xid: usize) -> bool {
    matches!(xid, 13 | 31 | 32 | 43 | 45 | 63 | 68 | 69 | 74 | 92 | 94 | 121 | 137)
}

/// The process that met this Xid ends.
pub fn ends_process(xid: usize) -> bool {
    !matches!(xid, 43 | 45 | 63 | 74 | 92 | 121 | 137)
}

/// Why the fleet of `spec` cannot have `fault`, if it cannot.
pub fn missing_for(spec: &FleetSpec, fault: &Fault) -> Option<&'static str> {
    let engine = &spec.engine;
    match fault {
        Fault::LoraThrash { .. } if engine.lora.is_none() => Some("its engines have no LoRA (`engine.lora`)"),
        Fault::SpecDecodeIneffective { .. } if engine.speculative.is_none() => {
            Some("its engines have no speculative decoding (`engine.speculative`)")
        }
        Fault::KvTransferSlow { .. } if engine.kv_transfer.is_none() => {
            Some("its prompts are computed where they are decoded (`engine.kv_transfer`)")
        }
        Fault::KvLeasesKept { .. } if spec.prefill_replicas == 0 => {
            Some("its prompts are computed where they are decoded (`prefill_replicas`)")
        }
        Fault::RanksUneven { .. } if spec.ranks == 1 => Some("each of its servers has one engine (`ranks`)"),
        Fault::NoisyNeighbour { takes: Share::Throttle, .. } if engine.cpu_limit.is_none() => {
            Some("its containers have no CPU limit (`engine.cpu_limit`)")
        }
        Fault::AutoscalerAtMax { .. } if spec.autoscale_target.is_none() => {
            Some("its autoscaler does not act (`autoscale_target`)")
        }
        _ => None,
    }
}
