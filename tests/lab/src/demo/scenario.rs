//! A fault as a story: what is injected, and which cause a good diagnosis names.

use crate::sim::Fault;
use crate::sim::fault::ThrottleCause;

/// What goes wrong and what should be found.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Injected together.
    pub faults: Vec<Fault>,
    /// In plain words, for people.
    pub words: String,
    /// What the best chain should say.
    pub expected: Expected,
}

/// The chains that are right: one of `roots` at the end, over `through`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// An id that must be in the chain.
    pub through: Option<&'static str>,
    /// Ids of which one must end it; none for any.
    pub roots: &'static [&'static str],
}

impl Scenario {
    /// Reads `name` or `name:key=value,…`. Without parameters it is as strong as a fleet of that size needs to suffer.
    ///
    /// # Errors
    /// When the name or a parameter is unknown.
    pub fn read(text: &str, replicas: usize) -> anyhow::Result<Self> {
        let fault: Fault = text.parse()?;
        let (faults, words) = match fault {
            // The others carry the load of one, and of half for a while; users notice at once when two thirds are gone.
            Fault::LostReplica { .. } if !text.contains(':') => {
                let faults: Vec<Fault> = (0..2 * replicas / 3).map(|replica| Fault::LostReplica { replica }).collect();
                let lost = faults.len();
                (faults, format!("{lost} of {replicas} replicas die and crash-loop; the others take over their load."))
            }
            // The gateway's clients are told nothing is wrong with them: errors of the servers alarm, 4xx do not.
            Fault::ClientErrors { .. } if !text.contains(':') => {
                let strong = "client-errors:share=0.2,status=5xx".parse()?;
                (vec![strong], "A fifth of the requests is answered with an HTTP 5xx.".to_owned())
            }
            // At the power cap from the first second; heat takes a minute to be seen, and nobody waits for a demo.
            Fault::GpuThrottling { .. } if !text.contains(':') => {
                let capped = "gpu-throttling:cause=power".parse()?;
                (vec![capped], "The power cap pulls the clocks of all GPUs down, and every step slows.".to_owned())
            }
            fault => (vec![fault], fault.description().to_owned()),
        };
        let expected = Expected::of(faults.first().unwrap_or(&fault));
        Ok(Self { faults, words, expected })
    }
}

impl Expected {
    /// The ids are those of the playbooks and causes.
    fn of(fault: &Fault) -> Self {
        let (through, roots): (Option<&'static str>, &'static [&'static str]) = match fault {
            Fault::LongerPrompts { .. } => (None, &["longer-prompts"]),
            Fault::LongerOutputs { .. } => (None, &["longer-outputs"]),
            Fault::TrafficSurge { .. } => (None, &["traffic-surge"]),
            // By way of the symptom, or of the pods' own state.
            Fault::LostReplica { .. } => (None, &["lost-replica", "crash-loop"]),
            Fault::SlotLimit { .. } => (Some("slot-limit"), &["limit-lowered", "recent-rollout"]),
            Fault::CapacityShrunk { .. } => (None, &["capacity-shrunk"]),
            Fault::BadReplica { .. } => (Some("bad-replica"), &[]),
            Fault::PrefillBound { .. } => (Some("prefill-bound"), &["longer-prompts", "prefix-cache-collapse"]),
            Fault::GpuThrottling { cause: ThrottleCause::Thermal, .. } => {
                (Some("gpu-clock-bound"), &["gpu-overheated"])
            }
            Fault::GpuThrottling { cause: ThrottleCause::Power, .. } => (Some("gpu-clock-bound"), &["power-limited"]),
            Fault::StalledEngine { .. } | Fault::EngineDeadlocked { .. } => (Some("engine-stalled"), &[]),
            Fault::PrefixCacheCollapse { .. } => (Some("prefix-cache-collapse"), &[]),
            Fault::RunawayGeneration { .. } => (None, &["runaway-generation"]),
            Fault::RoutingSkew { .. } => (Some("hot-replica"), &[]),
            Fault::ClientErrors { .. } => (Some("high-error-rate"), &[]),
            Fault::HeadOfLineBlocking { .. } => (Some("head-of-line-blocking"), &[]),
            Fault::FrontendCpuBound { .. } => (Some("frontend-cpu-bound"), &[]),
            Fault::SlotsRaised { .. } => (Some("decode-batch-saturation"), &[]),
            Fault::SlowDecode { .. } => (Some("decode-slow-at-low-load"), &[]),
            Fault::DeferredQueue { .. } => (Some("deferred-queue"), &[]),
            Fault::LoraThrash { .. } => (Some("lora-thrash"), &[]),
            Fault::SpecDecodeIneffective { .. } => (Some("spec-decode-ineffective"), &[]),
            Fault::InterconnectSlow { .. } => (Some("interconnect-slow"), &[]),
            Fault::RanksUneven { .. } => (None, &["ranks-uneven"]),
            Fault::KvTransferSlow { .. } | Fault::KvLeasesKept { .. } => (Some("kv-transfer-slow"), &[]),
            Fault::ColdStart { .. } => (Some("cold-start"), &[]),
            Fault::GpuHardwareFault { .. } => (Some("gpu-hardware-fault"), &[]),
            Fault::HostOom { .. } => (Some("host-oom"), &[]),
            Fault::ModelLoadFailure { .. } => (Some("model-load-failure"), &[]),
            Fault::Unschedulable { .. } => (Some("unschedulable"), &[]),
            Fault::AutoscalerAtMax { .. } => (None, &["autoscaler-at-max", "traffic-surge"]),
            Fault::NoisyNeighbour { .. } => (None, &["noisy-neighbour"]),
            Fault::OutputCorrupted { .. } => (None, &["output-corrupted"]),
            Fault::RolloutRegression { .. } => (None, &["recent-rollout"]),
            Fault::EngineErrors { .. } | Fault::ReplicaErrors { .. } => (Some("high-error-rate"), &[]),
            Fault::MetricsMissing { .. } => (Some("scrape-failing"), &[]),
            // Some alarm by what they do, others by nothing: that is what they are for.
            Fault::ImagePullFailure { .. }
            | Fault::GpuOom { .. }
            | Fault::NodeDown { .. }
            | Fault::ClientAborts { .. }
            | Fault::Rollout { .. }
            | Fault::DemandDrop { .. }
            | Fault::Blip { .. }
            | Fault::ScaleDown { .. }
            | Fault::EngineAsleep { .. }
            | Fault::ScaleUp { .. } => (None, &[]),
        };
        Self { through, roots }
    }

    /// Whether a chain, from the symptom to the root, is right.
    pub fn is_met(&self, chain: &[String]) -> bool {
        let through = self.through.is_none_or(|id| chain.iter().any(|node| node == id));
        let root = self.roots.is_empty() || chain.last().is_some_and(|root| self.roots.contains(&root.as_str()));
        through && root && !chain.is_empty()
    }

    /// Whether a chain goes the right way and has not come to its end yet.
    pub fn is_near(&self, chain: &[String]) -> bool {
        self.through.is_some_and(|id| chain.last().is_some_and(|root| root == id))
    }

    /// In words: `longer-prompts`, `slot-limit ← limit-lowered`.
    pub fn spoken(&self) -> String {
        let roots = self.roots.join(" or ");
        match (self.through, self.roots) {
            (Some(through), []) => through.to_owned(),
            (Some(through), _) => format!("{through} ← {roots}"),
            (None, _) => roots,
        }
    }
}
