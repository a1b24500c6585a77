//! screen: which symptoms a pool shows, where the alert's own playbook is unknown or explains nothing.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::symptom;
use super::observe::{Heard, Observed, observe_more};
use super::plan::{Need, Needs, needs};
use super::{Judged, Request, SymptomVerdict, Verdict, judge};
use crate::playbook::{Evidence, Kind, Library, Playbook, Severity};
use crate::prom::Prometheus;

/// Confirmed symptoms whose causes are looked at; their questions overlap, so that several cost little more than one.
const MOST: usize = 4;

/// How long the answer waits for what else is abnormal.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a pool was screened for, and what was found beside the diagnosed symptom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Screening {
    /// The playbook that the alert tells, by its name, label or expression; none when it tells none.
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
    /// The titles of what else is abnormal: confirmed, and no link of the best chain.
    pub also: Vec<String>,
}

/// The symptoms that a pool shows.
#[derive(Debug, Clone, Default)]
pub(super) struct Screened {
    /// Ids of all playbooks whose condition could be judged.
    pub(super) looked_at: Vec<String>,
    /// Of these, those whose condition holds: symptoms before mechanisms.
    pub(super) confirmed: Vec<String>,
    /// What was asked, and what went wrong.
    pub(super) observed: Observed,
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
        let of_story = |id: &String| id == entered || chain.is_some_and(|chain| chain.contains(id));
        let asked = Some(request.playbook.clone()).filter(|id| !id.is_empty());
        Screening {
            asked_title: asked.as_ref().and_then(title),
            asked_verdict: own,
            asked,
            looked_at: self.looked_at.iter().filter_map(title).collect(),
            also: self.confirmed.iter().filter(|id| !of_story(id)).filter_map(title).collect(),
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

/// Asks for the conditions of all symptoms, in one pass, without what was heard before. Where no pool has the scope there is
/// nothing to look at.
pub(super) async fn screen(library: &Library, prometheus: &Prometheus, request: &Request, heard: Heard) -> Screened {
    let mut asked = Needs::new();
    let entries = entries(library);
    for (signal, when) in entries.iter().flat_map(|playbook| &playbook.symptom).flat_map(Evidence::checks) {
        asked.entry(signal).or_default().add(Need::of(when));
    }
    let observed = observe_more(library, prometheus, request, &asked, heard).await;
    let mut screened = Screened::default();
    for playbook in entries.into_iter().filter(|_| observed.found.unknown.is_none()) {
        let (_, symptom) = symptom(library, &playbook.symptom, &observed.seen);
        if symptom != SymptomVerdict::NoData {
            screened.looked_at.push(playbook.playbook.clone());
        }
        if symptom == SymptomVerdict::Confirmed {
            screened.confirmed.push(playbook.playbook.clone());
        }
    }
    screened.observed = observed;
    screened
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
    /// How sure that is: the weakest link's verdict, then its score.
    sure: (Verdict, f64),
}

/// How much a playbook's judgement explains.
pub(super) fn clarity(library: &Library, playbook: &str, judged: &Judged) -> Clarity {
    let rules = library.playbooks.get(playbook).map(|p| p.alerts.as_slice()).unwrap_or_default();
    // A root that only says that nothing else was found leaves the mechanism above it.
    let chain = judged.chains.first().map(Vec::as_slice).unwrap_or_default();
    let told = chain.len() - usize::from(library.ends_in_fallback(chain));
    let links = chain[..told].iter().filter_map(|id| judged.causes.get(id));
    let verdict = links.clone().map(|link| link.verdict).min();
    let score = links.map(|link| link.score).fold(1.0, f64::min);
    Clarity {
        confirmed: judged.symptom == SymptomVerdict::Confirmed,
        hurts: rules.iter().any(|rule| rule.severity == Severity::Critical),
        explained: verdict.is_some_and(|verdict| verdict >= Verdict::Possible),
        sure: (verdict.unwrap_or(Verdict::RuledOut), score),
    }
}

/// Whether a playbook's story needs no other one: its symptom is there, with a cause.
pub(super) fn explains(library: &Library, playbook: &str, judged: &Judged) -> bool {
    let clarity = clarity(library, playbook, judged);
    clarity.confirmed && clarity.explained
}

/// A symptom that was entered.
pub(super) struct Entered {
    /// Its playbook.
    pub(super) playbook: String,
    /// What was asked for it.
    pub(super) observed: Observed,
    /// What came of it.
    pub(super) judged: Judged,
}

/// Looks for the causes of the confirmed symptoms; the one whose story is clearest.
pub(super) async fn enter(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    screened: &Screened,
) -> Option<Entered> {
    let others = screened.confirmed.iter().filter(|id| **id != request.playbook).take(MOST);
    let entered: Vec<&String> = others.collect();
    if entered.is_empty() {
        return None;
    }
    let mut asked = Needs::new();
    for (signal, need) in entered.iter().flat_map(|id| needs(library, id)) {
        asked.entry(signal).or_default().add(need);
    }
    let observed = observe_more(library, prometheus, request, &asked, screened.observed.heard.clone()).await;
    // Of equally clear ones the first stands.
    let judged = entered.into_iter().rev().filter_map(|id| Some((id, judge(library, id, &observed.seen)?)));
    let (id, judged) = judged.max_by(|(a_id, a), (b_id, b)| {
        let (a, b) = (clarity(library, a_id, a), clarity(library, b_id, b));
        a.partial_cmp(&b).unwrap_or(Ordering::Equal)
    })?;
    Some(Entered { playbook: id.clone(), observed, judged })
}

/// What is left of a request's time.
pub(super) fn later(request: &Request, started: Instant) -> Request {
    let left = request.deadline.saturating_sub(started.elapsed());
    Request { deadline: left.max(Duration::from_millis(500)), ..request.clone() }
}

/// The same for what an answer that stands need not wait for.
pub(super) fn glance(request: &Request, started: Instant) -> Request {
    let later = later(request, started);
    Request { deadline: later.deadline.min(PATIENCE), ..later }
}
