//! Precision and recall of the named causes, where the true ones are known.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DiagnosedFiring, FiringOutcome};

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
    /// The number of firings for which it was named.
    pub named: usize,
    /// The number of firings for which it was named and true.
    pub right: usize,
    /// The share of the named ones that are right, 0..1; `null` if it was never named.
    pub precision: Option<f64>,
    /// The share of the actual ones that were named, 0..1; `null` if it never was the true cause.
    pub recall: Option<f64>,
}

/// Returns true if a diagnosis named a cause: as the root, or as a link of the chain below the symptom.
pub fn is_named(firing: &DiagnosedFiring, cause: &str) -> bool {
    match firing.outcome {
        FiringOutcome::Confirmed => firing.chain.iter().skip(1).any(|id| id == cause) || root(firing) == Some(cause),
        FiringOutcome::NothingAbnormal => cause == NO_CAUSE,
        FiringOutcome::NoCause | FiringOutcome::Blind => false,
    }
}

fn root(firing: &DiagnosedFiring) -> Option<&str> {
    firing.chain.last().map(String::as_str)
}

/// Returns the cause that a diagnosis is counted for: the true one if it named it, else the root.
fn counted(firing: &DiagnosedFiring) -> Option<&str> {
    let truth = firing.truth.as_deref().filter(|truth| is_named(firing, truth));
    truth.or_else(|| match firing.outcome {
        FiringOutcome::Confirmed => root(firing),
        FiringOutcome::NothingAbnormal => Some(NO_CAUSE),
        FiringOutcome::NoCause | FiringOutcome::Blind => None,
    })
}

/// Computes precision and recall by cause, over the firings with a known cause; by id.
pub fn accuracy(firings: &[DiagnosedFiring]) -> Vec<CauseAccuracy> {
    let known: Vec<(&str, Option<&str>)> =
        firings.iter().filter_map(|firing| Some((firing.truth.as_deref()?, counted(firing)))).collect();
    let causes: BTreeSet<&str> = known.iter().flat_map(|(truth, named)| [Some(*truth), *named]).flatten().collect();
    let of = |cause: &str| {
        let actual = known.iter().filter(|(truth, _)| *truth == cause).count();
        let named = known.iter().filter(|(_, named)| *named == Some(cause)).count();
        let right = known.iter().filter(|(truth, named)| *truth == cause && *named == Some(cause)).count();
        let share = |of: usize| (of > 0).then(|| right as f64 / of as f64);
        CauseAccuracy { cause: cause.to_owned(), actual, named, right, precision: share(named), recall: share(actual) }
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
                row("kv-cache-full", 1, 1, Some(1.0), Some(1.0)),
                row("longer-prompts", 1, 3, Some(1.0 / 3.0), Some(1.0)),
                row(NO_CAUSE, 1, 1, Some(1.0), Some(1.0)),
                row(OTHER_CAUSE, 1, 0, None, Some(0.0)),
                row("traffic-surge", 2, 0, None, Some(0.0)),
            ]
        );
    }
}
