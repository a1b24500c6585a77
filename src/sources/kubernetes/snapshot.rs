//! Collects the snapshot of a pool: its pods, then everything about them concurrently, within one deadline.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Deserialize;

use super::ask::{ApiQuery, ApiSession, Failure, Listed};
use super::{ClusterSnapshot, Kubernetes, SnapshotRequest, events, find, logs, nodes, objects};
use ::logs::Log;
use knowledge::gap::{Gap, GapReason};

/// Maximum number of reported gaps; further ones are counted.
const MAX_GAPS: usize = 100;

/// The gaps of a snapshot, each a name and a reason.
#[derive(Debug, Default)]
pub(super) struct SnapshotGaps(Vec<Gap>);

impl SnapshotGaps {
    pub(super) fn note(&mut self, what: impl Into<String>, reason: impl Into<GapReason>) {
        let entry = Gap::new(what, reason);
        if !self.0.contains(&entry) {
            self.0.push(entry);
        }
    }

    /// Notes something that the server does not have, has more of than is kept, or may not be asked for.
    pub(super) fn note_absent(&mut self, what: impl Into<String>, reason: impl Into<String>) {
        self.note(what, GapReason::Absent(reason.into()));
    }

    /// Notes the parts that a list lacks.
    pub(super) fn listed<T>(&mut self, what: &str, listed: &Listed<T>) {
        if let Some(failure) = &listed.failure {
            self.note(what, failure);
        }
        if listed.unreadable > 0 {
            self.note(what, GapReason::Failed(format!("{} of them cannot be read", listed.unreadable)));
        }
        if listed.more {
            self.note_absent(what, format!("there are more than the {} that were read", listed.items.len()));
        }
    }

    fn finish(mut self) -> Vec<Gap> {
        let over = self.0.split_off(MAX_GAPS.min(self.0.len()));
        if !over.is_empty() {
            let reason = format!("{} other things, for such reasons", over.len());
            let failed = over.iter().any(|gap| matches!(gap.reason, GapReason::Failed(_)));
            self.0.push(Gap::new("more", if failed { GapReason::Failed(reason) } else { GapReason::Absent(reason) }));
        }
        self.0
    }
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "gitVersion")]
    version: String,
}

