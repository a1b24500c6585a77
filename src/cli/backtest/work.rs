//! The stages of a run: read the firings, find the pools, diagnose the firings, read the pools' histories.

use std::collections::BTreeMap;
use std::time::Instant;

use futures::stream::{self, StreamExt};

use super::labels::TrueCauses;
use super::progress::BacktestProgress;
use super::state::{BacktestState, FinishedPart, FinishedPool};
use super::{BacktestFindings, Setting, Stopped, firing, id, pools, read};
use crate::cli::args::BacktestArgs;
use crate::clip::format_count;
use crate::clock;
use crate::diagnose::Scope;
use crate::playbook::AlertRule;
use crate::report::backtest::{DiagnosedFiring, Firing, add, chosen, covers};

/// Diagnoses without an answer, one after the other, after which Prometheus counts as away.
const UNANSWERED: usize = 5;
/// Maximum number of pools whose history is read.
const POOLS: usize = 20;
/// Maximum number of unused labels that are named.
const UNUSED: usize = 5;

/// A firing that is diagnosed.
struct Due {
    id: String,
    firing: Firing,
    playbook: String,
    /// The name of its pool.
    pool: String,
}

/// Runs all stages; the findings are complete as far as they go whenever it is dropped.
pub(super) async fn run(
    args: &BacktestArgs,
    setting: &Setting<'_>,
    causes: &TrueCauses,
    state: &mut BacktestState,
    progress: &mut BacktestProgress,
    findings: &mut BacktestFindings,
) -> Result<(), Stopped> {
    let mut firings = firings(args, setting).await?;
    let deadline = Instant::now() + setting.config.deadline;
    // Servers without this API, such as VictoriaMetrics, still have the shipped rules' data.
    let rules = setting.prometheus.alerting_rules(deadline).await.unwrap_or_default();
    let shipped: Vec<&AlertRule> = setting.library.playbooks.values().flat_map(|playbook| &playbook.alerts).collect();
    read::date_conditions(&mut firings, &rules, &shipped);
    let range = setting.range;
    let days = clock::between(range.0, range.1).as_secs().div_ceil(86_400);
    progress.stage("days with pools", usize::try_from(days).unwrap_or(usize::MAX), 0);
    let days = pools::days(setting, || progress.step(setting.queries())).await?;
    let all_pools = pools::pools(&days);

    let is_wanted = |firing: &Firing| args.only.iter().all(|(name, value)| firing.labels.get(name) == Some(value));
    let (mut ours, mut playbooks) = (Vec::new(), BTreeMap::new());
    for firing in firings {
        let playbook = firing::playbook(setting, &rules, &firing);
        if !playbook.is_empty() || !firing::pools_of(&firing, &all_pools).is_empty() {
            playbooks.insert(id(&firing.labels, Some(firing.starts_at)), playbook);
            ours.push(firing);
        } else if is_wanted(&firing) {
            *findings.left_out.elsewhere.entry(firing.rule().to_owned()).or_default() += 1;
        }
    }
    let wanted = ours.iter().filter(|firing| is_wanted(firing)).cloned().collect();
    let (chosen, over) = chosen(wanted, args.max_firings as usize);
    findings.left_out.over_maximum = over;
    let due: Vec<Due> = chosen
        .into_iter()
        .map(|firing| {
            let id = id(&firing.labels, Some(firing.starts_at));
            let playbook = playbooks.remove(&id).unwrap_or_default();
            let pool = match firing::pools_of(&firing, &all_pools).as_slice() {
                [one] => pools::name(one),
                _ => pools::name(&Scope::of_labels(&firing.labels).dimensions),
            };
            Due { id, firing, playbook, pool }
        })
        .collect();
    let known: BTreeMap<String, &Firing> = due.iter().map(|due| (due.id.clone(), &due.firing)).collect();
    let unused = causes.unused(&known, range.1);
    if !unused.is_empty() {
        let names = unused.iter().take(UNUSED).cloned().collect::<Vec<_>>().join(", ");
        let labels = format_count(unused.len(), "label");
        findings.problems.push(format!("{labels} of the file fit no diagnosed firing: {names}"));
    }
    diagnose(args, setting, causes, due, state, progress, findings).await?;
    let scope = Scope::of_labels(&args.only.iter().cloned().collect());
    let pools: Vec<_> = all_pools.iter().filter(|pool| covers(&scope, pool)).collect();
    // Alerts without the wanted labels tell of a symptom all the same.
    histories(setting, &days, &pools, &ours, state, progress, findings).await
}

