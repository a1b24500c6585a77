//! Fleet health: the key numbers of each pool against the thresholds that the playbooks alert on.
//!
//! The numbers are listed in `playbooks/health.yaml`. The types here are the documented output of `health`.

mod checks;
mod coverage;
mod evaluate;
mod triage;

pub use coverage::coverage;
pub use evaluate::{DIMENSIONS, HealthQuery, HealthSource, evaluate_fleet};
pub use triage::{Triage, answer, places, pool_health, selected_places, triage};
