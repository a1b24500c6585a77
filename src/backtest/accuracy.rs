//! Precision and recall of the named causes, where the true ones are known.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DiagnosedFiring;
use report::FiringOutcome;

/// The true cause of a firing at which nothing was wrong.
pub const NO_CAUSE: &str = "none";
/// The true cause of a firing whose cause no playbook has.
pub const OTHER_CAUSE: &str = "other";

/// The accuracy of one cause over the firings with a known cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseAccuracy {
    /// The id of the cause; `none` for "nothing was wrong", `other` for a cause that no playbook has.
    pub cause: String,
    /// The number of firings of which it was the true cause.
    pub actual: usize,
    /// The number of firings for which it was named as the root.
    pub named: usize,
    /// The number of firings for which it was named as the root, and true.
    pub right: usize,
    /// The number of firings of which it was the true cause, and that named it: as the root, or as a link above it.
    pub found: usize,
    /// The share of the named ones that are right, 0..1; `null` if it was never named.
    pub precision: Option<f64>,
    /// The share of the actual ones that were found, 0..1; `null` if it never was the true cause, and for `other`, which no
    /// diagnosis can name.
    pub recall: Option<f64>,
}

/// Returns the cause that a diagnosis names as the root; `none` if it says that nothing is abnormal.
fn root(firing: &DiagnosedFiring) -> Option<&str> {
    match firing.outcome {
        FiringOutcome::Confirmed | FiringOutcome::OtherSymptom => firing.chain.last().map(String::as_str),
        FiringOutcome::NothingAbnormal => Some(NO_CAUSE),
        FiringOutcome::NoCause | FiringOutcome::NotJudged | FiringOutcome::Blind => None,
    }
}

/// Returns true if a diagnosis names a cause: as the root, or as a link of the chain below the symptom.
fn is_named(firing: &DiagnosedFiring, cause: &str) -> bool {
    root(firing) == Some(cause) || firing.chain.iter().skip(1).any(|id| id == cause)
}

/// Computes precision and recall by cause, over the firings with a known cause; by id.
pub fn accuracy(firings: &[DiagnosedFiring]) -> Vec<CauseAccuracy> {
    let known: Vec<(&str, &DiagnosedFiring)> =
        firings.iter().filter_map(|firing| Some((firing.truth.as_deref()?, firing))).collect();
    let causes: BTreeSet<&str> =
        known.iter().flat_map(|(truth, firing)| [Some(*truth), root(firing)]).flatten().collect();
    let of = |cause: &str| {
        let count =
            |counts: &dyn Fn(&str, &DiagnosedFiring) -> bool| known.iter().filter(|(t, f)| counts(t, f)).count();
        let actual = count(&|truth, _| truth == cause);
        let named = count(&|_, firing| root(firing) == Some(cause));
        let right = count(&|truth, firing| truth == cause && root(firing) == Some(cause));
        let found = count(&|truth, firing| truth == cause && is_named(firing, cause));
        let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
        CauseAccuracy {
            cause: cause.to_owned(),
            actual,
            named,
            right,
            found,
            precision: share(right, named),
            recall: share(found, actual).filter(|_| cause != OTHER_CAUSE),
        }
    };
    causes.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::firing;
    use super::*;

    #[test]
    fn a_cause_counts_where_it_was_named_and_where_it_was_true() {
        use FiringOutcome::{Blind, Confirmed, NothingAbnormal};
        let labelled = |outcome, chain: &[&str], truth: &str| DiagnosedFiring {
            truth: Some(truth.to_owned()),
            ..firing("A", outcome, chain)
        };
        let long = ["high-ttft", "kv-cache-full", "longer-prompts"];
        let firings = [
            labelled(Confirmed, &long, "longer-prompts"),
            labelled(Confirmed, &long, "traffic-surge"),
            labelled(Confirmed, &long, "kv-cache-full"),
            labelled(Blind, &[], "traffic-surge"),
            labelled(NothingAbnormal, &[], NO_CAUSE),
            labelled(Confirmed, &long, OTHER_CAUSE),
            firing("A", Confirmed, &long),
        ];
        let rows: Vec<_> = accuracy(&firings)
            .into_iter()
            .map(|row| (row.cause, row.actual, row.named, row.precision, row.recall))
            .collect();
        let row = |cause: &str, actual, named, precision, recall| (cause.to_owned(), actual, named, precision, recall);
        assert_eq!(
            rows,
            [
                row("kv-cache-full", 1, 0, None, Some(1.0)),
                row("longer-prompts", 1, 4, Some(0.25), Some(1.0)),
                row(NO_CAUSE, 1, 1, Some(1.0), Some(1.0)),
                row(OTHER_CAUSE, 1, 0, None, None),
                row("traffic-surge", 2, 0, None, Some(0.0)),
            ]
        );
    }
}
