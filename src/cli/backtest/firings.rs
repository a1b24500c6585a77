//! The diagnoses of all firings, some at a time.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt};

use super::Stopped;
use super::Work;
use super::firing::{self, DueFiring, FiringAttempt};
use super::state::FinishedPart;
use ::backtest::DiagnosedFiring;
use knowledge::clip::format_count;

/// Diagnoses without an answer, one after the other, after which Prometheus counts as away.
pub(super) const UNANSWERED: usize = 5;

/// Diagnoses the firings that no earlier run has diagnosed. Those without an answer are a limit of the result, and open.
pub(super) async fn diagnose(
    work: &mut Work<'_>,
    due: Vec<DueFiring>,
    truths: &BTreeMap<String, String>,
) -> Result<(), Stopped> {
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
    let mut in_a_row = 0;
    let mut missed: Vec<String> = Vec::new();
    while let Some(next) = diagnosing.next().await {
        match next {
            // What has begun is finished.
            Err(Stopped::Queries(most)) => {
                stopped = Some(Stopped::Queries(most));
                continue;
            }
            Err(other) => return Err(other),
            Ok(FiringAttempt::Diagnosed(diagnosed)) => {
                work.state.add(&FinishedPart::Firing(diagnosed.clone())).map_err(Stopped::Failed)?;
                let truth = truths.get(&diagnosed.id).cloned();
                work.findings.firings.push(DiagnosedFiring { truth, ..*diagnosed });
                in_a_row = 0;
            }
            Ok(FiringAttempt::Late(why)) => {
                in_a_row = 0;
                missed.push(why);
            }
            Ok(FiringAttempt::Unanswered(why)) => {
                in_a_row += 1;
                if in_a_row >= UNANSWERED {
                    return Err(Stopped::Prometheus(why));
                }
                missed.push(why);
            }
        }
        work.progress.step(setting.queries());
    }
    if let Some(why) = missed.last() {
        work.state.has_open_parts = true;
        let firings = format_count(missed.len(), "firing");
        let hint = "the same command tries again, pass a longer --deadline if Prometheus is slow";
        work.findings.limits.push(format!("{firings} could not be diagnosed: {why}; {hint}"));
    }
    stopped.map_or(Ok(()), Err)
}
