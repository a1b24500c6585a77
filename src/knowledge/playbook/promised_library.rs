//! The library of a pool with its own objectives.
//!
//! The shipped data holds for the catalog's defaults: a limit, and [`BUDGET`] of the requests that may miss it. Both are
//! adapted.

use std::collections::BTreeMap;

use super::kinds::DeclaredPool;
use super::promise::{PoolObjectives, Slo};
use super::{Comparison, Condition, Evidence, Library, Playbook, PlaybookKind, Promise, Reference, Step, Verify};
use crate::signal::{Burn, SignalQuery};

/// The share of requests that may violate an objective by default.
const BUDGET: f64 = 0.01;
/// The highest limit of a share. In a full outage the share of the hour reaches it after 18 minutes, 0.5 only after 30.
pub(super) const MOST: f64 = 0.3;

impl Library {
    /// Adds to every engine the burn rates of the signals that it has.
    pub(super) fn derive_burns(&mut self) {
        let burns: Vec<(String, Burn)> =
            self.signals.iter().filter_map(|(name, signal)| Some((name.clone(), signal.burn.clone()?))).collect();
        for engine in self.engines.values_mut() {
            for (name, burn) in &burns {
                let share = engine.signals.get(&burn.of).cloned();
                let mean = burn.mean.as_ref().and_then(|mean| engine.signals.get(mean)).cloned();
                let Some(of) = share.clone().or_else(|| mean.clone()) else { continue };
                let share_query = share.as_ref().and_then(|share| share.query.as_deref());
                let mean_query = mean.as_ref().and_then(|mean| mean.query.as_deref());
                let query = burn.query(share_query, mean_query);
                // The setting that enables quantiles is not needed where the mean has data.
                let by_mean = query.is_some() && burn.query(share_query, None).is_none();
                let of = mean.filter(|_| by_mean).unwrap_or(of);
                let why = "it tells quantiles and no counts, of which shares could be made".to_owned();
                let unsupported = query.is_none().then(|| of.unsupported.clone().unwrap_or(why));
                let derived = SignalQuery { query, unsupported, since: None, ..of };
                engine.signals.insert(name.clone(), derived);
            }
        }
    }

