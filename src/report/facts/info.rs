//! Facts from labels: GPUs, nodes, images, versions, settings, roles.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{FactQueryContext, sentence, why};
use super::{GpuInfo, PrometheusFacts, Version};
use diagnose::{Pool, QueryAnswer, RowOwnership};
use knowledge::alert::Labels;
use knowledge::gap::Gap;
use knowledge::signal::{Engine, Fact, Info};
use sources::prom::Row;

/// Maximum rows shown of one metric.
const ROWS: usize = 20;
/// Maximum versions of one component, and maximum images, that are listed.
const VERSIONS: usize = 20;
/// Labels that only identify the source; with them every row would be distinct.
const WHO: [&str; 12] = [
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
        .flat_map(|(engine, seen)| engine.info.iter().map(move |info| (engine, seen, info)))
        .map(|(engine, seen, info)| (engine, pool.bound(engine, seen, &info.query), info))
        .collect();
    let queries = infos.iter().map(|(_, query, _)| (query.clone(), context.request.at)).collect();
    let answers: Vec<QueryAnswer> = pool.query(context.prometheus, queries, context.deadline).await;
    let mut told = InfoResults { all: Vec::new(), missing: Vec::new() };
    for ((engine, _, info), answer) in infos.into_iter().zip(answers) {
        match answer {
            Ok(rows) if rows.is_empty() => {
                if let Some(enable) = &info.enable {
                    told.missing.push(Gap::absent(tells(info), sentence("it has no series", Some(enable))));
                }
            }
            Ok(rows) => {
                let (own, rows) = pool.own(engine, &rows, |row| &row.labels);
                let rows = rows.into_iter().cloned().collect();
                told.all.push(InfoResult { info, own, rows });
            }
            Err(error) => told.missing.push(Gap::new(tells(info), why(&error))),
        }
    }
    told
}

fn tells(info: &Info) -> String {
    format!("what `{}` tells", info.metric)
}

