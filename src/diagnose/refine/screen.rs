//! screen: the symptoms of a pool, for an alert whose playbook is unknown or explains nothing.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::direct::Exporters;
use crate::judge;
use crate::judge::evidence::tells_of_change;
use crate::judge::{as_link, symptom};
use crate::kinds::observe_by_kind;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::observe_result::ObserveResult;
use crate::observe::plan::{Needs, SignalNeed, needs, pool_first};
use findings::{
    DirectReadReason, EvidenceResult, Judged, Observations, Outcome, Request, Screening, SymptomVerdict, Unmeasured,
    Verdict,
};
use knowledge::playbook::{Evidence, Library, Playbook, PlaybookKind, Severity};
use knowledge::signal::{DashboardRow, EngineKind, Signal, Unit};
use prom::Prometheus;

/// Maximum number of symptoms whose causes are queried; their queries overlap, so that several cost little more than
/// one.
const MAX_SYMPTOMS: usize = 4;

/// Minimum support of a symptom that no alert has reported, to be clearly beyond its threshold.
const CLEAR: f64 = 0.99;

/// The times between two values that are the same for a symptom that no alert has reported.
const USUAL: f64 = 1.2;

/// Share of failed requests from which the failures take precedence over slowness.
const FAILURES_FIRST_SHARE: f64 = 0.25;

/// Maximum wait for the other symptoms.
const PATIENCE: Duration = Duration::from_secs(3);

/// The symptoms of a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Screened {
    /// Ids of all playbooks whose symptom could be judged.
    pub(crate) looked_at: Vec<String>,
    /// Playbooks whose symptom clearly holds: symptoms before mechanisms.
    pub(crate) confirmed: Vec<String>,
    /// Playbooks whose symptom holds, but not clearly, or as it did before.
    pub(crate) slight: Vec<String>,
    /// Playbooks of users' symptoms that could not be judged by the pages that were read.
    pub(crate) unmeasured: Vec<Unmeasured>,
}

impl Screened {
    /// Judges the symptoms of these playbooks.
    pub(crate) fn of(library: &Library, entries: &[&Playbook], observations: &Observations) -> Self {
        let mut screened = Self::default();
        for playbook in entries {
            let (evidence, symptom) = symptom(library, &playbook.symptom, observations);
            if symptom != SymptomVerdict::NoData {
                screened.looked_at.push(playbook.playbook.clone());
            }
            // A guard holds on every normal day; only harmful values have a threshold to exceed.
            let hurts = |e: &&EvidenceResult| e.outcome == Outcome::Met && tells_of_change(library, e);
            // A pool of long answers is as slow every day; what fails or hangs is no habit.
            let is_usual = |e: &EvidenceResult| {
                let past = observations.signals.get(&e.signal).and_then(|seen| seen.baseline);
                let is_close = |(now, past): (f64, f64)| now <= past * USUAL && past <= now * USUAL;
                e.unit == Unit::Seconds && e.baseline.is_none() && e.value.zip(past).is_some_and(is_close)
            };
            let mut hurting = evidence.iter().filter(|e| e.required).filter(hurts);
            let clear = hurting.all(|e| e.support >= CLEAR && !is_usual(e));
            if symptom == SymptomVerdict::Confirmed {
                let list = if clear { &mut screened.confirmed } else { &mut screened.slight };
                list.push(playbook.playbook.clone());
            }
        }
        screened
    }

    /// Builds the screening of a diagnosis; `own` is the verdict on the request's own playbook.
    pub(crate) fn screening(
        &self,
        library: &Library,
        request: &Request,
        own: Option<SymptomVerdict>,
        entered: &str,
        judged: Option<&Judged>,
    ) -> Screening {
        let title = |id: &String| library.playbooks.get(id).map(|playbook| playbook.title.clone());
        let chain = judged.and_then(|judged| judged.chains.first());
        let requested = Some(request.playbook.clone()).filter(|id| !id.is_empty());
        let in_chain = |id: &String| id == entered || chain.is_some_and(|chain| chain.contains(id));
        let others = |ids: &[String]| -> Vec<String> {
            ids.iter().filter(|id| !in_chain(id) && requested.as_ref() != Some(id)).filter_map(title).collect()
        };
        Screening {
            also: others(&self.confirmed),
            slight: others(&self.slight),
            asked_title: requested.as_ref().and_then(title),
            asked_verdict: own,
            asked: requested,
            looked_at: self.looked_at.iter().filter_map(title).collect(),
            unmeasured: self.unmeasured.clone(),
        }
    }
}

