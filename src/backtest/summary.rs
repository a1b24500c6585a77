//! Counts of the outcomes by rule and by pool.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DiagnosedFiring;
use super::firing::{RuleCount, counted};
use report::FiringOutcome;

/// The number of firings by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeCounts {
    /// Firings with a confirmed symptom and a cause.
    pub confirmed: usize,
    /// Firings with a confirmed symptom and no cause.
    pub no_cause: usize,
    /// Firings whose own symptom is not confirmed, while another one of the pool holds.
    pub other_symptom: usize,
    /// Firings whose own symptom does not hold, nor another one.
    pub nothing_abnormal: usize,
    /// Firings of alerts that no playbook is about, at which no symptom of the pool holds.
    pub not_judged: usize,
    /// Firings without data.
    pub blind: usize,
}

/// The least number of firings without anything abnormal that make a rule noise.
const NOISE: usize = 3;

impl OutcomeCounts {
    /// Counts firings.
    pub fn of<'a>(firings: impl IntoIterator<Item = &'a DiagnosedFiring>) -> Self {
        let mut counts = Self::default();
        firings.into_iter().for_each(|firing| *counts.place(firing.outcome) += 1);
        counts
    }

    fn place(&mut self, outcome: FiringOutcome) -> &mut usize {
        match outcome {
            FiringOutcome::Confirmed => &mut self.confirmed,
            FiringOutcome::NoCause => &mut self.no_cause,
            FiringOutcome::OtherSymptom => &mut self.other_symptom,
            FiringOutcome::NothingAbnormal => &mut self.nothing_abnormal,
            FiringOutcome::NotJudged => &mut self.not_judged,
            FiringOutcome::Blind => &mut self.blind,
        }
    }

    /// Returns the count of an outcome.
    pub fn get(mut self, outcome: FiringOutcome) -> usize {
        *self.place(outcome)
    }

    /// Returns the number of all firings.
    pub fn total(&self) -> usize {
        self.judged() + self.not_judged + self.blind
    }

    /// Returns the number of firings that could be judged.
    pub fn judged(&self) -> usize {
        self.confirmed + self.no_cause + self.other_symptom + self.nothing_abnormal
    }

    /// Returns true if its symptom never held, and nothing was abnormal at enough of its firings, at least half of all.
    fn is_noise(&self) -> bool {
        let never_held = self.confirmed == 0 && self.no_cause == 0;
        never_held && self.nothing_abnormal >= NOISE && 2 * self.nothing_abnormal >= self.total()
    }
}

/// The number of firings for which a cause was named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseCount {
    /// The id of the cause.
    pub cause: String,
    /// The number of firings.
    pub firings: usize,
}

/// The outcomes of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleOutcomes {
    /// The name of the alert.
    pub rule: String,
    /// The outcomes.
    pub counts: OutcomeCounts,
    /// The number of firings that could be judged.
    pub judged: usize,
    /// The number of firings beyond the maximum, which were not diagnosed.
    pub not_diagnosed: usize,
    /// True if its symptom never held, and nothing at all was abnormal at three of its firings or more, at least half of them.
    pub is_noise: bool,
    /// The median of the seconds from the start of the condition to the diagnosis, of the confirmed firings; `null`
    /// without any.
    pub median_after_seconds: Option<u64>,
    /// The causes that were named, the most frequent one first.
    pub causes: Vec<CauseCount>,
}

/// The outcomes of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolOutcomes {
    /// The name of the pool; empty if the alerts name none.
    pub pool: String,
    /// The outcomes.
    pub counts: OutcomeCounts,
    /// The causes that were named, the most frequent one first.
    pub causes: Vec<CauseCount>,
}

/// Counts by rule: noise first, then by the number of firings; `others` were not diagnosed.
pub fn by_rule(firings: &[DiagnosedFiring], others: &[RuleCount]) -> Vec<RuleOutcomes> {
    let mut rules: Vec<RuleOutcomes> = grouped(firings, |firing| &firing.rule)
        .into_iter()
        .map(|(rule, firings)| {
            let counts = OutcomeCounts::of(firings.iter().copied());
            let confirmed = firings.iter().filter(|firing| firing.outcome == FiringOutcome::Confirmed);
            let mut after: Vec<u64> = confirmed.map(|firing| firing.after_seconds).collect();
            after.sort_unstable();
            RuleOutcomes {
                rule: rule.to_owned(),
                counts,
                judged: counts.judged(),
                not_diagnosed: others.iter().filter(|other| other.rule == rule).map(|other| other.firings).sum(),
                is_noise: counts.is_noise(),
                median_after_seconds: after.get(after.len() / 2).copied(),
                causes: causes(&firings),
            }
        })
        .collect();
    rules.sort_by_key(|rule| (!rule.is_noise, Reverse(rule.counts.total())));
    rules
}

