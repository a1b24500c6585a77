//! Selection of the series to export: every metric that a signal of the detected engines reads, within the pool.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use promql_parser::label::{MatchOp, Matcher as NameMatcher};
use promql_parser::parser::VectorSelector;
use regex::Regex;

use detect::{DetectionResult, EngineSeen};
use diagnose::plan;
use findings::Request;
use knowledge::playbook::Library;
use knowledge::promql::{parse, visit_selectors};
use knowledge::signal::{Engine, EngineKind, Fill, Matcher, fill, matchers};

/// Upper bound of the exported range. Longer ranges are for values that change rarely, where an hour suffices: an
/// hour's maximum distinguishes percent from ratios as well as a day's.
const LONGEST: Duration = Duration::from_secs(3_600);
/// The labels that select a target.
const TARGET_LABELS: [&str; 4] = ["cluster", "namespace", "job", "instance"];
/// The label that names a node.
pub(super) const NODE: &str = "node";
/// The labels that select a node: its series are of no pool, and its pods' are.
const NODE_LABELS: [&str; 2] = ["cluster", NODE];
/// Beginning of the names of a node's own series. Pods of others on these nodes are not the pool's.
const NODE_SERIES: &str = "kube_node_";
/// Metrics written by every scrape and by alerting rules.
const OWN: [&str; 3] = ["up", "ALERTS", "ALERTS_FOR_STATE"];
/// Metrics of our recording rules.
const RECORDED: &str = "llm:.+";

/// The requirements of a metric, or of a regular expression of names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SeriesNeed {
    /// The longest range of the queries that read it.
    pub(super) reach: Duration,
    /// True if the request's playbook does not need it.
    pub(super) later: bool,
}

/// Metrics of one source, which has its own labels for the pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// Matchers as text; may be empty.
    pub(super) scope: String,
    /// A selector of the pool's series that have the labels `bound_by` in common with these metrics; set if the metrics
    /// have no labels of the pool themselves.
    pub(super) targets_of: Option<String>,
    /// The labels of a target, or of a node.
    pub(super) bound_by: &'static [&'static str],
    /// Names and regular expressions, each with its requirements.
    pub(super) metrics: BTreeMap<String, SeriesNeed>,
}

impl Group {
    /// Returns a selector of all its metrics.
    pub(super) fn selector(&self) -> String {
        let names: Vec<&str> = self.metrics.keys().map(String::as_str).collect();
        selector("=~", &names.join("|"), &self.scope)
    }

    /// Returns the combined requirements of all entries that match an existing metric.
    pub(super) fn need(&self, name: &str) -> SeriesNeed {
        let is_match = |pattern: &&String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let matches_regex =
                || Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|expression| expression.is_match(name));
            pattern.as_str() == name || (!pattern.chars().all(plain) && matches_regex())
        };
        let needs = self.metrics.iter().filter(|(pattern, _)| is_match(pattern)).map(|(_, need)| *need);
        needs.reduce(|a, b| SeriesNeed { reach: a.reach.max(b.reach), later: a.later && b.later }).unwrap_or_default()
    }
}

/// Returns `{__name__="name",scope}`.
pub(super) fn selector(op: &str, name: &str, scope: &str) -> String {
    // Regular expressions of our own data contain backslashes but no quotes.
    let name = name.replace('\\', "\\\\").replace('"', "\\\"");
    match scope {
        "" => format!("{{__name__{op}\"{name}\"}}"),
        scope => format!("{{__name__{op}\"{name}\",{scope}}}"),
    }
}

/// Returns `label=~"a|b"`, with the values escaped.
pub(super) fn one_of(label: &str, values: &BTreeSet<String>) -> String {
    let escaped: Vec<String> = values.iter().map(|value| regex::escape(value)).collect();
    let text = escaped.join("|").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{label}=~\"{text}\"")
}

/// Returns all groups: first the metrics about the pool as a whole, then engine by engine.
pub(super) fn groups(library: &Library, request: &Request, detection: &DetectionResult) -> Vec<Group> {
    let signals: BTreeSet<String> =
        plan(library, request, detection).queries.into_iter().map(|ask| ask.signal).collect();
    let engines =
        detection.engines.iter().filter_map(|detected| Some((library.engines.get(&detected.engine)?, detected)));
    let engines = engines.flat_map(|(engine, detected)| of_engine(engine, detected, request, &signals));
    own(request).into_iter().chain(engines).filter(|group| !group.metrics.is_empty()).collect()
}

