//! Facts from labels: GPUs, nodes, images, versions, settings, roles.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{FactQueryContext, sentence, why};
use diagnose::{Pool, QueryAnswer, RowOwnership};
use findings::facts::{GpuInfo, PrometheusFacts, Version};
use knowledge::alert::Labels;
use knowledge::gap::Gap;
use knowledge::signal::{Engine, Fact, Info};
use prom::Row;

/// Maximum rows shown of one metric.
const ROWS: usize = 20;
/// Maximum versions of one component, and maximum images, that are listed.
const VERSIONS: usize = 20;
/// Labels that only identify the source; with them every row would be distinct.
const SOURCE_LABELS: [&str; 12] = [
    "__name__",
    "instance",
    "job",
    "pod",
    "exported_pod",
    "container",
    "endpoint",
    "service",
    "namespace",
    "node",
    "prometheus",
    "pod_name",
];

/// The rows of one info query.
struct InfoResult<'a> {
    info: &'a Info,
    own: RowOwnership,
    rows: Vec<Row>,
}

/// The results of all info queries.
pub(super) struct InfoResults<'a> {
    all: Vec<InfoResult<'a>>,
    missing: Vec<Gap>,
}

/// Runs every `info` query of the detected engines and exporters.
pub(super) async fn query_info<'a>(context: FactQueryContext<'_>, pool: &Pool<'a>) -> InfoResults<'a> {
    let infos: Vec<(&Engine, String, &Info)> = pool
        .engines()
        .flat_map(|(engine, engine_seen)| engine.info.iter().map(move |info| (engine, engine_seen, info)))
        .map(|(engine, engine_seen, info)| (engine, pool.bound(engine, engine_seen, &info.query), info))
        .collect();
    let queries = infos.iter().map(|(_, query, _)| (query.clone(), context.request.at)).collect();
    let answers: Vec<QueryAnswer> = pool.query(context.prometheus, queries, context.deadline).await;
    let mut results = InfoResults { all: Vec::new(), missing: Vec::new() };
    for ((engine, _, info), answer) in infos.into_iter().zip(answers) {
        match answer {
            Ok(rows) if rows.is_empty() => {
                if let Some(enable) = &info.enable {
                    results.missing.push(Gap::absent(gap_name(info), sentence("it has no series", Some(enable))));
                }
            }
            Ok(rows) => {
                let (own, rows) = pool.own(engine, &rows, |row| &row.labels);
                let rows = rows.into_iter().cloned().collect();
                results.all.push(InfoResult { info, own, rows });
            }
            Err(error) => results.missing.push(Gap::new(gap_name(info), why(&error))),
        }
    }
    results
}

fn gap_name(info: &Info) -> String {
    format!("what `{}` tells", info.metric)
}

impl InfoResult<'_> {
    fn label<'r>(&self, row: &'r Row, fact: Fact) -> Option<&'r str> {
        let labels = self.info.tells.iter().filter(|(_, reported)| **reported == fact);
        labels.filter_map(|(label, _)| row.labels.get(label)).find(|value| !value.is_empty()).map(String::as_str)
    }

    fn reports(&self, fact: Fact) -> bool {
        self.info.tells.values().any(|reported| *reported == fact)
    }

    /// Returns product and slice: `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
    fn gpu(&self, row: &Row) -> Option<String> {
        let kind = self.label(row, Fact::Gpu)?;
        Some(match self.label(row, Fact::GpuSlice) {
            Some(slice) => format!("{kind} MIG {slice}"),
            None => kind.to_owned(),
        })
    }

    fn pod(row: &Row) -> Option<&str> {
        ["exported_pod", "pod"].iter().find_map(|label| row.labels.get(*label)).map(String::as_str)
    }
}

impl InfoResults<'_> {
    fn pairs(&self, fact: Fact) -> impl Iterator<Item = (&str, &str)> {
        let of_pool = self.all.iter().filter(|result| result.own == RowOwnership::Known);
        of_pool.flat_map(move |result| {
            result.rows.iter().filter_map(move |row| Some((InfoResult::pod(row)?, result.label(row, fact)?)))
        })
    }

    /// Returns the node of each pod.
    pub(super) fn nodes(&self) -> BTreeMap<&str, &str> {
        self.pairs(Fact::Node).collect()
    }

    /// Returns the role of each pod.
    pub(super) fn roles(&self) -> BTreeMap<&str, &str> {
        // SGLang reports this role for an instance that does both prefill and decode.
        self.pairs(Fact::Role).filter(|(_, role)| *role != "unified").collect()
    }

    /// Returns the GPUs of each pod, with their product.
    pub(super) fn gpus(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for result in self.all.iter().filter(|result| result.own == RowOwnership::Known) {
            for row in &result.rows {
                let Some((pod, id)) = InfoResult::pod(row).zip(result.label(row, Fact::GpuId)) else { continue };
                let kind = result.gpu(row).map(|kind| format!(" ({kind})")).unwrap_or_default();
                all.entry(pod).or_default().insert(format!("{id}{kind}"));
            }
        }
        all
    }
}

