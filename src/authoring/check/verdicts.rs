//! `llm-diagnose test`: the verdict tests beside the playbooks, pure and in milliseconds.
//!
//! A case gives signal values now and in the past; the resulting chain is compared with the expected one.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use diagnose::judge;
use findings::{Judged, Observation, Observations, ReplicaValue, SymptomVerdict, Verdict, reduce};
use knowledge::playbook::{Library, Lint, Problem, SourceFile, parse, suggestion};

/// The contents of `<playbook>.test.yaml`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "VerdictTest")]
pub(crate) struct TestFile {
    /// The playbook under test.
    pub playbook: String,
    /// Parts of `healthy-fleet.yaml` whose values the baseline has.
    #[serde(default)]
    pub healthy: Vec<String>,
    /// Healthy values, which are also the past, beside or instead of those of `healthy`; a signal that is in neither
    /// has no data.
    #[serde(default)]
    pub baseline: BTreeMap<String, Value>,
    /// The cases: one per cause, one healthy, one with missing data.
    pub cases: Vec<Case>,
}

/// A situation with its expected result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "VerdictCase")]
pub(crate) struct Case {
    /// The name, a sentence.
    pub name: String,
    /// Values that differ from the baseline now.
    #[serde(default)]
    pub now: BTreeMap<String, Value>,
    /// Values that differed from the baseline in the past.
    #[serde(default)]
    pub past: BTreeMap<String, Value>,
    /// Values per replica; the pool's value comes from them unless `now` has it.
    #[serde(default)]
    pub replicas: BTreeMap<String, BTreeMap<String, f64>>,
    /// The expected result.
    pub expect: Expect,
}

/// A number, `no data` or `no series`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "VerdictValue")]
pub(crate) enum Value {
    /// In the signal's unit.
    Number(f64),
    /// No value for the signal.
    NoData(NoData),
}

/// The reason why there is no number.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub(crate) enum NoData {
    /// No engine here reports it.
    #[serde(rename = "no data")]
    NoData,
    /// The query was answered, and there is no series.
    #[serde(rename = "no series")]
    NoSeries,
}

/// The expected result; absent fields are not compared.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "VerdictExpected")]
pub(crate) struct Expect {
    /// The symptom's verdict.
    pub symptom: SymptomVerdict,
    /// The best chain; empty for none.
    pub chain: Option<Vec<String>>,
    /// The verdict on the best chain's root.
    pub verdict: Option<Verdict>,
    /// Causes that must be ruled out.
    #[serde(default)]
    pub ruled_out: Vec<String>,
    /// Causes that must be unlikely.
    #[serde(default)]
    pub unlikely: Vec<String>,
    /// Causes that must stay undetermined.
    #[serde(default)]
    pub undetermined: Vec<String>,
}

/// The result of one case.
#[derive(Debug)]
pub struct CaseResult {
    /// The playbook.
    pub playbook: String,
    /// The name of the case.
    pub name: String,
    /// True if it is a user's own, and not shipped.
    pub own: bool,
    /// Differences from the expected result, with their places; empty if it passed.
    pub failures: Vec<Problem>,
}

/// Runs all verdict tests of the library.
///
/// # Errors
/// Returns the test files that cannot be read, as problems.
pub fn run(library: &Library) -> Result<Vec<CaseResult>, Vec<Problem>> {
    let mut results = Vec::new();
    let mut broken = Vec::new();
    for file in test_files(library) {
        match read(library, file).and_then(|test| run_file(library, file, &test)) {
            Ok(cases) => results.extend(cases),
            Err(problem) => broken.push(*problem),
        }
    }
    if broken.is_empty() { Ok(results) } else { Err(broken) }
}

/// Returns the files of verdict tests.
pub(super) fn test_files(library: &Library) -> impl Iterator<Item = &SourceFile> {
    // Signal tests need a Prometheus; they are not verdict tests.
    let tests = library.files.iter().filter(|(name, _)| name.ends_with(".test.yaml") && !name.starts_with("signals/"));
    tests.map(|(_, file)| file)
}

/// Reads a file of verdict tests, with the values of the healthy fleet in its baseline.
pub(super) fn read(library: &Library, file: &SourceFile) -> Result<TestFile, Box<Problem>> {
    let mut test: TestFile = parse(file)?;
    let parts = &library.healthy_fleet.parts;
    for part in &test.healthy {
        let values = parts.get(part).ok_or_else(|| {
            let part_names: Vec<&str> = parts.keys().map(String::as_str).collect();
            let message = format!("the healthy fleet has no part `{part}`");
            let hint = format!("expected one of {}", part_names.join(", "));
            Box::new(Problem::at(Lint::TestUnknownPart, file, part, message, Some(hint)))
        })?;
        for (signal, value) in values {
            test.baseline.entry(signal.clone()).or_insert(Value::Number(*value));
        }
    }
    Ok(test)
}

