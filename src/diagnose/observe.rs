//! observe: asks the plan's questions at once and waits no longer than the deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use jiff::Timestamp;
use tracing::{Instrument, debug_span};

use super::batch::Answer;
use super::direct::{self, Because, DirectRead, Exporters};
use super::elsewhere::{self, DataSpan};
use super::gather::{Members, gather};
use super::logs::{LogSources, LogsRead};
use super::observation::{Observation, Observations};
use super::plan::{Ask, Needs, Plan, needs, past_window, pasts, plan_for};
use super::scope::{Found, detection, presence, read_detection, was_present};
use super::screen::{self, Entered, Screened, Screening};
use super::{Diagnosis, Judged, Request, SymptomVerdict, batch, blame, judge, onset, rule};
use crate::alert::Labels;
use crate::clock;
use crate::playbook::Library;
use crate::prom::{PromError, Prometheus};

/// Of the deadline, what is left for judging and rendering.
pub(super) const RESERVE: Duration = Duration::from_millis(200);

/// What was seen, and what went wrong while looking.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The engines that are there.
    pub found: Found,
    /// The signals' values.
    pub seen: Observations,
    /// In sentences.
    pub problems: Vec<String>,
    /// Prometheus was away or late: worth making again.
    pub degraded: bool,
    /// Questions asked.
    pub queries: usize,
    /// What was read from exporters themselves.
    pub direct: Option<DirectRead>,
    /// The logs that were read.
    pub logs: Option<LogsRead>,
    /// When the pool has data, where it has none at the moment that is judged.
    pub elsewhere: Option<DataSpan>,
    /// Whose rows count.
    pub(super) members: Members,
    /// What the next look need not ask again.
    pub(super) heard: Heard,
}

/// What a diagnosis has asked already.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    /// The engines, once they are known.
    found: Option<Found>,
    /// Answers by query and time.
    answers: BTreeMap<(String, Timestamp), Answer>,
    /// Questions asked.
    queries: usize,
}

impl Heard {
    fn of(&self, ask: &Ask) -> Option<&Answer> {
        self.answers.get(&(ask.query.clone(), ask.at))
    }

    /// Asks what was not asked before; one answer per question, in order.
    async fn ask(&mut self, prometheus: &Prometheus, asks: &[Ask], deadline: Instant) -> Vec<Answer> {
        let mut once = BTreeSet::new();
        let known = |ask: &Ask| self.of(ask).is_some_and(|answer| !answer.as_ref().is_err_and(|e| e.is_unavailable()));
        let new = asks.iter().filter(|ask| !known(ask) && once.insert((&ask.query, ask.at)));
        let new: Vec<Ask> = new.cloned().collect();
        self.queries += batch::pack(&new).len();
        let answers = batch::ask_all(prometheus, &new, deadline).await;
        self.answers.extend(new.into_iter().map(|ask| (ask.query, ask.at)).zip(answers));
        asks.iter().map(|ask| self.of(ask).cloned().unwrap_or_else(|| Err(PromError::Late.into()))).collect()
    }
}

/// What may be read beside Prometheus.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Exporters themselves, where Prometheus cannot tell.
    pub exporters: Option<&'a Exporters>,
    /// The replicas' logs.
    pub logs: Option<&'a LogSources>,
}

/// The whole chain for one request: detect, plan, observe, judge.
pub async fn diagnose(library: &Library, prometheus: &Prometheus, request: &Request) -> Diagnosis {
    diagnose_with(library, prometheus, request, Beside::default()).await
}

/// [`diagnose`], with more than Prometheus to ask.
pub async fn diagnose_with(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    beside: Beside<'_>,
) -> Diagnosis {
    begin(library, prometheus, request, beside).await.finish().await
}

/// A diagnosis that is almost made: asked and judged, but without logs, and without since when its evidence holds.
#[derive(Debug)]
pub struct Begun<'a> {
    library: &'a Library,
    prometheus: &'a Prometheus,
    /// What was asked for.
    asked: Request,
    /// The same, with the playbook that was entered.
    request: Request,
    logs: Option<&'a LogSources>,
    observed: Observed,
    judged: Option<Judged>,
    /// Whether the condition of the playbook holds that was asked for; none where there is none.
    own: Option<SymptomVerdict>,
    screened: Option<Screened>,
    started: Instant,
}

