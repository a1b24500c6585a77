//! What can go wrong, or only change, by name.
//!
//! A fault is written `name` or `name:key=value,key=value`, as in `bad-replica:replica=1,slowdown=4`. Parameters mean
//! the same everywhere: `factor` and `slowdown` are multiples of normal, `share`, `acceptance` and `failed` are 0..1,
//! `seconds` are seconds, `replica` and `node` count from 0 (`replica=all` where one is not asked for).

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::parameter::Parameter;
pub use super::parameter::{ErrorStatus, Link, Page, Share, ThrottleCause};

/// One line per fault: its name, its parameters with their defaults, one sentence for people.
macro_rules! faults {
    ($( $variant:ident $name:literal ($( $key:ident: $type:ty = $default:expr ),*) $description:literal; )*) => {
        /// A fault with its parameters; several can be active together.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Fault {
            $(
                #[doc = $description]
                $variant {
                    $(
                        #[doc = concat!("`", stringify!($key), "`, as the module says.")]
                        $key: $type,
                    )*
                },
            )*
        }

        impl Fault {
            /// Every fault with its default parameters.
            pub const ALL: [Fault; [$( $name ),*].len()] = [$( Fault::$variant { $( $key: $default ),* } ),*];

            /// The name without parameters, in kebab case.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Fault::$variant { .. } => $name, )*
                }
            }

            /// One sentence on what happens, for people.
            pub fn description(&self) -> &'static str {
                match self {
                    $( Fault::$variant { .. } => $description, )*
                }
            }

            /// The replica it is limited to, if it is limited to one.
            pub fn replica(&self) -> Option<usize> {
                match self {
                    $( Fault::$variant { $( $key ),* } => {
                        let replicas: &[Option<usize>] = &[$( $key.replica(stringify!($key)) ),*];
                        replicas.iter().copied().flatten().next()
                    } )*
                }
            }

            fn set(&mut self, key: &str, value: &str) -> Result<()> {
                match self {
                    $( Fault::$variant { $( $key ),* } => {
                        $( if key == stringify!($key) {
                            *$key = Parameter::read(key, value)?;
                            return Ok(());
                        } )*
                    } )*
                }
                bail!("no such parameter")
            }

            /// Writes the parameters in their order, `separator` before each.
            fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separators = [":"].into_iter().chain(std::iter::repeat(","));
                let mut next = || separators.next().unwrap_or(",");
                let _ = &mut next;
                match self {
                    $( Fault::$variant { $( $key ),* } => {
                        $(
                            write!(f, "{}{}=", next(), stringify!($key))?;
                            Parameter::write($key, f)?;
                        )*
                    } )*
                }
                Ok(())
            }
        }
    };
}

