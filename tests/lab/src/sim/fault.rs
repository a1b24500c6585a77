//! What can go wrong, by name.
//!
//! A fault is written `name` or `name:key=value,key=value`, as in `bad-replica:replica=1,slowdown=4`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// A fault with its parameters; several can be active together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Prompts get `factor` times as long.
    LongerPrompts {
        /// Multiple of normal.
        factor: f64,
    },
    /// Answers get `factor` times as long and clients allow for it.
    LongerOutputs {
        /// Multiple of normal.
        factor: f64,
    },
    /// Arrivals are multiplied by `factor`.
    TrafficSurge {
        /// Multiple of normal.
        factor: f64,
    },
    /// The replica dies and crashes again on each restart.
    LostReplica {
        /// Index of the replica.
        replica: usize,
    },
    /// A rollout lowers `max_num_seqs` to `limit`.
    SlotLimit {
        /// Sequences in one batch.
        limit: usize,
    },
    /// A rollout leaves `share` (0..1) of the KV blocks.
    CapacityShrunk {
        /// Share, 0..1.
        share: f64,
    },
    /// The replica's steps take `slowdown` times as long, with nothing wrong at its GPU's counters.
    BadReplica {
        /// Index of the replica.
        replica: usize,
        /// Multiple of the normal duration of a step.
        slowdown: f64,
    },
    /// Summarising instead of chat: fewer requests, new prompts `factor` times as long, answers a sixth.
    PrefillBound {
        /// Multiple of normal.
        factor: f64,
    },
    /// The clocks of all GPUs, or of one replica's, are pulled down to 1 / `slowdown`.
    GpuThrottling {
        /// Index of the replica, `None` for all.
        replica: Option<usize>,
        /// Multiple of the normal duration of a step.
        slowdown: f64,
        /// Why.
        cause: ThrottleCause,
    },
    /// The replica's engine makes no step any more while its page and its health are served.
    StalledEngine {
        /// Index of the replica.
        replica: usize,
    },
    /// `share` (0..1) of the prefix cache hits is left.
    PrefixCacheCollapse {
        /// Share, 0..1.
        share: f64,
    },
    /// `share` (0..1) of the requests never stops before `max_tokens`.
    RunawayGeneration {
        /// Share, 0..1.
        share: f64,
    },
    /// The router sends `factor` times the fair share to the replica.
    RoutingSkew {
        /// Index of the replica.
        replica: usize,
        /// Multiple of normal.
        factor: f64,
    },
    /// `share` (0..1) of the requests is answered with an error before it reaches the engine.
    ClientErrors {
        /// Share, 0..1.
        share: f64,
        /// Class of the answers.
        status: ErrorStatus,
    },
}

/// Why a GPU's clocks are pulled down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThrottleCause {
    /// Too hot: hardware slowdown, thermal violation time rises.
    Thermal,
    /// At the power cap: power violation time rises.
    Power,
}

/// The class of an error answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStatus {
    /// 400 to 499.
    Client,
    /// 500 to 599.
    Server,
}

impl Fault {
    /// Every fault with its default parameters.
    pub const ALL: [Fault; 14] = [
        Fault::LongerPrompts { factor: 3.0 },
        Fault::LongerOutputs { factor: 2.5 },
        Fault::TrafficSurge { factor: 2.5 },
        Fault::LostReplica { replica: 0 },
        Fault::SlotLimit { limit: 8 },
        Fault::CapacityShrunk { share: 0.4 },
        Fault::BadReplica { replica: 1, slowdown: 5.0 },
        Fault::PrefillBound { factor: 5.2 },
        Fault::GpuThrottling { replica: None, slowdown: 4.0, cause: ThrottleCause::Thermal },
        Fault::StalledEngine { replica: 0 },
        Fault::PrefixCacheCollapse { share: 0.05 },
        Fault::RunawayGeneration { share: 1.0 },
        Fault::RoutingSkew { replica: 0, factor: 4.0 },
        Fault::ClientErrors { share: 0.2, status: ErrorStatus::Client },
    ];

