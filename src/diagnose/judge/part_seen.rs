//! The outcome of a check that sees a part of the series: what is seen is judged, what is not seen is not ruled out.
//!
//! An outcome stays if more series could not undo it. Of a mean, a ratio or a quantile "met" against a number stays too:
//! it is true of the part that answered. Against the past it does not: the past is of other replicas too.

use findings::Outcome;
use knowledge::playbook::{Comparison, Op, Reference};
use knowledge::signal::{PoolAggregation, Signal};

/// The direction in which more series move a pool's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreSeries {
    /// A sum of what is never negative, or a maximum, only grows.
    Raise,
    /// A minimum only falls.
    Lower,
    /// A mean, a ratio or a quantile moves either way.
    Mix,
    /// Rows that are there because those of other targets are not: they may all be wrong.
    Replace,
}

impl MoreSeries {
    /// Returns the direction for a signal; for one that the catalog lacks, that of a mean.
    ///
    /// The query does not tell what is counted by absence: many take series away by what the same scrape says, as
    /// `x unless x offset 5m` does for new series, and one store has both. Only a cluster of VictoriaMetrics that sends
    /// new samples elsewhere may lack the older one: for one window, `x` then stands for its increase.
    pub(crate) fn of(signal: Option<&Signal>) -> Self {
        match signal {
            Some(signal) if signal.by_absence => Self::Replace,
            Some(signal) => Self::of_aggregation(signal.fleet),
            None => Self::Mix,
        }
    }

    fn of_aggregation(fleet: PoolAggregation) -> Self {
        match fleet {
            PoolAggregation::Sum | PoolAggregation::Max => Self::Raise,
            PoolAggregation::Min => Self::Lower,
            PoolAggregation::Mean | PoolAggregation::Query => Self::Mix,
        }
    }
}

/// Returns the outcome of a comparison of a value that is about a part of the series.
pub(crate) fn outcome_of_part(met: bool, comparison: Comparison, more: MoreSeries) -> Outcome {
    let asks_for_high = matches!(comparison.op, Op::Above | Op::AtLeast);
    let stays = match more {
        MoreSeries::Raise => met == asks_for_high,
        MoreSeries::Lower => met != asks_for_high,
        MoreSeries::Mix => met && !matches!(comparison.to, Reference::Baseline(_)),
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
        use MoreSeries::{Lower, Mix, Raise, Replace};
        use Outcome::{Met, NoData, NotMet};
        let (high, low) = ([Op::Above, Op::AtLeast], [Op::Below, Op::AtMost]);
        let (number, baseline) = (Reference::Number(1.0), Reference::Baseline(1.5));
        // What is told where the condition holds for the part, and where it does not.
        let table = [
            (Raise, high, [number, baseline], [Met, NoData]),
            (Raise, low, [number, baseline], [NoData, NotMet]),
            (Lower, low, [number, baseline], [Met, NoData]),
            (Lower, high, [number, baseline], [NoData, NotMet]),
            (Mix, high, [number, number], [Met, NoData]),
            (Mix, low, [number, number], [Met, NoData]),
            (Mix, high, [baseline, baseline], [NoData, NoData]),
            (Mix, low, [baseline, baseline], [NoData, NoData]),
            (Replace, high, [number, baseline], [NoData, NoData]),
            (Replace, low, [number, baseline], [NoData, NoData]),
        ];
        for (more, ops, references, expected) in table {
            for (op, to) in ops.into_iter().flat_map(|op| references.map(|to| (op, to))) {
                let told = [true, false].map(|met| outcome_of_part(met, Comparison { op, to }, more));
                assert_eq!(told, expected, "{more:?} {op:?} {to:?}");
            }
        }
    }

    #[test]
    fn rows_that_are_there_because_others_are_not_are_told_by_the_signal_and_not_by_its_query() {
        let library = knowledge::playbook::load(None).unwrap();
        let of = |signal: &str| MoreSeries::of(library.signals.get(signal));
        for signal in ["gpus_gone", "nodes_gone", "gateway_models_gone"] {
            assert_eq!(of(signal), MoreSeries::Replace, "{signal}");
        }
        // Their queries take series away too, but by what the same scrape tells.
        for signal in ["gateway_error_ratio", "error_ratio", "gpu_sm_clock", "gpu_xid_critical", "replicas_serving"] {
            assert_ne!(of(signal), MoreSeries::Replace, "{signal}");
        }
        assert_eq!(of("no such signal"), MoreSeries::Mix);
    }

    #[test]
    fn one_comparison_that_fails_for_good_suffices_against_all() {
        use Outcome::{Met, NoData, NotMet};
        let of = |outcomes: [Outcome; 2]| all_of(outcomes.into_iter());
        assert_eq!([of([Met, Met]), of([Met, NoData]), of([NoData, NotMet])], [Met, NoData, NotMet]);
    }
}
