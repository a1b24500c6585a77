//! An LLM serving fleet, simulated request by request.
//!
//! Every number on its metrics pages is the consequence of requests that arrived, waited, were computed in steps and
//! ended; nothing is painted. A [`Fleet`] lives on a virtual clock: [`live`] ties it to the wall clock and serves its
//! pages to a real Prometheus, [`History`] writes what a Prometheus would have scraped. The engine is vLLM's scheduler;
//! its pages speak a [`Dialect`]. A [`gateway::Site`] puts a gateway in front of one or more fleets.
//!
//! Not simulated: tokens' contents, pods that move to another node, and the sharing of KV blocks between live requests.
//! Simplified: the whole batch accepts equally many draft tokens, KV blocks are taken when their transfer has ended,
//! and `lora_requests_info` forgets old label sets.
//!
//! ```
//! use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
//!
//! let mut fleet = Fleet::new(FleetSpec::sized(4), 7, 1_780_000_000.0)?;
//! fleet.advance_to(1_780_000_120.0);
//! fleet.inject("slot-limit:limit=8".parse()?)?;
//! fleet.advance_to(1_780_000_300.0);
//! let page = fleet.page(&fleet.targets()[0]).expect("no rollout takes 180 s");
//! assert!(page.contains("vllm:num_requests_running{"));
//! # Ok::<(), anyhow::Error>(())
//! ```

mod adapters;
#[cfg(test)]
mod captured;
mod cluster;
pub mod dialect;
mod effect;
mod engine;
pub mod exposition;
pub mod fault;
pub mod figures;
pub mod fleet;
mod frontend;
pub mod gateway;
pub mod gpu;
pub mod history;
mod intake;
mod leave;
pub mod live;
mod page_cadvisor;
mod page_dcgm;
mod page_generic;
mod page_kube;
mod page_llamacpp;
mod page_nvidia;
mod page_sglang;
mod page_tgi;
mod page_trtllm;
mod page_vllm;
mod page_vllm_options;
mod parameter;
pub mod pod;
pub mod reading;
mod recipe;
mod sequence;
pub mod spec;
pub mod stats;
pub mod target;
mod workload;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_dialects;

pub use dialect::Dialect;
pub use fault::Fault;
pub use fleet::Fleet;
pub use history::History;
pub use spec::FleetSpec;
pub use target::{Scraped, Target, TargetKind};
