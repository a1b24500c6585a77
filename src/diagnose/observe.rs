//! observe: asks the plan's questions at once and waits no longer than the deadline.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join;
use tracing::{Instrument, debug_span};

use super::batch::Answer;
use super::direct::{self, Because, DirectRead, Exporters};
use super::gather::{Members, gather};
use super::logs::{LogSources, LogsRead};
use super::observation::{Observation, Observations};
use super::past::{Past, ladder};
use super::plan::{Ask, Needs, Plan, Side, needs, plan_for};
use super::scope::{Found, detection, presence, read_detection, was_present};
use super::screen::{self, Screened, Screening};
use super::{Diagnosis, Judged, Request, SymptomVerdict, against, batch, blame, judge, onset};
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
    /// Whose rows count.
    pub(super) members: Members,
}

impl Observed {
    /// With the questions and the failures of another look: what is not known of it makes this one worth repeating.
    fn add_trouble(&mut self, other: &Self) {
        self.queries += other.queries;
        self.degraded |= other.degraded;
        let new = other.problems.iter().filter(|problem| !self.problems.contains(problem));
        let new: Vec<String> = new.cloned().collect();
        self.problems.extend(new);
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
    asked: &'a Request,
    /// The same, with the playbook that was entered.
    request: Request,
    beside: Beside<'a>,
    observed: Observed,
    judged: Option<Judged>,
    screened: Option<Screened>,
    /// All logs were read for this playbook.
    has_logs: bool,
    started: Instant,
}

/// [`diagnose_with`], up to the verdict.
///
/// Where the request allows it and its playbook explains nothing, not even with the logs, the pool is screened, and the
/// clearest of its symptoms is entered instead.
pub async fn begin<'a>(
    library: &'a Library,
    prometheus: &'a Prometheus,
    request: &'a Request,
    beside: Beside<'a>,
) -> Begun<'a> {
    let started = Instant::now();
    let (observed, judged) = match library.playbooks.contains_key(&request.playbook) {
        true => {
            let look = direct::look(library, prometheus, request, beside.exporters);
            let observed = look.instrument(debug_span!("observe")).await;
            let judged = judge(library, &request.playbook, &observed.seen);
            (observed, judged)
        }
        false => (Observed::default(), None),
    };
    let mut own = Begun {
        library,
        prometheus,
        asked: request,
        request: request.clone(),
        beside,
        observed,
        judged,
        screened: None,
        has_logs: false,
        started,
    };
    if !request.screen || own.observed.degraded || own.explains() {
        return own;
    }
    if own.judged.as_ref().is_some_and(|judged| judged.symptom == SymptomVerdict::Confirmed) {
        // Half of the time is left for the screening.
        own.read_logs(started + request.deadline / 2).await;
        if own.explains() {
            return own;
        }
    }
    own.screened().instrument(debug_span!("screen")).await
}

impl<'a> Begun<'a> {
    fn explains(&self) -> bool {
        self.judged.as_ref().is_some_and(|judged| screen::explains(self.library, &self.request.playbook, judged))
    }

    /// Judges once more with what the logs say; again only where some could not be read.
    async fn read_logs(&mut self, deadline: Instant) {
        let Some(logs) = self.beside.logs.filter(|_| self.judged.is_some() && !self.has_logs) else { return };
        let look = logs.look(self.library, &self.request, self.judged.as_ref(), &mut self.observed, deadline);
        if look.instrument(debug_span!("logs")).await {
            self.judged = judge(self.library, &self.request.playbook, &self.observed.seen);
            self.has_logs = self.observed.logs.as_ref().is_some_and(|read| read.missing.is_empty());
        }
    }

