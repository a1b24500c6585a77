//! direct: reads engines and exporters directly if Prometheus is unavailable, stale, or lacks their series.
//!
//! Reads a few seconds apart, or saved ones, are series that the engines' queries are sent to. There is no past to compare
//! with.

mod discovery;
mod fill;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::future::{Either, join_all, select};
use tokio::sync::oneshot;

use crate::observe::answer_cache::AnswerCache;
use crate::observe::observe_needs;
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::observe::plan::{Needs, needs};
use crate::observe::read_pages::{PageReads, ReadOutcome, ReadPages, visits};
use fill::{PageAnswers, fill};
use findings::{DirectReadReason, ExporterTarget, Request};
use knowledge::playbook::Library;
use knowledge::signal::{Engine, EngineKind, MetricFilter, SignalQuery};
use prom::Prometheus;
use sources::exporter::{self, ExporterError, ExporterReader, TARGETS_MOST};

pub use discovery::{discover_exporters, identify, targets};

/// Pages that were saved before, or a benchmark's record of them.
#[derive(Debug, Clone)]
pub struct SavedPages {
    /// The name of the file, or of the address in it; it replaces the address of its target.
    pub name: String,
    /// The reads of one target.
    pub reads: PageReads,
}

/// Time between the two reads.
const READ_INTERVAL: Duration = Duration::from_secs(3);
/// Minimum time between the reads: over a shorter one, increases of counters mean nothing.
const MIN_READ_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum wait for Prometheus' targets if none are cached.
const LEARN_WITHIN: Duration = Duration::from_secs(2);
/// Divisor of the deadline: after this part of it, exporters are read without waiting for Prometheus.
const PATIENCE: u32 = 4;
/// Divisor of the deadline: this part of it is left, after the pages are read, to evaluate what they tell.
const EVALUATION: u32 = 4;

/// The exporters that may be read for a diagnosis.
#[derive(Debug)]
pub struct Exporters {
    /// The client.
    pub reader: ExporterReader,
    /// The known exporters.
    pub targets: Vec<ExporterTarget>,
    /// True if Prometheus is queried for its targets too, at the time of the diagnosis.
    pub learn: bool,
    /// True if they are read even where Prometheus has values, which are then replaced.
    pub fresh: bool,
    /// Pages that were saved before; a target with the address of one is not read.
    pub saved: Vec<SavedPages>,
}

impl Exporters {
    /// Returns the configured exporters, and those that are remembered of this Prometheus: without a memory they are
    /// learnt at the time of the diagnosis. There are none for alerts that no Prometheus is for: nobody knows which of
    /// them are this tenant's.
    pub fn known(
        config: &exporter::Config,
        reader: &ExporterReader,
        prometheus: &Prometheus,
        remembered: Option<Vec<ExporterTarget>>,
    ) -> Self {
        let is_known = !prometheus.is_unassigned();
        let learn = config.learn && is_known;
        let remembers = remembered.is_some();
        let remembered = remembered.into_iter().flatten().filter(|_| config.learn);
        let targets = config.given().chain(remembered).filter(|_| is_known).collect();
        Self { reader: reader.clone(), targets, learn: learn && !remembers, fresh: false, saved: Vec::new() }
    }
}

/// Names of engines whose signals Prometheus lacks.
type Blind = BTreeSet<String>;

/// Queries everything that the playbook may need, and reads exporters where Prometheus has no data; answers before the
/// deadline count.
pub async fn observe(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    exporters: Option<&Exporters>,
) -> ObserveResult {
    observe_needs_with_exporters(
        library,
        prometheus,
        request,
        &needs(library, &request.playbook),
        exporters,
        AnswerCache::default(),
    )
    .await
}

