//! What a simulated fleet is made of: its traffic, its engines, its exporters.
//!
//! The defaults describe an 8B model in bf16 on a 24 GB GPU at a bit under half of its KV pool.

use anyhow::{Result, ensure};

use super::dialect::Dialect;

/// Tokens in one KV block, vLLM's default for CUDA.
pub const BLOCK_TOKENS: u32 = 16;

/// One deployment of a model with everything that is scraped around it.
#[derive(Debug, Clone)]
pub struct FleetSpec {
    /// Serving pods, one GPU each.
    pub replicas: usize,
    /// Value of the label `model_name`.
    pub model_name: String,
    /// Kubernetes namespace of the serving pods.
    pub namespace: String,
    /// Kubernetes Deployment of the serving pods.
    pub deployment: String,
    /// Mean arrivals at the pool, in requests per second.
    pub requests_per_second: f64,
    /// Relative swing of the arrivals over a day, 0..1; the peak is at 14:00 UTC.
    pub diurnal_amplitude: f64,
    /// Requests that the clients have open at once at most, as workers of a batch job; further ones are not sent.
    pub concurrency: Option<u64>,
    /// What the requests look like.
    pub workload: Workload,
    /// Engines behind one API server (`--data-parallel-size`): so many replicas in a row are the ranks of one pod.
    pub ranks: usize,
    /// The first so many replicas compute prompts and hand them over to the others, which decode.
    pub prefill_replicas: usize,
    /// Whose metrics pages the serving pods have.
    pub dialect: Dialect,
    /// How one replica serves them.
    pub engine: EngineSpec,
    /// How the router picks a replica.
    pub routing: Routing,
    /// Seconds until the router notices a replica that died without notice.
    pub router_delay_seconds: f64,
    /// Seconds from the start of a container to its readiness.
    pub startup_seconds: f64,
    /// GPUs, and so replicas, per node; each node runs one GPU exporter.
    pub gpus_per_node: usize,
    /// Who tells about the GPUs.
    pub gpu_exporter: GpuExporter,
    /// kube-state-metrics is scraped.
    pub kube_state_metrics: bool,
    /// Which optional fields dcgm-exporter has enabled.
    pub dcgm: DcgmSpec,
    /// `minReplicas` and `maxReplicas` of the autoscaler.
    pub autoscaler: (usize, usize),
    /// Requests in flight per replica that the autoscaler aims at; `None` for one that looks at CPU and never acts.
    pub autoscale_target: Option<f64>,
    /// How the arrivals wander around their mean.
    pub unrest: Unrest,
    /// The kubelet's cAdvisor is scraped too.
    pub cadvisor: bool,
}

/// What makes arrivals differ from a Poisson process; all 0 when nothing does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unrest {
    /// Standard deviation of the logarithm of the rate, which wanders and returns.
    pub walk: f64,
    /// Seconds after which the rate has forgotten where it was.
    pub walk_seconds: f64,
    /// Bursts per hour.
    pub bursts_per_hour: f64,
    /// What the rate is multiplied by in a burst.
    pub burst_factor: f64,
    /// Mean length of a burst in seconds.
    pub burst_seconds: f64,
}

impl Unrest {
    /// That of a service with many users: a fifth up or down within a quarter of an hour, a short burst now and then.
    pub fn usual() -> Self {
        Self { walk: 0.12, walk_seconds: 900.0, bursts_per_hour: 2.0, burst_factor: 1.5, burst_seconds: 15.0 }
    }
}