    /// Looks for a symptom of the pool that explains more.
    async fn screened(mut self) -> Self {
        let (library, prometheus) = (self.library, self.prometheus);
        let exporters = self.beside.exporters;
        // Exporters may be read twice, for the symptoms and for their causes.
        let request = screen::with_time_left(self.asked, self.started, 2);
        let (mut screened, seen) = screen::screen(library, prometheus, &request, exporters).await;
        if !seen.degraded && seen.found.is_of_another_job(library, &self.asked.scope) {
            self.observed.queries += seen.queries;
            return self;
        }
        screened.asked = self.judged.as_ref().map(|judged| judged.symptom);
        let own = self.judged.as_ref().map(|judged| screen::clarity(library, &self.request.playbook, judged));
        let request = screen::with_time_left(self.asked, self.started, 1);
        let entered = screen::enter(library, prometheus, &request, exporters, &screened, own).await;
        let mut before = seen;
        match entered {
            Some((observed, Some((playbook, judged)))) => {
                before.add_trouble(&self.observed);
                self.request.playbook = playbook;
                self.observed = observed;
                self.judged = Some(judged);
                self.has_logs = false;
            }
            Some((observed, None)) => before.add_trouble(&observed),
            None => {}
        }
        match self.judged {
            Some(_) => self.observed.add_trouble(&before),
            None => self.observed = before,
        }
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
        Some(screened.told(self.library, self.asked, &self.request.playbook, self.judged.as_ref()))
    }

    /// Reads the logs, asks for the onsets, and puts everything into the answer.
    pub async fn finish(mut self) -> Diagnosis {
        let (library, prometheus, started) = (self.library, self.prometheus, self.started);
        let deadline = started + self.request.deadline.saturating_sub(RESERVE).max(RESERVE);
        self.read_logs(deadline).await;
        let request = &self.request;
        let away = self.observed.direct.as_ref().is_some_and(|direct| direct.because == Because::NoAnswer);
        if let Some(first) = self.judged.as_ref().filter(|_| !away) {
            let traced = onset::trace(library, prometheus, request, &mut self.observed, first, deadline);
            if traced.instrument(debug_span!("trace")).await {
                self.judged = judge(library, &request.playbook, &self.observed.seen);
            }
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
    let deadline = Instant::now() + request.deadline.saturating_sub(RESERVE).max(RESERVE);
    let ladder = ladder(request);
    let beginnings: Vec<Ask> = ladder.iter().map(|past| was_there(library, request, past)).collect();
    let mut observed = Observed { queries: 1 + batch::pack(&beginnings).len(), ..Observed::default() };
    let detection = detection(library);
    let present = batch::ask_all(prometheus, &beginnings, deadline);
    let (detected, present) = join(prometheus.query(&detection, request.at, deadline), present).await;
    match detected {
        Ok(rows) => {
            let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
            observed.found = read_detection(library, &request.scope, &rows);
        }
        Err(error) => {
            observed.degraded = error.is_unavailable();
            observed.problems.push(error.to_string());
        }
    }
    let found = &observed.found;
    let covered = |rows: &Answer| rows.as_ref().is_ok_and(|rows| was_present(library, found, rows));
    observed.found.past = ladder.iter().zip(&present).find(|(_, rows)| covered(rows)).map(|(past, _)| *past);
    let driven = against::wanted(library, needs);
    let needs = &against::with_sources(needs, &driven);
    let plan = plan_for(library, request, &observed.found, needs);
    let hours = against::hours(library, prometheus, request, &observed.found, &driven, deadline);
    let (answers, (hours, questions)) = join(batch::ask_all(prometheus, &plan.asks, deadline), hours).await;
    observed.queries += batch::pack(&plan.asks).len() + questions;
    observed.members = Members::of(library, &plan.asks, &answers);
    observed.seen.pool = observed.members.pool();
    observed.seen.places = observed.members.places();
    observed.degraded |= gather(library, &observed.members, &plan.asks, &answers, &mut observed.seen);
    against::put(&driven, &hours, &mut observed.seen);
    say_what_is_missing(&plan, &answers, &mut observed);
    observed
}

/// Asks whether the pool was there when a past began; of one moment, so that all of them travel together.
fn was_there(library: &Library, request: &Request, past: &Past) -> Ask {
    Ask {
        signal: String::new(),
        engine: String::new(),
        side: Side::Pool,
        query: presence(library, clock::between(past.begins(), request.at)),
        at: request.at,
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
