//! `llm-diagnose check`: errors in data that loads.

use std::collections::BTreeSet;

use super::file_lint::FileLint;
use super::{acts, endpoints, facts, logs, redaction, signals, steps, tables, tickets};
use crate::generate::told;
use knowledge::playbook::{
    AlertRule, CauseEntry, Condition, Evidence, HEALTHY_FLEET, KINDS, Library, Lint, Playbook, PlaybookKind, Problem,
    QuickCheck, REST, Reference, SourceFile, Step, Verify, is_unfinished, suggestion,
};
use knowledge::signal::{Unit, VersionReq};

/// Returns all problems of the data, in the order of the files.
pub fn lint(library: &Library) -> Vec<Problem> {
    // What is to be filled in is listed line by line.
    let found = library.left_out.iter().filter(|problem| problem.lint != Lint::FilesTodo).chain(&library.remarks);
    let mut problems: Vec<Problem> = found.cloned().collect();
    library.files.values().for_each(|file| unfinished(file, &mut problems));
    signals::signals(library, &mut problems);
    endpoints::endpoints(library, &mut problems);
    health(library, &mut problems);
    facts::facts(library, &mut problems);
    healthy_fleet(library, &mut problems);
    kinds(library, &mut problems);
    tables::tables(library, &mut problems);
    logs::lint(library, &mut problems);
    tickets::tickets(library, &mut problems);
    redaction::redaction(library, &mut problems);
    steps::flags(library, &mut problems);
    steps::lint_no_verify(library, &mut problems);
    acts::acts(library, &mut problems);
    acts::only_for(library, &mut problems);
    for playbook in library.playbooks.values() {
        let path = format!("{}.yaml", playbook.playbook);
        let mut lint = FileLint { library, path: &path, problems: &mut problems };
        lint.evidence(&playbook.playbook, &playbook.symptom);
        lint.steps(playbook.now.iter().chain(&playbook.lasting));
        playbook.causes.iter().for_each(|entry| lint.entry(entry));
        lint.latency(playbook);
        for rule in &playbook.alerts {
            lint.evidence(&rule.alert, &rule.when);
            lint.rule(rule);
            rule.when
                .iter()
                .flat_map(Evidence::checks)
                .for_each(|(signal, _)| lint.of_prometheus(Lint::AlertLogSignal, signal));
        }
        if playbook.kind == PlaybookKind::Symptom && playbook.causes.len() < 2 {
            lint.say(Lint::PlaybookFewCauses, "causes", "a symptom has at least two causes that compete".into(), None);
        }
        if playbook.symptom.is_empty() {
            lint.say(Lint::PlaybookNoSymptom, "symptom", "it has no checks".into(), None);
        }
        lint.folder(playbook);
        let test = format!("{}.test.yaml", playbook.playbook);
        if !library.files.contains_key(&test) {
            let hint = format!("write `{test}` beside it: one case per cause, one healthy");
            lint.say(Lint::PlaybookMissingTest, "playbook", "it has no verdict test beside it".into(), Some(hint));
        }
        if let Some(path) = cycle(library, &playbook.playbook) {
            lint.say(Lint::PlaybookCycle, "causes", format!("its causes lead back to it: {}", path.join(" → ")), None);
        }
    }
    for cause in library.causes.values() {
        let path = format!("causes/{}.yaml", cause.cause);
        let mut lint = FileLint { library, path: &path, problems: &mut problems };
        lint.evidence(&cause.cause, &cause.evidence);
        lint.steps(cause.now.iter().chain(&cause.lasting));
        let used = library.playbooks.values().flat_map(|p| &p.causes).any(|e| e.target() == cause.cause);
        if !used {
            let hint = format!("write `- cause: {}` under `causes:` of a playbook that it explains", cause.cause);
            lint.say(Lint::CauseUnused, "cause", "no playbook has this cause".into(), Some(hint));
        }
    }
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    problems
}

/// Reports every line of a file that is still to be filled in.
pub(super) fn unfinished(file: &SourceFile, problems: &mut Vec<Problem>) {
    for (at, _) in file.text.lines().enumerate().filter(|(_, line)| is_unfinished(line)) {
        problems.push(Problem::on_line(Lint::FilesTodo, file, at + 1, "still to be filled in".into(), None));
    }
}