impl InfoResult<'_> {
    fn label<'r>(&self, row: &'r Row, fact: Fact) -> Option<&'r str> {
        let labels = self.info.tells.iter().filter(|(_, told)| **told == fact);
        labels.filter_map(|(label, _)| row.labels.get(label)).find(|value| !value.is_empty()).map(String::as_str)
    }

    fn tells(&self, fact: Fact) -> bool {
        self.info.tells.values().any(|told| *told == fact)
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
        let known = self.all.iter().filter(|one| one.own == RowOwnership::Known);
        known.flat_map(move |one| {
            one.rows.iter().filter_map(move |row| Some((InfoResult::pod(row)?, one.label(row, fact)?)))
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
        for one in self.all.iter().filter(|one| one.own == RowOwnership::Known) {
            for row in &one.rows {
                let Some((pod, id)) = InfoResult::pod(row).zip(one.label(row, Fact::GpuId)) else { continue };
                let kind = one.gpu(row).map(|kind| format!(" ({kind})")).unwrap_or_default();
                all.entry(pod).or_default().insert(format!("{id}{kind}"));
            }
        }
        all
    }
}

/// Adds the facts to the result.
pub(super) fn read(told: InfoResults<'_>, seen: &mut PrometheusFacts) {
    for one in &told.all {
        settings(one, seen);
        versions(one, seen);
    }
    for one in told.all.iter().filter(|one| one.own == RowOwnership::Known && one.tells(Fact::Node)) {
        for row in &one.rows {
            let Some(node) = one.label(row, Fact::Node) else { continue };
            let known = seen.nodes.entry(node.to_owned()).or_default();
            let more = one.info.tells.iter().filter(|(_, fact)| **fact == Fact::OfNode);
            let more = more.filter_map(|(label, _)| row.labels.get(label)).filter(|value| !value.is_empty());
            let fresh: Vec<String> = more.filter(|value| !known.contains(value)).cloned().collect();
            known.extend(fresh);
        }
    }
    seen.gpus = gpus(&told);
    if seen.gpus.is_empty() {
        let enable = "run dcgm-exporter on the GPU nodes and scrape it";
        seen.missing.push(Gap::absent("the GPUs", sentence("no exporter tells them for this pool", Some(enable))));
    }
    interconnect(&told, seen);
    seen.missing.extend(told.missing);
}

/// Adds the distinct rows, without the labels that identify the source.
fn settings(one: &InfoResult<'_>, seen: &mut PrometheusFacts) {
    if !one.info.shown {
        return;
    }
    let bare = |row: &Row| -> Labels {
        row.labels
            .iter()
            .filter(|(name, _)| !WHO.contains(&name.as_str()))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect()
    };
    let rows: BTreeSet<Labels> = one.rows.iter().map(bare).collect();
    seen.info.insert(one.info.metric.clone(), rows.into_iter().take(ROWS).collect());
}

fn versions(one: &InfoResult<'_>, seen: &mut PrometheusFacts) {
    let source = || one.info.metric.clone();
    for (label, what) in &one.info.versions {
        let values: BTreeSet<&String> =
            one.rows.iter().filter_map(|row| row.labels.get(label)).filter(|v| !v.is_empty()).collect();
        let told = values.into_iter().take(VERSIONS);
        seen.versions.extend(told.map(|version| Version {
            what: what.clone(),
            version: version.clone(),
            source: source(),
        }));
    }
    let images: BTreeSet<(&str, &str)> = one
        .rows
        .iter()
        .filter_map(|row| Some((one.label(row, Fact::Container).unwrap_or_default(), one.label(row, Fact::Image)?)))
        .collect();
    let told = images.into_iter().take(VERSIONS);
    seen.versions.extend(told.map(|(container, image)| Version {
        what: format!("image of container {container}"),
        version: image.to_owned(),
        source: source(),
    }));
}

/// Returns GPUs by product: from exporters with one series per GPU, else from the orchestrator's counts.
fn gpus(told: &InfoResults<'_>) -> Vec<GpuInfo> {
    for one in told.all.iter().filter(|one| one.tells(Fact::GpuId)) {
        let id = |row: &Row| {
            let slice = one.label(row, Fact::GpuSliceId).unwrap_or_default().to_owned();
            Some((one.label(row, Fact::GpuId)?.to_owned(), slice))
        };
        let ids: BTreeMap<(String, String), String> =
            one.rows.iter().filter_map(|row| Some((id(row)?, one.gpu(row).unwrap_or_else(unknown)))).collect();
        if !ids.is_empty() {
            let whose = match one.own {
                RowOwnership::Known if one.rows.iter().any(|row| InfoResult::pod(row).is_some()) => "",
                RowOwnership::Known => ", all of the pool's nodes",
                RowOwnership::Open => ", which names neither pods nor nodes: all that it sees",
            };
            return counted(ids.into_values().map(|kind| (kind, 1)), &format!("{}{whose}", one.info.metric));
        }
    }
    let by_node: BTreeMap<&str, String> = told
        .all
        .iter()
        .flat_map(|one| one.rows.iter().filter_map(|row| Some((one.label(row, Fact::Node)?, one.gpu(row)?))))
        .collect();
    for one in told.all.iter().filter(|one| one.info.counts_gpus && one.own == RowOwnership::Known) {
        let kind = |row: &Row| {
            let node = one.label(row, Fact::Node)?;
            by_node.get(node).cloned()
        };
        let rows = one.rows.iter().filter(|row| row.value >= 1.0 && row.value < 1e6);
        let all = rows.map(|row| (kind(row).unwrap_or_else(unknown), row.value.round() as usize));
        let all = counted(all, &one.info.metric);
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
fn interconnect(told: &InfoResults<'_>, seen: &mut PrometheusFacts) {
    for one in told.all.iter() {
        let Some(what) = &one.info.interconnect else { continue };
        if one.rows.iter().any(|row| row.value > 0.0) {
            seen.interconnect = Some(what.clone());
        } else if seen.interconnect.is_none() && !one.rows.is_empty() {
            seen.interconnect = Some(format!("no {what} in use: `{}` stands at 0", one.info.metric));
        }
    }
}
