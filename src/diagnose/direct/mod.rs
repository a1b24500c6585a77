//! direct: reads engines and exporters directly if Prometheus is unavailable, stale, or lacks their series.
//!
//! Two reads a few seconds apart: gauges are their mean, counters their difference. There is no past to compare with.

mod discovery;
mod pages;
mod saved;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::{Either, join_all, select};
use tokio::sync::oneshot;

use crate::Request;
use crate::detect::detection::names_behind;
use crate::detect::detection_result::DetectionResult;
use crate::detect::read_detection::read_detection;
use crate::observe::answer_cache::AnswerCache;
use crate::observe::gather::{merge, name};
use crate::observe::observation::{ValueSource, reduce};
use crate::observe::observe_needs;
use crate::observe::observe_result::{ObserveResult, RESERVE};
use crate::observe::plan::{Needs, engines_reporting, needs, tier};
use crate::output::direct_read::{DirectRead, DirectReadReason, ExporterRemark};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::signal::{Engine, EngineKind, Selector, SignalQuery};
use pages::{MetricsPages, PageRead, Reading, contradicts};
use sources::exporter::{ExporterError, ExporterReader, ExporterTarget, Sample, TARGETS_MOST};
use sources::prom::Prometheus;

pub use discovery::{Identified, discover_exporters, identify, targets};
pub use saved::SavedPages;

/// Time between the two reads.
const READ_INTERVAL: Duration = Duration::from_secs(3);
/// Minimum time between the reads: over a shorter one, increases of counters mean nothing.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(800);
/// Maximum wait for Prometheus' targets if none are cached.
const LEARN_WITHIN: Duration = Duration::from_secs(2);
/// Divisor of the deadline: after this part of it, exporters are read without waiting for Prometheus.
const PATIENCE: u32 = 4;

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

/// Names of engines whose signals Prometheus lacks.
type Blind = BTreeSet<String>;

/// Runs [`observe`](super::observe()), and reads exporters where Prometheus has no data.
pub async fn observe_with_exporters(
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

/// Runs [`observe_with_exporters`] for these needs, without the cached answers; the request's playbook is ignored.
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
    let (report_blind, blind_report) = oneshot::channel::<Blind>();
    let page_reads = async {
        let patience = if exporters.fresh { Duration::ZERO } else { request.deadline / PATIENCE };
        let blind = match tokio::time::timeout(patience, blind_report).await {
            Ok(Ok(blind)) => blind,
            _ => forms(library).map(|(engine, _)| engine.engine.clone()).collect(),
        };
        visit_all(library, prometheus, request, exporters, &blind, deadline).await
    };
    let asking = Box::pin(observe_needs(library, prometheus, request, needs, cache));
    let page_reads = Box::pin(page_reads);
    let (mut observed, (visits, left_out)) = match select(asking, page_reads).await {
        Either::Left((observed, page_reads)) => {
            let blind = blind(library, needs, &observed);
            if blind.is_empty() && !exporters.fresh {
                return observed;
            }
            // The reads may have begun without waiting; the message is then ignored.
            let _ = report_blind.send(blind);
            (observed, page_reads.await)
        }
        Either::Right((visits, asking)) => (asking.await, visits),
    };
    let blind = blind(library, needs, &observed);
    if visits.is_empty() || (blind.is_empty() && !exporters.fresh) {
        return observed;
    }
    let because = match (exporters.fresh, observed.degraded) {
        _ if prometheus.is_absent() => DirectReadReason::NoPrometheus,
        (true, _) => DirectReadReason::Asked,
        (false, true) if observed.detection.engines.is_empty() => DirectReadReason::NoAnswer,
        (false, true) => DirectReadReason::InPart,
        (false, false) => DirectReadReason::NoValues,
    };
    fill(library, request, needs, &visits, because, left_out, &mut observed);
    if visits.iter().any(|visit| visit.engine.kind == EngineKind::Serving && visit.outcome.is_ok()) {
        // What an engine that was read could tell by its page, or never tells, is not there; the rest only a Prometheus tells.
        let of_engines = |name: &str| {
            let answered = visits.iter().filter(|visit| visit.outcome.is_ok());
            let told = |entry: &SignalQuery| entry.direct.is_some() || entry.unsupported.is_some();
            prometheus.is_absent() || answered.filter_map(|visit| visit.engine.signals.get(name)).any(told)
        };
        let told = observed.observations.signals.iter_mut().filter(|(name, _)| of_engines(name));
        told.for_each(|(_, o)| o.away = false);
    }
    if prometheus.is_absent() {
        // Nothing is late where nothing was asked: what pages do not tell is "no data", signal by signal.
        observed.degraded = visits.iter().any(|visit| visit.outcome.is_err());
    }
    observed
}