    /// The name without parameters, in kebab case.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::LongerPrompts { .. } => "longer-prompts",
            Fault::LongerOutputs { .. } => "longer-outputs",
            Fault::TrafficSurge { .. } => "traffic-surge",
            Fault::LostReplica { .. } => "lost-replica",
            Fault::SlotLimit { .. } => "slot-limit",
            Fault::CapacityShrunk { .. } => "capacity-shrunk",
            Fault::BadReplica { .. } => "bad-replica",
            Fault::PrefillBound { .. } => "prefill-bound",
            Fault::GpuThrottling { .. } => "gpu-throttling",
            Fault::StalledEngine { .. } => "stalled-engine",
            Fault::PrefixCacheCollapse { .. } => "prefix-cache-collapse",
            Fault::RunawayGeneration { .. } => "runaway-generation",
            Fault::RoutingSkew { .. } => "routing-skew",
            Fault::ClientErrors { .. } => "client-errors",
        }
    }

    /// One sentence on what happens, for people.
    pub fn description(&self) -> &'static str {
        match self {
            Fault::LongerPrompts { .. } => {
                "Prompts get several times as long at the same rate, so the KV pool runs full."
            }
            Fault::LongerOutputs { .. } => {
                "Answers get longer at the same rate, so sequences stay and the KV pool runs full."
            }
            Fault::TrafficSurge { .. } => "Arrivals rise to a multiple of their past with unchanged lengths.",
            Fault::LostReplica { .. } => "One replica dies and crash-loops; the others take over its load.",
            Fault::SlotLimit { .. } => "A rollout lowers max_num_seqs: requests wait while KV blocks are free.",
            Fault::CapacityShrunk { .. } => "A rollout leaves each engine with a fraction of its KV blocks.",
            Fault::BadReplica { .. } => "One replica computes several times slower than its peers.",
            Fault::PrefillBound { .. } => {
                "Fewer requests with long new prompts and short answers: prompt processing is the bottleneck."
            }
            Fault::GpuThrottling { .. } => {
                "GPU clocks are pulled down by heat or by the power cap, and every step slows."
            }
            Fault::StalledEngine { .. } => {
                "One engine hangs: it has running requests and makes no tokens, but answers its probes."
            }
            Fault::PrefixCacheCollapse { .. } => {
                "Prompts no longer share prefixes, so nearly every prompt token is computed."
            }
            Fault::RunawayGeneration { .. } => "Answers do not stop by themselves any more and run into max_tokens.",
            Fault::RoutingSkew { .. } => "The router sends one replica a multiple of its share while the others idle.",
            Fault::ClientErrors { .. } => "A share of the requests is refused with an error status.",
        }
    }

    /// The replica it is limited to, if it is limited to one.
    pub fn replica(&self) -> Option<usize> {
        match *self {
            Fault::LostReplica { replica }
            | Fault::BadReplica { replica, .. }
            | Fault::StalledEngine { replica }
            | Fault::RoutingSkew { replica, .. } => Some(replica),
            Fault::GpuThrottling { replica, .. } => replica,
            Fault::LongerPrompts { .. }
            | Fault::LongerOutputs { .. }
            | Fault::TrafficSurge { .. }
            | Fault::SlotLimit { .. }
            | Fault::CapacityShrunk { .. }
            | Fault::PrefillBound { .. }
            | Fault::PrefixCacheCollapse { .. }
            | Fault::RunawayGeneration { .. }
            | Fault::ClientErrors { .. } => None,
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match (self, key) {
            (
                Fault::LongerPrompts { factor }
                | Fault::LongerOutputs { factor }
                | Fault::TrafficSurge { factor }
                | Fault::PrefillBound { factor }
                | Fault::RoutingSkew { factor, .. },
                "factor",
            ) => *factor = multiple(value)?,
            (Fault::BadReplica { slowdown, .. } | Fault::GpuThrottling { slowdown, .. }, "slowdown") => {
                *slowdown = multiple(value)?;
            }
            (
                Fault::LostReplica { replica }
                | Fault::BadReplica { replica, .. }
                | Fault::StalledEngine { replica }
                | Fault::RoutingSkew { replica, .. },
                "replica",
            ) => *replica = value.parse().context("expected the index of a replica")?,
            (Fault::GpuThrottling { replica, .. }, "replica") => {
                *replica = match value {
                    "all" => None,
                    index => Some(index.parse().context("expected `all` or the index of a replica")?),
                };
            }
            (Fault::GpuThrottling { cause, .. }, "cause") => {
                *cause = match value {
                    "thermal" => ThrottleCause::Thermal,
                    "power" => ThrottleCause::Power,
                    _ => bail!("expected `thermal` or `power`"),
                };
            }
            (Fault::SlotLimit { limit }, "limit") => {
                *limit = value.parse().context("expected a number of sequences")?;
                ensure!(*limit > 0, "expected at least 1");
            }
            (
                Fault::CapacityShrunk { share }
                | Fault::PrefixCacheCollapse { share }
                | Fault::RunawayGeneration { share }
                | Fault::ClientErrors { share, .. },
                "share",
            ) => {
                *share = value.parse().context("expected a number")?;
                ensure!((0.0..=1.0).contains(share), "expected 0 to 1");
            }
            (Fault::ClientErrors { status, .. }, "status") => {
                *status = match value {
                    "4xx" => ErrorStatus::Client,
                    "5xx" => ErrorStatus::Server,
                    _ => bail!("expected `4xx` or `5xx`"),
                };
            }
            (_, _) => bail!("no such parameter"),
        }
        Ok(())
    }
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
        write!(f, "{}:", self.name())?;
        match self {
            Fault::LongerPrompts { factor }
            | Fault::LongerOutputs { factor }
            | Fault::TrafficSurge { factor }
            | Fault::PrefillBound { factor } => write!(f, "factor={factor}"),
            Fault::LostReplica { replica } | Fault::StalledEngine { replica } => write!(f, "replica={replica}"),
            Fault::SlotLimit { limit } => write!(f, "limit={limit}"),
            Fault::CapacityShrunk { share }
            | Fault::PrefixCacheCollapse { share }
            | Fault::RunawayGeneration { share } => write!(f, "share={share}"),
            Fault::BadReplica { replica, slowdown } => write!(f, "replica={replica},slowdown={slowdown}"),
            Fault::RoutingSkew { replica, factor } => write!(f, "replica={replica},factor={factor}"),
            Fault::GpuThrottling { replica, slowdown, cause } => {
                match replica {
                    Some(replica) => write!(f, "replica={replica}")?,
                    None => write!(f, "replica=all")?,
                }
                let cause = match cause {
                    ThrottleCause::Thermal => "thermal",
                    ThrottleCause::Power => "power",
                };
                write!(f, ",slowdown={slowdown},cause={cause}")
            }
            Fault::ClientErrors { share, status } => write!(f, "share={share},status={}", status.as_str()),
        }
    }
}

impl ErrorStatus {
    /// The value of the label `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorStatus::Client => "4xx",
            ErrorStatus::Server => "5xx",
        }
    }
}

fn multiple(value: &str) -> Result<f64> {
    let factor: f64 = value.parse().context("expected a number")?;
    ensure!((0.01..=100.0).contains(&factor), "expected 0.01 to 100");
    Ok(factor)
}