/// Lengths, reuse and patience of the clients' requests.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Mean prompt length in tokens (lognormal).
    pub prompt_tokens: f64,
    /// Sigma of the logarithm of the prompt length.
    pub prompt_sigma: f64,
    /// Mean answer length in tokens (lognormal), before the cap by `max_tokens`.
    pub output_tokens: f64,
    /// Sigma of the logarithm of the answer length.
    pub output_sigma: f64,
    /// The `max_tokens` that clients send, with the share of the requests that send it.
    pub max_tokens: Vec<(u32, f64)>,
    /// Share of the requests, 0..1, that repeat an earlier prompt and go on (a further turn of a chat).
    pub reuse_share: f64,
    /// Least and greatest part of such a prompt, 0..1, that is found in the prefix cache.
    pub reuse_part: (f64, f64),
    /// Seconds without a token after which the client goes away; `None` waits for ever.
    pub read_timeout_seconds: Option<f64>,
    /// Kinds of requests that differ from the others, each with its share of all; tools' calls, for one.
    pub kinds: Vec<RequestKind>,
}

/// A kind of requests among the others.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestKind {
    /// Share of all requests, 0..1.
    pub share: f64,
    /// What their prompts' lengths are multiplied by.
    pub prompt: f64,
    /// What their answers' lengths are multiplied by.
    pub output: f64,
}

/// Limits and costs of one engine.
#[derive(Debug, Clone)]
pub struct EngineSpec {
    /// `--max-num-seqs`: sequences in one batch.
    pub max_num_seqs: usize,
    /// `--max-num-batched-tokens`: tokens computed in one step, decodes first.
    pub max_num_batched_tokens: u32,
    /// `--max-model-len`: prompt and answer together, in tokens.
    pub max_model_len: u32,
    /// Blocks of [`BLOCK_TOKENS`] in the KV pool.
    pub num_gpu_blocks: u32,
    /// Share of the device memory the engine takes, 0..1; only shown in `cache_config_info`.
    pub gpu_memory_utilization: f64,
    /// Seconds each step costs whatever its batch: reading the weights.
    pub step_seconds: f64,
    /// Seconds each computed prompt token adds.
    pub prefill_token_seconds: f64,
    /// Seconds each decoding sequence adds.
    pub sequence_seconds: f64,
    /// Seconds each token in the KV cache adds: reading the cache.
    pub kv_token_seconds: f64,
    /// Relative noise of a step's duration, 0..1.
    pub noise: f64,
    /// Which generation of names a vLLM page has.
    pub release: Release,
    /// CPU seconds of the API server, which has one core: per request, per token.
    pub frontend_seconds: (f64, f64),
    /// The container's CPU limit in cores, if it has one.
    pub cpu_limit: Option<f64>,
    /// Speculative decoding, if it is on.
    pub speculative: Option<SpeculativeSpec>,
    /// LoRA, if it is on; then each request names an adapter.
    pub lora: Option<LoraSpec>,
    /// Another deployment computes the prompts and this one pulls their KV, if it does.
    pub kv_transfer: Option<KvTransferSpec>,
    /// `VLLM_COMPUTE_NANS_IN_LOGITS`: requests with NaN logits are counted.
    pub counts_nans: bool,
    /// A KV cache in host memory beyond the GPU's (`--kv-offloading-size`), if there is one.
    pub offload: Option<OffloadSpec>,
    /// It computes prompts for others: each request has one token here, and its blocks are held until they are read.
    pub prefill_only: bool,
    /// It makes embeddings (`--task embed`): a request is answered when its prompt is computed, and has no tokens.
    pub pooling: bool,
}

/// Speculative decoding; the whole batch accepts equally many drafts in a step.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeculativeSpec {
    /// Draft tokens per step.
    pub tokens: u32,
    /// Probability, 0..1, that a draft token is right when those before it were.
    pub acceptance: f64,
    /// Seconds that each draft token adds to a step.
    pub draft_seconds: f64,
}

/// LoRA adapters and their slots.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraSpec {
    /// `--max-loras`: adapters in one batch.
    pub max_loras: usize,
    /// Adapters that the clients ask for, all alike.
    pub adapters: usize,
    /// Seconds that a step takes longer when an adapter is loaded into a slot.
    pub load_seconds: f64,
}