    /// Sets the objectives of pools, `slo:`, and their kinds, `pools:`.
    ///
    /// # Errors
    /// The first invalid entry, with its number.
    pub fn promise(&mut self, slos: &[Slo], pools: &[DeclaredPool]) -> Result<(), String> {
        self.promised.clear();
        let mut entries = slos.to_vec();
        for (i, pool) in pools.iter().enumerate() {
            pool.validate(&self.kinds).map_err(|error| format!("`pools:` entry {}: {error}", i + 1))?;
            let kind = Some(pool.kind.clone());
            match entries.iter_mut().find(|slo| slo.pools == pool.labels && slo.kind.is_none()) {
                Some(slo) => slo.kind = kind,
                None => entries.push(Slo { pools: pool.labels.clone(), kind, ..Slo::default() }),
            }
        }
        let slos = entries.as_slice();
        let mut promised = Vec::new();
        for (i, slo) in slos.iter().enumerate() {
            slo.validate().map_err(|error| format!("`slo:` entry {}: {error}", i + 1))?;
            let decided = |other: &Slo| slo.is_exception_of(other) || other.is_exception_of(slo);
            if let Some(other) = slos.iter().take(i).position(|other| other.overlaps(slo) && !decided(other)) {
                let labels =
                    |slo: &Slo| slo.pools.iter().map(|(k, v)| format!("{k}: {v}")).collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "`slo:` or `pools:`, the entries of {{ {} }} and {{ {} }}: one pool may be in both, and none of them is the \
                     exception; tell them apart by the same label, or give one all labels of the other and one more",
                    labels(&slos[other]),
                    labels(slo)
                ));
            }
            let mut general: Vec<&Slo> = slos.iter().filter(|other| slo.is_exception_of(other)).collect();
            general.sort_by_key(|other| std::cmp::Reverse(other.pools.len()));
            let objective = general.into_iter().fold(slo.clone(), Slo::or);
            let places = self.kinds.kinds.iter().position(|kind| objective.kind.as_ref() == Some(&kind.kind));
            let library = self.promising(&objective).of_kinds(places.as_slice()).clone();
            let limit = |library: &Self, name: &str| library.signals.get(name)?.burn.as_ref()?.limit;
            let is_promised =
                |burn: &Burn| burn.limit.is_some() && burn.term.is_some_and(|term| objective.promise(term).is_some());
            let burns = library.signals.iter().filter_map(|(name, signal)| Some((name, signal.burn.as_ref()?)));
            let is_moved = |(name, burn): &(&String, &Burn)| is_promised(burn) || limit(self, name) != burn.limit;
            let moved = burns.filter(is_moved).map(|(name, _)| name.clone()).collect();
            promised.push(PoolObjectives { library: Box::new(library), slo: objective, moved });
        }
        self.promised = promised;
        Ok(())
    }

    /// Returns the library for a pool.
    pub fn for_pool(&self, pool: &BTreeMap<String, String>) -> &Self {
        let fitting = self.promised.iter().filter(|promised| promised.slo.fits(pool));
        fitting.max_by_key(|promised| promised.slo.pools.len()).map_or(self, |promised| &promised.library)
    }

    /// Returns the objective that a playbook's symptom or alerts depend on, if this is the library of an objective.
    pub fn promise_of(&self, playbook: &str) -> Option<Promise> {
        self.promised_signal(playbook).map(|(_, promise)| promise)
    }

    /// Returns the burn rate that a playbook's symptom or alerts read, with its objective; as [`Library::promise_of`].
    pub fn promised_signal(&self, playbook: &str) -> Option<(&str, Promise)> {
        let slo = self.slo.as_ref()?;
        let playbook = self.playbooks.get(playbook)?;
        let term = |signal: &str| self.signals.get(signal)?.burn.as_ref()?.term;
        read_signals(playbook).find_map(|signal| Some((signal, slo.promise(term(signal)?)?)))
    }

    /// Returns the symptom that a burn rate is about: the first whose checks or alerts are about it.
    pub fn symptom_of(&self, signal: &str) -> Option<&Playbook> {
        let symptoms = self.playbooks.values().filter(|playbook| playbook.kind == PlaybookKind::Symptom);
        symptoms.into_iter().find(|playbook| read_signals(playbook).any(|read| read == signal))
    }

    /// Builds the library with the limits of an objective.
    fn promising(&self, slo: &Slo) -> Self {
        let mut library = self.clone();
        library.slo = Some(slo.clone());
        let tops = self.tops();
        let top = |signal: &str| tops.get(signal).copied();
        let mut moves: BTreeMap<String, Move> = BTreeMap::new();
        for (name, signal) in &mut library.signals {
            let Some(burn) = &mut signal.burn else { continue };
            let Some(promise) = burn.term.and_then(|term| slo.promise(term)) else { continue };
            let budget = 1.0 - promise.share;
            moves.insert(name.clone(), Move::Share { budget, top: top(name) });
            match (burn.limit, promise.within_seconds) {
                (Some(limit), Some(within)) => {
                    // A 99th percentile above the limit means one slow request of a hundred. With another budget only
                    // the share of slow requests shows whether the objective is met.
                    let share = ((budget - BUDGET).abs() > 1e-9).then(|| (name.clone(), limit, budget));
                    let time = Move::Time { factor: within / limit, share };
                    // The share replaces the mean too: without a histogram it is computed from the mean.
                    moves.extend(burn.mean.clone().map(|mean| (mean, time.clone())));
                    moves.insert(burn.of.clone(), time);
                    burn.limit = Some(within);
                }
                _ => drop(moves.insert(burn.of.clone(), Move::Share { budget, top: top(&burn.of) })),
            }
        }
        library.change_limits(&moves);
        library
    }

    /// Multiplies the limits of signals, but of none that is promised.
    pub(super) fn grow(&mut self, factors: &BTreeMap<String, f64>) {
        let mut moves: BTreeMap<String, Move> = BTreeMap::new();
        let slo = self.slo.clone().unwrap_or_default();
        for (name, factor) in factors {
            let burn =
                self.signals.values_mut().filter_map(|signal| signal.burn.as_mut()).find(|burn| burn.of == *name);
            if burn.as_ref().and_then(|burn| slo.promise(burn.term?)).is_some() {
                continue;
            }
            let time = Move::Time { factor: *factor, share: None };
            if let Some(burn) = burn {
                burn.limit = burn.limit.map(|limit| limit * factor);
                moves.extend(burn.mean.clone().map(|mean| (mean, time.clone())));
            }
            moves.insert(name.clone(), time);
        }
        self.change_limits(&moves);
    }

    /// Changes the numbers of all conditions, and the burn rates by their limits.
    fn change_limits(&mut self, moves: &BTreeMap<String, Move>) {
        self.derive_burns();
        let moved = |signal: &mut String, when: &mut Condition| match moves.get(signal.as_str()) {
            Some(Move::Time { share: Some((burn, limit, budget)), .. }) if when.is_limit(*limit) => {
                *signal = burn.clone();
                *when = numbers(when, |_| *budget);
            }
            Some(Move::Time { factor, .. }) => *when = numbers(when, |n| n * factor),
            Some(Move::Share { budget, top }) => *when = numbers(when, |n| share(n, *budget, top.unwrap_or(n))),
            None => {}
        };
        for playbook in self.playbooks.values_mut() {
            let alerts = playbook.alerts.iter_mut().flat_map(|alert| &mut alert.when);
            playbook.symptom.iter_mut().chain(alerts).for_each(|evidence| each(evidence, &moved));
            of_steps(&mut playbook.now, &mut playbook.lasting, &moved);
            for cause in &mut playbook.causes {
                cause.evidence.iter_mut().for_each(|evidence| each(evidence, &moved));
                of_steps(&mut cause.now, &mut cause.lasting, &moved);
            }
        }
        for leaf in self.causes.values_mut() {
            leaf.evidence.iter_mut().for_each(|evidence| each(evidence, &moved));
            of_steps(&mut leaf.now, &mut leaf.lasting, &moved);
        }
    }

    /// Returns the largest number with which an alert compares each signal.
    fn tops(&self) -> BTreeMap<String, f64> {
        let mut tops: BTreeMap<String, f64> = BTreeMap::new();
        let alerts = self.playbooks.values().flat_map(|playbook| &playbook.alerts);
        for (signal, when) in alerts.flat_map(|alert| &alert.when).flat_map(Evidence::checks) {
            for comparison in when.comparisons() {
                if let Reference::Number(n) = comparison.to {
                    let top = tops.entry(signal.to_owned()).or_insert(n);
                    *top = top.max(n);
                }
            }
        }
        tops
    }
}