/// Checks that the healthy fleet has values of existing signals.
fn healthy_fleet(library: &Library, problems: &mut Vec<Problem>) {
    let mut lint = FileLint { library, path: HEALTHY_FLEET, problems };
    for signal in library.healthy_fleet.parts.values().flat_map(|part| part.keys()) {
        lint.known(Lint::HealthyFleetUnknownSignal, signal, ("signal", signal), &library.signals);
    }
}

/// Checks that `health.yaml` names existing signals, and playbooks that have a threshold for them.
fn health(library: &Library, problems: &mut Vec<Problem>) {
    let mut lint = FileLint { library, path: "health.yaml", problems };
    for QuickCheck { signal, playbook } in library.health.headings.iter().flat_map(|heading| &heading.checks) {
        lint.known(Lint::HealthUnknownSignal, signal, ("signal", signal), &library.signals);
        lint.of_prometheus(Lint::HealthLogSignal, signal);
        let Some(id) = playbook else { continue };
        lint.known(Lint::HealthUnknownPlaybook, signal, ("playbook", id), &library.playbooks);
        if library.playbooks.get(id).is_some_and(|playbook| playbook.threshold(signal).is_none()) {
            let message = format!("the symptom of `{id}` compares `{signal}` with no number");
            lint.say(Lint::HealthNoThreshold, signal, message, Some("leave `playbook` out: a number to know".into()));
        }
    }
    for (signal, when) in library.health.idle.iter().flat_map(Evidence::checks) {
        lint.condition(signal, when);
        lint.of_prometheus(Lint::HealthLogSignal, signal);
    }
}

/// Checks that `kinds.yaml` names existing signals and playbooks.
fn kinds(library: &Library, problems: &mut Vec<Problem>) {
    let mut lint = FileLint { library, path: KINDS, problems };
    for kind in &library.kinds.kinds {
        if library.kinds.kinds.iter().filter(|other| other.kind == kind.kind).count() > 1 {
            lint.say(Lint::KindsTwice, &kind.kind, format!("the kind `{}` is listed twice", kind.kind), None);
        }
        if kind.when.is_empty() {
            let message = format!("the kind `{}` has no condition, so that every pool would be of it", kind.kind);
            lint.say(Lint::KindsNoCondition, &kind.kind, message, None);
        }
        if let Some(Err(why)) = kind.moves_limits().then(|| told(library, kind)).filter(|_| !kind.when.is_empty()) {
            let message = format!("the kind `{}` moves limits and cannot become a rule: {why}", kind.kind);
            lint.say(Lint::KindsNoRule, &kind.kind, message, None);
        }
        for (signal, factor) in kind.factors.iter().filter(|(_, factor)| !(factor.is_finite() && **factor > 0.0)) {
            let message = format!("`{signal}: {factor}` is no factor of a limit: expected a number above 0");
            lint.say(Lint::KindsFactor, signal, message, None);
        }
        for signal in kind.factors.keys() {
            lint.known(Lint::KindsUnknownSignal, signal, ("signal", signal), &library.signals);
        }
        for id in &kind.by_past {
            lint.known(Lint::KindsUnknownPlaybook, id, ("playbook", id), &library.playbooks);
        }
    }
    for (signal, when) in library.kinds.kinds.iter().flat_map(|kind| &kind.when).flat_map(Evidence::checks) {
        lint.condition(signal, when);
        lint.of_prometheus(Lint::HealthLogSignal, signal);
    }
}

