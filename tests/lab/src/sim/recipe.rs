//! Fleets in which certain things show, or are normal.

use super::fault::Fault;
use super::spec::{FleetSpec, KvTransferSpec, LoraSpec, OffloadSpec, RequestKind, Routing, SpeculativeSpec, Unrest};

impl FleetSpec {
    /// The fleet of `replicas` on which `fault` with its default parameters shows its tells.
    pub fn for_fault(fault: &Fault, replicas: usize) -> Self {
        match fault {
            Fault::HeadOfLineBlocking { .. } => Self::long_context(replicas),
            Fault::SlotsRaised { .. } => {
                let mut spec = Self::decode_heavy(replicas);
                // Too few slots for its load: that is why somebody raises them.
                spec.engine.max_num_seqs = 40;
                spec.requests_per_second = 4.2 * replicas as f64;
                spec
            }
            Fault::LoraThrash { .. } => Self::with_lora(replicas),
            Fault::SpecDecodeIneffective { .. } => Self::speculative(replicas),
            Fault::KvTransferSlow { .. } => Self::decode_pods(replicas),
            Fault::KvLeasesKept { .. } => Self::prefill_decode(replicas),
            Fault::RanksUneven { .. } => Self::two_ranks(replicas),
            Fault::AutoscalerAtMax { .. } => Self::autoscaled(replicas),
            Fault::GpuHardwareFault { .. } | Fault::InterconnectSlow { .. } => {
                let mut spec = Self::sized(replicas);
                (spec.dcgm.ecc, spec.dcgm.nvlink) = (true, true);
                spec
            }
            Fault::NoisyNeighbour { .. } | Fault::FrontendCpuBound { .. } => {
                let mut spec = Self::sized(replicas);
                (spec.cadvisor, spec.engine.cpu_limit) = (true, Some(4.0));
                spec
            }
            Fault::OutputCorrupted { .. } => {
                let mut spec = Self::sized(replicas);
                spec.engine.counts_nans = true;
                spec
            }
            _ => Self::sized(replicas),
        }
    }

    /// Prompts of up to 32 thousand tokens fit, several at a time.
    pub fn long_context(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.engine.max_model_len = 32_768;
        spec.engine.num_gpu_blocks = 10_240;
        spec
    }

    /// Short prompts, long answers, a KV pool that never fills and steps that the batch makes slow.
    pub fn decode_heavy(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.workload.prompt_tokens = 120.0;
        spec.workload.output_tokens = 420.0;
        spec.engine.max_num_seqs = 512;
        spec.engine.max_num_batched_tokens = 1024;
        spec.engine.num_gpu_blocks = 24_576;
        spec.engine.sequence_seconds = 0.000_55;
        spec.requests_per_second = 2.0 * replicas as f64;
        spec
    }

    /// Four slots for LoRA adapters, and four adapters.
    pub fn with_lora(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.engine.lora = Some(LoraSpec { max_loras: 4, adapters: 4, load_seconds: 0.08 });
        spec
    }

    /// Three draft tokens a step, most of which are right; it carries a load that it could not carry without.
    pub fn speculative(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.engine.speculative = Some(SpeculativeSpec { tokens: 3, acceptance: 0.8, draft_seconds: 0.003 });
        spec.engine.step_seconds = 0.03;
        spec.engine.sequence_seconds = 0.000_6;
        spec.engine.num_gpu_blocks = 6144;
        spec
    }

    /// The decoding half of a deployment whose prompts are computed elsewhere.
    pub fn decode_pods(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        let token_bytes = 2.0 * 32.0 * 8.0 * 128.0 * 2.0;
        spec.engine.kv_transfer =
            Some(KvTransferSpec { base_seconds: 0.004, token_seconds: token_bytes / 10e9, token_bytes });
        // What they could reuse is in the cache of those that computed it.
        spec.workload.reuse_share = 0.0;
        spec
    }

    /// As many replicas that compute prompts as those that decode, and KV that goes from these to those.
    pub fn prefill_decode(pairs: usize) -> Self {
        let mut spec = Self::decode_pods(2 * pairs);
        spec.prefill_replicas = pairs;
        spec.workload.reuse_share = 0.5;
        spec.requests_per_second = 2.6 * pairs as f64;
        spec
    }

    /// Servers of two data-parallel engines each, of which the one with the least to do gets the next request.
    pub fn two_ranks(servers: usize) -> Self {
        let mut spec = Self::sized(2 * servers);
        (spec.ranks, spec.routing) = (2, Routing::LeastLoaded);
        spec
    }

