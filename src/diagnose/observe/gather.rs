//! gather: rows ─▶ observations: assigns rows to the pool, selects the engine that counts, and groups by replica.

use std::collections::{BTreeMap, BTreeSet};

use crate::observe::batch::QueryAnswer;
use crate::observe::plan::{HISTOGRAM, POD_AND_NODE, tier};
use detect::{PlannedQuery, QueryPurpose};
use findings::ReplicaValue;
use findings::Request;
use findings::observation::{Observation, Observations, reduce};
use findings::scope::{POD_LABELS, workload_of};
use knowledge::alert::Labels;
use knowledge::playbook::{Library, RunsOn};
use knowledge::signal::{Engine, EngineKind, PoolAggregation, histograms};
use prom::{PromError, Row};

/// Labels that name the node of a row without a pod.
const NODE_LABELS: [&str; 5] = ["node", "Hostname", "hostname", "exported_node", "kubernetes_node"];
/// Labels that name a GPU in the rows of its exporter.
const GPU_LABELS: [&str; 2] = ["UUID", "uuid"];
/// The setting with which Prometheus stores a native histogram's classic buckets too.
/// Source: <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config>
const CLASSIC: &str = "`always_scrape_classic_histograms: true` in the scrape configuration \
    (`scrape_classic_histograms` before Prometheus 3)";

/// The certainty that rows belong to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOwnership {
    /// They name its pods, nodes or workloads.
    Known,
    /// They name no owner.
    Open,
}

/// The replicas of the pool, by the names that they have in different exporters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members {
    replicas: BTreeSet<String>,
    /// Pods from the engines' series; if they carry none, exporters' rows cannot be assigned.
    pods: BTreeSet<String>,
    workloads: BTreeSet<String>,
    /// The nodes of the pods, by name and by address; empty if no orchestrator reports them.
    nodes: BTreeSet<String>,
    /// Pod to the name of its node.
    node_of: BTreeMap<String, String>,
    /// The platform, by the labels of the pool's rows; `None` if no row names a replica.
    runs_on: Option<RunsOn>,
    /// The server's words about a part of the data in which more of them may be.
    incomplete: Option<String>,
}

impl Members {
    /// Returns the server's words about a part of the data in which more of them may be.
    pub(crate) fn incomplete(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// Returns the number of replicas.
    pub(crate) fn replicas(&self) -> usize {
        self.replicas.len()
    }

    /// Reads the answers to the queries for the pool's replicas and nodes.
    pub(crate) fn of(library: &Library, asks: &[PlannedQuery], answers: &[QueryAnswer]) -> Self {
        let mut members = Self::default();
        for (ask, answer) in asks.iter().zip(answers).filter(|(ask, _)| ask.is_for_replicas()) {
            let (Some(engine), Ok(rows)) = (library.engines.get(&ask.engine), answer) else { continue };
            members.replicas.extend(rows.iter().filter_map(|row| name(engine, &row.labels)));
            let pods = rows.iter().filter_map(|row| first(&row.labels, &POD_LABELS)).filter(|pod| !pod.is_empty());
            members.pods.extend(pods.map(str::to_owned));
        }
        let own =
            asks.iter().zip(answers).filter(|(ask, _)| ask.is_for_replicas() || ask.purpose == QueryPurpose::Nodes);
        members.incomplete = own.filter_map(|(_, answer)| answer.as_ref().ok()?.incomplete()).next().map(str::to_owned);
        members = members.with_pods(std::iter::empty());
        members.runs_on = run_on_by_rows(library, asks, answers);
        for (_, answer) in asks.iter().zip(answers).filter(|(ask, _)| ask.purpose == QueryPurpose::Nodes) {
            let Ok(rows) = answer else { continue };
            let [pod, node, address] = POD_AND_NODE;
            for row in rows.iter() {
                let Some(pod) = row.labels.get(pod).filter(|pod| members.pods.contains(*pod)) else { continue };
                let named = |label: &str| row.labels.get(label).filter(|value| !value.is_empty()).cloned();
                members.nodes.extend([named(node), named(address)].into_iter().flatten());
                members.node_of.extend(named(node).map(|node| (pod.clone(), node)));
            }
        }
        members
    }

    /// Adds pods that are known from another source.
    pub(crate) fn with_pods(mut self, more: impl Iterator<Item = String>) -> Self {
        self.pods.extend(more.filter(|pod| !pod.is_empty()));
        self.workloads = self.pods.iter().map(|pod| workload_of(pod).to_owned()).collect();
        self
    }

    /// Returns the platform that the replicas run on, by the labels of their series, including those of targets that
    /// have been down for long, else by the alert: a namespace means Kubernetes. `None` if neither shows it.
    pub(crate) fn run_on(&self, request: &Request) -> Option<RunsOn> {
        let alert = || request.scope.dimensions.contains_key("namespace").then_some(RunsOn::Pods);
        if self.pods.is_empty() { self.runs_on.or_else(alert) } else { Some(RunsOn::Pods) }
    }

    /// Returns the node of each pod, if the orchestrator reports it.
    pub(crate) fn nodes(&self) -> &BTreeMap<String, String> {
        &self.node_of
    }

    /// Returns the nodes of the replicas, if the orchestrator reports them.
    pub(crate) fn places(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.node_of.iter().map(|(pod, node)| (pod.clone(), BTreeSet::from([node.clone()]))).collect()
    }

    /// Returns the names of the replicas, sorted.
    pub(crate) fn pool(&self) -> Vec<String> {
        self.replicas.iter().cloned().collect()
    }

    /// Returns the certainty that a row is the pool's; `None` if it names another owner.
    pub(crate) fn owns(&self, row: &Labels) -> Option<RowOwnership> {
        // A LeaderWorkerSet's worker pods belong to a StatefulSet with the name of their leader, `<set>-0`.
        let is_member = |workload: &str| self.workloads.contains(workload) || self.pods.contains(workload);
        let known_if = |is_member: bool| is_member.then_some(RowOwnership::Known);
        if self.pods.is_empty() {
            return Some(RowOwnership::Open);
        }
        if let Some(pod) = first(row, &POD_LABELS) {
            return known_if(self.pods.contains(pod) || is_member(workload_of(pod)));
        }
        // A namespace has other workloads too, and a cluster has other nodes.
        if let Some(workload) = first(row, &["deployment", "statefulset", "daemonset"]) {
            return known_if(is_member(workload));
        }
        if let Some(node) = first(row, &NODE_LABELS).filter(|node| !node.is_empty() && !self.nodes.is_empty()) {
            return known_if(self.nodes.contains(node));
        }
        // An exporter on the host network has the node's address; any other address says nothing.
        let host =
            row.get("instance").map(|address| address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host));
        let is_member = host.is_some_and(|host| self.nodes.contains(host));
        Some(if is_member { RowOwnership::Known } else { RowOwnership::Open })
    }
}