/// Returns the engines with signals that can be read directly.
fn forms(library: &Library) -> impl Iterator<Item = (&Engine, Vec<&str>)> {
    library.engines.values().filter_map(|engine| {
        let names: Vec<&str> =
            engine.signals.iter().filter(|(_, s)| s.direct.is_some()).map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then_some((engine, names))
    })
}

/// Returns the engines without a value for any needed signal; if Prometheus was unavailable, those with a missing one.
fn blind(library: &Library, needs: &Needs<'_>, observed: &ObserveResult) -> Blind {
    let lacks_value = |signal: &str| {
        observed.observations.signals.get(signal).is_none_or(|o| o.value.is_none() && o.replicas.is_empty())
    };
    forms(library)
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

async fn visit_all<'a>(
    library: &'a Library,
    prometheus: &Prometheus,
    request: &Request,
    exporters: &Exporters,
    blind: &Blind,
    deadline: Instant,
) -> (Vec<PageRead<'a>>, usize) {
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
        return (Vec::new(), 0);
    }
    // Engines first: they show which pods are meant.
    targets.sort_by_key(|(engine, target)| (!engine.kind.is_pool(), target.name()));
    let left_out = targets.len().saturating_sub(TARGETS_MOST);
    targets.truncate(TARGETS_MOST);
    let visits = targets.into_iter().map(|(engine, target)| visit(exporters, engine, target, deadline));
    (join_all(visits).await, left_out)
}

async fn visit<'a>(
    exporters: &Exporters,
    engine: &'a Engine,
    target: ExporterTarget,
    deadline: Instant,
) -> PageRead<'a> {
    let selectors: Vec<Selector> = engine
        .signals
        .values()
        .filter_map(|signal| signal.direct.as_ref())
        .flat_map(|form| form.selectors())
        .filter_map(|text| Selector::parse(text).ok())
        .collect();
    let probes = engine.versions.iter().map(|probe| probe.metric.as_str()).chain(engine.detection_series());
    let probes = probes.flat_map(|name| engine.spellings(name)).map(|(_, name)| name);
    let probes: BTreeSet<String> = probes.chain(behind(engine)).collect();
    let is_known = |name: &str| probes.contains(name) || selectors.iter().any(|s| s.names(name));
    let written = |name: &str| engine.as_written(name).find(|written| is_known(written));
    let is_needed = |name: &str| is_known(name) || written(name).is_some();
    let mut outcome = match exporters.saved.iter().find(|saved| saved.name == target.url) {
        Some(saved) => saved.pages(&target, is_needed),
        None => twice(&exporters.reader, &target, is_needed, deadline).await,
    };
    // The forms spell names with the first prefix.
    for sample in outcome.iter_mut().flat_map(MetricsPages::samples_mut) {
        if let Some(name) = written(&sample.name) {
            sample.name = name;
        }
    }
    let anew = outcome.as_ref().is_ok_and(MetricsPages::anew);
    let mut visit = PageRead { target, engine, outcome, anew };
    if visit.outcome.is_ok() && visit.detection_samples().next().is_none() {
        let why = format!("there is no series `{}`, so it is no {}", engine.detect, engine.engine);
        visit.outcome = Err(ExporterError::NotMetrics(why));
    }
    visit
}

