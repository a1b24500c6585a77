//! Lints of the steps: flags exist in the stated versions, and a `verify` can show whether the step worked.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::verdicts::{healthy, observations, read, test_files};
use diagnose::{holds, invert_condition, inverted_symptom_check, judge};
use findings::{Observations, Outcome, SymptomVerdict};
use knowledge::playbook::{Evidence, Library, Lint, NoVerify, Problem, SourceFile, Step, Verify};
use knowledge::signal::VersionReq;

/// A step with its owner.
pub(crate) struct OwnedStep<'a> {
    file: String,
    pub(crate) id: &'a str,
    pub(crate) step: &'a Step,
    /// True if it relieves at once.
    pub(super) now: bool,
    /// The checks that detect the fault.
    found_by: &'a [Evidence],
}

impl OwnedStep<'_> {
    /// Returns a problem at its line in its file: that of its playbook or cause, or the user's one
    /// that changes it.
    pub(super) fn problem(
        &self,
        library: &Library,
        lint: Lint,
        message: String,
        hint: Option<String>,
    ) -> Option<Problem> {
        let (file, line) = place(library, &self.file, self.step)?;
        Some(Problem::on_line(lint, file, line, message, hint))
    }

    /// Returns true if its `verify` is to be tried with a user's files: the step is a user's, or the check is on a signal
    /// whose condition an override changes. A shipped threshold that a user did not change says nothing about this fleet.
    fn is_of_user(&self, library: &Library) -> bool {
        let changed = |check: &Verify| library.moved.contains(&(self.id.to_owned(), check.signal.clone()));
        let own_file = place(library, &self.file, self.step).is_some_and(|(file, _)| file.own);
        own_file || self.step.verify.iter().flat_map(Verify::checks).any(changed)
    }
}

/// Returns the file and the line of a step of the file at `path`.
pub(super) fn place<'a>(library: &'a Library, path: &str, step: &Step) -> Option<(&'a SourceFile, usize)> {
    match &step.origin {
        Some(origin) => Some((library.files.get(&origin.file)?, origin.line)),
        None => library.files.get(path).map(|file| (file, file.line_of(first(step)))),
    }
}

pub(crate) fn steps(library: &Library) -> Vec<OwnedStep<'_>> {
    let mut out = Vec::new();
    for p in library.playbooks.values() {
        let file = format!("{}.yaml", p.playbook);
        out.extend(owned_steps(&file, &p.playbook, &p.now, &p.lasting, &p.symptom));
        for entry in &p.causes {
            out.extend(owned_steps(&file, entry.target(), &entry.now, &entry.lasting, &entry.evidence));
        }
    }
    for c in library.causes.values() {
        out.extend(owned_steps(&format!("causes/{}.yaml", c.cause), &c.cause, &c.now, &c.lasting, &c.evidence));
    }
    out
}

fn owned_steps<'a>(
    file: &str,
    id: &'a str,
    now: &'a [Step],
    lasting: &'a [Step],
    found_by: &'a [Evidence],
) -> impl Iterator<Item = OwnedStep<'a>> {
    let all = now.iter().map(|step| (step, true)).chain(lasting.iter().map(|step| (step, false)));
    all.map(move |(step, now)| OwnedStep { file: file.to_owned(), id, step, now, found_by })
}

/// Reports steps whose `no_verify` contradicts the data.
pub(super) fn lint_no_verify(library: &Library, problems: &mut Vec<Problem>) {
    for owned in steps(library) {
        if let Some((message, hint)) = wrong_word(library, &owned) {
            problems.extend(owned.problem(library, Lint::StepNoVerify, message, Some(hint.to_owned())));
        }
    }
}

/// Returns the contradiction of a step's `no_verify`, and a hint.
fn wrong_word(library: &Library, owned: &OwnedStep<'_>) -> Option<(String, &'static str)> {
    let OwnedStep { step, now, .. } = owned;
    match step.no_verify? {
        NoVerify::Looks => match acts(&step.action) {
            Some(command) => Some((
                format!("`looks` changes nothing, and `{command}` does"),
                "write the `verify` that shows that it worked, or `no_verify: symptom`",
            )),
            None => (!now).then(|| {
                ("a step that only looks prevents nothing".to_owned(), "put it under `now`, or name the lasting change")
            }),
        },
        NoVerify::Prevents => now.then(|| {
            (
                "`prevents` changes nothing today, and `now` is for steps that relieve at once".to_owned(),
                "put it under `lasting`, or write a `verify`",
            )
        }),
        NoVerify::Symptom => (!now).then(|| {
            (
                "`symptom` is for steps that relieve at once".to_owned(),
                "write a `verify`, or `no_verify: prevents` where nothing changes today",
            )
        }),
        NoVerify::Unseen => seen_by(library, owned).map(|signal| {
            (format!("`unseen`, but `{signal}` shows it when it gets better"), "write a `verify` with that signal")
        }),
    }
}