/// Runs [`observe`] for these needs, without the cached answers; the request's playbook is ignored.
pub(super) async fn observe_needs_with_exporters(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    needs: &Needs<'_>,
    exporters: Option<&Exporters>,
    cache: AnswerCache,
) -> ObserveResult {
    let Some(exporters) = exporters else {
        return Box::pin(observe_needs(library, prometheus, request, needs, cache)).await;
    };
    let deadline = Instant::now() + request.deadline.saturating_sub(RESERVE).max(RESERVE);
    let reading_until = deadline - request.deadline / EVALUATION;
    let known = cache.pages.clone();
    let (report_blind, blind_report) = oneshot::channel::<Blind>();
    let page_reads = async {
        let patience = if exporters.fresh { Duration::ZERO } else { request.deadline / PATIENCE };
        let blind = match tokio::time::timeout(patience, blind_report).await {
            Ok(Ok(blind)) => blind,
            _ => readable(library).map(|(engine, _)| engine.engine.clone()).collect(),
        };
        let pages = match known {
            Some(pages) => pages,
            None => Arc::new(visit_all(library, prometheus, request, exporters, &blind, reading_until).await),
        };
        PageAnswers::of(library, request, needs, pages, deadline).await
    };
    let asking = Box::pin(observe_needs(library, prometheus, request, needs, cache));
    let page_reads = Box::pin(page_reads);
    let (mut observed, told) = match select(asking, page_reads).await {
        Either::Left((observed, page_reads)) => {
            let blind = blind(library, needs, &observed);
            if blind.is_empty() && !exporters.fresh {
                return observed;
            }
            // The reads may have begun without waiting; the message is then ignored.
            let _ = report_blind.send(blind);
            (observed, page_reads.await)
        }
        Either::Right((told, asking)) => (asking.await, told),
    };
    let blind = blind(library, needs, &observed);
    if told.pages.outcomes.is_empty() || (blind.is_empty() && !exporters.fresh) {
        return observed;
    }
    let because = match (exporters.fresh, observed.degraded) {
        _ if prometheus.is_absent() => DirectReadReason::NoPrometheus,
        (true, _) => DirectReadReason::Asked,
        (false, true) if observed.detection.engines.is_empty() => DirectReadReason::NoAnswer,
        (false, true) => DirectReadReason::InPart,
        (false, false) => DirectReadReason::NoValues,
    };
    let visits = visits(library, &told.pages.outcomes);
    let late = fill(library, needs, (&told, &visits), because, &mut observed);
    if visits.iter().any(|visit| visit.engine.kind.is_pool() && visit.outcome.is_ok()) {
        // What an engine that was read could tell by its page, or never tells, is not there; the rest only a Prometheus tells.
        let of_engines = |name: &str| {
            let answered = visits.iter().filter(|visit| visit.outcome.is_ok());
            let told = |entry: &SignalQuery| entry.query.is_some() || entry.unsupported.is_some();
            prometheus.is_absent() || answered.filter_map(|visit| visit.engine.signals.get(name)).any(told)
        };
        let told = observed.observations.signals.iter_mut().filter(|(name, _)| of_engines(name));
        told.for_each(|(_, o)| o.away = false);
    }
    if prometheus.is_absent() {
        // Nothing is late where nothing was asked: what pages do not tell is "no data", signal by signal.
        observed.degraded = visits.iter().any(|visit| visit.outcome.is_err());
    }
    observed.degraded |= late;
    observed.cache.pages = Some(Arc::clone(&told.pages));
    observed
}

/// Returns the engines whose pages are read, with the names of their signals. An orchestrator's page is of a whole cluster.
fn readable(library: &Library) -> impl Iterator<Item = (&Engine, Vec<&str>)> {
    library.engines.values().filter(|engine| is_readable(engine)).map(|engine| {
        let told = engine.signals.iter().filter(|(_, signal)| signal.query.is_some());
        (engine, told.map(|(name, _)| name.as_str()).collect())
    })
}

fn is_readable(engine: &Engine) -> bool {
    match engine.kind {
        EngineKind::Serving | EngineKind::Gateway | EngineKind::Gpu => true,
        EngineKind::Platform | EngineKind::Log => false,
    }
}

