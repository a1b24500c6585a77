//! The report's numbers: each signal once over each window, computed as in a diagnosis.

use std::collections::BTreeMap;

use futures::future::{OptionFuture, join3};

use super::bounds::bounds;
use super::context::{FactQueryContext, sentence};
use super::{FAILED, end_and_length};
use diagnose::{ObserveResult, observe_signals};
use findings::Observation;
use findings::facts::{Measured, Window};
use knowledge::gap::{Gap, GapReason, missing_part};
use knowledge::playbook::Library;

/// The measured numbers.
#[derive(Debug, Default)]
pub(super) struct MeasuredFacts {
    pub(super) metrics: Vec<Measured>,
    pub(super) load: Vec<Measured>,
    pub(super) missing: Vec<Gap>,
}

/// Queries every signal of `report.yaml` over each window.
pub(super) async fn measured(context: FactQueryContext<'_>) -> MeasuredFacts {
    let FactQueryContext { library, windows, .. } = context;
    let names = library.report.all();
    // Boxed, because the future is large.
    let over = |window: Window| Box::pin(over(context, &names, window));
    let after = OptionFuture::from(windows.after.map(over));
    let (before, during, after) = join3(over(windows.before), over(windows.during), after).await;
    let queries = during.observations.signals.iter().filter_map(|(name, o)| Some((name.as_str(), o.query.as_deref()?)));
    let bounds = bounds(context, &queries.collect()).await;
    let observations = Observations { before, during, after, bounds };
    let read = |list: &[String]| list.iter().filter_map(|name| observations.read(library, name)).collect::<Vec<_>>();
    let (metrics, load) = (read(&library.report.metrics), read(&library.report.load));
    let missing = missing(metrics.iter().chain(&load), &observations.during);
    MeasuredFacts { metrics, load, missing }
}

async fn over(context: FactQueryContext<'_>, names: &[&str], window: Window) -> ObserveResult {
    let FactQueryContext { library, prometheus, request, deadline, .. } = context;
    let (at, length) = end_and_length(window);
    let time_left = deadline.saturating_duration_since(std::time::Instant::now());
    let mut observed = observe_signals(library, prometheus, &request.scope, names, at, length, time_left).await;
    // If Prometheus answered nothing, the reason is its error and not a missing exporter.
    if let Some(failure) = detection_failure(&observed) {
        for o in observed.observations.signals.values_mut() {
            (o.why, o.enable) = (Some(failure.clone()), None);
        }
    }
    // A number of a part of the replicas cannot stand beside one of all of them.
    for o in observed.observations.signals.values_mut() {
        if let Some(said) = &o.incomplete {
            (o.value, o.why, o.enable) = (None, Some(missing_part(said)), None);
        }
    }
    observed
}

struct Observations {
    before: ObserveResult,
    during: ObserveResult,
    after: Option<ObserveResult>,
    bounds: BTreeMap<String, Vec<f64>>,
}

impl Observations {
    fn read(&self, library: &Library, name: &str) -> Option<Measured> {
        let signal = library.signals.get(name)?;
        let of = |observed: &ObserveResult| observed.observations.signals.get(name).cloned().unwrap_or_default();
        let (before, during) = (of(&self.before), of(&self.during));
        let after = self.after.as_ref().map(of);
        let windows = [("before", Some(&before)), ("during", Some(&during)), ("after", after.as_ref())];
        let lacking: Vec<(&str, &Observation)> =
            windows.into_iter().filter_map(|(when, o)| Some((when, o?))).filter(|(_, o)| o.value.is_none()).collect();
        let window_count = 2 + usize::from(after.is_some());
        let why = match lacking.as_slice() {
            [] => None,
            all if all.len() == window_count => Some(reason(&during)),
            some => Some(some.iter().map(|(when, o)| format!("{when}: {}", reason(o))).collect::<Vec<_>>().join("; ")),
        };
        Some(Measured {
            signal: name.to_owned(),
            title: signal.title.clone(),
            unit: signal.unit,
            before: before.value,
            during: during.value,
            after: after.and_then(|o| o.value),
            bounds: self.bounds.get(name).cloned().unwrap_or_default(),
            query: during.query,
            why,
        })
    }
}

/// Returns the error if no engine was found because of it.
fn detection_failure(observed: &ObserveResult) -> Option<String> {
    let problem = observed.problems.first().filter(|_| observed.detection.engines.is_empty())?;
    Some(format!("{FAILED}{problem}"))
}

fn reason(o: &Observation) -> String {
    sentence(o.why.as_deref().unwrap_or("no series"), o.enable.as_deref())
}

/// Returns the numbers without a value in any window, grouped by the text of the reason and its kind.
fn missing<'a>(all: impl Iterator<Item = &'a Measured>, during: &ObserveResult) -> Vec<Gap> {
    // Without an engine in the window, the error of the detection is the reason of every number.
    let all_failed = detection_failure(during).is_some();
    let in_missing_part = |name: &str| during.observations.signals.get(name).is_some_and(|o| o.incomplete.is_some());
    let mut by_reason: BTreeMap<(&str, bool), Vec<&str>> = BTreeMap::new();
    for m in all.filter(|m| m.before.is_none() && m.during.is_none() && m.after.is_none()) {
        let failed = all_failed || in_missing_part(&m.signal);
        by_reason.entry((m.why.as_deref().unwrap_or_default(), failed)).or_default().push(&m.title);
    }
    let gap = |((why, failed), titles): ((&str, bool), Vec<&str>)| {
        let reason = if failed { GapReason::Failed } else { GapReason::Absent };
        Gap::new(titles.join(", "), reason(why.to_owned()))
    };
    by_reason.into_iter().map(gap).collect()
}