/// Returns the signals that a playbook is about: those of its symptom, and of the first condition of each alert. The other
/// conditions only hold an alert back.
fn read_signals(playbook: &Playbook) -> impl Iterator<Item = &str> {
    let checks = playbook.symptom.iter().chain(playbook.alerts.iter().filter_map(|alert| alert.when.first()));
    checks.flat_map(Evidence::checks).map(|(signal, _)| signal)
}

/// The change of the numbers that a signal is compared with.
#[derive(Debug, Clone, PartialEq)]
enum Move {
    /// For a share: the error budget, and the largest number of an alert.
    Share { budget: f64, top: Option<f64> },
    /// For a latency: the factor, and the burn rate, limit and budget that replace it.
    Time { factor: f64, share: Option<(String, f64, f64)> },
}

/// Adapts the limit of a share to another budget: below [`MOST`], in the alerts' order, never below the budget.
pub(super) fn share(n: f64, budget: f64, top: f64) -> f64 {
    let moved = n * budget / BUDGET;
    if n > MOST { moved.min(n) } else { moved.min(MOST * (n / top).min(1.0)).max(budget.min(moved)) }
}

fn each(evidence: &mut Evidence, apply: &impl Fn(&mut String, &mut Condition)) {
    if let (Some(signal), Some(when)) = (&mut evidence.signal, &mut evidence.when) {
        apply(signal, when);
    }
    evidence.any.iter_mut().for_each(|inner| each(inner, apply));
    // A quantile and its mean may have become the same check.
    evidence
        .any
        .dedup_by(|later, first| later.signal.is_some() && later.signal == first.signal && later.when == first.when);
}

fn of_steps(now: &mut [Step], lasting: &mut [Step], apply: &impl Fn(&mut String, &mut Condition)) {
    let checks = now.iter_mut().chain(lasting).flat_map(|step| step.verify.iter_mut().chain(step.only_if.as_mut()));
    checks.for_each(|verify| moved(verify, apply));
}

fn moved(verify: &mut Verify, apply: &impl Fn(&mut String, &mut Condition)) {
    apply(&mut verify.signal, &mut verify.when);
    verify.or.iter_mut().for_each(|other| moved(other, apply));
}

/// Returns the condition with its numbers changed.
fn numbers(when: &Condition, to: impl Fn(f64) -> f64) -> Condition {
    let moved = |c: &Comparison| match c.to {
        Reference::Number(n) => Comparison { to: Reference::Number((to(n) * 1e6).round() / 1e6), ..*c },
        _ => *c,
    };
    match when {
        Condition::All(list) => Condition::All(list.iter().map(moved).collect()),
        other => other.clone(),
    }
}