fn run_file(library: &Library, file: &SourceFile, test: &TestFile) -> Result<Vec<CaseResult>, Box<Problem>> {
    let is_signal = |name: &str| library.signals.contains_key(name);
    let case_signals = test.cases.iter().flat_map(|c| c.now.keys().chain(c.past.keys()).chain(c.replicas.keys()));
    if let Some(signal) = test.baseline.keys().chain(case_signals).find(|name| !is_signal(name)) {
        let hint = suggestion(signal, library.signals.keys().map(String::as_str));
        return Err(Box::new(Problem::at(
            Lint::TestUnknownSignal,
            file,
            signal,
            format!("unknown signal `{signal}`"),
            hint,
        )));
    }
    test.cases
        .iter()
        .map(|case| {
            let observations = observations(library, test, case);
            let judged = judge(library, &test.playbook, &observations).ok_or_else(|| {
                let message = format!("there is no playbook `{}`", test.playbook);
                Box::new(Problem::at(Lint::TestPlaybook, file, "playbook", message, None))
            })?;
            Ok(CaseResult {
                playbook: test.playbook.clone(),
                name: case.name.clone(),
                own: file.own,
                failures: compare(file, case, &judged),
            })
        })
        .collect()
}

/// Returns the healthy fleet of a test file.
pub(super) fn healthy(library: &Library, test: &TestFile) -> Observations {
    let expect = Expect {
        symptom: SymptomVerdict::Absent,
        chain: None,
        verdict: None,
        ruled_out: vec![],
        unlikely: vec![],
        undetermined: vec![],
    };
    let case = Case { name: String::new(), now: [].into(), past: [].into(), replicas: [].into(), expect };
    observations(library, test, &case)
}

pub(super) fn observations(library: &Library, test: &TestFile, case: &Case) -> Observations {
    let number = |value: Option<&Value>| match value {
        Some(Value::Number(n)) => Some(*n),
        Some(Value::NoData(_)) | None => None,
    };
    let names: BTreeSet<&String> =
        test.baseline.keys().chain(case.now.keys()).chain(case.past.keys()).chain(case.replicas.keys()).collect();
    let mut observations = Observations::default();
    let mut pool = BTreeSet::new();
    for name in names {
        let replicas: Vec<ReplicaValue> = case
            .replicas
            .get(name)
            .into_iter()
            .flatten()
            .map(|(name, value)| ReplicaValue { name: name.clone(), value: *value })
            .collect();
        pool.extend(replicas.iter().map(|r| r.name.clone()));
        let reduced = library
            .signals
            .get(name)
            .and_then(|s| reduce(s.fleet, replicas.iter().map(|r| r.value)))
            .or_else(|| replicas.iter().map(|r| r.value).reduce(f64::max));
        let value = match case.now.get(name) {
            Some(value) => number(Some(value)),
            None => reduced.or_else(|| number(test.baseline.get(name))),
        };
        let baseline = number(case.past.get(name).or_else(|| test.baseline.get(name)));
        let stated = case.now.get(name).or_else(|| test.baseline.get(name));
        let answered = value.is_some() || matches!(stated, Some(Value::NoData(NoData::NoSeries)));
        let why = value.is_none().then(|| if answered { "no series" } else { "not exported" }.to_owned());
        observations
            .signals
            .insert(name.clone(), Observation { value, replicas, baseline, answered, why, ..Observation::default() });
    }
    observations.pool = pool.into_iter().collect();
    observations
}

