//! Findings as values: a diagnosis and what it was made of, health, facts, a cluster's state.
//!
//! The types are the documented output, `--output json`: they are stored, printed, and put into messages.

mod alert_condition;
pub mod cluster;
mod course;
mod diagnosis;
mod diagnosis_parts;
pub mod endpoint;
mod error_budget;
mod evidence_history;
mod exporter_target;
pub mod facts;
pub mod health;
pub mod incident_studies;
mod judgement;
pub mod observation;
pub mod request;
pub mod rollout;
pub mod scope;
mod scope_found;
pub mod silence;
pub mod trend;

pub use alert_condition::{AlertCondition, ConditionFound};
pub use course::{Course, CourseStep};
pub use diagnosis::{
    Diagnosis, EngineFound, Fix, FixCheck, Fixes, OUTLIERS, PoolInTrouble, RestartCost, SCHEMA, checked_queries,
};
pub use diagnosis_parts::{
    ComparedWith, DirectRead, DirectReadReason, ExporterRemark, LatencyPart, LatencyParts, LatencyRest, LogError,
    LogRead, LogsRead, PastKind, RuledOut, Screening, Unchecked, UnevaluatedCause, Unmeasured,
};
pub use error_budget::ErrorBudget;
pub use evidence_history::{DecidingCheck, EvidenceHistory, Moments};
pub use exporter_target::{ExporterTarget, place};
pub use judgement::{
    BlastRadius, CauseFound, EvidenceResult, Judged, Judgement, NOTICED_LATE, Onset, Outcome, ReplicaValue,
    SymptomFound, SymptomVerdict, ValueSource, Verdict, first_sign,
};
pub use observation::{Observation, Observations, reduce};
pub use request::{Baseline, NO_PAST, Request};
pub use scope::Scope;
pub use scope_found::{DataSpan, ScopeFound, UnknownLabelValue};
