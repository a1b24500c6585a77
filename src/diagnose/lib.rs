//! The diagnosis of one pool: plan ─▶ observe ─▶ judge.
//!
//! `plan` and `judge` are pure; [`observe()`] queries Prometheus, and `direct` reads exporters where Prometheus has no
//! data. The types here are the documented output, `--output json`: plain values that are stored, printed, and put
//! into messages.

pub mod capacity;
mod config;
mod detect;
mod direct;
pub mod health;
mod judge;
mod kinds;
mod observe;
mod output;
mod pending_diagnosis;
mod planned_query;
mod pool_history;
mod refine;
mod request;
mod scope;

pub use config::{Config, moment};
pub use detect::data_span::data_elsewhere;
pub use detect::detection::{detection, last_day, newest};
pub use detect::detection_result::{DetectionResult, EngineSeen};
pub use detect::fleet::{FleetPool, PoolMatch, find_pools, fleet, places};
pub use detect::gateway_pools::gateway_pools;
pub use detect::read_detection::{orchestrated, read_detection};
pub use detect::unknown_labels::{known_names, known_values, typed_label};
pub use detect::visible_pools::pools;
pub use direct::{Exporters, SavedPages, discover_exporters, identify, observe_with_exporters, targets};
pub use judge::evidence::{evaluate, holds};
pub use judge::probability::{FEATURES, PRIOR, features};
pub use judge::steps::{invert_condition, inverted_symptom_check};
pub use judge::{NOTICED_LATE, first_sign, judge};
pub use observe::batch::{QueryAnswer, queries};
pub use observe::gather::RowOwnership;
pub use observe::log_cache::LogFindingsCache;
pub use observe::log_findings::{LogFindings, log_findings};
pub use observe::log_sources::{LogSources, NoCluster};
pub use observe::observation::{Observation, Observations, Replica, reduce};
pub use observe::observe;
pub use observe::observe_result::ObserveResult;
pub use observe::plan::{Plan, no_engine_reason, plan};
pub use observe::pool::Pool;
pub use observe::read_pages::PageReads;
pub use observe::times::times;
pub use output::compared_with::{ComparedWith, PastKind};
pub use output::diagnosis::{
    Diagnosis, EngineFound, Fix, FixCheck, Fixes, OUTLIERS, PoolInTrouble, SCHEMA, checked_queries,
};
pub use output::direct_read::{DirectRead, DirectReadReason, ExporterRemark};
pub use output::excluded::{RuledOut, Unchecked, UnevaluatedCause};
pub use output::judgement::{
    BlastRadius, CauseFound, ErrorBudget, EvidenceResult, Judged, Judgement, Onset, Outcome, ReplicaValue,
    SymptomFound, SymptomVerdict, ValueSource, Verdict,
};
pub use output::latency_parts::{LatencyPart, LatencyParts, LatencyRest};
pub use output::logs_read::{LogError, LogRead, LogsRead};
pub use output::scope_found::{DataSpan, ScopeFound, UnknownLabelValue};
pub use output::screening::{Screening, Unmeasured};
pub use pending_diagnosis::{ExtraSources, PendingDiagnosis, begin, diagnose, diagnose_with};
pub use planned_query::{PlannedQuery, QueryPurpose};
pub use pool_history::{PoolHistory, PoolHistoryRequest, PoolsOfDay, pool_history, pools_of_day, symptom_order};
pub use refine::evidence_history::{DecidingCheck, EvidenceHistory, HistoryRequest, Moments, evidence_history};
pub use refine::impact::impact;
pub use refine::signals::{observe_signals, verify, verify_all};
pub use request::{Baseline, NO_PAST, Request};
pub use scope::Scope;
