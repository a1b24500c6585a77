//! The metrics that an engine's queries read: what of a page is worth keeping.

use std::collections::BTreeSet;
use std::time::Duration;

use promql_parser::label::{METRIC_NAME, Matcher};
use promql_parser::parser::VectorSelector;

use super::{Engine, Fill, fill};
use crate::promql::{parse, visit_selectors};

/// The names of an engine's metrics, in every spelling.
#[derive(Debug, Clone, Default)]
pub struct MetricFilter {
    names: BTreeSet<String>,
    /// Matchers of names that are no single name.
    patterns: Vec<Vec<Matcher>>,
}

impl MetricFilter {
    /// Collects the metrics that detect an engine, tell its version, name what is behind it, and answer its signals.
    pub fn of(engine: &Engine) -> Self {
        let mut filter = Self::default();
        let probes = engine.versions.iter().map(|probe| probe.metric.as_str()).chain(engine.detection_series());
        let probes = probes.chain(engine.backends.iter().flat_map(|of| &of.series).map(String::as_str));
        filter.names.extend(probes.flat_map(|name| engine.spellings(name)).map(|(_, name)| name));
        for query in engine.signals.values().filter_map(|signal| signal.query.as_ref()) {
            let held: Vec<String> = engine.prefixes.iter().chain(&engine.copies).cloned().collect();
            let prefix = engine.prefixes.first().map(|written| (written.as_str(), held.as_slice()));
            let query = fill(query, &Fill { target: "job, instance", prefix, ..Fill::default() });
            // `check` names a query that does not parse.
            if let Ok(expr) = parse(&query) {
                visit_selectors(&expr, Duration::ZERO, &mut |selector, _| filter.add(selector));
            }
        }
        filter
    }

    /// Returns true if any query reads metrics of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.patterns.iter().any(|all| all.iter().all(|matcher| matcher.is_match(name)))
    }

    fn add(&mut self, selector: &VectorSelector) {
        match &selector.name {
            Some(name) => _ = self.names.insert(name.clone()),
            None => {
                let of_name = selector.matchers.matchers.iter().filter(|matcher| matcher.name == METRIC_NAME);
                self.patterns.push(of_name.cloned().collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playbook::load;

    #[test]
    fn an_engines_filter_keeps_what_its_queries_read_in_every_spelling() {
        let library = load(None).unwrap();
        let filter = |engine: &str| MetricFilter::of(&library.engines[engine]);
        let litellm = filter("litellm");
        for name in ["litellm_in_flight_requests", "process_cpu_seconds_total", "litellm_redis_latency_sum", "up"] {
            assert!(litellm.has(name), "{name}");
        }
        assert!(litellm.has("litellm_postgres_failed_requests_total"), "by its pattern");
        assert!(!litellm.has("python_gc_objects_collected_total") && !litellm.has("vllm:num_requests_running"));
        assert!(filter("vllm").has("vllm_num_requests_waiting"), "with the prefix of an older name");
    }
}