async fn firings(args: &BacktestArgs, setting: &Setting<'_>) -> Result<Vec<Firing>, Stopped> {
    match &args.firings {
        Some(path) => read::from_file(path, setting.range).map_err(Stopped::Failed),
        None => {
            let deadline = setting.config.deadline * 6;
            let read = read::from_prometheus(setting.prometheus, setting.range, deadline).await;
            read.map_err(|error| Stopped::Prometheus(error.to_string()))
        }
    }
}

/// Diagnoses the firings that no earlier run has diagnosed.
async fn diagnose(
    args: &BacktestArgs,
    setting: &Setting<'_>,
    causes: &TrueCauses,
    due: Vec<Due>,
    state: &mut BacktestState,
    progress: &mut BacktestProgress,
    findings: &mut BacktestFindings,
) -> Result<(), Stopped> {
    let earlier: BTreeMap<String, DiagnosedFiring> = state
        .finished
        .iter()
        .filter_map(|part| match part {
            FinishedPart::Firing(firing) => Some((firing.id.clone(), (**firing).clone())),
            FinishedPart::Pool(_) => None,
        })
        .collect();
    let truth = |due: &Due| causes.of(&due.id, &due.firing, setting.range.1);
    let total = due.len();
    let (done, open): (Vec<Due>, Vec<Due>) = due.into_iter().partition(|due| earlier.contains_key(&due.id));
    findings.resumed = done.len();
    let done =
        done.iter().filter_map(|due| Some(DiagnosedFiring { truth: truth(due), ..earlier.get(&due.id)?.clone() }));
    findings.firings.extend(done);
    progress.stage("firings", total, findings.resumed);
    let at_once = (args.concurrency as usize / 2).max(1);
    let diagnosing = open.iter().map(|due| async move {
        setting.has_queries_left()?;
        let diagnosed = firing::diagnosed(setting, &due.id, &due.firing, &due.playbook, &due.pool).await;
        tokio::time::sleep(setting.pause).await;
        diagnosed.map(|diagnosed| (due, diagnosed)).map_err(Stopped::Failed)
    });
    let mut diagnosing = stream::iter(diagnosing).buffer_unordered(at_once);
    let (mut unanswered, mut in_a_row) = (0, 0);
    while let Some(next) = diagnosing.next().await {
        let (due, diagnosed) = next?;
        match diagnosed {
            Ok(diagnosed) => {
                state.add(&FinishedPart::Firing(Box::new(diagnosed.clone()))).map_err(Stopped::Failed)?;
                findings.firings.push(DiagnosedFiring { truth: truth(due), ..diagnosed });
                in_a_row = 0;
            }
            Err(why) => {
                (unanswered, in_a_row) = (unanswered + 1, in_a_row + 1);
                if in_a_row >= UNANSWERED {
                    return Err(Stopped::Prometheus(why));
                }
            }
        }
        progress.step(setting.queries());
    }
    if unanswered > 0 {
        let firings = format_count(unanswered, "firing");
        let why = "Prometheus did not answer in time";
        findings.problems.push(format!("{firings} could not be diagnosed: {why}; pass a longer --deadline"));
    }
    Ok(())
}

/// Reads the histories of the pools that no earlier run has read.
async fn histories(
    setting: &Setting<'_>,
    days: &[pools::Day],
    all: &[&BTreeMap<String, String>],
    firings: &[Firing],
    state: &mut BacktestState,
    progress: &mut BacktestProgress,
    findings: &mut BacktestFindings,
) -> Result<(), Stopped> {
    let earlier: BTreeMap<String, FinishedPool> = state
        .finished
        .iter()
        .filter_map(|part| match part {
            FinishedPart::Pool(pool) => Some((pool.id.clone(), (**pool).clone())),
            FinishedPart::Firing(_) => None,
        })
        .collect();
    progress.stage("pools", all.len().min(POOLS), earlier.len());
    for &pool in all.iter().take(POOLS) {
        let id = id(pool, None);
        let finished = match earlier.get(&id) {
            Some(finished) => finished.clone(),
            None => {
                let finished = pools::judged(setting, &id, pool, days, firings).await?;
                state.add(&FinishedPart::Pool(Box::new(finished.clone()))).map_err(Stopped::Failed)?;
                progress.step(setting.queries());
                finished
            }
        };
        findings.unalerted.extend(finished.unalerted);
        findings.problems.extend(finished.problems);
        add(&mut findings.ladders, finished.ladders);
    }
    if all.len() > POOLS {
        let more = format_count(all.len() - POOLS, "more pool");
        findings.problems.push(format!("the history of {more} was not read: it reads {POOLS} at most"));
    }
    Ok(())
}
