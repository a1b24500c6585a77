//! Events of pods, their owners and nodes. Pure, except for the requests.

use std::collections::BTreeSet;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as Raw;
use kube::api::ListParams;

use super::ask::ApiSession;
use super::kinds::EVENT;
use super::pods::cut;
use super::{ClusterEvent, SnapshotGaps};

/// Events of one page, and maximum number of a namespace; the API cannot sort them by time.
const PAGE: u32 = 500;
const MAX_EVENTS_OF_NAMESPACE: usize = 10_000;
/// Maximum number of returned events; the newest are retained.
const MAX_EVENTS: usize = 1_000;
/// The namespace of events about objects without a namespace.
pub(super) const CLUSTER_WIDE: &str = "default";

/// Lists all events since `since` in these namespaces; with `nodes` also those of the cluster's nodes.
pub(super) async fn list_events(
    ask: ApiSession<'_>,
    namespaces: &[String],
    nodes: bool,
    since: Timestamp,
    missing: &mut SnapshotGaps,
) -> Vec<ClusterEvent> {
    let of_nodes = nodes.then_some((CLUSTER_WIDE, Some("involvedObject.kind=Node")));
    let of_pods = namespaces.iter().map(|namespace| (namespace.as_str(), None));
    let requests = of_pods.chain(of_nodes).map(|(namespace, only)| async move {
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector = only.map(str::to_owned);
        let read = |item| serde_json::from_value(item).ok().map(self::read);
        let listed = ask.list(&EVENT, "v1", Some(namespace), params, MAX_EVENTS_OF_NAMESPACE, read).await;
        let what = match only {
            Some(_) => "events of nodes".to_owned(),
            None => format!("events of namespace {namespace}"),
        };
        (what, listed)
    });
    let mut events = Vec::new();
    for (what, listed) in join_all(requests).await {
        missing.listed(&what, &listed);
        events.extend(listed.items.into_iter().filter(|event| event.at.is_none_or(|at| at >= since)));
    }
    events
}

/// Selects the events about one of `about` (`Pod/llama-0`), oldest first; if there are too many, the newest.
pub(super) fn of(
    mut events: Vec<ClusterEvent>,
    about: &BTreeSet<String>,
    missing: &mut SnapshotGaps,
) -> Vec<ClusterEvent> {
    events.retain(|event| about.contains(&event.about));
    events.sort_by(|a, b| (a.at, &a.about, &a.reason).cmp(&(b.at, &b.about, &b.reason)));
    events.dedup();
    if let Some(over) = events.len().checked_sub(MAX_EVENTS).filter(|over| *over > 0) {
        missing.note_absent("events", format!("{over} older ones are left out"));
        events.drain(..over);
    }
    events
}

fn read(raw: Raw) -> ClusterEvent {
    let about = raw.involved_object;
    let series = raw.series.unwrap_or_default();
    // Newer reporters set the series and the time in microseconds, older ones the last timestamp.
    let at = series.last_observed_time.map(|at| at.0).or(raw.last_timestamp.map(|at| at.0));
    let at = at.or(raw.event_time.map(|at| at.0)).or(raw.first_timestamp.map(|at| at.0));
    ClusterEvent {
        at: at.or(raw.metadata.creation_timestamp.map(|at| at.0)),
        about: format!("{}/{}", about.kind.unwrap_or_default(), about.name.unwrap_or_default()),
        warning: raw.type_.is_some_and(|kind| kind == "Warning"),
        reason: raw.reason.unwrap_or_default(),
        message: cut(&raw.message.unwrap_or_default()),
        count: u32::try_from(series.count.or(raw.count).unwrap_or(1)).unwrap_or(1).max(1),
    }
}
