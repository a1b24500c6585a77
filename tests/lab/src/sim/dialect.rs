//! Whose names and buckets the metrics pages of the serving pods have.
//!
//! All dialects tell of the same simulated requests; they differ in what they say, how often and how finely.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use anyhow::{Context, Result};

use super::exposition::{Family, Numbers};
use super::fleet::Replica;
use super::reading::Readings;
use super::spec::FleetSpec;
use super::stats::{EngineStats, Histogram};
use super::{page_generic, page_llamacpp, page_sglang, page_tgi, page_trtllm, page_vllm};

/// A way of naming what a serving pod measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `vllm:`, as vLLM serves it.
    Vllm,
    /// `vllm_`: the same after a client library that writes underscores for colons.
    VllmUnderscored,
    /// `kserve_vllm:`: the copy that a KServe monitor makes.
    KserveVllm,
    /// `ray_vllm_`: vLLM under Ray Serve, without the families of its own HTTP server.
    RayVllm,
    /// `sglang:` of SGLang 0.5.23.
    Sglang,
    /// `sglang_`: the same with underscores for colons.
    SglangUnderscored,
    /// Text Generation Inference.
    Tgi,
    /// trtllm-serve.
    Trtllm,
    /// The llama.cpp server, with `--metrics`.
    LlamaCpp,
    /// A self-made exporter with names of its own (`llm_ttft_seconds`).
    Generic,
}

/// Upper bounds of an engine's histograms.
struct Bounds {
    ttft: &'static [f64],
    per_token: &'static [f64],
    request: &'static [f64],
    queue: &'static [f64],
    /// Of the prefill alone.
    stage: &'static [f64],
    /// `None` keeps those of vLLM.
    tokens: Option<&'static [f64]>,
}

static SGLANG_TTFT: [f64; 18] =
    [0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0];
static SGLANG_REQUEST: [f64; 22] = [
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0, 600.0, 1200.0,
    1800.0, 2400.0,
];
static SGLANG_PER_TOKEN: [f64; 23] = [
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0,
    2.0, 4.0, 6.0, 8.0,
];
static SGLANG_QUEUE: [f64; 40] = [
    0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    70.0, 80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1200.0, 1400.0, 1600.0,
    1800.0, 2000.0, 2500.0, 3000.0,
];
static SGLANG_TOKENS: [f64; 35] = [
    100.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 7000.0, 8000.0, 9000.0,
    10000.0, 12500.0, 15000.0, 17500.0, 20000.0, 22500.0, 25000.0, 27500.0, 30000.0, 35000.0, 40000.0, 60000.0,
    80000.0, 100000.0, 200000.0, 300000.0, 400000.0, 600000.0, 800000.0, 1e6, 1.1e6,
];
/// `per_stage_req_latency_seconds`: a millisecond and thirty steps by 1.62.
static SGLANG_STAGE: LazyLock<Vec<f64>> = LazyLock::new(|| growing(0.001, 1.62, 30));
/// Durations of Text Generation Inference (`router/src/server.rs`): thirty-five steps by a half.
static TGI_DURATION: LazyLock<Vec<f64>> = LazyLock::new(|| growing(0.000_15, 1.5, 35));
static GENERIC: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0];
static GENERIC_PER_TOKEN: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5];

impl Dialect {
    /// All there are.
    pub const ALL: [Dialect; 10] = [
        Dialect::Vllm,
        Dialect::VllmUnderscored,
        Dialect::KserveVllm,
        Dialect::RayVllm,
        Dialect::Sglang,
        Dialect::SglangUnderscored,
        Dialect::Tgi,
        Dialect::Trtllm,
        Dialect::LlamaCpp,
        Dialect::Generic,
    ];