/// How KV blocks come from the replicas that compute the prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct KvTransferSpec {
    /// Seconds each transfer takes whatever its size.
    pub base_seconds: f64,
    /// Seconds each prompt token adds; transfers of a replica share its link, one after the other.
    pub token_seconds: f64,
    /// KV bytes of one token.
    pub token_bytes: f64,
}

/// KV blocks that are kept in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct OffloadSpec {
    /// Share of the reused prompt tokens, 0..1, that the GPU has forgotten and host memory has not.
    pub share: f64,
    /// KV bytes of one token.
    pub token_bytes: f64,
}

/// A generation of vLLM's metric names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// 0.32 and later.
    Current,
    /// 0.8.5: `gpu_cache_usage_perc`, `time_per_output_token_seconds`, nothing by reason or source.
    V0_8,
}

/// How the router spreads requests over the ready replicas.
#[derive(Debug, Clone, PartialEq)]
pub enum Routing {
    /// Each replica in turn.
    RoundRobin,
    /// The replica with the fewest requests in flight.
    LeastLoaded,
    /// In turn, but in proportion to a weight per replica; missing weights are 1.
    Weighted(Vec<f64>),
}

/// Exporters of GPU metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuExporter {
    /// NVIDIA's dcgm-exporter.
    Dcgm,
    /// utkuozdemir/nvidia_gpu_exporter, which knows GPUs by their uuid and no pods.
    NvidiaGpuExporter,
    /// None: nobody tells.
    Absent,
}

/// Options of dcgm-exporter.
#[derive(Debug, Clone)]
pub struct DcgmSpec {
    /// `DCGM_FI_DEV_CLOCKS_EVENT_REASONS` is in the CSV.
    pub clock_events: bool,
    /// `DCGM_FI_DEV_POWER_VIOLATION` and `DCGM_FI_DEV_THERMAL_VIOLATION` are in the CSV.
    pub violations: bool,
    /// The scrape keeps the page's `pod`, `namespace` and `container`; else Prometheus makes them `exported_*`.
    pub honor_labels: bool,
    /// `DCGM_FI_DEV_ECC_DBE_VOL_TOTAL` is in the CSV.
    pub ecc: bool,
    /// The GPUs have NVLink and its error counters are in the CSV.
    pub nvlink: bool,
}

impl FleetSpec {
    /// A fleet of `replicas` at the default load per replica.
    pub fn sized(replicas: usize) -> Self {
        Self {
            replicas,
            model_name: "meta-llama/Llama-3.1-8B-Instruct".to_owned(),
            namespace: "llm".to_owned(),
            deployment: "vllm-llama-8b".to_owned(),
            requests_per_second: 3.0 * replicas as f64,
            diurnal_amplitude: 0.1,
            concurrency: None,
            workload: Workload::default(),
            ranks: 1,
            prefill_replicas: 0,
            dialect: Dialect::Vllm,
            engine: EngineSpec::default(),
            routing: Routing::RoundRobin,
            router_delay_seconds: 5.0,
            startup_seconds: 8.0,
            gpus_per_node: 2,
            gpu_exporter: GpuExporter::Dcgm,
            kube_state_metrics: true,
            dcgm: DcgmSpec { clock_events: true, violations: true, honor_labels: false, ecc: false, nvlink: false },
            autoscaler: (replicas.div_ceil(2), 2 * replicas),
            autoscale_target: None,
            unrest: Unrest::default(),
            cadvisor: false,
        }
    }