faults! {
    LongerPrompts "longer-prompts" (factor: f64 = 3.0)
        "Prompts get several times as long at the same rate, so the KV pool runs full.";
    LongerOutputs "longer-outputs" (factor: f64 = 2.5)
        "Answers get longer at the same rate, so sequences stay and the KV pool runs full.";
    TrafficSurge "traffic-surge" (factor: f64 = 2.5)
        "Arrivals rise to a multiple of their past with unchanged lengths.";
    LostReplica "lost-replica" (replica: usize = 0)
        "One replica dies and crash-loops; the others take over its load.";
    SlotLimit "slot-limit" (limit: usize = 8)
        "A rollout lowers max_num_seqs: requests wait while KV blocks are free.";
    CapacityShrunk "capacity-shrunk" (share: f64 = 0.4)
        "A rollout leaves each engine with a fraction of its KV blocks.";
    BadReplica "bad-replica" (replica: usize = 1, slowdown: f64 = 5.0)
        "One replica computes several times slower than its peers.";
    PrefillBound "prefill-bound" (factor: f64 = 5.2)
        "Fewer requests with long new prompts and short answers: prompt processing is the bottleneck.";
    GpuThrottling "gpu-throttling"
        (replica: Option<usize> = None, slowdown: f64 = 4.0, cause: ThrottleCause = ThrottleCause::Thermal)
        "GPU clocks are pulled down by heat or by the power cap, and every step slows.";
    StalledEngine "stalled-engine" (replica: usize = 0)
        "One engine hangs: it has running requests and makes no tokens, but answers its probes.";
    PrefixCacheCollapse "prefix-cache-collapse" (share: f64 = 0.05)
        "Prompts no longer share prefixes, so nearly every prompt token is computed.";
    RunawayGeneration "runaway-generation" (share: f64 = 1.0)
        "Answers do not stop by themselves any more and run into max_tokens.";
    RoutingSkew "routing-skew" (replica: usize = 0, factor: f64 = 4.0)
        "The router sends one replica a multiple of its share while the others idle.";
    ClientErrors "client-errors" (share: f64 = 0.2, status: ErrorStatus = ErrorStatus::Client)
        "A share of the requests is refused with an error status.";
    HeadOfLineBlocking "head-of-line-blocking" (share: f64 = 0.025, factor: f64 = 25.0)
        "A few huge new prompts take the token budget, and the small ones behind them wait.";
    FrontendCpuBound "frontend-cpu-bound" (factor: f64 = 6.0)
        "Each request and token costs the API server a multiple of its CPU time, until its core is full.";
    SlotsRaised "slots-raised" (limit: usize = 512)
        "A rollout raises max_num_seqs, so that more sequences share each step.";
    SlowDecode "slow-decode" (slowdown: f64 = 5.0)
        "Every step of every replica takes a multiple of its time, with nothing to see at the GPUs.";
    DeferredQueue "deferred-queue" (share: f64 = 0.33, seconds: f64 = 1.0)
        "A share of the requests wants a grammar that takes seconds to compile; they wait apart from the others.";
    LoraThrash "lora-thrash" (adapters: usize = 24)
        "Clients ask for more LoRA adapters than there are slots.";
    SpecDecodeIneffective "spec-decode-ineffective" (acceptance: f64 = 0.03)
        "The draft tokens of speculative decoding are rejected, so a step yields one token again.";
    InterconnectSlow "interconnect-slow" (replica: Option<usize> = None, slowdown: f64 = 6.0, link: Link = Link::Pcie)
        "The GPUs of a replica exchange their results slowly, so that every step takes a multiple of its time.";
    KvTransferSlow "kv-transfer-slow" (factor: f64 = 22.0, failed: f64 = 0.1)
        "KV blocks of prompts computed elsewhere arrive late, and some transfers fail.";
    ColdStart "cold-start" (replica: Option<usize> = None, slowdown: f64 = 8.0, seconds: f64 = 180.0)
        "Replicas restart now, and their steps are slow until kernels are compiled and graphs captured.";
    GpuHardwareFault "gpu-hardware-fault" (replica: usize = 1, xid: usize = 79, dies: bool = true)
        "The driver reports an Xid for one GPU, with the counters and the end of the process that go with it.";
    HostOom "host-oom" (replica: usize = 0, seconds: f64 = 90.0)
        "The kernel kills one server for its memory, again and again some time after each start.";
    GpuOom "gpu-oom" (replica: usize = 0, seconds: f64 = 90.0)
        "One engine runs out of device memory and ends, again and again some time after each start.";
    ModelLoadFailure "model-load-failure" ()
        "A rollout brings an engine that dies while it loads the model; the old replicas serve on.";
    ImagePullFailure "image-pull-failure" ()
        "A rollout names an image that cannot be pulled; the old replicas serve on.";
    Unschedulable "unschedulable" (by: usize = 2)
        "Replicas are added, and no node has a GPU for them.";
    NodeDown "node-down" (node: usize = 0)
        "A node dies with all that runs on it.";
    AutoscalerAtMax "autoscaler-at-max" (factor: f64 = 3.0)
        "Arrivals rise beyond what the autoscaler's maximum of replicas can serve.";
    NoisyNeighbour "noisy-neighbour" (replica: usize = 1, takes: Share = Share::Gpu, slowdown: f64 = 4.0)
        "Another workload takes CPU or GPU from one replica.";
    ClientAborts "client-aborts" (share: f64 = 0.3, seconds: f64 = 3.0)
        "A share of the clients goes away after some seconds, whatever they got.";
    OutputCorrupted "output-corrupted" (share: f64 = 0.5)
        "After a rollout a share of the answers is garbage from NaN logits and runs into max_tokens.";
    EngineErrors "engine-errors" (replica: Option<usize> = None, share: f64 = 0.2)
        "A share of the requests ends with an error inside the engine.";
    ReplicaErrors "replica-errors" (replica: usize = 1, share: f64 = 0.5)
        "One replica answers a share of its requests with an HTTP 5xx.";
    RolloutRegression "rollout-regression" (slowdown: f64 = 5.0)
        "A new image makes every step slower, and changes nothing else.";
    MetricsMissing "metrics-missing" (replica: Option<usize> = None, page: Page = Page::Server)
        "Pages are missing while everything works.";
    Rollout "rollout" ()
        "A rollout replaces every replica by its like.";
    DemandDrop "demand-drop" (factor: f64 = 0.3)
        "Arrivals fall to a part of their past.";
    Blip "blip" (factor: f64 = 2.5, seconds: f64 = 75.0)
        "Arrivals rise for a minute or so, and are normal again.";
    ScaleDown "scale-down" (by: usize = 1)
        "Somebody asks for fewer replicas.";
    EngineDeadlocked "engine-deadlocked" (replica: usize = 0)
        "One engine's scheduler admits nothing any more: what ran ends, what comes waits, and its process lives.";
    RanksUneven "ranks-uneven" (factor: f64 = 4.0)
        "Clients name the rank they want, and most name the first of each server.";
    KvLeasesKept "kv-leases-kept" (seconds: f64 = 480.0)
        "Nobody says that a prompt's KV was read, so its blocks are held where it was computed until the lease ends.";
    EngineAsleep "engine-asleep" (replica: usize = 1)
        "One engine is put to sleep and taken out of the router: its memory is free for something else.";
    ScaleUp "scale-up" (by: usize = 1)
        "Somebody asks for more replicas, and they start.";
}

impl FromStr for Fault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let mut fault = *Fault::ALL.iter().find(|fault| fault.name() == name).with_context(|| {
            let names: Vec<_> = Fault::ALL.iter().map(Fault::name).collect();
            format!("unknown fault `{name}`, expected one of {}", names.join(", "))
        })?;
        for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter
                .split_once('=')
                .with_context(|| format!("fault `{name}`: `{parameter}`: expected key=value"))?;
            fault.set(key, value).with_context(|| format!("fault `{name}`: parameter `{parameter}`"))?;
        }
        Ok(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.write_parameters(f)
    }
}