fn compare(file: &SourceFile, case: &Case, judged: &Judged) -> Vec<Problem> {
    let mut failures = Vec::new();
    let mut fail = |message: String, hint: Option<String>| {
        failures.push(Problem::at(Lint::TestVerdict, file, &case.name, format!("{}: {message}", case.name), hint));
    };
    if judged.symptom != case.expect.symptom {
        fail(format!("symptom is {:?}, expected {:?}", judged.symptom, case.expect.symptom), None);
    }
    let best = judged.chains.first().cloned().unwrap_or_default();
    if let Some(expected) = &case.expect.chain
        && *expected != best
    {
        let show = |chain: &[String]| if chain.is_empty() { "nothing".to_owned() } else { chain.join(" ← ") };
        let others: Vec<String> = judged
            .causes
            .values()
            .filter(|j| j.verdict >= Verdict::Possible || expected.contains(&j.id))
            .map(|j| format!("{} {:?} {:.2}", j.id, j.verdict, j.score))
            .collect();
        fail(
            format!("best chain is {}, expected {}", show(&best), show(expected)),
            Some(format!("verdicts: {}", others.join(", "))),
        );
    }
    if let (Some(expected), Some(root)) = (case.expect.verdict, best.last()) {
        let verdict = judged.causes.get(root).map(|j| j.verdict);
        if verdict != Some(expected) {
            fail(format!("`{root}` is {verdict:?}, expected {expected:?}"), None);
        }
    }
    for (ids, expected) in [
        (&case.expect.ruled_out, Verdict::RuledOut),
        (&case.expect.unlikely, Verdict::Unlikely),
        (&case.expect.undetermined, Verdict::Undetermined),
    ] {
        for id in ids {
            let verdict = judged.causes.get(id).map(|j| j.verdict);
            if verdict != Some(expected) {
                fail(format!("`{id}` is {verdict:?}, expected {expected:?}"), None);
            }
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::playbook::{Evidence, load};

    fn cases(library: &Library) -> Vec<(String, String, Observations)> {
        let tests = test_files(library).filter_map(|file| read(library, file).ok());
        tests
            .flat_map(|test| {
                let one = |case: &Case| (test.playbook.clone(), case.name.clone(), observations(library, &test, case));
                test.cases.iter().map(one).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Returns the checks that need no log; `None` if a log alone decides.
    fn without_logs(library: &Library, evidence: Vec<Evidence>) -> Option<Vec<Evidence>> {
        let of_log = |e: &Evidence| e.signal.as_ref().is_some_and(|s| library.signals[s].is_of_log());
        let mut out = Vec::new();
        for mut e in evidence {
            let before = e.any.len();
            e.any.retain(|e| !of_log(e));
            if of_log(&e) || (before > 0 && e.any.is_empty()) {
                if e.required {
                    return None;
                }
                continue;
            }
            out.push(e);
        }
        Some(out)
    }

    #[test]
    fn what_a_log_tells_has_a_case_where_it_says_so_and_one_where_it_says_something_else() {
        let library = load(None).unwrap();
        let cases = cases(&library);
        let has = |signal: &str, so: bool| {
            let values = cases.iter().filter_map(|(_, _, seen)| seen.signals.get(signal)?.value);
            values.into_iter().any(|value| (value > 0.0) == so)
        };
        let signals: BTreeSet<&str> =
            library.logs.values().flat_map(|file| &file.findings).filter_map(|f| f.tells.as_deref()).collect();
        assert!(signals.len() > 10, "{signals:?}");
        let missing: Vec<_> =
            signals.iter().flat_map(|s| [(s, true), (s, false)]).filter(|(s, so)| !has(s, *so)).collect();
        assert_eq!(missing, []);
    }

    #[test]
    fn logs_that_nobody_read_change_no_verdict_and_no_score_of_any_case() {
        let library = load(None).unwrap();
        let mut plain = library.clone();
        let mut only_logs = BTreeSet::new();
        for cause in plain.causes.values_mut() {
            match without_logs(&library, std::mem::take(&mut cause.evidence)) {
                Some(evidence) => cause.evidence = evidence,
                None => _ = only_logs.insert(cause.cause.clone()),
            }
        }
        for playbook in plain.playbooks.values_mut() {
            playbook.symptom = without_logs(&library, std::mem::take(&mut playbook.symptom)).unwrap();
            for entry in playbook.causes.iter_mut().filter(|entry| entry.id.is_some()) {
                match without_logs(&library, std::mem::take(&mut entry.evidence)) {
                    Some(evidence) => entry.evidence = evidence,
                    None => _ = only_logs.insert(entry.target().to_owned()),
                }
            }
        }
        for playbook in plain.playbooks.values_mut() {
            playbook.causes.retain(|entry| !only_logs.contains(entry.target()));
        }
        assert!(only_logs.contains("collective-failed") && only_logs.contains("gpu-taken"), "{only_logs:?}");
        let unread: Vec<_> = cases(&library)
            .into_iter()
            .filter(|(_, _, seen)| !seen.signals.keys().any(|signal| library.signals[signal].is_of_log()))
            .collect();
        assert!(unread.len() > 500, "{}", unread.len());
        for (playbook, name, seen) in unread {
            let mut with = judge(&library, &playbook, &seen).unwrap();
            for id in &only_logs {
                if let Some(judged) = with.causes.remove(id) {
                    assert_eq!((judged.verdict, judged.evidence), (Verdict::Undetermined, vec![]), "{name}: {id}");
                }
            }
            assert_eq!(Some(with), judge(&plain, &playbook, &seen), "{playbook}: {name}");
        }
    }
}