/// Counts by pool.
pub fn by_pool(firings: &[DiagnosedFiring]) -> Vec<PoolOutcomes> {
    let pools = grouped(firings, |firing| &firing.pool).into_iter();
    pools
        .map(|(pool, firings)| PoolOutcomes {
            pool: pool.to_owned(),
            counts: OutcomeCounts::of(firings.iter().copied()),
            causes: causes(&firings),
        })
        .collect()
}

fn grouped(firings: &[DiagnosedFiring], key: fn(&DiagnosedFiring) -> &String) -> BTreeMap<&str, Vec<&DiagnosedFiring>> {
    let mut groups: BTreeMap<&str, Vec<&DiagnosedFiring>> = BTreeMap::new();
    firings.iter().for_each(|firing| groups.entry(key(firing)).or_default().push(firing));
    groups
}

fn causes(firings: &[&DiagnosedFiring]) -> Vec<CauseCount> {
    let confirmed = firings.iter().filter(|firing| firing.outcome == FiringOutcome::Confirmed);
    let counted = counted(confirmed.filter_map(|firing| firing.chain.last().map(String::as_str))).into_iter();
    counted.map(|(cause, firings)| CauseCount { cause: cause.to_owned(), firings }).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::*;

    /// A firing with this outcome and chain.
    pub(crate) fn firing(rule: &str, outcome: FiringOutcome, chain: &[&str]) -> DiagnosedFiring {
        DiagnosedFiring {
            id: String::new(),
            rule: rule.to_owned(),
            pool: "llm/llama".to_owned(),
            labels: Default::default(),
            condition_since: Timestamp::UNIX_EPOCH,
            starts_at: Timestamp::UNIX_EPOCH,
            ends_at: None,
            diagnosed_at: Timestamp::UNIX_EPOCH,
            after_seconds: 180,
            outcome,
            headline: String::new(),
            playbook: String::new(),
            cause: chain.last().map(|id| (*id).to_owned()),
            chain: chain.iter().map(|id| (*id).to_owned()).collect(),
            probability: None,
            missing: Vec::new(),
            truth: None,
        }
    }

    #[test]
    fn a_rule_that_nothing_confirms_is_noise_and_one_that_could_not_be_judged_is_not() {
        use FiringOutcome::{Blind, Confirmed, NoCause, NotJudged, NothingAbnormal, OtherSymptom};
        let firings = [
            firing("Right", Confirmed, &["high-ttft", "traffic-surge"]),
            firing("Right", Confirmed, &["high-ttft", "traffic-surge"]),
            firing("Right", NothingAbnormal, &[]),
            firing("Unseen", Blind, &[]),
            firing("Open", NoCause, &[]),
            firing("Noise", NothingAbnormal, &[]),
            firing("Noise", NothingAbnormal, &[]),
            firing("Noise", NothingAbnormal, &[]),
            firing("Noise", Blind, &[]),
        ];
        let again = |outcome, times: usize| std::iter::repeat_n(outcome, times);
        let of = |rule: &'static str, outcomes: Vec<FiringOutcome>| {
            outcomes.into_iter().map(move |outcome| firing(rule, outcome, &[])).collect::<Vec<_>>()
        };
        let others = [
            of("Disk", again(NotJudged, 9).collect()),
            of("Twice", again(NothingAbnormal, 2).collect()),
            of("Mostly blind", again(NothingAbnormal, 3).chain(again(Blind, 30)).collect()),
            of("Beside", again(NothingAbnormal, 4).chain(again(OtherSymptom, 5)).collect()),
            of("Once", again(NothingAbnormal, 9).chain([Confirmed]).collect()),
        ];
        let noisy = |firings: &[DiagnosedFiring]| by_rule(firings, &[]).iter().filter(|rule| rule.is_noise).count();
        assert_eq!(noisy(&others.concat()), 0);
        assert_eq!(noisy(&of("Wide", again(NothingAbnormal, 5).chain([OtherSymptom]).collect())), 1);
        let rules = by_rule(&firings, &[]);
        assert_eq!((rules[0].judged, rules[0].counts.total()), (3, 4));
        let noise: Vec<_> = rules.iter().filter(|rule| rule.is_noise).map(|rule| rule.rule.as_str()).collect();
        assert_eq!(noise, ["Noise"]);
        assert_eq!(rules[1].causes, [CauseCount { cause: "traffic-surge".to_owned(), firings: 2 }]);
        assert_eq!((rules[1].median_after_seconds, rules[0].median_after_seconds), (Some(180), None));
        let pools = by_pool(&firings);
        assert_eq!((pools.len(), pools[0].counts.total(), pools[0].counts.get(Blind)), (1, 9, 2));
    }
}
