//! The diagnosis of one pool: plan ─▶ observe ─▶ judge.
//!
//! `plan` and `judge` are pure; [`observe`] queries Prometheus, and `direct` reads exporters where Prometheus has no
//! data. The types here are the documented output, `--output json`: plain values that are stored, printed, and put
//! into messages.

mod affected_replicas;
mod against;
mod answer_cache;
mod assemble;
mod baseline_windows;
mod batch;
pub mod capacity;
mod config;
mod data_span;
mod degree;
mod detection;
mod detection_result;
mod diagnosis;
mod direct;
mod direct_read;
mod evidence;
mod evidence_history;
mod excluded;
mod fleet;
mod former_ids;
mod gateway;
mod gateway_pools;
mod gather;
pub mod health;
mod impact;
mod judge;
mod judgement;
mod log_cache;
mod log_findings;
mod log_sources;
mod logs_read;
mod names;
mod narrow;
mod observation;
mod observe;
mod observe_result;
mod onset;
mod parts;
mod pending_diagnosis;
mod placeholders;
mod plan;
mod planned_query;
mod pool;
mod probability;
mod read_detection;
mod recorded;
mod recorded_series;
mod request;
mod rule;
mod scope;
mod screen;
mod signals;
mod steps;
mod times;
mod unknown_labels;
mod visible_pools;

pub use baseline_windows::{ComparedWith, PastKind};
pub use batch::{QueryAnswer, queries};
pub use config::{Config, moment};
pub use data_span::{DataSpan, data_elsewhere};
pub use detection::{detection, last_day, newest};
pub use detection_result::{DetectionResult, EngineSeen};
pub use diagnosis::{Diagnosis, EngineFound, Fix, FixCheck, Fixes, OUTLIERS, SCHEMA, ScopeFound, checked_queries};
pub use direct::{Exporters, discover_exporters, observe_with_exporters, targets};
pub use direct_read::{DirectRead, DirectReadReason, ExporterRemark};
pub use evidence::{evaluate, holds};
pub use evidence_history::{DecidingCheck, EvidenceHistory, HistoryRequest, Moments, evidence_history};
pub use excluded::{RuledOut, Unchecked, UnevaluatedCause};
pub use fleet::{FleetPool, PoolMatch, find_pools, fleet, places};
pub use gateway_pools::gateway_pools;
pub use gather::RowOwnership;
pub use impact::impact;
pub use judge::{Judged, NOTICED_LATE, judge};
pub use judgement::{
    BlastRadius, CauseFound, EvidenceResult, Judgement, Onset, Outcome, ReplicaValue, SymptomFound, SymptomVerdict,
    Verdict,
};
pub use log_cache::LogFindingsCache;
pub use log_findings::{LogFindings, log_findings};
pub use log_sources::{LogSources, NoCluster};
pub use logs_read::{LogError, LogRead, LogsRead};
pub use observation::reduce;
pub use observation::{Observation, Observations, Replica, ValueSource};
pub use observe::observe;
pub use observe_result::ObserveResult;
pub use parts::{LatencyPart, LatencyParts, LatencyRest};
pub use pending_diagnosis::{ExtraSources, PendingDiagnosis, begin, diagnose, diagnose_with};
pub use plan::no_engine_reason;
pub use plan::{Plan, plan};
pub use planned_query::{PlannedQuery, QueryPurpose};
pub use pool::Pool;
pub use probability::{FEATURES, PRIOR, features};
pub use read_detection::{orchestrated, read_detection};
pub use request::{Baseline, NO_PAST, Request};
pub use scope::Scope;
pub use screen::Screening;
pub use signals::{observe_signals, verify, verify_all};
pub use steps::{invert_condition, inverted_symptom_check};
pub use times::times;
pub use unknown_labels::{UnknownLabelValue, known_names, known_values, typed_label};
pub use visible_pools::pools;