/// [`diagnose_with`], up to the verdict.
///
/// Where the request names no playbook, the alerts' rules are asked for. Where it may be screened and its playbook explains
/// nothing, the clearest symptom of the pool is entered instead.
pub async fn begin<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &Request,
    beside: Beside<'a>,
) -> Begun<'a> {
    let started = Instant::now();
    let logs = beside.logs;
    let (asked, queries) = rule::with_playbook(library, prometheus, request, started).await;
    let mut begun = Begun {
        library,
        prometheus,
        request: asked.clone(),
        asked,
        logs,
        observed: Observed { queries, heard: Heard { queries, ..Heard::default() }, ..Observed::default() },
        judged: None,
        own: None,
        screened: None,
        started,
    };
    let mut explained = false;
    if library.playbooks.contains_key(&begun.asked.playbook) {
        let look = direct::look(library, prometheus, &begun.asked, beside.exporters);
        begun.observed = look.instrument(debug_span!("observe")).await;
        begun.observed.queries += queries;
        begun.judged = judge(library, &begun.asked.playbook, &begun.observed.seen);
        begun.own = begun.judged.as_ref().map(|judged| judged.symptom);
        let own = |judged: &Judged| screen::explains(library, &begun.asked.playbook, judged);
        explained = begun.judged.as_ref().is_some_and(own);
    }
    if !begun.asked.screen || begun.observed.degraded || explained {
        return begun;
    }
    begun.screened().instrument(debug_span!("screen")).await
}

impl Begun<'_> {
    /// Looks for a symptom of the pool that explains more.
    async fn screened(mut self) -> Self {
        let (library, prometheus) = (self.library, self.prometheus);
        let own = self.judged.as_ref().map(|judged| screen::clarity(library, &self.request.playbook, judged));
        let asked_before = self.observed.queries.saturating_sub(self.observed.heard.queries);
        let later = screen::later(&self.asked, self.started);
        let screened = screen::screen(library, prometheus, &later, self.observed.heard.clone()).await;
        let later = screen::later(&self.asked, self.started);
        let entered = screen::enter(library, prometheus, &later, &screened).await;
        let heard = entered.as_ref().map_or(&screened.observed.heard, |entered| &entered.observed.heard).clone();
        let clear = |entered: &Entered| screen::clarity(library, &entered.playbook, &entered.judged);
        match entered.filter(|entered| Some(clear(entered)) > own) {
            Some(entered) => {
                self.request.playbook = entered.playbook;
                self.observed = entered.observed;
                self.judged = Some(entered.judged);
            }
            None if self.judged.is_none() => self.observed = screened.observed.clone(),
            None => {}
        }
        self.observed.queries = asked_before + heard.queries;
        self.observed.heard = heard;
        self.screened = Some(screened);
        self
    }

    /// What can be said before the onsets are known; none when it is nothing, or when they may name another cause.
    pub fn so_far(&self) -> Option<Diagnosis> {
        let judged = self.judged.as_ref().filter(|judged| !judged.chains.is_empty() && !judged.is_tied())?;
        let (observed, judged) = (self.observed.clone(), Some(judged.clone()));
        let said = !observed.degraded;
        let screening = self.screening();
        said.then(|| blame::assemble(self.library, &self.request, observed, judged, screening, self.started.elapsed()))
    }

    fn screening(&self) -> Option<Screening> {
        let screened = self.screened.as_ref()?;
        Some(screened.told(self.library, &self.asked, self.own, &self.request.playbook, self.judged.as_ref()))
    }

    /// Reads the logs, asks for the onsets and for what else is abnormal, and puts everything into the answer.
    pub async fn finish(mut self) -> Diagnosis {
        let (library, prometheus, started) = (self.library, self.prometheus, self.started);
        let request = &self.request;
        let deadline = started + request.deadline.saturating_sub(RESERVE).max(RESERVE);
        if let Some(logs) = self.logs.filter(|_| self.judged.is_some()) {
            let look = logs.look(library, request, self.judged.as_ref(), &mut self.observed, deadline);
            if look.instrument(debug_span!("logs")).await {
                self.judged = judge(library, &request.playbook, &self.observed.seen);
            }
        }
        let away = self.observed.direct.as_ref().is_some_and(|direct| direct.because == Because::NoAnswer);
        let unscreened = self.asked.screen && self.screened.is_none() && !self.observed.degraded;
        let heard = unscreened.then(|| self.observed.heard.clone());
        let glance = async {
            let later = screen::glance(&self.asked, started);
            Some(screen::screen(library, prometheus, &later, heard?).instrument(debug_span!("screen")).await)
        };
        let (observed, first) = (&mut self.observed, self.judged.as_ref().filter(|_| !away));
        let trace = async {
            let Some(first) = first else { return false };
            let traced = onset::trace(library, prometheus, request, observed, first, deadline);
            traced.instrument(debug_span!("trace")).await
        };
        let (traced, glanced) = join(trace, glance).await;
        if traced {
            self.judged = judge(library, &request.playbook, &self.observed.seen);
        }
        if let Some(glanced) = glanced {
            self.observed.queries += glanced.observed.queries.saturating_sub(self.observed.heard.queries);
            self.screened = Some(glanced);
        }
        if elsewhere::is_blind(self.own, self.screened.as_ref(), &self.observed) {
            let (data, queries) = elsewhere::data(library, prometheus, &request.scope, request.at, deadline).await;
            self.observed.queries += queries;
            self.observed.elsewhere = data;
        }
        let screening = self.screening();
        blame::assemble(library, &self.request, self.observed, self.judged, screening, started.elapsed())
    }
}