    /// Its name in kebab case.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Vllm => "vllm",
            Dialect::VllmUnderscored => "vllm-underscored",
            Dialect::KserveVllm => "kserve-vllm",
            Dialect::RayVllm => "ray-vllm",
            Dialect::Sglang => "sglang",
            Dialect::SglangUnderscored => "sglang-underscored",
            Dialect::Tgi => "tgi",
            Dialect::Trtllm => "trtllm",
            Dialect::LlamaCpp => "llamacpp",
            Dialect::Generic => "generic",
        }
    }

    /// Label `job` of its targets and the port of its pages.
    pub(super) fn job(self) -> (&'static str, u16) {
        match self {
            Dialect::Vllm | Dialect::VllmUnderscored | Dialect::KserveVllm => ("vllm", 8000),
            Dialect::RayVllm => ("ray", 8080),
            Dialect::Sglang | Dialect::SglangUnderscored => ("sglang", 30000),
            Dialect::Tgi => ("tgi", 3000),
            Dialect::Trtllm => ("trtllm", 8000),
            Dialect::LlamaCpp => ("llamacpp", 8080),
            Dialect::Generic => ("llm-exporter", 9400),
        }
    }

    /// What the names of the engine's own metrics begin with, before they are renamed.
    pub(super) fn beginning(self) -> &'static str {
        match self {
            Dialect::Vllm | Dialect::VllmUnderscored | Dialect::KserveVllm | Dialect::RayVllm => "vllm:",
            Dialect::Sglang | Dialect::SglangUnderscored => "sglang:",
            Dialect::Tgi => "tgi_",
            Dialect::Trtllm => "trtllm_",
            Dialect::LlamaCpp => "llamacpp:",
            Dialect::Generic => "llm_",
        }
    }

    /// How its pages write numbers.
    pub(super) fn numbers(self) -> Numbers {
        match self {
            Dialect::Tgi | Dialect::LlamaCpp => Numbers::Go,
            _ => Numbers::Python,
        }
    }

    /// The page of `replica` at `now` (unix seconds), `None` while it is down.
    pub(super) fn families(self, spec: &FleetSpec, replica: &Replica, now: f64) -> Option<Vec<Family>> {
        let stats = replica.stats()?;
        let vllm = || page_vllm::families(spec, stats, now);
        Some(match self {
            Dialect::Vllm => vllm(),
            Dialect::VllmUnderscored => renamed(vllm(), ("vllm:", "vllm_")),
            Dialect::KserveVllm => renamed(vllm(), ("vllm:", "kserve_vllm:")),
            Dialect::RayVllm => under_ray(vllm(), replica),
            Dialect::Sglang => page_sglang::families(spec, stats, now),
            Dialect::SglangUnderscored => renamed(page_sglang::families(spec, stats, now), ("sglang:", "sglang_")),
            Dialect::Tgi => page_tgi::families(spec, stats),
            Dialect::Trtllm => page_trtllm::families(spec, stats),
            Dialect::LlamaCpp => page_llamacpp::families(stats),
            Dialect::Generic => page_generic::families(spec, replica, stats, now),
        })
    }

    /// Gives fresh numbers of an engine the buckets and the refresh habits of the dialect.
    pub(super) fn prepare(self, stats: &mut EngineStats) {
        let bounds = match self {
            Dialect::Vllm | Dialect::VllmUnderscored | Dialect::KserveVllm | Dialect::RayVllm => return,
            Dialect::Trtllm | Dialect::LlamaCpp => return,
            Dialect::Sglang | Dialect::SglangUnderscored => Bounds {
                ttft: &SGLANG_TTFT,
                per_token: &SGLANG_PER_TOKEN,
                request: &SGLANG_REQUEST,
                queue: &SGLANG_QUEUE,
                stage: SGLANG_STAGE.as_slice(),
                tokens: Some(&SGLANG_TOKENS),
            },
            Dialect::Tgi => {
                let duration = TGI_DURATION.as_slice();
                Bounds {
                    ttft: duration,
                    per_token: duration,
                    request: duration,
                    queue: duration,
                    stage: duration,
                    tokens: None,
                }
            }
            Dialect::Generic => Bounds {
                ttft: &GENERIC,
                per_token: &GENERIC_PER_TOKEN,
                request: &GENERIC,
                queue: &GENERIC,
                stage: &GENERIC,
                tokens: None,
            },
        };
        stats.ttft = Histogram::new(bounds.ttft);
        stats.itl = Histogram::new(bounds.per_token);
        stats.time_per_output_token = Histogram::new(bounds.per_token);
        stats.e2e = Histogram::new(bounds.request);
        stats.inference = Histogram::new(bounds.request);
        stats.decode = Histogram::new(bounds.request);
        stats.queue = Histogram::new(bounds.queue);
        stats.prefill = Histogram::new(bounds.stage);
        if let Some(tokens) = bounds.tokens {
            stats.request_prompt_tokens = Histogram::new(tokens);
            stats.request_generation_tokens = Histogram::new(tokens);
            stats.request_computed_tokens = Histogram::new(tokens);
        }
        if self != Dialect::Tgi {
            stats.readings = Some(Readings::new(stats.started));
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == text).with_context(|| {
            let names = Dialect::ALL.map(Dialect::name);
            format!("unknown dialect `{text}`, expected one of {}", names.join(", "))
        })
    }
}

fn renamed(mut page: Vec<Family>, beginning: (&'static str, &'static str)) -> Vec<Family> {
    for family in &mut page {
        family.renamed = Some(beginning);
    }
    page
}

/// Ray's agent shows the engine's metrics only, each with the ids of the replica and its worker.
fn under_ray(mut page: Vec<Family>, replica: &Replica) -> Vec<Family> {
    page.retain(|family| family.name.starts_with("vllm:"));
    for sample in page.iter_mut().flat_map(|family| &mut family.samples) {
        sample.labels.retain(|(name, _)| *name != "engine");
        sample.labels.push(("ReplicaId", replica.pod.name.clone()));
        sample.labels.push(("WorkerId", replica.pod.uid.clone()));
    }
    renamed(page, ("vllm:", "ray_vllm_"))
}

fn growing(start: f64, factor: f64, length: u16) -> Vec<f64> {
    (0..length).map(|step| start * factor.powf(f64::from(step))).collect()
}