/// Returns the playbooks that an alert may enter: symptoms before mechanisms, then in the order of their signals in
/// `health`, which begins with what users notice.
pub(crate) fn entries(library: &Library) -> Vec<&Playbook> {
    let health_order: Vec<&str> =
        library.health.headings.iter().flat_map(|heading| &heading.checks).map(|check| check.signal.as_str()).collect();
    let place = |playbook: &Playbook| {
        let signals = playbook.symptom.iter().flat_map(Evidence::checks).map(|(signal, _)| signal);
        signals
            .filter_map(|signal| health_order.iter().position(|one| *one == signal))
            .min()
            .unwrap_or(health_order.len())
    };
    let symptoms = library.of_kind(PlaybookKind::Symptom);
    let mut entries: Vec<&Playbook> = symptoms
        .chain(library.of_kind(PlaybookKind::Mechanism).filter(|playbook| !playbook.alerts.is_empty()))
        .collect();
    entries.sort_by_key(|playbook| (playbook.kind == PlaybookKind::Mechanism, place(playbook)));
    entries
}

/// Returns what the symptoms of these playbooks need.
pub(crate) fn symptom_needs<'a>(entries: &[&'a Playbook]) -> Needs<'a> {
    let mut needs = Needs::new();
    for (signal, when) in entries.iter().flat_map(|playbook| &playbook.symptom).flat_map(Evidence::checks) {
        needs.entry(signal).or_default().add(SignalNeed::of(when));
    }
    needs
}

/// Queries and judges all symptoms, or only this one, in one pass, without the cached answers; returns the library with the limits of the pool's
/// kinds, and the observations as well. No symptom is judged if no pool has the scope.
pub(crate) async fn screen<'a>(
    library: &'a Library,
    prometheus: &Prometheus,
    request: &Request,
    only: Option<&str>,
    exporters: Option<&Exporters>,
    cache: AnswerCache,
) -> (&'a Library, Screened, ObserveResult) {
    let entries = |library: &'a Library| match only.and_then(|id| library.playbooks.get(id)) {
        Some(playbook) => vec![playbook],
        None => entries(library),
    };
    let needs = |library: &'a Library| pool_first(symptom_needs(&entries(library)));
    let (library, observed) = observe_by_kind(library, prometheus, request, needs, exporters, cache).await;
    match observed.detection.unknown {
        None => {
            let entries = entries(library);
            let mut screened = Screened::of(library, &entries, &observed.observations);
            screened.unmeasured = unmeasured(library, &entries, &screened.looked_at, &observed);
            (library, screened, observed)
        }
        Some(_) => (library, Screened::default(), observed),
    }
}

/// Returns the symptoms that hurt users and that programs of the kinds that were read can have, but that their pages did not
/// tell; none where a Prometheus was asked, which names what is missing signal by signal.
fn unmeasured(
    library: &Library,
    entries: &[&Playbook],
    looked_at: &[String],
    observed: &ObserveResult,
) -> Vec<Unmeasured> {
    if observed.direct.as_ref().is_none_or(|direct| direct.because != DirectReadReason::NoPrometheus) {
        return Vec::new();
    }
    let kinds: BTreeSet<EngineKind> = observed.detection.pool(library).map(|(engine, _)| engine.kind).collect();
    let is_theirs = |signal: &str| {
        let felt = |s: &Signal| s.row == Some(DashboardRow::User) && s.of.iter().any(|of| kinds.contains(of));
        library.signals.get(signal).is_some_and(felt)
    };
    let open = entries.iter().filter(|playbook| {
        playbook.kind == PlaybookKind::Symptom
            && playbook.alerts.iter().any(|alert| alert.severity == Severity::Critical)
            && !looked_at.contains(&playbook.playbook)
    });
    let unmeasured = |playbook: &&Playbook| {
        let signals = playbook.symptom.iter().flat_map(Evidence::checks).map(|(signal, _)| signal);
        let open = signals.filter(|signal| is_theirs(signal)).filter_map(|s| observed.observations.signals.get(s));
        let why = open.filter(|o| o.value.is_none()).find_map(|o| o.why.clone());
        Some(Unmeasured { title: playbook.title.clone(), why: why? })
    };
    open.filter_map(unmeasured).collect()
}

/// The clarity of a judgement; the order of the fields is their importance in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Clarity {
    /// True if its symptom is confirmed.
    confirmed: bool,
    /// True if the symptom has a critical alert, and not only what harms nobody was met: it hurts users, others only describe
    /// a state.
    hurts: bool,
    /// True if it has a cause that is at least possible.
    explained: bool,
    /// True if many requests fail: a user without an answer is hurt more than one who waits.
    fails: bool,
    /// The certainty: the weakest link's verdict, then its score.
    sure: (Verdict, f64),
}

impl Clarity {
    /// Returns true if this symptom replaces the alert's own. A confirmed one gives way only to one with a likely cause.
    fn outdoes(self, own: Option<Self>) -> bool {
        own.is_none_or(|own| self > own && (self.sure.0 >= Verdict::Likely || !own.confirmed))
    }
}

/// Returns true if a check shows that many requests fail: among the signals of users, a ratio is a share of failures.
fn fails(library: &Library, check: &EvidenceResult) -> bool {
    let felt = |signal: &Signal| signal.row == Some(DashboardRow::User) && signal.unit == Unit::Ratio;
    let many = check.outcome == Outcome::Met && check.value.is_some_and(|share| share >= FAILURES_FIRST_SHARE);
    many && library.signals.get(&check.signal).is_some_and(felt)
}

