//! A gateway in front of simulated fleets, request by request.
//!
//! Each request comes to the gateway, waits for its turn, is let in or refused, is sent to a replica that the gateway
//! chose, waited for, tried again or given up, and counted where the real program counts it. A [`Site`] is one gateway
//! with the fleets behind it; [`History`](super::History) records it like a fleet.
//!
//! Not simulated: several gateways that share state, fallbacks to other models, caching of answers, the flow control
//! of endpoint pickers, and what a gateway does with contents.
//!
//! ```
//! use llm_diagnose_lab::sim::FleetSpec;
//! use llm_diagnose_lab::sim::gateway::{GatewayKind, GatewaySpec, Site};
//!
//! let spec = GatewaySpec::new(GatewayKind::LiteLlm);
//! let mut site = Site::new(spec, vec![FleetSpec::sized(2)], 7, 1_780_000_000.0)?;
//! site.inject("backend-unreachable".parse()?)?;
//! site.advance_to(1_780_000_060.0);
//! let page = site.gateway_page();
//! assert!(page.contains("exception_class=\"Openai.InternalServerError\""));
//! # Ok::<(), anyhow::Error>(())
//! ```

mod backend;
mod core;
mod fault;
mod flow;
pub mod ledger;
mod page_dynamo;
mod page_epp;
mod page_litellm;
mod page_smg;
mod pool;
mod site;
mod spec;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_engines;

pub use fault::{GatewayFault, LimitScope};
pub use site::Site;
pub use spec::{ApiKey, GatewayKind, GatewaySpec};
