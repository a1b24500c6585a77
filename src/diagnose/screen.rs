//! screen: which symptoms a pool shows, where the alert's own playbook is unknown or explains nothing.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer_cache::AnswerCache;
use super::direct::{Exporters, look_for};
use super::judge::symptom;
use super::observe::Observed;
use super::onset::tells_of_change;
use super::plan::{Need, Needs, needs, pool_first};
use super::{EvidenceResult, Judged, Outcome, Request, SymptomVerdict, Verdict, judge};
use crate::playbook::{Evidence, Kind, Library, Playbook, Severity};
use crate::prom::Prometheus;
use crate::signal::{Row, Signal, Unit};

/// Confirmed symptoms whose causes are looked at; their questions overlap, so that several cost little more than one.
const MOST: usize = 4;

/// What nobody was alerted for counts where it is clearly beyond its limit.
const CLEAR: f64 = 0.99;

/// From this share of failed requests on, their failing is the story, and not how slow the others are.
const MANY: f64 = 0.25;

/// How long the answer waits for what else is abnormal.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a pool was screened for, and what was found beside the diagnosed symptom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Screening {
    /// The playbook that the alert's label, name, expression or objective selects; none when nothing selects one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_title: Option<String>,
    /// Whether its condition holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_verdict: Option<SymptomVerdict>,
    /// The titles of the symptoms that were looked at.
    pub looked_at: Vec<String>,
    /// The titles of what else is abnormal: confirmed, not the asked symptom, and no link of the best chain.
    pub also: Vec<String>,
    /// The titles of those that hold as well, but not clearly: values close beyond a limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slight: Vec<String>,
}

/// The symptoms that a pool shows.
#[derive(Debug, Clone, Default)]
pub(super) struct Screened {
    /// Ids of all playbooks whose condition could be judged.
    pub(super) looked_at: Vec<String>,
    /// Of these, those whose condition clearly holds: symptoms before mechanisms.
    pub(super) confirmed: Vec<String>,
    /// Those whose condition holds, but not clearly.
    pub(super) slight: Vec<String>,
}

impl Screened {
    /// What a diagnosis tells of it; `own` is whether the condition of the playbook holds that was asked for.
    pub(super) fn told(
        &self,
        library: &Library,
        request: &Request,
        own: Option<SymptomVerdict>,
        entered: &str,
        judged: Option<&Judged>,
    ) -> Screening {
        let title = |id: &String| library.playbooks.get(id).map(|playbook| playbook.title.clone());
        let chain = judged.and_then(|judged| judged.chains.first());
        let asked = Some(request.playbook.clone()).filter(|id| !id.is_empty());
        let in_chain = |id: &String| id == entered || chain.is_some_and(|chain| chain.contains(id));
        let others = |ids: &[String]| -> Vec<String> {
            ids.iter().filter(|id| !in_chain(id) && asked.as_ref() != Some(id)).filter_map(title).collect()
        };
        Screening {
            also: others(&self.confirmed),
            slight: others(&self.slight),
            asked_title: asked.as_ref().and_then(title),
            asked_verdict: own,
            asked,
            looked_at: self.looked_at.iter().filter_map(title).collect(),
        }
    }
}

/// Playbooks that an alert may enter: symptoms before mechanisms, then in the order in which the quick look shows their
/// signals, which begins with what users feel.
fn entries(library: &Library) -> Vec<&Playbook> {
    let shown: Vec<&str> =
        library.health.headings.iter().flat_map(|heading| &heading.checks).map(|check| check.signal.as_str()).collect();
    let place = |playbook: &Playbook| {
        let signals = playbook.symptom.iter().flat_map(Evidence::checks).map(|(signal, _)| signal);
        signals.filter_map(|signal| shown.iter().position(|one| *one == signal)).min().unwrap_or(shown.len())
    };
    let symptoms = library.of_kind(Kind::Symptom);
    let mut entries: Vec<&Playbook> =
        symptoms.chain(library.of_kind(Kind::Mechanism).filter(|playbook| !playbook.alerts.is_empty())).collect();
    entries.sort_by_key(|playbook| (playbook.kind == Kind::Mechanism, place(playbook)));
    entries
}

/// Asks for the conditions of all symptoms, in one pass, but not for what was asked before; with what was asked, and what went
/// wrong. Where no pool has the scope there is nothing to look at.
pub(super) async fn screen(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    exporters: Option<&Exporters>,
    cache: AnswerCache,
) -> (Screened, Observed) {
    let mut asked = Needs::new();
    let entries = entries(library);
    for (signal, when) in entries.iter().flat_map(|playbook| &playbook.symptom).flat_map(Evidence::checks) {
        asked.entry(signal).or_default().add(Need::of(when));
    }
    let observed = look_for(library, prometheus, request, &pool_first(asked), exporters, cache).await;
    let mut screened = Screened::default();
    for playbook in entries.into_iter().filter(|_| observed.found.unknown.is_none()) {
        let (evidence, symptom) = symptom(library, &playbook.symptom, &observed.seen);
        if symptom != SymptomVerdict::NoData {
            screened.looked_at.push(playbook.playbook.clone());
        }
        // A guard holds on every quiet day; only what hurts has a limit to be beyond.
        let hurts = |e: &&EvidenceResult| e.outcome == Outcome::Met && tells_of_change(library, e);
        let clear = evidence.iter().filter(|e| e.required).filter(hurts).all(|e| e.support >= CLEAR);
        if symptom == SymptomVerdict::Confirmed {
            let found = if clear { &mut screened.confirmed } else { &mut screened.slight };
            found.push(playbook.playbook.clone());
        }
    }
    (screened, observed)
}

