//! Whether the steps hold what they say: flags exist in the stated versions, and a `verify` is able to tell.

use std::collections::{BTreeMap, BTreeSet};

use super::verdicts::{TestFile, healthy, observations};
use crate::diagnose::{Observations, Outcome, SymptomVerdict, eased, holds, judge};
use crate::playbook::{Library, NoVerify, Problem, Step, Verify, parse};
use crate::signal::VersionReq;

/// A step with the file and the id that it belongs to.
struct Told<'a> {
    file: String,
    id: &'a str,
    step: &'a Step,
}

fn steps(library: &Library) -> Vec<Told<'_>> {
    let mut out = Vec::new();
    for p in library.playbooks.values() {
        let file = || format!("{}.yaml", p.playbook);
        let own = p.now.iter().chain(&p.lasting).map(|step| (p.playbook.as_str(), step));
        let written = p.causes.iter().flat_map(|entry| {
            let all = entry.now.iter().chain(&entry.lasting);
            all.map(move |step| (entry.target(), step))
        });
        out.extend(own.chain(written).map(|(id, step)| Told { file: file(), id, step }));
    }
    for c in library.causes.values() {
        let own = c.now.iter().chain(&c.lasting);
        out.extend(own.map(|step| Told { file: format!("causes/{}.yaml", c.cause), id: &c.cause, step }));
    }
    out
}

/// Flags that steps name for versions that do not have them yet; which are gone is looked at elsewhere.
pub(super) fn flags(library: &Library, problems: &mut Vec<Problem>) {
    for Told { file, step, .. } in steps(library) {
        let Some(Ok(req)) = step.engine.as_deref().map(str::parse::<VersionReq>) else { continue };
        let rows = library.tables.engine_flags.rows.iter().filter(|row| row.engine == req.engine);
        for (row, since) in rows.filter_map(|row| Some((row, row.since.as_ref()?))) {
            let old = req.at_least.as_ref().is_none_or(|least| least < since);
            if let Some(file) = library.files.get(&file).filter(|_| old && names(&step.action, &row.flag)) {
                let message = format!("`{}` exists in {} only from {since}", row.flag, row.engine);
                let hint = Some(format!("write `engine: {} >= {since}`", row.engine));
                problems.push(Problem::at("step/new-flag", file, first(step), message, hint));
            }
        }
    }
}

/// Whether a text has a flag as a word of its own.
fn names(text: &str, flag: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).any(|word| word == flag)
}

fn first(step: &Step) -> &str {
    let end = step.action.char_indices().nth(40).map_or(step.action.len(), |(at, _)| at);
    step.action.get(..end).and_then(|text| text.lines().next()).unwrap_or_default()
}

/// A verdict test's case in which something was found.
struct Case {
    seen: Observations,
    /// Whether the symptom's own check can be turned round.
    eased: bool,
    /// The number of its file's healthy fleet.
    fleet: usize,
}

/// Steps whose `verify` cannot tell: it holds although the fault is there, or not on the healthy fleet of any test.
pub fn verifies(library: &Library) -> Vec<Problem> {
    let mut fleets = Vec::new();
    let mut found: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    let files = library.files.iter().filter(|(name, _)| name.ends_with(".test.yaml") && !name.starts_with("signals/"));
    for test in files.filter_map(|(_, file)| parse::<TestFile>(file).ok()) {
        for case in &test.cases {
            let seen = observations(library, &test, case);
            let Some(judged) = judge(library, &test.playbook, &seen) else { continue };
            if judged.symptom != SymptomVerdict::Confirmed {
                continue;
            }
            let eased = eased(library, &judged.evidence).is_some();
            let chain = judged.chains.into_iter().next().unwrap_or_default();
            for id in chain.into_iter().chain([test.playbook.clone()]).collect::<BTreeSet<_>>() {
                found.entry(id).or_default().push(Case { seen: seen.clone(), eased, fleet: fleets.len() });
            }
        }
        fleets.push(healthy(library, &test));
    }
    let mut problems = Vec::new();
    for Told { file, id, step } in steps(library) {
        let cases = found.get(id).map_or(&[][..], Vec::as_slice);
        if let (Some(message), Some(file)) = (cannot_tell(library, id, step, cases, &fleets), library.files.get(&file))
        {
            problems.push(Problem::at("test/verify", file, first(step), message, None));
        }
    }
    problems
}

/// Why a step's check is not able to tell whether it worked.
fn cannot_tell(library: &Library, id: &str, step: &Step, cases: &[Case], fleets: &[Observations]) -> Option<String> {
    let outcome = |v: &Verify, seen: &Observations| holds(library, &v.signal, &v.when, seen);
    match (&step.verify, step.no_verify) {
        (Some(_), Some(_)) => Some("a step with a `verify` needs no `no_verify`".to_owned()),
        (None, None) => Some("a step has a `verify`, or `no_verify` says why none is possible".to_owned()),
        (None, Some(NoVerify::Symptom)) => {
            let none = !cases.iter().any(|case| case.eased);
            none.then(|| {
                format!("in no case in which `{id}` is found the symptom has a check that can be turned round")
            })
        }
        (None, Some(NoVerify::Looks | NoVerify::Prevents | NoVerify::Unseen)) => None,
        (Some(v), None) => {
            let said: Vec<_> = cases.iter().map(|case| (case, outcome(v, &case.seen))).collect();
            let open = said.iter().filter(|(_, outcome)| *outcome == Outcome::NotMet).count();
            let held = said.iter().filter(|(_, outcome)| *outcome == Outcome::Met).count();
            let well = said
                .iter()
                .any(|(case, _)| fleets.get(case.fleet).is_some_and(|fleet| outcome(v, fleet) == Outcome::Met));
            let (signal, when) = (&v.signal, &v.when);
            if open + held == 0 {
                Some(format!("`{signal}` has a value in none of the {} cases in which `{id}` is found", cases.len()))
            } else if open < held {
                Some(format!("`{signal} {when}` holds in {held} of {} cases in which `{id}` is found", open + held))
            } else if !well {
                Some(format!("`{signal} {when}` does not hold on the healthy fleet of any test that finds `{id}`"))
            } else {
                None
            }
        }
    }
}
