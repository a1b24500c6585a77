//! The backtest: past firings of alerts, each with the diagnosis of its time, and the conclusions from all of them. Pure.

mod accuracy;
mod conclusion;
mod coverage;
mod firing;
mod ladder;
mod page;
mod runs;
mod summary;
mod text;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use knowledge::alert::Labels;
use report::{FiringOutcome, MissingData};

pub use accuracy::{CauseAccuracy, NO_CAUSE, OTHER_CAUSE, accuracy};
pub use conclusion::{BacktestFindings, concluded};
pub use coverage::{
    AbnormalTime, SymptomTime, UnalertedEpisode, UnalertedSymptom, covers, merged, names_pool, unalerted, without_data,
};
pub use firing::{AlertSamples, Firing, RuleCount, chosen, rule_counts, same_firings};
pub use ladder::{ThresholdBase, ThresholdLadder, ThresholdRung, add_ladders, count_firings, shipped_thresholds};
pub use page::page;
pub use summary::{CauseCount, OutcomeCounts, PoolOutcomes, RuleOutcomes, by_pool, by_rule};
pub use text::text;

/// The version of the JSON output; an incompatible change gets a new name.
pub const SCHEMA: &str = "llm-diagnose/backtest/v1";

/// Returns the JSON schema of the output.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Backtest)
}

/// The result of a backtest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backtest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The start of the range.
    pub from: Timestamp,
    /// The end of the range.
    pub to: Timestamp,
    /// The reason why it ended early; `null` if it is complete.
    pub stopped: Option<String>,
    /// The limits of the result, as sentences: a pool or a day without data, a query without an answer. Without findings
    /// it is only complete if this is empty.
    pub limits: Vec<String>,
    /// The outcomes of all diagnosed firings.
    pub counts: OutcomeCounts,
    /// The diagnosed firings, oldest first.
    pub firings: Vec<DiagnosedFiring>,
    /// The outcomes by rule, the noisiest first.
    pub rules: Vec<RuleOutcomes>,
    /// The outcomes by pool, by name.
    pub pools: Vec<PoolOutcomes>,
    /// Symptoms that held for a while without any firing of their pool, the longest first.
    pub unalerted: Vec<UnalertedSymptom>,
    /// The number of times at which symptoms held while an alert of their pool fired.
    pub alerted_times: usize,
    /// Seconds between the values from which symptoms and thresholds are counted.
    pub step_seconds: u64,
    /// The thresholds by signal, each with the number of times that it would have fired.
    pub ladders: Vec<ThresholdLadder>,
    /// Precision and recall by cause; empty without known causes.
    pub accuracy: Vec<CauseAccuracy>,
    /// Firings that were not diagnosed.
    pub left_out: LeftOutFirings,
    /// The load on Prometheus.
    pub load: BacktestLoad,
    /// Errors, as sentences.
    pub problems: Vec<String>,
}

impl Backtest {
    /// Returns true if it found something to change: a rule that is noise, or a symptom without a rule.
    pub fn has_findings(&self) -> bool {
        self.rules.iter().any(|rule| rule.is_noise) || !self.unalerted.is_empty()
    }

    /// Returns true if it saw everything, so that no finding means that there is nothing to change.
    pub fn is_complete(&self) -> bool {
        self.stopped.is_none() && self.limits.is_empty()
    }
}

/// A firing with the diagnosis of its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosedFiring {
    /// The id, which a file of labels names; stable for the same labels and start.
    pub id: String,
    /// The name of the alert.
    pub rule: String,
    /// The name of the pool; empty if its labels name none.
    pub pool: String,
    /// The alert's labels.
    pub labels: Labels,
    /// The start of the condition, before the rule's `for`.
    pub condition_since: Timestamp,
    /// The start of the firing.
    pub starts_at: Timestamp,
    /// The end of the firing; `null` if it is unknown, or after the end of the range.
    pub ends_at: Option<Timestamp>,
    /// The evaluation time of this diagnosis: the first with the best outcome.
    pub diagnosed_at: Timestamp,
    /// Seconds from the start of the condition to this diagnosis.
    pub after_seconds: u64,
    /// The outcome.
    pub outcome: FiringOutcome,
    /// The headline of the message.
    pub headline: String,
    /// The playbook that was entered; empty if none was.
    pub playbook: String,
    /// The title of the root cause, or of the mechanism that is named if only "nothing else was found" is below it;
    /// `null` if none is at least possible.
    pub cause: Option<String>,
    /// The ids from the symptom to that cause; empty without a cause.
    pub chain: Vec<String>,
    /// The probability of the root cause, 0..1; `null` without a cause, and for a mechanism.
    pub probability: Option<f64>,
    /// The missing data that the diagnosis names, at most a few; empty where a symptom was found with its cause, or another one.
    pub missing: Vec<MissingData>,
    /// The true cause, if known.
    pub truth: Option<String>,
}

/// Firings that were not diagnosed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutFirings {
    /// Firings that are about no pool.
    pub elsewhere: Vec<RuleCount>,
    /// Firings of the file that ended before the range, or began after it.
    pub outside: Vec<RuleCount>,
    /// Firings that began before the range and lasted into it.
    pub before: Vec<RuleCount>,
    /// Firings beyond the maximum.
    pub over_maximum: Vec<RuleCount>,
}

/// The load on Prometheus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BacktestLoad {
    /// The number of queries of this run.
    pub queries: usize,
    /// The maximum number of queries.
    pub most_queries: usize,
    /// The duration of this run.
    pub took_seconds: f64,
    /// The number of firings whose diagnosis an earlier, interrupted run made.
    pub resumed: usize,
}
