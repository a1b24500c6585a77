//! Findings as values: a diagnosis and what it was made of, health, facts, a cluster's state.
//!
//! The types are the documented output, `--output json`: they are stored, printed, and put into messages.

mod alert_condition;
pub mod cluster;
mod compared_with;
mod diagnosis;
mod direct_read;
pub mod endpoint;
mod error_budget;
mod evidence_history;
mod excluded;
mod exporter_target;
pub mod facts;
pub mod health;
pub mod incident_studies;
mod judgement;
mod latency_parts;
mod logs_read;
pub mod observation;
pub mod request;
pub mod rollout;
pub mod scope;
mod scope_found;
mod screening;
pub mod silence;

pub use alert_condition::{AlertCondition, ConditionFound};
pub use compared_with::{ComparedWith, PastKind};
pub use diagnosis::{
    Diagnosis, EngineFound, Fix, FixCheck, Fixes, OUTLIERS, PoolInTrouble, RestartCost, SCHEMA, checked_queries,
};
pub use direct_read::{DirectRead, DirectReadReason, ExporterRemark};
pub use error_budget::ErrorBudget;
pub use evidence_history::{DecidingCheck, EvidenceHistory, Moments};
pub use excluded::{RuledOut, Unchecked, UnevaluatedCause};
pub use exporter_target::{ExporterTarget, place};
pub use judgement::{
    BlastRadius, CauseFound, EvidenceResult, Judged, Judgement, NOTICED_LATE, Onset, Outcome, ReplicaValue,
    SymptomFound, SymptomVerdict, ValueSource, Verdict, first_sign,
};
pub use latency_parts::{LatencyPart, LatencyParts, LatencyRest};
pub use logs_read::{LogError, LogRead, LogsRead};
pub use observation::{Observation, Observations, Replica, reduce};
pub use request::{Baseline, NO_PAST, Request};
pub use scope::Scope;
pub use scope_found::{DataSpan, ScopeFound, UnknownLabelValue};
pub use screening::{Screening, Unmeasured};