async fn twice(
    reader: &ExporterReader,
    target: &ExporterTarget,
    is_needed: impl Fn(&str) -> bool,
    deadline: Instant,
) -> Result<MetricsPages, ExporterError> {
    let (first, begun) = reader.read(target, &is_needed, deadline).await?;
    // Half of the remaining time is for the second read.
    let pause = READ_INTERVAL.min(deadline.saturating_duration_since(Instant::now()) / 2);
    let mut second = None;
    if pause >= MIN_READ_INTERVAL {
        tokio::time::sleep(pause).await;
        // A process that ends between the reads has still reported its gauges.
        let second_read = reader.read(target, &is_needed, deadline).await.ok();
        second = second_read.map(|(samples, at)| (samples, at.duration_since(begun).as_secs_f64()));
    }
    Ok(MetricsPages { first, second })
}

/// Adds the pages' values where Prometheus has none.
fn fill(
    library: &Library,
    request: &Request,
    needs: &Needs<'_>,
    visits: &[PageRead<'_>],
    because: DirectReadReason,
    left_out: usize,
    observed: &mut ObserveResult,
) {
    let detection = detected(library, request, visits);
    // An engine that answered may turn out to serve another pool.
    let serves_other_pool = |v: &PageRead<'_>| {
        let engine_seen = detection.engines.iter().find(|engine_seen| engine_seen.engine == v.engine.engine);
        engine_seen.is_some_and(|engine_seen| {
            v.detection_samples().next().is_some()
                && v.detection_samples().all(|s| contradicts(&engine_seen.matchers, &s.labels))
        })
    };
    let serving: Vec<&PageRead<'_>> =
        visits.iter().filter(|v| v.engine.kind == EngineKind::Serving && !serves_other_pool(v)).collect();
    let pods: Vec<String> = observed.observations.pool.iter().filter(|name| !name.contains(':')).cloned().collect();
    let own = serving.iter().filter_map(|v| v.target.labels.get("pod").map(String::as_str));
    let members = observed.members.clone().with_pods(own.map(str::to_owned).chain(pods));
    let mut remarks = BTreeSet::new();
    for signal in needs.keys().copied() {
        let Some(definition) = library.signals.get(signal) else { continue };
        let o = observed.observations.signals.entry(signal.to_owned()).or_default();
        if because != DirectReadReason::Asked && (o.value.is_some() || !o.replicas.is_empty()) {
            continue;
        }
        let (mut rows, mut pool, mut tier_with_data) = (Vec::new(), None, None);
        for engine in engines_reporting(library, signal) {
            // Values of two engines for the same requests do not add up.
            let tier = tier(library, signal, engine);
            if tier_with_data.is_some_and(|best| best < tier) {
                break;
            }
            let Some(form) = engine.signals.get(signal).and_then(|s| s.direct.as_ref()) else { continue };
            let visits = visits.iter().filter(|v| v.engine.engine == engine.engine).collect();
            let engine_seen = detection.engines.iter().find(|engine_seen| engine_seen.engine == engine.engine);
            let values = Reading { engine, engine_seen, visits, members: &members, at: request.at }.values(form);
            if !values.rows.is_empty() || values.pool.is_some() {
                tier_with_data = Some(tier);
            }
            rows.extend(values.rows);
            pool = pool.or(values.pool);
            let remark =
                |(exporter, metric)| ExporterRemark { exporter, what: format!("has no usable number in `{metric}`") };
            remarks.extend(values.unusable.into_iter().map(remark));
        }
        let mut replicas = Vec::new();
        merge(&mut replicas, rows.into_iter(), definition.fleet);
        if let Some(value) = reduce(definition.fleet, replicas.iter().map(|r| r.value)).or(pool) {
            (o.value, o.replicas, o.source) = (Some(value), replicas, ValueSource::Exporter);
            (o.answered, o.why) = (true, None);
        }
    }
    for visit in visits {
        let remark = match &visit.outcome {
            Err(error) => error.to_string(),
            Ok(_) if visit.anew => "started anew between the two reads, so its counters tell nothing".to_owned(),
            Ok(pages) if pages.second.is_none() => "was read only once, so its counters tell nothing".to_owned(),
            Ok(_) => continue,
        };
        remarks.insert(ExporterRemark { exporter: visit.target.name(), what: remark });
    }
    if observed.observations.pool.is_empty() {
        let names: BTreeSet<String> = serving.iter().filter_map(|v| name(v.engine, &v.target.labels)).collect();
        observed.observations.pool = names.into_iter().collect();
    }
    for engine_seen in detection.engines {
        if !observed.detection.engines.iter().any(|engine| engine.engine == engine_seen.engine) {
            observed.detection.engines.push(engine_seen);
            observed.detection.notes.extend(detection.notes.iter().cloned());
        }
    }
    observed.detection.notes.sort();
    observed.detection.notes.dedup();
    let count = |serving: bool, answered: bool| {
        let of_kind = visits.iter().filter(|v| (v.engine.kind == EngineKind::Serving) == serving);
        of_kind.filter(|v| !answered || v.outcome.is_ok()).count()
    };
    observed.direct = Some(DirectRead {
        because,
        engines: count(true, true),
        engines_known: count(true, false),
        gpu_exporters: count(false, true),
        gpu_exporters_known: count(false, false),
        left_out,
        remarks: remarks.into_iter().collect(),
    });
}