/// Asks everything that the playbook may need; what has answered by the deadline counts.
pub async fn observe(library: &Library, prometheus: &Prometheus, request: &Request) -> Observed {
    observe_needs(library, prometheus, request, &needs(library, &request.playbook)).await
}

/// Asks for these needs; the request's playbook is not looked at.
pub(super) async fn observe_needs(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    needs: &Needs<'_>,
) -> Observed {
    observe_more(library, prometheus, request, needs, Heard::default()).await
}

/// As [`observe_needs`], without what was heard before in the same diagnosis.
pub(super) async fn observe_more(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    needs: &Needs<'_>,
    mut heard: Heard,
) -> Observed {
    let deadline = Instant::now() + request.deadline.saturating_sub(RESERVE).max(RESERVE);
    let mut observed = Observed::default();
    match heard.found.clone() {
        Some(found) => observed.found = found,
        None => detect(library, prometheus, request, deadline, &mut observed, &mut heard).await,
    }
    let plan = plan_for(library, request, &observed.found, needs);
    let answers = heard.ask(prometheus, &plan.asks, deadline).await;
    observed.members = Members::of(library, &plan.asks, &answers);
    observed.seen.pool = observed.members.pool();
    observed.seen.places = observed.members.places();
    observed.degraded |= gather(library, &observed.members, &plan.asks, &answers, &mut observed.seen);
    say_what_is_missing(&plan, &answers, &mut observed);
    observed.queries = heard.queries;
    observed.heard = heard;
    observed
}

/// Finds the engines that answer for the scope, and which past they have.
async fn detect(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    deadline: Instant,
    observed: &mut Observed,
    heard: &mut Heard,
) {
    let pasts = pasts(request);
    heard.queries += 1 + pasts.len();
    let (presence, detection) = (presence(library), detection(library));
    let beginning = |past: &Timestamp| clock::before(*past, past_window(request));
    let beginnings = pasts.iter().map(|past| prometheus.query(&presence, beginning(past), deadline));
    let (detected, beginnings) = join(prometheus.query(&detection, request.at, deadline), join_all(beginnings)).await;
    match detected {
        Ok(rows) => {
            let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
            observed.found = read_detection(library, &request.scope, &rows);
            if observed.found.adrift {
                let found = std::mem::take(&mut observed.found);
                heard.queries += 1;
                observed.found = elsewhere::narrow(library, prometheus, request, &rows, found, deadline).await;
            }
            let found = &observed.found;
            let covered = |rows: &Answer| rows.as_ref().is_ok_and(|rows| was_present(library, found, rows));
            observed.found.past = pasts.iter().zip(&beginnings).find(|(_, rows)| covered(rows)).map(|(past, _)| *past);
            heard.found = Some(observed.found.clone());
        }
        Err(error) => {
            observed.degraded = error.is_unavailable();
            observed.problems.push(error.to_string());
        }
    }
}

/// Why signals have no value, and what went wrong, in sentences.
fn say_what_is_missing(plan: &Plan, answers: &[Answer], observed: &mut Observed) {
    for o in observed.seen.signals.values_mut() {
        if o.value.is_none() && o.replicas.is_empty() && o.why.is_none() {
            o.why = Some("no series".to_owned());
        }
    }
    let away = observed.degraded && observed.found.engines.is_empty();
    for (signal, (why, enable)) in &plan.unavailable {
        // When Prometheus could not be asked, that is the reason, not a missing exporter.
        let why = if away { observed.problems.first().cloned().unwrap_or_default() } else { why.clone() };
        let enable = if away { None } else { enable.clone() };
        observed.seen.signals.insert(signal.clone(), Observation { why: Some(why), enable, ..Observation::default() });
    }
    let late = answers.iter().filter(|a| matches!(a, Err(e) if matches!(**e, PromError::Late))).count();
    if late > 0 {
        observed.problems.push(format!("{late} of {} queries timed out", answers.len()));
    }
    let failures: BTreeMap<String, usize> = answers
        .iter()
        .filter_map(|a| a.as_ref().err())
        .filter(|e| !matches!(***e, PromError::Late))
        .fold(BTreeMap::new(), |mut all, e| {
            *all.entry(e.to_string()).or_default() += 1;
            all
        });
    observed.problems.extend(failures.into_iter().map(|(error, n)| match n {
        1 => error,
        n => format!("{error} ({n} queries)"),
    }));
}