/// Returns the engines without a value for any needed signal; if Prometheus was unavailable, those with a missing one.
fn blind(library: &Library, needs: &Needs<'_>, observed: &ObserveResult) -> Blind {
    let lacks_value = |signal: &str| {
        observed.observations.signals.get(signal).is_none_or(|o| o.value.is_none() && o.replicas.is_empty())
    };
    readable(library)
        .filter(|(_, names)| {
            let mut needed = names.iter().filter(|name| needs.contains_key(**name)).peekable();
            needed.peek().is_some()
                && if observed.degraded {
                    needed.any(|name| lacks_value(name))
                } else {
                    needed.all(|name| lacks_value(name))
                }
        })
        .map(|(engine, _)| engine.engine.clone())
        .collect()
}

/// Returns true if a target's labels contradict the request's pool; a GPU exporter serves every pool of its node.
fn outside(request: &Request, engine: &Engine, target: &ExporterTarget) -> bool {
    let dimensions = request.scope.dimensions.iter().filter(|(dimension, _)| *dimension != "job");
    engine.kind == EngineKind::Serving
        && dimensions.into_iter().any(|(dimension, value)| {
            let mut labels = engine.scope.get(dimension).into_iter().flatten();
            labels.any(|label| target.labels.get(label).is_some_and(|own| own != value))
        })
}

async fn visit_all(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    exporters: &Exporters,
    blind: &Blind,
    deadline: Instant,
) -> ReadPages {
    let mut targets: Vec<(&Engine, ExporterTarget)> = Vec::new();
    let mut add = |more: Vec<ExporterTarget>| {
        for target in more {
            let Some(engine) = library.engines.get(&target.engine) else { continue };
            let is_listed = targets.iter().any(|(_, t)| t.url == target.url && t.engine == target.engine);
            if !is_listed && !outside(request, engine, &target) {
                targets.push((engine, target));
            }
        }
    };
    add(exporters.targets.clone());
    if exporters.learn {
        let until = deadline.min(Instant::now() + LEARN_WITHIN);
        // If that fails, the diagnosis reports that Prometheus is unavailable anyway.
        add(discover_exporters(library, prometheus, request.at, until).await.unwrap_or_default());
    }
    if !exporters.fresh && !targets.iter().any(|(engine, _)| blind.contains(&engine.engine)) {
        return ReadPages::of(library, request, Vec::new(), 0);
    }
    // Engines first: they show which pods are meant.
    targets.sort_by_key(|(engine, target)| (!engine.kind.is_pool(), target.name()));
    let left_out = targets.len().saturating_sub(TARGETS_MOST);
    targets.truncate(TARGETS_MOST);
    // Made once for all targets of an engine, and only if one is not saved: it takes long.
    let filters: BTreeMap<_, OnceLock<MetricFilter>> =
        targets.iter().map(|(engine, _)| (engine.engine.as_str(), OnceLock::new())).collect();
    let filters = &filters;
    let outcomes = targets.into_iter().map(|(engine, target)| async move {
        let filter = || filters[engine.engine.as_str()].get_or_init(|| MetricFilter::of(engine));
        let outcome = visit(exporters, engine, filter, &target, deadline).await;
        (target, outcome)
    });
    ReadPages::of(library, request, join_all(outcomes).await, left_out)
}

async fn visit<'f>(
    exporters: &Exporters,
    engine: &Engine,
    filter: impl FnOnce() -> &'f MetricFilter,
    target: &ExporterTarget,
    deadline: Instant,
) -> ReadOutcome {
    let reads = match exporters.saved.iter().find(|saved| saved.name == target.url) {
        Some(saved) => saved.reads.attached(target),
        None => {
            let filter = filter();
            twice(&exporters.reader, target, |name| filter.has(name), deadline).await?
        }
    };
    if reads.labels_of(engine.detected_by()).is_empty() {
        let why = format!("there is no series `{}`, so it is no {}", engine.detect, engine.engine);
        return Err(ExporterError::NotMetrics(why));
    }
    Ok(reads)
}