/// Returns metrics that no signal names: targets, alerts and recorded series, by the usual scope labels.
fn own(request: &Request) -> [Group; 2] {
    let pool_matchers = |labels: &[(&str, &str)]| {
        let bound = labels.iter().filter_map(|(label, dimension)| {
            let value = request.scope.dimensions.get(*dimension)?;
            Some(Matcher { or_absent: true, ..Matcher::one(label, value) })
        });
        matchers(&bound.collect::<Vec<_>>())
    };
    let targets = [("cluster", "cluster"), ("namespace", "namespace"), ("kubernetes_namespace", "namespace")];
    let pools = [("cluster", "cluster"), ("namespace", "namespace"), ("model_name", "model")];
    let need = SeriesNeed { reach: Duration::ZERO, later: false };
    [
        Group {
            scope: pool_matchers(&targets),
            targets_of: None,
            bound_by: &[],
            metrics: OWN.map(|name| (name.to_owned(), need)).into(),
        },
        Group {
            scope: pool_matchers(&pools),
            targets_of: None,
            bound_by: &[],
            metrics: [(RECORDED.to_owned(), SeriesNeed { later: true, ..need })].into(),
        },
    ]
}

/// Returns the metrics that an engine's signals read: those with the pool's labels, and those without them that
/// queries join by target (`http_requests_total`, `vllm:cache_config_info`) or by node (`kube_node_status_condition`).
fn of_engine(engine: &Engine, detected: &EngineSeen, request: &Request, signals: &BTreeSet<String>) -> [Group; 2] {
    let scope = matchers(&detected.matchers);
    let (mut metrics, mut joined) = (BTreeMap::new(), BTreeMap::new());
    let bound_by: Option<&'static [&'static str]> = match engine.kind {
        EngineKind::Platform => Some(&NODE_LABELS),
        kind => kind.is_pool().then_some(&TARGET_LABELS),
    };
    let add = |metrics: &mut BTreeMap<String, SeriesNeed>, name: String, reach: Duration, later: bool| {
        if OWN.contains(&name.as_str()) {
            return;
        }
        let need = metrics.entry(name).or_insert(SeriesNeed { reach, later });
        need.reach = need.reach.max(reach.min(LONGEST));
        need.later &= later;
    };
    // Detection reads the last hour.
    let probes = engine.versions.iter().map(|probe| probe.metric.as_str());
    for (_, name) in engine.detection_series().chain(probes).flat_map(|metric| engine.spellings(metric)) {
        add(&mut metrics, name, LONGEST, false);
    }
    for (signal, entry) in &engine.signals {
        let Some(query) = &entry.query else { continue };
        let window = entry.own_window().unwrap_or(request.window);
        let prefix = engine.prefixes.first().map(|written| (written.as_str(), detected.prefixes.as_slice()));
        let text = fill(
            query,
            &Fill { scope: &scope, workload: &scope, window, by: &engine.replica, target: &detected.target, prefix },
        );
        // `check` has parsed every shipped query; a query of the site that does not parse returns nothing anyway.
        let Ok(expr) = parse(&text) else { continue };
        visit_selectors(&expr, Duration::ZERO, &mut |selected, reach| {
            let is_joined = bound_by.is_some() && !is_scoped(selected, &detected.matchers);
            let metrics = if is_joined { &mut joined } else { &mut metrics };
            let of_others =
                |name: &&String| is_joined && engine.kind == EngineKind::Platform && !name.starts_with(NODE_SERIES);
            for name in names(selected).iter().filter(|name| !of_others(name)) {
                for part in parts(name) {
                    add(metrics, part, reach, !signals.contains(signal));
                }
            }
        });
    }
    let targets_of = Some(selector("=~", &engine.detected_by().join("|"), &scope));
    let bound_by = bound_by.unwrap_or_default();
    [
        Group { scope, targets_of: None, bound_by: &[], metrics },
        Group { scope: String::new(), targets_of, bound_by, metrics: joined },
    ]
}

/// Returns true if a selector has matchers for the pool's labels.
fn is_scoped(selected: &VectorSelector, scope: &[Matcher]) -> bool {
    let has_label = |label: &str| selected.matchers.matchers.iter().any(|matcher| matcher.name == label);
    scope.iter().filter(|matcher| !matcher.values.iter().all(String::is_empty)).all(|matcher| has_label(&matcher.label))
}

