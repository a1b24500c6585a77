//! `doctor`'s check of `slo:`: the engines' histograms have buckets up to the configured times.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{CALL, Findings};
use knowledge::playbook::Library;
use knowledge::signal::{Buckets, Engine, Fill, Term, fill};
use prom::{Prometheus, Row};
use service::check::Level;

/// The dimensions that identify a pool.
const POOL: [&str; 3] = ["cluster", "namespace", "model"];

/// Reports configured times above the largest bucket of the histogram that they are evaluated with.
pub(super) async fn check(
    findings: &mut Findings,
    name: &str,
    client: &Prometheus,
    library: &Library,
    at: Timestamp,
    window: Duration,
) {
    if !library.promised.iter().any(|pools| pools.slo.promises_something()) {
        return;
    }
    let name = format!("{name} promises");
    let (mut has_histogram, mut violations) = (false, 0);
    let promised = |term: Term| {
        let mut promises = library.promised.iter().filter_map(|pools| pools.slo.promise(term));
        promises.any(|promise| promise.within_seconds.is_some())
    };
    for engine in library.engines.values() {
        for (buckets, term) in histograms(library, engine).into_iter().filter(|(_, term)| promised(*term)) {
            let by: Vec<String> = labels(engine).map(|(_, label)| label.to_owned()).collect();
            let prefix = engine.prefixes.first().map(|written| (written.as_str(), engine.prefixes.as_slice()));
            let arguments = Fill { window, by: &by, prefix, ..Fill::default() };
            let query = fill(&format!("group by (le, $by) ({})", buckets.rate), &arguments);
            let rows = match client.query(&query, at, Instant::now() + CALL).await {
                Ok(rows) => rows,
                Err(error) => {
                    let todo = "see that Prometheus answers queries in time";
                    return findings.say(&name, Level::Fail, error.to_string(), todo);
                }
            };
            has_histogram |= !rows.is_empty();
            let short = too_short(library, engine, term, buckets.scale, &rows);
            violations += short.len();
            let more = short.len().saturating_sub(1);
            let Some(Short { pool, within, largest }) = short.into_iter().next() else { continue };
            let more = if more > 0 { format!(" (and {more} more like it)") } else { String::new() };
            findings.say(
                &name,
                Level::Warn,
                format!(
                    "{pool}{more}: {} is promised within {within} s, but the largest bucket of {} ends at {largest} s, \
                     so longer times cannot be told apart",
                    term_name(term),
                    engine.engine
                ),
                &format!(
                    "promise {largest} s or less under `slo:`, or configure larger buckets \
                     (SGLang: `--bucket-time-to-first-token` and similar flags)"
                ),
            );
        }
    }
    match (violations, has_histogram) {
        (0, true) => findings.ok(&name, "every promised time is within the engines' buckets".to_owned()),
        (0, false) => findings.ok(&name, "no histogram was found that judges a promised time".to_owned()),
        _ => {}
    }
}

/// A pool whose configured time is above the largest bucket of its histogram.
#[derive(Debug, PartialEq)]
struct Short {
    pool: String,
    /// The promised time, in seconds.
    within: f64,
    /// The largest finite bucket bound, in seconds.
    largest: f64,
}

/// Returns the histograms of an engine that objectives are evaluated with, each once.
fn histograms<'a>(library: &Library, engine: &'a Engine) -> Vec<(Buckets<'a>, Term)> {
    let mut histograms: Vec<(Buckets<'_>, Term)> = Vec::new();
    for burn in library.signals.values().filter_map(|signal| signal.burn.as_ref()) {
        let query = engine.signals.get(&burn.of).and_then(|entry| entry.query.as_deref());
        let (Some(term), Some(buckets)) = (burn.term, query.and_then(Buckets::of)) else { continue };
        if !histograms.iter().any(|(listed, _)| listed.rate == buckets.rate) {
            histograms.push((buckets, term));
        }
    }
    histograms
}

/// Returns the labels with which an engine's series may name their pool, each with its dimension.
fn labels(engine: &Engine) -> impl Iterator<Item = (&'static str, &str)> {
    POOL.iter().flat_map(|dimension| {
        engine.scope.get(*dimension).into_iter().flatten().map(|label| (*dimension, label.as_str()))
    })
}

/// Returns the pools whose configured time is above the largest of these bounds.
fn too_short(library: &Library, engine: &Engine, term: Term, scale: f64, rows: &[Row]) -> Vec<Short> {
    let mut largest: BTreeMap<BTreeMap<String, String>, f64> = BTreeMap::new();
    for row in rows {
        let bound = row.labels.get("le").and_then(|le| le.parse::<f64>().ok()).filter(|le| le.is_finite());
        let Some(bound) = bound else { continue };
        let label =
            |dimension: &&str| Some(((*dimension).to_owned(), engine.dimension_value(dimension, &row.labels)?.clone()));
        let most = largest.entry(POOL.iter().filter_map(label).collect()).or_insert(bound);
        *most = most.max(bound);
    }
    let short = largest.into_iter().filter_map(|(pool, bound)| {
        let promise = library.for_pool(&pool).slo.as_ref()?.promise(term)?;
        let (within, largest) = (promise.within_seconds?, bound / scale);
        let named = pool.values().map(String::as_str).collect::<Vec<_>>().join("/");
        let pool = if named.is_empty() { "a pool without labels".to_owned() } else { named };
        (within > largest).then_some(Short { pool, within, largest })
    });
    short.collect()
}

fn term_name(term: Term) -> &'static str {
    match term {
        Term::Ttft => "a first token",
        Term::InterToken => "each token",
        Term::Request => "a whole answer",
        Term::Errors => "an answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::playbook::{Slo, SourceFile, load, parse};

    #[test]
    fn a_promise_above_the_largest_bucket_is_told_of_the_pools_that_it_is_about() {
        let mut library = load(None).unwrap();
        let slo = |text: &str| -> Slo { parse(&SourceFile::new("slo".to_owned(), text.to_owned())).unwrap() };
        let general = slo("request: { share: 0.99, within: 90s }");
        let own = slo("pools: { namespace: batch }\nrequest: { share: 0.99, within: 10m }");
        library.promise(&[general, own], &[]).unwrap();
        let row = |namespace: &str, le: &str| {
            let labels = [("namespace", namespace), ("route", "m"), ("le", le)];
            Row { labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect(), value: 1.0 }
        };
        let rows = [row("chat", "100000"), row("chat", "+Inf"), row("batch", "100000"), row("batch", "600")];
        let engine = &library.engines["ray-serve-llm"];
        let (buckets, term) = histograms(&library, engine).into_iter().next().unwrap();
        assert_eq!((term, buckets.scale), (Term::Request, 1_000.0));
        let short = too_short(&library, engine, term, buckets.scale, &rows);
        assert_eq!(short, [Short { pool: "batch".to_owned(), within: 600.0, largest: 100.0 }]);
        assert_eq!(too_short(&library, engine, term, buckets.scale, &[row("batch", "600000")]), []);
    }

    #[test]
    fn each_histogram_that_judges_a_promise_is_asked_once() {
        let library = load(None).unwrap();
        let terms = |engine: &str| -> Vec<Term> {
            histograms(&library, &library.engines[engine]).into_iter().map(|(_, term)| term).collect()
        };
        assert_eq!(terms("vllm"), [Term::Request, Term::InterToken, Term::Ttft]);
        assert_eq!(terms("litellm"), [Term::Request, Term::Ttft]);
        assert_eq!(terms("triton"), [Term::Ttft]);
    }
}
