//! Narrows a scope that selects nothing to the pool that is meant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::fleet::fleet;
use crate::gateway_pools::gateway_pools;
use crate::{DetectionResult, meant, pools, read_detection_of};
use findings::UnknownLabelValue;
use findings::request::Request;
use findings::scope::{REPLICA_LABELS, Scope, pool_name};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use prom::{PromError, Prometheus};

/// Narrows a scope that selects nothing to the pool of the replicas that the alerts name, or to the only pool there
/// is. Otherwise an alert without a playbook is about no pool; of others each pool is asked by itself. Returns the number
/// of queries as well.
///
/// # Errors
/// If Prometheus does not say to which pools the replicas belong: the meaning of the alert is then unknown.
pub async fn narrow(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    rows: &[Labels],
    detection: DetectionResult,
    deadline: Instant,
) -> (Result<DetectionResult, Arc<PromError>>, usize) {
    let pools_present = pools(library, rows);
    if pools_present.len() < 2 && detection.incomplete.is_none() {
        let note = "the alert's labels name no pool: the only one of this Prometheus was checked".to_owned();
        return (Ok(DetectionResult { notes: [detection.notes, vec![note]].concat(), ..detection }), 0);
    }
    if request.scope.replicas.is_empty() {
        return (Ok(narrowed(library, request, rows, detection, &pools_present, &BTreeSet::new())), 0);
    }
    let fleet = prometheus.query(&fleet(library), request.at, deadline).await;
    let narrowed = fleet.map(|fleet| {
        let named = |value: Option<&String>| value.is_some_and(|value| request.scope.replicas.contains(value));
        let own = fleet.iter().filter(|row| REPLICA_LABELS.iter().any(|label| named(row.labels.get(*label))));
        let of_replicas: BTreeSet<_> = own.flat_map(|row| pools(library, std::slice::from_ref(&row.labels))).collect();
        let incomplete = detection.incomplete.clone().or_else(|| fleet.incomplete().map(str::to_owned));
        let detection = DetectionResult { incomplete, ..detection };
        narrowed(library, request, rows, detection, &pools_present, &of_replicas)
    });
    (narrowed, 1)
}

/// Does the work of [`narrow`] for these pools, with the pools of the replicas.
fn narrowed(
    library: &Library,
    request: &Request,
    rows: &[Labels],
    detection: DetectionResult,
    pools_present: &BTreeSet<BTreeMap<String, String>>,
    of_replicas: &BTreeSet<BTreeMap<String, String>>,
) -> DetectionResult {
    if let (Some(pool), 1) = (of_replicas.first(), of_replicas.len()) {
        let scope = Scope { dimensions: pool.clone(), ..request.scope.clone() };
        let mut narrowed = read_detection_of(library, &scope, rows, detection.incomplete.as_deref());
        narrowed
            .notes
            .push(format!("the alert names no pool but a replica of `{}`, which was checked", pool_name(pool)));
        return narrowed;
    }
    if detection.incomplete.is_some() {
        let why = || "the pool of the alert's labels is not in the part of the data that answered".to_owned();
        let apart = library.engines.keys().map(|engine| (engine.clone(), why())).collect();
        return DetectionResult { engines: Vec::new(), apart, ..detection };
    }
    // An alert that no playbook knows and that names a job alone may be about any program.
    let is_known = library.playbooks.contains_key(&request.playbook) || !request.screen;
    if is_known || !request.scope.dimensions.keys().eq(["job"]) {
        let (_, pools_meant) = meant(library, &request.scope, rows);
        let pools = match (of_replicas.is_empty(), pools_meant.is_empty()) {
            (false, _) => of_replicas.clone(),
            (true, false) => pools_meant,
            (true, true) => pools_present.iter().cloned().chain(gateway_pools(library, rows, pools_present)).collect(),
        };
        return DetectionResult { engines: Vec::new(), pools, ..detection };
    }
    let requested = request.scope.dimensions.iter().map(|(dimension, value)| format!("{dimension}={value}"));
    let requested: Vec<String> = requested.chain(request.scope.replicas.iter().cloned()).collect();
    let names: Vec<String> = pools_present.iter().map(pool_name).collect();
    let unknown = UnknownLabelValue::new("pool", &requested.join(", "), names.iter().map(String::as_str));
    let why = library.engines.keys().map(|engine| (engine.clone(), unknown.to_string()));
    DetectionResult { engines: Vec::new(), apart: why.collect(), unknown: Some(unknown), ..detection }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_replica_that_is_seen_names_its_pool_while_another_part_of_the_data_is_missing() {
        let library = knowledge::playbook::load(None).unwrap();
        let row = |namespace: &str| -> Labels {
            [("__name__", "vllm:num_requests_running"), ("namespace", namespace), ("model_name", "a")]
                .map(|(label, value)| (label.to_owned(), value.to_owned()))
                .into()
        };
        let rows = [row("llm"), row("chat")];
        let scope = Scope { replicas: ["vllm-1".to_owned()].into_iter().collect(), ..Scope::default() };
        let (at, window) = (jiff::Timestamp::UNIX_EPOCH, Duration::from_secs(300));
        let request = Request {
            playbook: "engine-stalled".to_owned(),
            ..Request::without_past(scope, at, window, Duration::from_secs(8))
        };
        let said = Some("a store is away".to_owned());
        let narrowed = |of: &[Labels]| {
            let detection = DetectionResult { incomplete: said.clone(), ..DetectionResult::default() };
            narrowed(&library, &request, &rows, detection, &pools(&library, &rows), &pools(&library, of))
        };
        let seen = narrowed(&rows[..1]);
        assert!(seen.engines.iter().any(|seen| seen.engine == "vllm"), "{:?}", seen.notes);
        assert!(seen.notes.iter().any(|note| note.starts_with("the alert names no pool but a replica of")));
        let unseen = narrowed(&[]);
        assert!(unseen.engines.is_empty() && unseen.apart["vllm"].contains("not in the part of the data"));
        assert_eq!([seen.incomplete, unseen.incomplete], [said.clone(), said.clone()]);
    }
}
