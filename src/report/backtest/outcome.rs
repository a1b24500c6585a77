//! The outcome of a diagnosis of the past.

use diagnose::{Diagnosis, SymptomVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of missing signals that are named.
const MISSING: usize = 5;

/// The outcome of a firing's diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FiringOutcome {
    /// A symptom is confirmed, and a cause is named.
    Confirmed,
    /// A symptom is confirmed, but no cause stands out.
    NoCause,
    /// The data is there, and nothing in it is abnormal.
    NothingAbnormal,
    /// The data is missing.
    Blind,
}

impl FiringOutcome {
    /// All outcomes, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Confirmed, Self::NoCause, Self::NothingAbnormal, Self::Blind];
}

/// Something without data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingData {
    /// The title of the signal; `pool` if there is no data about the pool at all.
    pub what: String,
    /// The reason, as a sentence.
    pub why: String,
    /// The setting that makes it available.
    pub enable: Option<String>,
}

/// Returns the outcome of a diagnosis. A cause that only says that nothing else was found counts if it stands below a
/// mechanism, which is then what is named.
pub fn outcome(diagnosis: &Diagnosis) -> FiringOutcome {
    let named = diagnosis.root().is_some_and(|root| !root.fallback || !root.via.is_empty());
    let saw = diagnosis.screening.as_ref().is_some_and(|screening| !screening.looked_at.is_empty());
    let also = diagnosis.screening.as_ref().is_some_and(|screening| !screening.also.is_empty());
    match diagnosis.symptom.verdict {
        SymptomVerdict::Confirmed if named => FiringOutcome::Confirmed,
        SymptomVerdict::Confirmed => FiringOutcome::NoCause,
        _ if diagnosis.degraded => FiringOutcome::Blind,
        _ if also => FiringOutcome::NoCause,
        SymptomVerdict::Absent => FiringOutcome::NothingAbnormal,
        // The alert has no playbook: the pool's symptoms were looked at instead.
        SymptomVerdict::NoData if saw && diagnosis.symptom.playbook.is_empty() => FiringOutcome::NothingAbnormal,
        SymptomVerdict::NoData => FiringOutcome::Blind,
    }
}

/// Returns the missing data that a diagnosis names: of a blind one why it is blind, of the others the open checks.
pub fn missing(diagnosis: &Diagnosis) -> Vec<MissingData> {
    let pool = |why: String| MissingData { what: "pool".to_owned(), why, enable: None };
    let mut all: Vec<MissingData> = Vec::new();
    if let Some(unknown) = &diagnosis.scope.unknown {
        all.push(pool(format!("no series has {} `{}`", unknown.dimension, unknown.value)));
    }
    if let Some(span) = &diagnosis.scope.data {
        all.push(pool(format!("it has data only from {:.0} to {:.0}", span.from, span.to)));
    }
    if !all.is_empty() {
        // What a pool's signals lack says nothing where the pool is not there.
        return all;
    }
    if diagnosis.degraded {
        all.extend(diagnosis.problems.iter().take(1).cloned().map(pool));
    }
    // The symptom's own signals say why nothing could be judged.
    let (symptom, causes): (Vec<_>, Vec<_>) = diagnosis.unchecked.iter().partition(|signal| signal.causes.is_empty());
    all.extend(symptom.into_iter().chain(causes).map(|signal| MissingData {
        what: signal.title.clone(),
        why: signal.why.clone(),
        enable: signal.enable.clone(),
    }));
    all.truncate(MISSING);
    all
}