/// Returns the metrics to export for `name`: of a histogram's buckets also its sum and count, for means; of a sum
/// also its count.
fn parts(name: &str) -> Vec<String> {
    match (name.strip_suffix("_bucket"), name.strip_suffix("_sum")) {
        (Some(histogram), _) => ["_bucket", "_sum", "_count"].map(|part| format!("{histogram}{part}")).to_vec(),
        (None, Some(sum)) => vec![name.to_owned(), format!("{sum}_count")],
        (None, None) => vec![name.to_owned()],
    }
}

/// Returns the names that a selector matches: alternatives one by one, other regular expressions whole.
fn names(selected: &VectorSelector) -> Vec<String> {
    let named = selected.matchers.matchers.iter().chain(selected.matchers.or_matchers.iter().flatten());
    let matched_names = |matcher: &NameMatcher| match &matcher.op {
        MatchOp::Equal => vec![matcher.value.clone()],
        MatchOp::Re(_) if matcher.value.contains('(') => vec![matcher.value.clone()],
        MatchOp::Re(_) => matcher.value.split('|').map(str::to_owned).collect(),
        MatchOp::NotEqual | MatchOp::NotRe(_) => Vec::new(),
    };
    selected.name.clone().into_iter().chain(named.filter(|m| m.name == "__name__").flat_map(matched_names)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        visit_selectors(&parse(text).unwrap(), Duration::ZERO, &mut |selected, reach| {
            all.extend(names(selected).iter().flat_map(|name| parts(name)).map(|name| (name, reach.as_secs())));
        });
        all
    }

    #[test]
    fn names_are_found_wherever_they_stand_with_how_far_they_look_back() {
        let told = |names: &[(&str, u64)]| names.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect::<Vec<_>>();
        assert_eq!(
            seen("sum(rate(x_bucket{a=\"b\"}[5m] offset 1h)) / on () group_left () (y or sum_over_time(z[10m:1m]))"),
            told(&[("x_bucket", 3_900), ("x_sum", 3_900), ("x_count", 3_900), ("y", 0), ("z", 600)])
        );
        assert_eq!(seen("max({__name__=~\"vllm:x|vllm_x\", a=\"b\"})"), told(&[("vllm:x", 0), ("vllm_x", 0)]));
        assert_eq!(seen("{__name__=~\"llm_(a|b)\"}"), told(&[("llm_(a|b)", 0)]));
    }

    #[test]
    fn what_is_needed_of_a_name_is_the_most_of_all_that_ask_for_it() {
        let need = |seconds, later| SeriesNeed { reach: Duration::from_secs(seconds), later };
        let metrics = [("a_b", need(60, true)), ("a_(b|c)", need(30, false))].map(|(name, n)| (name.to_owned(), n));
        let group = Group { scope: String::new(), targets_of: None, bound_by: &[], metrics: metrics.into() };
        assert_eq!(group.need("a_b"), need(60, false));
        assert_eq!(group.need("a_c"), need(30, false));
        assert_eq!(group.selector(), r#"{__name__=~"a_(b|c)|a_b"}"#);
    }

    #[test]
    fn series_of_nodes_are_bound_by_the_nodes_of_the_pool_and_no_others_pods_are_exported_with_them() {
        let library = knowledge::playbook::load(None).unwrap();
        let detected = EngineSeen {
            engine: "kubernetes".to_owned(),
            version: None,
            prefixes: Vec::new(),
            matchers: vec![Matcher::one("namespace", "serving")],
            target: String::new(),
        };
        let (at, window) = (knowledge::clock::now(), Duration::from_secs(300));
        let request = Request::without_past(findings::Scope::default(), at, window, window);
        let [pool, nodes] = of_engine(&library.engines["kubernetes"], &detected, &request, &BTreeSet::new());
        assert!(pool.metrics.contains_key("kube_pod_info") && pool.bound_by.is_empty());
        assert!(nodes.metrics.contains_key("kube_node_status_condition") && nodes.bound_by == NODE_LABELS);
        let others: Vec<&String> = nodes.metrics.keys().filter(|name| !name.starts_with(NODE_SERIES)).collect();
        assert_eq!(others, Vec::<&String>::new());
    }
}