/// Returns the series that name the engines behind a gateway.
fn behind(engine: &Engine) -> impl Iterator<Item = String> {
    engine.backends.iter().flat_map(|of| names_behind(engine, of))
}

/// Detects the engines that answered, and the scope's labels on their series.
fn detected(library: &Library, request: &Request, visits: &[PageRead<'_>]) -> DetectionResult {
    let rows: Vec<Labels> = visits
        .iter()
        .filter_map(|visit| Some((visit, visit.outcome.as_ref().ok()?)))
        .flat_map(|(visit, pages)| {
            let versions = visit.engine.versions.iter().map(|probe| probe.metric.clone());
            let probes: BTreeSet<String> = versions.chain(behind(visit.engine)).collect();
            let probing = pages.latest().iter().filter(move |s| probes.contains(&s.name));
            visit.detection_samples().chain(probing).map(|Sample { name, labels, .. }| {
                let mut labels = labels.clone();
                labels.insert("__name__".to_owned(), name.clone());
                labels
            })
        })
        .collect();
    read_detection(library, &request.scope, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Baseline, Scope};
    use knowledge::playbook::load;

    fn sample(name: &str, labels: &[(&str, &str)]) -> Sample {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Sample { name: name.to_owned(), labels, value: 1.0 }
    }

    #[test]
    fn a_page_that_names_what_is_behind_a_gateway_makes_it_the_pools() {
        let library = load(None).unwrap();
        let visit = |engine: &str, first: Vec<Sample>| {
            let engine = &library.engines[engine];
            let target =
                ExporterTarget { engine: engine.engine.clone(), url: String::new(), labels: Labels::new(), seen: None };
            PageRead { target, engine, outcome: Ok(MetricsPages { first, second: None }), anew: false }
        };
        let at = [("namespace", "llm"), ("model_name", "a"), ("instance", "10.0.0.7:8000")];
        for (base, named) in [("http://10.0.0.7:8000/v1", true), ("http://10.0.0.8:8000/v1", false)] {
            let total = sample("litellm_proxy_total_requests_metric_total", &[("requested_model", "chat")]);
            let of = [("requested_model", "chat"), ("api_base", base)];
            let behind = sample("litellm_deployment_total_requests_total", &of);
            let visits =
                [visit("vllm", vec![sample("vllm:num_requests_running", &at)]), visit("litellm", vec![total, behind])];
            let dimensions = [("namespace", "llm"), ("model", "a")].map(|(k, v)| (k.to_owned(), v.to_owned()));
            let request = Request {
                screen: false,
                rules: Vec::new(),
                playbook: String::new(),
                scope: Scope { dimensions: dimensions.into(), ..Scope::default() },
                at: jiff::Timestamp::UNIX_EPOCH,
                since: None,
                window: Duration::from_secs(300),
                baseline: Baseline::Off,
                deadline: Duration::from_secs(1),
            };
            let detection = detected(&library, &request, &visits);
            assert_eq!(detection.engines.iter().any(|seen| seen.engine == "litellm"), named, "{base}");
        }
    }
}
