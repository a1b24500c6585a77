//! The parts that the loops, the chat and the server share, and what programs ask.

mod admission;
pub mod check;
pub mod config;
mod exporters;
mod limits;
pub mod questions;
pub mod readiness;
mod reloads;
mod service;
mod signer;
mod subject;
pub mod watchdog;

pub use admission::admit_groups;
pub use exporters::known_exporters;
pub use limits::RequestLimits;
pub use reloads::Reloads;
pub use service::Service;
pub use signer::{ShortKey, Signer, own_key};
pub use subject::{Subject, around};
