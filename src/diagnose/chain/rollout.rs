//! The changes of the last rollout, for a cause that is mended by going back to the revision before.

use std::time::{Duration, Instant};

use crate::observe::log_sources::LogSources;
use findings::rollout::Rollout;
use findings::{Diagnosis, Request};
use knowledge::clock;
use knowledge::playbook::{Library, StepChange};

/// Maximum wait for the cluster; the first message is posted already.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum age of a rollout before the diagnosis: what changed earlier is hardly the cause.
const RECENT: Duration = Duration::from_secs(86_400);

/// Reads the last rollout from the cluster; `None` if no cause of the best chain has a step that goes back, without access
/// to the cluster, or if nothing changed within a day.
pub(super) async fn last_rollout(
    library: &Library,
    request: &Request,
    diagnosis: &Diagnosis,
    sources: Option<&LogSources>,
    pool: &[String],
    deadline: Instant,
) -> Option<Rollout> {
    let (cluster, _) = sources?.kubernetes.as_ref()?;
    let namespace = request.scope.dimensions.get("namespace")?;
    // The first link is the symptom, whose steps are for whatever caused it.
    let causes = diagnosis.root()?.chain.get(1..)?;
    let nodes = library.reachable(&request.playbook);
    let mut steps = nodes.iter().filter(|node| causes.iter().any(|id| id == node.id)).flat_map(|node| node.now);
    if !steps.any(|step| step.changes == Some(StepChange::Revision)) {
        return None;
    }
    let rollout = cluster.rollout(namespace, pool, deadline.min(Instant::now() + PATIENCE)).await?;
    let is_recent = rollout.at.is_some_and(|at| clock::after(at, RECENT) >= request.at && at <= request.at);
    (is_recent && !rollout.changes.is_empty()).then_some(rollout)
}
