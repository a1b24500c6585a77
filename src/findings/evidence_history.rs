//! The history of the checks that decided a diagnosis, for a chart.

use std::time::Duration;

use jiff::Timestamp;

use crate::{EvidenceResult, Observations};
use knowledge::clock::Range;
use knowledge::playbook::Condition;

/// The observations at each step.
pub type Moments = Vec<(Timestamp, Observations)>;

/// The history of the checks that decided a diagnosis.
#[derive(Debug)]
pub struct EvidenceHistory<'a> {
    /// The checks, most important first.
    pub checks: Vec<DecidingCheck<'a>>,
    /// The time range of [`Self::now`].
    pub range: Range,
    /// The observations up to the end of the picture.
    pub now: Moments,
    /// The observations of the past: how much earlier, and at the earlier times.
    pub past: Option<(Duration, Moments)>,
}

/// A check that decided.
#[derive(Debug)]
pub struct DecidingCheck<'a> {
    /// Its result.
    pub evidence: &'a EvidenceResult,
    /// Its condition.
    pub when: Option<Condition>,
    /// True if it compares with the past.
    pub past: bool,
    /// True if it compares replicas.
    pub peers: bool,
}