/// Returns the first command in back-ticks that changes something.
fn acts(action: &str) -> Option<&str> {
    Step::code(action).find(|span| Step::changes_something(span))
}

/// Returns a required signal of the step's node that shows, for its engine, the end of the fault; log lines never go
/// away.
fn seen_by<'a>(library: &Library, owned: &OwnedStep<'a>) -> Option<&'a str> {
    let engine = owned.step.engine.as_deref().and_then(|req| req.parse::<VersionReq>().ok()).map(|req| req.engine);
    let shows_end = |signal: &str| match library.signals.get(signal) {
        Some(s) if s.is_of_log() => false,
        Some(_) => engine.as_ref().and_then(|name| library.engines.get(name)).is_none_or(|of| {
            let of_its_kind = library.signals[signal].of.contains(&of.kind);
            !of_its_kind || of.signals.get(signal).is_some_and(|s| s.query.is_some())
        }),
        None => false,
    };
    let mut checks = owned.found_by.iter().filter(|e| e.required).flat_map(Evidence::checks);
    checks
        .find(|(signal, when)| invert_condition(library, signal, when).is_some() && shows_end(signal))
        .map(|(signal, _)| signal)
}

/// Reports flags that the stated versions do not have yet, or no longer have.
pub(super) fn flags(library: &Library, problems: &mut Vec<Problem>) {
    for owned in steps(library) {
        let step = owned.step;
        let req = step.engine.as_deref().and_then(|engine| engine.parse::<VersionReq>().ok());
        let mut say = |lint, message, hint| problems.extend(owned.problem(library, lint, message, Some(hint)));
        let words = words(&step.action);
        let rows = library.tables.engine_flags.rows.iter();
        let rows = rows.filter(|row| req.as_ref().is_none_or(|req| req.engine == row.engine));
        for row in rows.filter(|row| words.contains(row.flag.as_str())) {
            let (flag, engine) = (&row.flag, &row.engine);
            if let Some((since, req)) = row.since.as_ref().zip(req.as_ref())
                && req.at_least.as_ref().is_none_or(|least| least < since)
            {
                let hint = format!("write `engine: {engine} >= {since}`");
                say(Lint::StepNewFlag, format!("`{flag}` exists in {engine} only from {since}"), hint);
            }
            if let Some(gone) = &row.gone
                && req.as_ref().and_then(|req| req.below.as_ref()).is_none_or(|below| below > gone)
            {
                let hint = format!("use {}", row.instead.as_deref().unwrap_or("nothing"));
                say(Lint::StepDeadFlag, format!("`{flag}` no longer exists in {engine} from {gone}"), hint);
            }
        }
    }
}

/// Returns the words of a text, a flag as one word.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).collect()
}

/// Returns the first words of a step, by which its line is found.
fn first(step: &Step) -> &str {
    let line = step.action.lines().next().unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((end, _)) => line[..end].rsplit_once(' ').map_or(line, |(words, _)| words),
        None => line,
    }
}

/// A case of a verdict test in which a cause was found.
struct Case {
    /// The name, `<playbook>: <the case's name>`.
    name: String,
    observations: Rc<Observations>,
    /// True if the symptom's own check can be inverted.
    invertible: bool,
    /// The index of its file's healthy fleet.
    fleet: usize,
}

/// The healthy fleet of a test file.
struct Fleet {
    /// The playbook under test.
    name: String,
    observations: Observations,
}

/// Returns the steps whose `verify` misleads: it holds although the fault is there, or fails on a healthy fleet.
///
/// A user's cases test only the user's steps, and checks on a signal whose condition the user changes: a value that is
/// normal on the user's fleet may miss a shipped threshold. Shipped cases test the shipped steps, unless a user's file replaces them, and the steps of a user's nodes that no
/// case of the user finds. A check of a user's step also counts as useful if a shipped case needs it.
pub fn verifies(library: &Library) -> Vec<Problem> {
    let own = library.files.values().any(|file| file.own);
    let mut steps = steps(library);
    steps.retain(|owned| !own || owned.is_of_user(library));
    if steps.is_empty() {
        return Vec::new();
    }
    let mut fleets = Vec::new();
    let mut found: BTreeMap<(String, bool), Vec<Case>> = BTreeMap::new();
    for (own, test) in test_files(library).filter_map(|file| Some((file.own, read(library, file).ok()?))) {
        for case in &test.cases {
            let observations = Rc::new(observations(library, &test, case));
            let Some(judged) = judge(library, &test.playbook, &observations) else { continue };
            if judged.symptom != SymptomVerdict::Confirmed {
                continue;
            }
            let invertible = inverted_symptom_check(library, &judged.evidence).is_some();
            let chain = judged.chains.into_iter().next().unwrap_or_default();
            for id in chain.into_iter().chain([test.playbook.clone()]).collect::<BTreeSet<_>>() {
                let name = format!("{}: {}", test.playbook, case.name);
                let case = Case { name, observations: Rc::clone(&observations), invertible, fleet: fleets.len() };
                found.entry((id, own)).or_default().push(case);
            }
        }
        fleets.push(Fleet { name: test.playbook.clone(), observations: healthy(library, &test) });
    }
    let mut problems = Vec::new();
    for owned in steps {
        let of = |own: bool| found.get(&(owned.id.to_owned(), own)).map_or(&[][..], Vec::as_slice);
        let shipped = of(false);
        let cases = if own && !of(true).is_empty() { of(true) } else { shipped };
        if let Some(message) = cannot_tell(library, &owned, cases, shipped, &fleets) {
            problems.extend(owned.problem(library, Lint::TestVerify, message, None));
        }
    }
    problems
}