/// Returns the platform by the rows of the pool's engines; rows of `up` outlive the engines' own by hours.
fn run_on_by_rows(library: &Library, asks: &[PlannedQuery], answers: &[QueryAnswer]) -> Option<RunsOn> {
    let engines: BTreeSet<&str> = asks.iter().filter(|ask| ask.is_for_replicas()).map(|a| a.engine.as_str()).collect();
    let own = asks.iter().zip(answers).filter(|(ask, _)| engines.contains(ask.engine.as_str()));
    let rows = own.filter_map(|(ask, answer)| Some((library.engines.get(&ask.engine)?, answer.as_ref().ok()?)));
    let mut runs_on = None;
    for (engine, row) in rows.flat_map(|(engine, rows)| rows.iter().map(move |row| (engine, row))) {
        if first(&row.labels, &POD_LABELS).is_some_and(|pod| !pod.is_empty()) {
            return Some(RunsOn::Pods);
        }
        runs_on = runs_on.or(name(engine, &row.labels).map(|_| RunsOn::Hosts));
    }
    runs_on
}

/// The values of answers, by signal.
#[derive(Debug, Default)]
pub(crate) struct GatheredValues {
    pub(crate) signals: BTreeMap<String, Observation>,
    /// The GPUs of each replica, if their exporter names it.
    pub(crate) gpus: BTreeMap<String, BTreeSet<String>>,
    /// True if Prometheus was unavailable or timed out.
    pub(crate) degraded: bool,
}

impl GatheredValues {
    /// Returns the values as observations that know no pool.
    pub(crate) fn observations(self) -> Observations {
        Observations { signals: self.signals, places: self.gpus, ..Observations::default() }
    }
}