    /// Errors on a spec that no real fleet could start with.
    pub fn validate(&self) -> Result<()> {
        let engine = &self.engine;
        ensure!(self.replicas > 0, "a fleet needs at least one replica");
        ensure!(self.gpus_per_node > 0, "a node needs at least one GPU");
        ensure!(
            self.ranks > 0 && self.replicas.is_multiple_of(self.ranks) && self.gpus_per_node.is_multiple_of(self.ranks),
            "{} replicas on nodes of {} make no whole pods of {} ranks",
            self.replicas,
            self.gpus_per_node,
            self.ranks
        );
        ensure!(
            self.prefill_replicas == 0 || (self.prefill_replicas < self.replicas && engine.kv_transfer.is_some()),
            "replicas that compute prompts need others that decode, and a way to these (`engine.kv_transfer`)"
        );
        ensure!(
            self.requests_per_second > 0.0 && self.requests_per_second.is_finite(),
            "requests per second: expected a positive number, got {}",
            self.requests_per_second
        );
        ensure!(
            (0.0..1.0).contains(&self.diurnal_amplitude),
            "diurnal amplitude: expected 0..1, got {}",
            self.diurnal_amplitude
        );
        ensure!(
            engine.max_num_seqs > 0 && (engine.max_num_seqs as u64) < u64::from(engine.max_num_batched_tokens),
            "max_num_batched_tokens {} must exceed max_num_seqs {}",
            engine.max_num_batched_tokens,
            engine.max_num_seqs
        );
        ensure!(
            engine.max_model_len >= 2 * BLOCK_TOKENS && engine.num_gpu_blocks > engine.min_blocks(),
            "a KV pool of {} blocks does not hold one request of max_model_len {}",
            engine.num_gpu_blocks,
            engine.max_model_len
        );
        ensure!(
            engine.step_seconds > 0.0 && (0.0..1.0).contains(&engine.noise),
            "a step needs a positive duration and noise in 0..1"
        );
        ensure!(
            self.workload.prompt_tokens > 0.0 && self.workload.output_tokens > 0.0,
            "mean token counts must be positive"
        );
        ensure!(!self.workload.max_tokens.is_empty(), "at least one max_tokens is needed");
        let shares: f64 = self.workload.kinds.iter().map(|kind| kind.share).sum();
        ensure!((0.0..=1.0).contains(&shares), "kinds of requests: expected shares up to 1 together, got {shares}");
        ensure!(self.unrest.walk >= 0.0 && self.unrest.walk < 1.0, "unrest: expected a walk in 0..1");
        ensure!(
            engine.lora.as_ref().is_none_or(|lora| lora.max_loras > 0 && lora.adapters > 0),
            "LoRA needs at least one slot and one adapter"
        );
        ensure!(
            engine.speculative.as_ref().is_none_or(|speculative| speculative.tokens < BLOCK_TOKENS),
            "speculative decoding: expected fewer than {BLOCK_TOKENS} draft tokens"
        );
        Ok(())
    }
}

impl Default for FleetSpec {
    fn default() -> Self {
        Self::sized(4)
    }
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            prompt_tokens: 800.0,
            prompt_sigma: 0.6,
            output_tokens: 220.0,
            output_sigma: 0.7,
            max_tokens: vec![(512, 0.3), (1024, 0.5), (2048, 0.2)],
            reuse_share: 0.8,
            reuse_part: (0.6, 0.95),
            read_timeout_seconds: Some(20.0),
            kinds: Vec::new(),
        }
    }
}

impl Default for EngineSpec {
    fn default() -> Self {
        Self {
            max_num_seqs: 64,
            max_num_batched_tokens: 256,
            max_model_len: 8192,
            num_gpu_blocks: 2048,
            gpu_memory_utilization: 0.92,
            step_seconds: 0.016,
            prefill_token_seconds: 0.000_1,
            sequence_seconds: 0.000_12,
            kv_token_seconds: 0.000_000_15,
            noise: 0.04,
            release: Release::Current,
            frontend_seconds: (0.006, 0.000_3),
            cpu_limit: None,
            speculative: None,
            lora: None,
            kv_transfer: None,
            counts_nans: false,
            offload: None,
            prefill_only: false,
            pooling: false,
        }
    }
}

impl EngineSpec {
    /// Blocks that one request of the greatest length needs.
    pub(super) fn min_blocks(&self) -> u32 {
        self.max_model_len.div_ceil(BLOCK_TOKENS)
    }
}