/// How much a judgement explains, in the order of what counts most.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Clarity {
    /// Its symptom is there.
    confirmed: bool,
    /// The symptom is one that may page: it hurts users, others only describe a state.
    hurts: bool,
    /// It has a cause that is at least possible.
    explained: bool,
    /// Many requests fail: who gets no answer is hurt more than who waits for one.
    fails: bool,
    /// How sure that is: the weakest link's verdict, then its score.
    sure: (Verdict, f64),
}

impl Clarity {
    /// Whether this symptom is told instead of the alert's own. One that is there gives way only to one with a cause.
    fn outdoes(self, own: Option<Self>) -> bool {
        own.is_none_or(|own| self > own && (self.explained || !own.confirmed))
    }
}

/// Whether a check shows that many requests fail: what users feel as a share is a share that failed.
fn fails(library: &Library, check: &EvidenceResult) -> bool {
    let felt = |signal: &Signal| signal.row == Some(Row::User) && signal.unit == Unit::Ratio;
    let many = check.outcome == Outcome::Met && check.value.is_some_and(|share| share >= MANY);
    many && library.signals.get(&check.signal).is_some_and(felt)
}

/// How much a playbook's judgement explains.
pub(super) fn clarity(library: &Library, playbook: &str, judged: &Judged) -> Clarity {
    let rules = library.playbooks.get(playbook).map(|p| p.alerts.as_slice()).unwrap_or_default();
    // A root that only says that nothing else was found leaves the mechanism above it.
    let chain = judged.chains.first().map(Vec::as_slice).unwrap_or_default();
    let known_links = chain.len() - usize::from(library.ends_in_fallback(chain));
    let judgements = chain[..known_links].iter().filter_map(|id| judged.causes.get(id));
    let links = judgements.enumerate().map(|(i, link)| link.as_link(i == 0));
    let verdict = links.clone().map(|(verdict, _)| verdict).min();
    let score = links.map(|(_, score)| score).fold(1.0, f64::min);
    Clarity {
        confirmed: judged.symptom == SymptomVerdict::Confirmed,
        hurts: rules.iter().any(|rule| rule.severity == Severity::Critical),
        explained: verdict.is_some_and(|verdict| verdict >= Verdict::Possible),
        fails: judged.evidence.iter().any(|check| fails(library, check)),
        sure: (verdict.unwrap_or(Verdict::RuledOut), score),
    }
}

/// Whether a playbook's story needs no other one: its symptom is there, with a cause.
pub(super) fn explains(library: &Library, playbook: &str, judged: &Judged) -> bool {
    let clarity = clarity(library, playbook, judged);
    clarity.confirmed && clarity.explained
}

/// Looks for the causes of the confirmed symptoms. What was asked, and the one whose story is clearest, where it is told
/// instead of the asked playbook's `own`; none where there is no other symptom.
pub(super) async fn enter(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    exporters: Option<&Exporters>,
    screened: &Screened,
    own: Option<Clarity>,
    cache: AnswerCache,
) -> Option<(Observed, Option<(String, Judged)>)> {
    let is_other = |id: &&String| **id != request.playbook;
    let clear = screened.confirmed.iter().any(|id| is_other(&id));
    // What is only close beyond a limit is told where a cause speaks for it.
    let others = if clear { &screened.confirmed } else { &screened.slight };
    let others: Vec<&String> = others.iter().filter(is_other).take(MOST).collect();
    if others.is_empty() {
        return None;
    }
    let mut asked = Needs::new();
    for (signal, need) in others.iter().flat_map(|id| needs(library, id)) {
        asked.entry(signal).or_default().add(need);
    }
    let observed = look_for(library, prometheus, request, &pool_first(asked), exporters, cache).await;
    let judged = others.into_iter().filter_map(|id| {
        let judged = judge(library, id, &observed.seen)?;
        Some((clarity(library, id, &judged), id.clone(), judged))
    });
    // Of equally clear ones the first stands.
    let judged = judged
        .filter(|(clarity, ..)| clarity.outdoes(own) && (clear || clarity.explained))
        .collect::<Vec<_>>()
        .into_iter()
        .rev();
    let best = judged.max_by(|(a, ..), (b, ..)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let best = best.map(|(_, id, judged)| (id, judged));
    Some((observed, best))
}

/// The request with this part of what is left of its time, at least half a second.
pub(super) fn with_time_left(request: &Request, started: Instant, part: u32) -> Request {
    let left = request.deadline.saturating_sub(started.elapsed()) / part;
    Request { deadline: left.max(Duration::from_millis(500)), ..request.clone() }
}

/// The same for what an answer that stands need not wait for.
pub(super) fn glance(request: &Request, started: Instant) -> Request {
    let rest = with_time_left(request, started, 1);
    Request { deadline: rest.deadline.min(PATIENCE), ..rest }
}
