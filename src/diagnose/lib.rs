//! The diagnosis of one pool: plan ─▶ observe ─▶ judge.
//!
//! `plan` and `judge` are pure; [`observe()`] queries Prometheus, and `direct` reads exporters where Prometheus has no
//! data.

mod chain;
mod config;
mod direct;
pub mod health;
mod judge;
mod kinds;
mod observe;
mod pool_history;
mod refine;

pub use chain::{ExtraSources, diagnose, diagnose_early, diagnose_with};
pub use config::{Config, moment};
pub use direct::{Exporters, SavedPages, discover_exporters, identify, observe, targets};
pub use judge::evidence::{evaluate, holds};
pub use judge::judge;
pub use judge::probability::{FEATURES, PRIOR, features};
pub use judge::steps::{invert_condition, inverted_symptom_check};
pub use observe::batch::{QueryAnswer, queries};
pub use observe::gather::RowOwnership;
pub use observe::log_cache::LogFindingsCache;
pub use observe::log_findings::{LogFindings, log_findings};
pub use observe::log_sources::{LogSources, NoCluster};
pub use observe::observe_result::ObserveResult;
pub use observe::plan::{Plan, no_engine_reason, plan};
pub use observe::pool::Pool;
pub use observe::read_pages::PageReads;
pub use observe::times::times;
pub use pool_history::{PoolHistory, PoolHistoryRequest, PoolsOfDay, pool_history, pools_of_day, symptom_order};
pub use refine::evidence_history::{HistoryRequest, evidence_history};
pub use refine::impact::impact;
pub use refine::signals::{observe_signals, verify_all};
