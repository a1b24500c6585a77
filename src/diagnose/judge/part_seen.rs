//! The outcome of a check that sees a part of the series: what is seen is judged, what is not seen is not ruled out.
//!
//! An outcome stays if more series could not undo it. Of a mean, a ratio or a quantile "met" stays too: it is true of
//! the part that answered.

use crate::Outcome;
use knowledge::playbook::Op;
use knowledge::signal::PoolAggregation;

/// The direction in which more series move a pool's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreSeries {
    /// A sum of what is never negative, or a maximum, only grows.
    Raise,
    /// A minimum only falls.
    Lower,
    /// A mean, a ratio or a quantile moves either way.
    Mix,
    /// Rows that are there because others are not: they may all be wrong.
    Replace,
}

impl MoreSeries {
    /// Returns the direction for a signal; `query` is the PromQL of its value.
    pub(crate) fn of(fleet: Option<PoolAggregation>, query: Option<&str>) -> Self {
        if query.is_some_and(|query| query.contains("unless") || query.contains("absent")) {
            return Self::Replace;
        }
        match fleet {
            Some(PoolAggregation::Sum | PoolAggregation::Max) => Self::Raise,
            Some(PoolAggregation::Min) => Self::Lower,
            Some(PoolAggregation::Mean | PoolAggregation::Query) | None => Self::Mix,
        }
    }
}

/// Returns the outcome of a comparison of a value that is about a part of the series.
pub(crate) fn outcome_of_part(met: bool, op: Op, more: MoreSeries) -> Outcome {
    let asks_for_high = matches!(op, Op::Above | Op::AtLeast);
    let stays = match more {
        MoreSeries::Raise => met == asks_for_high,
        MoreSeries::Lower => met != asks_for_high,
        MoreSeries::Mix => met,
        MoreSeries::Replace => false,
    };
    match (stays, met) {
        (false, _) => Outcome::NoData,
        (true, true) => Outcome::Met,
        (true, false) => Outcome::NotMet,
    }
}

/// Combines the outcomes of comparisons that must all hold.
pub(crate) fn all_of(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    outcomes.fold(Outcome::Met, |all, one| match (all, one) {
        (Outcome::NotMet, _) | (_, Outcome::NotMet) => Outcome::NotMet,
        (Outcome::NoData, _) | (_, Outcome::NoData) => Outcome::NoData,
        (Outcome::Met, Outcome::Met) => Outcome::Met,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_stays_where_more_series_could_not_undo_it() {
        use Outcome::{Met, NoData, NotMet};
        use PoolAggregation::{Max, Mean, Min, Query, Sum};
        // What is told where the condition holds for the part, and where it does not.
        let table = [
            ([Sum, Max], [Op::Above, Op::AtLeast], [Met, NoData]),
            ([Sum, Max], [Op::Below, Op::AtMost], [NoData, NotMet]),
            ([Min, Min], [Op::Below, Op::AtMost], [Met, NoData]),
            ([Min, Min], [Op::Above, Op::AtLeast], [NoData, NotMet]),
            ([Mean, Query], [Op::Above, Op::AtLeast], [Met, NoData]),
            ([Mean, Query], [Op::Below, Op::AtMost], [Met, NoData]),
        ];
        for (fleets, ops, expected) in table {
            for (fleet, op) in fleets.into_iter().flat_map(|fleet| ops.map(|op| (fleet, op))) {
                let more = MoreSeries::of(Some(fleet), Some("sum by (pod) (a)"));
                let told = [true, false].map(|met| outcome_of_part(met, op, more));
                assert_eq!(told, expected, "{fleet:?} {op:?}");
                let absence = MoreSeries::of(Some(fleet), Some("sum(last_over_time(a[1h]) unless a)"));
                let told = [true, false].map(|met| outcome_of_part(met, op, absence));
                assert_eq!(told, [NoData, NoData], "{fleet:?} {op:?}");
            }
        }
    }

    #[test]
    fn one_comparison_that_fails_for_good_suffices_against_all() {
        use Outcome::{Met, NoData, NotMet};
        let of = |outcomes: [Outcome; 2]| all_of(outcomes.into_iter());
        assert_eq!([of([Met, Met]), of([Met, NoData]), of([NoData, NotMet])], [Met, NoData, NotMet]);
    }
}
