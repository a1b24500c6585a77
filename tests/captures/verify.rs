//! Tries on real servers the checks that show that a step worked: each does not hold while the fault is there, and holds
//! before it. A check without data says nothing.

use std::collections::{BTreeMap, BTreeSet};

use diagnose::verify_all;
use findings::{Diagnosis, Outcome};
use knowledge::playbook::{Condition, Library, Step, Verify};
use knowledge::signal::VersionReq;
use prom::Prometheus;

use crate::run::{Answer, Case};

/// A signal with the condition on it.
type Check<'a> = (&'a str, &'a Condition);

/// The result of trying steps' checks.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// The number of checks that do not hold yet during the fault, so that they are shown.
    pub(crate) shown: usize,
    /// The checks that cannot tell, in sentences.
    pub(crate) unable: Vec<String>,
}

/// Tries the checks of right answers' steps.
pub(crate) async fn tried(library: &Library, prometheus: &Prometheus, answers: &[Answer]) -> Tried {
    let mut count = 0;
    let mut out = BTreeSet::new();
    let mut by_engine: BTreeMap<&str, Vec<Check<'_>>> = BTreeMap::new();
    for answer in answers.iter().filter(|answer| answer.is_right() && !answer.case.is_healthy()) {
        let case = &answer.case;
        let steps: Vec<Vec<Check<'_>>> = answer.diagnosis.iter().flat_map(|found| checks(library, found)).collect();
        let during = outcomes(library, prometheus, case, case.at(), &steps.concat()).await;
        let mut during = during.into_iter();
        let mut shown = Vec::new();
        for step in &steps {
            let said: Vec<Outcome> = during.by_ref().take(step.len()).collect();
            // As in a diagnosis: the first that does not hold yet.
            match said.iter().position(|said| *said == Outcome::NotMet) {
                Some(at) => shown.push(step[at]),
                None if said.contains(&Outcome::Met) => {
                    let all: Vec<String> = step.iter().map(told).collect();
                    out.insert(format!("{}: {} holds during the fault", case.id, all.join(" or ")));
                }
                None => {}
            }
        }
        count += shown.len();
        let before = outcomes(library, prometheus, case, case.before(), &shown).await;
        for (check, _) in shown.iter().zip(before).filter(|(_, said)| *said == Outcome::NotMet) {
            out.insert(format!("{}: {} does not hold before the fault either", case.id, told(check)));
        }
        // What is compared with the past says nothing of a server whose load is another one.
        by_engine.entry(case.engine()).or_default().extend(shown.iter().filter(|(_, when)| !when.needs_baseline()));
    }
    for case in answers.iter().map(|answer| &answer.case).filter(|case| case.is_healthy()) {
        let Some(checks) = by_engine.get(case.engine()) else { continue };
        let said = outcomes(library, prometheus, case, case.at(), checks).await;
        for (check, _) in checks.iter().zip(said).filter(|(_, said)| *said == Outcome::NotMet) {
            out.insert(format!("{}: {} does not hold on the healthy server", case.id, told(check)));
        }
    }
    Tried { shown: count, unable: out.into_iter().collect() }
}

/// Returns, for each step of the best chain's nodes that fits the engines and GPUs that were seen, the checks that show
/// that it worked. The platform and the greatest number of steps that a message shows are left out.
fn checks<'a>(library: &'a Library, found: &Diagnosis) -> Vec<Vec<Check<'a>>> {
    let chain: &[String] = found.root().map_or(&[], |root| &root.chain);
    let gpus: BTreeSet<_> = found.engines.iter().filter_map(|e| library.engines.get(&e.engine)?.gpu).collect();
    let there = |step: &Step| {
        let req = step.engine.as_deref().map(|engine| engine.parse::<VersionReq>().unwrap());
        let version = |at_least: &Option<String>| at_least.as_ref().map(|version| version.parse().unwrap());
        req.is_none_or(|req| found.engines.iter().any(|e| req.allows(&e.engine, version(&e.at_least).as_ref())))
            && step.gpu.is_none_or(|gpu| gpus.is_empty() || gpus.contains(&gpu))
    };
    let nodes =
        library.reachable(&found.symptom.playbook).into_iter().filter(|node| chain.iter().any(|id| id == node.id));
    let steps = nodes.flat_map(|node| node.now.iter().chain(node.lasting)).filter(|step| there(step));
    let of =
        |verify: &'a Verify| verify.checks().into_iter().map(|check| (check.signal.as_str(), &check.when)).collect();
    steps.filter_map(|step| step.verify.as_ref()).map(of).collect()
}

fn told((signal, when): &Check<'_>) -> String {
    format!("`{signal} {when}`")
}

/// The outcomes of checks at a moment.
async fn outcomes(
    library: &Library,
    prometheus: &Prometheus,
    case: &Case,
    at: i64,
    checks: &[Check<'_>],
) -> Vec<Outcome> {
    let (results, problems) = verify_all(library, prometheus, &case.request(at), checks).await;
    assert_eq!(problems, Vec::<String>::new(), "{}", case.id);
    results.into_iter().map(|result| result.outcome).collect()
}