/// Adds the facts to the result.
pub(super) fn read(info: InfoResults<'_>, facts: &mut PrometheusFacts) {
    for result in &info.all {
        settings(result, facts);
        versions(result, facts);
    }
    for result in info.all.iter().filter(|result| result.own == RowOwnership::Known && result.reports(Fact::Node)) {
        for row in &result.rows {
            let Some(node) = result.label(row, Fact::Node) else { continue };
            let node_facts = facts.nodes.entry(node.to_owned()).or_default();
            let values = result.info.tells.iter().filter(|(_, fact)| **fact == Fact::OfNode);
            let values = values.filter_map(|(label, _)| row.labels.get(label)).filter(|value| !value.is_empty());
            let new_values: Vec<String> = values.filter(|value| !node_facts.contains(value)).cloned().collect();
            node_facts.extend(new_values);
        }
    }
    facts.gpus = gpus(&info);
    if facts.gpus.is_empty() {
        let enable = "run dcgm-exporter on the GPU nodes and scrape it";
        facts.missing.push(Gap::absent("the GPUs", sentence("no exporter tells them for this pool", Some(enable))));
    }
    interconnect(&info, facts);
    facts.missing.extend(info.missing);
}

/// Adds the distinct rows, without the labels that identify the source.
fn settings(result: &InfoResult<'_>, facts: &mut PrometheusFacts) {
    if !result.info.shown {
        return;
    }
    let bare = |row: &Row| -> Labels {
        row.labels
            .iter()
            .filter(|(name, _)| !SOURCE_LABELS.contains(&name.as_str()))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect()
    };
    let rows: BTreeSet<Labels> = result.rows.iter().map(bare).collect();
    facts.info.insert(result.info.metric.clone(), rows.into_iter().take(ROWS).collect());
}

fn versions(result: &InfoResult<'_>, facts: &mut PrometheusFacts) {
    let source = || result.info.metric.clone();
    for (label, what) in &result.info.versions {
        let values: BTreeSet<&String> =
            result.rows.iter().filter_map(|row| row.labels.get(label)).filter(|v| !v.is_empty()).collect();
        let distinct = values.into_iter().take(VERSIONS);
        facts.versions.extend(distinct.map(|version| Version {
            what: what.clone(),
            version: version.clone(),
            source: source(),
        }));
    }
    let images: BTreeSet<(&str, &str)> = result
        .rows
        .iter()
        .filter_map(|row| {
            Some((result.label(row, Fact::Container).unwrap_or_default(), result.label(row, Fact::Image)?))
        })
        .collect();
    let distinct = images.into_iter().take(VERSIONS);
    facts.versions.extend(distinct.map(|(container, image)| Version {
        what: format!("image of container {container}"),
        version: image.to_owned(),
        source: source(),
    }));
}

/// Returns GPUs by product: from exporters with one series per GPU, else from the orchestrator's counts.
fn gpus(info: &InfoResults<'_>) -> Vec<GpuInfo> {
    for result in info.all.iter().filter(|result| result.reports(Fact::GpuId)) {
        let id = |row: &Row| {
            let slice = result.label(row, Fact::GpuSliceId).unwrap_or_default().to_owned();
            Some((result.label(row, Fact::GpuId)?.to_owned(), slice))
        };
        let ids: BTreeMap<(String, String), String> =
            result.rows.iter().filter_map(|row| Some((id(row)?, result.gpu(row).unwrap_or_else(unknown)))).collect();
        if !ids.is_empty() {
            let whose = match result.own {
                RowOwnership::Known if result.rows.iter().any(|row| InfoResult::pod(row).is_some()) => "",
                RowOwnership::Known => ", all of the pool's nodes",
                RowOwnership::Open => ", which names neither pods nor nodes: all that it sees",
            };
            return counted(ids.into_values().map(|kind| (kind, 1)), &format!("{}{whose}", result.info.metric));
        }
    }
    let by_node: BTreeMap<&str, String> = info
        .all
        .iter()
        .flat_map(|result| {
            result.rows.iter().filter_map(|row| Some((result.label(row, Fact::Node)?, result.gpu(row)?)))
        })
        .collect();
    for result in info.all.iter().filter(|result| result.info.counts_gpus && result.own == RowOwnership::Known) {
        let kind = |row: &Row| {
            let node = result.label(row, Fact::Node)?;
            by_node.get(node).cloned()
        };
        let rows = result.rows.iter().filter(|row| row.value >= 1.0 && row.value < 1e6);
        let all = rows.map(|row| (kind(row).unwrap_or_else(unknown), row.value.round() as usize));
        let all = counted(all, &result.info.metric);
        if !all.is_empty() {
            return all;
        }
    }
    Vec::new()
}

fn unknown() -> String {
    "GPU of an unknown kind".to_owned()
}

fn counted(kinds: impl Iterator<Item = (String, usize)>, source: &str) -> Vec<GpuInfo> {
    let mut by_kind: BTreeMap<String, usize> = BTreeMap::new();
    for (kind, count) in kinds {
        *by_kind.entry(kind).or_default() += count;
    }
    by_kind.into_iter().map(|(kind, count)| GpuInfo { kind, count, source: source.to_owned() }).collect()
}

/// Sets the interconnect of the GPUs; a counter at zero means that it is not used.
fn interconnect(info: &InfoResults<'_>, facts: &mut PrometheusFacts) {
    for result in info.all.iter() {
        let Some(what) = &result.info.interconnect else { continue };
        if result.rows.iter().any(|row| row.value > 0.0) {
            facts.interconnect = Some(what.clone());
        } else if facts.interconnect.is_none() && !result.rows.is_empty() {
            facts.interconnect = Some(format!("no {what} in use: `{}` is 0", result.info.metric));
        }
    }
}