    /// A KV cache in host memory: gigabytes go to and fro each second.
    pub fn offloading(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        // 40 layers without grouped heads.
        spec.engine.offload = Some(OffloadSpec { share: 0.6, token_bytes: 2.0 * 40.0 * 40.0 * 128.0 * 2.0 });
        spec
    }

    /// An autoscaler that follows the requests in flight up to one replica more.
    pub fn autoscaled(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.autoscaler = (replicas.div_ceil(2).max(1), replicas + 1);
        spec.autoscale_target = Some(20.0);
        spec
    }

    /// A KV pool that is nearly full all the time while nobody waits: a batch job with as many workers as fit.
    pub fn nearly_full(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.workload.prompt_tokens = 300.0;
        spec.workload.prompt_sigma = 0.3;
        spec.workload.output_tokens = 150.0;
        spec.workload.output_sigma = 0.3;
        spec.engine.max_num_seqs = 512;
        spec.engine.max_num_batched_tokens = 1024;
        spec.engine.sequence_seconds = 0.000_05;
        spec.engine.max_model_len = 2048;
        spec.engine.num_gpu_blocks = 3_700;
        // Short chunks cost its API server little, or it would be full first.
        spec.engine.frontend_seconds = (0.002, 0.000_03);
        spec.requests_per_second = 40.0 * replicas as f64;
        spec.concurrency = Some(140 * replicas as u64);
        spec.routing = Routing::LeastLoaded;
        spec
    }

    /// Embeddings of passages: prompts without a prefix in common, and no tokens in the answers.
    pub fn embedding(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.engine.pooling = true;
        spec.engine.max_num_seqs = 256;
        spec.engine.max_num_batched_tokens = 8192;
        spec.workload.prompt_tokens = 500.0;
        // One vector, at once.
        (spec.workload.output_tokens, spec.workload.output_sigma) = (1.0, 0.0);
        spec.workload.max_tokens = vec![(1, 1.0)];
        // Who builds an index waits; clients that all gave up at once would leave nothing but work for nobody.
        spec.workload.read_timeout_seconds = Some(600.0);
        spec.workload.reuse_share = 0.0;
        spec.requests_per_second = 5.0 * replicas as f64;
        spec
    }

    /// Answers of 2 to 8 thousand tokens, a minute long.
    pub fn reasoning(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.engine.max_model_len = 32_768;
        spec.engine.num_gpu_blocks = 8_192;
        spec.engine.step_seconds = 0.012;
        spec.engine.kv_token_seconds = 0.000_000_05;
        spec.workload.prompt_tokens = 600.0;
        (spec.workload.output_tokens, spec.workload.output_sigma) = (3_500.0, 0.45);
        spec.workload.max_tokens = vec![(16_384, 1.0)];
        spec.workload.reuse_share = 0.3;
        spec.workload.read_timeout_seconds = Some(600.0);
        spec.requests_per_second = 0.25 * replicas as f64;
        spec
    }

    /// Documents of 20 to 60 thousand tokens: a first token takes seconds to compute.
    pub fn documents(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.engine.max_model_len = 131_072;
        spec.engine.num_gpu_blocks = 65_536;
        spec.engine.max_num_batched_tokens = 2_048;
        spec.engine.prefill_token_seconds = 0.000_08;
        (spec.workload.prompt_tokens, spec.workload.prompt_sigma) = (38_000.0, 0.3);
        spec.workload.output_tokens = 150.0;
        spec.workload.reuse_share = 0.2;
        spec.workload.read_timeout_seconds = Some(180.0);
        spec.requests_per_second = 0.1 * replicas as f64;
        spec
    }

    /// A batch job that keeps hundreds of requests queued before each replica, all of whose slots are taken.
    pub fn batch(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.engine.num_gpu_blocks = 8_192;
        spec.workload.output_tokens = 500.0;
        spec.workload.read_timeout_seconds = None;
        spec.requests_per_second = 6.0 * replicas as f64;
        spec.concurrency = Some(320 * replicas as u64);
        spec.routing = Routing::LeastLoaded;
        spec
    }

    /// Prompts that have nothing in common.
    pub fn fresh_prompts(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.workload.reuse_share = 0.03;
        spec.requests_per_second = 2.0 * replicas as f64;
        spec
    }

    /// Chat with calls of tools in between, which are long and answered shortly, and a crowd that comes and goes.
    pub fn agents(replicas: usize) -> Self {
        let mut spec = Self::sized(replicas);
        spec.workload.kinds = vec![
            RequestKind { share: 0.25, prompt: 2.2, output: 0.2 },
            RequestKind { share: 0.1, prompt: 0.1, output: 0.1 },
        ];
        spec.unrest = Unrest::usual();
        spec
    }
}
