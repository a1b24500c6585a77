//! The conclusions: the findings of a run ─▶ its result.

use jiff::Timestamp;

use super::{
    Backtest, BacktestLoad, DiagnosedFiring, LeftOutFirings, OutcomeCounts, SCHEMA, ThresholdLadder, UnalertedSymptom,
    accuracy, by_pool, by_rule,
};
use knowledge::clip::format_count;

/// The findings so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BacktestFindings {
    /// The diagnosed firings.
    pub firings: Vec<DiagnosedFiring>,
    /// The symptoms that held without any firing.
    pub unalerted: Vec<UnalertedSymptom>,
    /// The number of times at which symptoms held while an alert fired.
    pub alerted_times: usize,
    /// The thresholds of all pools.
    pub ladders: Vec<ThresholdLadder>,
    /// Firings that were not diagnosed.
    pub left_out: LeftOutFirings,
    /// The limits of the findings, as sentences.
    pub limits: Vec<String>,
    /// Errors, as sentences.
    pub problems: Vec<String>,
}

/// Draws the conclusions; `stopped` is the reason why a run ended early.
pub fn concluded(
    mut findings: BacktestFindings,
    range: (Timestamp, Timestamp),
    step_seconds: u64,
    stopped: Option<String>,
    load: BacktestLoad,
) -> Backtest {
    findings.firings.sort_by(|a, b| (a.starts_at, &a.id).cmp(&(b.starts_at, &b.id)));
    findings.unalerted.sort_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.pool.cmp(&b.pool)));
    for ladder in findings.ladders.iter_mut().filter(|ladder| ladder.rungs.iter().all(|rung| rung.times == 0)) {
        ladder.values.clear();
    }
    let counts = OutcomeCounts::of(&findings.firings);
    let mut limits = findings.limits;
    limits.extend(unseen(&counts, &findings.left_out));
    Backtest {
        schema: SCHEMA.to_owned(),
        from: range.0,
        to: range.1,
        stopped,
        limits,
        counts,
        rules: by_rule(&findings.firings, &findings.left_out.over_maximum),
        pools: by_pool(&findings.firings),
        unalerted: findings.unalerted,
        alerted_times: findings.alerted_times,
        step_seconds,
        ladders: findings.ladders,
        accuracy: accuracy(&findings.firings),
        left_out: findings.left_out,
        load,
        problems: findings.problems,
        firings: findings.firings,
    }
}

/// Says which firings tell nothing.
fn unseen(counts: &OutcomeCounts, left_out: &LeftOutFirings) -> Vec<String> {
    let mut limits = Vec::new();
    let over: usize = left_out.over_maximum.iter().map(|count| count.firings).sum();
    if over > 0 {
        let firings = format_count(over, "firing");
        limits.push(format!("{firings} beyond the maximum were not diagnosed: pass more by --max-firings"));
    }
    if counts.blind > 0 {
        limits.push(format!(
            "{} had no data, of {} that were diagnosed",
            format_count(counts.blind, "firing"),
            counts.total()
        ));
    }
    if counts.total() > 0 && counts.judged() == 0 {
        limits.push("none of the firings could be judged".to_owned());
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::super::RuleCount;
    use super::super::summary::tests::firing;
    use super::*;
    use report::FiringOutcome;

    #[test]
    fn nothing_to_change_is_only_said_of_a_run_that_saw_every_firing() {
        use FiringOutcome::{Blind, Confirmed, NotJudged};
        let of = |outcomes: &[FiringOutcome], over: usize| {
            let over_maximum = (over > 0).then(|| RuleCount { rule: "A".to_owned(), firings: over });
            let findings = BacktestFindings {
                firings: outcomes.iter().map(|outcome| firing("A", *outcome, &[])).collect(),
                left_out: LeftOutFirings { over_maximum: over_maximum.into_iter().collect(), ..Default::default() },
                ..BacktestFindings::default()
            };
            let range = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
            concluded(findings, range, 60, None, BacktestLoad::default())
        };
        assert!(of(&[], 0).is_complete() && of(&[Confirmed, NotJudged], 0).is_complete());
        let limits = |outcomes: &[FiringOutcome], over| of(outcomes, over).limits.join("; ");
        assert_eq!(limits(&[Confirmed, Blind, Blind], 0), "2 firings had no data, of 3 that were diagnosed");
        assert!(limits(&[Confirmed], 800).starts_with("800 firings beyond the maximum"));
        assert_eq!(limits(&[NotJudged], 0), "none of the firings could be judged");
        assert_eq!(of(&[Confirmed], 800).rules[0].not_diagnosed, 800);
    }
}