/// Returns the clarity of a playbook's judgement.
pub(crate) fn clarity(library: &Library, playbook: &str, judged: &Judged) -> Clarity {
    let entry = library.playbooks.get(playbook);
    let rules = entry.map(|p| p.alerts.as_slice()).unwrap_or_default();
    let harmless: Vec<&str> = entry.into_iter().flat_map(|p| &p.symptom).flat_map(Evidence::harmless_signals).collect();
    // A root that only says that nothing else was found leaves the mechanism above it.
    let chain = judged.chains.first().map(Vec::as_slice).unwrap_or_default();
    let known_links = chain.len() - usize::from(library.ends_in_fallback(chain));
    let judgements = chain[..known_links].iter().filter_map(|id| judged.causes.get(id));
    let links = judgements.enumerate().map(|(i, link)| as_link(link, i == 0));
    let verdict = links.clone().map(|(verdict, _)| verdict).min();
    let score = links.map(|(_, score)| score).fold(1.0, f64::min);
    Clarity {
        confirmed: judged.symptom == SymptomVerdict::Confirmed,
        hurts: rules.iter().any(|rule| rule.severity == Severity::Critical)
            && judged
                .evidence
                .iter()
                .any(|check| check.outcome == Outcome::Met && !harmless.contains(&check.signal.as_str())),
        explained: verdict.is_some_and(|verdict| verdict >= Verdict::Possible),
        fails: judged.evidence.iter().any(|check| fails(library, check)),
        sure: (verdict.unwrap_or(Verdict::RuledOut), score),
    }
}

/// Returns true if a playbook needs no screening: its symptom is confirmed, with a cause.
pub(crate) fn explains(library: &Library, playbook: &str, judged: &Judged) -> bool {
    let clarity = clarity(library, playbook, judged);
    clarity.confirmed && clarity.explained
}

/// Queries the causes of the confirmed symptoms. Returns the observations, and the clearest symptom if it replaces
/// the request's `own`; `None` if there is no other symptom.
pub(crate) async fn enter(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    exporters: Option<&Exporters>,
    screened: &Screened,
    own: Option<Clarity>,
    cache: AnswerCache,
) -> Option<(ObserveResult, Option<(String, Judged)>)> {
    let is_other = |id: &&String| **id != request.playbook;
    let clear = screened.confirmed.iter().any(|id| is_other(&id));
    // Symptoms slightly beyond a threshold are reported if a cause supports them.
    let others = if clear { &screened.confirmed } else { &screened.slight };
    let others: Vec<&String> = others.iter().filter(is_other).take(MAX_SYMPTOMS).collect();
    if others.is_empty() {
        return None;
    }
    let chain_needs = |library| {
        let mut chain_needs = Needs::new();
        for (signal, need) in others.iter().flat_map(|id| needs(library, id)) {
            chain_needs.entry(signal).or_default().add(need);
        }
        pool_first(chain_needs)
    };
    let (library, observed) = observe_by_kind(library, prometheus, request, chain_needs, exporters, cache).await;
    let judged = others.into_iter().filter_map(|id| {
        let judged = judge(library, id, &observed.observations)?;
        Some((clarity(library, id, &judged), id.clone(), judged))
    });
    // Of equally clear ones the first wins.
    let judged = judged
        .filter(|(clarity, ..)| clarity.outdoes(own) && (clear || clarity.explained))
        .collect::<Vec<_>>()
        .into_iter()
        .rev();
    let best = judged.max_by(|(a, ..), (b, ..)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let best = best.map(|(_, id, judged)| (id, judged));
    Some((observed, best))
}

/// Returns the request with a part of its remaining time, at least half a second.
pub(crate) fn with_time_left(request: &Request, started: Instant, part: u32) -> Request {
    let left = request.deadline.saturating_sub(started.elapsed()) / part;
    Request { deadline: left.max(Duration::from_millis(500)), ..request.clone() }
}

/// Returns the request with a short time limit, for symptoms beside a complete diagnosis.
pub(crate) fn glance(request: &Request, started: Instant) -> Request {
    let limited = with_time_left(request, started, 1);
    Request { deadline: limited.deadline.min(PATIENCE), ..limited }
}

#[cfg(test)]
mod tests {
    use findings::Observation;

    use super::*;

    #[test]
    fn answers_that_are_as_slow_as_before_are_no_clear_symptom() {
        let library = knowledge::playbook::load(None).unwrap();
        let entry = &library.playbooks["high-e2e-latency"];
        let screened = |now, past: Option<f64>| {
            let seen = Observation { value: Some(now), baseline: past, answered: true, ..Observation::default() };
            let signals = [("e2e_p99".to_owned(), seen)].into();
            let screened = Screened::of(&library, &[entry], &Observations { signals, ..Observations::default() });
            (screened.confirmed.len(), screened.slight.len())
        };
        assert_eq!(screened(148.0, Some(146.0)), (0, 1));
        assert_eq!(screened(148.0, Some(90.0)), (1, 0));
        assert_eq!(screened(148.0, None), (1, 0));
    }
}
