//! Information that engines return over HTTP beside their metrics: `/version`, `/v1/models`, `/server_info`.
//!
//! Only paths that the engine's signal file lists, only GET, only addresses that `exporters.allow` allows, never a
//! credential. Few replicas are requested: they represent the others, and an overloaded engine needs no extra load.

mod ask;

pub use ask::{TARGETS_MOST, request_endpoints};