impl Kubernetes {
    pub(super) fn session(&self, deadline: Instant) -> ApiSession<'_> {
        ApiSession { client: &self.client, server: &self.server, slots: &self.slots, deadline }
    }

    pub(super) fn may_ask(&self, namespace: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed == namespace)
    }

    /// Reads the API server's version, which every authenticated user may.
    ///
    /// # Errors
    /// The reason why there is no answer, in a sentence.
    pub async fn ping(&self, within: Duration) -> Result<String, String> {
        let ask = self.session(Instant::now() + within);
        let version: Result<Version, Failure> = ask.json("", ApiQuery::Get("version"), "get /version").await;
        version.map(|version| super::ask::words(&version.version)).map_err(|failure| failure.to_string())
    }

    /// Collects the snapshot of the pool. Parts that are not available before the deadline are listed in `missing`.
    pub async fn snapshot(&self, request: &SnapshotRequest, deadline: Instant) -> ClusterSnapshot {
        let ask = self.session(deadline);
        let mut missing = SnapshotGaps::default();
        let version = ask.json("", ApiQuery::Get("version"), "get /version");
        let (version, search) = tokio::join!(version, find::find(ask, request, &self.allowed, &mut missing));
        let version: Result<Version, Failure> = version;
        let mut snapshot = ClusterSnapshot::default();
        match version {
            Ok(version) => snapshot.version = Some(super::ask::words(&version.version)),
            Err(failure) if search.dead => missing.note("the cluster", &failure),
            Err(failure) => missing.note("the cluster's version", &failure),
        }
        if search.dead {
            snapshot.missing = missing.finish();
            return snapshot;
        }
        let owners: BTreeSet<_> = search.pods.iter().filter_map(|(_, owner)| owner.clone()).collect();
        let (pods, controllers): (Vec<_>, Vec<_>) = search.pods.into_iter().unzip();
        snapshot.pods = pods;
        // Each request notes its gaps separately, because all run concurrently.
        let mut missed: [SnapshotGaps; 5] = Default::default();
        let [no_nodes, no_events, no_owners, no_objects, no_logs] = &mut missed;
        let on_nodes = snapshot.pods.iter().any(|pod| pod.node.is_some());
        let of_nodes = on_nodes && self.may_ask(events::CLUSTER_WIDE);
        let (nodes, events, (owners, mut objects), listed, logs) = tokio::join!(
            nodes::read_nodes(ask, &snapshot.pods, no_nodes),
            events::list_events(ask, &search.namespaces, of_nodes, request.since, no_events),
            objects::climb(ask, owners, no_owners),
            objects::list(ask, &search.namespaces, no_objects),
            logs::read_logs(ask, &snapshot.pods, request.since, request.log_bytes, no_logs),
        );
        for (pod, owner) in snapshot.pods.iter_mut().zip(&controllers) {
            pod.owner = owner.as_ref().map(|owner| owners.top(owner).display_name());
        }
        let of_pods = snapshot.pods.iter().map(|pod| &pod.name).chain(&request.pods).map(|name| format!("Pod/{name}"));
        let of_nodes = nodes.iter().map(|node| format!("Node/{}", node.name));
        let about = of_pods.chain(of_nodes).chain(owners.all().map(|owner| owner.display_name())).collect();
        missed.into_iter().flat_map(|missed| missed.0).for_each(|gap| missing.note(gap.what, gap.reason));
        snapshot.events = events::of(events, &about, &mut missing);
        objects.extend(listed);
        snapshot.objects = objects::bounded(objects, &mut missing);
        (snapshot.nodes, snapshot.logs) = (nodes, logs);
        snapshot.missing = missing.finish();
        snapshot
    }

    /// Reads only the logs of these pods and their siblings, at most `bytes` in total; returns gaps as in
    /// [`ClusterSnapshot::missing`].
    pub async fn logs(
        &self,
        namespace: Option<&str>,
        pods: &[String],
        since: Timestamp,
        bytes: u64,
        deadline: Instant,
    ) -> (Vec<Log>, Vec<Gap>) {
        let ask = self.session(deadline);
        let mut missing = SnapshotGaps::default();
        let request =
            SnapshotRequest { namespace: namespace.map(str::to_owned), pods: pods.to_vec(), since, log_bytes: bytes };
        let search = find::find(ask, &request, &self.allowed, &mut missing).await;
        let pods: Vec<_> = search.pods.into_iter().map(|(pod, _)| pod).collect();
        let logs = logs::read_logs(ask, &pods, since, bytes, &mut missing).await;
        (logs, missing.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_cannot_be_read_are_a_failure_and_items_beyond_the_limit_are_none() {
        let mut gaps = SnapshotGaps::default();
        gaps.listed("pods", &Listed::<()> { items: vec![], unreadable: 2, more: true, failure: None });
        let failed = Gap::failed("pods", "2 of them cannot be read");
        assert_eq!(gaps.finish(), [failed, Gap::absent("pods", "there are more than the 0 that were read")]);
    }

    #[test]
    fn gaps_that_are_only_counted_are_a_failure_if_one_of_them_is() {
        let counted = |last: GapReason| {
            let mut gaps = SnapshotGaps::default();
            (0..MAX_GAPS).for_each(|n| gaps.note_absent(format!("pod {n}"), "too many"));
            gaps.note("the last", last);
            gaps.finish().pop()
        };
        let reason = "1 other things, for such reasons";
        assert_eq!(counted(GapReason::failed("no answer")), Some(Gap::failed("more", reason)));
        assert_eq!(counted(GapReason::Absent("too many".to_owned())), Some(Gap::absent("more", reason)));
    }
}