async fn twice(
    reader: &ExporterReader,
    target: &ExporterTarget,
    is_needed: impl Fn(&str) -> bool,
    deadline: Instant,
) -> Result<PageReads, ExporterError> {
    let mut reads = PageReads::default();
    let (first, begun) = reader.read(target, &is_needed, deadline).await?;
    reads.add(0, first);
    // Half of the remaining time is for the second read.
    let pause = READ_INTERVAL.min(deadline.saturating_duration_since(Instant::now()) / 2);
    if pause >= MIN_READ_INTERVAL {
        tokio::time::sleep(pause).await;
        // A process that ends between the reads has still reported its gauges.
        if let Ok((samples, at)) = reader.read(target, &is_needed, deadline).await {
            reads.add(i64::try_from(at.duration_since(begun).as_millis()).unwrap_or(i64::MAX / 4), samples);
        }
    }
    Ok(reads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::steps::tests::request;
    use detect::read_detection;
    use knowledge::alert::Labels;
    use knowledge::playbook::load;
    use sources::exporter::Sample;

    fn sample(name: &str, labels: &[(&str, &str)]) -> Sample {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Sample { name: name.to_owned(), labels, value: 1.0 }
    }

    #[test]
    fn a_page_that_names_what_is_behind_a_gateway_makes_it_the_pools() {
        let library = load(None).unwrap();
        let visit = |engine: &str, first: Vec<Sample>| {
            let mut reads = PageReads::default();
            reads.add(0, first);
            let (engine, labels) = (engine.to_owned(), Labels::new());
            (ExporterTarget { engine, url: String::new(), labels, seen: None }, Ok(reads))
        };
        let at = [("namespace", "llm"), ("model_name", "a"), ("instance", "10.0.0.7:8000")];
        for (base, named) in [("http://10.0.0.7:8000/v1", true), ("http://10.0.0.8:8000/v1", false)] {
            let total = sample("litellm_proxy_total_requests_metric_total", &[("requested_model", "chat")]);
            let of = [("requested_model", "chat"), ("api_base", base)];
            let behind = sample("litellm_deployment_total_requests_total", &of);
            let visits = vec![
                visit("vllm", vec![sample("vllm:num_requests_running", &at)]),
                visit("litellm", vec![total, behind]),
            ];
            let request = request(&[("namespace", "llm"), ("model", "a")]);
            let pages = ReadPages::of(&library, &request, visits, 0);
            let detection = read_detection(&library, &request.scope, &pages.detected);
            assert_eq!(detection.engines.iter().any(|seen| seen.engine == "litellm"), named, "{base}");
        }
    }

    #[tokio::test]
    async fn what_pages_do_not_tell_before_the_deadline_is_late_and_no_lack_of_data() {
        let library = load(None).unwrap();
        let mut reads = PageReads::default();
        reads.add(0, vec![sample("vllm:num_requests_running", &[("instance", "a:8000")])]);
        let (engine, url, labels) = ("vllm".to_owned(), String::new(), Labels::new());
        let outcomes = vec![(ExporterTarget { engine, url, labels, seen: None }, Ok(reads))];
        let (request, needs) = (request(&[]), needs(&library, "queue-buildup"));
        let pages = Arc::new(ReadPages::of(&library, &request, outcomes, 0));
        for (time, late) in [(Duration::ZERO, true), (Duration::from_secs(60), false)] {
            let mut observed = ObserveResult::default();
            let (pages, until) = (Arc::clone(&pages), Instant::now() + time);
            let told = PageAnswers::of(&library, &request, &needs, pages, until).await;
            let told = (&told, &visits(&library, &told.pages.outcomes)[..]);
            assert_eq!(fill(&library, &needs, told, DirectReadReason::NoPrometheus, &mut observed), late);
            let running = &observed.observations.signals["requests_running"];
            assert_eq!((running.late, running.value), if late { (true, None) } else { (false, Some(1.0)) });
        }
    }
}