/// Converts answers to values by signal.
pub(crate) fn gather(
    library: &Library,
    members: &Members,
    asks: &[PlannedQuery],
    answers: &[QueryAnswer],
) -> GatheredValues {
    let mut gathered = GatheredValues::default();
    let mut tier_with_data: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    let with_known_rows = with_known_rows(library, members, asks, answers);
    for (ask, answer) in asks.iter().zip(answers).filter(|(ask, _)| !ask.signal.is_empty()) {
        let (Some(engine), Some(signal)) = (library.engines.get(&ask.engine), library.signals.get(&ask.signal)) else {
            continue;
        };
        let o = gathered.signals.entry(ask.signal.clone()).or_default();
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => {
                gathered.degraded |= error.is_unavailable();
                say_why(o, ask, error);
                continue;
            }
        };
        let is_known = with_known_rows.contains(&(ask.signal.as_str(), ask.purpose));
        let own = |row: &&Row| {
            engine.kind.is_pool()
                || match members.owns(&row.labels) {
                    Some(RowOwnership::Known) => true,
                    Some(RowOwnership::Open) => !is_known,
                    None => false,
                }
        };
        if engine.kind == EngineKind::Gpu && ask.purpose == QueryPurpose::Replicas {
            let of_pod = |row: &Row| {
                Some((first(&row.labels, &POD_LABELS)?.to_owned(), first(&row.labels, &GPU_LABELS)?.to_owned()))
            };
            for (pod, gpu) in rows.iter().filter(own).filter_map(of_pod) {
                gathered.gpus.entry(pod).or_default().insert(gpu);
            }
        }
        let entry = engine.signals.get(&ask.signal);
        let from_labels = entry.map_or(&[][..], |e| &e.from_labels);
        let named = |row: &Row| Some((name(engine, &row.labels).unwrap_or_default(), read_value(row, from_labels)?));
        let values: Vec<(String, f64)> = rows.iter().filter(own).filter_map(named).collect();
        // Values of two engines for the same requests do not add up.
        let tier = tier(library, &ask.signal, engine);
        if tier_with_data.get(ask.signal.as_str()).is_some_and(|best| *best < tier) {
            continue;
        }
        if !values.is_empty() {
            tier_with_data.insert(&ask.signal, tier);
        }
        if let Some(said) = rows.incomplete() {
            let incomplete = if is_of_present(ask.purpose) { &mut o.incomplete } else { &mut o.past_incomplete };
            incomplete.get_or_insert_with(|| said.to_owned());
        }
        if is_of_present(ask.purpose) {
            o.answered = true;
            o.query = Some(ask.query.clone());
            o.enable = o.enable.take().or_else(|| entry.and_then(|e| e.enable.clone()));
        }
        add_values(o, ask.purpose, values, signal.fleet);
    }
    say_what_is_native(asks, answers, &mut gathered.signals);
    gathered
}

/// Returns the queries for which some rows name the pool's own replicas; their other rows are not the pool's.
fn with_known_rows<'a>(
    library: &Library,
    members: &Members,
    asks: &'a [PlannedQuery],
    answers: &[QueryAnswer],
) -> BTreeSet<(&'a str, QueryPurpose)> {
    let of_pool = |ask: &PlannedQuery| library.engines.get(&ask.engine).is_some_and(|engine| engine.kind.is_pool());
    let is_known = |row: &Row| members.owns(&row.labels) == Some(RowOwnership::Known);
    asks.iter()
        .zip(answers)
        .filter(|(ask, _)| !ask.signal.is_empty() && !of_pool(ask))
        .filter(|(_, answer)| answer.as_ref().is_ok_and(|rows| rows.iter().any(is_known)))
        .map(|(ask, _)| (ask.signal.as_str(), ask.purpose))
        .collect()
}

/// Returns true if a query is for the present values.
fn is_of_present(purpose: QueryPurpose) -> bool {
    matches!(purpose, QueryPurpose::Replicas | QueryPurpose::Pool)
}

/// Writes the reason for a missing answer.
fn say_why(o: &mut Observation, ask: &PlannedQuery, error: &PromError) {
    o.late |= error.is_late() && !matches!(ask.purpose, QueryPurpose::BeforeReplicas | QueryPurpose::BeforePool);
    if is_of_present(ask.purpose) {
        o.why.get_or_insert_with(|| error.to_string());
        o.query.get_or_insert_with(|| ask.query.clone());
    }
}

/// Adds the values of one answer to what its query is for.
fn add_values(o: &mut Observation, purpose: QueryPurpose, values: Vec<(String, f64)>, fleet: PoolAggregation) {
    let of_replicas = |replicas: &[ReplicaValue]| reduce(fleet, replicas.iter().map(|r| r.value));
    let of_pool = values.first().map(|(_, value)| *value);
    let reduced = |values| {
        let mut replicas = Vec::new();
        merge(&mut replicas, values, fleet);
        of_replicas(&replicas)
    };
    match purpose {
        QueryPurpose::Replicas => {
            merge(&mut o.replicas, values, fleet);
            o.value = of_replicas(&o.replicas).or(o.value);
        }
        QueryPurpose::Pool => o.value = o.value.or(of_pool),
        QueryPurpose::PastReplicas => o.baseline = reduced(values).or(o.baseline),
        QueryPurpose::BeforeReplicas => o.before = reduced(values).or(o.before),
        QueryPurpose::PastPool => o.baseline = of_pool.or(o.baseline),
        QueryPurpose::BeforePool => o.before = of_pool.or(o.before),
        QueryPurpose::Native | QueryPurpose::Nodes => {}
    }
}