impl FileLint<'_> {
    /// Checks that a playbook of one kind is not in the folder of the other.
    fn folder(&mut self, playbook: &Playbook) {
        let folder = self.library.files.get(self.path).and_then(|file| file.folder);
        if let Some(other) = folder.filter(|kind| *kind != playbook.kind).map(PlaybookKind::folder) {
            let hint = format!("move it and its test to `{}/`", playbook.kind.folder());
            self.say(Lint::PlaybookFolder, "kind", format!("`{other}/` is for {other}"), Some(hint));
        }
    }

    /// Checks that the signal comes from Prometheus, as alert rules and `health` need; logs are not read for them.
    fn of_prometheus(&mut self, lint: Lint, signal: &str) {
        if self.library.signals.get(signal).is_some_and(|signal| signal.is_of_log()) {
            let hint = "use a signal that Prometheus has; logs are read once an alert fires".to_owned();
            self.say(lint, signal, format!("only logs tell `{signal}`"), Some(hint));
        }
    }

    fn entry(&mut self, entry: &CauseEntry) {
        let set = [&entry.cause, &entry.playbook, &entry.id].iter().filter(|id| id.is_some()).count();
        if set != 1 {
            let message = "an entry names exactly one of `cause`, `playbook` and `id`".to_owned();
            return self.say(Lint::PlaybookEntry, "causes", message, None);
        }
        if let Some(id) = &entry.cause
            && !self.library.causes.contains_key(id)
        {
            let mut hint = suggestion(id, self.library.causes.keys().map(String::as_str));
            if self.library.playbooks.contains_key(id) {
                hint = Some(format!("it is a playbook: write `playbook: {id}`"));
            }
            self.say(Lint::PlaybookUnknownCause, id, format!("unknown cause `{id}`"), hint);
        }
        if let Some(id) = &entry.playbook
            && !self.library.playbooks.contains_key(id)
        {
            let mut hint = suggestion(id, self.library.playbooks.keys().map(String::as_str));
            if self.library.causes.contains_key(id) {
                hint = Some(format!("it is a leaf: write `cause: {id}`"));
            }
            self.say(Lint::PlaybookUnknownPlaybook, id, format!("unknown playbook `{id}`"), hint);
        }
        if let Some(id) = &entry.id {
            if entry.title.is_none() || entry.evidence.is_empty() {
                self.say(Lint::PlaybookEntry, id, format!("cause `{id}` needs a `title` and `evidence`"), None);
            }
            self.evidence(id, &entry.evidence);
            self.steps(entry.now.iter().chain(&entry.lasting));
        }
    }

    /// Checks that a latency and its parts are known signals in seconds, and that causes explain existing parts.
    fn latency(&mut self, playbook: &Playbook) {
        let parts = || playbook.latency.iter().flat_map(|latency| &latency.parts).map(|part| part.signal.as_str());
        for signal in playbook.latency.iter().map(|latency| latency.signal.as_str()).chain(parts()) {
            match self.library.signals.get(signal) {
                Some(signal) if signal.unit == Unit::Seconds => {}
                Some(_) => self.say(Lint::PlaybookLatency, signal, format!("`{signal}` is not in seconds"), None),
                None => self.known_signal(signal),
            }
        }
        for name in playbook.causes.iter().flat_map(|entry| &entry.explains) {
            let rest = (!playbook.latency.is_empty()).then_some(REST);
            if !parts().chain(rest).any(|part| part == name) {
                let hint = format!("name a signal of its `latency: parts:`, or `{REST}`");
                let message = format!("`explains: {name}` is no part of this playbook's latency");
                self.say(Lint::PlaybookExplains, name, message, Some(hint));
            }
        }
    }

    fn evidence(&mut self, of: &str, list: &[Evidence]) {
        for evidence in list {
            let single = evidence.signal.is_some() && evidence.when.is_some() && evidence.any.is_empty();
            let several = evidence.signal.is_none() && evidence.when.is_none() && !evidence.any.is_empty();
            if !single && !several {
                let message = format!("evidence of `{of}` needs either `signal` with `when`, or `any`");
                self.say(Lint::EvidenceShape, of, message, None);
            }
            if evidence.weight <= 0.0 || !evidence.weight.is_finite() {
                self.say(Lint::EvidenceWeight, of, format!("evidence of `{of}`: a weight is above 0"), None);
            }
            let past = evidence.checks().iter().any(|(_, when)| when.needs_baseline());
            if evidence.without_past || (!past && evidence.any.iter().any(|e| e.without_past)) {
                let message =
                    format!("evidence of `{of}`: `without_past` is beside an alternative that compares with the past");
                self.say(Lint::EvidenceWithoutPast, of, message, None);
            }
            if evidence.optional || (!evidence.any.is_empty() && evidence.any.iter().all(|e| e.optional)) {
                let message =
                    format!("evidence of `{of}`: `optional` is at an alternative, beside one that is not optional");
                self.say(Lint::EvidenceOptional, of, message, None);
            }
            for (signal, when) in evidence.checks() {
                self.condition(signal, when);
            }
        }
        // An alert's rule needs all of its checks in any case.
        let alert = self.library.playbooks.values().flat_map(|p| &p.alerts).any(|rule| rule.alert == of);
        if !alert && !list.is_empty() && list.len() < 2 && !list.iter().any(|e| e.required) {
            let message = format!("`{of}` rests on a single check that is not `required`");
            self.say(Lint::EvidenceThin, of, message, Some("mark it `required: true` or add a second check".into()));
        }
    }

    fn known_signal(&mut self, signal: &str) {
        self.known(Lint::PlaybookUnknownSignal, signal, ("signal", signal), &self.library.signals);
    }

    fn condition(&mut self, signal: &str, when: &Condition) {
        let Some(definition) = self.library.signals.get(signal) else {
            return self.known_signal(signal);
        };
        for comparison in when.comparisons() {
            if let Reference::Number(n) = comparison.to
                && definition.unit == Unit::Ratio
                && !(-1.0..=1.0).contains(&n)
            {
                let message = format!("`{signal}` is a ratio, 0..1, and is compared with {n}");
                self.say(Lint::EvidenceUnit, &when.to_string(), message, Some(format!("write {}", n / 100.0)));
            }
        }
    }

    fn rule(&mut self, rule: &AlertRule) {
        let AlertRule { alert, hold, when, over, .. } = rule;
        if humantime::parse_duration(hold).is_err() {
            let message = format!("alert `{alert}`: `for: {hold}` is no duration");
            self.say(Lint::AlertFor, hold, message, Some("write it like `5m`".into()));
        }
        let relative = |c: &Condition| c.needs_peers() || c.comparisons().is_empty();
        let is_absence = |e: &Evidence| e.when == Some(Condition::NoData);
        let (first, rest) = when.split_at(when.len().min(1));
        let compared = first.iter().chain(rest.iter().filter(|evidence| !is_absence(evidence)));
        if compared.flat_map(Evidence::checks).any(|(_, c)| relative(c)) {
            let message = format!("alert `{alert}`: only comparisons with numbers and with the past can become a rule");
            self.say(Lint::AlertCondition, alert, message, None);
        }
        let burns = |signal: &String| self.library.signals.get(signal).is_some_and(|signal| signal.burn.is_some());
        let is_burn = matches!(when.as_slice(), [one] if one.signal.as_ref().is_some_and(burns));
        let is_time = |over: &str| {
            let number = over.strip_suffix(['h', 'd']).and_then(|number| number.parse::<u32>().ok());
            number.is_some_and(|number| number > 0)
        };
        if over.as_deref().is_some_and(|over| !is_burn || !is_time(over)) {
            let message = format!("alert `{alert}`: `over` needs a time like `1d` and one condition, on a burn rate");
            self.say(Lint::AlertCondition, alert, message, None);
        }
    }

    fn steps<'a>(&mut self, steps: impl Iterator<Item = &'a Step>) {
        for step in steps {
            let place = steps::place(self.library, self.path, step);
            let mut say = |message: String, hint: Option<String>| {
                let at = |(file, line)| Problem::on_line(Lint::StepEngine, file, line, message, hint);
                self.problems.extend(place.map(at));
            };
            let req = step.engine.as_deref().map(str::parse::<VersionReq>);
            match &req {
                Some(Err(error)) => say(error.clone(), Some("write `vllm >= 0.8`".into())),
                Some(Ok(req)) if !self.library.engines.contains_key(&req.engine) => {
                    let hint = suggestion(&req.engine, self.library.engines.keys().map(String::as_str));
                    say(format!("unknown engine `{}`", req.engine), hint);
                }
                _ => {}
            }
            for verify in step.verify.iter().chain(&step.only_if).flat_map(Verify::checks) {
                self.condition(&verify.signal, &verify.when);
            }
        }
    }
}

/// Returns a path of ids from `start` back to itself.
fn cycle(library: &Library, start: &str) -> Option<Vec<String>> {
    fn walk(library: &Library, at: &str, start: &str, path: &mut Vec<String>, visited: &mut BTreeSet<String>) -> bool {
        let Some(playbook) = library.playbooks.get(at) else { return false };
        for next in playbook.causes.iter().filter_map(|entry| entry.playbook.as_deref()) {
            path.push(next.to_owned());
            if next == start || (visited.insert(next.to_owned()) && walk(library, next, start, path, visited)) {
                return true;
            }
            path.pop();
        }
        false
    }
    let mut path = vec![start.to_owned()];
    walk(library, start, start, &mut path, &mut BTreeSet::new()).then_some(path)
}
