//! The parts that the loops, the chat and the server share, and what programs ask.

mod admission;
pub mod check;
pub mod config;
mod exporters;
mod limits;
mod postmortem;
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
pub use postmortem::postmortem;
pub use reloads::Reloads;
pub use service::Service;
pub use signer::{ShortKey, Signer, known_signer, own_key};
pub use subject::{Subject, around};

/// Returns the version, with the commit where the build was told it by `LLM_DIAGNOSE_COMMIT`: `make release` does. A build from
/// an archive of the sources needs no git, and a new commit alone makes nothing stale.
pub fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("LLM_DIAGNOSE_COMMIT").unwrap_or_default() {
        "" => version.to_owned(),
        commit => format!("{version} ({commit})"),
    }
}