/// Returns the reason why a step's check cannot show whether it worked.
fn cannot_tell(
    library: &Library,
    owned: &OwnedStep<'_>,
    cases: &[Case],
    shipped: &[Case],
    fleets: &[Fleet],
) -> Option<String> {
    let OwnedStep { id, step, .. } = owned;
    match (&step.verify, step.no_verify) {
        (Some(_), Some(_)) => Some("a step with a `verify` needs no `no_verify`".to_owned()),
        (None, None) => Some("a step has a `verify`, or `no_verify` says why none is possible".to_owned()),
        (None, Some(NoVerify::Symptom)) => {
            let none = !cases.iter().chain(shipped).any(|case| case.invertible);
            none.then(|| {
                format!("in no case in which `{id}` is found the symptom has a check that can be turned round")
            })
        }
        (None, Some(NoVerify::Looks | NoVerify::Prevents | NoVerify::Unseen)) => None,
        (Some(v), None) => misleads(library, owned, v, cases, shipped, fleets),
    }
}

/// Returns the problem of a `verify` that holds with the fault, or fails without it; cases without a value are
/// skipped.
fn misleads(
    library: &Library,
    owned: &OwnedStep<'_>,
    v: &Verify,
    cases: &[Case],
    shipped: &[Case],
    fleets: &[Fleet],
) -> Option<String> {
    let OwnedStep { id, found_by, .. } = owned;
    let checks = v.checks();
    let outcomes = |observations: &Observations| -> Vec<Outcome> {
        checks.iter().map(|check| holds(library, &check.signal, &check.when, observations)).collect()
    };
    let conditions: Vec<String> = checks.iter().map(|check| format!("`{} {}`", check.signal, check.when)).collect();
    let conditions = conditions.join(" or ");
    let has_outcome = |observations: &Observations, what: Outcome| outcomes(observations).contains(&what);
    // A fault that only a log shows is in no signal; the symptom's own check is used there.
    let holds_with = |case: &&Case| {
        let observations = &case.observations;
        !has_outcome(observations, Outcome::NotMet)
            && has_outcome(observations, Outcome::Met)
            && !only_logs_tell(library, found_by, observations)
    };
    let names = |cases: Vec<&str>| cases.join("; ");
    let held: Vec<&str> = cases.iter().filter(holds_with).map(|case| case.name.as_str()).collect();
    if !held.is_empty() {
        return Some(format!("{conditions} holds although `{id}` is found: {}", names(held)));
    }
    // Every check must be the first that does not hold yet in some case, else it is never used.
    let all = || cases.iter().chain(shipped);
    let shown_in = |at: usize| {
        all()
            .any(|case| outcomes(&case.observations).iter().position(|outcome| *outcome == Outcome::NotMet) == Some(at))
    };
    if let Some(useless) = (0..checks.len()).find(|at| !shown_in(*at)) {
        let signal = &checks[useless].signal;
        return Some(format!("`{signal}` shows in none of the {} cases in which `{id}` is found", cases.len()));
    }
    let used: BTreeSet<usize> = cases.iter().map(|case| case.fleet).collect();
    let healthy: Vec<&Fleet> = used.into_iter().filter_map(|fleet| fleets.get(fleet)).collect();
    let missed: Vec<&str> = healthy
        .iter()
        .filter(|fleet| has_outcome(&fleet.observations, Outcome::NotMet))
        .map(|fleet| fleet.name.as_str())
        .collect();
    if !missed.is_empty() {
        return Some(format!("{conditions} does not hold on the healthy fleet of: {}", names(missed)));
    }
    let well =
        all().filter_map(|case| fleets.get(case.fleet)).any(|fleet| has_outcome(&fleet.observations, Outcome::Met));
    (!well).then(|| format!("{conditions} has a value on the healthy fleet of no test that finds `{id}`"))
}

/// Returns true if one of a node's checks is met by logs alone.
fn only_logs_tell(library: &Library, found_by: &[Evidence], observations: &Observations) -> bool {
    found_by.iter().any(|evidence| {
        let met_checks = evidence
            .checks()
            .into_iter()
            .filter(|(signal, when)| holds(library, signal, when, observations) == Outcome::Met);
        let by_log: Vec<bool> =
            met_checks.map(|(signal, _)| library.signals.get(signal).is_some_and(|s| s.is_of_log())).collect();
        !by_log.is_empty() && by_log.iter().all(|log| *log)
    })
}
