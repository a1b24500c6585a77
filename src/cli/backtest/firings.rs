//! The diagnoses of all firings, some at a time.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt};

use super::state::FinishedPart;
use super::work::Work;
use super::{Stopped, firing};
use crate::clip::format_count;
use crate::report::backtest::{DiagnosedFiring, Firing};

/// Diagnoses without an answer, one after the other, after which Prometheus counts as away.
pub(super) const UNANSWERED: usize = 5;

/// A firing that is diagnosed.
#[derive(Debug)]
pub(super) struct DueFiring {
    pub(super) id: String,
    pub(super) firing: Firing,
    /// The playbook that it selects; empty if none.
    pub(super) playbook: String,
    /// The name of its pool.
    pub(super) pool: String,
}

/// Diagnoses the firings that no earlier run has diagnosed. Returns a sentence about those that had no answer.
pub(super) async fn diagnose(
    work: &mut Work<'_>,
    due: Vec<DueFiring>,
    truths: &BTreeMap<String, String>,
) -> Result<Option<String>, Stopped> {
    let setting = work.setting;
    let finished: BTreeSet<String> = work.findings.firings.iter().map(|firing| firing.id.clone()).collect();
    let total = due.len();
    let open: Vec<DueFiring> = due.into_iter().filter(|due| !finished.contains(&due.id)).collect();
    work.progress.stage("firings", total, total - open.len());
    let at_once = (work.args.concurrency as usize / 2).max(1);
    let diagnosing = open.iter().map(|due| async move {
        setting.has_queries_left()?;
        let diagnosed = firing::diagnosed(setting, due).await;
        tokio::time::sleep(setting.pause).await;
        diagnosed.map_err(Stopped::Failed)
    });
    let mut diagnosing = stream::iter(diagnosing).buffer_unordered(at_once);
    let mut stopped = None;
    let (mut unanswered, mut in_a_row) = (None, 0);
    let mut missed = 0;
    while let Some(next) = diagnosing.next().await {
        match next {
            // What has begun is finished.
            Err(Stopped::Queries(most)) => stopped = Some(Stopped::Queries(most)),
            Err(other) => return Err(other),
            Ok(Ok(diagnosed)) => {
                work.state.add(&FinishedPart::Firing(Box::new(diagnosed.clone()))).map_err(Stopped::Failed)?;
                let truth = truths.get(&diagnosed.id).cloned();
                work.findings.firings.push(DiagnosedFiring { truth, ..diagnosed });
                in_a_row = 0;
                work.progress.step(setting.queries());
            }
            Ok(Err(why)) => {
                (missed, in_a_row) = (missed + 1, in_a_row + 1);
                if in_a_row >= UNANSWERED {
                    return Err(Stopped::Prometheus(why));
                }
                unanswered = Some(why);
                work.progress.step(setting.queries());
            }
        }
    }
    let missed = format_count(missed, "firing");
    let hint = "the same command tries again, pass a longer --deadline if Prometheus is slow";
    match stopped {
        Some(stopped) => Err(stopped),
        None => Ok(unanswered.map(|why| format!("{missed} could not be diagnosed: {why}; {hint}"))),
    }
}