/// Writes the reason for missing values of native histograms, which no query reads.
fn say_what_is_native(asks: &[PlannedQuery], answers: &[QueryAnswer], signals: &mut BTreeMap<String, Observation>) {
    let native: BTreeSet<&str> = asks
        .iter()
        .zip(answers)
        .filter(|(ask, _)| ask.purpose == QueryPurpose::Native)
        .filter_map(|(_, answer)| answer.as_ref().ok())
        .flat_map(|rows| rows.iter().filter_map(|row| row.labels.get(HISTOGRAM).map(String::as_str)))
        .collect();
    for o in signals.values_mut().filter(|o| o.value.is_none() && o.replicas.is_empty()) {
        let native_name = o.query.as_deref().and_then(|query| histograms(query).find(|name| native.contains(name)));
        if let Some(name) = native_name {
            o.why = Some(format!("`{name}` is a native histogram here, and only classic ones are read"));
            o.enable = Some(CLASSIC.to_owned());
        }
    }
}

/// Returns the value of the first of these labels that the row has.
fn first<'a>(row: &'a Labels, labels: &[&str]) -> Option<&'a str> {
    labels.iter().find_map(|label| row.get(*label).map(String::as_str))
}

/// Returns the row's replica: the first of the engine's replica labels that is not empty.
pub(crate) fn name(engine: &Engine, labels: &Labels) -> Option<String> {
    engine.replica.iter().find_map(|label| labels.get(label).filter(|v| !v.is_empty())).cloned()
}

/// Adds rows to the replicas; several rows of one replica (engine ranks, GPUs) are reduced like the fleet.
pub(crate) fn merge(into: &mut Vec<ReplicaValue>, values: Vec<(String, f64)>, fleet: PoolAggregation) {
    let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for replica in into.drain(..) {
        by_name.entry(replica.name).or_default().push(replica.value);
    }
    for (name, value) in values {
        by_name.entry(name).or_default().push(value);
    }
    let combine = |values: &[f64]| match reduce(fleet, values.iter().copied()) {
        Some(value) => value,
        None => values.iter().copied().fold(f64::MIN, f64::max),
    };
    into.extend(by_name.into_iter().map(|(name, values)| ReplicaValue { value: combine(&values), name }));
}

/// Returns the sample's value, or the product of the named labels if the number is in labels.
fn read_value(row: &Row, from_labels: &[String]) -> Option<f64> {
    if from_labels.is_empty() {
        return Some(row.value);
    }
    from_labels.iter().find_map(|product| {
        product
            .split_whitespace()
            .map(|label| row.labels.get(label)?.parse::<f64>().ok().filter(|v| v.is_finite()))
            .product::<Option<f64>>()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::judge::steps::tests::request;

    #[test]
    fn pods_that_have_been_away_for_hours_are_still_pods_and_what_nobody_tells_is_unknown() {
        let library = knowledge::playbook::load(None).unwrap();
        let ask = |signal: &str| PlannedQuery {
            signal: signal.to_owned(),
            engine: "vllm".to_owned(),
            purpose: QueryPurpose::Replicas,
            query: String::new(),
            at: request(&[]).at,
        };
        let asks = [ask(""), ask("replicas_down")];
        let run_on = |down: &[(&str, &str)], alert: &[(&str, &str)]| {
            let row =
                |(label, value): &(&str, &str)| Row { labels: [((*label).into(), (*value).into())].into(), value: 1.0 };
            let answers = [Ok(Arc::default()), Ok(Arc::new(down.iter().map(row).collect()))];
            Members::of(&library, &asks, &answers).run_on(&request(alert))
        };
        assert_eq!(run_on(&[("pod", "vllm-7f9c4d6b8-x2x9p")], &[]), Some(RunsOn::Pods));
        assert_eq!(run_on(&[("instance", "gpu-03:8000")], &[]), Some(RunsOn::Hosts));
        assert_eq!(run_on(&[], &[("namespace", "prod")]), Some(RunsOn::Pods), "Kubernetes' word");
        assert_eq!(run_on(&[], &[("job", "vllm")]), None);
    }
}
